"""Conversations: where a client sends a request, which ones are valid, and the request made of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_tokenparity import InvalidConversation, Request, assert_valid, request_points
from pytest_tokenparity.messages import ROLES, assert_text
from pytest_tokenparity.request import RESERVED_KWARGS, sha256_of_requests

USER = {"role": "user", "content": "a"}


def conversation(roles: str) -> list[dict[str, str]]:
    """A conversation from initials: ``sua`` is a system text, a user turn and an answer; ``t`` is a tool's result."""
    names = {
        "s": "system",
        "u": "user",
        "a": "assistant",
        "t": "tool",
        "f": "function",
        "i": "ipython",
        "d": "developer",
    }
    return [{"role": names[initial], "content": "x"} for initial in roles]


@pytest.mark.parametrize(
    ("roles", "points"),
    [
        ("su", [2]),
        ("suauau", [2, 4, 6]),
        ("suauaua", [2, 4, 6]),
        ("uu", [1, 2]),
        ("uat", [1, 3]),
        ("uattt", [1, 5]),
        ("uattatt", [1, 4, 7]),
        ("uattu", [1, 4, 5]),
        ("uatat", [1, 3, 5]),
        ("uaf", [1, 3]),
        ("uai", [1, 3]),
        ("uatta", [1, 4]),
        ("uatst", [1, 3, 5]),
        ("s", []),
        ("sda", []),
        ("", []),
    ],
)
def test_a_request_is_sent_after_every_user_turn_and_after_the_last_of_consecutive_tool_results(
    roles: str, points: list[int]
) -> None:
    assert request_points(conversation(roles)) == points


def test_parallel_tool_results_are_one_request_point() -> None:
    """A client answers when all results have come, whatever call each belongs to."""
    calls = [{"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in ("a", "b")]
    turns: list[dict[str, Any]] = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "assistant", "content": "done"},
    ]
    assert request_points(turns) == [1, 4]


CALL = {"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}


@pytest.mark.parametrize(
    "messages",
    [
        [USER],
        (USER,),
        *([{"role": role, "content": "a"}] for role in ROLES),
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": []}],
        [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}],
        [{"role": "assistant"}],
        [{"role": "assistant", "content": None, "tool_calls": [CALL]}],
        [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '{"x": 1}'}}]}],
        [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": {}}]}],
        [{"role": "assistant", "content": "a", "tool_calls": None}],
        [{"role": "assistant", "content": "a", "tool_calls": []}],
        [{"role": "assistant", "content": "a", "reasoning_content": "r", "zzz": [1, 2.5, True, None]}],
        [{"role": "user", "content": "\U0001f600\u2028\x01\ufffe"}],
    ],
)
def test_what_a_chat_api_takes_is_valid(messages: Any) -> None:
    assert_valid(messages)


KNOWN = "known are system, developer, user, assistant, tool, function, ipython"


@pytest.mark.parametrize(
    ("messages", "message", "where"),
    [
        ([], "the list of messages is empty: a request needs at least one", ()),
        ("a", "expected a list of messages, found the string 'a'", ()),
        (b"a", "expected a list of messages, found bytes", ()),
        (USER, "expected a list of messages, found a mapping", ()),
        (None, "expected a list of messages, found null", ()),
        (5, "expected a list of messages, found 5", ()),
        (iter([USER]), "expected a list of messages, found list_iterator", ()),
        (["a"], "expected a message (a mapping with `role`), found the string 'a'", (0,)),
        ([USER, None], "expected a message (a mapping with `role`), found null", (1,)),
        (
            [{"content": "a"}],
            "a message without `role` (one of system, developer, user, assistant, tool, function, ipython)",
            (0,),
        ),
        ([{"role": "usr", "content": "a"}], f"unknown role 'usr' ({KNOWN})", (0, "role")),
        ([{"role": None, "content": "a"}], f"unknown role None ({KNOWN})", (0, "role")),
        ([{"role": ["user"], "content": "a"}], f"unknown role ['user'] ({KNOWN})", (0, "role")),
        ([USER, {"role": "tool"}], "a tool message without `content`", (1,)),
        ([{"role": "system"}], "a system message without `content`", (0,)),
        (
            [{"role": "user", "content": 5}],
            "content must be a string, null or a list of parts, found 5",
            (0, "content"),
        ),
        (
            [{"role": "user", "content": {"type": "text"}}],
            "content must be a string, null or a list of parts, found a mapping",
            (0, "content"),
        ),
        (
            [{"role": "user", "content": [{"type": "text", "text": "a"}, "b"]}],
            "a content part must be a mapping with a `type`, such as text",
            (0, "content", 1),
        ),
        (
            [{"role": "user", "content": [{"text": "a"}]}],
            "a content part must be a mapping with a `type`, such as text",
            (0, "content", 0),
        ),
        (
            [{"role": "user", "content": [{"type": "text"}]}],
            "a text part must hold a string under `text`",
            (0, "content", 0),
        ),
        (
            [{"role": "assistant", "tool_calls": CALL}],
            "tool_calls must be a list, found a mapping",
            (0, "tool_calls"),
        ),
        (
            [{"role": "assistant", "tool_calls": ["f"]}],
            "a tool call must be a mapping, found the string 'f'",
            (0, "tool_calls", 0),
        ),
        (
            [{"role": "assistant", "tool_calls": [CALL, {"function": {"arguments": {}}}]}],
            "a tool call needs `function` with a `name`",
            (0, "tool_calls", 1),
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": "f"}]}],
            "a tool call needs `function` with a `name`",
            (0, "tool_calls", 0),
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": [1]}}]}],
            "arguments must be a mapping or a JSON string, found a list",
            (0, "tool_calls", 0, "function", "arguments"),
        ),
        (
            [{"role": "user", "content": "a\0b"}],
            "NUL inside a string: llama.cpp and tokenizers cut or refuse it",
            (0, "content"),
        ),
        (
            [{"role": "user", "content": "\ud83d"}],
            "half of a surrogate pair inside a string: it is not text",
            (0, "content"),
        ),
        (
            [{"role": "user", "content": "\ud83d\ude00"}],
            "half of a surrogate pair inside a string: it is not text",
            (0, "content"),
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"x": ["\0"]}}}]}],
            "NUL inside a string: llama.cpp and tokenizers cut or refuse it",
            (0, "tool_calls", 0, "function", "arguments", "x", 0),
        ),
        (
            [{"role": "user", "content": "a", "zzz": {"\0": 1}}],
            "NUL inside a string: llama.cpp and tokenizers cut or refuse it",
            (0, "zzz"),
        ),
        ([{"role": "user", "content": "a", "zzz": {1: 2}}], "a key must be a string, found 1", (0, "zzz")),
        ([{"role": "user", "content": "a", "zzz": b"x"}], "expected what JSON can hold, found bytes", (0, "zzz")),
        ([{"role": "user", "content": "a", "zzz": {1, 2}}], "expected what JSON can hold, found set", (0, "zzz")),
    ],
)
def test_what_no_chat_api_takes_is_invalid(messages: Any, message: str, where: tuple[str | int, ...]) -> None:
    with pytest.raises(InvalidConversation) as caught:
        assert_valid(messages)
    assert (str(caught.value), caught.value.where) == (message, where)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_cannot_hold_is_invalid(number: float) -> None:
    with pytest.raises(InvalidConversation) as caught:
        assert_valid([{"role": "user", "content": "a", "zzz": number}])
    assert caught.value.where == (0, "zzz")


