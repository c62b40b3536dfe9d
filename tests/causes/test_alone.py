"""Remarks on one request alone: every name where it must be said and where it must not, on real tokenizers."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from pytest_tokenparity import Request, TransformersTokens
from pytest_tokenparity.causes.alone import ControlTokens, Remark, remarks
from pytest_tokenparity.chat_template import Conventions, TemplateEnvironment
from pytest_tokenparity.engines.base import RendererEngine
from pytest_tokenparity.engines.tokenizers import TokenizerFiles, TokenizersTokens

from ..real_models import fetch
from .shapes import shapes
from .witnesses import OBEY, QUESTION, TOOL, USER, called, reference, tool, user

PLAIN = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
FAMILIES = ("qwen3", "gemma3", "llama3.1", "deepseek-v3")


def said(
    messages: Any,
    tools: Any = None,
    *,
    family: str = "qwen3",
    template: str | None = None,
    control_tokens: ControlTokens = "warn",
    **kwargs: Any,
) -> list[Remark]:
    request = Request.of(messages, tools, **kwargs)
    return remarks(reference(family, template), request, control_tokens=control_tokens)


def names(found: list[Remark]) -> list[tuple[str, str | None]]:
    return [(remark.name, remark.where) for remark in found]


def assistant(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


# switch-ignored


def test_a_misspelt_switch_is_named_with_the_one_that_was_meant() -> None:
    (remark,) = said(QUESTION, enable_thinkin=False)
    assert remark == Remark(
        "switch-ignored",
        "the chat template never reads 'enable_thinkin': did you mean enable_thinking?",
        "template_kwargs.enable_thinkin",
        False,
    )


@pytest.mark.parametrize(
    ("family", "switches"),
    [
        ("qwen3", {"enable_thinking": False}),
        ("llama3.1", {"date_string": "2 Jan 2026", "tools_in_user_message": False}),  # set where they are undefined
        ("qwen3", {"documents": None}),
        ("gemma3", {"bos_token": "<bos>"}),
    ],
)
def test_a_switch_that_the_template_reads_is_no_remark(family: str, switches: dict[str, Any]) -> None:
    assert said(QUESTION, family=family, **switches) == []


@pytest.mark.parametrize(
    ("family", "advice"),
    [
        ("gemma3", "it reads no switch at all"),
        ("llama3.1", "what it reads: builtin_tools, custom_tools, date_string, tools_in_user_message"),
    ],
)
def test_a_switch_of_another_model_is_said_with_what_the_template_reads(family: str, advice: str) -> None:
    (remark,) = said(QUESTION, family=family, enable_thinking=False)
    assert remark.message == f"the chat template never reads 'enable_thinking': remove it; {advice}"


def test_no_field_of_a_message_is_suggested_as_a_switch() -> None:
    (remark,) = said(QUESTION, reasoning_effort="low")  # Qwen3 sets and reads reasoning_content
    assert (
        remark.message == "the chat template never reads 'reasoning_effort': remove it; what it reads: enable_thinking"
    )


def test_a_switch_that_the_template_sets_from_itself_is_suggested() -> None:
    template = "{% set verbose = verbose or false %}{{ verbose }}" + PLAIN
    assert said(QUESTION, template=template, verbose=True) == []
    (remark,) = said(QUESTION, template=template, verbos=True)
    assert remark.message.endswith("did you mean verbose?")


def test_documents_that_no_template_reads_are_a_remark() -> None:
    found = said(QUESTION, documents=[{"title": "Tram", "text": "Every ten minutes."}])
    assert names(found) == [("switch-ignored", "template_kwargs.documents")]


def test_the_chosen_template_of_several_is_asked() -> None:
    own = reference("qwen3").files
    files = TokenizerFiles(own.tokenizer, {"default": PLAIN + "{{ a }}", "tool_use": PLAIN + "{{ b }}"}, own.special)
    engine = TokenizersTokens(files)
    assert remarks(engine, Request(QUESTION, None, {"a": 1})) == []
    assert names(remarks(engine, Request(QUESTION, [TOOL], {"a": 1}))) == [("switch-ignored", "template_kwargs.a")]


# lost


@pytest.mark.parametrize("role", ["developer", "function"])
@pytest.mark.parametrize("content", ["You are a station, and only that.", "role"])  # which the template's text may hold
def test_a_message_whose_role_the_template_skips_is_lost(role: str, content: str) -> None:
    (remark,) = said([{"role": role, "content": content}, *QUESTION])
    assert (remark.name, remark.where, remark.fails) == ("lost", "messages[0].content", False)
    assert f"messages[0].content (role '{role}')" in remark.message
    assert repr(content) in remark.message


def test_a_lost_text_that_a_later_message_repeats_is_lost() -> None:
    text = "Only trains and trams."
    found = said([{"role": "developer", "content": text}, user(f"I said: {text} Did you hear?")])
    assert names(found) == [("lost", "messages[0].content")]


def test_the_second_part_of_a_system_text_is_lost_on_gemma() -> None:
    parts = [{"type": "text", "text": "You are a librarian."}, {"type": "text", "text": "You whisper."}]
    found = said([{"role": "system", "content": parts}, USER], family="gemma3")
    assert names(found) == [("lost", "messages[0].content[1].text")]


def test_text_beside_a_call_is_lost_on_llama() -> None:
    found = said(called(content="Let me look it up."), [TOOL], family="llama3.1")
    assert names(found) == [("lost", "messages[1].content")]
    assert said(called(content="Let me look it up."), [TOOL]) == []


def test_a_text_that_the_template_reads_and_does_not_print_is_not_called_lost() -> None:
    template = "{% for m in messages %}{{ m.role }}{{ m.content | length }}{% endfor %}"
    assert said(QUESTION, template=template) == []


def test_what_is_lost_is_found_beside_a_text_that_no_mark_may_touch() -> None:
    template = "{% for m in messages if m.role == 'user' %}{{ m.content }}{{ m.content | length }}{% endfor %}"
    assert names(said(QUESTION, template=template)) == [("lost", "messages[0].content")]


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": ""}, USER],
        [{"role": "developer", "content": " \n"}, USER],
        [USER, assistant("<think>\nIt is June.\n</think>\n\nYes."), user("And now?")],
        [USER, assistant("Yes.", reasoning_content="It is June."), user("And now?")],
        [{"role": "system", "content": "Hi"}, user("Hi"), assistant("Hi"), user("  Hi\n")],
        [user("\nFirst\r\n"), assistant(" \n Second. "), user("x")],
        called(content=None),
    ],
)
def test_what_arrives_and_what_may_be_dropped_is_no_remark(messages: Any) -> None:
    assert said(messages) == []


# text-as-special


def test_control_tokens_of_a_users_text() -> None:
    (remark,) = said([user(OBEY)])
    assert remark == Remark(
        "text-as-special",
        "messages[0].content holds <|im_end|>, <|im_start|>, parsed as 3 control tokens: take them out of the text, or "
        "say `control_tokens: allow` in the case if they are meant",
        "messages[0].content",
        False,
    )


def test_control_tokens_are_allowed_or_fail_as_the_case_says() -> None:
    assert said([user(OBEY)], control_tokens="allow") == []
    (remark,) = said([user(OBEY)], control_tokens="fail")
    assert remark.fails
    assert said(QUESTION, [TOOL], control_tokens="fail") == []


@pytest.mark.parametrize(
    ("messages", "tools", "where"),
    [
        (called({"text": "</tool_call>"}), None, "messages[1].tool_calls[0].function.arguments.text"),
        ([*called()[:2], {"role": "tool", "content": "ok</tool_response>"}], None, "messages[2].content"),
        (QUESTION, [tool(description="Look.<|im_end|>")], "tools[0].function.description"),
        (QUESTION, [tool(parameters={"type": "object", "properties": {"<|im_end|>": {}}})], "tools[0]"),
        ([user("What does <think> do?")], None, "messages[0].content"),
        ([USER, assistant("a<|im_end|>b"), USER], None, "messages[1].content"),
        ([USER, assistant("a", reasoning_content="b</think>c")], None, "messages[1].reasoning_content"),
    ],
)
def test_control_tokens_come_from_any_field(messages: Any, tools: Any, where: str) -> None:
    (remark,) = said(messages, tools)
    assert remark.name == "text-as-special"
    assert (remark.where or "").startswith(where)


def test_control_tokens_of_parts_and_of_a_list_that_python_wrote() -> None:
    parts = [user([{"type": "text", "text": "a"}, {"type": "text", "text": "<end_of_turn><|eot_id|>"}])]
    assert names(said(parts, family="gemma3")) == [("text-as-special", "messages[0].content[1].text")]
    assert names(said(parts, family="llama3.1", control_tokens="fail")) == [
        ("text-as-special", "messages[0].content"),
        ("printed-repr", "messages[0].content"),
    ]


@pytest.mark.parametrize(
    ("family", "token"),
    [
        ("qwen3", "<|fim_prefix|>"),
        ("qwen3", "<tool_call>"),
        ("gemma3", "<end_of_turn>"),
        ("gemma3", "<bos>"),
        ("llama3.1", "<|eot_id|>"),
        ("deepseek-v3", "<｜User｜>"),  # noqa: RUF001  (an added token that is not special)
    ],
)
def test_each_familys_own_control_tokens(family: str, token: str) -> None:
    assert names(said([user(f"a{token}b")], family=family)) == [("text-as-special", "messages[0].content")]


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("qwen3", "<end_of_turn> <|eot_id|> <s> </s> [INST] <|im_end |> <|IM_END|>"),
        ("gemma3", "Strike <s>this</s>\n\n\nand    <table>, <unused7>, <|im_end|>, <think>"),
        ("llama3.1", "<|im_end|><think></s>"),
        ("deepseek-v3", "<|im_end|><think></s><|User|>"),
    ],
)
def test_what_is_no_control_token_of_the_model_is_no_remark(family: str, text: str) -> None:
    assert said([user(text)], family=family) == []


def test_control_tokens_of_a_field_that_does_not_arrive_are_no_remark() -> None:
    assert said(QUESTION, [tool(description="Look.<end_of_turn>")], family="gemma3") == []


# printed-none and printed-repr


@cache
def unprepared(template: str | None = None) -> TokenizersTokens:
    """As Transformers was before it left out null keys."""
    asked = reference("qwen3", template)
    conventions = Conventions(drop_null_keys=False)
    return TokenizersTokens(asked.files, template=asked.template, clock=asked.clock, conventions=conventions)


@pytest.mark.parametrize("written", ["{{ m.content }}", "{{ m.content | trim }}", "{{ m.role ~ ': ' ~ m.content }}"])
def test_a_null_content_that_is_printed(written: str) -> None:
    engine = unprepared("{% for m in messages %}<|im_start|>" + written + "<|im_end|>\n{% endfor %}")
    found = remarks(engine, Request([user("None of that."), assistant(None), user("None?")]))
    assert names(found) == [("printed-none", "messages[1].content")]
    assert found[0].message == (
        "the template prints the word None for messages[1].content, where there is nothing: leave it out, or give it a value"
    )


def test_an_absent_content_and_a_null_argument_that_are_printed() -> None:
    template = (
        "{% for m in messages %}{{ m.get('content') }}{% for c in m.tool_calls or [] %}"
        "{% for k, v in c.function.arguments | items %}{{ k }}={{ v }};{% endfor %}{% endfor %}{% endfor %}"
    )
    messages = called({"city": "None", "until": None})
    del messages[1]["content"]
    found = names(said(messages, template=template))
    assert sorted(found, key=str) == [
        ("printed-none", "messages[1].content"),
        ("printed-none", "messages[1].tool_calls[0].function.arguments.until"),
    ]


def test_a_switch_and_a_variable_that_are_printed_as_none() -> None:
    template = "{{ date }}{% set x = none %}" + PLAIN + "{{ x }}"
    found = said(QUESTION, template=template, date=None)
    assert names(found) == [("printed-none", "template_kwargs.date"), ("printed-none", "template text at the end")]


@pytest.mark.parametrize(
    "messages", [[user("None True False null")], called(content=None), called({"until": None}), called({"a": "None"})]
)
def test_a_none_that_people_wrote_and_a_null_in_json_are_no_remark(messages: Any) -> None:
    assert said(messages, [tool(**{"return": None})]) == []


def test_a_list_of_parts_that_is_printed() -> None:
    (remark,) = said([user([{"type": "text", "text": "Hi"}])], family="llama3.1")
    assert remark == Remark(
        "printed-repr",
        "the template prints messages[0].content as Python writes it: \"[{'type': 'text', 'text': 'Hi'}]\"; send a string "
        "where the template expects one, or let the template use tojson",
        "messages[0].content",
        False,
    )


@pytest.mark.parametrize(
    ("written", "where"),
    [
        ("{{ tools }}", "tools"),
        ("{% for t in tools %}{{ t.function.parameters }}{% endfor %}", "tools[0].function.parameters"),
        ("{{ 'Tools: ' ~ (tools[0].function | string) }}", "tools[0].function"),
        ("{{ ['a', 'b'] + tools[0:0] }}", "template text at the end"),
    ],
)
def test_schemas_that_are_printed(written: str, where: str) -> None:
    assert names(said(QUESTION, [TOOL, TOOL], template=PLAIN + written)) == [("printed-repr", where)]


@pytest.mark.parametrize(
    ("family", "messages", "tools"),
    [
        ("qwen3", [user("d = {'a': [1]}; print(d['a'])")], [TOOL]),
        ("qwen3", called({"list": ["a"], "nothing": {}}), [TOOL]),
        ("llama3.1", called({"list": ["a"]}), [TOOL]),
        ("gemma3", [user([{"type": "text", "text": "x = ['a']"}])], None),
    ],
)
def test_code_and_json_are_no_remark(family: str, messages: Any, tools: Any) -> None:
    assert said(messages, tools, family=family) == []


def test_numbers_and_empty_lists_that_are_the_same_in_json_are_no_remark() -> None:
    messages = called({"n": [1, 2], "none": {}, "quoted": ["a"]})
    template = PLAIN + "{{ messages[1].tool_calls[0].function.arguments.WHICH }}['"
    assert said(messages, template=template.replace("WHICH", "n")) == []
    assert said(messages, template=template.replace("WHICH", "none")) == []
    assert [remark.name for remark in said(messages, template=template.replace("WHICH", "quoted"))] == ["printed-repr"]


# bos-count


@pytest.mark.parametrize("family", FAMILIES)
def test_a_models_own_template_has_the_right_bos(family: str) -> None:
    assert said(QUESTION, family=family) == []


@pytest.mark.parametrize("family", ["gemma3", "llama3.1", "deepseek-v3"])
def test_a_doubled_and_a_missing_bos_fail(family: str) -> None:
    engine = reference(family)
    request = Request(QUESTION)
    ids = engine.render(request).ids
    assert ids is not None
    (doubled,) = remarks(engine, request, [ids[0], *ids])
    (missing,) = remarks(engine, request, ids[1:])
    assert remarks(engine, request, ids) == []
    assert (doubled.name, doubled.fails) == (missing.name, missing.fails) == ("bos-count", True)
    assert doubled.message.startswith(f"2 BOS tokens {engine.files.bos} (ID {ids[0]}) lead the prompt, not one; ")
    assert missing.message.startswith(
        f"no BOS token {engine.files.bos} (ID {ids[0]}) leads the prompt: it is not there; "
    )


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("{{ bos_token }}{{ bos_token }}" + PLAIN, "2 BOS tokens <bos> (ID 2) lead the prompt"),
        ("\n {{ bos_token }}" + PLAIN, "no BOS token <bos> (ID 2) leads the prompt: it stands later"),
        (PLAIN, "no BOS token <bos> (ID 2) leads the prompt: it is not there"),
        (
            "{% for m in messages %}{{ bos_token }}{{ m.content }}{% endfor %}",
            "2 BOS tokens <bos> (ID 2) stand in the prompt, the model's own template writes 1",
        ),
    ],
)
def test_a_template_that_writes_the_wrong_bos(template: str, found: str) -> None:
    (remark,) = said(QUESTION, family="gemma3", template=template)
    assert (remark.name, remark.fails) == ("bos-count", True)
    assert remark.message.startswith(found)


def test_a_bos_in_a_users_text_is_no_wrong_count() -> None:
    assert names(said([user("a<bos>b")], family="gemma3", template="{{ bos_token }}" + PLAIN)) == [
        ("text-as-special", "messages[0].content")
    ]


def test_a_bos_for_each_turn_is_right_where_the_models_own_template_writes_it() -> None:
    """Llama 2's way, and SmolLM2's, whose BOS is <|im_start|>."""
    own = reference("qwen3").files
    files = TokenizerFiles(own.tokenizer, {"default": PLAIN}, {"bos_token": "<|im_start|>"})
    assert remarks(TokenizersTokens(files), Request(QUESTION)) == []


def test_a_bos_that_nothing_uses_may_be_missing() -> None:
    own = reference("qwen3").files  # like Phi-4: the settings name one, neither tokenizer nor template writes it
    files = TokenizerFiles(own.tokenizer, {"default": PLAIN}, {"bos_token": "<|endoftext|>"})
    engine = TokenizersTokens(files)
    ids = engine.render(Request(QUESTION)).ids
    assert ids is not None
    assert remarks(engine, Request(QUESTION), ids) == []
    (remark,) = remarks(engine, Request(QUESTION), [151643, 151643, *ids])
    assert remark.name == "bos-count"


def test_a_bos_that_is_no_token() -> None:
    own = reference("qwen3").files
    files = TokenizerFiles(own.tokenizer, {"default": "{{ bos_token }}" + PLAIN}, {"bos_token": "<start>"})
    (remark,) = remarks(TokenizersTokens(files), Request(QUESTION))
    assert remark.message.startswith("no BOS token <start> (no token of the tokenizer) leads the prompt")


# The whole


def test_a_refused_request_has_no_remarks() -> None:
    assert said([user(None)], enable_thinkin=False) == []
    assert said([user(OBEY), user("again")], family="gemma3") == []


def test_a_reference_that_cannot_be_looked_into_has_no_remarks() -> None:
    class Client:
        name = "client"

        def ids(self, *_: Any, **__: Any) -> list[int]:
            return [1]

    assert remarks(RendererEngine(Client(), "client"), Request([user(OBEY)])) == []


def test_nothing_is_said_of_a_text_that_is_not_the_references() -> None:
    found = remarks(reference("qwen3"), Request([user(OBEY)], None, {"tone": 1}), [1, 2, 3])
    assert names(found) == [("switch-ignored", "template_kwargs.tone")]


def test_transformers_as_the_reference_has_the_same_remarks() -> None:
    engine = TransformersTokens(fetch("qwen3"))
    for name in ("special-in-arguments", "developer-first", "switch-misspelt", "parts-in-tool", "plain-short"):
        request = shapes()[name]
        assert remarks(engine, request, engine.render(request).ids) == remarks(reference("qwen3"), request)


def test_a_request_is_left_as_it_was() -> None:
    request = Request.of([{"role": "developer", "content": OBEY}, *called({"a": None})], [TOOL], x=None)
    before = request.copy()
    remarks(reference("llama3.1"), request)
    remarks(reference("qwen3"), request)
    assert request == before


def test_a_messages_words_are_shown_on_one_line() -> None:
    request = Request([{"role": "developer", "content": "a\n\x1b[31mb"}, *QUESTION], None, {"a\nb": 1})
    found = remarks(reference("qwen3"), request)
    assert [remark.name for remark in found] == ["switch-ignored", "lost"]
    assert all(remark.message.isprintable() for remark in found)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_request_without_anything_odd_is_rendered_twice_at_most(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = TokenizersTokens(fetch(family))
    renders: list[Request] = []
    compose = engine.compose

    def counted(request: Request, environment: TemplateEnvironment) -> str:
        renders.append(request)
        return compose(request, environment)

    monkeypatch.setattr(engine, "compose", counted)
    for name, request in shapes().items():
        if name.startswith(("plain-", "tool-", "schema-", "systems-", "whitespace-")):
            renders.clear()
            assert remarks(engine, request) == []
            assert len(renders) <= 2, name


EXPECTED = {  # read by a person, remark by remark
    "qwen3": {"switch-ignored": 10, "lost": 10, "text-as-special": 10, "printed-repr": 1},
    "gemma3": {"switch-ignored": 22, "lost": 2, "text-as-special": 4},
    "llama3.1": {"switch-ignored": 22, "lost": 5, "text-as-special": 3, "printed-repr": 19},
    "deepseek-v3": {"switch-ignored": 22, "lost": 10, "text-as-special": 1},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_shape(family: str) -> None:
    found = {name: remarks(reference(family), request) for name, request in shapes().items()}
    assert Counter(remark.name for each in found.values() for remark in each) == EXPECTED[family]
    assert not any(remark.fails for each in found.values() for remark in each)
    for name, each in found.items():
        kinds = {remark.name for remark in each}
        assert "text-as-special" not in kinds or "special" in name
        assert "printed-repr" not in kinds or "parts" in name
        assert "switch-ignored" not in kinds or shapes()[name].template_kwargs


def test_an_own_template_that_cannot_be_parsed_does_not_matter_where_another_is_in_use() -> None:
    own = reference("gemma3").files
    files = TokenizerFiles(own.tokenizer, {"default": "{{ bos_token }}{% if %}"}, own.special)
    assert remarks(TokenizersTokens(files, template="{{ bos_token }}" + PLAIN), Request(QUESTION)) == []
    twice = TokenizersTokens(files, template="{{ bos_token }}" + PLAIN + "{{ bos_token }}")
    assert remarks(twice, Request(QUESTION)) == []
