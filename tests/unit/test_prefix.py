"""Sessions: how many leading tokens neighbouring requests share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from pytest_tokenparity import PrefixBreak, assert_prefix_stable, find_prefix_breaks
from pytest_tokenparity.prefix import break_position, shared_prefix
from pytest_tokenparity.request import Conversation

SESSION = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": "What is 2 + 2?"},
    {"role": "assistant", "content": "4."},
    {"role": "user", "content": "And times 3?"},
    {"role": "assistant", "content": "12."},
    {"role": "user", "content": "Minus 5?"},
]


def answers(**by_messages: list[int]) -> Callable[[Conversation], list[int]]:
    """A renderer that knows its answer by the number of messages: ``answers(m2=[1], m4=[1, 2])``."""
    return lambda conversation: by_messages[f"m{len(conversation)}"]


@pytest.mark.parametrize(
    ("earlier", "later", "shared"),
    [
        ([1, 2, 3], [1, 2, 3, 4], 3),
        ([1, 2, 3], [1, 2, 3], 3),
        ([1, 2, 3], [1, 9, 3, 4], 1),
        ([1, 2, 3], [1, 2], 2),
        ([1, 2, 3], [], 0),
        ([], [1], 0),
    ],
)
def test_the_shared_prefix_is_what_the_later_request_repeats(earlier: list[int], later: list[int], shared: int) -> None:
    assert shared_prefix(earlier, later) == shared


@pytest.mark.parametrize(
    ("later", "tail", "position"),
    [
        ([*range(10), 77], 0, None),
        ([*range(9), 77, 78], 0, 9),
        ([*range(9), 77, 78], 1, None),
        ([*range(6), 77], 4, None),
        ([*range(5), 77], 4, 5),
        ([*range(5), 77], 3, 5),
        ([*range(9)], 0, 9),
        ([*range(9)], 1, None),
        ([*range(3)], 4, 3),
        ([77], 10, None),
        ([77], 9, 0),
        ([], 100, None),
    ],
)
def test_a_break_inside_the_tail_of_the_earlier_prompt_is_allowed(
    later: list[int], tail: int, position: int | None
) -> None:
    """The earlier prompt has ten tokens."""
    assert break_position(list(range(10)), later, tail) == position


def test_a_stable_session_has_no_breaks() -> None:
    render = answers(m2=[1, 2], m4=[1, 2, 3, 4], m6=[1, 2, 3, 4, 5])
    assert find_prefix_breaks(render, SESSION) == []


def test_every_request_point_is_rendered_once_and_with_the_first_messages_alone() -> None:
    asked: list[Conversation] = []

    def render(conversation: Conversation) -> list[int]:
        asked.append(conversation)
        return list(range(len(conversation)))

    find_prefix_breaks(render, SESSION)
    assert asked == [SESSION[:2], SESSION[:4], SESSION[:6]]


def test_neighbours_are_compared_and_breaks_say_how_many_messages_they_hold() -> None:
    render = answers(m2=[1, 2, 3], m4=[1, 2, 4, 5], m6=[1, 2, 4, 6, 7])
    assert find_prefix_breaks(render, SESSION) == [
        PrefixBreak(earlier=2, later=4, position=2),
        PrefixBreak(earlier=4, later=6, position=3),
    ]


@pytest.mark.parametrize(
    ("tail", "breaks"),
    [
        (0, [PrefixBreak(2, 4, 25), PrefixBreak(4, 6, 42)]),
        (3, [PrefixBreak(2, 4, 25), PrefixBreak(4, 6, 42)]),
        (4, []),
        (5, []),
    ],
)
def test_the_session_of_the_table_breaks_inside_the_four_tokens_of_its_generation_prompt(
    tail: int, breaks: list[PrefixBreak]
) -> None:
    """Qwen3 with thinking off: its empty thought of four tokens ends a prompt and is gone from the next one."""

    def render(conversation: Conversation) -> list[int]:
        length = {2: 25, 4: 42, 6: 59}[len(conversation)]
        return [*range(length), 151667, 271, 151668, 271]

    assert find_prefix_breaks(render, SESSION, tail=tail) == breaks


def test_parallel_tool_results_are_one_request() -> None:
    roles = ("user", "assistant", "tool", "tool", "assistant", "user")
    session = [{"role": role, "content": role} for role in roles]
    render = answers(m1=[1, 2], m4=[1, 3], m6=[1, 3, 4])
    assert find_prefix_breaks(render, session) == [PrefixBreak(1, 4, 1)]


def test_a_later_prompt_that_is_shorter_breaks_at_its_end() -> None:
    render = answers(m2=[1, 2, 3], m4=[1, 2], m6=[1, 2, 3])
    assert find_prefix_breaks(render, SESSION) == [PrefixBreak(2, 4, 2)]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_session_of_at_most_one_request_has_nothing_to_break(count: int) -> None:
    assert find_prefix_breaks(lambda conversation: [len(conversation)], SESSION[:count]) == []


def test_any_sequence_of_ids_can_be_rendered() -> None:
    def render(conversation: Conversation) -> Sequence[int]:
        return tuple(range(len(conversation))) if len(conversation) == 2 else range(len(conversation))

    assert find_prefix_breaks(render, SESSION) == []


def test_what_the_renderer_does_with_its_list_afterwards_does_not_matter() -> None:
    """A renderer may fill one buffer again and again."""
    buffer: list[int] = []

    def render(conversation: Conversation) -> list[int]:
        buffer[:] = [len(conversation)]
        return buffer

    assert find_prefix_breaks(render, SESSION) == [PrefixBreak(2, 4, 0), PrefixBreak(4, 6, 0)]


def test_a_stable_session_passes() -> None:
    asked: list[int] = []

    def render(conversation: Conversation) -> list[int]:
        asked.append(len(conversation))
        return list(range(len(conversation)))

    assert_prefix_stable(render, SESSION)
    assert asked == [2, 4, 6]


def test_an_unstable_session_fails_and_names_every_break() -> None:
    render = answers(m2=[1, 2, 3], m4=[1, 2, 4, 5], m6=[1, 2, 4, 6, 7])
    with pytest.raises(AssertionError) as caught:
        assert_prefix_stable(render, SESSION)
    assert str(caught.value) == "the prefix breaks at token 2 (2 -> 4 messages); 3 (4 -> 6 messages)"


def test_an_unstable_session_passes_where_its_tail_is_allowed_to_break() -> None:
    render = answers(m2=[1, 2, 3], m4=[1, 2, 4, 5], m6=[1, 2, 4, 6, 7])
    assert_prefix_stable(render, SESSION, tail=1)
    with pytest.raises(AssertionError, match=r"^the prefix breaks at token 2 "):
        assert_prefix_stable(render, SESSION, tail=0)
