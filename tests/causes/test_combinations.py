"""Several faults in one prompt: at one token, in layers that hide each other, and where the reference refuses the request.

The answers are a real llama-server's, or a client's that writes its prompt by hand: no change of the table makes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from pytest_tokenparity import ClientCompletionTokens, Explanation, LlamaCppTokens, Request, explain, first_divergence

from ..llama_server import llama_server
from ..real_models import fetch
from ..tiny_gguf import chat_template, write_tiny_gguf
from .shapes import shapes
from .test_corpus import reference

QUESTION = {"role": "user", "content": "Which trains leave for Narvik after nine?"}
SYSTEM = {"role": "system", "content": "You are the timetable of a station."}
DRAFT = {"role": "assistant", "content": "The next train leaves at"}
PARAMETERS = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "after": {"type": "string"}},
    "required": ["to"],
}
DEPARTURES = {"name": "departures", "description": "Trains that leave.", "parameters": PARAMETERS}
WITH_RETURN: dict[str, Any] = {"type": "function", "function": {**DEPARTURES, "return": {"type": "array"}}}

BY_HAND = (  # DEPARTURES as JSON, as a client of somebody else's writes it
    '{"type": "function", "function": {"name": "departures", "description": "Trains that leave.", "parameters": {"type": '
    '"object", "properties": {"to": {"type": "string"}, "after": {"type": "string"}}, "required": ["to"]}'
)
QWEN3_WITH_TOOLS = (
    "<|im_start|>system\nYou are the timetable of a station.\n\n# Tools\n\nYou may call one or more functions to assist with "
    "the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>\n%s\n</tools>"
    "\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML "
    'tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n<|im_start|>user'
    "\nWhich trains leave for Narvik after nine?<|im_end|>\n<|im_start|>assistant\n"
)


def causes(explanation: Explanation) -> dict[str, tuple[str, ...]]:
    return {cause.name: cause.parameters for cause in explanation.causes}


def explained(
    family: str, engine: LlamaCppTokens | ClientCompletionTokens, request: Request, kind: str, **more: Any
) -> Explanation:
    """What is said of an engine's answer; the same must be said of its IDs alone."""
    answer = engine.render(request)
    assert answer.ids is not None
    said = explain(reference(family), request, answer.ids, answer.text, engine=kind, **more)
    alone = explain(reference(family), request, answer.ids, engine=kind, **more)
    assert (alone.word, causes(alone), alone.where) == (said.word, causes(said), said.where)
    return said


def by_hand(tool: str) -> Callable[..., str]:
    return lambda messages, tools=None, **switches: QWEN3_WITH_TOOLS % tool


@contextmanager
def served(family: str, folder: Path, **options: Any) -> Iterator[str]:
    """A real llama-server with a GGUF of its own."""
    path = folder / "model.gguf"
    write_tiny_gguf(family, fetch(family), path, **options)
    with llama_server(path) as url:
        yield url


# Two faults at one token


def test_the_prompt_by_hand_is_the_references_own_where_nothing_is_wrong(qwen_url: str) -> None:
    request = Request([SYSTEM, QUESTION], [{"type": "function", "function": DEPARTURES}])
    with ClientCompletionTokens(by_hand(BY_HAND + "}}"), qwen_url) as client:
        assert client.render(request).ids == reference("qwen3").render(request).ids


@pytest.mark.parametrize(
    ("written", "added"),
    [
        (BY_HAND + '}, "defer_loading": null}', "tool.defer_loading=null, at the end"),  # as SGLang writes it
        (BY_HAND + '}, "deferred": true}', "tool.deferred=true, at the end"),
        (BY_HAND + ', "rows": []}}', "rows=[], at the end"),
    ],
)
def test_a_field_dropped_and_another_added_at_one_token_are_both_named(qwen_url: str, written: str, added: str) -> None:
    request = Request([SYSTEM, QUESTION], [WITH_RETURN])
    with ClientCompletionTokens(by_hand(written), qwen_url) as client:
        said = explained("qwen3", client, request, "sglang")
    assert said.word == "proven"
    assert causes(said) == {"tool-field-dropped": ("return",), "tool-field-added": (added,)}
    assert said.where == "tools[0].function.return"


def test_a_fault_taken_away_does_not_move_where_two_faults_at_one_token_show(qwen_url: str) -> None:
    request = Request([SYSTEM, QUESTION], [WITH_RETURN])
    with ClientCompletionTokens(by_hand(BY_HAND + '}, "defer_loading": null}'), qwen_url) as client:
        answer = client.render(request).ids
    ours = reference("qwen3").render(request).ids
    without = reference("qwen3").render(Request([SYSTEM, QUESTION], [dropped()])).ids
    assert answer is not None
    assert ours is not None
    assert without is not None
    assert first_divergence(ours, answer) == first_divergence(ours, without)


