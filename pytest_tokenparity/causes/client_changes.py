"""What a client changed between two requests of one session: each change by name, and how it is undone.

A later request should repeat the earlier one's messages, tools and switches and go on from there. Every change listed here
can be taken back in the later request alone, so that rendering it once more shows whether the prompt depends on it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from ..chat_template import REASONING_FIELDS
from ..request import Request
from ..words import brief
from .cause import leaves_of

THINKING = re.compile(r"<think>.*?</think>\s*", re.DOTALL)
"""Reasoning that stands in a text."""

_SYSTEM = ("system", "developer")
_SHOWN = 40  # characters of a text that changed
_FIELDS = 3  # fields of one tool that are named one by one
_ABSENT = object()
_ToolKey = tuple[str, int]


@dataclass(frozen=True)
class ClientChange:
    """One change: ``undo`` takes it back; ``paths`` are fields of the earlier request, or of the later for what is new."""

    name: str
    parameter: str
    paths: tuple[str, ...]
    undo: Callable[[_Later], None] = field(repr=False, compare=False)


def client_changes(earlier: Request, later: Request) -> list[ClientChange]:
    """Every change, in the order in which they are undone."""
    return [*_switches(earlier, later), *_tools(earlier, later), *_messages(_aligned(earlier, later))]


def undone(earlier: Request, later: Request, changes: Iterable[ClientChange]) -> Request:
    """The later request with some of its :func:`client_changes` taken back."""
    state = _Later(earlier.copy(), later.copy())
    for change in changes:
        change.undo(state)
    return state.request


def has_reasoning(message: Mapping[str, Any]) -> bool:
    """Whether a message carries reasoning, in a field of its own or in its text."""
    content = message.get("content")
    return bool(_reasoning_field(message)) or (isinstance(content, str) and THINKING.search(content) is not None)


def without_reasoning(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message without its reasoning, wherever it stands."""
    bare = {key: value for key, value in message.items() if key not in REASONING_FIELDS}
    if isinstance(bare.get("content"), str):
        bare["content"] = THINKING.sub("", bare["content"])
    return bare


def shown_change(old: str, new: str) -> str:
    """What of a text changed, cut: ``'12:30:01' -> '12:31:22'``."""
    low = 0
    while low < min(len(old), len(new)) and old[low] == new[low]:
        low += 1
    high = 0
    while high < min(len(old), len(new)) - low and old[-1 - high] == new[-1 - high]:
        high += 1
    while low > 0 and not old[low - 1].isspace():  # whole words
        low -= 1
    while high > 0 and not old[len(old) - high].isspace():
        high -= 1
    return f"{brief(old[low : len(old) - high], _SHOWN)} -> {brief(new[low : len(new) - high], _SHOWN)}"


# The later request, to be changed


@dataclass
class _Slot:
    """A message of the earlier request beside its place in the later one; None where one of them has none."""

    old: dict[str, Any] | None
    new: dict[str, Any] | None
    at: int
    """Its number in the earlier request; in the later one for a message that is only there."""


class _Later:
    def __init__(self, earlier: Request, later: Request) -> None:
        self.earlier = earlier
        self.later = later
        self.slots = _aligned(earlier, later)
        self.kwargs: dict[str, Any] = dict(later.template_kwargs)
        self.tools = None if later.tools is None else _keyed(later.tools)
        self.old_tools = _keyed(earlier.tools or [])

    @property
    def request(self) -> Request:
        return Request(
            [slot.new for slot in self.slots if slot.new is not None],
            None if self.tools is None else list(self.tools.values()),
            self.kwargs,
            self.later.add_generation_prompt,
            self.later.continue_final_message,
        )


# Switches


def _switches(earlier: Request, later: Request) -> Iterator[ClientChange]:
    for key in dict.fromkeys([*earlier.template_kwargs, *later.template_kwargs]):
        old, new = earlier.template_kwargs.get(key, _ABSENT), later.template_kwargs.get(key, _ABSENT)
        if _written(old) == _written(new):
            continue

        def undo(state: _Later, key: str = key, old: Any = old) -> None:
            if old is _ABSENT:
                del state.kwargs[key]
            else:
                state.kwargs[key] = old

        yield ClientChange("switch-changed", f"{key}: {_short(old)} -> {_short(new)}", (), undo)


# Tools


