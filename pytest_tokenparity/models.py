"""A configured model at work: its tokenizer, its vocabulary and its engines, each made when first needed, once."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .config import Config, EngineConfig, ModelConfig, expand
from .engines import build_engine
from .errors import ConfigError, EngineError, EngineUnreachable
from .yaml12 import shown

if TYPE_CHECKING:
    from .engines.base import Engine, Rendering, TokenRenderer, Wait
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
        self._tokenizer_error: EngineError | None = None

    @cached_property
    def _tokenizer(self) -> Any:
        from .engines.transformers import load_tokenizer

        places = self.settings.places
        source = self._source()
        revision = None
        if isinstance(source, str) and self.settings.revision:
            revision = expand(self.settings.revision, places["revision"])
        try:
            return load_tokenizer(source, revision)
        except EngineError as error:
            raise EngineError(f"{places['tokenizer']}: {error}") from None

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
        if _looks_like_path(source):
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
        except (EngineError, ConfigError) as error:
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
        file = self._file()
        if file is not None:
            return hashlib.sha256(file.read_bytes()).hexdigest()
        from .engines.transformers import tokenizer_sha256

        return tokenizer_sha256(self.tokenizer())

    @property
    def reference(self) -> Engine:
        """The engine that records the golden."""
        return self.engine(self.settings.reference.name)

    def engine(self, name: str) -> Engine:
        """A configured engine. ConfigError if there is no such name, EngineError if it cannot be made."""
        key = (name, self.scope)
        if key in self.failed:
            raise self.failed[key]
        if key not in self._engines:
            settings = self.settings.engine(name)
            try:
                self._engines[key] = self._make(settings)
            except (EngineError, ConfigError) as error:
                self.failed[key] = error if isinstance(error, EngineError) else EngineError(str(error))
                raise self.failed[key] from None
        return self._engines[key]

    def render(self, name: str, request: Request) -> Rendering:
        """Render through a configured engine. One that cannot be reached is not asked again."""
        from .engines.base import checked_render

        engine = self.engine(name)
        try:
            return checked_render(engine, name, request)
        except EngineUnreachable as error:
            self.failed[name, self.scope] = error
            raise

    def used_engines(self) -> list[Engine]:
        """The engines that were made and can be asked."""
        return [engine for key, engine in self._engines.items() if key not in self.failed]

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()

    def _make(self, settings: EngineConfig) -> Engine:
        from .engines.base import Engine, RendererEngine, TokenRenderer, raised

        options = expand(dict(settings.options), settings.place)
        try:
            own = self.custom(self.settings.name, settings.name, options)
        except (EngineError, ConfigError):
            raise
        except (Exception, SystemExit) as error:
            raise EngineError(f"{settings.place}: the hook pytest_tokenparity_engine raised {raised(error)}") from error
        if own is not None:
            if isinstance(own, Engine):
                own.name = settings.name
                return own
            if isinstance(own, type) or not isinstance(own, TokenRenderer):
                raise EngineError(
                    f"{settings.place}: the hook pytest_tokenparity_engine gave "
                    + (
                        f"the class {own.__name__}: give one of it, {own.__name__}(...)"
                        if isinstance(own, type)
                        else f"{type(own).__name__}, which has no `name` and `ids`"
                    )
                )
            return RendererEngine(own, settings.name)
        try:
            return build_engine(
                settings.name,
                settings.type,
                options,
                place=settings.place,
                folder=self.config.folder,
                wait=self.wait,
                local=self._local,
                reference=lambda: self._reference_for(settings),
            )
        except EngineError as error:
            if _HAS_PLACE.match(str(error)):
                raise
            raise EngineError(f"{settings.place}: {error}") from None

    def _local(self, name: str) -> Engine:
        from .engines.transformers import TransformersTokens

        settings = self.settings
        return TransformersTokens(
            self.tokenizer(),
            name=name,
            template=self.template,
            clock=settings.clock,
            place=settings.places["tokenizer"],
            template_file=shown(self._template_file()) if settings.template else "",
        )

    def _reference_for(self, settings: EngineConfig) -> Engine:
        if settings.name == self.settings.reference.name:
            raise EngineError(f"{settings.place}: the reference cannot render as itself; give `render:`")
        return self.reference


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # ~somebody who is not known here
        return Path(text)


def _looks_like_path(source: str) -> bool:
    """Whether a tokenizer's name can only be a folder: a Hub id is ``name`` or ``owner/name``."""
    return source.startswith((".", "/", "~", os.sep)) or source.count("/") > 1 or "\\" in source


def version_of(engine: Engine) -> str:
    """What an engine says it is. EngineError if it cannot say."""
    from .engines.base import raised

    try:
        return str(engine.version())
    except EngineError:
        raise
    except Exception as error:
        raise EngineError(f"the engine {engine.name!r}: `version` raised {raised(error)}") from error
