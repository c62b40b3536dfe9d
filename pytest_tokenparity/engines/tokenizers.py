"""Jinja2 and the `tokenizers` library in this process, without Transformers: the same IDs, several times sooner."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..chat_template import Conventions, TemplateEnvironment, no_template, render
from ..errors import EngineError, RequestRefused
from ..request import Request
from ..vocabulary import Vocabulary
from .base import Engine, Rendering, one_line

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""The special tokens that a template can name, as Transformers gives them."""


@dataclass(frozen=True)
class TokenizerFiles:
    """What of a model's files a prompt is made with: tokenizer, templates by name, and special tokens by name."""

    tokenizer: Tokenizer
    templates: Mapping[str, str]
    """``default``, and beside it such as ``tool_use``."""
    special: Mapping[str, str] = field(default_factory=dict)
    state: str | None = None
    """The tokenizer as JSON, where it was read from a file."""

    @classmethod
    def read(cls, folder: Path) -> TokenizerFiles:
        """Read ``tokenizer.json``, ``tokenizer_config.json`` and the template files of a folder, as Transformers does.

        EngineError says which file is missing or unusable.
        """
        from tokenizers import AddedToken, Tokenizer

        file = folder / "tokenizer.json"
        if not folder.is_dir():
            raise EngineError(f"the tokenizer folder {folder} is not there")
        try:
            state = file.read_text(encoding="utf-8")
        except OSError as error:
            raise EngineError(f"the folder {folder} holds no readable tokenizer.json: {error.strerror}") from None
        except UnicodeDecodeError:
            raise EngineError(f"{file} is not UTF-8") from None
        try:
            tokenizer = Tokenizer.from_str(state)
        except Exception as error:  # tokenizers raises plain Exception
            raise EngineError(f"{file} cannot be read as a tokenizer: {one_line(str(error))}") from None
        tokenizer.no_truncation()
        tokenizer.no_padding()
        settings = _settings(folder / "tokenizer_config.json")
        tokenizer.encode_special_tokens = bool(settings.get("split_special_tokens"))
        try:
            special = {name: text for name in SPECIAL_TOKENS if (text := _content(settings.get(name))) is not None}
            added = tokenizer.add_tokens([AddedToken(**entry) for entry in _only_in_settings(settings, tokenizer)])
            templates = _templates(folder, settings)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise EngineError(
                f"{folder / 'tokenizer_config.json'} is not what a tokenizer is configured with: {one_line(repr(error))}"
            ) from None
        return cls(tokenizer, templates, special, None if added else state)

    @classmethod
    def of_transformers(cls, tokenizer: Any) -> TokenizerFiles | None:
        """What a loaded Transformers tokenizer holds; None for one that is not built on `tokenizers`."""
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            return None
        own = tokenizer.chat_template
        templates = dict(own) if isinstance(own, Mapping) else {"default": own} if own else {}
        return cls(backend, templates, dict(tokenizer.special_tokens_map))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """What the tokens stand for."""
        return Vocabulary.of_backend(self.tokenizer)

    @cached_property
    def added(self) -> Mapping[str, int]:
        """The added tokens (special ones and others) with their IDs."""
        return {entry.content: number for number, entry in self.tokenizer.get_added_tokens_decoder().items()}

    @cached_property
    def special_added(self) -> frozenset[str]:
        """The added tokens that are special."""
        return frozenset(entry.content for entry in self.tokenizer.get_added_tokens_decoder().values() if entry.special)

    @property
    def bos(self) -> str | None:
        return self.special.get("bos_token")

    @property
    def eos(self) -> str | None:
        return self.special.get("eos_token")

    def encode(self, text: str) -> list[int]:
        """The IDs of a text: special tokens are parsed, none are added."""
        try:
            return list(self.tokenizer.encode(text, add_special_tokens=False).ids)
        except TypeError:  # half of a surrogate pair
            raise RequestRefused("the prompt is no text that can be encoded") from None

    @cached_property
    def adds_bos(self) -> bool:
        """Whether the tokenizer puts a BOS before a text that is encoded with special tokens."""
        bos = self.added.get(self.bos or "")
        return bos is not None and list(self.tokenizer.encode("").ids)[:1] == [bos]

    def encode_prompt(self, text: str, parse_special: bool = True) -> list[int]:
        """The IDs of a prompt as a server of llama.cpp's kind makes them: one BOS if the tokenizer adds it."""
        bos = self.bos if self.adds_bos else None
        if bos is None:
            return self._encode(text, parse_special)
        return [self.added[bos], *self._encode(text.removeprefix(bos), parse_special)]

    def _encode(self, text: str, parse_special: bool) -> list[int]:
        if parse_special:
            return self.encode(text)
        return list(self.plain.encode(text, add_special_tokens=False).ids)

    @cached_property
    def plain(self) -> Tokenizer:
        """The same tokenizer, which parses no special tokens: one of its own, for threads share the other."""
        from tokenizers import Tokenizer

        made = Tokenizer.from_str(self.tokenizer.to_str())
        made.encode_special_tokens = True
        return made


