"""Causes in tools and calls, made by a real llama-server, by clients that render prompts, and by gateways before them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pytest_tokenparity import LlamaCppTokens, Request

from .witnesses import (
    ARGUMENTS,
    FUNCTION,
    QUESTION,
    SCHEMA,
    SYSTEM,
    TOOL,
    Json,
    assert_client_explained,
    assert_explained,
    called,
    encoded,
    llama_text,
    python_json,
    qwen_text,
    reference,
    tool,
    user,
)

RETURN = {"type": "string"}
CALL = "messages[1].tool_calls[0].function.arguments"


def of_server(url: str, family: str, request: Request, causes: list[str], where: str) -> None:
    with LlamaCppTokens(url) as server:
        answer = server.render(request)
    assert answer.ids is not None, answer
    assert_explained(reference(family), request, answer.ids, answer.text, causes, where, engine="llama-server")


def of_client(request: Request, text: str, causes: list[str], where: str) -> None:
    assert_client_explained("qwen3", request, text, causes, where)


def test_a_client_that_renders_by_hand_renders_what_the_template_does() -> None:
    for messages, tools in ((QUESTION, [TOOL]), (called(), [TOOL, tool(name="fetch")]), (QUESTION, None)):
        request = Request(messages, tools)
        assert reference("qwen3").text(request) == qwen_text(messages, tools or ())


# Fields


@pytest.mark.parametrize(
    ("key", "value"),
    [("return", RETURN), ("strict", True), ("strict", False), ("examples", [1, "two"]), ("deprecated", None)],
)
def test_llama_server_drops_a_field_of_the_function(qwen_url: str, key: str, value: Any) -> None:
    request = Request(QUESTION, [tool(**{key: value})])
    of_server(qwen_url, "qwen3", request, [f"tool-field-dropped: {key}"], f"tools[0].function.{key}")


def test_llama_server_drops_a_field_beside_the_function(qwen_url: str) -> None:
    request = Request(QUESTION, [{**TOOL, "cache_control": {"type": "ephemeral"}}])
    of_server(qwen_url, "qwen3", request, ["tool-field-dropped: tool.cache_control"], "tools[0].cache_control")


def test_llama_server_drops_several_fields_of_several_tools(qwen_url: str) -> None:
    tools = [tool(strict=True), {**tool(name="fetch", **{"return": RETURN}), "weight": 2}]
    causes = ["tool-field-dropped: return, strict, tool.weight"]
    of_server(qwen_url, "qwen3", Request(QUESTION, tools), causes, "tools[0].function.strict")


def test_llama_server_drops_a_field_that_llama_3_1_writes_on_lines_of_their_own(llama_url: str) -> None:
    request = Request(QUESTION, [tool(strict=True)], {"date_string": "26 Jul 2024"})
    of_server(llama_url, "llama3.1", request, ["tool-field-dropped: strict"], "tools[0].function.strict")


@pytest.mark.parametrize(
    ("function", "added", "where"),
    [
        ({"name": "lookup", "parameters": SCHEMA}, 'description="", in place', "description"),
        ({"name": "lookup", "description": "Look it up."}, "parameters={}, in place", "parameters"),
        (
            {"name": "lookup"},
            'description="", in place, parameters={}, in place',
            "description",
        ),
    ],
)
def test_llama_server_adds_empty_fields_to_a_tool(qwen_url: str, function: Json, added: str, where: str) -> None:
    request = Request(QUESTION, [{"type": "function", "function": function}])
    of_server(qwen_url, "qwen3", request, [f"tool-field-added: {added}"], f"tools[0].function.{where}")


@pytest.mark.parametrize(
    ("add", "parameter", "where"),
    [
        (lambda it: {**it, "strict": None}, "tool.strict=null, at the end", "tools[0].strict"),
        (
            lambda it: {**it, "function": {**it["function"], "strict": False}},
            "strict=false, at the end",
            "tools[0].function.strict",
        ),
        (
            lambda it: {**it, "function": {**it["function"], "strict": None}},
            "strict=null, at the end",
            "tools[0].function.strict",
        ),
    ],
)
def test_a_client_adds_a_field_to_every_tool(add: Callable[[Json], Json], parameter: str, where: str) -> None:
    tools = [TOOL, tool(name="fetch")]
    text = qwen_text(QUESTION, [add(entry) for entry in tools])
    of_client(Request(QUESTION, tools), text, [f"tool-field-added: {parameter}"], where)


KNOWN = ("type", "$ref", "$defs", "anyOf", "properties", "items", "description", "enum", "required")


def as_ollama_knows(schema: Any) -> Any:
    """A schema as Ollama's Go structures keep it: what they do not know is gone."""
    kept: Json = {}
    for key, value in schema.items():
        if key == "properties":
            kept[key] = {name: as_ollama_knows(entry) for name, entry in value.items()}
        elif key in KNOWN:
            kept[key] = value
    return kept


