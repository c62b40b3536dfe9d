"""Words of other people's in a report: on one line, readable, and not longer than a line bears."""

from __future__ import annotations


def one_line(message: str, most: int = 300) -> str:
    """A message on one line, cut at ``most`` characters."""
    flat = printable(" ".join(message.split()))
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def printable(text: str) -> str:
    """A text with an escape for each character that a terminal would obey or not show."""
    return text if text.isprintable() else "".join(map(_shown, text))


def brief(value: object, most: int = 60) -> str:
    """The ``repr`` of a value, cut at ``most`` characters: for what a file says and may be any size."""
    text = printable(repr(value[: most + 1] if isinstance(value, str) else value))
    return text if len(text) <= most else text[: most - 1] + "…"


def _shown(letter: str) -> str:
    return letter if letter.isprintable() else ascii(letter)[1:-1]
