"""The search for changes under which the reference renders what an engine rendered."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, islice

from .cause import View
from .distance import distance, places, sequence_distance, words
from .of_text import counted_otherwise, cut_off, encoded_otherwise
from .prompt import NONE, Change, Changes, Layer, Prompts
from .table import CAUSES

_MOST_CAUSES = 6
_MOST_PAIRS = 40
_MOST_ON_ROADS = 150  # renders: then no other road is tried
_MOST_AT_ALL, _LEAST, _CHARACTERS = 400, 60, 6_000_000  # renders, and characters that they have together
_ROUNDS = 3
_MOST_ENCODES = 6
_BEST_OF_A_PLATEAU = 8
_MOST_RENDERS = 54  # then rivals are not looked for any more
_FOOTPRINT = 0.8  # of what a change moves, how much must bring the text nearer to count while a rest is unexplained
_AROUND = (
    8  # characters on either side of what a change makes, which the engine must show too where a rest is unexplained
)
_REST = 0.2  # of the words of an answer: what may be unexplained where the reference refuses the request
_UNLIKELY = 3.0  # the doubt of a chain from which on it is only likely

# Changes of these causes stand beside others of the same cause; what is the same for two that exclude each other.
_HEALING = (
    *("content-parts-joined", "content-null", "role-rewritten", "systems-merged", "last-turn-prefilled"),
    *("last-turn-role", "continue-ignored", "tools-empty", "arguments-parsed", "arguments-emptied"),
)
"""What makes a template render what it refuses."""

_SLOTS: dict[str, Callable[[Change], str]] = {
    "tool-field-dropped": lambda change: change.parameter.partition(" ")[0],
    "tool-field-added": lambda change: change.parameter.partition("=")[0],
    "schema-keyword-dropped": lambda change: change.parameter,
    "schema-type-rewritten": lambda change: change.parameter.partition(" ")[0],
    "tool-keys-reordered": lambda change: change.parameter,
    "tool-json-format": lambda change: str(change.order),
    "undefined-variables": lambda change: change.parameter,
    "role-rewritten": lambda change: change.parameter.partition(" ")[0],
    "call-id-changed": lambda change: change.parameter.partition(" ")[0],
    "reasoning-dropped": lambda change: change.parameter,
    "reasoning-renamed": lambda change: change.parameter.partition(" ")[0],
    "whitespace": lambda change: change.parameter,
    "message-dropped": lambda change: change.parameter,
    "calls-dropped": lambda change: change.parameter,
}


@dataclass(frozen=True)
class Found:
    """What a search came to.

    ``exact``: under ``changes`` the reference renders the engine's answer. ``text_equal``: at least its text. ``also``
    are changes that would do in place of one of them. ``rest`` is how many words are left to explain.
    """

    changes: Changes
    exact: bool
    text_equal: bool
    also: tuple[Change, ...] = ()
    rest: int = 0
    doubt: float = 0.0
    """How unlikely its causes are of this engine, added up."""
    spent: bool = False
    """Whether the search ended because enough was rendered."""

    @property
    def unlikely(self) -> bool:
        return self.doubt >= _UNLIKELY or sum(change.copied for change in self.changes) > 1


@dataclass
class Search:
    """One search: over the whole table, or over the changes that ``allowed`` lets through.

    ``engine`` is the type of the engine, ``template`` the chat template it shows, where it is another than the
    reference's; ``known`` are causes proven of this engine before in this run.
    """

    prompts: Prompts
    engine: str | None = None
    template: str | None = None
    known: Collection[str] = ()
    allowed: Callable[[Change], bool] | None = None
    _improving: dict[Change, None] = field(default_factory=dict)
    _barred: set[Change] = field(default_factory=set)
    _scores: dict[str, float] = field(default_factory=dict)
    _unsure: bool = False

    def run(self) -> Found:
        base = self._base()
        changes, left = self._text(base)
        for _ in range(_ROUNDS):
            kept = self._clean(changes, base) if left > 0 else changes
            if kept == changes:
                break
            self._barred |= changes - kept  # they came nearer by chance, and stand in the way
            changes, left = self._text(kept)
        if left > 0:
            changes, left = self._another_road(changes, left, base)
        if left > 0:
            return self._cut(base) or self._in_part(self._seen(self._clean(changes, base), base))
        changes, also = self._cheapest(self._needed(changes, base), base)
        return self._ids(changes, also)

    @property
    def _spent(self) -> bool:
        """Whether enough was rendered: a long prompt, or a request of very many parts, is not searched without end."""
        return self.prompts.renders >= min(_MOST_AT_ALL, max(_LEAST, _CHARACTERS // (len(self.prompts.target) + 1)))

    def cost(self, change: Change) -> float:
        """What a change costs: less where this type of engine is known to do it, more where it was read off the answer."""
        return 1.0 + self._doubt(change)

    def _doubt(self, change: Change) -> float:
        usual = change.cause in self.known or (self.engine or "") in CAUSES[change.cause].seen
        # A cut explains whatever lost its front or its end: only of an engine that cuts it is more than likely.
        cut = 1.0 if change.cause == "truncated" and not usual else 0.0
        return (0.0 if usual else 0.5) + (2.0 if change.copied else 0.0) + cut

    # The text

    def _base(self) -> Changes:
        """What is known without a search: the template that the engine shows."""
        if self.template is None:
            return NONE
        view = self._view(NONE)
        base = frozenset(change for change in CAUSES["template-differs"].propose(view) if self._lets(change))
        if self.prompts.text(base) is None and self.prompts.text(NONE) is not None:
            self._unsure = True  # the template that is shown cannot be rendered here
            return NONE
        return base

    def _text(self, base: Changes) -> tuple[Changes, float]:
        changes, left = base, self._score(base)
        while left > 0 and len({change.cause for change in changes}) <= _MOST_CAUSES:
            better = self._better(changes, left)
            if better is None:
                break
            changes, left = better
        if left > 0 and changes != base:
            finer, closer = self._refined(changes, left, base)
            if closer < left:
                return self._text(finer) if closer else (finer, closer)
        return changes, left

    def _another_road(self, changes: Changes, left: float, base: Changes) -> tuple[Changes, float]:
        """The search again without one of the changes that led nowhere: what comes nearest first may be a detour."""
        for change in sorted(changes - base, key=lambda it: (it.layer, it.cause, it.parameter)):
            if self.prompts.renders >= _MOST_ON_ROADS or self._spent:
                break
            self._barred.add(change)
            found, rest = self._text(base)
            if rest == 0:
                return found, rest
            self._barred.discard(change)
        return changes, left

    def _better(self, changes: Changes, left: float) -> tuple[Changes, float] | None:
        proposals = self._proposals(changes)
        scores: dict[Change, float] = {}
        improving: list[Change] = []
        for evidence in (True, False):
            for change in (it for it in proposals if it.evidence is evidence):
                if self._spent or (not evidence and self.prompts.renders >= _MOST_ON_ROADS):
                    break
                scores[change] = self._score(changes | {change})
            nearer = [change for change in scores if scores[change] < left]
            self._improving.update(dict.fromkeys(nearer))
            right = [it for it in nearer if self._is_right(changes, changes | {it}, left, scores[it])]
            # What brings the text nearer by a part of what it moves may do so by chance: then the others are tried too,
            # of which only those that move nothing else speak for themselves.
            improving = (right or nearer) if evidence else [it for it in nearer if it.evidence or it in right]
            if right if evidence else improving:
                break
            improving = improving if evidence else nearer
        if improving:
            return self._together(changes, left, improving, scores)
        best: tuple[Changes, float] | None = None
        for pair in islice(self._pairs(changes, left, scores), _MOST_PAIRS):
            if self._spent:
                break
            score = self._score(changes | set(pair))
            if score < (left if best is None else best[1]):
                self._improving.update(dict.fromkeys(pair))
                best = changes | set(pair), score
            if score == 0 or (best is not None and not math.isfinite(left)):
                break
        return best if best is None or math.isfinite(left) else self._refined(*best, changes)

    def _refined(self, changes: Changes, left: float, base: Changes) -> tuple[Changes, float]:
        """Each change with the parameter that comes nearest: what was best alone may be half right beside the others."""
        for change in sorted(changes - base, key=lambda it: (it.layer, it.order)):
            rest = changes - {change}
            for form in self._proposals(rest):
                if not self._spent and _slot(form) == _slot(change) and (score := self._score(rest | {form})) < left:
                    changes, left = rest | {form}, score
        return changes, left

    def _is_right(self, before: Changes, after: Changes, left: float, score: float) -> bool:
        """Whether nearly all that a change moves brings the text nearer."""
        if not math.isfinite(left):
            return True
        one, other = (self.prompts.text(it) or "" for it in (before, after))
        return left - score >= max(1.0, _FOOTPRINT * distance(one, other))

    def _pairs(self, changes: Changes, left: float, scores: dict[Change, float]) -> Iterator[tuple[Change, Change]]:
        """Pairs of changes that may help together where none helps alone: those that speak for themselves first."""
        if math.isfinite(left):
            now = self.prompts.text(changes)
            moving = [it for it in scores if it.evidence or self.prompts.text(changes | {it}) != now]
            best = sorted(moving, key=lambda it: (not it.evidence, scores[it], self.cost(it)))[:_BEST_OF_A_PLATEAU]
        else:
            best = sorted((it for it in scores if it.cause in _HEALING), key=self.cost)
        for one, other in combinations(best, 2):
            if self._free(changes | {one}, other):
                yield one, other

    def _together(
        self, changes: Changes, left: float, improving: list[Change], scores: dict[Change, float]
    ) -> tuple[Changes, float]:
        """Improving changes applied one after the other, best first, while the distance falls."""
        ordered = sorted(improving, key=lambda it: (scores[it], self.cost(it), len(it.paths)))
        for change in ordered:
            if left == 0:
                break
            if not self._free(changes, change) or len({it.cause for it in (*changes, change)}) > _MOST_CAUSES:
                continue
            score = self._score(changes | {change})
            if score < left:
                changes, left = changes | {change}, score
        return changes, left

    def _proposals(self, changes: Changes) -> list[Change]:
        view = self._view(changes)
        found: dict[Change, None] = {}
        for cause in CAUSES.values():
            for change in cause.propose(view):
                if self._lets(change) and self._free(changes, change) and change not in self._barred:
                    found.setdefault(change)
        return list(found)

    def _free(self, changes: Changes, change: Change) -> bool:
        """Whether a change can stand beside the others."""
        return all(_slot(change) != _slot(other) for other in changes)

    def _lets(self, change: Change) -> bool:
        return self.allowed is None or self.allowed(change)

    def _view(self, changes: Changes) -> View:
        return View(self.prompts, changes, self.engine, self.template)

    def _score(self, changes: Changes) -> float:
        text = self.prompts.text(changes)
        if text is None:
            return math.inf
        bare = self.prompts.bare(text)
        known = self._scores.get(bare)
        if known is None:
            known = self._scores[bare] = min(distance(bare, target) for target in self.prompts.targets)
        return known

    def _same_text(self, changes: Changes) -> bool:
        return self.prompts.matches(self.prompts.text(changes))

    # The choice

    def _needed(self, changes: Changes, base: Changes) -> Changes:
        """Without every change that is not needed: one by one, then by pairs."""
        for size in (1, 2):
            for group in combinations(sorted(changes - base, key=self.cost, reverse=True), size):
                rest = changes - set(group)
                if set(group) <= changes and len(rest) < len(changes) and self._same_text(rest):
                    changes = rest
        return changes

    def _cheapest(self, changes: Changes, base: Changes) -> tuple[Changes, list[Change]]:
        """Each change in its cheapest form, and the changes of another name that would do as well."""
        also: list[Change] = []
        for change in sorted(changes - base, key=lambda it: (it.layer, it.cause, it.parameter)):
            rest = changes - {change}
            forms = [change]
            for rival in self._improving:
                if self.prompts.renders >= _MOST_RENDERS:
                    break
                if rival not in changes and self._free(rest, rival) and self._same_text(rest | {rival}):
                    forms.append(rival)
            chosen = min(forms, key=self._rank)
            changes = rest | {chosen}
            also += [form for form in forms if form.cause != chosen.cause]
        for pair in combinations(sorted(changes - base, key=self._rank), 2):
            one = [it for it in self._improving if self._free(changes - set(pair), it)]
            for rival in sorted(one, key=self._rank):
                together = changes - set(pair) | {rival}
                if self.cost(rival) < sum(map(self.cost, pair)) and self._same_text(together):
                    return together, [it for it in also if it.cause != rival.cause]
        return changes, also

    def _rank(self, change: Change) -> tuple[float, int, str, bool, str]:
        return (
            self.cost(change),
            len(change.paths),
            change.cause,
            change.parameter.endswith("at the end"),
            change.parameter,
        )

    # The IDs

    def _cut(self, base: Changes) -> Found | None:
        """A prompt of which a part is gone shows in the IDs, and in nothing else."""
        answer = self.prompts.answer.ids
        if answer is None or self._same_text(base) or self.prompts.text(base) is None:
            return None
        ours = self.prompts.ids(base)
        change = None if ours is None else cut_off(ours, answer)
        if change is None or not self._lets(change):
            return None
        return self._found(base | {change}, True, False)

    def _ids(self, changes: Changes, also: Iterable[Change]) -> Found:
        answer = self.prompts.answer.ids
        if answer is None:
            return self._found(changes, False, True, also)
        with_counts = self._counted(changes, answer)
        if self.prompts.ids(with_counts) == answer:
            return self._found(self._read_back(with_counts, answer), True, True, also)
        view = self._view(changes)
        encodings = [change for change in encoded_otherwise(view) if self._lets(change)]
        best, left = with_counts, self._ids_left(with_counts, answer)
        for size in (1, 2):
            for group in combinations(encodings, size):
                if len({change.cause for change in group}) < size:
                    continue
                tried = self._counted(changes | set(group), answer)
                if self.prompts.ids(tried) == answer:
                    return self._found(tried, True, True, also)
                distance_left = self._ids_left(tried, answer)
                if distance_left < left * (1 - _FOOTPRINT):
                    best, left = tried, distance_left
            if len(encodings) > 3:
                break
        return self._found(best, False, True, also, left)

    def _read_back(self, changes: Changes, answer: list[int]) -> Changes:
        """Without a normalisation that only shows because the text was decoded from IDs, which normalise it themselves."""
        for change in sorted(changes, key=lambda it: it.parameter):
            if self.prompts.answer.decoded and change.cause == "unicode-normalised":
                rest = changes - {change}
                if self.prompts.ids(rest) == answer:
                    changes = rest
        return changes

    def _ids_left(self, changes: Changes, answer: list[int]) -> int:
        return sequence_distance(self.prompts.ids(changes) or [], answer)

    def _counted(self, changes: Changes, answer: list[int]) -> Changes:
        """With BOS and EOS as the engine has them."""
        ours = self.prompts.ids(changes) or []
        tokens = self.prompts.engine.files.added
        files = self.prompts.engine.files
        bos, eos = (tokens.get(token) if token else None for token in (files.bos, files.eos))
        return changes | {change for change in counted_otherwise(ours, answer, bos, eos) if self._lets(change)}

    # A part

    def _clean(self, changes: Changes, base: Changes) -> Changes:
        """Without changes that bring the text nearer only by chance: nearly all that a change moves must be right."""
        for change in sorted(changes - base, key=self.cost, reverse=True):
            rest = changes - {change}
            # Without some the template refuses: these stay.
            if not self._is_right(rest, changes, self._score(rest), self._score(changes)):
                changes = rest
        if not math.isfinite(self._score(base)) and self._score(changes) > _REST * len(words(self.prompts.target)):
            return base  # what heals a refusal says nothing where the answer is still far
        return changes

    def _seen(self, changes: Changes, base: Changes) -> Changes:
        """Without changes whose outcome the engine does not show in its place: a part is named where it can be read."""
        for change in sorted(changes - base, key=self.cost, reverse=True):
            one, other = self.prompts.text(changes - {change}), self.prompts.text(changes) or ""
            if one is not None and not _shows(self.prompts.target, self.prompts.bare(one), self.prompts.bare(other)):
                changes = changes - {change}
        return changes

    def _in_part(self, changes: Changes) -> Found:
        answer = self.prompts.answer.ids
        left = self._score(changes)
        if answer is not None and self.prompts.text(NONE) is not None:
            ours = self.prompts.ids(NONE) or []
            tokens = self.prompts.engine.files.added
            bos = tokens.get(self.prompts.engine.files.bos or "")
            starts = counted_otherwise(ours[:4], answer[:4], bos, None)
            changes = changes | {change for change in starts if self._lets(change)} | self._encoded(changes, answer)
        return self._found(changes, False, False, (), int(left) if math.isfinite(left) else 0)

    def _encoded(self, changes: Changes, answer: list[int]) -> Changes:
        """Changes of the encoding that bring the IDs nearer by nearly all that they move."""
        ours = self.prompts.ids(changes) or []
        left = sequence_distance(ours, answer)
        found: Changes = NONE
        for change in encoded_otherwise(self._view(changes)):
            if not self._lets(change) or self.prompts.encodes >= _MOST_ENCODES:
                continue
            ids = self.prompts.ids(changes | {change}) or []
            gained, moved = left - sequence_distance(ids, answer), sequence_distance(ours, ids)
            if moved > 1 and gained >= _FOOTPRINT * moved:
                found = found | {change}
                break
        return found

    def _found(
        self, changes: Changes, exact: bool, text_equal: bool, also: Iterable[Change] = (), rest: int = 0
    ) -> Found:
        doubts: dict[str, float] = {"": _UNLIKELY} if self._unsure else {}
        for change in changes:
            doubts[change.cause] = max(doubts.get(change.cause, 0.0), self._doubt(change))
        return Found(changes, exact, text_equal, tuple(also), rest, sum(doubts.values()), self._spent)


def _shows(answer: str, one: str, other: str) -> bool:
    """Whether an answer has nearly all that makes ``other`` of ``one``, in its place: what came is there, what went is not."""

    shown = []
    for start, end in places(one, other):
        piece = _Piece.of(other, start, end)
        shown.append(piece.count(answer) >= min(piece.count(other), piece.count(one) + 1))
    for start, end in places(other, one):
        if start < end:  # where nothing went, what stands around may be parted at any of several places
            piece = _Piece.of(one, start, end)
            shown.append(piece.count(answer) < piece.count(one))
    return not shown or sum(shown) >= _FOOTPRINT * len(shown)


@dataclass(frozen=True)
class _Piece:
    """A span of a text with what stands around it; the ends of a text stand around, too."""

    text: str
    first: bool
    last: bool

    @classmethod
    def of(cls, text: str, start: int, end: int) -> _Piece:
        return cls(text[max(0, start - _AROUND) : end + _AROUND], start == 0, end == len(text))

    def count(self, text: str) -> int:
        if self.first or self.last:
            return int((not self.first or text.startswith(self.text)) and (not self.last or text.endswith(self.text)))
        return text.count(self.text)


def _slot(change: Change) -> tuple[str, str, Layer | None]:
    key = _SLOTS.get(change.cause)
    return change.cause, key(change) if key else "", None