@pytest.mark.parametrize(
    ("more", "causes", "where"),
    [
        ({"default": "Paris"}, "default", "properties.city.default"),
        ({"minimum": 1}, "minimum", "properties.city.minimum"),
        ({"pattern": "^[A-Z]"}, "pattern", "properties.city.pattern"),
        (
            {"pattern": "^[A-Z]", "default": "Paris", "maxLength": 9},
            "default, maxLength, pattern",
            "properties.city.default",
        ),
    ],
)
def test_a_server_that_knows_some_schema_keywords_drops_the_others(more: Json, causes: str, where: str) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string", **more}, "flag": {"type": "boolean"}}}
    request = Request(QUESTION, [tool(parameters=schema)])
    text = qwen_text(QUESTION, [tool(parameters=as_ollama_knows(schema))])
    of_client(request, text, [f"schema-keyword-dropped: {causes}"], f"tools[0].function.parameters.{where}")


def test_a_server_that_knows_some_schema_keywords_drops_those_of_the_whole_schema() -> None:
    schema = {**SCHEMA, "additionalProperties": False}
    request = Request(QUESTION, [tool(parameters=schema)])
    text = qwen_text(QUESTION, [tool(parameters=as_ollama_knows(schema))])
    where = "tools[0].function.parameters.additionalProperties"
    of_client(request, text, ["schema-keyword-dropped: additionalProperties"], where)


# Order


def test_llama_server_puts_the_keys_of_a_tool_in_its_order(qwen_url: str) -> None:
    backwards = {"function": dict(reversed(FUNCTION.items())), "type": "function"}
    request = Request(QUESTION, [backwards])
    of_server(qwen_url, "qwen3", request, ["tool-keys-reordered: inner, outer"], "tools[0]")
    request = Request(QUESTION, [{"type": "function", "function": dict(reversed(FUNCTION.items()))}])
    of_server(qwen_url, "qwen3", request, ["tool-keys-reordered: inner"], "tools[0]")
    request = Request(QUESTION, [{"function": FUNCTION, "type": "function"}])
    of_server(qwen_url, "qwen3", request, ["tool-keys-reordered: outer"], "tools[0]")


def test_a_client_sorts_the_keys_of_its_tools() -> None:
    schema = {
        "type": "object",
        "properties": {"zone": {"type": "string", "description": "a"}, "city": {"type": "string"}},
    }
    tools = [tool(parameters=schema)]
    text = qwen_text(QUESTION, json.loads(json.dumps(tools, sort_keys=True)))
    of_client(Request(QUESTION, tools), text, ["tool-keys-reordered: sorted"], "tools[0]")


def test_a_client_sorts_the_tools_by_name() -> None:
    tools = [tool(name=name) for name in ("store", "lookup", "fetch")]
    text = qwen_text(QUESTION, sorted(tools, key=lambda it: str(it["function"]["name"])))
    causes = ["tools-reordered: store, lookup, fetch -> fetch, lookup, store"]
    of_client(Request(QUESTION, tools), text, causes, "tools[0]")


def test_a_client_sends_the_tools_in_the_order_of_the_last_run() -> None:
    tools = [tool(name=name) for name in ("store", "lookup", "fetch")]
    text = qwen_text(QUESTION, [tools[0], tools[2], tools[1]])
    causes = ["tools-reordered: store, lookup, fetch -> store, fetch, lookup"]
    of_client(Request(QUESTION, tools), text, causes, "tools[1]")


