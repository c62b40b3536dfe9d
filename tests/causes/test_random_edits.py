"""Differences that no cause makes must not be given a name, and beside a real cause they must not hide or double it.

Edits are random and seeded: words or IDs deleted, inserted, replaced or swapped, in contents, in the template's own text and
in the tools' JSON, alone and several at once. None of them can be a known cause, by the way they are made:

* what is put in are words that no engine, template or schema has, never punctuation, numbers or whitespace;
* what is taken out is letters inside one string or one word of the template, never a quote, a key with its value, a
  whole content or a whole line, so it is no dropped field, turn, keyword or call id;
* what is swapped are two words of one sentence, so it is no order of keys, tools or turns;
* the ends stay as they are (BOS, EOS, generation prompt, a cut).
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_tokenparity import LlamaCppTokens, Request, TokenizersTokens, explain

from ..real_models import Servers
from .shapes import shapes
from .test_corpus import EXPECTED, FAMILIES, reference

SEEDS = range(24)  # of each family, of each of the two ways to show an answer
INVENTED = ("zorbel", "quandry", "fimple", "Brandolf", "wexit", "murkle", "Tavish", "glorp", "snerd", "ploverine")
BASES = (  # with much in them that a cause could take for its own
    *("plain-system-and-user", "plain-four-turns", "plain-newlines-in-history", "plain-cyrillic-and-code"),
    *(
        "tools-two",
        "tools-three-in-conversation",
        "tool-return",
        "tool-unlike-keys-on-two",
        "tool-cache-control-outside",
    ),
    *(
        "tool-keys-all-reversed",
        "tool-several-unknown-keys",
        "tool-without-description",
        "schema-refs",
        "schema-defaults",
    ),
    *(
        "schema-floats-on-two-tools",
        "arguments-nested",
        "calls-in-two-rounds",
        "reasoning-content-with-call-in-two-rounds",
    ),
    *("thinking-off-with-tools", "whitespace-newlines-around", "special-in-tool-description", "long-with-five-tools"),
    *("text-html", "developer-first", "prefill-without-flags-after-four-turns", "both-key-order-and-return"),
)
ENDS = 40  # characters at either end of a prompt, and
END_IDS = 8  # IDs, that stay as they are
AWAY = 12  # characters between a real difference and an edit
NEVER = {"system", "user", "assistant", "model", "tool", "ipython", "developer", "Jul", "Dec", "Date", "Today"}
_WORD = re.compile(r"(?<![\w\\<|/▁])[^\W\d_]{4,}(?![\w▁|>])")


@dataclass(frozen=True)
class Place:
    """A word that may be edited, and the first and last character of the sentence or line it stands in."""

    start: int
    end: int
    line: int


Edit = Callable[[random.Random, str, Sequence[Place]], str]


def places_in(text: str, closed: Sequence[tuple[int, int]] = ()) -> list[Place]:
    """The words of a prompt that edits may touch: none at the ends, none near what is closed."""
    found = []
    line = 0
    last = ENDS
    for match in _WORD.finditer(text, ENDS, max(ENDS, len(text) - ENDS)):
        if re.search(r'["\n<>{}\[\]]', text[last : match.start()]):
            line += 1  # another string, or another line
        last = match.end()
        near = any(low - AWAY < match.end() and match.start() < high + AWAY for low, high in closed)
        if match.group() not in NEVER and not near:
            found.append(Place(match.start(), match.end(), line))
    return found


def deleted(rng: random.Random, text: str, places: Sequence[Place]) -> str:
    """Without one word of a sentence that has others."""
    several = [place for place in places if sum(other.line == place.line for other in places) > 1]
    if not several:
        return replaced(rng, text, places)
    place = rng.choice(several)
    return text[: place.start] + text[place.end :]


def inserted(rng: random.Random, text: str, places: Sequence[Place]) -> str:
    place = rng.choice(places)
    return f"{text[: place.start]}{rng.choice(INVENTED)} {text[place.start :]}"


def replaced(rng: random.Random, text: str, places: Sequence[Place]) -> str:
    place = rng.choice(places)
    return text[: place.start] + rng.choice(INVENTED) + text[place.end :]


def swapped(rng: random.Random, text: str, places: Sequence[Place]) -> str:
    """With two words of one sentence in each other's place."""
    pairs = [
        (one, other)
        for one, other in itertools.pairwise(places)
        if one.line == other.line and text[one.start : one.end] != text[other.start : other.end]
    ]
    if not pairs:
        return replaced(rng, text, places)
    one, other = rng.choice(pairs)
    between = text[one.end : other.start]
    return text[: one.start] + text[other.start : other.end] + between + text[one.start : one.end] + text[other.end :]