def _tools(earlier: Request, later: Request) -> Iterator[ClientChange]:
    old, new = _keyed(earlier.tools or []), _keyed(later.tools or [])
    if not old and not new:
        if earlier.tools is None and later.tools is not None:
            yield ClientChange("tools-changed", "none -> an empty list", ("tools",), _undo_tools)
        elif earlier.tools is not None and later.tools is None:
            yield ClientChange("tools-changed", "an empty list -> none", ("tools",), _undo_tools)
        return
    for at, key in enumerate(old):
        if key in new:
            yield from _tool_fields(at, key, old[key], new[key])
    added, removed = [key for key in new if key not in old], [key for key in old if key not in new]
    if added:
        paths = tuple(f"tools[{list(new).index(key)}]" for key in added) if old else ("tools",)
        yield ClientChange("tools-changed", f"{_names(added)} added", paths, _undo_added)
    if removed:
        paths = tuple(f"tools[{list(old).index(key)}]" for key in removed) if new else ("tools",)
        yield ClientChange("tools-changed", f"{_names(removed)} removed", paths, _undo_removed)
    before, after = [key for key in old if key in new], [key for key in new if key in old]
    if before != after:
        paths = tuple(f"tools[{list(old).index(a)}]" for a, b in zip(before, after, strict=True) if a != b)
        yield ClientChange("tools-reordered", f"{_names(before)} -> {_names(after)}", paths, _undo_order)


def _tool_fields(at: int, key: _ToolKey, old: Any, new: Any) -> list[ClientChange]:
    """How one tool changed: field by field, or as edited where that would be a long list."""
    if _written(old) == _written(new):
        return []
    edited = ClientChange("tools-changed", f"{key[0]} edited", (f"tools[{at}]",), lambda it: _set_tool(it, key, old))
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [edited]
    found: list[ClientChange] = []
    inside = isinstance(old.get("function"), dict) and isinstance(new.get("function"), dict)
    holders = [((), f"tools[{at}]")] + ([(("function",), f"tools[{at}].function")] if inside else [])
    reordered = False
    for within, path in holders:
        one, other = (tool["function"] if within else tool for tool in (old, new))
        reordered = reordered or [name for name in one if name in other] != [name for name in other if name in one]
        outer = "tool." if inside and not within else ""
        for name in dict.fromkeys([*one, *other]):
            if name == "function" and inside and not within:
                continue
            before, after = one.get(name, _ABSENT), other.get(name, _ABSENT)
            if before == after:
                reordered = reordered or _written(before) != _written(after)
                continue

            def undo(state: _Later, within: tuple[str, ...] = within, name: str = name) -> None:
                _restore(state, key, within, name)

            if after is _ABSENT:
                found.append(ClientChange("tool-field-dropped", f"{outer}{name}", (f"{path}.{name}",), undo))
            elif before is _ABSENT:
                parameter = f"{outer}{name}={_short(after)}"
                found.append(ClientChange("tool-field-added", parameter, (f"{path}.{name}",), undo))
            else:
                leaf, shown = _changed_leaf(name, before, after)
                parameter = f"{key[0]}.{outer}{leaf}{shown}"
                found.append(ClientChange("tool-field-changed", parameter, (f"{path}.{leaf}",), undo))
    if len(found) > _FIELDS:
        return [edited]
    if reordered:

        def reorder(state: _Later) -> None:
            if state.tools is not None and key in state.tools:
                state.tools[key] = _in_order(state.tools[key], state.old_tools[key])

        found.append(ClientChange("tool-keys-reordered", key[0], (f"tools[{at}]",), reorder))
    return found


def _changed_leaf(name: str, old: Any, new: Any) -> tuple[str, str]:
    """The path of the one leaf that changed, and from what to what; only the field's name where several did."""
    before, after = dict(leaves_of(old, name)), dict(leaves_of(new, name))
    paths = [path for path in dict.fromkeys([*before, *after]) if before.get(path, _ABSENT) != after.get(path, _ABSENT)]
    if len(paths) != 1:
        return name, ""
    one, other = before.get(paths[0], _ABSENT), after.get(paths[0], _ABSENT)
    if isinstance(one, str) and isinstance(other, str):
        return paths[0], f": {shown_change(one, other)}"
    return paths[0], f": {_short(one)} -> {_short(other)}"


def _restore(state: _Later, key: _ToolKey, within: tuple[str, ...], name: str) -> None:
    if state.tools is None or key not in state.tools:
        return
    old, new = state.old_tools[key], state.tools[key]
    for step in within:
        old, new = old[step], new[step]
    _restore_key(new, old, name)


def _restore_key(new: dict[Any, Any], old: Mapping[Any, Any], name: Any) -> None:
    """Give a key the value and, where it is missing, the place that it had."""
    if name not in old:
        new.pop(name, None)
    elif name in new:
        new[name] = old[name]
    else:
        before = list(old)[: list(old).index(name)]
        at = max((index + 1 for index, key in enumerate(new) if key in before), default=0)
        items = list(new.items())
        new.clear()
        new.update([*items[:at], (name, old[name]), *items[at:]])