def dropped() -> dict[str, Any]:
    return {"type": "function", "function": DEPARTURES}


# EOS


@pytest.fixture(scope="module")
def with_eos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The address of a server that appends EOS, by family."""
    with ExitStack() as stack:

        @cache
        def url(family: str) -> str:
            return stack.enter_context(served(family, tmp_path_factory.mktemp("eos"), add_eos=True))

        yield url


def test_eos_behind_a_prompt_is_named(with_eos: Callable[[str], str]) -> None:
    request = Request([SYSTEM, QUESTION])
    with LlamaCppTokens(with_eos("llama3.1")) as server:
        said = explained("llama3.1", server, request, "llama-server")
    assert said.word == "proven"
    assert causes(said).keys() == {"date", "eos-appended"}
    assert causes(said)["eos-appended"] == ("0 -> 1",)


@pytest.mark.parametrize(
    ("family", "more"),
    [
        ("qwen3", {"tool-field-dropped"}),
        ("llama3.1", {"tool-field-dropped", "date"}),
        ("deepseek-v3", set()),  # its template shows no tools
    ],
)
def test_eos_behind_a_prefilled_turn_and_a_dropped_field_are_all_named(
    with_eos: Callable[[str], str], family: str, more: set[str]
) -> None:
    request = Request([SYSTEM, QUESTION, DRAFT], [WITH_RETURN])
    with LlamaCppTokens(with_eos(family)) as server:
        answer = server.render(request)
    said = explain(reference(family), request, answer.ids, answer.text, engine="llama-server")
    assert said.word == "proven"
    assert causes(said).keys() == {"last-turn-prefilled", "eos-appended"} | more
    alone = explain(reference(family), request, answer.ids, engine="llama-server")
    assert alone.word == "proven"
    # Where a turn ends with EOS and nothing else the IDs alone cannot tell that from a missing generation prompt.
    ending = {"last-turn-prefilled", "eos-appended"} if family == "qwen3" else {"generation-prompt-missing"}
    assert causes(alone).keys() == ending | more


# Another template


@pytest.fixture(scope="module")
def stale(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a stale template in its GGUF: other words before the tools."""
    template = chat_template(fetch("qwen3"))
    assert "# Tools\\n\\n" in template
    changed = template.replace("# Tools\\n\\nYou may call", "# Functions\\n\\nYou can call")
    with served("qwen3", tmp_path_factory.mktemp("stale"), template=changed) as url:
        yield url


def shown_template(url: str) -> str:
    return str(httpx.get(f"{url}/props").raise_for_status().json()["chat_template"])


def test_another_template_and_a_dropped_field_are_both_named(stale: str) -> None:
    request = Request([SYSTEM, QUESTION], [WITH_RETURN])
    with LlamaCppTokens(stale) as server:
        said = explained("qwen3", server, request, "llama-server", template=shown_template(stale))
    assert said.word == "proven"
    assert causes(said).keys() == {"template-differs", "tool-field-dropped"}
    assert causes(said)["tool-field-dropped"] == ("return",)


def test_another_template_alone_is_named(stale: str) -> None:
    request = Request([SYSTEM, QUESTION], [dropped()])
    with LlamaCppTokens(stale) as server:
        said = explained("qwen3", server, request, "llama-server", template=shown_template(stale))
    assert said.word == "proven"
    assert causes(said).keys() == {"template-differs"}


def test_another_template_that_is_not_shown_leaves_a_rest(stale: str) -> None:
    request = Request([SYSTEM, QUESTION], [WITH_RETURN])
    with LlamaCppTokens(stale) as server:
        said = explained("qwen3", server, request, "llama-server")
    assert said.word == "in part"
    assert causes(said) == {"tool-field-dropped": ("return",)}
    assert said.rest > 0
    assert said.rest_where is not None
    assert said.rest_where.startswith("template text before tools")


def test_another_template_that_renders_this_request_alike_is_not_blamed_for_more(stale: str) -> None:
    request = Request([SYSTEM, QUESTION, DRAFT])  # without tools the templates say the same
    with LlamaCppTokens(stale) as server:
        said = explained("qwen3", server, request, "llama-server", template=shown_template(stale))
    assert said.word == "proven"
    assert "last-turn-prefilled" in causes(said)


# Three faults


