"""Conversations: whether one is valid, and where in it a client sends a request."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from typing import Any

from .errors import InvalidConversation
from .request import Conversation
from .words import brief

ROLES = ("system", "developer", "user", "assistant", "tool", "function", "ipython")
"""The roles that chat templates know: OpenAI's, and `ipython`, Llama's name for a tool's answer."""

MAX_DEPTH = 100
_KEYS = frozenset(
    {"role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content", "reasoning", "refusal"}
)
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_RESULTS = ("tool", "function", "ipython")
_Where = tuple["str | int", ...]


def request_points(conversation: Conversation) -> list[int]:
    """How many messages each request of a session holds.

    A client sends one request after every user turn, and one when the last of consecutive tool results has come.
    ``conversation[:n]`` is the request for each ``n`` of the answer.
    """
    roles = [message["role"] for message in conversation]
    points = []
    for count, role in enumerate(roles, 1):
        after = roles[count] if count < len(roles) else None
        if role == "user" or (role in _RESULTS and after not in _RESULTS):
            points.append(count)
    return points


def assert_valid(conversation: Conversation) -> None:
    """Raise InvalidConversation (an AssertionError and a ValueError) unless a chat API would take these messages.

    A message needs a known role; a turn that is not the assistant's needs ``content``. Content is a string, null, or a
    list of parts with a ``type``. Null content and parts are valid here: whether a template renders them is what the
    engines are asked. Text must be text: no lone surrogate, no NUL.
    """
    if isinstance(conversation, (str, bytes, Mapping)) or not hasattr(conversation, "__len__"):
        raise InvalidConversation(f"expected a list of messages, found {_kind(conversation)}")
    if len(conversation) == 0:
        raise InvalidConversation("the list of messages is empty: a request needs at least one")
    for index, message in enumerate(conversation):
        _assert_message(message, (index,))


def assert_text(value: Any, where: _Where = (), *, with_nul: bool = False) -> None:
    """Raise InvalidConversation if ``value`` holds what cannot be sent to an engine as JSON text.

    ``with_nul``: some engines take NUL, and what they answered may be asked about.
    """
    if len(where) > MAX_DEPTH:
        raise InvalidConversation(f"nested more than {MAX_DEPTH} deep", where[:3])
    if isinstance(value, str):
        for found in _NOT_TEXT.finditer(value):
            if found[0] != "\0":
                raise InvalidConversation("half of a surrogate pair inside a string: it is not text", where)
            if not with_nul:
                raise InvalidConversation("NUL inside a string: llama.cpp and tokenizers cut or refuse it", where)
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            if not isinstance(key, str):
                raise InvalidConversation(f"a key must be a string, found {_kind(key)}", where)
            assert_text(key, where, with_nul=with_nul)
            assert_text(entry, (*where, key), with_nul=with_nul)
    elif isinstance(value, (list, tuple)):
        for index, entry in enumerate(value):
            assert_text(entry, (*where, index), with_nul=with_nul)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidConversation(f"{value} is no number that JSON can hold", where)
    elif not (value is None or isinstance(value, (bool, int))):
        raise InvalidConversation(f"expected what JSON can hold, found {_kind(value)}", where)


def _assert_message(message: Any, where: _Where) -> None:
    if not isinstance(message, Mapping):
        raise InvalidConversation(f"expected a message (a mapping with `role`), found {_kind(message)}", where)
    if "role" not in message:
        hint = _meant("role", message) or f" (one of {', '.join(ROLES)})"
        raise InvalidConversation(f"a message without `role`{hint}", where)
    role = message["role"]
    if role not in ROLES:
        raise InvalidConversation(f"unknown role {brief(role)} (known are {', '.join(ROLES)})", (*where, "role"))
    if role != "assistant" and "content" not in message:
        raise InvalidConversation(f"a {role} message without `content`{_meant('content', message)}", where)
    for key in ("content", "tool_calls"):  # which an assistant's message may leave out
        if key not in message and (hint := _meant(key, message)):
            raise InvalidConversation(f"an assistant message without `{key}`{hint}", where)
    _assert_content(message.get("content"), (*where, "content"))
    if message.get("tool_calls") is not None:
        _assert_tool_calls(message["tool_calls"], (*where, "tool_calls"))
    assert_text(message, where)


def _meant(key: str, message: Mapping[str, Any]) -> str:
    """A hint at a key that looks like a wanted one, misspelt."""
    names = [name for name in message if isinstance(name, str) and name not in _KEYS]
    close = difflib.get_close_matches(key, names, n=1, cutoff=0.8) if names else []
    return f": {brief(close[0])} stands there (did you mean {key!r}?)" if close else ""


def _assert_content(content: Any, where: _Where) -> None:
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, (list, tuple)):
        raise InvalidConversation(f"content must be a string, null or a list of parts, found {_kind(content)}", where)
    for index, part in enumerate(content):
        if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
            raise InvalidConversation("a content part must be a mapping with a `type`, such as text", (*where, index))
        if part["type"] == "text" and not isinstance(part.get("text"), str):
            raise InvalidConversation("a text part must hold a string under `text`", (*where, index))


def _assert_tool_calls(calls: Any, where: _Where) -> None:
    if not isinstance(calls, (list, tuple)):
        raise InvalidConversation(f"tool_calls must be a list, found {_kind(calls)}", where)
    for index, call in enumerate(calls):
        place = (*where, index)
        if not isinstance(call, Mapping):
            raise InvalidConversation(f"a tool call must be a mapping, found {_kind(call)}", place)
        function = call.get("function", call)  # some templates take the function itself
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise InvalidConversation("a tool call needs `function` with a `name`", place)
        arguments = function.get("arguments")
        if not (arguments is None or isinstance(arguments, (str, Mapping))):
            raise InvalidConversation(
                f"arguments must be a mapping or a JSON string, found {_kind(arguments)}",
                (*place, "function", "arguments"),
            )


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return f"the string {brief(value[:40])}"
    if isinstance(value, (bool, int, float)):
        return repr(value)
    names: dict[type, str] = {dict: "a mapping", list: "a list", tuple: "a tuple"}
    return names.get(type(value), type(value).__name__)