def test_a_client_reorders_tools_whose_names_stand_in_one_another() -> None:
    tools = [tool(name="look"), tool(name="lookup"), tool(name="up")]
    text = qwen_text(QUESTION, [tools[2], tools[0], tools[1]])
    of_client(Request(QUESTION, tools), text, ["tools-reordered: look, lookup, up -> up, look, lookup"], "tools[0]")


# The list


def test_a_client_forgets_the_tools() -> None:
    of_client(Request(QUESTION, [TOOL]), qwen_text(QUESTION), ["tools-dropped: all"], "tools[0]")


def test_a_client_sends_one_tool_of_three() -> None:
    tools = [tool(name=name) for name in ("store", "lookup", "fetch")]
    text = qwen_text(QUESTION, [tools[1]])
    of_client(Request(QUESTION, tools), text, ["tools-dropped: store, fetch"], "tools[0]")


def test_a_client_forgets_a_tool_whose_name_stands_in_another() -> None:
    tools = [tool(name="look"), tool(name="lookup")]
    of_client(Request(QUESTION, tools), qwen_text(QUESTION, [tools[1]]), ["tools-dropped: look"], "tools[0]")


def test_llama_server_takes_an_empty_list_of_tools_for_none(llama_url: str) -> None:
    request = Request(QUESTION, [], {"date_string": "26 Jul 2024"})
    of_server(llama_url, "llama3.1", request, ["tools-empty: no tools for an empty list"], "tools")


def test_a_client_passes_an_empty_list_of_tools_where_there_are_none() -> None:
    # what Llama 3.1's template does with a list that is empty: all that announces tools, and no tool
    text = llama_text([SYSTEM], environment="Environment: ipython\n").replace(
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<|start_header_id|>user<|end_header_id|>\n\nGiven the following functions, please respond with a JSON for a "
        "function call with its proper arguments that best answers the given prompt.\n\n"
        'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.'
        "Do not use variables.\n\n"
        f"{QUESTION[1]['content']}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    )
    causes = ["tools-empty: an empty list of tools for none"]
    assert_client_explained("llama3.1", Request(QUESTION), text, causes, "tools")


def test_a_client_leaves_out_an_empty_list_of_calls() -> None:
    talk = [user("Hi"), {"role": "assistant", "content": "Hello.", "tool_calls": []}, user("Bye")]
    text = llama_text([user("Hi"), {"role": "assistant", "content": "Hello."}, user("Bye")])
    causes = ["tools-empty: no tool calls for an empty list"]
    assert_client_explained("llama3.1", Request(talk), text, causes, "messages[1].tool_calls")


# Arguments


def test_llama_server_parses_the_arguments_of_a_call(llama_url: str) -> None:
    talk = called('{"city":"Paris","flag":false}')
    request = Request(talk, None, {"date_string": "26 Jul 2024"})
    of_server(llama_url, "llama3.1", request, ["arguments-parsed"], CALL)


def test_a_client_parses_the_arguments_of_a_call() -> None:
    request = Request(called('{"city":"Paris","flag":false}'), [TOOL])
    of_client(request, qwen_text(called(ARGUMENTS), [TOOL]), ["arguments-parsed"], CALL)


def test_a_client_empties_arguments_that_are_no_json() -> None:
    request = Request(called('{"city": "Par'), [TOOL])
    of_client(request, qwen_text(called({}), [TOOL]), ["arguments-emptied"], CALL)


@pytest.mark.parametrize(("separators", "parameter"), [((",", ":"), "compact"), ((", ", ": "), "with spaces")])
def test_a_client_writes_arguments_as_a_string_inside_json(separators: tuple[str, str], parameter: str) -> None:
    # Llama 3.1's template writes whatever the arguments are as JSON: a string gets quotes
    head = llama_text([called()[0]]).removesuffix("<|start_header_id|>assistant<|end_header_id|>\n\n")
    written = json.dumps(json.dumps(ARGUMENTS, separators=separators))
    text = (
        f"{head}<|start_header_id|>assistant<|end_header_id|>\n\n"
        f'{{"name": "lookup", "parameters": {written}}}<|eot_id|>'
        '<|start_header_id|>ipython<|end_header_id|>\n\n"sunny"<|eot_id|>'
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )
    assert_client_explained("llama3.1", Request(called()), text, [f"arguments-as-string: {parameter}"], CALL)


def test_a_client_writes_arguments_as_compact_json() -> None:
    request = Request(called(ARGUMENTS), [TOOL])
    text = qwen_text(called('{"city":"Paris","flag":false}'), [TOOL])
    of_client(request, text, ["arguments-as-string: compact"], CALL)


@pytest.mark.parametrize("arguments", [{"zone": "UTC", "city": "Paris"}, '{"zone": "UTC", "city": "Paris"}'])
def test_a_client_sorts_the_keys_of_arguments(arguments: Any) -> None:
    request = Request(called(arguments), [TOOL])
    text = qwen_text(called({"city": "Paris", "zone": "UTC"}), [TOOL])
    of_client(request, text, ["arguments-reordered: sorted"], CALL)


def test_a_client_sorts_the_keys_of_arguments_in_a_compact_string() -> None:
    request = Request(called('{"zone":"UTC","city":"Paris"}'), [TOOL])
    text = qwen_text(called('{"city":"Paris","zone":"UTC"}'), [TOOL])
    of_client(request, text, ["arguments-reordered: sorted"], CALL)


# Call ids, which a template of our own shows as Mistral's do

SHOWS_IDS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}[{{ c.function.name }}:{{ c.id }}]{% endfor %}"
    "{% if m.tool_call_id %}({{ m.tool_call_id }}){% endif %}<|im_end|>\n{% endfor %}{{ '<|im_start|>assistant\n' }}"
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("functions.lookup:0", "functions"),
        ("functions.lookup:0", "call_0"),
        ("123e4567-e89b-12d3-a456-426614174000", "123e4567e"),
        ("123e4567-e89b-12d3-a456-426614174000", "614174000"),
        ("call_1", "chatcmpl-tool-5d1f"),
        ("call_1", "aB3dE5fG7"),
    ],
)
def test_a_gateway_changes_the_id_of_a_call(old: str, new: str) -> None:
    text = (
        "<|im_start|>user\nIs it sunny in Paris?<|im_end|>\n"
        f"<|im_start|>assistant\n[lookup:{new}]<|im_end|>\n"
        f"<|im_start|>tool\nsunny({new})<|im_end|>\n<|im_start|>assistant\n"
    )
    request = Request(called(call_id=old))
    causes = [f"call-id-changed: {old} -> {new}"]
    assert_client_explained("qwen3", request, text, causes, "messages[1].tool_calls[0].id", template=SHOWS_IDS)


