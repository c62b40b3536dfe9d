"""Causes in the tool schemas of a request."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from .cause import Cause, View, compact
from .prompt import Body, Change, Layer

_OUTER = ("type", "function")
_OF_SCHEMA = ("type", "$defs", "items", "required", "properties")
_OF_PROPERTY = ("anyOf", "type", "items", "description", "enum", "properties", "required")
_CANONICAL = ("name", "description", "parameters", "strict", "defer_loading")
_JSON_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_ADDED: tuple[tuple[str, Any], ...] = (
    ("description", None),
    ("description", ""),
    ("parameters", None),
    ("parameters", {}),
    ("tool.defer_loading", None),
    ("tool.type", "function"),
)
"""What engines were seen to add: vLLM and SGLang null and a missing type, llama-server empty values, SGLang
``defer_loading`` on every tool."""

Tool = dict[str, Any]


def _function(tool: Tool) -> dict[str, Any]:
    function = tool.get("function")
    return function if isinstance(function, dict) else tool


def _where(tool: int, key: str) -> str:
    outer, _, name = key.rpartition("tool.")
    return f"tools[{tool}].{name}" if outer or key.startswith("tool.") else f"tools[{tool}].function.{key}"


def _holder(tool: Tool, key: str) -> tuple[dict[str, Any], str]:
    """The mapping that a key stands in: the tool itself for ``tool.x``, else its function."""
    return (tool, key[5:]) if key.startswith("tool.") else (_function(tool), key)


def _each(change: Callable[[Tool], None]) -> Callable[[Body], None]:
    def apply(body: Body) -> None:
        for tool in body.tools or []:
            change(tool)

    return apply


# Fields


def _dropped(view: View) -> Iterator[Change]:
    keys: dict[str, list[int]] = {}
    for index, tool in enumerate(view.body.tools or []):
        for key in tool:
            if key not in ("type", "function"):
                keys.setdefault(f"tool.{key}", []).append(index)
        for key in _function(tool):
            if key != "name" and "function" in tool:
                keys.setdefault(key, []).append(index)
    for key, tools in keys.items():
        yield Change(
            "tool-field-dropped",
            key,
            Layer.REQUEST,
            _each(lambda tool, key=key: _drop(tool, key)),  # type: ignore[misc]
            tuple(_where(index, key) for index in tools),
            view.fewer(f'"{key.removeprefix("tool.")}"'),
        )
        nulls = [index for index in tools if _value(view, index, key) is None]
        if nulls and len(nulls) < len(tools):
            yield Change(
                "tool-field-dropped",
                f"{key} where it is null",
                Layer.REQUEST,
                _each(lambda tool, key=key: _drop(tool, key, only_null=True)),  # type: ignore[misc]
                tuple(_where(index, key) for index in nulls),
                view.fewer(f'"{key.removeprefix("tool.")}"'),
            )


def _value(view: View, tool: int, key: str) -> Any:
    holder, name = _holder((view.body.tools or [])[tool], key)
    return holder.get(name)


def _drop(tool: Tool, key: str, only_null: bool = False) -> None:
    holder, name = _holder(tool, key)
    if name in holder and not (only_null and holder[name] is not None):
        del holder[name]


def _added(view: View) -> Iterator[Change]:
    tools = view.changed.tools or []
    candidates: list[tuple[str, Any, bool]] = [(key, value, False) for key, value in _ADDED]
    asked = json.dumps(tools)
    for match in re.finditer(r'"(\w{1,40})":\s*(null|true|false|""|\{\}|\[\])', view.target):
        key, value = match[1], json.loads(match[2])
        if f'"{key}"' not in asked and (f"tool.{key}", value) not in _ADDED and (key, value) not in _ADDED:
            candidates += [(key, value, True), (f"tool.{key}", value, True)]
    seen: set[tuple[str, str]] = set()
    for key, value, copied in candidates:
        lacking = [index for index, tool in enumerate(tools) if _holder(tool, key)[1] not in _holder(tool, key)[0]]
        if not lacking or (key, compact(value)) in seen:
            continue
        seen.add((key, compact(value)))
        name = key.removeprefix("tool.")
        evidence = view.more(f'"{name}"') and bool(
            re.search(rf'"{re.escape(name)}":\s*{re.escape(compact(value))}', view.target)
        )
        moved = [
            tool for tool in (tools[index] for index in lacking) if _place(_holder(tool, key)[0], name) is not None
        ]
        for place in ("in place", "at the end"):
            if place == ("in place" if name not in (*_OUTER, *_CANONICAL[:3]) else "" if moved else "at the end"):
                continue
            yield Change(
                "tool-field-added",
                f"{key}={compact(value)}, {place}",
                Layer.REQUEST,
                _each(lambda tool, key=key, value=value, place=place: _add(tool, key, value, place)),  # type: ignore[misc]
                tuple(_where(index, key) for index in lacking),
                evidence,
                copied,
                order=1,
            )


def _add(tool: Tool, key: str, value: Any, place: str) -> None:
    holder, name = _holder(tool, key)
    if name in holder:
        return
    after = list(holder.items())
    at = _place(holder, name) if place == "in place" else None
    at = len(after) if at is None else at
    holder.clear()
    holder.update([*after[:at], (name, value), *after[at:]])


def _place(holder: dict[str, Any], name: str) -> int | None:
    """Where a field stands in the order name, description, parameters, if that is not behind all others."""
    order = _OUTER if name in _OUTER else _CANONICAL
    later = order[order.index(name) + 1 :] if name in order else ()
    return next((index for index, other in enumerate(holder) if other in later), None)


# Schemas


def _schemas(tool: Tool) -> Iterator[tuple[str, dict[str, Any]]]:
    parameters = _function(tool).get("parameters")
    if isinstance(parameters, dict):
        yield from _nested(parameters, "parameters")


def _nested(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for key in ("properties", "$defs", "definitions", "patternProperties"):
        if isinstance(schema.get(key), dict):
            for name, entry in schema[key].items():
                if isinstance(entry, dict):
                    yield from _nested(entry, f"{path}.{key}.{name}")
    for key in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(key), dict):
            yield from _nested(schema[key], f"{path}.{key}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if isinstance(schema.get(key), list):
            for index, entry in enumerate(schema[key]):
                if isinstance(entry, dict):
                    yield from _nested(entry, f"{path}.{key}[{index}]")


def _keywords_dropped(view: View) -> Iterator[Change]:
    found: dict[str, list[str]] = {}
    for index, tool in enumerate(view.body.tools or []):
        for path, schema in _schemas(tool):
            for key in schema:
                if key not in ("type", "properties"):
                    found.setdefault(key, []).append(f"tools[{index}].function.{path}.{key}")
    for key, paths in found.items():

        def drop(tool: Tool, key: str = key) -> None:
            for _, schema in list(_schemas(tool)):
                schema.pop(key, None)

        yield Change(
            "schema-keyword-dropped",
            key,
            Layer.REQUEST,
            _each(drop),
            tuple(paths),
            view.fewer(f'"{key}"'),
            order=2,
        )


def _types_rewritten(view: View) -> Iterator[Change]:
    found: dict[str, list[str]] = {}
    for index, tool in enumerate(view.body.tools or []):
        for path, schema in _schemas(tool):
            if isinstance(schema.get("type"), str):
                found.setdefault(schema["type"], []).append(f"tools[{index}].function.{path}.type")
    for old, paths in found.items():
        for new in _JSON_TYPES:
            if new == old or (old in _JSON_TYPES and not (view.fewer(f'"{old}"') and view.more(f'"{new}"'))):
                continue

            def rewrite(tool: Tool, old: str = old, new: str = new) -> None:
                for _, schema in _schemas(tool):
                    if schema.get("type") == old:
                        schema["type"] = new

            yield Change(
                "schema-type-rewritten",
                f"{old} -> {new}",
                Layer.REQUEST,
                _each(rewrite),
                tuple(paths),
                view.fewer(f'"{old}"') and view.more(f'"{new}"'),
                copied=old in _JSON_TYPES,
                order=3,
            )


# Order


def _reordered(view: View) -> Iterator[Change]:
    for parameter, change in (("outer", _outer), ("inner", _inner), ("schema", _schema), ("sorted", _sorted)):
        before = [json.dumps(tool) for tool in view.body.tools or []]
        changed = view.prompts.body(())
        _each(change)(changed)
        after = [json.dumps(tool) for tool in changed.tools or []]
        moved = tuple(
            f"tools[{index}]" for index, pair in enumerate(zip(before, after, strict=True)) if len({*pair}) > 1
        )
        if moved:
            yield Change(
                "tool-keys-reordered", parameter, Layer.REQUEST, _each(change), moved, view.keys_moved, order=4
            )


def _arrange(mapping: dict[str, Any], first: tuple[str, ...]) -> None:
    items = sorted(mapping.items(), key=lambda item: first.index(item[0]) if item[0] in first else len(first))
    mapping.clear()
    mapping.update(items)


def _outer(tool: Tool) -> None:
    _arrange(tool, _OUTER)


def _inner(tool: Tool) -> None:
    _arrange(_function(tool), _CANONICAL)


def _schema(tool: Tool) -> None:
    """The keys of a schema in the order of Ollama's structs (`api/types.go`)."""
    parameters = _function(tool).get("parameters")
    if isinstance(parameters, dict):
        _arrange(parameters, _OF_SCHEMA)
        _arrange_properties(parameters)


