"""Findings as text: what a tired engineer reads at a red CI."""

from __future__ import annotations

import difflib
import shlex
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from .check import History, Outcome
from .compare import first_divergence
from .findings import (
    CountDiffers,
    Difference,
    Finding,
    GoldenMissing,
    GoldenUnusable,
    PrefixBroken,
    RefusalDiffers,
    RequestsChanged,
    StopChanged,
    StopNotOneToken,
    TextDiffers,
    Unreachable,
)
from .vocabulary import Vocabulary
from .yaml12 import shown

WIDTH = 80  # columns of the table, and of a log that nobody widened
_AROUND = 3  # tokens shown on each side of the first difference
_CELL = 18  # columns of one token
_TAIL = 16  # tokens: a generation prompt is shorter
_OTHERS = 4  # further findings named in one line each
_AGAINST_GOLDEN = (Difference, RefusalDiffers, CountDiffers, TextDiffers)
SKIP_FLAG = "--tokenparity-unreachable=skip"
_LRM = "\u200e"  # keeps a cell of right-to-left text from pulling its neighbours over


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
    if verbosity >= 2:
        for other in others:
            lines += [
                Line(""),
                Line(other.headline, {"red": True}),
                *_details(other, vocabulary, verbosity, outcome.history),
            ]
    if lines[-1].text:
        lines.append(Line(""))
    if verbosity < 2:
        named = others if len(others) <= _OTHERS else others[: _OTHERS - 1]
        lines += [_labelled("also", other.headline) for other in named]
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
    if history.changed:
        changed = [what.partition(" (")[0] for what in history.changed]  # the hashes stand below
        return f"{first.headline}; since it was recorded, {_and(changed)}"
    return first.headline


def shows_tokens(outcome: Outcome) -> bool:
    """Whether the text of an outcome shows tokens, for which a vocabulary must be loaded."""
    return any(isinstance(found, (Difference, PrefixBroken)) for found in outcome.findings)


def command(subject: Subject, *options: str) -> str:
    """The command that runs this item alone, ready to paste."""
    return " ".join(["pytest", *options, shlex.quote(subject.select)])


def table(
    labels: tuple[str, str],
    left: Sequence[int],
    right: Sequence[int],
    position: int,
    vocabulary: Vocabulary | None,
    left_is_foreign: bool = False,
) -> list[str]:
    """The tokens around the first difference, one column a token, both sides below each other.

    IDs stand for themselves without a vocabulary, and on the left where another tokenizer made them.
    """
    of_left = None if left_is_foreign else vocabulary
    span = range(max(0, position - _AROUND), min(max(len(left), len(right)), position + _AROUND + 1))
    centre = position - span.start
    columns = [(str(at), _cell(left, at, of_left), _cell(right, at, vocabulary)) for at in span]
    if _look_alike(*columns[centre][1:]):
        columns[centre] = (
            str(position),
            _cell(left, position, of_left, plain=True),
            _cell(right, position, vocabulary, plain=True),
        )
    label_width = max(map(len, labels)) + 2
    ids = f"{_id(left, position)} != {_id(right, position)}"
    first, last = _fitting(columns, centre, WIDTH - 2 - label_width, len(ids))
    rows = [" " * label_width, labels[0].ljust(label_width), labels[1].ljust(label_width)]
    marks = " " * label_width
    for at in range(first, last + 1):
        width = max(display_width(cell) for cell in columns[at])
        if at < centre:
            marks += " " * (width + 3)
        for row, cell in enumerate(columns[at]):
            rows[row] += cell + (_LRM if _right_to_left(cell) else "") + " " * (width - display_width(cell) + 3)
    return [f"  {row}".rstrip() for row in [*rows, marks + ids]]


def quoted(piece: bytes | str, plain: bool = False) -> str:
    """A token as it can be read in a terminal: in quotes, white space and whatever cannot be seen as escapes.

    ``plain``: escape all that is not ASCII, which tells apart what looks alike.
    """
    return "".join(_units(piece, plain))


def display_width(text: str) -> int:
    """How many columns a terminal gives a text."""
    width = 0
    for character in text:
        if unicodedata.category(character) in ("Mn", "Me", "Cf") or "\u1160" <= character <= "\u11ff":
            continue  # marks, and the vowels and finals that join a Korean syllable
        width += 2 if unicodedata.east_asian_width(character) in "FW" else 1
    return width


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
        part = "".join(_escaped(side, at, "'", False) for at in range(start, min(len(side), finding.position + 20)))
        rows.append(f"{label:<9}  '{part}'")
    before = "".join(_escaped(finding.reference, at, "'", False) for at in range(start, finding.position))
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


