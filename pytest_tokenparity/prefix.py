"""Sessions: how many leading tokens neighbouring requests share, which is what a prefix cache reuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .compare import first_divergence
from .messages import request_points
from .request import Conversation


@dataclass(frozen=True)
class PrefixBreak:
    """The later request leaves the earlier one at token ``position``, counted from 0.

    ``earlier`` and ``later`` say how many messages the two requests hold.
    """

    earlier: int
    later: int
    position: int


def shared_prefix(earlier: Sequence[int], later: Sequence[int]) -> int:
    """How many leading tokens of ``earlier`` the later request shares."""
    position = first_divergence(earlier, later)
    return len(earlier) if position is None else position


def break_position(earlier: Sequence[int], later: Sequence[int], tail: int = 0) -> int | None:
    """Where ``later`` stops repeating ``earlier``; None if it repeats all of it but the last ``tail`` tokens."""
    shared = shared_prefix(earlier, later)
    return shared if shared < len(earlier) - tail else None


def find_prefix_breaks(
    render_ids: Callable[[Conversation], Sequence[int]], conversation: Conversation, tail: int = 0
) -> list[PrefixBreak]:
    """Render every request point of a session and compare neighbours, token for token.

    ``render_ids`` turns the first messages of the session into token IDs. A break inside the last ``tail`` tokens of the
    earlier prompt (where a generation prompt stands) is allowed. ValueError for a negative ``tail``.
    """
    if tail < 0:
        raise ValueError(f"tail must be a number of tokens, at least 0, not {tail}")
    breaks = []
    earlier_count, earlier_ids = 0, list[int]()
    for count in request_points(conversation):
        ids = list(render_ids(conversation[:count]))
        if earlier_count:
            position = break_position(earlier_ids, ids, tail)
            if position is not None:
                breaks.append(PrefixBreak(earlier_count, count, position))
        earlier_count, earlier_ids = count, ids
    return breaks


def assert_prefix_stable(
    render_ids: Callable[[Conversation], Sequence[int]], conversation: Conversation, tail: int = 0
) -> None:
    """Raise AssertionError that names every prefix break of the session."""
    __tracebackhide__ = True
    breaks = find_prefix_breaks(render_ids, conversation, tail)
    if breaks:
        places = "; ".join(f"{found.position} ({found.earlier} -> {found.later} messages)" for found in breaks)
        raise AssertionError(f"the prefix breaks at token {places}")
