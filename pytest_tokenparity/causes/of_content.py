"""Causes in what messages hold: content, its parts, reasoning, and whitespace."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from ..chat_template import REASONING_FIELDS
from .cause import Cause, View, shown_whitespace
from .prompt import Body, Change, Layer

SEPARATORS = ("\n", " ", "", "\n\n")

Message = dict[str, Any]


def paths_of(view: View, test: Callable[[Message], bool], key: str) -> tuple[str, ...]:
    """The paths of a key in the messages that pass a test."""
    return tuple(f"messages[{index}].{key}" for index, message in enumerate(view.body.messages) if test(message))


def parts_of(message: Message) -> list[dict[str, Any]] | None:
    """The parts of a message's content; None where it is no list of parts."""
    content = message.get("content")
    if isinstance(content, (list, tuple)) and all(isinstance(part, dict) for part in content):
        return list(content)
    return None


def texts_of(parts: list[dict[str, Any]]) -> list[str]:
    """The texts among the parts."""
    return [str(part["text"]) for part in parts if isinstance(part.get("text"), str)]


def _parts_joined(view: View) -> Iterator[Change]:
    listed = [parts for message in view.body.messages if (parts := parts_of(message)) is not None]
    if not listed:
        return
    paths = paths_of(view, lambda message: parts_of(message) is not None, "content")
    several = any(len(texts_of(parts)) > 1 for parts in listed)
    empty = any("" in texts_of(parts) for parts in listed)
    for separator in SEPARATORS if several else ("",):
        for without_empty in (False, True) if empty and several else (False,):

            def join(body: Body, separator: str = separator, without_empty: bool = without_empty) -> None:
                for message in body.messages:
                    parts = parts_of(message)
                    if parts is not None:
                        texts = [text for text in texts_of(parts) if text or not without_empty]
                        message["content"] = separator.join(texts)

            parameter = shown_whitespace(separator) if several else "one part"
            yield Change(
                "content-parts-joined",
                parameter + (", empty ones left out" if without_empty else ""),
                Layer.REQUEST,
                join,
                paths,
                order=3,
            )
    if several:

        def split(body: Body) -> None:
            apart: list[Message] = []
            for message in body.messages:
                parts = parts_of(message)
                apart += [message] if parts is None else [{**message, "content": text} for text in texts_of(parts)]
            body.messages[:] = apart

        yield Change("content-parts-joined", "several messages", Layer.REQUEST, split, paths, order=3)


def _content_null(view: View) -> Iterator[Change]:
    nulls = [message for message in view.body.messages if message.get("content") is None]
    empties = [message for message in view.body.messages if message.get("content") == ""]
    if nulls:
        paths = paths_of(view, lambda message: message.get("content") is None, "content")

        def becomes(text: str) -> Callable[[Body], None]:
            def apply(body: Body) -> None:
                for message in body.messages:
                    if message.get("content") is None:
                        message["content"] = text

            return apply

        def lost(body: Body) -> None:
            body.messages[:] = [message for message in body.messages if message.get("content") is not None]

        yield Change("content-null", "''", Layer.REQUEST, becomes(""), paths, order=4)
        yield Change("content-null", "None", Layer.REQUEST, becomes("None"), paths, view.more("None"), order=4)
        yield Change("content-null", "a lost turn", Layer.REQUEST, lost, paths, order=4)
    if empties:
        paths = paths_of(view, lambda message: message.get("content") == "", "content")

        def absent(body: Body) -> None:
            for message in body.messages:
                if message.get("content") == "":
                    del message["content"]

        def lost_empty(body: Body) -> None:
            body.messages[:] = [message for message in body.messages if message.get("content") != ""]

        yield Change("content-null", "'' as null", Layer.REQUEST, absent, paths, False, order=4)
        yield Change("content-null", "a lost empty turn", Layer.REQUEST, lost_empty, paths, False, order=4)