EDITS: tuple[Edit, ...] = (deleted, inserted, replaced, swapped)


def edited(rng: random.Random, text: str, closed: Sequence[tuple[int, int]] = (), most: int = 3) -> str | None:
    """A text with one to ``most`` edits, each of another word; None if it has no word that may be edited."""
    changed = text
    blocked = list(closed)
    for _ in range(rng.randint(1, most)):
        places = places_in(changed, blocked)
        if not places:
            break
        before = changed
        changed = rng.choice(EDITS)(rng, changed, places)
        blocked = [*shifted(blocked, before, changed), *differences(before, changed)]
    return changed if changed != text else None


def differences(one: Sequence[Any], other: Sequence[Any]) -> list[tuple[int, int]]:
    """Where ``other`` differs from ``one``, as one span of it from the first to the last character (or ID) that does."""
    most = min(len(one), len(other))
    low = next((at for at in range(most) if one[at] != other[at]), most)
    high = next((at for at in range(most - low) if one[-1 - at] != other[-1 - at]), most - low)
    return [(low, len(other) - high)]


def shifted(spans: Sequence[tuple[int, int]], before: str, after: str) -> list[tuple[int, int]]:
    """Spans of ``before`` as spans of ``after``, of which one place was edited outside them."""
    ((low, _),) = differences(before, after)
    by = len(after) - len(before)
    return [(start + by, end + by) if start >= low else (start, end) for start, end in spans]


def edited_ids(
    rng: random.Random, engine: TokenizersTokens, ids: list[int], closed: set[int], most: int = 3
) -> list[int] | None:
    """IDs with one to ``most`` of them deleted, inserted, replaced or swapped: such as stand for letters, in mid-prompt."""
    pieces = engine.files.vocabulary
    wordlike = re.compile(r"[\s▁]?[^\W\d_]{3,}")

    def word(token: int) -> bool:
        text = (pieces.piece(token) or b"").decode("utf-8", "replace")
        return wordlike.fullmatch(text) is not None and text.strip(" ▁") not in NEVER

    invented = [engine.files.encode(f" {text}") for text in INVENTED]
    changed = list(ids)
    taken = set(closed)
    for _ in range(rng.randint(1, most)):
        free = [at for at in range(END_IDS, len(changed) - END_IDS) if at not in taken and word(changed[at])]
        if not free:
            break
        at = rng.choice(free)
        kind = rng.choice(("delete", "insert", "replace", "swap"))
        if kind == "swap" and at + 1 in free and changed[at] != changed[at + 1]:
            changed[at], changed[at + 1] = changed[at + 1], changed[at]
            taken |= {at - 1, at, at + 1, at + 2}
            continue
        new = [] if kind == "delete" else rng.choice(invented)
        old = 0 if kind == "insert" else 1
        changed[at : at + old] = new
        by = len(new) - old
        taken = {it + by if it > at else it for it in taken} | set(range(at - 1, at + len(new) + 1))
    return changed if changed != ids else None


def described(family: str, seed: int, name: str, before: str, after: str, said: object) -> str:
    ((low, high),) = differences(before, after)
    return f"{family}, seed {seed}, {name}: ...{after[max(0, low - 20) : high + 20]!r}: {said}"


@dataclass(frozen=True)
class Case:
    """One seed: a request and the answer that was edited."""

    seed: int
    name: str
    request: Request
    ids: list[int]
    text: str | None
    shown: tuple[str, str]
    """The text before and after the edit, for a report."""