def test_a_gateway_forgets_the_id_of_a_call() -> None:
    text = (
        "<|im_start|>user\nIs it sunny in Paris?<|im_end|>\n<|im_start|>assistant\n[lookup:]<|im_end|>\n"
        "<|im_start|>tool\nsunny<|im_end|>\n<|im_start|>assistant\n"
    )
    causes = ["call-id-changed: call_1 -> nothing"]
    where = "messages[1].tool_calls[0].id"
    assert_client_explained("qwen3", Request(called()), text, causes, where, template=SHOWS_IDS)


def test_a_gateway_gives_an_id_to_a_call_that_has_none() -> None:
    talk = called()
    del talk[1]["tool_calls"][0]["id"]
    del talk[2]["tool_call_id"]
    text = (
        "<|im_start|>user\nIs it sunny in Paris?<|im_end|>\n<|im_start|>assistant\n[lookup:000000000]<|im_end|>\n"
        "<|im_start|>tool\nsunny(000000000)<|im_end|>\n<|im_start|>assistant\n"
    )
    causes = ["call-id-changed: nothing -> 000000000"]
    where = "messages[1].tool_calls[0].id"
    assert_client_explained("qwen3", Request(talk), text, causes, where, template=SHOWS_IDS)


def test_llama_server_keeps_the_id_of_a_call(qwen_url: str) -> None:
    # what it does to the order of a call's keys is of no concern to Qwen3's template
    with LlamaCppTokens(qwen_url) as server:
        answer = server.render(Request(called(ARGUMENTS, call_id="functions.lookup:0"), [TOOL]))
    assert answer.ids == encoded("qwen3", qwen_text(called(), [TOOL], write=python_json))