def _reasoning_dropped(view: View) -> Iterator[Change]:
    for field in REASONING_FIELDS:
        paths = paths_of(view, lambda message, field=field: message.get(field) is not None, field)  # type: ignore[misc]
        if not paths:
            continue

        def drop(body: Body, field: str = field) -> None:
            for message in body.messages:
                message.pop(field, None)

        text = max((str(message.get(field) or "") for message in view.body.messages), key=len)
        evidence = view.fewer(text) if text else True
        yield Change("reasoning-dropped", field, Layer.REQUEST, drop, paths, evidence, order=5)


def _reasoning_renamed(view: View) -> Iterator[Change]:
    for old in REASONING_FIELDS:
        paths = paths_of(view, lambda message, old=old: message.get(old) is not None, old)  # type: ignore[misc]
        if not paths:
            continue
        text = max((str(message.get(old) or "") for message in view.body.messages), key=len)
        for new in REASONING_FIELDS:
            if new == old:
                continue

            def rename(body: Body, old: str = old, new: str = new) -> None:
                for index, message in enumerate(body.messages):
                    if message.get(old) is not None:
                        body.messages[index] = {new if key == old else key: value for key, value in message.items()}

            yield Change("reasoning-renamed", f"{old} -> {new}", Layer.REQUEST, rename, paths, view.more(text), order=5)


def whitespace(view: View) -> Iterator[Change]:
    """Whitespace of the content that is taken away."""
    kinds: tuple[tuple[str, Callable[[str], str]], ...] = (
        ("both ends of the content", str.strip),
        ("the end of the content", str.rstrip),
        ("the start of the content", str.lstrip),
        ("CRLF became LF", lambda text: text.replace("\r\n", "\n")),
        ("spaces before line ends", lambda text: re.sub(r"[ \t]+(?=\n|\Z)", "", text)),
    )
    # content that another change made a string has ends, too
    messages = view.changed.messages if len(view.changed.messages) == len(view.body.messages) else view.body.messages
    roles = list(dict.fromkeys(str(message.get("role")) for message in messages))
    for name, change in kinds:
        touched = {
            str(message.get("role"))
            for message in messages
            if isinstance(message.get("content"), str) and change(message["content"]) != message["content"]
        }
        groups: list[tuple[str, ...]] = [tuple(touched)] if touched else []
        if len(touched) > 1:
            groups += [(role,) for role in roles if role in touched]
        for group in groups:

            def apply(body: Body, group: tuple[str, ...] = group, change: Callable[[str], str] = change) -> None:
                for message in body.messages:
                    if message.get("role") in group and isinstance(message.get("content"), str):
                        message["content"] = change(message["content"])

            of = "" if group == tuple(touched) else f" of {group[0]} turns"
            paths = tuple(
                f"messages[{index}].content"
                for index, message in enumerate(messages)
                if message.get("role") in group
                and isinstance(message.get("content"), str)
                and change(message["content"]) != message["content"]
            )
            yield Change("whitespace", name + of, Layer.REQUEST, apply, paths, order=6)


CAUSES = (
    Cause(
        "content-parts-joined",
        "with the content's parts joined ({})",
        "send the content as one string",
        {"llama-server": "b11549", "vllm": "0.33.0", "vllm-tokenize": "0.33.0", "sglang": "0.5.23"},
        _parts_joined,
    ),
    Cause(
        "content-null",
        "with missing content as {}",
        "send `content: ''` with every message",
        {"llama-server": "b11549", "vllm": "0.33.0", "vllm-tokenize": "0.33.0", "sglang": "0.5.23"},
        _content_null,
    ),
    Cause(
        "reasoning-dropped",
        "with `{}` removed from the messages",
        "send past reasoning under the name that the engine reads (`reasoning_content` on llama-server and SGLang)",
        {"llama-server": "b11549", "vllm-tokenize": "0.33.0", "sglang": "0.5.23"},
        _reasoning_dropped,
    ),
    Cause(
        "reasoning-renamed",
        "with the reasoning under another name ({})",
        "send past reasoning under the name that the template reads",
        {"vllm": "0.33.0", "transformers": "5.24.0"},
        _reasoning_renamed,
    ),
)
