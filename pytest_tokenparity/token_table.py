"""Tokens in a terminal: a table of the ones around a place, each readable whatever it holds."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from .vocabulary import Vocabulary

WIDTH = 80  # columns of the table, and of a log that nobody widened
_AROUND = 3  # tokens shown on each side of the first difference
_CELL = 18  # columns of one token
_LRM = "\u200e"  # keeps a cell of right-to-left text from pulling its neighbours over


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


def escaped(text: str, index: int, quote: str, plain: bool) -> str:
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


def _id(ids: Sequence[int], position: int) -> str:
    return str(ids[position]) if position < len(ids) else "end"


def _units(piece: bytes | str, plain: bool) -> list[str]:
    """A token's quotes, characters and escapes, each one not to be cut."""
    text = piece.decode("utf-8", "surrogateescape") if isinstance(piece, bytes) else piece
    quote = '"' if "'" in text and '"' not in text else "'"
    return [quote, *(escaped(text, index, quote, plain) for index in range(len(text))), quote]
