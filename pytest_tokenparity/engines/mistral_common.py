"""Mistral's own encoder, `mistral-common`: IDs without a text in between, which text of the user's can never break out of.

Seen on mistral-common 1.13.1, whose wheel ships tokenizers of its own. It is an extra: `pip install
pytest-tokenparity[mistral]`.
"""

from __future__ import annotations

from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..errors import EngineError
from ..request import Request
from ..vocabulary import Vocabulary
from .base import Engine, Rendering, one_line, raised

SHIPPED = "tekken_240911"
"""The tokenizer that is used where none is named: Tekken as of September 2024 (Mistral Nemo, Pixtral)."""


class MistralCommonTokens(Engine):
    """The IDs that ``mistral-common`` makes of a chat request.

    ``file`` is a ``tekken.json`` or a sentencepiece model of Mistral's, or the name of a tokenizer that the wheel ships,
    such as ``tekken_240911``. EngineError if mistral-common is not installed or the file is none of its kind. It has no
    chat template: switches (``template_kwargs``) are ignored.
    """

    def __init__(self, file: str | Path | None = None, *, name: str = "mistral-common") -> None:
        self.name = name
        self._file = file or SHIPPED

    def render(self, request: Request) -> Rendering:
        asked, refusals = self._library
        try:
            body = asked.from_openai(
                messages=[dict(message) for message in request.messages],
                tools=None if request.tools is None else [dict(tool) for tool in request.tools],
                continue_final_message=request.continue_final_message,
            )
            encoded = self._tokenizer.encode_chat_completion(body)
        except EngineError:
            raise
        except refusals as error:
            return Rendering(refused=_refusal(error))
        except Exception as error:
            raise EngineError(f"{self.name}: mistral-common raised {raised(error)}") from error
        return Rendering(ids=list(encoded.tokens), text=self.vocabulary.text(encoded.tokens))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """What its tokens stand for. ``encode`` never parses special tokens, save a text that is one alone."""
        inner = self._tokenizer.instruct_tokenizer.tokenizer
        from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy

        def piece(token: int) -> bytes | None:
            try:
                found = inner.id_to_byte_piece(token, special_token_policy=SpecialTokenPolicy.KEEP)
            except (IndexError, KeyError, ValueError, AssertionError):  # no token of its own
                return None
            return bytes(found)

        def encode(text: str) -> list[int]:
            try:
                return [int(inner.get_special_token(text))]
            except (KeyError, ValueError):
                return [int(token) for token in inner.encode(text, bos=False, eos=False)]

        return Vocabulary(piece, encode)

    def version(self) -> str:
        return f"mistral-common {version('mistral-common')}"

    def describe(self) -> str:
        return f"{self.version()} with {Path(self._file).name}"

    @cached_property
    def _library(self) -> tuple[Any, tuple[type[Exception], ...]]:
        """The class of requests, and what it raises for a request that it does not take."""
        try:
            from mistral_common.exceptions import MistralCommonException
            from mistral_common.protocol.instruct.request import ChatCompletionRequest
            from pydantic import ValidationError
        except ImportError:
            raise EngineError(
                f"{self.name}: mistral-common is not installed: pip install pytest-tokenparity[mistral]"
            ) from None
        return ChatCompletionRequest, (MistralCommonException, ValidationError, ValueError)

    @cached_property
    def file(self) -> Path:
        """The tokenizer's file. EngineError if it is not there."""
        self._library  # noqa: B018  (says how to install it)
        import mistral_common

        named = Path(self._file)
        if named.is_file():
            return named
        shipped = sorted((Path(mistral_common.__file__).parent / "data").iterdir())
        for entry in shipped:
            if str(named) in (entry.name, entry.stem):
                return entry
        names = ", ".join(entry.name for entry in shipped if not entry.name.startswith("_"))
        raise EngineError(f"{self.name}: {named} is no file of a tokenizer, and none that the wheel ships ({names})")

    @cached_property
    def _tokenizer(self) -> Any:
        file = self.file
        from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

        try:
            return MistralTokenizer.from_file(str(file))
        except Exception as error:
            raise EngineError(
                f"{self.name}: {file} cannot be read as a tokenizer of Mistral's: {raised(error)}"
            ) from None


def _refusal(error: Exception) -> str:
    """Why a request is refused, in one line: pydantic says it in several, the first of which only counts."""
    if not hasattr(error, "errors"):
        return one_line(str(error).partition("\n")[0])
    found = [f"{'.'.join(str(step) for step in it['loc'])}: {it['msg']}" for it in error.errors()]
    return one_line(f"{getattr(error, 'title', 'the request')}: {'; '.join(dict.fromkeys(found))}")
