"""Causes in messages, switches and flags, made by a real llama-server and by clients that render prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pytest_tokenparity import LlamaCppTokens, Request

from .witnesses import (
    QUESTION,
    SYSTEM,
    TALK,
    TOOL,
    USER,
    Json,
    assert_client_explained,
    assert_explained,
    called,
    deepseek_text,
    gemma_text,
    llama_text,
    qwen_text,
    reference,
    tool,
    user,
)


def of_server(
    url: str, family: str, request: Request, causes: list[str], where: str, template: str | None = None
) -> None:
    with LlamaCppTokens(url) as server:
        answer = server.render(request)
    assert answer.ids is not None, answer
    asked = reference(family, template)
    assert_explained(asked, request, answer.ids, answer.text, causes, where, engine="llama-server")


def of_client(request: Request, text: str, causes: list[str], where: str, engine: str = "client-completion") -> None:
    assert_client_explained("qwen3", request, text, causes, where, engine=engine)


def assistant(content: Any, **more: Any) -> Json:
    return {"role": "assistant", "content": content, **more}


def parts(*texts: str) -> list[Json]:
    return [{"type": "text", "text": text} for text in texts]


def test_clients_that_render_by_hand_render_what_the_templates_do() -> None:
    for family, render in (
        ("qwen3", qwen_text),
        ("gemma3", gemma_text),
        ("llama3.1", llama_text),
        ("deepseek-v3", deepseek_text),
    ):
        assert reference(family).text(Request(TALK)) == render(TALK)


# Content parts


@pytest.mark.parametrize(
    ("separator", "parameter"), [("\n", "newline"), (" ", "space"), ("", "nothing"), ("\n\n", "two newlines")]
)
def test_a_client_joins_the_parts_of_the_content(separator: str, parameter: str) -> None:
    request = Request([SYSTEM, user(parts("What is", "2 + 2?"))])
    text = qwen_text([SYSTEM, user(separator.join(("What is", "2 + 2?")))])
    of_client(request, text, [f"content-parts-joined: {parameter}"], "messages[1].content")


@pytest.mark.parametrize(("separator", "parameter"), [("\n", "newline"), (" ", "space")])
def test_a_client_joins_parts_that_another_template_runs_together(separator: str, parameter: str) -> None:
    request = Request([user(parts("What is", "2 + 2?"))])
    text = gemma_text([user(separator.join(("What is", "2 + 2?")))])
    causes = [f"content-parts-joined: {parameter}"]
    assert_client_explained("gemma3", request, text, causes, "messages[0].content")


def test_a_client_leaves_out_an_empty_part() -> None:
    request = Request([SYSTEM, user(parts("What is", "", "2 + 2?"))])
    text = qwen_text([SYSTEM, user("What is\n2 + 2?")])
    of_client(request, text, ["content-parts-joined: newline, empty ones left out"], "messages[1].content")


def test_a_client_joins_an_empty_part_too() -> None:
    request = Request([SYSTEM, user(parts("What is", "", "2 + 2?"))])
    text = qwen_text([SYSTEM, user("What is\n\n2 + 2?")])
    of_client(request, text, ["content-parts-joined: newline"], "messages[1].content")


def test_a_server_makes_a_message_of_each_part() -> None:
    request = Request([SYSTEM, user(parts("What is", "2 + 2?"))])
    text = qwen_text([SYSTEM, user("What is"), user("2 + 2?")])
    of_client(request, text, ["content-parts-joined: several messages"], "messages[1].content")


def test_a_client_takes_the_text_of_one_part() -> None:
    request = Request([user(parts("Hi"))])
    of_client(request, qwen_text([user("Hi")]), ["content-parts-joined: one part"], "messages[0].content")


def test_llama_server_joins_the_parts_of_the_content(qwen_url: str) -> None:
    request = Request([SYSTEM, user(parts("What is", "2 + 2?"))])
    of_server(qwen_url, "qwen3", request, ["content-parts-joined: newline"], "messages[1].content")


# Null content


def test_llama_server_takes_missing_content_for_empty(qwen_url: str) -> None:
    request = Request(called(content=None), None)
    of_server(qwen_url, "qwen3", request, ["content-null: ''"], "messages[1].content")
    talk = called()
    del talk[1]["content"]
    of_server(qwen_url, "qwen3", Request(talk), ["content-null: ''"], "messages[1].content")


def test_a_client_prints_the_word_none_for_missing_content() -> None:
    request = Request(called(content=None), [TOOL])
    text = qwen_text(called(content="None"), [TOOL])
    of_client(request, text, ["content-null: None"], "messages[1].content")


def test_a_client_loses_a_turn_without_content() -> None:
    request = Request(called(content=None), [TOOL])
    text = qwen_text([it for it in called() if it["content"]], [TOOL])
    of_client(request, text, ["content-null: a lost turn"], "messages[1].content")


def test_a_client_writes_an_empty_turn_for_missing_content() -> None:
    request = Request([user("Hi"), assistant(None), user("Bye")])
    text = qwen_text([user("Hi"), assistant(""), user("Bye")])
    of_client(request, text, ["content-null: ''"], "messages[1].content")


def test_a_client_loses_an_empty_turn() -> None:
    request = Request([user("Hi"), assistant(""), user("Bye")])
    text = qwen_text([user("Hi"), user("Bye")])
    of_client(request, text, ["content-null: a lost empty turn"], "messages[1].content")


def test_a_client_sends_null_for_empty_content() -> None:
    # DeepSeek-V3's template writes calls only where the content is null
    begin, bar = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", "<｜tool▁sep｜>"  # noqa: RUF001
    end = "<｜tool▁call▁end｜>"  # noqa: RUF001
    text = (
        deepseek_text([USER])
        + f'{begin}function{bar}lookup\n```json\n{{"city": "Paris"}}\n```{end}'
        + "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>sunny<｜tool▁output▁end｜><｜tool▁outputs▁end｜>"  # noqa: RUF001
    )
    request = Request(called('{"city": "Paris"}'))
    # Transformers leaves a null key out, so the template's `is none` is false for both: a template of today is used
    template = (
        reference("deepseek-v3")
        .template_for(request)
        .replace("message['content'] is none", "message['tool_calls'] and not message['content'] is string")
    )
    template = template.replace("message['content'] is not none", "message['content'] is string")
    causes = ["content-null: '' as null"]
    assert_client_explained("deepseek-v3", request, text, causes, "messages[1].content", template=template)


# Reasoning


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_a_client_drops_past_reasoning(field: str) -> None:
    request = Request(called(**{field: "I must look."}), [TOOL])
    of_client(request, qwen_text(called(), [TOOL]), [f"reasoning-dropped: {field}"], f"messages[1].{field}")


@pytest.mark.parametrize("field", ["reasoning", "thinking"])
def test_llama_server_reads_past_reasoning_under_one_name_alone(qwen_url: str, field: str) -> None:
    request = Request(called(**{field: "I must look."}))
    of_server(qwen_url, "qwen3", request, [f"reasoning-dropped: {field}"], f"messages[1].{field}")


# Switches and flags


def test_a_client_turns_thinking_off() -> None:
    text = qwen_text(QUESTION) + "<think>\n\n</think>\n\n"
    of_client(Request(QUESTION), text, ["thinking-default: false"], "template_kwargs.enable_thinking")


def test_a_client_ignores_that_thinking_is_off() -> None:
    request = Request(QUESTION, template_kwargs={"enable_thinking": False})
    of_client(request, qwen_text(QUESTION), ["thinking-default: not set"], "template_kwargs.enable_thinking")


def test_a_server_drops_the_generation_prompt() -> None:
    of_client(
        Request(QUESTION), qwen_text(QUESTION, prompt=False), ["generation-prompt-missing"], "add_generation_prompt"
    )


def test_a_server_drops_the_generation_prompt_of_a_request_without_thinking() -> None:
    request = Request(QUESTION, template_kwargs={"enable_thinking": False})
    of_client(request, qwen_text(QUESTION, prompt=False), ["generation-prompt-missing"], "add_generation_prompt")


def test_llama_server_leaves_a_last_turn_of_the_assistant_open(qwen_url: str, gemma_url: str, llama_url: str) -> None:
    request = Request([user("Count to three."), assistant("One, two,")])
    after_thinking = ["last-turn-prefilled: after an empty think block"]
    of_server(qwen_url, "qwen3", request, after_thinking, "messages[1].content")
    off = Request(request.messages, template_kwargs={"enable_thinking": False})
    causes = ["last-turn-prefilled: after the generation prompt"]
    of_server(qwen_url, "qwen3", off, causes, "messages[1].content")
    of_server(gemma_url, "gemma3", request, causes, "messages[1].content")
    dated = Request(request.messages, template_kwargs={"date_string": "26 Jul 2024"})
    of_server(llama_url, "llama3.1", dated, causes, "messages[1].content")


def test_a_client_leaves_a_last_turn_open_as_the_template_begins_it() -> None:
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant (final)\n' }}{% endif %}"
    )
    request = Request([user("Count to three."), assistant("One, two,")])
    text = "<|im_start|>user\nCount to three.<|im_end|>\n<|im_start|>assistant\nOne, two,"
    causes = ["last-turn-prefilled: in its own turn"]
    assert_client_explained("qwen3", request, text, causes, "messages[1].content", template=template)


def test_a_client_gives_the_last_turn_to_the_user() -> None:
    request = Request([user("Count to three."), assistant("One, two,")])
    text = qwen_text([user("Count to three."), user("One, two,")])
    of_client(request, text, ["last-turn-role: assistant -> user"], "messages[1].role")


# Roles and systems


def test_llama_server_takes_a_developer_for_the_system(qwen_url: str, gemma_url: str, llama_url: str) -> None:
    request = Request([{"role": "developer", "content": "You are terse."}, USER])
    causes = ["role-rewritten: developer -> system"]
    of_server(qwen_url, "qwen3", request, causes, "messages[0].role")
    of_server(gemma_url, "gemma3", request, causes, "messages[0].role")
    dated = Request(request.messages, template_kwargs={"date_string": "26 Jul 2024"})
    of_server(llama_url, "llama3.1", dated, causes, "messages[0].role")


@pytest.mark.parametrize(
    ("old", "new"), [("developer", "system"), ("developer", "user"), ("system", "user"), ("function", "tool")]
)
def test_a_client_writes_another_role(old: str, new: str) -> None:
    talk = (
        [{"role": old, "content": "It is sunny."}, USER]
        if old != "function"
        else [*TALK[:3], {"role": old, "content": "It is sunny."}]
    )
    text = qwen_text([{**it, "role": new} if it["role"] == old else it for it in talk])
    index = 0 if old != "function" else 3
    of_client(Request(talk), text, [f"role-rewritten: {old} -> {new}"], f"messages[{index}].role")


@pytest.mark.parametrize(
    ("separator", "parameter"), [("\n\n", "two newlines"), ("\n", "newline"), (" ", "space"), ("", "nothing")]
)
def test_a_client_merges_two_systems(separator: str, parameter: str) -> None:
    request = Request([SYSTEM, {"role": "system", "content": "Be kind."}, USER])
    text = qwen_text([{"role": "system", "content": f"You are terse.{separator}Be kind."}, USER])
    of_client(request, text, [f"systems-merged: {parameter}"], "messages[0]")


def test_a_client_moves_the_system_to_the_front() -> None:
    request = Request([USER, SYSTEM])
    of_client(request, qwen_text([SYSTEM, USER]), ["systems-merged: moved to the front"], "messages[1]")


@pytest.mark.parametrize("family", ["qwen3", "gemma3"])
def test_a_client_adds_a_system_text_of_its_own(family: str) -> None:
    default = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
    talk = [{"role": "system", "content": default}, USER]
    text = qwen_text(talk) if family == "qwen3" else gemma_text(talk)
    assert_client_explained(family, Request([USER]), text, [f"system-added: {default}"], "messages[0]")


def test_a_client_adds_a_system_text_to_a_talk_with_tools() -> None:
    default = "Answer briefly."
    text = qwen_text([{"role": "system", "content": default}, USER], [TOOL])
    of_client(Request([USER], [TOOL]), text, [f"system-added: {default}"], "messages[0]")


BILLING = "x-anthropic-billing-header: cc_version=2.0.1; cch=0a1b2;"


@pytest.mark.parametrize("content", [f"{BILLING}\nYou are terse.", f"You are terse.\n{BILLING}\nBe kind."])
def test_a_gateway_takes_the_billing_header_out_of_the_system_text(content: str) -> None:
    kept = "\n".join(line for line in content.split("\n") if not line.startswith("x-anthropic"))
    request = Request([{"role": "system", "content": content}, USER])
    text = qwen_text([{"role": "system", "content": kept}, USER])
    of_client(request, text, ["system-text-stripped: the billing header"], "messages[0].content")


# Turns lost


def turns(count: int) -> list[Json]:
    made: list[Json] = [SYSTEM]
    for number in range(count):
        made += [user(f"Question {number}: what is {number} + {number}?"), assistant(f"That makes {2 * number}.")]
    return made[:-1]


@pytest.mark.parametrize(
    ("gone", "parameter"), [(1, "the oldest turn"), (2, "the 2 oldest turns"), (6, "the 6 oldest turns")]
)
def test_a_server_drops_the_oldest_turns(gone: int, parameter: str) -> None:
    talk = turns(5)
    text = qwen_text([talk[0], *talk[1 + gone :]])
    of_client(Request(talk), text, [f"truncated: {parameter}"], "messages[1]", "ollama")


def test_a_server_drops_the_oldest_turns_of_a_talk_without_a_system() -> None:
    talk = turns(4)[1:]
    of_client(Request(talk), qwen_text(talk[2:]), ["truncated: the 2 oldest turns"], "messages[0]", "ollama")


# Several at once


@pytest.mark.parametrize(
    ("request_", "messages", "tools", "causes", "where"),
    [
        (
            Request([{"role": "developer", "content": "You are terse."}, user(parts("What is", "2 + 2?"))]),
            [SYSTEM, user("What is\n2 + 2?")],
            [],
            ["content-parts-joined: newline", "role-rewritten: developer -> system"],
            "messages[1].content",
        ),
        (
            Request([USER], [tool(strict=True), tool(name="fetch")]),
            [USER],
            [TOOL],
            ["tool-field-dropped: strict", "tools-dropped: fetch"],
            "tools[0].function.strict",
        ),
        (
            Request(called('{"city":"Paris","flag":false}', content=None), [tool(strict=True)]),
            called(),
            [TOOL],
            ["arguments-parsed", "tool-field-dropped: strict", "content-null: ''"],
            "messages[1].tool_calls[0].function.arguments",
        ),
    ],
)
def test_a_client_does_several_things_at_once(
    request_: Request, messages: Sequence[Json], tools: Sequence[Json], causes: list[str], where: str
) -> None:
    of_client(request_, qwen_text(messages, tools), causes, where)
