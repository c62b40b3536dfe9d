"""How far one text is from another: words inserted and deleted, shared ends cut."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher
from itertools import accumulate

_WORD = re.compile(r"[^\W\d_]+|\d|_|\s|[^\w\s]")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_MOST = 250  # edits that are counted one by one; beyond it the words that are not shared are

_MOSTLY = 0.5  # of the words of a text
_MOST_COMPARED = 2000  # words: longer stretches that differ count as one place


def words(text: str) -> list[str]:
    """A text cut finer than any tokenizer does: runs of letters, and every other character alone."""
    return _WORD.findall(text)


def distance(text: str, other: str, most: int | None = None) -> int:
    """Words inserted and deleted between two texts; more than ``most`` may be given as any number above it."""
    if text == other:
        return 0
    a, b = _cut_ends(_LINE.findall(text), _LINE.findall(other))
    left, right = words("".join(a)), words("".join(b))
    return sequence_distance(left, right, most)


def reads_otherwise(read: str, text: str) -> bool:
    """Whether IDs, read by a tokenizer, are mostly another text than the one that came with them: another vocabulary's.

    A BOS that only the IDs have says nothing.
    """
    return not read.endswith(text) and distance(read, text) > _MOSTLY * len(words(text))


def places(text: str, other: str) -> list[tuple[int, int]]:
    """Where ``other`` is not ``text``: spans of ``other`` as (start, end), empty ones where only something is gone."""
    found: list[tuple[int, int]] = []
    ours, theirs = _LINE.findall(text), _LINE.findall(other)
    starts = [0, *accumulate(map(len, theirs))]
    for tag, low, high, first, last in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if high - low == last - first:  # line by line, such as one tool after the other
            for line, mine in enumerate(ours[low:high], first):
                found += _within(mine, theirs[line], starts[line])
        else:
            found += _within("".join(ours[low:high]), "".join(theirs[first:last]), starts[first])
    return found


def _within(text: str, other: str, offset: int) -> list[tuple[int, int]]:
    left, right = words(text), words(other)
    if len(left) + len(right) > _MOST_COMPARED:
        return [(offset, offset + len(other))]
    inner = [offset + length for length in (0, *accumulate(map(len, right)))]
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    return [(inner[start], inner[end]) for tag, _, _, start, end in matcher.get_opcodes() if tag != "equal"]


def sequence_distance(a: Sequence[Hashable], b: Sequence[Hashable], most: int | None = None) -> int:
    """Insertions and deletions between two sequences (Myers' greedy search); an estimate from below where they are many."""
    a, b = _cut_ends(a, b)
    if not a or not b:
        return len(a) + len(b)
    unshared = _unshared(a, b)
    bound = _MOST if most is None else min(most, _MOST)
    if unshared > bound:
        return unshared
    reach = {1: 0}
    for edits in range(bound + 1):
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1)
            )
            x = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            y = x - diagonal
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            reach[diagonal] = x
            if x >= len(a) and y >= len(b):
                return edits
    return max(unshared, bound + 1)


def _cut_ends(a: Sequence[Hashable], b: Sequence[Hashable]) -> tuple[list[str], list[str]]:
    low, high = 0, 0
    most = min(len(a), len(b))
    while low < most and a[low] == b[low]:
        low += 1
    while high < most - low and a[-1 - high] == b[-1 - high]:
        high += 1
    return list(a[low : len(a) - high]), list(b[low : len(b) - high])  # type: ignore[arg-type]


def _unshared(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    one, other = Counter(a), Counter(b)
    return sum(((one - other) + (other - one)).values())
