"""JSON as other languages write it: how numbers look and what is escaped. Each form was measured or read in a source."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ..chat_template import ToJson

_INT64 = 2**63
_ASCII_SPACES = " \t\n\r\v\f"


def llama_number(value: int | float) -> str:
    """llama.cpp b11549: doubles with six significant digits; unsigned integers wrapped to signed ones, larger are doubles."""
    if isinstance(value, int) and -_INT64 <= value < 2 * _INT64:
        return str((value + _INT64) % (2 * _INT64) - _INT64)
    return _guarded(value, lambda number: f"{number:.6g}")


def javascript_number(value: int | float) -> str:
    """ECMAScript's Number::toString: integers beyond 53 bits are rounded, `1.0` is `1`, `1e-07` is `1e-7`."""
    return _guarded(value, _javascript)


def _javascript(number: float) -> str:
    if number.is_integer() and abs(number) < 1e21:
        return _digits(number)
    mantissa, _, exponent = repr(number).partition("e")
    if not exponent:
        return mantissa
    power = int(exponent)
    if -7 < power < 21:
        return _digits(number)
    return f"{mantissa.removesuffix('.0')}e{'+' if power > 0 else '-'}{abs(power)}"


def go_number(value: int | float) -> str:
    """Go's encoding/json of a float64: `1.0` is `1`, exponents below 1e-6 and from 1e21, without a leading zero."""
    return _guarded(value, _go)


def _go(number: float) -> str:
    if number and (abs(number) < 1e-6 or abs(number) >= 1e21):
        mantissa, _, exponent = repr(number).partition("e")
        return (
            f"{mantissa.removesuffix('.0')}e{'-' if exponent.startswith('-') else '+'}{abs(int(exponent)):02d}".replace(
                "e-0", "e-"
            )
        )
    return _digits(number)


def serde_number(value: int | float) -> str:
    """Rust's serde_json, which minijinja writes with: `1e-07` is `1e-7`."""
    return str(value) if isinstance(value, int) else re.sub(r"e([+-]?)0*", lambda sign: f"e{sign[1]}", repr(value))


def _guarded(value: int | float, write: Callable[[float], str]) -> str:
    """What ``write`` makes of a number; its digits where it is larger than any double, or no number."""
    try:
        number = float(value)
    except OverflowError:
        return str(value)
    return write(number) if math.isfinite(number) else str(value)


def _digits(number: float) -> str:
    return format(Decimal(repr(number)).normalize(), "f") if number else "0"


@dataclass(frozen=True)
class NumberForm:
    """A way to write numbers."""

    name: str
    write: Callable[[int | float], str]
    """In JSON."""
    prints: Callable[[int | float], str] | None = None
    """Outside it, where that is another form."""


def llama_printed(value: int | float) -> str:
    """llama.cpp b11549 outside `tojson`: doubles with at most six places behind the point, and one at least."""
    if isinstance(value, int):
        return llama_number(value)
    fixed = f"{value:.6f}".rstrip("0")
    return f"{fixed}0" if fixed.endswith(".") else fixed


NUMBERS = (
    NumberForm("llama.cpp", llama_number, llama_printed),
    NumberForm("JavaScript", javascript_number),
    NumberForm("Go", go_number),
    NumberForm("serde", serde_number),
)


class _Integer(int):
    form: str
    printed: str

    def __str__(self) -> str:
        return self.printed

    __repr__ = __str__


class _Float(float):
    form: str
    printed: str

    def __str__(self) -> str:
        return self.printed

    __repr__ = __str__


def written_as(numbers: NumberForm) -> Callable[[Any], Any]:
    """Values whose numbers print, in JSON and outside it, in another form."""

    def convert(value: Any) -> Any:
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
            made: Any = _Integer(value) if isinstance(value, int) else _Float(value)
            made.form = numbers.write(value)
            made.printed = (numbers.prints or numbers.write)(value)
            return made
        if isinstance(value, dict):
            return {key: convert(entry) for key, entry in value.items()}
        return [convert(entry) for entry in value] if isinstance(value, list) else value

    return convert


def tojson_with_forms(tojson: ToJson) -> ToJson:
    """A `tojson` that writes the numbers of :func:`written_as` in their form; Python's own looks past it."""

    def dump(value: Any, *args: Any, **kwargs: Any) -> str:
        marks: list[str] = []

        def hide(entry: Any) -> Any:
            if isinstance(entry, (_Integer, _Float)):
                marks.append(entry.form)
                return f"\U0010fffb{len(marks) - 1}\U0010fffb"
            if isinstance(entry, dict):
                return {key: hide(inner) for key, inner in entry.items()}
            return [hide(inner) for inner in entry] if isinstance(entry, list) else entry

        written = tojson(hide(value), *args, **kwargs)
        return re.sub(
            r'"(?:\U0010fffb|\\udbff\\udffb)(\d+)(?:\U0010fffb|\\udbff\\udffb)"', lambda at: marks[int(at[1])], written
        )

    return dump