def _in_order(value: Any, model: Any) -> Any:
    """A value with the keys that it shares with another in the order of that one, at every depth."""
    if isinstance(value, dict) and isinstance(model, dict):
        shared = iter([key for key in model if key in value])
        keys = [next(shared) if key in model else key for key in value]
        return {key: _in_order(value[key], model.get(key)) for key in keys}
    if isinstance(value, list) and isinstance(model, list) and len(value) == len(model):
        return [_in_order(one, other) for one, other in zip(value, model, strict=True)]
    return value


def _undo_tools(state: _Later) -> None:
    state.tools = None if state.earlier.tools is None else dict(state.old_tools)


def _set_tool(state: _Later, key: _ToolKey, tool: Any) -> None:
    if state.tools is not None and key in state.tools:
        state.tools[key] = tool


def _undo_added(state: _Later) -> None:
    kept = {key: tool for key, tool in (state.tools or {}).items() if key in state.old_tools}
    state.tools = None if not kept and state.earlier.tools is None else kept


def _undo_removed(state: _Later) -> None:
    tools = dict(state.tools or {})
    for key in state.old_tools:
        if key not in tools:
            _restore_key(tools, state.old_tools, key)
    state.tools = tools


def _undo_order(state: _Later) -> None:
    tools = state.tools or {}
    state.tools = {key: tools[key] for key in _in_order(tools, state.old_tools)}


def _keyed(tools: Iterable[Any]) -> dict[_ToolKey, Any]:
    """Tools by their names; of several of one name each has its number."""
    keyed: dict[_ToolKey, Any] = {}
    count: Counter[str] = Counter()
    for tool in tools:
        function = tool.get("function") if isinstance(tool, Mapping) else None
        named = function if isinstance(function, Mapping) else tool
        name = str(named.get("name", "a tool without name")) if isinstance(named, Mapping) else "a tool without name"
        keyed[name, count[name]] = tool
        count[name] += 1
    return keyed


def _names(keys: Iterable[_ToolKey]) -> str:
    return ", ".join(name for name, _ in keys)


# Messages


def _aligned(earlier: Request, later: Request) -> list[_Slot]:
    """The messages of both beside each other: by their numbers, or by what is equal where that fits better."""
    old, new = [dict(message) for message in earlier.messages], [dict(message) for message in later.messages]
    one, other = [_written(message) for message in old], [_written(message) for message in new]
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    in_place = sum(a == b for a, b in zip(one, other, strict=False))
    if len(new) >= len(old) and in_place >= sum(block.size for block in matcher.get_matching_blocks()):
        return _side_by_side(old, new, 0, 0)
    slots: list[_Slot] = []
    for _, low, high, start, end in matcher.get_opcodes():
        slots += _side_by_side(old[low:high], new[start:end], low, start)
    return slots


def _side_by_side(old: list[dict[str, Any]], new: list[dict[str, Any]], low: int, start: int) -> list[_Slot]:
    both = min(len(old), len(new))
    if len(old) > len(new) or any(_other_turn(old[at], new[at]) for at in range(both)):
        gone = [_Slot(message, None, low + at) for at, message in enumerate(old)]
        return gone + [_Slot(None, message, start + at) for at, message in enumerate(new)]
    slots = [_Slot(old[at], new[at], low + at) for at in range(both)]
    return slots + [_Slot(None, message, start + at) for at, message in enumerate(new[both:], both)]


