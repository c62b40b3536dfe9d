"""A configured model at work: its tokenizer, its vocabulary and its engines, each made when first needed, once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .config import Config, EngineConfig, ModelConfig, expand
from .engines import Surroundings, build_engine
from .errors import EngineError, EngineUnreachable, TokenParityError
from .yaml12 import shown

if TYPE_CHECKING:
    from .engines.ahead import Ahead
    from .engines.base import Engine, Rendering, TokenRenderer, Wait
    from .engines.mistral_common import MistralCommonTokens
    from .engines.tokenizers import TokenizerFiles
    from .request import Request
    from .vocabulary import Vocabulary

_HAS_PLACE = re.compile(r"\S+:\d+: ")
CustomEngine = Callable[[str, str, Mapping[str, Any]], "TokenRenderer | None"]
"""``(model, name, options)`` to an engine of somebody else's, or None."""


class Model:
    """One model of the configuration. What cannot be made is not tried again: its error is kept."""

    def __init__(self, config: Config, settings: ModelConfig, custom: CustomEngine, wait: Wait) -> None:
        self.config = config
        self.settings = settings
        self.custom = custom
        self.wait = wait
        self.scope = ""
        """The folder whose conftests give engines of somebody else's."""
        self.failed: dict[tuple[str, str], EngineError] = {}
        self._engines: dict[tuple[str, str], Engine] = {}
        self._plans: dict[str, Sequence[Request]] = {}
        self._ahead: dict[str, Ahead] = {}
        self._tokenizer_error: EngineError | None = None

    @cached_property
    def _tokenizer(self) -> Any:
        from .engines.transformers import load_tokenizer

        source, revision = self._source(), self._revision()
        try:
            return load_tokenizer(source, revision)
        except EngineError as error:
            raise EngineError(f"{self.settings.places['tokenizer']}: {error}") from None

    def _revision(self) -> str | None:
        """The revision of a tokenizer that comes from the Hub."""
        revision = self.settings.revision
        return str(expand(revision, self.settings.places["revision"])) if revision else None

    def _source(self) -> Path | str:
        """Where the tokenizer comes from: a folder, or a Hub id."""
        place = self.settings.places["tokenizer"]
        source = str(expand(self.settings.tokenizer, place))
        folder = self.config.folder / _path(source)
        try:
            if folder.is_dir():
                return folder
        except (OSError, ValueError):  # a name that no disk takes
            raise EngineError(f"{place}: {source[:80]!r} is no name of a folder") from None
        from .engines.tokenizers import looks_like_path

        if looks_like_path(source):
            raise EngineError(f"{place}: the folder {source} is not there (looked at {folder})")
        return source

    def _file(self) -> Path | None:
        """The tokenizer.json of a tokenizer that is a folder, or None."""
        source = self._source()
        file = source / "tokenizer.json" if isinstance(source, Path) else None
        return file if file and file.is_file() else None

    def tokenizer(self) -> Any:
        """The model's Transformers tokenizer. EngineError if there is none."""
        if self._tokenizer_error:
            raise self._tokenizer_error
        try:
            return self._tokenizer
        except TokenParityError as error:
            self._tokenizer_error = EngineError(str(error))
            raise self._tokenizer_error from None

    @cached_property
    def template(self) -> str | None:
        """The text of the template that overrides the tokenizer's own, or None."""
        if self.settings.template is None:
            return None
        place = self.settings.places["template"]
        file = self._template_file()
        try:
            return file.read_text(encoding="utf-8")
        except OSError as error:
            raise EngineError(f"{place}: {file} cannot be read: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise EngineError(f"{place}: {file} is not UTF-8") from None

    def _template_file(self) -> Path:
        place = self.settings.places["template"]
        return self.config.folder / _path(str(expand(self.settings.template, place)))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """What the model's tokens stand for. EngineError if there is no tokenizer.

        Where Transformers is the reference it is loaded anyway; elsewhere the file is enough, and seconds faster.
        """
        from .vocabulary import Vocabulary

        if self.settings.reference.type == "mistral-common":
            return self._mistral.vocabulary
        if self.settings.reference.type == "tokenizers":
            return self._files().vocabulary
        file = self._file()
        if file is None or self.settings.reference.type == "transformers":
            return Vocabulary.of(self.tokenizer())
        try:
            return Vocabulary.of_file(file)
        except EngineError as error:
            raise EngineError(f"{self.settings.places['tokenizer']}: {error}") from None

    @cached_property
    def tokenizer_sha256(self) -> str:
        """The SHA-256 of the tokenizer's ``tokenizer.json``. EngineError if there is no tokenizer."""
        if self.settings.reference.type == "mistral-common":
            return hashlib.sha256(self._mistral.file.read_bytes()).hexdigest()
        file = self._file()
        if file is not None:
            try:
                return hashlib.sha256(file.read_bytes()).hexdigest()
            except OSError as error:
                place = self.settings.places["tokenizer"]
                raise EngineError(f"{place}: {shown(file)} cannot be read: {error.strerror or error}") from None
        from .engines.transformers import tokenizer_sha256

        return tokenizer_sha256(self.tokenizer())

    @property
    def reference(self) -> Engine:
        """The engine that records the golden."""
        return self.engine(self.settings.reference.name)

    @property
    def _mistral(self) -> MistralCommonTokens:
        """The reference, where it is mistral-common: it brings its own tokenizer."""
        from .engines.mistral_common import MistralCommonTokens

        reference = self.reference
        if not isinstance(reference, MistralCommonTokens):  # a hook gave another engine of that name
            raise EngineError(f"{self.settings.reference.place}: mistral-common is another engine here")
        return reference

    def engine(self, name: str) -> Engine:
        """A configured engine. ConfigError if there is no such name, EngineError if it cannot be made."""
        key = (name, self.scope)
        if key in self.failed:
            raise self.failed[key]
        if key not in self._engines:
            settings = self.settings.engine(name)
            try:
                self._engines[key] = self._make(settings)
            except TokenParityError as error:
                self.failed[key] = error if isinstance(error, EngineError) else EngineError(str(error))
                raise self.failed[key] from None
        return self._engines[key]

    def render(self, name: str, request: Request) -> Rendering:
        """Render through a configured engine. One that cannot be reached is not asked again."""
        from .engines.base import checked_render

        engine = self.engine(name)
        try:
            ahead = self._ahead_of(name, engine)
            rendering = ahead.render(request) if ahead else checked_render(engine, name, request)
            if rendering.ids is not None and not rendering.ids and request.messages:
                raise EngineError(f"the engine {name!r} rendered no token at all: did it take the messages?")
            return rendering
        except EngineUnreachable as error:
            self.failed[name, self.scope] = error
            if name in self._ahead:
                self._ahead[name].close()
            raise

    def plan(self, name: str, requests: Sequence[Request]) -> None:
        """The requests that a run will ask of an engine, in order: a server is sent them side by side."""
        self._plans[name] = requests

    def _ahead_of(self, name: str, engine: Engine) -> Ahead | None:
        """What sends the requests of an engine ahead; None for one that is no server of ours, or has one request."""
        if engine.concurrency and name not in self._ahead and len(self._plans.get(name, ())) > 1:
            from .engines.ahead import Ahead

            self._ahead[name] = Ahead(engine, self._plans[name], engine.concurrency)
        found = self._ahead.get(name)
        return found if found and found.engine is engine else None

    def used_engines(self) -> list[Engine]:
        """The engines that were made and can be asked."""
        return [engine for key, engine in self._engines.items() if key not in self.failed]

    def close(self) -> None:
        for ahead in self._ahead.values():
            ahead.close()
        for engine in self._engines.values():
            engine.close()

    def _make(self, settings: EngineConfig) -> Engine:
        from .engines.base import asked, named_engine

        options = expand(dict(settings.options), settings.place)
        own: Any = asked(
            f"{settings.place}: the hook pytest_tokenparity_engine",
            lambda: self.custom(self.settings.name, settings.name, options),
        )
        if own is not None:
            engine = named_engine(own, settings.name)
            if engine is None:
                raise EngineError(
                    f"{settings.place}: the hook pytest_tokenparity_engine gave "
                    + (
                        f"the class {own.__name__}: give one of it, {own.__name__}(...)"
                        if isinstance(own, type)
                        else f"{type(own).__name__}, which has no `name` and `ids`"
                    )
                )
            return engine
        try:
            return build_engine(
                settings.name,
                settings.type,
                options,
                Surroundings(
                    settings.place,
                    self.config.folder,
                    self.wait,
                    self.settings.name,
                    self._local,
                    lambda: self._reference_for(settings),
                    self._files,
                    lambda: str(expand(self.settings.tokenizer, self.settings.places["tokenizer"])),
                ),
            )
        except EngineError as error:
            if _HAS_PLACE.match(str(error)):
                raise
            if isinstance(error, EngineUnreachable):
                raise EngineUnreachable(f"{settings.place}: {error}", error.advice) from None
            raise EngineError(f"{settings.place}: {error}") from None

    def _files(self) -> TokenizerFiles:
        """The model's tokenizer as its files give it, without Transformers."""
        from .engines.tokenizers import read_files
        from .engines.transformers import assert_hub, quiet_hub

        source, revision = self._source(), self._revision()
        try:
            if isinstance(source, str):
                assert_hub(source, revision)
            with quiet_hub():
                return read_files(source, revision)
        except EngineError as error:
            raise EngineError(f"{self.settings.places['tokenizer']}: {error}") from None

    def _local(self, type_: str, name: str) -> Engine:
        settings = self.settings
        common: dict[str, Any] = {
            "name": name,
            "template": self.template,
            "clock": settings.clock,
            "place": settings.places["tokenizer"],
            "template_file": shown(self._template_file()) if settings.template else "",
        }
        if type_ == "transformers":
            from .engines.transformers import TransformersTokens

            return TransformersTokens(self.tokenizer(), **common)
        from .engines.tokenizers import TokenizersTokens

        return TokenizersTokens(self._files(), **common)

    def _reference_for(self, settings: EngineConfig) -> Engine:
        if settings.name == self.settings.reference.name:
            raise EngineError(f"{settings.place}: the reference cannot render as itself; give `render:`")
        return self.reference


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # ~somebody who is not known here
        return Path(text)