class TokenizersTokens(Engine):
    """IDs from Jinja2 and `tokenizers`, equal to those of Transformers' ``apply_chat_template``.

    ``tokenizer`` is a folder with ``tokenizer.json`` and ``tokenizer_config.json``, a Hub id, or the files already read.
    ``template`` overrides the tokenizer's own chat template (its text, or the name of one of several); ``clock`` is what
    ``strftime_now`` sees (None: the real clock). What a template raises is a refusal. EngineError: no tokenizer, no
    template, or a template with a syntax error.
    """

    def __init__(
        self,
        tokenizer: str | Path | TokenizerFiles,
        *,
        name: str = "tokenizers",
        template: str | None = None,
        clock: datetime | None = None,
        revision: str | None = None,
        conventions: Conventions | None = None,
        place: str = "",
        template_file: str = "",
    ) -> None:
        self.name = name
        self.files = tokenizer if isinstance(tokenizer, TokenizerFiles) else read_files(tokenizer, revision)
        self.template = template
        self.clock = clock
        self.environment = TemplateEnvironment(
            variables=self.files.special, clock=clock, conventions=conventions or Conventions()
        )
        self._place = place or name
        self._template_file = template_file

    def render(self, request: Request) -> Rendering:
        try:
            text = self.text(request)
            return Rendering(ids=self.files.encode(text), text=text)
        except RequestRefused as refusal:
            return Rendering(refused=str(refusal))

    def text(self, request: Request) -> str:
        return self.compose(request, self.environment)

    def compose(self, request: Request, environment: TemplateEnvironment) -> str:
        """The prompt's text in another environment. RequestRefused, EngineError as for :meth:`render`."""
        from jinja2 import TemplateSyntaxError

        template = environment.template or self.template_for(request)
        try:
            return render(template, request, environment)
        except (TemplateSyntaxError, SyntaxError) as error:
            raise no_template(error, self._place, self._template_file) from None

    def template_for(self, request: Request) -> str:
        """The chat template that this request is rendered with. EngineError if there is none."""
        templates = self.files.templates
        if self.template is not None:
            return templates.get(self.template, self.template)
        if request.tools is not None and "tool_use" in templates:
            return templates["tool_use"]
        if "default" in templates:
            return templates["default"]
        if templates:
            raise EngineError(
                f"{self._place}: the tokenizer has the chat templates {', '.join(sorted(templates))} and no default; "
                "choose one with `template:`"
            )
        raise EngineError(f"{self._place}: the tokenizer has no chat template; give one with `template:`")

    def version(self) -> str:
        return f"tokenizers {version('tokenizers')} with jinja2 {version('jinja2')}"


def read_files(source: str | Path, revision: str | None = None) -> TokenizerFiles:
    """A tokenizer's files from a folder or the Hub, read once in a process."""
    folder = Path(source)
    if folder.is_dir() or isinstance(source, Path):
        key = folder.resolve(), _stamp(folder)
        if key not in _READ:
            _READ[key] = TokenizerFiles.read(folder)
        return _READ[key]
    if looks_like_path(source):
        raise EngineError(f"the tokenizer folder {source} is not there")
    return TokenizerFiles.read(_from_hub(source, revision))