def unknown_cases(family: str, with_text: bool, seeds: Sequence[int]) -> Iterator[Case]:
    """The reference's own answers, edited."""
    engine = reference(family)
    for seed in seeds:
        rng = random.Random(f"unknown {family} {with_text} {seed}")
        for name in rng.sample(BASES, len(BASES)):
            request = shapes()[name]
            own = engine.render(request)
            if own.text is None or own.ids is None:
                continue  # this family's template refuses it
            if with_text:
                text = edited(rng, own.text)
                ids = None if text is None else engine.files.encode(text)
            else:
                ids = edited_ids(rng, engine, own.ids, set())
                text = None
            if ids is not None:
                vocabulary = engine.files.vocabulary
                yield Case(seed, name, request, ids, text, (own.text, text or vocabulary.text(ids)))
                break


@pytest.mark.parametrize("with_text", [True, False], ids=["text and IDs", "IDs alone"])
@pytest.mark.parametrize("family", FAMILIES)
def test_an_edit_that_no_cause_makes_is_unknown(family: str, with_text: bool) -> None:
    named = []
    cases = list(unknown_cases(family, with_text, SEEDS))
    for case in cases:
        said = explain(reference(family), case.request, case.ids, case.text, engine="llama-server")
        if (said.word, said.causes, said.also) != ("unknown", (), ()):
            named.append(described(family, case.seed, case.name, *case.shown, (said.word, [*map(str, said.causes)])))
    assert len(cases) == len(SEEDS)
    assert not named, f"{len(named)} of {len(cases)}:\n" + "\n".join(named)


def shapes_with_one_cause(family: str) -> dict[str, list[str]]:
    """The shapes of which a table says one cause, read by a person; Llama 3.1's date counts where it is alone.

    A cause in the encoding shows only where the whole text is explained, so it is not among those an edit leaves visible.
    """
    table: dict[str, Any] = json.loads((EXPECTED / f"{family}.json").read_text(encoding="utf-8"))
    return {
        name: said["causes"]
        for name, said in table.items()
        if isinstance(said, dict)
        and said["word"] == "proven"
        and len(said["causes"]) == 1
        and not said["causes"][0].startswith(("unicode-normalised", "vocabulary-differs"))
    }


def in_part_cases(family: str, with_text: bool, seeds: Sequence[int], server: LlamaCppTokens) -> Iterator[Case]:
    """Real answers of llama-server that differ by one cause, edited at another place."""
    engine = reference(family)
    names = sorted(shapes_with_one_cause(family))
    for seed in seeds:
        rng = random.Random(f"in part {family} {with_text} {seed}")
        for name in rng.sample(names, len(names)):
            request = shapes()[name]
            own, real = engine.render(request), server.render(request)
            assert real.text is not None
            assert real.ids is not None
            ours = None if own.text is None else own.text.removeprefix(engine.files.bos or "")
            text: str | None = None
            ids: list[int] | None = None
            if with_text:
                closed = [] if ours is None else differences(ours, real.text)
                text = edited(rng, real.text, closed, most=1)
                ids = None if text is None else server.tokenize(text)
            else:
                ((low, high),) = [(0, 0)] if own.ids is None else differences(own.ids, real.ids)
                ids = edited_ids(rng, engine, real.ids, set(range(low - 3, high + 3)), most=1)
            if ids is None:
                continue  # too short to be edited elsewhere
            yield Case(seed, name, request, ids, text, (real.text, text or engine.files.vocabulary.text(ids)))
            break


@pytest.fixture(scope="module")
def urls(servers: Servers) -> dict[str, str]:
    return {family: servers.url(family) for family in FAMILIES}


@pytest.mark.parametrize("with_text", [True, False], ids=["text and IDs", "IDs alone"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_real_cause_is_still_named_beside_an_edit(family: str, with_text: bool, urls: dict[str, str]) -> None:
    wrong = []
    kept = shapes_with_one_cause(family)
    with LlamaCppTokens(urls[family]) as server:
        cases = list(in_part_cases(family, with_text, SEEDS, server))
    for case in cases:
        said = explain(reference(family), case.request, case.ids, case.text, engine="llama-server")
        causes = ["date: DATE" if cause.name == "date" else str(cause) for cause in said.causes]
        if said.word != "in part" or causes != kept[case.name] or said.rest == 0:
            wrong.append(described(family, case.seed, case.name, *case.shown, (said.word, causes, kept[case.name])))
    assert len(cases) == len(SEEDS)
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong)
