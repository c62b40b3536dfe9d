"""Why a later request leaves an earlier one, on real tokenizers and their own templates."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from pytest_tokenparity import Request, request_tool
from pytest_tokenparity.causes.sessions import BreakExplanation, explain_break
from pytest_tokenparity.engines.base import Engine, Rendering
from pytest_tokenparity.engines.tokenizers import TokenizerFiles, TokenizersTokens
from pytest_tokenparity.prefix import shared_prefix
from tests.real_models import fetch

FAMILIES = ("qwen3", "gemma3", "llama3.1", "deepseek-v3")
WITH_TOOLS = ("qwen3", "llama3.1")  # Gemma 3's and DeepSeek-V3's templates show no tools
OFF = {"enable_thinking": False}

SESSION: list[dict[str, Any]] = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": "What is 2 + 2?"},
    {"role": "assistant", "content": "4."},
    {"role": "user", "content": "And times 3?"},
    {"role": "assistant", "content": "12."},
    {"role": "user", "content": "Minus 5?"},
]


def tool(name: str, description: str, **more: Any) -> dict[str, Any]:
    city = {"type": "object", "properties": {"city": {"type": "string", "description": "The city name."}}}
    parameters = {**city, "required": ["city"]}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters, **more},
    }


WEATHER = tool("get_weather", "Get the current weather for a city.", **{"return": {"type": "string"}})
TIME = tool("get_time", "Get the local time in a city.", **{"return": {"type": "string"}})


def call(arguments: Any, **more: Any) -> dict[str, Any]:
    function = {"name": "get_weather", "arguments": arguments}
    return {"role": "assistant", "content": "", **more, "tool_calls": [{"type": "function", "function": function}]}


def agent(**more: Any) -> list[dict[str, Any]]:
    """A session with a call: after its result a request is sent, and another one after the next question."""
    return [
        {"role": "system", "content": "You are terse."},
        {"role": "user", "content": "Is it sunny in Oslo?"},
        call({"city": "Oslo", "flag": True}, **more),
        {"role": "tool", "content": "sunny"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "And in Bergen?"},
    ]


@cache
def files(family: str) -> TokenizerFiles:
    return TokenizerFiles.read(fetch(family))


@cache
def engine(family: str, template: str | None = None) -> TokenizersTokens:
    return TokenizersTokens(files(family), template=template)


def ids(reference: Engine, request: Request) -> list[int]:
    found = reference.render(request).ids
    assert found is not None
    return found


def broken(
    family: str, earlier: Request, later: Request, template: str | None = None, at: int | None = None
) -> BreakExplanation:
    """Why a session breaks that must break, at a token where that is known."""
    reference = engine(family, template)
    one, other = ids(reference, earlier), ids(reference, later)
    position = shared_prefix(one, other)
    assert position < len(one)
    assert at is None or position == at
    return explain_break(reference, earlier, later, one, other)


def changed(messages: Sequence[dict[str, Any]], at: int, **fields: Any) -> list[dict[str, Any]]:
    """The messages with fields of one of them given other values; None takes a field away."""
    made = copy.deepcopy(list(messages))
    merged = {**made[at], **fields}
    made[at] = {key: value for key, value in merged.items() if value is not None}
    return made


def system(text: str) -> list[dict[str, Any]]:
    return changed(SESSION, 0, content=text)


# The published table


def test_a_turn_whose_role_changed_is_edited_and_not_removed() -> None:
    reference = TokenizersTokens(fetch("qwen3"))
    system, question = {"role": "system", "content": "You are terse."}, {"role": "user", "content": "What is 2 + 2?"}
    answer, more = {"role": "assistant", "content": "4."}, {"role": "user", "content": "And times 3?"}
    earlier, later = Request([system, question]), Request([{**system, "role": "user"}, question, answer, more])
    ids = [reference.render(request).ids or [] for request in (earlier, later)]
    found = explain_break(reference, earlier, later, *ids)
    assert (found.names, found.where, found.proven) == (("turn-edited",), "messages[0].role", True)


def test_two_tools_reordered_after_the_first_request() -> None:
    weather, time = request_tool(WEATHER), request_tool(TIME)
    earlier, later = Request(SESSION[:2], [weather, time]), Request(SESSION[:4], [time, weather])
    found = broken("qwen3", earlier, later, at=56)
    assert (len(ids(engine("qwen3"), earlier)), len(ids(engine("qwen3"), later)) - 56) == (234, 195)
    assert found.kind == "request-changed"
    assert found.proven
    assert found.note is None
    assert found.rows[:2] == [
        ("where", "tools[0] (request-changed)"),
        ("cause", "tools-reordered: get_weather, get_time -> get_time, get_weather"),
    ]


@pytest.mark.parametrize(("messages", "at"), [(2, 25), (4, 42)])
def test_thinking_off(messages: int, at: int) -> None:
    earlier, later = Request(SESSION[:messages], None, OFF), Request(SESSION[: messages + 2], None, OFF)
    found = broken("qwen3", earlier, later, at=at)
    assert (found.kind, found.where, found.proven) == ("generation-prompt", "generation prompt", True)
    assert [str(cause) for cause in found.causes] == ["think-block-in-prompt-only: enable_thinking: false"]


# What the client changed


@pytest.mark.parametrize("family", WITH_TOOLS)
def test_tools_reordered(family: str) -> None:
    found = broken(family, Request(SESSION[1:2], [WEATHER, TIME]), Request(SESSION[1:4], [TIME, WEATHER]))
    assert (found.kind, found.names, found.where) == ("request-changed", ("tools-reordered",), "tools[0]")


@pytest.mark.parametrize("family", WITH_TOOLS)
@pytest.mark.parametrize(
    ("before", "after", "parameter", "where"),
    [
        ([WEATHER], [WEATHER, TIME], "get_time added", "tools[1]"),
        ([WEATHER], [TIME, WEATHER], "get_time added", "tools[0]"),
        ([WEATHER, TIME], [WEATHER], "get_time removed", "tools[1]"),
        ([WEATHER, TIME], [TIME], "get_weather removed", "tools[0]"),
        (None, [WEATHER], "get_weather added", "tools"),
        ([WEATHER], None, "get_weather removed", "tools"),
        ([WEATHER], [tool("get_weather", "Else.", strict=True, a=1, b=2)], "get_weather edited", "tools[0]"),
    ],
)
def test_tools_changed(family: str, before: Any, after: Any, parameter: str, where: str) -> None:
    found = broken(family, Request(SESSION[1:2], before), Request(SESSION[1:4], after))
    assert found.kind == "request-changed"
    assert found.proven
    assert [str(cause) for cause in found.causes] == [f"tools-changed: {parameter}"]
    assert found.where == where


STRICT = tool("get_weather", "Get the current weather for a city.", strict=True)
LAX = tool("get_weather", "Get the current weather for a city.")
SHORT = tool("get_weather", "Get the forecast for a city.")
CACHED = {**LAX, "cache_control": {"type": "ephemeral"}}
LIMIT = copy.deepcopy(LAX)
LIMIT["function"]["parameters"]["properties"]["city"]["maxLength"] = 9
SWAPPED = {"function": LAX["function"], "type": "function"}


@pytest.mark.parametrize("family", WITH_TOOLS)
@pytest.mark.parametrize(
    ("before", "after", "cause", "where"),
    [
        (STRICT, LAX, "tool-field-dropped: strict", "tools[0].function.strict"),
        (LAX, STRICT, "tool-field-added: strict=true", "tools[0].function.strict"),
        (CACHED, LAX, "tool-field-dropped: tool.cache_control", "tools[0].cache_control"),
        (
            LAX,
            SHORT,
            "tool-field-changed: get_weather.description: 'current weather' -> 'forecast'",
            "tools[0].function.description",
        ),
        (
            LAX,
            LIMIT,
            "tool-field-changed: get_weather.parameters.properties.city.maxLength: not given -> 9",
            "tools[0].function.parameters.properties.city",
        ),
        (LAX, SWAPPED, "tool-keys-reordered: get_weather", "tools[0]"),
    ],
)
def test_a_field_of_a_tool(family: str, before: Any, after: Any, cause: str, where: str) -> None:
    found = broken(family, Request(SESSION[1:2], [before]), Request(SESSION[1:4], [after]))
    assert (found.kind, found.proven) == ("request-changed", True)
    assert [str(it) for it in found.causes] == [cause]
    assert found.where is not None
    assert found.where.startswith(where)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_clock_in_the_system_text(family: str) -> None:
    earlier = Request(system("You are terse. It is 12:30:01 in Oslo.")[:2])
    later = Request(system("You are terse. It is 12:31:22 in Oslo.")[:4])
    found = broken(family, earlier, later)
    assert [str(cause) for cause in found.causes] == ["volatile-system-text: '12:30:01' -> '12:31:22'"]
    # Gemma has no system turn, Llama trims the text: the field is found all the same.
    assert (found.kind, found.where, found.proven) == ("request-changed", "messages[0].content", True)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_system_text_that_comes_and_goes(family: str) -> None:
    with_text, without = Request(SESSION[:2]), Request(SESSION[1:4])
    assert [str(cause) for cause in broken(family, with_text, without).causes] == [
        "volatile-system-text: 'You are terse.' -> none"
    ]
    found = broken(family, Request(SESSION[1:2]), Request(SESSION[:4]))
    assert [str(cause) for cause in found.causes] == ["volatile-system-text: none -> 'You are terse.'"]


def test_a_switch() -> None:
    kwargs = ({"date_string": "1 Jan 2026"}, {"date_string": "2 Jan 2026"})
    found = broken("llama3.1", Request(SESSION[:2], None, kwargs[0]), Request(SESSION[:4], None, kwargs[1]))
    assert (found.kind, found.proven) == ("request-changed", True)
    assert [str(cause) for cause in found.causes] == ['switch-changed: date_string: "1 Jan 2026" -> "2 Jan 2026"']
    found = broken("qwen3", Request(SESSION[:2], None, OFF), Request(SESSION[:2]))
    assert [str(cause) for cause in found.causes] == ["switch-changed: enable_thinking: false -> not given"]


def test_a_switch_is_not_the_cause_where_taking_it_back_changes_nothing() -> None:
    found = broken("qwen3", Request(SESSION[:2], None, OFF), Request(SESSION[:4]), at=25)
    assert (found.kind, found.names) == ("generation-prompt", ("think-block-in-prompt-only",))


@pytest.mark.parametrize("family", FAMILIES)
def test_an_edited_turn(family: str) -> None:
    found = broken(family, Request(SESSION[:4]), Request(changed(SESSION, 2, content="Four.")))
    assert [str(cause) for cause in found.causes] == ["turn-edited: messages[2]: '4.' -> 'Four.'"]
    assert (found.kind, found.where, found.proven) == ("request-changed", "messages[2].content", True)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("before", "after", "parameter", "where"),
    [
        (SESSION, [SESSION[0], *SESSION[3:]], "2 messages", "messages[1]"),  # a window that slides
        (SESSION, SESSION[:4], "2 messages", "messages[4]"),  # the question asked again
        (SESSION, [*SESSION[:3], {"role": "user", "content": "Forget it."}], "3 messages", "messages[3]"),
        (
            SESSION,
            [SESSION[0], {"role": "user", "content": "Summary: 4."}, *SESSION[4:]],
            "3 messages, 1 in their place",
            "messages[1]",
        ),
    ],
)
def test_removed_turns(family: str, before: Any, after: Any, parameter: str, where: str) -> None:
    found = broken(family, Request(before), Request(after))
    assert (found.kind, found.proven) == ("request-changed", True)
    assert [str(cause) for cause in found.causes] == [f"turn-removed: {parameter}"]
    assert found.where is not None
    assert found.where.startswith(where)


def test_a_turn_put_between_earlier_ones() -> None:
    reminder = {"role": "system", "content": "Be brief."}
    found = broken("qwen3", Request(SESSION[:4]), Request([*SESSION[:3], reminder, *SESSION[3:]]))
    assert [str(cause) for cause in found.causes] == ["turn-edited: messages[3] inserted"]


@pytest.mark.parametrize("family", WITH_TOOLS)
def test_arguments_in_another_order(family: str) -> None:
    messages = agent()
    later = [*messages[:2], call({"flag": True, "city": "Oslo"}), *messages[3:]]
    found = broken(family, Request(messages[:4]), Request(later))
    assert [str(cause) for cause in found.causes] == ["arguments-reordered: city, flag -> flag, city"]
    assert (found.kind, found.where, found.proven) == ("request-changed", "messages[2].tool_calls", True)


def test_arguments_in_another_order_in_a_json_string() -> None:
    messages = agent()
    messages[2] = call('{"city": "Oslo", "flag": true}')
    later = [*messages[:2], call('{"flag": true, "city": "Oslo"}'), *messages[3:]]
    assert broken("qwen3", Request(messages[:4]), Request(later)).names == ("arguments-reordered",)


def test_other_arguments_are_an_edited_turn() -> None:
    messages = agent()
    later = [*messages[:2], call({"city": "Bergen", "flag": True}), *messages[3:]]
    assert broken("qwen3", Request(messages[:4]), Request(later)).names == ("turn-edited",)


# Reasoning


def test_a_template_drops_reasoning_when_a_question_follows() -> None:
    messages = agent(reasoning_content="I must look it up.")
    found = broken("qwen3", Request(messages[:4], [WEATHER]), Request(messages, [WEATHER]))
    assert [str(cause) for cause in found.causes] == ["reasoning-dropped: messages[2]"]
    assert (found.kind, found.where, found.proven) == ("history-rewritten", "messages[2]", True)


def test_so_it_does_with_reasoning_in_the_text() -> None:
    messages = changed(agent(), 2, content="<think>\nI must look it up.\n</think>\n\n")
    found = broken("qwen3", Request(messages[:4]), Request(messages))
    assert (found.kind, found.names) == ("history-rewritten", ("reasoning-dropped",))


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
def test_a_client_sends_reasoning_no_more(key: str) -> None:
    messages = agent(**{key: "I must look it up."})[:4]
    later = [*changed(messages, 2, **{key: None}), call({"city": "Bergen"}), {"role": "tool", "content": "rain"}]
    found = broken("qwen3", Request(messages), Request(later))
    assert [str(cause) for cause in found.causes] == [f"reasoning-dropped: {key} of messages[2]"]
    assert (found.kind, found.where, found.proven) == ("request-changed", f"messages[2].{key}", True)


def test_a_client_that_drops_what_the_template_drops_anyway() -> None:
    messages = agent(reasoning_content="I must look it up.")
    found = broken("qwen3", Request(messages[:4]), Request(changed(messages, 2, reasoning_content=None)))
    assert (found.kind, found.names) == ("history-rewritten", ("reasoning-dropped",))


def test_a_client_strips_reasoning_from_the_text() -> None:
    messages = changed(SESSION, 2, content="<think>\nTwo and two.\n</think>\n\n4.")
    found = broken("llama3.1", Request(messages[:4]), Request(SESSION))  # the template drops nothing
    assert [str(cause) for cause in found.causes] == ["reasoning-dropped: <think> in messages[2].content"]
    assert found.kind == "request-changed"


# Several causes


def test_a_clock_and_reordered_tools() -> None:
    earlier = Request(system("It is 12:30:01.")[:2], [WEATHER, TIME])
    later = Request(system("It is 12:31:22.")[:4], [TIME, WEATHER])
    found = broken("qwen3", earlier, later)
    assert found.names == ("volatile-system-text", "tools-reordered")  # in the order of the prompt
    assert (found.kind, found.where) == ("request-changed", "messages[0].content")


def test_reordered_tools_and_an_edited_turn() -> None:
    messages = SESSION[1:]
    later = Request(changed(messages, 1, content="Four."), [TIME, WEATHER])
    found = broken("llama3.1", Request(messages[:3], [WEATHER, TIME]), later)
    assert found.names == ("tools-reordered", "turn-edited")


def test_a_removed_tool_and_thinking_off() -> None:
    earlier, later = Request(SESSION[:2], [WEATHER, TIME], OFF), Request(SESSION[:4], [WEATHER], OFF)
    found = broken("qwen3", earlier, later)
    assert (found.kind, found.names) == ("request-changed", ("tools-changed", "think-block-in-prompt-only"))


def test_dropped_reasoning_and_thinking_off() -> None:
    messages = agent(reasoning_content="I must look it up.")
    found = broken("qwen3", Request(messages[:4], None, OFF), Request(messages, None, OFF))
    assert (found.kind, found.names) == ("history-rewritten", ("reasoning-dropped", "think-block-in-prompt-only"))
    assert found.note is None


def test_dropped_reasoning_and_an_edit_behind_it() -> None:
    messages = agent(reasoning_content="I must look it up.")
    found = broken("qwen3", Request(messages[:4]), Request(changed(messages, 3, content="rain")))
    assert (found.kind, found.names) == ("history-rewritten", ("reasoning-dropped", "turn-edited"))


def test_a_change_that_the_prompt_does_not_show_is_no_cause() -> None:
    earlier, later = Request(system("One.")[:2], [WEATHER, TIME]), Request(system("Two.")[:4], [TIME, WEATHER])
    assert broken("gemma3", earlier, later).names == ("volatile-system-text",)


# Other tokens for the same text


def test_an_answer_that_merges_with_the_end_of_the_prompt() -> None:
    later = Request(changed(SESSION, 2, content="\n4.")[:4])
    found = broken("qwen3", Request(SESSION[:2]), later, at=24)
    assert [str(cause) for cause in found.causes] == ["retokenised: '\\n' -> '\\n\\n'"]
    assert (found.kind, found.proven) == ("retokenised", True)


def generated(family: str, reply: dict[str, Any], sampled: str | list[int], **more: Any) -> BreakExplanation:
    """Why the request behind a reply does not repeat what was sampled."""
    reference = engine(family)
    earlier, later = Request(SESSION[:2], **more), Request([*SESSION[:2], reply, SESSION[3]], **more)
    tokens = reference.files.encode(sampled) if isinstance(sampled, str) else sampled
    one, other = ids(reference, earlier), ids(reference, later)
    position = shared_prefix([*one, *tokens], other)
    assert len(one) <= position < len(one) + len(tokens)
    return explain_break(reference, earlier, later, one, other, generated=tokens)


def sampled_apart(family: str, *parts: str) -> list[int]:
    return [token for part in parts for token in engine(family).files.encode(part)]


@pytest.mark.parametrize("family", FAMILIES)
def test_sampled_tokens_are_not_those_of_their_text(family: str) -> None:
    tokens = sampled_apart(family, "The ans", "wer is 4.")
    assert tokens != engine(family).files.encode("The answer is 4.")
    found = generated(family, {"role": "assistant", "content": "The answer is 4."}, tokens)
    assert (found.kind, found.names, found.where) == ("retokenised", ("retokenised",), "messages[2]")
    assert found.proven
    assert "answer" in str(found.causes[0])


def test_the_template_drops_what_was_thought() -> None:
    reply = {"role": "assistant", "content": "4.", "reasoning_content": "Easy."}
    found = generated("qwen3", reply, "<think>\nEasy.\n</think>\n\n4.<|im_end|>")
    assert (found.kind, found.names, found.where) == ("history-rewritten", ("reasoning-dropped",), "messages[2]")
    assert found.proven
    assert found.note is None


@pytest.mark.parametrize("family", ["qwen3", "gemma3", "llama3.1"])
def test_the_client_drops_what_was_thought(family: str) -> None:
    found = generated(family, {"role": "assistant", "content": "4."}, "<think>\nEasy.\n</think>\n\n4.")
    assert (found.kind, found.names) == ("request-changed", ("reasoning-dropped",))


def test_the_client_sends_another_answer() -> None:
    found = generated("llama3.1", {"role": "assistant", "content": "Four."}, "4.<|eot_id|>")
    assert (found.kind, found.names, found.where) == ("request-changed", ("turn-edited",), "messages[2].content")


def test_the_template_trims_an_answer() -> None:
    found = generated("gemma3", {"role": "assistant", "content": " 4."}, " 4.<end_of_turn>")
    assert (found.kind, found.names) == ("history-rewritten", ())
    assert found.note == "the template renders the turn otherwise than it was generated"


def test_the_client_reorders_the_arguments_of_a_call() -> None:
    sampled = (
        '<tool_call>\n{"name": "get_weather", "arguments": {"flag": true, "city": "Oslo"}}\n</tool_call><|im_end|>'
    )
    found = generated("qwen3", call({"city": "Oslo", "flag": True}), sampled)
    assert [str(cause) for cause in found.causes] == ["arguments-reordered: flag, city -> city, flag"]
    assert (found.kind, found.note) == ("request-changed", None)


def test_the_template_writes_a_call_otherwise() -> None:
    sampled = '<tool_call>\n{"name":"get_weather","arguments":{"city":"Oslo"}}\n</tool_call><|im_end|>'
    found = generated("qwen3", call({"city": "Oslo"}), sampled)
    assert (found.kind, found.names) == ("history-rewritten", ())


# What stays unknown


TOOLS_AT_THE_LAST_QUESTION = (
    "{% for m in messages %}"
    "{% if tools and m.role == 'user' and loop.revindex0 == 0 %}[TOOLS]{{ tools | tojson }}[/TOOLS]{% endif %}"
    "<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
OPENED_THINKING = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant><think>\n{% endif %}"
)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_template_that_moves_the_tools_has_a_class_and_no_name(family: str) -> None:
    earlier, later = Request(SESSION[1:2], [WEATHER]), Request(SESSION[1:4], [WEATHER])
    found = broken(family, earlier, later, TOOLS_AT_THE_LAST_QUESTION)
    assert (found.kind, found.names, found.proven) == ("history-rewritten", (), True)
    assert found.note is not None
    assert "though it is sent unchanged" in found.note
    assert ("cause", "not known (history-rewritten)") in found.rows


@pytest.mark.parametrize("family", FAMILIES)
def test_another_end_of_the_generation_prompt_has_a_class_and_no_name(family: str) -> None:
    found = broken(family, Request(SESSION[:2]), Request(SESSION[:4]), OPENED_THINKING)
    assert (found.kind, found.names, found.where) == ("generation-prompt", (), "generation prompt")
    assert found.note == "the generation prompt has '<think>\\n', which history does not repeat"


def test_a_known_cause_and_an_unknown_one() -> None:
    earlier = Request(system("It is 12:30.")[:2], [WEATHER])
    later = Request(system("It is 12:31.")[:4], [WEATHER])
    found = broken("qwen3", earlier, later, TOOLS_AT_THE_LAST_QUESTION)
    assert (found.kind, found.names) == ("request-changed", ("volatile-system-text",))
    assert found.note is not None
    assert found.note.startswith("behind it, the template renders")


def test_a_change_of_the_client_that_is_not_the_cause_is_not_named() -> None:
    """The tools break at their place whatever the client does behind it."""
    earlier = Request(SESSION[1:4], [WEATHER])
    later = Request(changed(SESSION[1:], 2, content="And times 4?"), [WEATHER])
    found = broken("qwen3", earlier, later, TOOLS_AT_THE_LAST_QUESTION)
    assert (found.kind, found.names) == ("history-rewritten", ())


def test_a_generation_prompt_that_no_answer_follows() -> None:
    found = broken("qwen3", Request(SESSION[:2]), Request([*SESSION[:2], SESSION[3]]))
    assert (found.kind, found.names) == ("generation-prompt", ())
    assert found.note == "no answer follows the generation prompt, but a turn of the role 'user'"


def test_many_edits_are_few_words() -> None:
    messages = [{"role": ("user", "assistant")[at % 2], "content": f"turn {at}"} for at in range(41)]
    later = [{**message, "content": f"{message['content']}!"} for message in messages]
    (cause,) = broken("qwen3", Request(messages), Request(later)).causes
    assert len(cause.where) == 41
    assert cause.parameters[3:] == ("38 more",)


def test_no_break() -> None:
    reference = engine("qwen3")
    earlier, later = Request(SESSION[:2]), Request(SESSION[:4])
    found = explain_break(reference, earlier, later, ids(reference, earlier), ids(reference, later))
    assert (found.kind, found.names) == (None, ())


def test_a_request_that_the_template_refuses() -> None:
    reference = engine("gemma3")
    earlier, later = Request(SESSION[:2]), Request([*SESSION[:2], SESSION[1]])
    found = explain_break(reference, earlier, later, [2, 3], [2, 4])
    assert found.kind is None
    assert found.note is not None
    assert "roles must alternate" in found.note


def test_a_reference_that_cannot_be_asked() -> None:
    class Other(Engine):
        name = "gateway"

        def render(self, request: Request) -> Rendering:
            return Rendering(ids=[1])

    found = explain_break(Other(), Request(SESSION[:2]), Request(SESSION[:4]), [1, 2], [1, 3])
    assert (found.kind, found.names, found.proven) == (None, (), False)


# Another engine than the reference


def test_an_engine_whose_prompts_are_others_is_explained_by_the_same_break() -> None:
    """llama-server drops `return` from tools: other IDs behind the break, and the same break."""
    reference = engine("qwen3")
    earlier, later = Request(SESSION[:2], [WEATHER, TIME]), Request(SESSION[:4], [TIME, WEATHER])
    less = [tool(it["function"]["name"], it["function"]["description"]) for it in (WEATHER, TIME)]
    theirs = ids(reference, Request(SESSION[:2], less)), ids(reference, Request(SESSION[:4], less[::-1]))
    found = explain_break(reference, earlier, later, *theirs)
    assert (found.kind, found.names, found.where) == ("request-changed", ("tools-reordered",), "tools[0]")
    assert not found.proven
    assert found.note is not None


def test_an_engine_that_breaks_where_the_reference_does_not() -> None:
    reference = engine("qwen3")
    earlier, later = Request(SESSION[:2]), Request(SESSION[:4])
    theirs = ids(reference, Request(SESSION[:2], None, OFF)), ids(reference, later)
    found = explain_break(reference, earlier, later, *theirs)
    assert (found.kind, found.names, found.proven) == (None, (), False)
    assert found.note == "the reference repeats its earlier prompt, this engine does not; it is sent the same turns"


def test_an_engine_that_breaks_elsewhere() -> None:
    reference = engine("qwen3")
    earlier, later = Request(SESSION[:2], None, OFF), Request(SESSION[:4], None, OFF)
    theirs = ids(reference, Request(SESSION[:2], [WEATHER])), ids(reference, Request(SESSION[:4]))
    found = explain_break(reference, earlier, later, *theirs)
    assert (found.kind, found.note) == (None, "the reference breaks at another place than this engine")


# What is said


def test_every_cause_has_a_sentence_and_a_fix() -> None:
    found = broken("qwen3", Request(SESSION[:2], [WEATHER, TIME]), Request(SESSION[:4], [TIME, WEATHER]))
    (cause,) = found.causes
    assert cause.sentence == (
        "the later request sends the same tools in another order (get_weather, get_time -> get_time, get_weather)"
    )
    assert ("fix", "send the tools in one order, such as sorted by name") in found.rows


def test_what_changed_is_cut_and_on_one_line() -> None:
    before, after = ("Rules:\n" + f"{word} \x1b[31m " * 60 + "\nEnd." for word in ("first", "other"))
    found = broken("qwen3", Request(system(before)[:2]), Request(system(after)[:4]))
    text = str(found.causes[0])
    assert len(text) < 130
    assert text.isprintable()


def test_transformers_as_the_reference() -> None:
    transformers = pytest.importorskip("transformers")
    from pytest_tokenparity import TransformersTokens

    reference = TransformersTokens(transformers.AutoTokenizer.from_pretrained(fetch("qwen3")))
    earlier, later = Request(SESSION[:2], [WEATHER, TIME]), Request(SESSION[:4], [TIME, WEATHER])
    found = explain_break(reference, earlier, later, ids(reference, earlier), ids(reference, later))
    assert (found.names, found.proven) == (("tools-reordered",), True)
