"""Tool schemas: whether one is valid, and the part of it that every engine keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import InvalidConversation
from .messages import assert_text
from .request import ToolSchema
from .words import brief

KEPT_FIELDS = ("name", "description", "parameters")
"""The fields of a function that llama-server, vLLM and SGLang all hand to the template."""


def request_tool(schema: ToolSchema) -> dict[str, Any]:
    """The schema reduced to what every engine keeps: ``type``, and the function's name, description and parameters.

    ``transformers.utils.get_json_schema`` adds ``return``, which servers drop: a client that sends the reduced schema
    gets the same prompt everywhere. Missing fields stay missing. The argument is not changed.
    """
    assert_valid_tool(schema)
    function = schema["function"]
    return {"type": "function", "function": {key: function[key] for key in KEPT_FIELDS if key in function}}


def assert_valid_tool(schema: Any) -> None:
    """Raise InvalidConversation unless ``schema`` is ``{"type": "function", "function": {"name": ..., ...}}``."""
    if not isinstance(schema, Mapping):
        raise InvalidConversation("a tool must be a mapping with `type: function` and `function`")
    if schema.get("type") != "function":
        raise InvalidConversation(f"a tool needs `type: function`, found {brief(schema.get('type'))}")
    function = schema.get("function")
    if not isinstance(function, Mapping):
        raise InvalidConversation("a tool needs `function`, a mapping", ("function",))
    if not isinstance(function.get("name"), str) or not function["name"]:
        raise InvalidConversation("a function needs a `name`", ("function",))
    for key, wanted in (("description", str), ("parameters", Mapping)):
        if not (function.get(key) is None or isinstance(function[key], wanted)):
            found = type(function[key]).__name__
            raise InvalidConversation(
                f"{key} must be {'a string' if wanted is str else 'a mapping'}, found {found}", ("function", key)
            )
    assert_text(schema)
