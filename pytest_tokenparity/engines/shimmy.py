"""Shimmy: a stand-in that renders and tokenizes as Shimmy's sources do, for Shimmy itself shows nothing.

Read in Shimmy v2.5.0 (`src/templates.rs`, `src/openai_compat/mod.rs`, `src/model_registry.rs`) and in the engine crate it
runs on (airframe 0.2.11 with shimmytok 0.8.0; the airframe 0.3.0 that it pins could not be read). What the IDs are is
computed, never observed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import EngineError, RequestRefused
from ..request import Request
from .base import Engine, Rendering

if TYPE_CHECKING:
    from .tokenizers import TokenizerFiles

FAMILIES = ("ChatML", "Llama3", "OpenChat")
COMPUTED = "Shimmy shows nothing: the IDs were computed as its 2.5.0 sources do"

History = list[tuple[str, str]]


class ShimmyTokens(Engine):
    """The IDs that Shimmy makes of a chat request, computed.

    ``tokenizer`` is the model's tokenizer; ``model`` the name under which Shimmy finds it, by which it chooses a template
    family; ``family`` (``ChatML``, ``Llama3``, ``OpenChat``) where the model is registered with one. ``parse_special`` True
    is Shimmy up to 1.9, which ran llama.cpp.
    """

    def __init__(
        self,
        tokenizer: TokenizerFiles,
        *,
        name: str = "shimmy",
        model: str = "",
        family: str | None = None,
        parse_special: bool = False,
    ) -> None:
        self.name = name
        self.family = family or family_of(model)
        if self.family not in FAMILIES:
            raise EngineError(f"{name}: `family` must be one of {', '.join(FAMILIES)}, found {family!r}")
        self._tokenizer = tokenizer
        self._parse_special = parse_special

    def render(self, request: Request) -> Rendering:
        try:
            text = self.text(request)
        except RequestRefused as refusal:
            return Rendering(refused=str(refusal))
        ids = self._tokenizer.encode_prompt(text, parse_special=self._parse_special)
        return Rendering(ids=ids, text=text, unseen=(COMPUTED,))

    def text(self, request: Request) -> str:
        """The prompt of `/v1/chat/completions`: the last message is taken off, the last of the user's is the input."""
        if not request.messages:
            raise RequestRefused("messages must not be empty")
        turns: History = [(str(message.get("role")), _content(message)) for message in request.messages]
        asked = [content for role, content in turns if role == "user"]
        return _RENDER[self.family](turns[:-1], asked[-1] if asked else "")

    def version(self) -> str:
        return "a stand-in for shimmy 2.5.0"

    def describe(self) -> str:
        return f"{self.name}: {self.version()}, family {self.family}; nothing is asked"


def family_of(model: str) -> str:
    """The family that Shimmy's registry infers for a model it discovers: everything that is not Llama 3 is ChatML."""
    low = model.lower()
    return "Llama3" if "llama-3" in low or "llama3" in low else "ChatML"


def _chatml(history: History, asked: str) -> str:
    turns = "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in history)
    return f"{turns}<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n"


def _llama3(history: History, asked: str) -> str:
    turns = "".join(f"<|start_header_id|>{role}<|end_header_id|>\n{content}<|eot_id|>" for role, content in history)
    start, end = "<|start_header_id|>", "<|end_header_id|>"
    return f"{turns}{start}user{end}\n{asked}<|eot_id|>{start}assistant{end}\n"


def _openchat(history: History, asked: str) -> str:
    return "".join(f"{role}: {content}\n" for role, content in history) + f"user: {asked}\nassistant: "


_RENDER: dict[str, Callable[[History, str], str]] = {"ChatML": _chatml, "Llama3": _llama3, "OpenChat": _openchat}


def _content(message: Any) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    raise RequestRefused("a message without content: Shimmy answers 422")