def test_three_faults_of_one_tool_and_one_turn_are_all_named(qwen_url: str) -> None:
    function = {"description": "Trains that leave.", "name": "departures", "parameters": PARAMETERS, "return": {}}
    request = Request([SYSTEM, QUESTION, DRAFT], [{"function": function, "type": "function"}])
    with LlamaCppTokens(qwen_url) as server:
        said = explained("qwen3", server, request, "llama-server")
    assert said.word == "proven"
    assert causes(said) == {
        "tool-field-dropped": ("return",),
        "tool-keys-reordered": ("inner", "outer"),
        "last-turn-prefilled": ("after an empty think block",),
    }


def test_three_faults_of_three_layers_are_all_named(qwen_url: str) -> None:
    gain = {"name": "gain", "description": "Gain.", "parameters": {"type": "number", "default": 1.0}, "strict": True}
    messages = [{"role": "user", "content": "Turn it up at the cafe\u0301."}]
    request = Request(messages, [{"type": "function", "function": gain}])
    with LlamaCppTokens(qwen_url) as server:
        said = explained("qwen3", server, request, "llama-server")
    assert said.word == "proven"
    assert causes(said) == {
        "tool-field-dropped": ("strict",),
        "tool-json-format": ("1.0 became 1",),
        "unicode-normalised": ("none",),
    }


def test_three_faults_and_a_clock_are_all_named(llama_url: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "departures", "arguments": '{"to":"Narvik"}'}}
    messages: list[dict[str, Any]] = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "When does it leave"}, {"type": "text", "text": "today?"}],
        },
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "09:12"},
    ]
    request = Request(messages, [WITH_RETURN])
    with LlamaCppTokens(llama_url) as server:
        said = explained("llama3.1", server, request, "llama-server")
    assert said.word == "proven"
    assert causes(said).keys() == {"tool-field-dropped", "content-parts-joined", "arguments-parsed", "date"}
    assert causes(said)["content-parts-joined"] == ("newline",)


# Requests that the reference refuses


def test_two_faults_of_a_request_that_the_reference_refuses_are_both_named(qwen_url: str) -> None:
    content = [{"type": "text", "text": "Which trains leave for Narvik"}, {"type": "text", "text": "after nine?"}]
    request = Request([SYSTEM, {"role": "user", "content": content}], [WITH_RETURN])
    assert reference("qwen3").render(request).refused is not None
    with LlamaCppTokens(qwen_url) as server:
        said = explained("qwen3", server, request, "llama-server")
    assert said.word == "proven"
    assert said.refused is not None
    assert causes(said) == {"content-parts-joined": ("newline",), "tool-field-dropped": ("return",)}


def test_two_faults_that_each_make_the_reference_refuse_are_both_named(qwen_url: str) -> None:
    parts = [{"type": "text", "text": "Find the train"}, {"type": "text", "text": "to Narvik."}]
    call = {"id": "c1", "type": "function", "function": {"name": "departures", "arguments": {"to": "Narvik"}}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "09:12"},
    ]
    for missing in (parts, None):  # each of them alone is refused
        alone = [dict(message) for message in messages]
        alone[0]["content"] = "Find it." if missing is None else parts
        alone[1]["content"] = None if missing is None else ""
        assert reference("qwen3").render(Request(alone)).refused is not None
    with LlamaCppTokens(qwen_url) as server:
        said = explained("qwen3", server, Request(messages), "llama-server")
    assert said.word == "proven"
    assert causes(said) == {"content-parts-joined": ("newline",), "content-null": ("''",)}


def test_a_refused_role_and_a_prefilled_turn_are_both_named(gemma_url: str) -> None:
    request = shapes()["both-developer-and-prefill"]
    assert reference("gemma3").render(request).refused is not None
    with LlamaCppTokens(gemma_url) as server:
        said = explained("gemma3", server, request, "llama-server")
    assert said.word == "proven"
    assert causes(said).keys() == {"role-rewritten", "last-turn-prefilled"}


def test_what_heals_a_refusal_is_not_named_for_an_answer_that_is_something_else(qwen_url: str) -> None:
    content = [{"type": "text", "text": "Which trains leave for Narvik"}, {"type": "text", "text": "after nine?"}]
    request = Request([SYSTEM, {"role": "user", "content": content}])
    with LlamaCppTokens(qwen_url) as server:
        ids = server.tokenize(json.dumps({"a page": "of something else", "of": ["which", "nothing", "was", "asked"]}))
    said = explain(reference("qwen3"), request, ids, engine="llama-server")
    assert (said.word, said.causes) == ("unknown", ())
    assert said.refused is not None