def _golden(outcome: Outcome) -> list[Line]:
    first = outcome.findings[0]
    if outcome.golden is None or outcome.history is None or not isinstance(first, _AGAINST_GOLDEN):
        return []
    recorded, history = outcome.golden.recorded, outcome.history
    by = f"recorded by {recorded.engine}" + (f", tokenizers {recorded.tokenizers}" if recorded.tokenizers else "")
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
    if isinstance(first, Unreachable):
        return [
            _labelled("fix", f"start it, or correct the address at {first.place}"),
            _labelled("skip", f"pytest {SKIP_FLAG}  leaves out what cannot be reached, and says so"),
        ]
    if isinstance(first, StopNotOneToken):
        return [_labelled("fix", "take it out of `stop`: engines drop such a string, or never match it")]
    lines = []
    if isinstance(first, _AGAINST_GOLDEN):
        history = outcome.history
        if history and history.edited:
            lines.append(_labelled("record", f"{record}  (writes what the reference renders)"))
        elif (
            subject.is_reference
            or not subject.is_case
            or (history and (history.changed or history.reference_agrees is False))
        ):
            lines.append(_labelled("record", f"{record}  (if the new prompt is right)"))
        else:
            same = f"make {subject.engine} render what the reference renders"
            if isinstance(first, RefusalDiffers):
                same = "send a request that both render"
            lines.append(_labelled("fix", f"{same}; or pin it in the case:"))
            lines.append(
                _labelled("", f"expect: {{{subject.pin or subject.engine}: {{differs: [unknown], reason: ...}}}}")
            )
    elif isinstance(first, PrefixBroken):
        broken = [found for found in outcome.findings if isinstance(found, PrefixBroken)]
        lines.append(
            _labelled("fix", "render the earlier turns as they were rendered before; if it is known, in the case:")
        )
        lines.append(_labelled("", _known_break(broken)))
    if isinstance(first, (Difference, PrefixBroken)) and verbosity < 2:
        lines.append(_labelled("more", command(subject, "-vv")))
    return lines


def _known_break(broken: Sequence[PrefixBroken]) -> str:
    """What a case says about breaks that are known: a tail where all stand near the end, else each of them."""
    tail = max(len(found.earlier) - found.position for found in broken)
    documented = broken[0].documented
    if tail <= _TAIL and not documented:
        return f"prefix: {{tail: {tail}}}"
    positions = dict.fromkeys([*documented, *(found.position for found in broken)])
    return f"prefix: {{breaks: [{', '.join(f'{{at: {at}, reason: ...}}' for at in positions)}]}}"


def _labelled(label: str, text: str) -> Line:
    return Line(f"  {label:<8}{text}")


def _name(outcome: Outcome) -> str:
    return shown(outcome.golden_path) if outcome.golden_path else "the golden"


def _cut(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def _id(ids: Sequence[int], position: int) -> str:
    return str(ids[position]) if position < len(ids) else "end"


def _cell(ids: Sequence[int], at: int, vocabulary: Vocabulary | None, plain: bool = False) -> str:
    if at >= len(ids):
        return "(end)" if at == len(ids) else ""
    if vocabulary is None:
        return str(ids[at])
    piece = vocabulary.piece(ids[at])
    if piece is None:
        return f"<no token {ids[at]}>"
    units = _units(piece, plain)
    cell = _shortened(units)
    return f"{cell}({len(piece)})" if plain and "…" in cell else cell  # long ones may differ in length alone


def _look_alike(left: str, right: str) -> bool:
    return unicodedata.normalize("NFKC", left) == unicodedata.normalize("NFKC", right)


def _shortened(units: Sequence[str]) -> str:
    """A cell of at most ``_CELL`` columns: the head and the tail of a long token, no escape cut in two."""
    if display_width("".join(units)) <= _CELL:
        return "".join(units)
    tail: list[str] = []
    while len(tail) < len(units) and display_width("".join(tail)) < 5:
        tail.insert(0, units[len(units) - len(tail) - 1])
    room = _CELL - 1 - display_width("".join(tail))
    head = ""
    for unit in units:
        if display_width(head + unit) > room:
            break
        head += unit
    return f"{head}…{''.join(tail)}"


def _fitting(columns: Sequence[tuple[str, ...]], centre: int, room: int, ids_width: int) -> tuple[int, int]:
    """The first and last column that fit, the differing one always among them, what comes before it given up first."""
    widths = [max(display_width(cell) for cell in column) + 3 for column in columns]
    first, last = 0, len(columns) - 1
    while first < centre or last > centre:
        before = sum(widths[first:centre])
        if sum(widths[first : last + 1]) - 3 <= room and before + ids_width <= room:
            break
        if last > centre and (last - centre >= centre - first or first == centre) and before + ids_width <= room:
            last -= 1
        elif first < centre:
            first += 1
        else:
            last -= 1
    return first, last


def _right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text)


def _units(piece: bytes | str, plain: bool) -> list[str]:
    """A token's quotes, characters and escapes, each one not to be cut."""
    text = piece.decode("utf-8", "surrogateescape") if isinstance(piece, bytes) else piece
    quote = '"' if "'" in text and '"' not in text else "'"
    return [quote, *(_escaped(text, index, quote, plain) for index in range(len(text))), quote]


def _escaped(text: str, index: int, quote: str, plain: bool) -> str:
    character = text[index]
    if character in "\\" + quote:
        return "\\" + character
    simple = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character)
    if simple:
        return simple
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no character: the token is part of one
        return f"\\x{code - 0xDC00:02x}"
    category = unicodedata.category(character)
    hidden = category in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") or (category == "Zs" and character != " ")
    joins = category in ("Mn", "Me", "Mc") and (index == 0 or 0xFE00 <= code <= 0xFE0F)
    if not (hidden or joins or (plain and code > 0x7F)):
        return character
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
