"""Tool schemas: the part that every engine keeps, and what no engine takes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pytest_tokenparity import InvalidConversation, request_tool
from pytest_tokenparity.tools import assert_valid_tool

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "The city name."}},
    "required": ["city"],
}

# What transformers.utils.get_json_schema makes of a function with a return annotation.
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather for a city.",
        "parameters": PARAMETERS,
        "return": {"type": "string"},
    },
}


def test_a_tool_is_reduced_to_what_every_engine_keeps() -> None:
    assert request_tool(WEATHER) == {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get the current weather for a city.",
            "parameters": PARAMETERS,
        },
    }


def test_a_reduced_tool_stays_as_it_is() -> None:
    assert request_tool(request_tool(WEATHER)) == request_tool(WEATHER)


def test_the_tool_that_was_given_is_not_changed() -> None:
    given = copy.deepcopy(WEATHER)
    request_tool(given)
    assert given == WEATHER


@pytest.mark.parametrize(
    ("function", "kept"),
    [
        ({"name": "f"}, {"name": "f"}),
        ({"name": "f", "strict": True}, {"name": "f"}),
        ({"name": "f", "parameters": {}}, {"name": "f", "parameters": {}}),
        ({"name": "f", "description": ""}, {"name": "f", "description": ""}),
        ({"name": "f", "description": None}, {"name": "f", "description": None}),
    ],
)
def test_fields_that_are_missing_stay_missing(function: dict[str, Any], kept: dict[str, Any]) -> None:
    assert request_tool({"type": "function", "function": function}) == {"type": "function", "function": kept}


def test_fields_outside_the_function_are_dropped() -> None:
    assert request_tool({"type": "function", "cache_control": {}, "function": {"name": "f"}}) == {
        "type": "function",
        "function": {"name": "f"},
    }


def test_the_fields_stand_in_the_order_that_servers_give_them() -> None:
    """Servers rebuild the schema in this order, so the same prompt everywhere needs it here too."""
    shuffled = {"function": {"parameters": PARAMETERS, "description": "d", "name": "f"}, "type": "function"}
    reduced = request_tool(shuffled)
    assert list(reduced) == ["type", "function"]
    assert list(reduced["function"]) == ["name", "description", "parameters"]


def test_the_order_inside_parameters_is_kept() -> None:
    parameters = {"required": ["b"], "properties": {"b": {}, "a": {}}, "type": "object"}
    reduced = request_tool({"type": "function", "function": {"name": "f", "parameters": parameters}})
    assert repr(reduced["function"]["parameters"]) == repr(parameters)


@pytest.mark.parametrize(
    ("schema", "message", "where"),
    [
        ("get_weather", "a tool must be a mapping with `type: function` and `function`", ()),
        (None, "a tool must be a mapping with `type: function` and `function`", ()),
        ([WEATHER], "a tool must be a mapping with `type: function` and `function`", ()),
        ({}, "a tool needs `type: function`, found None", ()),
        ({"name": "f", "parameters": {}}, "a tool needs `type: function`, found None", ()),
        ({"type": "tool", "function": {"name": "f"}}, "a tool needs `type: function`, found 'tool'", ()),
        ({"type": "function"}, "a tool needs `function`, a mapping", ("function",)),
        ({"type": "function", "function": "f"}, "a tool needs `function`, a mapping", ("function",)),
        ({"type": "function", "function": {}}, "a function needs a `name`", ("function",)),
        ({"type": "function", "function": {"name": ""}}, "a function needs a `name`", ("function",)),
        ({"type": "function", "function": {"name": 5}}, "a function needs a `name`", ("function",)),
        (
            {"type": "function", "function": {"name": "f", "description": 5}},
            "description must be a string, found int",
            ("function", "description"),
        ),
        (
            {"type": "function", "function": {"name": "f", "parameters": []}},
            "parameters must be a mapping, found list",
            ("function", "parameters"),
        ),
        (
            {"type": "function", "function": {"name": "f", "parameters": {"x": ["a\0"]}}},
            "NUL inside a string: llama.cpp and tokenizers cut or refuse it",
            ("function", "parameters", "x", 0),
        ),
        (
            {"type": "function", "function": {"name": "f", "return": {1: 2}}},
            "a key must be a string, found 1",
            ("function", "return"),
        ),
    ],
)
def test_what_no_engine_takes_is_invalid(schema: Any, message: str, where: tuple[str | int, ...]) -> None:
    for check in (assert_valid_tool, request_tool):
        with pytest.raises(InvalidConversation) as caught:
            check(schema)
        assert (str(caught.value), caught.value.where) == (message, where)
