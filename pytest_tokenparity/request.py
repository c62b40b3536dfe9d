"""A request: what an engine is asked to turn into token IDs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Message = Mapping[str, Any]
ToolSchema = Mapping[str, Any]
Conversation = Sequence[Message]
Tools = Sequence[ToolSchema]

RESERVED_KWARGS = frozenset(
    {
        # parameters of Transformers' apply_chat_template: as template variables they would change the call instead
        *("conversation", "chat_template", "tokenize", "padding", "truncation", "max_length", "return_tensors"),
        *("return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs", "sanitize_control_tokens", "self"),
        "conversations",  # of render_jinja_template, to which apply_chat_template hands them
        # keys of the request itself
        *("messages", "tools", "add_generation_prompt", "continue_final_message"),
    }
)
"""Names that ``template_kwargs`` may not hold."""


@dataclass(frozen=True)
class Request:
    """One chat request.

    ``messages`` and ``tools`` are as the user wrote them: every key kept, key order kept. ``tools`` None means that the
    request has none; an empty list is sent as an empty list. ``template_kwargs`` are the template's own switches.
    """

    messages: Conversation
    tools: Tools | None = None
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool = True
    continue_final_message: bool = False

    @classmethod
    def of(cls, conversation: Conversation, tools: Tools | None = None, **template_kwargs: Any) -> Request:
        """A request from the arguments of ``ids``: the two generation flags stand among the keywords.

        A request that continues the final message has no generation prompt unless it asks for one.
        """
        kwargs = dict(template_kwargs)
        if "template_kwargs" in kwargs:
            raise TypeError("a template's switches are keywords of their own, such as enable_thinking=False")
        for key in RESERVED_KWARGS.intersection(kwargs).difference(("add_generation_prompt", "continue_final_message")):
            raise TypeError(f"{key!r} is no switch of a template")
        continued = bool(kwargs.pop("continue_final_message", False))
        prompted = bool(kwargs.pop("add_generation_prompt", not continued))
        return cls(conversation, tools, kwargs, prompted, continued)

    def copy(self) -> Request:
        """A request with lists and mappings of its own."""
        return replace(
            self,
            messages=_copied(self.messages),
            tools=_copied(self.tools),
            template_kwargs=_copied(self.template_kwargs),
        )

    @property
    def keywords(self) -> dict[str, Any]:
        """The keywords of ``ids`` and of a client's ``render``: the flags stand there only when not the default."""
        flags: dict[str, Any] = {}
        if not self.add_generation_prompt:
            flags["add_generation_prompt"] = False
        if self.continue_final_message:
            flags["continue_final_message"] = True
        return {**self.template_kwargs, **flags}


def _copied(value: Any) -> Any:
    """What JSON can hold, copied; several times faster than ``copy.deepcopy``, and asked for each item."""
    if isinstance(value, dict):
        return {key: _copied(entry) for key, entry in value.items()}
    return [_copied(entry) for entry in value] if isinstance(value, list) else value


def sha256_of_requests(requests: Iterable[Request]) -> str:
    """The SHA-256 of what a case asks for, key order included: an edited case has another one."""
    body = [
        {
            "messages": request.messages,
            "tools": request.tools,
            "template_kwargs": request.template_kwargs,
            "add_generation_prompt": request.add_generation_prompt,
            "continue_final_message": request.continue_final_message,
        }
        for request in requests
    ]
    return hashlib.sha256(json.dumps(body, separators=(",", ":")).encode("ascii")).hexdigest()