def _other_turn(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether two messages are turns of their own; one that only changed its role is the same."""
    return old.get("role") != new.get("role") and _written(old.get("content")) != _written(new.get("content"))


def _messages(slots: list[_Slot]) -> Iterator[ClientChange]:
    last = max((number for number, slot in enumerate(slots) if slot.old is not None), default=-1)
    removed = [number for number, slot in enumerate(slots) if slot.new is None]
    inserted = [number for number in range(last) if slots[number].old is None]
    for number, slot in enumerate(slots):
        if slot.old is not None and slot.new is not None and _written(slot.old) != _written(slot.new):
            yield from _message_fields(number, slot.at, slot.old, slot.new)
    for numbers in (removed, inserted):
        first = slots[numbers[0]] if numbers else None
        message = (first.old or first.new) if first else None
        if first and message and first.at == 0 and message.get("role") in _SYSTEM and len(numbers) == 1:
            text = brief(message.get("content"), _SHOWN)
            shown = f"{text} -> none" if numbers is removed else f"none -> {text}"
            yield ClientChange("volatile-system-text", shown, ("messages[0]",), _swap(numbers))
            numbers.clear()
    if removed:
        # What stands in the place of removed messages is their summary, or the question asked after a rewind.
        instead: list[int] = []
        for number in range(removed[0], len(slots)):
            if slots[number].old is None and (number - 1 in removed or number - 1 in instead):
                instead.append(number)
        parameter = _counted(len(removed))
        if shorter := [number for number in instead if number < last]:
            parameter += f", {len(shorter)} in their place"
        paths = tuple(f"messages[{slots[number].at}]" for number in removed)
        yield ClientChange("turn-removed", parameter, paths, _swap([*removed, *instead]))
        inserted = [number for number in inserted if number not in instead]
    for number in inserted:
        at = f"messages[{slots[number].at}]"
        yield ClientChange("turn-edited", f"{at} inserted", (at,), _swap([number]))


def _message_fields(number: int, at: int, old: dict[str, Any], new: dict[str, Any]) -> Iterator[ClientChange]:
    path = f"messages[{at}]"
    keys = [key for key in dict.fromkeys([*old, *new]) if _written(old.get(key)) != _written(new.get(key))]
    reasoning = _reasoning_field(old)
    if reasoning and not _reasoning_field(new):
        gone = [key for key in keys if key in REASONING_FIELDS]
        parameter = f"{reasoning} of {path}"
        yield ClientChange("reasoning-dropped", parameter, (f"{path}.{reasoning}",), _put_back(number, gone))
        keys = [key for key in keys if key not in gone]
    for key in keys:
        before, after = old.get(key), new.get(key)
        name, shown = "turn-edited", f"{path}.{key}"
        if key == "tool_calls" and (order := _arguments_order(before, after)):
            name, shown = "arguments-reordered", order
        elif key == "content" and isinstance(before, str) and isinstance(after, str):
            bare = THINKING.sub("", before)
            if bare != before and not reasoning and bare.strip() == after.strip():
                name, shown = "reasoning-dropped", f"<think> in {path}.content"
            elif old.get("role") in _SYSTEM:
                name, shown = "volatile-system-text", shown_change(before, after)
            else:
                shown = f"{path}: {shown_change(before, after)}"
        elif key == "content" and old.get("role") in _SYSTEM:
            name, shown = "volatile-system-text", f"{brief(before, _SHOWN)} -> {brief(after, _SHOWN)}"
        yield ClientChange(name, shown, (f"{path}.{key}",), _put_back(number, [key]))


def _put_back(number: int, keys: list[str]) -> Callable[[_Later], None]:
    def undo(state: _Later) -> None:
        slot = state.slots[number]
        if slot.old is not None and slot.new is not None:
            for key in keys:
                _restore_key(slot.new, slot.old, key)

    return undo


def _swap(numbers: list[int]) -> Callable[[_Later], None]:
    """Put messages back that were removed, and take out those that were put in."""
    chosen = list(numbers)

    def undo(state: _Later) -> None:
        for number in chosen:
            state.slots[number].new = state.slots[number].old

    return undo


def _arguments_order(old: Any, new: Any) -> str | None:
    """How the keys of arguments moved, if nothing else of some calls changed."""
    if not (isinstance(old, list) and isinstance(new, list) and len(old) == len(new)):
        return None
    moved: list[str] = []
    for one, other in zip(old, new, strict=True):
        (rest, before), (other_rest, after) = _arguments(one), _arguments(other)
        if rest != other_rest or before != after or before is None or after is None:
            return None
        if _written(before) != _written(after):
            moved.append(f"{', '.join(before)} -> {', '.join(after)}" if list(before) != list(after) else "nested keys")
        elif _written(one) != _written(other):
            return None  # only the spelling of the JSON, or the order of a call's own fields
    return "; ".join(moved) or None


def _arguments(call: Any) -> tuple[Any, dict[str, Any] | None]:
    """A tool call without its arguments, and the arguments as a mapping."""
    if not isinstance(call, dict):
        return call, None
    function = call.get("function")
    holder = function if isinstance(function, dict) else call
    arguments = holder.get("arguments")
    kind = type(arguments).__name__
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return call, None
    rest = {key: value for key, value in holder.items() if key != "arguments"}
    around = {key: value for key, value in call.items() if key != "function"} if holder is function else None
    return (around, rest, kind), arguments if isinstance(arguments, dict) else None


def _reasoning_field(message: Mapping[str, Any]) -> str | None:
    return next((key for key in REASONING_FIELDS if message.get(key)), None)


def _written(value: Any) -> str:
    """A value so that its keys' order counts."""
    return "" if value is _ABSENT else json.dumps(value)


def _short(value: Any) -> str:
    if value is _ABSENT:
        return "not given"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _counted(number: int) -> str:
    return f"{number} message{'' if number == 1 else 's'}"
