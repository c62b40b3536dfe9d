"""Turns and calls that do not arrive: clients that render by hand, and a stand-in of Shimmy's sources."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_tokenparity import Request, explain
from pytest_tokenparity.engines.shimmy import ShimmyTokens

from .witnesses import (
    QUESTION,
    SYSTEM,
    TALK,
    USER,
    Json,
    Messages,
    assert_client_explained,
    assert_explained,
    called,
    encoded,
    qwen_text,
    reference,
    user,
)

THANKS = user("Thank you.")


def client_of_known_roles(messages: Messages, roles: Sequence[str]) -> str:
    """A client that passes over the roles it does not know."""
    return qwen_text([message for message in messages if message["role"] in roles])


def client_of_text(messages: Messages) -> str:
    """A client that knows roles and contents alone."""
    turns = []
    for message in messages:
        content = message["content"]
        if message["role"] == "tool":
            content = f"<tool_response>\n{content}\n</tool_response>"
        turns.append((message["role"].replace("tool", "user"), content))
    return "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in turns) + "<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("messages", "roles", "cause", "where"),
    [
        (QUESTION, ["user", "assistant"], "message-dropped: every system turn", "messages[0]"),
        (
            [*called(content="I look."), THANKS],
            ["user", "assistant"],
            "message-dropped: every tool turn",
            "messages[2]",
        ),
    ],
    ids=["system", "tool"],
)
def test_a_client_that_does_not_know_a_role(messages: list[Json], roles: list[str], cause: str, where: str) -> None:
    assert_client_explained("qwen3", Request(messages), client_of_known_roles(messages, roles), [cause], where)


def test_a_client_that_loses_a_turn_in_the_middle() -> None:
    assert_client_explained(
        "qwen3",
        Request(TALK),
        qwen_text([*TALK[:2], TALK[3]]),
        ["message-dropped: messages[2]"],
        "messages[2]",
    )


def test_two_lost_turns_are_named_each() -> None:
    messages = [*TALK, {"role": "assistant", "content": "No, rain."}, THANKS]
    text = qwen_text([*messages[:2], messages[3], messages[5]])
    causes = ["message-dropped: messages[2], messages[4]"]
    request = Request(messages)
    assert_client_explained("qwen3", request, text, causes, "messages[2]")


def test_a_client_that_knows_no_calls() -> None:
    messages = [SYSTEM, *called(content="I look.")]
    assert_client_explained(
        "qwen3", Request(messages), client_of_text(messages), ["calls-dropped: all"], "messages[2].tool_calls"
    )


def test_the_oldest_turns_may_have_been_cut_and_that_is_only_likely() -> None:
    """Whether a client lost it or an engine cut it for its context does not show in the prompt."""
    text = qwen_text([SYSTEM, *TALK[2:]])
    found = explain(reference("qwen3"), Request(TALK), encoded("qwen3", text), text, engine="client-completion")
    assert (found.word, found.names) == ("likely", ("truncated",))


@pytest.mark.parametrize("parse_special", [True, False], ids=["up to 1.9", "2.5.0"])
def test_shimmy_asks_the_last_user_turn_again_where_another_turn_ends_the_request(parse_special: bool) -> None:
    asked = reference("qwen3")
    request = Request([SYSTEM, USER, {"role": "assistant", "content": "Yes"}])
    shown = ShimmyTokens(asked.files, family="ChatML", parse_special=parse_special).render(request)
    assert shown.ids is not None
    causes = ["last-turn-replaced: messages[1]", *([] if parse_special else ["special-as-text"])]
    assert_explained(asked, request, shown.ids, shown.text, causes, "messages[2]", engine="shimmy")
