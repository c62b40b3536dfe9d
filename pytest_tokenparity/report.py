"""Findings as text: what a tired engineer reads at a red CI."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from .check import Outcome
from .compare import first_divergence
from .findings import (
    CountDiffers,
    Difference,
    Finding,
    GoldenMissing,
    GoldenUnusable,
    PrefixBroken,
    Problem,
    RefusalDiffers,
    RequestsChanged,
    StopChanged,
    StopNotOneToken,
    TextDiffers,
    Unreachable,
)
from .history import History
from .token_table import display_width, escaped, quoted, table
from .vocabulary import Vocabulary
from .words import one_line
from .yaml12 import shown

_TAIL = 16  # tokens: a generation prompt is shorter
_REASONS = 6  # lines of a further finding's where and cause
_OTHERS = 4  # further findings named in one line each
_AGAINST_GOLDEN = (Difference, RefusalDiffers, CountDiffers, TextDiffers)
_EXPLAINED = (Difference, RefusalDiffers, TextDiffers)
SKIP_FLAG = "--tokenparity-unreachable=skip"


@dataclass(frozen=True)
class Subject:
    """Of what a report speaks: where the item stands, and how it is run alone."""

    engine: str
    at: str
    """``chat.tokenparity.yaml:13: tools[qwen3-0.6b-llama-server]``"""
    select: str
    """What to give pytest to run it alone."""
    update_flag: str
    is_reference: bool = False
    pin: str = ""
    """What ``expect`` calls the engine: ``MODEL/ENGINE`` where the case runs on several models."""
    is_case: bool = True


@dataclass(frozen=True)
class Line:
    """One line of a report; ``style`` is what a terminal writer takes, such as ``{"red": True}``."""

    text: str
    style: dict[str, bool] = field(default_factory=dict)


HEADLINE_STYLE = {"red": True, "bold": True}


def failure(outcome: Outcome, subject: Subject, vocabulary: Vocabulary | None, verbosity: int) -> list[Line]:
    """The whole text of a failed item; the first line stands alone in the short summary."""
    first, *others = outcome.findings
    lines = [Line(headline(outcome), HEADLINE_STYLE)]
    lines += _details(first, vocabulary, verbosity, outcome.history)
    if lines[-1].text:
        lines.append(Line(""))
    lines += _why(first, verbosity)
    if verbosity >= 2:
        for other in others:
            lines += [
                Line(""),
                Line(other.headline, {"red": True}),
                *_details(other, vocabulary, verbosity, outcome.history),
            ]
            if why := _why(other, verbosity):
                lines += [Line(""), *why]
        if others:
            lines.append(Line(""))
    else:
        named = others if len(others) <= _OTHERS else others[: _OTHERS - 1]
        for other in named:
            lines.append(_labelled("also", other.headline))
            lines += [Line(f"  {row.text}", row.style) for row in _why(other, verbosity)[:_REASONS]]
        if len(named) < len(others):
            lines.append(_labelled("also", f"{len(others) - len(named)} more (-vv shows all)"))
    return [*lines, *_golden(outcome), *_fix(outcome, subject, verbosity), _labelled("at", subject.at)]


def headline(outcome: Outcome) -> str:
    """The finding in one line, and what the golden depends on that changed."""
    first = outcome.findings[0]
    if outcome.history is None or not isinstance(first, (Difference, RefusalDiffers)):
        return first.headline
    history = outcome.history
    if history.edited:
        return f"{first.headline}; the golden was edited by hand"
    if history.changed and not history.of_engine:
        changed = [what.partition(" (")[0] for what in history.changed]  # the hashes stand below
        return f"{first.headline}; since it was recorded, {_and(changed)}"
    return first.headline


def shows_tokens(outcome: Outcome) -> bool:
    """Whether the text of an outcome shows tokens, for which a vocabulary must be loaded."""
    return any(isinstance(found, (Difference, PrefixBroken)) for found in outcome.findings)


def command(subject: Subject, *options: str) -> str:
    """The command that runs this item alone, ready to paste."""
    return " ".join(["pytest", *options, shlex.quote(subject.select)])


def _details(finding: Finding, vocabulary: Vocabulary | None, verbosity: int, history: History | None) -> list[Line]:
    foreign = False  # today's tokenizer would show words that were never in the golden
    if isinstance(finding, Difference):
        labels, left, right = ("golden", "rendered"), finding.golden, finding.rendered
        foreign = history is not None and history.other_tokenizer
    elif isinstance(finding, PrefixBroken):
        labels = (f"request {finding.earlier_place.number}", f"request {finding.later_place.number}")
        left, right = finding.earlier, finding.later
    elif isinstance(finding, TextDiffers):
        return [Line(""), *(Line(f"  {row}") for row in _text_rows(finding))]
    else:
        return []
    lines = [Line(""), *(Line(row) for row in table(labels, left, right, finding.position, vocabulary, foreign))]
    if verbosity >= 2 and vocabulary is not None and not foreign:
        lines += [Line(""), *_everything(labels, left, right, vocabulary)]
    return lines


def _text_rows(finding: TextDiffers) -> list[str]:
    start = max(0, finding.position - 12)
    sides = (("reference", finding.reference), ("rendered", finding.rendered))
    rows = []
    for label, side in sides:
        part = "".join(escaped(side, at, "'", False) for at in range(start, min(len(side), finding.position + 20)))
        rows.append(f"{label:<9}  '{part}'")
    before = "".join(escaped(finding.reference, at, "'", False) for at in range(start, finding.position))
    return [*rows, " " * (12 + display_width(before)) + "^"]


def _everything(
    labels: tuple[str, str], left: Sequence[int], right: Sequence[int], vocabulary: Vocabulary
) -> list[Line]:
    """Both prompts by lines, as a diff: every ID and every character."""
    sides = [[f"{quoted(text)}  {ids}" for ids, text in vocabulary.lines(side)] for side in (left, right)]
    lines = [Line(f"  --- {labels[0]}", {"green": True}), Line(f"  +++ {labels[1]}", {"red": True})]
    start = first_divergence(*sides) or 0  # what is shared at both ends needs no search, which is slow
    end = 0
    while end < min(map(len, sides)) - start and sides[0][-1 - end] == sides[1][-1 - end]:
        end += 1
    middles = [side[start : len(side) - end] for side in sides]
    matcher = difflib.SequenceMatcher(None, middles[0], middles[1], autojunk=False)
    moved = [(kind, a + start, b + start, c + start, d + start) for kind, a, b, c, d in matcher.get_opcodes()]
    left_end, right_end = (len(side) - end for side in sides)
    for kind, a, b, c, d in [
        ("equal", 0, start, 0, start),
        *moved,
        ("equal", left_end, len(sides[0]), right_end, len(sides[1])),
    ]:
        if kind == "equal":
            lines += [Line(f"      {row}") for row in sides[0][a:b]]
            continue
        lines += [Line(f"  -   {row}", {"green": True}) for row in sides[0][a:b]]
        lines += [Line(f"  +   {row}", {"red": True}) for row in sides[1][c:d]]
    return lines


def _why(finding: Finding, verbosity: int) -> list[Line]:
    """Where a difference lies and why it is there, in words that say how much is proven."""
    if isinstance(finding, PrefixBroken) and finding.why is not None:
        return [_labelled(label, one_line(text, 200)) for label, text in finding.why.rows if label != "fix"]
    why = finding.why if isinstance(finding, _EXPLAINED) else None
    if why is None:
        return []
    lines = [_labelled("where", _cut(why.where, 90))] if why.where else []
    exactly = "the reference renders exactly " + (
        f"these {why.tokens} tokens" if why.tokens is not None else "this text"
    )
    causes = [f"{cause.name}: {one_line(cause.sentence, 160)}" for cause in why.causes]
    if why.word in ("proven", "likely"):
        lead = "likely: " if why.word == "likely" else ""
        if len(causes) == 1:
            lines.append(_labelled("cause", f"{lead}{causes[0]}, {exactly}"))
        else:
            lines += [_labelled("" if number else "cause", lead + it) for number, it in enumerate(causes)]
            lines.append(_labelled("", f"together: {exactly}"))
        if why.word == "likely" and why.tokens is not None:
            lines.append(_labelled("", "but by so many changes, or read off its answer, that this proves little"))
    elif why.word == "in part":
        lines += [_labelled("" if number else "cause", f"in part: {it}") for number, it in enumerate(causes)]
        if why.text_equal or not why.rest_where:
            lines.append(_labelled("", "with that the texts are equal, the IDs are not: a rest lies in the encoding"))
        else:
            lines.append(_labelled("", f"the rest is not explained; it begins in {_cut(why.rest_where, 90)}"))
    elif why.note:
        lines.append(_labelled("cause", f"not looked for: {one_line(why.note)}"))
    else:
        lines.append(_labelled("cause", "unknown: no change that is known makes the reference render this"))
    if why.spent:
        lines.append(_labelled("", "the search ended before all was tried: the prompt is long"))
    if why.parted is not None:
        lines.append(_labelled("text", f"{quoted(_cut(why.parted[0], 60))} became"))
        lines.append(_labelled("", quoted(_cut(why.parted[1], 60))))
    if why.refused is not None and why.causes:
        lines.append(_labelled("", f"as it is, the reference refuses the request: {one_line(why.refused, 120)}"))
    if why.text_equal and why.word != "in part":
        lines.append(_labelled("", "the texts are equal (BOS and EOS set aside): the cause lies in the encoding"))
    if why.decoded and (verbosity >= 2 or why.word in ("in part", "unknown")) and not why.note:
        lines.append(_labelled("", "the engine shows no text: that of its IDs was compared"))
    others = why.also if verbosity >= 2 else why.also[:2]
    if others:
        lines.append(_labelled("or", "; ".join(str(cause) for cause in others) + ", which would be as exact"))
    return lines


def _golden(outcome: Outcome) -> list[Line]:
    first = outcome.findings[0]
    if outcome.golden is None or outcome.history is None or not isinstance(first, _AGAINST_GOLDEN):
        return []
    recorded, history = outcome.golden.recorded, outcome.history
    by = f"recorded by {one_line(recorded.engine)}"
    if recorded.tokenizers and not recorded.engine.startswith("tokenizers "):
        by += f", tokenizers {one_line(recorded.tokenizers)}"
    parts = [
        "tokenizer",
        *(["template"] if recorded.template_sha256 else []),
        *(["request"] if recorded.request_sha256 else []),
    ]
    if history.unknown is not None:
        lines = [_labelled("golden", by), _labelled("", f"what changed since is not known: {history.unknown}")]
    elif history.changed:
        lines = [_labelled("golden", f"{by}; since then {_and(history.changed)}")]
    else:
        lines = [_labelled("golden", f"{by}; {_and(parts)} {'are' if len(parts) > 1 else 'is'} unchanged since")]
    if history.edited:
        edited = history.edited
        line = f":{edited.line}" if edited.line else ""
        lines.append(_labelled("edited", f"{_name(outcome)}{line}: the IDs are {quoted(_cut(edited.decoded))}"))
        lines.append(_labelled("", f"{' ' * len(_name(outcome) + line)}  the text says {quoted(_cut(edited.text))}"))
    elif history.reference_agrees is False:
        lines.append(_labelled("", "the reference does not give the golden any more either"))
    elif history.reference_agrees:
        refused = isinstance(first, RefusalDiffers) and not first.refused_by_engine
        lines.append(_labelled("", f"the reference still {'refuses the request' if refused else 'renders the golden'}"))
    return lines


def _fix(outcome: Outcome, subject: Subject, verbosity: int) -> list[Line]:
    first = outcome.findings[0]
    record = command(subject, subject.update_flag)
    if isinstance(first, (GoldenMissing, RequestsChanged, StopChanged)):
        return [_labelled("record", record)]
    if isinstance(first, GoldenUnusable):
        return [_labelled("record", record)] if first.recordable else []
    if isinstance(first, Problem) and first.place:
        return [
            _labelled(
                "fix",
                f"{first.advice}, or correct the address at {first.place}"
                if first.advice
                else f"correct the address at {first.place}, or start the right server there",
            )
        ]
    if isinstance(first, Unreachable):
        return [
            _labelled("fix", f"{first.advice or 'start it'}, or correct the address at {first.place}"),
            _labelled("skip", f"pytest {SKIP_FLAG}  leaves out what cannot be reached, and says so"),
        ]
    if isinstance(first, StopNotOneToken):
        return [
            _labelled(
                "fix",
                "take it out of `stop`, which is for single tokens: engines compare longer strings with text, each its own way",
            )
        ]
    lines = []
    if isinstance(first, _AGAINST_GOLDEN):
        history = outcome.history
        if history and history.edited:
            lines.append(_labelled("record", f"{record}  (writes what the reference renders)"))
        elif (
            subject.is_reference
            or not subject.is_case
            or (history and (history.reference_agrees is False or (history.changed and not history.of_engine)))
        ):
            refuses = isinstance(first, RefusalDiffers) and first.is_reference and first.refused_by_engine
            right = "if it is right to refuse it now" if refuses else "if the new prompt is right"
            lines.append(_labelled("record", f"{record}  ({right})"))
            if history and history.tokenizer_place:
                lines.append(_labelled("", f"or restore the tokenizer: {history.tokenizer_place}"))
            if history and history.of_engine and subject.is_case:
                lines.append(_labelled("then", f"{subject.engine} leaves what the reference renders now, too; pin it:"))
                lines.append(_labelled("", _pin(subject, outcome)))
        else:
            same = f"make {subject.engine} render what the reference renders"
            if isinstance(first, RefusalDiffers):
                same = "send a request that both render"
            why = first.why if isinstance(first, _EXPLAINED) else None
            fixes = list(dict.fromkeys(cause.fix for cause in why.causes)) if why else []
            pin = "correct `expect` in the case" if first.unexpected else "pin it in the case"
            lines += _advised(fixes or [same], f"or {pin}:")
            lines.append(_labelled("", _pin(subject, outcome)))
    elif isinstance(first, PrefixBroken):
        broken = [found for found in outcome.findings if isinstance(found, PrefixBroken)]
        fixes = [text for label, text in first.why.rows if label == "fix"] if first.why else []
        fixes = fixes or ["render the earlier turns as they were rendered before"]
        lines += _advised(fixes, "if it is known, in the case:")
        lines.append(_labelled("", _known_break(broken)))
    if isinstance(first, (Difference, PrefixBroken)) and verbosity < 2:
        lines.append(_labelled("more", command(subject, "-vv")))
    return lines


def _advised(fixes: Sequence[str], otherwise: str) -> list[Line]:
    """What to do, and what else: on one line where there is one fix."""
    if len(fixes) == 1:
        return [_labelled("fix", f"{fixes[0]}; {otherwise}")]
    return [*(_labelled("" if number else "fix", it) for number, it in enumerate(fixes)), _labelled("", otherwise)]


def _pin(subject: Subject, outcome: Outcome) -> str:
    """What the case says about differences that are known: one `expect` stands for all its requests."""
    names: dict[str, None] = {}
    for finding in outcome.findings:
        if isinstance(finding, _EXPLAINED):
            names.update(dict.fromkeys(finding.needed))
            if finding.why is not None and finding.why.word in ("proven", "likely"):
                names.update(dict.fromkeys(finding.why.names))
            elif finding is outcome.findings[0] or finding.why is not None:
                names = {"unknown": None}
                break
    pinned = ", ".join(names or ["unknown"])
    return f"expect: {{{subject.pin or subject.engine}: {{differs: [{pinned}], reason: ...}}}}"


def _known_break(broken: Sequence[PrefixBroken]) -> str:
    """What a case says about breaks that are known: a tail where all stand near the end, else each of them."""
    tail = max(len(found.earlier) - found.position for found in broken)
    documented = broken[0].documented
    at_the_end = all(found.why is None or found.why.kind in (None, "generation-prompt") for found in broken)
    if tail <= _TAIL and not documented and at_the_end:
        return f"prefix: {{tail: {tail}}}"
    positions = dict.fromkeys([*documented, *(found.position for found in broken)])
    kept = f"tail: {broken[0].tail}, " if broken[0].tail else ""
    return f"prefix: {{{kept}breaks: [{', '.join(f'{{at: {at}, reason: ...}}' for at in positions)}]}}"


def _labelled(label: str, text: str) -> Line:
    return Line(f"  {label:<8}{text}")


def _name(outcome: Outcome) -> str:
    return shown(outcome.golden_path) if outcome.golden_path else "the golden"


def _cut(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