def _arrange_properties(schema: dict[str, Any]) -> None:
    properties = schema.get("properties")
    for value in properties.values() if isinstance(properties, dict) else ():
        if isinstance(value, dict):
            _arrange(value, _OF_PROPERTY)
            _arrange_properties(value)


def _sorted(tool: Tool) -> None:
    ordered = sorted_keys(tool)
    tool.clear()
    tool.update(ordered)


def sorted_keys(value: Any) -> Any:
    """A JSON value with every mapping's keys in alphabetical order."""
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    return [sorted_keys(entry) for entry in value] if isinstance(value, list) else value


# The list itself


def _name(tool: Tool) -> str:
    return str(_function(tool).get("name", ""))


def _tools_dropped(view: View) -> Iterator[Change]:
    tools = view.body.tools
    if not tools:
        return

    def keep(names: frozenset[str]) -> Callable[[Body], None]:
        def apply(body: Body) -> None:
            body.tools = [tool for tool in body.tools or [] if _name(tool) in names] or None

        return apply

    names = [_name(tool) for tool in tools]
    gone = [name for name in names if view.fewer_names(name)]
    yield Change(
        "tools-dropped",
        "all",
        Layer.REQUEST,
        keep(frozenset()),
        tuple(f"tools[{index}]" for index in range(len(tools))),
        len(gone) == len(names),
        order=5,
    )
    if gone and len(gone) < len(names):
        yield Change(
            "tools-dropped",
            ", ".join(gone),
            Layer.REQUEST,
            keep(frozenset(names) - frozenset(gone)),
            tuple(f"tools[{index}]" for index, name in enumerate(names) if name in gone),
            order=5,
        )