def _escaping(characters: str) -> Callable[[ToJson], ToJson]:
    table = {ord(character): f"\\u{ord(character):04x}" for character in characters}

    def form(inner: ToJson) -> ToJson:
        return lambda value, *args, **kwargs: inner(value, *args, **kwargs).translate(table)

    return form


def _ascii(inner: ToJson) -> ToJson:
    def dump(value: Any, *args: Any, **kwargs: Any) -> str:
        return inner(value, *args, **({**kwargs, "ensure_ascii": True} if not args else kwargs))

    return dump


def _slashes(inner: ToJson) -> ToJson:
    return lambda value, *args, **kwargs: inner(value, *args, **kwargs).replace("/", "\\/")


def _compact(inner: ToJson) -> ToJson:
    def dump(value: Any, ensure_ascii: bool = False, indent: int | None = None, **kwargs: Any) -> str:
        separators = {} if indent is not None else {"separators": (",", ":")}
        return inner(value, ensure_ascii=ensure_ascii, indent=indent, **{**kwargs, **separators})

    return dump


def _one_line(inner: ToJson) -> ToJson:
    def dump(value: Any, ensure_ascii: bool = False, indent: int | None = None, **kwargs: Any) -> str:
        dense = {"separators": None} if indent is not None else {}
        return inner(value, ensure_ascii=ensure_ascii, **{**kwargs, **dense})

    return dump


@dataclass(frozen=True)
class TextForm:
    """A way to write JSON: what becomes what, and what the engine's text must show.

    ``of`` finds what it changes in a string of the request; None where it changes what stands between strings. Forms of
    one ``kind`` exclude each other.
    """

    becomes: str
    form: Callable[[ToJson], ToJson]
    shows: str
    of: re.Pattern[str] | None
    kind: int
    is_dumpers: bool = False
    """Whether it shows in every text, so that nothing in the request avoids it."""


TEXTS = (
    TextForm("no indentation", _one_line, "", None, 0, is_dumpers=True),
    TextForm("no spaces after , and :", _compact, "", None, 1, is_dumpers=True),
    TextForm("other letters became \\uXXXX", _ascii, "\\u", re.compile(r"[^\x00-\x7f]"), 2, is_dumpers=True),
    TextForm("< > & became \\u003c", _escaping("<>&"), "\\u00", re.compile(r"[<>&]"), 3),
    TextForm("< > & ' became \\u003c", _escaping("<>&'"), "\\u0027", re.compile(r"'"), 3),
    TextForm("/ became \\/", _slashes, "\\/", re.compile(r"/"), 4),
)


class _AsciiTrimmed(str):
    """Text whose ends lose the spaces of ASCII alone when a template trims it."""

    __slots__ = ()

    def strip(self, characters: str | None = None, /) -> str:
        return str.strip(self, _ASCII_SPACES if characters is None else characters)

    def lstrip(self, characters: str | None = None, /) -> str:
        return str.lstrip(self, _ASCII_SPACES if characters is None else characters)

    def rstrip(self, characters: str | None = None, /) -> str:
        return str.rstrip(self, _ASCII_SPACES if characters is None else characters)


def trimmed_as_ascii(value: Any) -> Any:
    """Values whose strings keep U+00A0, U+3000 and the like when a template trims them, as in llama.cpp b11549."""
    if isinstance(value, str):
        return _AsciiTrimmed(value)
    if isinstance(value, dict):
        return {key: trimmed_as_ascii(entry) for key, entry in value.items()}
    return [trimmed_as_ascii(entry) for entry in value] if isinstance(value, list) else value


def printed_by_llama(value: Any) -> Any:
    """What llama.cpp b11549 prints outside JSON: nothing for null and mappings, a list's entries run together."""
    if value is None or isinstance(value, dict):
        return ""
    return "".join(str(printed_by_llama(entry)) for entry in value) if isinstance(value, (list, tuple)) else value


def printed_by_javascript(value: Any) -> Any:
    """What @huggingface/jinja 0.5.11 prints outside JSON: `true`, `false`, and nothing for null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return json.dumps(value)
    return value


PRINTED: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("None and mappings printed as nothing, lists run together", printed_by_llama),
    ("True, False and None printed as true, false and nothing", printed_by_javascript),
)
