"""Where two lists of token IDs part, and the public names that need no pytest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import pytest_tokenparity
from pytest_tokenparity import RequestRefused, TokenDivergence, TokenRenderer, compare_token_renders, first_divergence
from pytest_tokenparity.request import Conversation, Tools

QUESTION = [{"role": "user", "content": "What is 2 + 2?"}]


class Fixed:
    """A renderer that answers always the same, and remembers what it was asked."""

    def __init__(self, name: str, ids: Sequence[int]) -> None:
        self.name = name
        self.answer = list(ids)
        self.asked: list[tuple[Any, ...]] = []

    def ids(self, conversation: Conversation, tools: Tools | None = None, **template_kwargs: Any) -> list[int]:
        self.asked.append((conversation, tools, template_kwargs))
        return self.answer


@pytest.mark.parametrize(
    "name",
    [
        *("TokenRenderer", "TransformersTokens", "LlamaCppTokens", "ClientCompletionTokens"),
        *("compare_token_renders", "TokenDivergence", "first_divergence"),
        *("request_points", "find_prefix_breaks", "assert_prefix_stable", "PrefixBreak"),
        *("request_tool", "assert_valid"),
    ],
)
def test_a_public_name_can_be_imported(name: str) -> None:
    assert getattr(pytest_tokenparity, name).__name__ == name
    assert name in pytest_tokenparity.__all__
    assert name in dir(pytest_tokenparity)


@pytest.mark.parametrize("name", pytest_tokenparity.__all__)
def test_everything_that_is_exported_is_there(name: str) -> None:
    assert getattr(pytest_tokenparity, name).__name__ == name


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = pytest_tokenparity.no_such_name
    assert str(caught.value) == "module 'pytest_tokenparity' has no attribute 'no_such_name'"


@pytest.mark.parametrize(
    ("a", "b", "position"),
    [
        ([1, 2, 3], [1, 2, 3], None),
        ([], [], None),
        ([1, 2, 3], [1, 9, 3], 1),
        ([1, 2, 3], [9, 2, 3], 0),
        ([1, 2, 3], [1, 2, 9], 2),
        ([1, 2, 3], [9, 1, 2, 3], 0),
        ([1, 2, 3], [1, 3], 1),
        ([1, 2, 3], [1, 2], 2),
        ([1, 2], [1, 2, 3], 2),
        ([], [1], 0),
        ([1], [], 0),
        ([1, 2], (1, 2), None),
        ((1, 2), [1, 2, 3], 2),
        ("abc", "abc", None),
        ("abc", "abd", 2),
        ("abc", "ab", 2),
        ("", "a", 0),
        ("", "", None),
        ("\U0001f600a", "\U0001f600b", 1),
        ("e\u0301", "\u00e9", 0),
    ],
)
def test_the_first_divergence_is_the_first_position_that_differs(
    a: Sequence[Any], b: Sequence[Any], position: int | None
) -> None:
    """A proper prefix diverges at the shorter length."""
    assert first_divergence(a, b) == position
    assert first_divergence(b, a) == position


def test_two_long_lists_part_at_their_last_token() -> None:
    ids = list(range(100_000))
    assert first_divergence(ids, [*ids[:-1], -1]) == 99_999


def test_every_renderer_is_compared_with_the_first() -> None:
    renderers = [
        Fixed("reference", [1, 2, 3]),
        Fixed("equal", [1, 2, 3]),
        Fixed("other", [1, 9, 3, 4]),
        Fixed("short", [1, 2]),
        Fixed("empty", []),
    ]
    assert compare_token_renders(renderers, QUESTION) == [
        TokenDivergence("reference", "other", position=1, reference_len=3, engine_len=4),
        TokenDivergence("reference", "short", position=2, reference_len=3, engine_len=2),
        TokenDivergence("reference", "empty", position=0, reference_len=3, engine_len=0),
    ]


def test_equal_renders_have_no_divergence() -> None:
    assert compare_token_renders([Fixed("a", [1]), Fixed("b", [1]), Fixed("c", [1])], QUESTION) == []


def test_a_reference_alone_has_nothing_to_leave() -> None:
    assert compare_token_renders([Fixed("reference", [1])], QUESTION) == []


def test_every_renderer_is_asked_the_same_once() -> None:
    renderers = [Fixed("a", [1]), Fixed("b", [2])]
    tools = [{"type": "function", "function": {"name": "f"}}]
    compare_token_renders(renderers, QUESTION, tools, enable_thinking=False, add_generation_prompt=False)
    for renderer in renderers:
        assert renderer.asked == [(QUESTION, tools, {"enable_thinking": False, "add_generation_prompt": False})]


def test_a_comparison_without_a_renderer_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^no renderer to compare: the first one is the reference$"):
        compare_token_renders([], QUESTION)


def test_what_a_renderer_raises_is_not_caught() -> None:
    class Refusing(Fixed):
        def ids(self, conversation: Conversation, tools: Tools | None = None, **template_kwargs: Any) -> list[int]:
            raise RequestRefused("no")

    with pytest.raises(RequestRefused, match=r"^no$"):
        compare_token_renders([Fixed("a", [1]), Refusing("b", [])], QUESTION)


def test_a_class_with_a_name_and_ids_is_a_renderer() -> None:
    assert isinstance(Fixed("a", []), TokenRenderer)
    assert not isinstance("a", TokenRenderer)


def test_a_divergence_is_a_value() -> None:
    first, second = (TokenDivergence("a", "b", 1, 2, 3) for _ in range(2))
    assert first == second
    assert {first: "x"}[second] == "x"
