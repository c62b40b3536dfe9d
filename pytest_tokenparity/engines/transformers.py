"""Transformers in this process: `apply_chat_template` of the tokenizer, which is the reference for most models."""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from ..chat_template import Conventions, no_template
from ..errors import EngineError, RequestRefused
from ..request import Request
from .base import Engine, Rendering, one_line
from .tokenizers import looks_like_path, not_from_hub


class TransformersTokens(Engine):
    """IDs from ``tokenizer.apply_chat_template``, tokenizer being a Transformers tokenizer or a name or folder of one.

    ``template`` overrides the tokenizer's own chat template; ``clock`` is what the template's ``strftime_now`` sees
    (None: the real clock). ``place`` and ``template_file`` are what errors name. Any exception that the template raises while rendering is a refusal. EngineError: no
    tokenizer, no template, or a template with a syntax error.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        name: str = "transformers",
        template: str | None = None,
        clock: datetime | None = None,
        place: str = "",
        template_file: str = "",
    ) -> None:
        self.name = name
        self._place = place or name
        self._template_file = template_file
        self.tokenizer = load_tokenizer(tokenizer) if isinstance(tokenizer, (str, Path)) else tokenizer
        self.template = template
        self.clock = clock

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
        except ValueError:
            raise EngineError(f"{self._place}: the tokenizer has no chat template; give one with `template:`") from None

    def version(self) -> str:
        return f"transformers {version('transformers')}"

    def _apply(self, request: Request, **how: Any) -> Any:
        from jinja2 import TemplateSyntaxError

        template = self.template_for(request)
        try:
            with _clock_at(self.clock if "strftime_now" in template else None):
                return self.tokenizer.apply_chat_template(
                    request.messages,
                    tools=request.tools,
                    chat_template=template,
                    add_generation_prompt=request.add_generation_prompt,
                    continue_final_message=request.continue_final_message,
                    **request.template_kwargs,
                    **how,
                )
        except (EngineError, ImportError) as error:  # ImportError: jinja2 is too old for this Transformers
            raise EngineError(f"{self.name}: {one_line(str(error))}") from None
        except (TemplateSyntaxError, SyntaxError) as error:
            raise no_template(error, self._place, self._template_file) from None
        except Exception as error:
            raise RequestRefused(one_line(str(error) or type(error).__name__)) from None


def conventions() -> Conventions:
    """What the installed Transformers does to messages before a template sees them."""
    from transformers.utils import chat_template_utils as module

    return Conventions(
        drop_null_keys=hasattr(module, "_normalize_chat_messages"),
        alias_reasoning=hasattr(module, "_alias_reasoning_fields"),
    )


def load_tokenizer(source: str | Path, revision: str | None = None) -> Any:
    """A tokenizer from a folder or the Hub. EngineError says which of the two was looked for and what went wrong."""
    folder = Path(source)
    local = folder.is_dir()
    if local and not any(_is_of_tokenizer(file.name) for file in folder.iterdir()):
        raise EngineError(f"the folder {folder} holds no tokenizer: it needs tokenizer.json and tokenizer_config.json")
    if not local and (isinstance(source, Path) or looks_like_path(source)):
        raise EngineError(f"the tokenizer folder {source} is not there")
    offline = not local and assert_hub(str(source), revision)
    with _quiet_import():
        from transformers import AutoTokenizer
    try:
        with quiet_hub():
            return AutoTokenizer.from_pretrained(
                str(source), revision=revision if not local else None, local_files_only=offline
            )
    except Exception as error:  # what a missing file, a gated model or no network raises differs by version
        reason = one_line(str(error).partition(". ")[0].partition("\n")[0], 160).rstrip(".")
        if local:
            raise EngineError(f"no tokenizer from the folder {source}: {reason}") from None
        raise not_from_hub(str(source), revision, reason) from None


def assert_hub(source: str, revision: str | None = None) -> bool:
    """Whether a model must be read from the Hub's cache alone, because the Hub cannot be reached.

    EngineError if it is not in the cache either. The libraries would find that out in a minute of retries, each logged.
    """
    from huggingface_hub import constants, try_to_load_from_cache

    if constants.HF_HUB_OFFLINE or urllib.request.getproxies():  # a proxy knows hosts that this machine does not
        return False
    hub = urlsplit(constants.ENDPOINT)
    try:
        if hub.hostname:
            socket.create_connection((hub.hostname, hub.port or (443 if hub.scheme == "https" else 80)), 5).close()
    except OSError as error:
        with suppress(Exception):  # a name that is none for the Hub
            for name in ("tokenizer.json", "tokenizer_config.json"):
                if isinstance(try_to_load_from_cache(source, name, revision=revision), str):
                    return True
        reason = f"{hub.hostname} cannot be reached ({error.strerror or error})"
        raise not_from_hub(source, revision, one_line(reason)) from None
    return False


@contextmanager
def quiet_hub() -> Iterator[None]:
    """The Hub's client logs each retry; what comes of them is in the error."""
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _is_of_tokenizer(name: str) -> bool:
    return name.startswith(("tokenizer", "vocab", "tekken")) or name.endswith(".model")


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
def _clock_at(clock: datetime | None) -> Iterator[None]:
    """Let the templates' ``strftime_now`` see ``clock``. EngineError if Transformers reads the clock in another way.

    5.24 hands no function to a template as a variable any more, so the name it reads the time by is replaced while one
    template renders.
    """
    if clock is None:
        yield
        return
    from transformers.utils import chat_template_utils as module

    real = getattr(module, "datetime", None)
    if real is None:
        raise EngineError("this version of Transformers reads the clock in a way that `clock` cannot set")
    module.datetime = SimpleNamespace(now=lambda *_: clock)
    try:
        yield
    finally:
        module.datetime = real


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