def _endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def _deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize("nested", [_endless, _deep])
def test_endless_nesting_is_invalid(nested: Callable[[], list[Any]]) -> None:
    with pytest.raises(InvalidConversation):
        assert_valid([{"role": "user", "content": "a", "zzz": nested()}])


@pytest.mark.parametrize("kind", [AssertionError, ValueError])
def test_an_invalid_conversation_is_also_the_natural_builtin(kind: type[Exception]) -> None:
    with pytest.raises(kind):
        assert_valid([])


def test_text_is_checked_at_every_depth() -> None:
    with pytest.raises(InvalidConversation) as caught:
        assert_text({"a": [1, {"b": "\udfff"}]}, ("x",))
    assert caught.value.where == ("x", "a", 1, "b")


@pytest.mark.parametrize(
    ("keywords", "request_"),
    [
        ({}, Request([USER])),
        ({"enable_thinking": False}, Request([USER], None, {"enable_thinking": False})),
        ({"add_generation_prompt": False}, Request([USER], add_generation_prompt=False)),
        ({"add_generation_prompt": True, "x": 1}, Request([USER], None, {"x": 1})),
        (
            {"continue_final_message": True},
            Request([USER], add_generation_prompt=False, continue_final_message=True),
        ),
        (
            {"continue_final_message": True, "add_generation_prompt": False},
            Request([USER], add_generation_prompt=False, continue_final_message=True),
        ),
        ({"continue_final_message": False}, Request([USER])),
    ],
)
def test_the_generation_flags_stand_among_the_keywords_of_a_request(
    keywords: dict[str, Any], request_: Request
) -> None:
    assert Request.of([USER], **keywords) == request_


@pytest.mark.parametrize(
    ("request_", "keywords"),
    [
        (Request([USER]), {}),
        (Request([USER], None, {"x": 1}), {"x": 1}),
        (Request([USER], None, {"x": 1}, add_generation_prompt=False), {"x": 1, "add_generation_prompt": False}),
        (
            Request([USER], add_generation_prompt=False, continue_final_message=True),
            {"add_generation_prompt": False, "continue_final_message": True},
        ),
    ],
)
def test_the_flags_are_keywords_only_when_they_are_not_the_default(request_: Request, keywords: dict[str, Any]) -> None:
    assert request_.keywords == keywords
    assert Request.of(request_.messages, request_.tools, **keywords) == request_


def test_a_request_is_frozen() -> None:
    request: Any = Request([USER])
    with pytest.raises(AttributeError):
        request.messages = []


@pytest.mark.parametrize(
    "name", ["messages", "tools", "add_generation_prompt", "continue_final_message", "tokenize", "chat_template"]
)
def test_what_belongs_to_the_call_is_no_switch_of_a_template(name: str) -> None:
    assert name in RESERVED_KWARGS


@pytest.mark.parametrize(
    "edited",
    [
        [Request([{"content": "a", "role": "user"}])],
        [Request([{"role": "user", "content": "b"}])],
        [Request([USER], [])],
        [Request([USER], None, {"x": 1})],
        [Request([USER], add_generation_prompt=False)],
        [Request([USER], continue_final_message=True)],
        [Request([USER]), Request([USER])],
        [],
    ],
    ids=["key-order", "content", "tools", "switch", "prompt", "continued", "one-more", "none"],
)
def test_an_edited_case_has_another_hash(edited: list[Request]) -> None:
    assert sha256_of_requests(edited) != sha256_of_requests([Request([USER])])


def test_an_equal_request_has_the_same_hash() -> None:
    """Two ways of writing one case: both mean the same prompt, so no golden has to be recorded again."""
    assert sha256_of_requests([Request((dict(USER),), None, {})]) == sha256_of_requests([Request([USER])])
    assert sha256_of_requests([Request([{"role": "user", "content": "\u00e9\U0001f600"}])]).isalnum()
