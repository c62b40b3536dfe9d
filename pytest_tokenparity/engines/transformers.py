"""Transformers in this process: `apply_chat_template` of the tokenizer, which is the reference for most models."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..errors import EngineError, RequestRefused
from ..request import Request
from .base import Engine, Rendering, one_line


class TransformersTokens(Engine):
    """IDs from ``tokenizer.apply_chat_template``, tokenizer being a Transformers tokenizer or a name or folder of one.

    ``template`` overrides the tokenizer's own chat template; ``clock`` is what the template's ``strftime_now`` sees
    (None: the real clock). Any exception that the template raises while rendering is a refusal. EngineError: no
    tokenizer, no template, or a template with a syntax error.
    """

    def __init__(
        self, tokenizer: Any, *, name: str = "transformers", template: str | None = None, clock: datetime | None = None
    ) -> None:
        self.name = name
        self.tokenizer = load_tokenizer(tokenizer) if isinstance(tokenizer, (str, Path)) else tokenizer
        self.template = template
        self.clock = clock
        self._compiled: set[str] = set()

    def render(self, request: Request) -> Rendering:
        try:
            # return_dict: False is the default of 4.x, True that of 5.x. A list of IDs is what we compare.
            ids = self._apply(request, tokenize=True, return_dict=False)
        except RequestRefused as refusal:
            return Rendering(refused=str(refusal))
        return Rendering(ids=list(ids))

    def text(self, request: Request) -> str:
        text = self._apply(request, tokenize=False)
        assert isinstance(text, str)
        return text

    def template_for(self, request: Request) -> str:
        """The chat template that this request is rendered with. EngineError if there is none."""
        try:
            return str(self.tokenizer.get_chat_template(self.template, request.tools))
        except ValueError as error:
            raise EngineError(
                f"{self.name}: the tokenizer has no chat template ({one_line(str(error), 120)}); give `template:`"
            ) from None

    def version(self) -> str:
        return f"transformers {version('transformers')}"

    def _apply(self, request: Request, **how: Any) -> Any:
        template = self.template_for(request)
        self._check_syntax(template)
        variables = dict(request.template_kwargs)
        if self.clock is not None and "strftime_now" in template:
            # A variable of that name hides the environment's own function, which reads the real clock.
            variables.setdefault("strftime_now", self.clock.strftime)
        try:
            return self.tokenizer.apply_chat_template(
                request.messages,
                tools=request.tools,
                chat_template=template,
                add_generation_prompt=request.add_generation_prompt,
                continue_final_message=request.continue_final_message,
                **variables,
                **how,
            )
        except ImportError as error:
            raise EngineError(f"{self.name}: {one_line(str(error))}") from None
        except Exception as error:
            raise RequestRefused(one_line(str(error) or type(error).__name__)) from None

    def _check_syntax(self, template: str) -> None:
        if template in self._compiled:
            return
        from jinja2 import Environment, TemplateSyntaxError, nodes
        from jinja2.ext import Extension, loopcontrols
        from jinja2.parser import Parser

        class Generation(Extension):
            """Transformers' own ``{% generation %}`` block, to be read, not rendered."""

            tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

            def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
                next(parser.stream)
                return parser.parse_statements(("name:endgeneration",), drop_needle=True)

        environment = Environment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
        try:
            environment.parse(template)
        except TemplateSyntaxError as error:
            raise EngineError(
                f"{self.name}: the chat template has a syntax error on line {error.lineno}: {error.message}"
            ) from None
        self._compiled.add(template)


def load_tokenizer(source: str | Path, revision: str | None = None) -> Any:
    """A tokenizer from a folder or the Hub. EngineError says which of the two was looked for and what went wrong."""
    folder = Path(source)
    local = folder.is_dir()
    if local and not any(folder.iterdir()):
        raise EngineError(f"the tokenizer folder {folder} is empty; it needs tokenizer.json and tokenizer_config.json")
    if not local and looks_like_path(str(source)):
        raise EngineError(f"the tokenizer folder {source} is not there")
    with _quiet_import():
        from transformers import AutoTokenizer
    try:
        return AutoTokenizer.from_pretrained(str(source), revision=revision if not local else None)
    except Exception as error:  # what a missing file, a gated model or no network raises differs by version
        where = f"the folder {source}" if local else f"the Hub's {source}" + (f" at {revision}" if revision else "")
        hint = "" if local else "; a folder is given as a path relative to the configuration, such as ./tokenizers/x"
        raise EngineError(f"no tokenizer from {where}: {one_line(str(error))}{hint}") from None


def looks_like_path(source: str) -> bool:
    """Whether a tokenizer's name can only be a folder: a Hub id is ``name`` or ``owner/name``."""
    return (
        source.startswith((".", "/", "~", os.sep))
        or source.count("/") > 1
        or "\\" in source
        or Path(source).is_absolute()
    )


def tokenizer_sha256(tokenizer: Any) -> str:
    """The SHA-256 of the tokenizer's ``tokenizer.json``; of the loaded tokenizer's own form where there is no such file."""
    file = _tokenizer_file(tokenizer)
    if file is not None:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    backend = getattr(tokenizer, "backend_tokenizer", None)
    form = backend.to_str() if backend is not None else repr(sorted(tokenizer.get_vocab().items()))
    return hashlib.sha256(form.encode()).hexdigest()


def _tokenizer_file(tokenizer: Any) -> Path | None:
    local = Path(tokenizer.name_or_path) / "tokenizer.json"
    if local.is_file():
        return local
    with _quiet_import():
        from transformers.utils import cached_file
    revision = tokenizer.init_kwargs.get("_commit_hash")
    try:
        found = cached_file(tokenizer.name_or_path, "tokenizer.json", revision=revision, local_files_only=True)
    except Exception:  # not in the cache: the loaded tokenizer itself is hashed instead
        return None
    return Path(found) if found else None


@contextmanager
def _quiet_import() -> Iterator[None]:
    """Transformers says on standard error that PyTorch is missing: no concern of a tokenizer."""
    key = "TRANSFORMERS_VERBOSITY"
    before = os.environ.get(key)
    os.environ[key] = before or "error"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(key, None)
