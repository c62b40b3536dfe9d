"""Causes in the tool calls of a request: their arguments and their ids."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from .cause import Cause, View
from .of_tools import sorted_keys
from .prompt import Body, Change, Layer

_ID = re.compile(r"\b[A-Za-z0-9_\-]{9,40}\b")

Message = dict[str, Any]


def _functions(message: Message) -> Iterator[dict[str, Any]]:
    for call in message.get("tool_calls") or []:
        if isinstance(call, dict):
            function = call.get("function", call)
            if isinstance(function, dict):
                yield function


def _argument_paths(view: View, test: Callable[[Any], bool]) -> tuple[str, ...]:
    return tuple(
        f"messages[{index}].tool_calls[{number}].function.arguments"
        for index, message in enumerate(view.body.messages)
        for number, function in enumerate(_functions(message))
        if test(function.get("arguments"))
    )


def _on_arguments(change: Callable[[Any], Any]) -> Callable[[Body], None]:
    def apply(body: Body) -> None:
        for message in body.messages:
            for function in _functions(message):
                if "arguments" in function:
                    function["arguments"] = change(function["arguments"])

    return apply


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(value)
    except ValueError:
        return value
    return value if isinstance(found, str) else found


def _emptied(value: Any) -> Any:
    return value if not isinstance(value, str) or isinstance(_parsed(value), dict) else {}


def _arguments_parsed(view: View) -> Iterator[Change]:
    paths = _argument_paths(view, lambda value: _parsed(value) is not value)
    if paths:
        yield Change("arguments-parsed", "", Layer.REQUEST, _on_arguments(_parsed), paths)


def _arguments_emptied(view: View) -> Iterator[Change]:
    paths = _argument_paths(view, lambda value: _emptied(value) is not value)
    if paths:
        yield Change("arguments-emptied", "", Layer.REQUEST, _on_arguments(_emptied), paths)


def _arguments_as_string(view: View) -> Iterator[Change]:
    paths = _argument_paths(view, lambda value: isinstance(value, dict))
    if not paths:
        return
    for parameter, separators in (("compact", (",", ":")), ("with spaces", (", ", ": "))):

        def dump(value: Any, separators: tuple[str, str] = separators) -> Any:
            return json.dumps(value, ensure_ascii=False, separators=separators) if isinstance(value, dict) else value

        yield Change("arguments-as-string", parameter, Layer.REQUEST, _on_arguments(dump), paths, '\\"' in view.target)


def _arguments_reordered(view: View) -> Iterator[Change]:
    def apply(value: Any) -> Any:
        parsed = _parsed(value)
        ordered = sorted_keys(parsed) if isinstance(parsed, dict) else parsed
        if isinstance(value, str) and isinstance(parsed, dict):
            separators = (",", ":") if ": " not in value else (", ", ": ")
            return json.dumps(ordered, ensure_ascii=False, separators=separators)
        return ordered

    paths = _argument_paths(view, lambda value: json.dumps(sorted_keys(_parsed(value))) != json.dumps(_parsed(value)))
    if paths:
        yield Change(
            "arguments-reordered", "sorted", Layer.REQUEST, _on_arguments(apply), paths, view.keys_moved, order=1
        )


def _call_ids(view: View) -> Iterator[Change]:
    ids: dict[str, tuple[str, ...]] = {}
    for index, message in enumerate(view.body.messages):
        for number, call in enumerate(message.get("tool_calls") or []):
            if isinstance(call, dict) and isinstance(call.get("id"), str):
                path = f"messages[{index}].tool_calls[{number}].id"
                ids[call["id"]] = (*ids.get(call["id"], ()), path)
        if isinstance(message.get("tool_call_id"), str):
            path = f"messages[{index}].tool_call_id"
            ids[message["tool_call_id"]] = (*ids.get(message["tool_call_id"], ()), path)
    yield from _call_ids_given(view)
    for old, paths in ids.items():
        if not old or not view.fewer(old):
            continue
        yield _call_id(old, None, paths)
        at = view.text.find(old)
        before, after = view.text[max(0, at - 12) : at], view.text[at + len(old) :][:6]
        found = re.search(re.escape(before) + r"([\w:.\-]{1,80}?)" + re.escape(after), view.target) if at >= 0 else None
        if found and found[1] != old:
            yield _call_id(old, found[1], paths)
        for new in (old[:9], old[-9:], re.sub(r"\W", "", old)[:9], re.sub(r"\W", "", old)[-9:]):
            if new and new != old and view.more(new):
                yield _call_id(old, new, paths)


def _call_ids_given(view: View) -> Iterator[Change]:
    """An id for calls that have none, read off the answer."""
    lacking = tuple(
        f"messages[{index}].tool_calls[{number}].id"
        for index, message in enumerate(view.body.messages)
        for number, call in enumerate(message.get("tool_calls") or [])
        if isinstance(call, dict) and not call.get("id")
    )
    if not lacking:
        return
    words = dict.fromkeys(word for word in _ID.findall(view.target) if word not in view.text)
    for new in list(words)[:3]:

        def apply(body: Body, new: str = new) -> None:
            for message in body.messages:
                for call in message.get("tool_calls") or []:
                    if isinstance(call, dict) and not call.get("id"):
                        call["id"] = new
                if message.get("role") == "tool" and not message.get("tool_call_id"):
                    message["tool_call_id"] = new

        yield Change("call-id-changed", f"nothing -> {new}", Layer.REQUEST, apply, lacking, copied=True, order=2)


def _call_id(old: str, new: str | None, paths: tuple[str, ...]) -> Change:
    def apply(body: Body) -> None:
        for message in body.messages:
            for holder, key in [(message, "tool_call_id")] + [
                (call, "id") for call in message.get("tool_calls") or [] if isinstance(call, dict)
            ]:
                if holder.get(key) == old:
                    if new is None:
                        del holder[key]
                    else:
                        holder[key] = new

    return Change(
        "call-id-changed",
        f"{old} -> {'nothing' if new is None else new}",
        Layer.REQUEST,
        apply,
        paths,
        copied=new is not None,
        order=2,
    )


CAUSES = (
    Cause(
        "arguments-parsed",
        "with the arguments of tool calls parsed from their JSON string",
        "send arguments as a mapping, where the engine takes one",
        {"llama-server": "b11549", "vllm": "0.33.0", "vllm-tokenize": "0.33.0", "sglang": "0.5.23"},
        _arguments_parsed,
    ),
    Cause(
        "arguments-emptied",
        "with arguments that are no JSON object emptied",
        "send arguments that are a JSON object",
        {"vllm": "0.33.0", "vllm-tokenize": "0.33.0"},
        _arguments_emptied,
    ),
    Cause(
        "arguments-as-string",
        "with the arguments of tool calls as a JSON string ({})",
        "send arguments in the form that the chat template expects",
        {"client-completion": "gateways", "llama-server": "b11549"},
        _arguments_as_string,
    ),
    Cause(
        "arguments-reordered",
        "with the keys of the arguments in another order ({})",
        "send the arguments' keys in one order, or sorted",
        {"ollama": "v0.33.0-rc2 (source)", "client-completion": "minijinja"},
        _arguments_reordered,
    ),
    Cause(
        "call-id-changed",
        "with the call id {}",
        "send ids of the form that the model was trained on, the same to every engine",
        {"client-completion": "gateways"},
        _call_ids,
    ),
)
