"""``explain`` from plain Python with what nobody should give it: one clear word, never a traceback from inside."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_tokenparity import EngineError, LlamaCppTokens, Request, explain, find_prefix_breaks

from .witnesses import QUESTION, TOOL, encoded, qwen_text, reference, user


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (Request([{**user("Hi"), "tool_calls": 5}]), "messages[0].tool_calls is no list of mappings"),
        (Request([{**user("Hi"), "tool_calls": ["f"]}]), "messages[0].tool_calls is no list of mappings"),
        (Request(QUESTION, ["f"]), "tools is no list of mappings"),  # type: ignore[list-item]
        (Request(QUESTION, "get_weather"), "tools is no list of mappings"),  # type: ignore[arg-type]
        (Request([user("\ud800")]), "half of a surrogate pair inside a string: it is not text"),
        (Request(["Hi"]), "messages[0] is no mapping"),  # type: ignore[list-item]
    ],
    ids=["calls-a-number", "calls-strings", "tools-strings", "tools-a-string", "half-a-pair", "messages-strings"],
)
def test_a_malformed_request_is_not_tried(request_: Request, says: str) -> None:
    found = explain(reference("qwen3"), request_, [1, 2, 3])
    assert str(found) == f"unknown, not looked for: the request is malformed: {says}"


def test_a_schema_nested_without_end_is_not_tried() -> None:
    schema: dict[str, Any] = {}
    for _ in range(400):
        schema = {"properties": schema}
    found = explain(reference("qwen3"), Request(QUESTION, [schema]), [1, 2, 3])
    assert str(found).startswith("unknown, not looked for: the request is malformed: nested more than")


def test_a_conversation_is_no_request() -> None:
    with pytest.raises(TypeError, match=r"explain takes a Request, such as Request\(conversation, tools\), not list"):
        explain(reference("qwen3"), QUESTION, [1])  # type: ignore[arg-type]


def test_a_rendering_is_no_list_of_ids() -> None:
    asked = reference("qwen3")
    request = Request(QUESTION)
    with pytest.raises(EngineError, match="the answer to explain must give a list of token IDs"):
        explain(asked, request, asked.render(request))  # type: ignore[arg-type]


def test_a_server_as_the_reference_cannot_be_asked_under_changes() -> None:
    with LlamaCppTokens("http://127.0.0.1:9") as server:
        found = explain(server, Request(QUESTION), [1])
    assert str(found).startswith("unknown, not looked for: the reference 'llama-server' cannot be asked under changes")


def test_an_explanation_prints_as_one_line() -> None:
    asked = reference("qwen3")
    request = Request(QUESTION, [{**TOOL, "function": {**TOOL["function"], "return": {"type": "string"}}}])
    text = qwen_text(QUESTION, [TOOL])
    found = explain(asked, request, encoded("qwen3", text), text)
    assert str(found) == "proven tool-field-dropped: return at tools[0].function.return"
    assert str(explain(asked, Request(QUESTION), asked.ids(QUESTION))) == "equal"


def test_the_switches_of_a_template_are_keywords_of_their_own() -> None:
    """As a mapping they would be one switch that no template reads."""
    with pytest.raises(TypeError, match="a template's switches are keywords of their own"):
        reference("qwen3").ids(QUESTION, template_kwargs={"enable_thinking": False})


def test_a_tail_is_at_least_nothing() -> None:
    with pytest.raises(ValueError, match="tail must be a number of tokens, at least 0, not -1"):
        find_prefix_breaks(reference("qwen3").ids, QUESTION, tail=-1)