def _tools_empty(view: View) -> Iterator[Change]:
    if any(message.get("tool_calls") == [] for message in view.body.messages):
        paths = tuple(
            f"messages[{index}].tool_calls"
            for index, message in enumerate(view.body.messages)
            if message.get("tool_calls") == []
        )

        def without_calls(body: Body) -> None:
            for message in body.messages:
                if message.get("tool_calls") == []:
                    del message["tool_calls"]

        yield Change("tools-empty", "no tool calls for an empty list", Layer.REQUEST, without_calls, paths, order=5)
    if view.body.tools:
        return
    empty = view.body.tools is None

    def apply(body: Body) -> None:
        body.tools = [] if empty else None

    parameter = "an empty list of tools for none" if empty else "no tools for an empty list"
    yield Change("tools-empty", parameter, Layer.REQUEST, apply, ("tools",), not empty, order=5)


def _tools_reordered(view: View) -> Iterator[Change]:
    tools = view.body.tools or []
    names = [_name(tool) for tool in tools]
    if len(set(names)) < 2:
        return
    orders = {"sorted by name": sorted(names)}
    found = {name: _position(view.target, name) for name in names}
    if all(at >= 0 for at in found.values()):
        orders["order"] = sorted(names, key=lambda name: found[name])
    for order in orders.values():
        if order == names:
            continue

        def apply(body: Body, order: list[str] = order) -> None:
            if body.tools:
                body.tools.sort(key=lambda tool: order.index(_name(tool)))

        yield Change(
            "tools-reordered",
            f"{', '.join(names)} -> {', '.join(order)}",
            Layer.REQUEST,
            apply,
            tuple(f"tools[{index}]" for index, name in enumerate(names) if order[index] != name),
            order == orders.get("order"),
            order=6,
        )


def _position(text: str, name: str) -> int:
    quoted = text.find(f'"{name}"')
    return quoted if quoted >= 0 else text.find(name)


CAUSES = (
    Cause(
        "tool-field-dropped",
        "with `{}` removed from the tools",
        "send tools reduced to name, description and parameters (request_tool)",
        {
            "llama-server": "b11549",
            "vllm": "0.33.0",
            "vllm-tokenize": "0.33.0",
            "sglang": "0.5.23",
            "ollama": "v0.33.0-rc2",
        },
        _dropped,
    ),
    Cause(
        "tool-field-added",
        "with {} added to the tools that lack it",
        "give every tool a description and parameters; for what the engine adds to every tool, send it to all engines",
        {"llama-server": "b11549", "vllm": "0.33.0", "vllm-tokenize": "0.33.0", "sglang": "0.5.23"},
        _added,
    ),
    Cause(
        "schema-keyword-dropped",
        "with the schema keyword `{}` removed",
        "leave the keyword out of the schema, or say it in the description",
        {"ollama": "v0.33.0-rc2 (source)"},
        _keywords_dropped,
    ),
    Cause(
        "schema-type-rewritten",
        "with the schema type {}",
        "write the type as JSON Schema names it",
        {"sglang": "0.5.23"},
        _types_rewritten,
    ),
    Cause(
        "tool-keys-reordered",
        "with the keys of the tools in another order ({})",
        "write type before function, and name, description, parameters in this order",
        {
            "vllm": "0.33.0",
            "vllm-tokenize": "0.33.0",
            "sglang": "0.5.23",
            "llama-server": "b11549",
            "client-completion": "minijinja",
            "ollama": "v0.33.0-rc2 (source)",
        },
        _reordered,
    ),
    Cause(
        "tools-dropped",
        "without these tools: {}",
        "leave tools out of the request where they may not be called, or send `tool_choice: auto`",
        {"sglang": "0.5.23", "tgi": "3.3.7 (source)"},
        _tools_dropped,
    ),
    Cause(
        "tools-empty",
        "with {}",
        "leave an empty list of tools or calls out of the request",
        {"vllm-tokenize": "0.33.0", "llama-server": "b11549"},
        _tools_empty,
    ),
    Cause(
        "tools-reordered",
        "with the tools in another order ({})",
        "send the tools in one order, always",
        {"client-completion": "clients"},
        _tools_reordered,
    ),
)