_Stamp = tuple[tuple[str, int, int], ...]
_READ: dict[tuple[Path, _Stamp], TokenizerFiles] = {}


def _stamp(folder: Path) -> _Stamp:
    """What tells that a file of the folder changed."""
    try:
        files = [*folder.iterdir(), *(folder / "additional_chat_templates").glob("*.jinja")]
        return tuple(sorted((file.name, (seen := file.stat()).st_mtime_ns, seen.st_size) for file in files))
    except OSError:
        return ()


def _from_hub(source: str, revision: str | None) -> Path:
    """The folder of the Hub's cache that holds the files of a model."""
    from huggingface_hub import snapshot_download  # which `tokenizers` itself requires

    wanted = ["tokenizer.json", "tokenizer_config.json", "*.jinja", "additional_chat_templates/*.jinja"]
    try:
        return Path(snapshot_download(source, revision=revision, allow_patterns=wanted))
    except Exception as error:  # what a missing model, a gated one or no network raises differs by version
        reason = one_line(str(error).partition("\n")[0], 160).rstrip(".")
        raise not_from_hub(source, revision, reason) from None


def not_from_hub(source: str, revision: str | None, reason: str) -> EngineError:
    """No tokenizer under a name: what was not there as a folder was looked for on the Hub."""
    where = f"the Hub's {source}" + (f" at {revision}" if revision else "")
    first = "" if "/" in source else f"there is no folder {source}, and "
    return EngineError(
        f"{first}no tokenizer from {where}: {reason}; a folder is given as a path relative to the configuration, such as "
        f"./{source}"
    )


def looks_like_path(source: str) -> bool:
    """Whether a tokenizer's name can only be a folder: a Hub id is ``name`` or ``owner/name``."""
    return source.startswith((".", "/", "~", os.sep)) or source.count("/") > 1 or "\\" in source


def _settings(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineError(f"{file} cannot be read: {one_line(str(error))}") from None
    if not isinstance(settings, dict):
        raise EngineError(f"{file} must hold a JSON object")
    return settings


def _templates(folder: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Template files come before what tokenizer_config.json holds, which is one template or a list with names."""
    files = {"default": folder / "chat_template.jinja"}
    files |= {file.stem: file for file in sorted((folder / "additional_chat_templates").glob("*.jinja"))}
    try:
        found = {name: file.read_text(encoding="utf-8") for name, file in files.items() if file.is_file()}
    except (OSError, UnicodeDecodeError) as error:
        raise EngineError(f"a chat template of {folder} cannot be read: {one_line(str(error))}") from None
    own = settings.get("chat_template")
    if found or own is None:
        return found
    named = {entry["name"]: entry["template"] for entry in own} if isinstance(own, list) else own
    templates = dict(named) if isinstance(named, Mapping) else {"default": named}
    if not all(isinstance(template, str) for template in templates.values()):
        raise TypeError("chat_template is no text")
    return templates


def _only_in_settings(settings: Mapping[str, Any], tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """The added tokens that tokenizer.json does not have: those listed by ID, then special ones."""
    known = {entry.content for entry in tokenizer.get_added_tokens_decoder().values()}
    listed = settings.get("added_tokens_decoder") or {}
    entries = [dict(entry) for _, entry in sorted(listed.items(), key=lambda item: int(item[0]))]
    tokens = [settings.get(name) for name in SPECIAL_TOKENS]
    for name in ("additional_special_tokens", "extra_special_tokens"):
        more = settings.get(name) or ()
        tokens += more.values() if isinstance(more, Mapping) else more
    entries += [{"content": text, "special": True} for token in tokens if (text := _content(token))]
    wanted: dict[str, dict[str, Any]] = {}
    for entry in entries:
        if entry["content"] not in known:
            wanted.setdefault(entry["content"], {key: entry[key] for key in _FLAGS if key in entry})
    return list(wanted.values())


_FLAGS = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")


def _content(token: Any) -> str | None:
    text = token["content"] if isinstance(token, Mapping) else token
    if text is not None and not isinstance(text, str):
        raise TypeError(f"{text!r} is no token")
    return text
