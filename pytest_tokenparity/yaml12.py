"""YAML 1.2 with JSON's scalars, read into plain values that remember their lines.

PyYAML parses; its YAML 1.1 reading of plain scalars (`off` is false, `0x1F` is a number, a date is a date) is replaced.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import yaml

from .errors import ConfigError
from .words import brief, one_line, printable

Where = tuple["str | int", ...]
"""The path of a value inside a document: ``("cases", "tools", "messages", 0)``."""

MAX_DEPTH = 100
MAX_VALUES = 1_000_000  # aliases counted each time they are used
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z")
_ENDS_EARLY = re.compile("did not find expected|mapping values are not allowed|expected ',' or|expected <block end>")
_BARE_WORDS = frozenset({"yes", "no", "on", "off", "true", "false", "none", "null", "~"})
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"(\\u)([dD])([89a-fA-F])")
_STR, _NULL, _BOOL, _NUMBER_TAG, _MERGE = (
    f"tag:yaml.org,2002:{name}" for name in ("str", "null", "bool", "float", "merge")
)


@dataclass(frozen=True)
class Document:
    """One YAML file: its value, and the line of every mapping key and list item in it."""

    path: Path
    value: Any
    lines: Mapping[Where, int]
    flow: frozenset[Where] = frozenset()
    """The mappings that are written in braces."""
    bare_words: frozenset[Where] = frozenset()
    """The strings that YAML 1.1 reads as a boolean or null, and that stand without quotes."""

    def line(self, where: Where) -> int:
        """The line (from 1) of ``where``, or of the nearest thing around it."""
        while where and where not in self.lines:
            where = where[:-1]
        return self.lines.get(where, 1)

    def error(self, where: Where, message: str, at: Where | None = None) -> ConfigError:
        """An error that starts with the file, the line (of ``at``, if given) and the path of the value."""
        dotted = dotted_path(where)
        line = self.line(where if at is None else at)
        return ConfigError(f"{shown(self.path)}:{line}: {dotted + ': ' if dotted else ''}{message}")

    def section(self, where: Where = (), what: str = "a mapping") -> Section:
        """The mapping at ``where``; anything else there is an error."""
        value = self.value
        for step in where:
            value = value[step]
        if not isinstance(value, dict):
            raise self.error(where, f"expected {what}, found {kind(value)}")
        return Section(self, where, value)


@dataclass(frozen=True)
class Section:
    """One mapping of a document, with typed access to its keys; every complaint names the line."""

    document: Document
    where: Where
    value: dict[str, Any]

    def error(self, key: str | None, message: str) -> ConfigError:
        return self.document.error((*self.where, key) if key is not None else self.where, message)

    def only(self, allowed: Iterable[str]) -> None:
        """Refuse keys that are not in ``allowed``."""
        known = list(allowed)
        for key in self.value:
            if key not in known:
                hint = did_you_mean(key, known, "the keys here are")
                if self.value[key] is None and self.where in self.document.flow:
                    hint = f": a value with a comma needs quotes{hint}"
                raise self.document.error(self.where, f"unknown key {brief(key)}{hint}", (*self.where, key))

    def text(self, key: str, default: str | None = None) -> str | None:
        """A string that is not empty, or ``default`` when the key is absent."""
        if key not in self.value:
            return default
        value = self.value[key]
        if not isinstance(value, str) or not value:
            raise self.error(key, f"expected a string, found {kind(value)}{number_hint(value)}")
        if "\0" in value:
            raise self.error(key, "NUL cannot stand here")
        return value

    def flag(self, key: str, default: bool) -> bool:
        if key not in self.value:
            return default
        value = self.value[key]
        if not isinstance(value, bool):
            hint = " (YAML 1.2: only `true` and `false` are booleans)" if isinstance(value, str) else ""
            raise self.error(key, f"expected true or false, found {kind(value)}{hint}")
        return value

    def count(self, key: str, default: int) -> int:
        """A whole number of at least 0."""
        if key not in self.value:
            return default
        value = self.value[key]
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.error(key, f"expected a whole number of at least 0, found {kind(value)}")
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of strings, or None when the key is absent."""
        if key not in self.value:
            return None
        value = self.value[key]
        if not isinstance(value, list):
            raise self.error(key, f"expected a list of strings, found {kind(value)}")
        for index, entry in enumerate(value):
            if not isinstance(entry, str) or not entry:
                raise self.document.error((*self.where, key, index), f"expected a string, found {kind(entry)}")
        return tuple(value)

    def mapping(self, key: str) -> dict[str, Any]:
        """A mapping; an absent key is an empty one."""
        if key not in self.value:
            return {}
        value = self.value[key]
        if not isinstance(value, dict):
            raise self.error(key, f"expected a mapping, found {kind(value)}")
        return value

    def section(self, key: str, what: str = "a mapping") -> Section:
        return self.document.section((*self.where, key), what)


def load(path: Path) -> Document:
    """Read one YAML file. A missing file, bytes that are not UTF-8 or broken YAML raise ConfigError."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{shown(path)}: cannot be read: {error.strerror or error}") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{shown(path)}:{line}: not UTF-8: byte 0x{raw[error.start]:02x} cannot stand here; save the file as UTF-8"
        ) from None
    return loads(text, path)


def loads(text: str, path: Path) -> Document:
    """Read YAML text; ``path`` is what errors name."""
    if text.count("[") + text.count("{") > _MANY_BRACKETS and _flow_depth(text) > _MANY_BRACKETS:
        raise ConfigError(f"{shown(path)}:1: nested more than {MAX_DEPTH} deep")
    disguise = _Disguise(text)
    loader = _loader()
    try:
        stream = loader(disguise.text)
        try:
            node = stream.get_single_node()
        finally:
            stream.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        context = f" ({error.context})" if error.context and error.problem else ""
        column = f" at column {mark.column + 1}" if mark else ""
        hint = "; a value that holds `: ` or `, ` needs quotes" if _ENDS_EARLY.search(error.problem or "") else ""
        raise ConfigError(
            f"{shown(path)}:{line}: not YAML: {error.problem or error.context}{column}{context}{hint}"
        ) from None
    except yaml.reader.ReaderError as error:
        if isinstance(error.character, int):  # libyaml, which counts bytes
            line = disguise.text.encode()[: error.position].count(b"\n") + 1
        else:
            line = disguise.text.count("\n", 0, error.position) + 1
        raise ConfigError(
            f"{shown(path)}:{line}: not YAML: the character U+{_codepoint(error.character):04X} cannot stand here "
            "as it is; write it as an escape in double quotes"
        ) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{shown(path)}:1: not YAML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{shown(path)}:1: nested more than {MAX_DEPTH} deep") from None
    if node is None:
        return Document(path, None, {})
    builder = _Builder(path, disguise)
    value = builder.build(node, ())
    return Document(path, value, builder.lines, frozenset(builder.flow), frozenset(builder.bare_words))


def shown(path: Path) -> str:
    """A path as people read it: relative to the working folder where that is shorter, with forward slashes."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        return printable(path.as_posix())
    far = relative.startswith(os.pardir + os.sep + os.pardir)
    return printable(path.as_posix() if far else Path(relative).as_posix())


def dotted_path(where: Where) -> str:
    """``cases.tools.messages[0]`` for ``("cases", "tools", "messages", 0)``."""
    text = ""
    for step in where:
        name = step if isinstance(step, int) else one_line(step, 60)
        text += f"[{name}]" if isinstance(step, int) else f".{name}" if text else str(name)
    return text


def kind(value: Any) -> str:
    """What a value is, in the words of a YAML file, with a glimpse of it."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the string {printable(repr(value[:40]))}" if value else "an empty string"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    return type(value).__name__


def number_hint(value: Any) -> str:
    return " (put it in quotes)" if isinstance(value, (bool, int, float)) else ""


def did_you_mean(name: str, known: Iterable[str], list_as: str) -> str:
    """`` (did you mean 'tools'?)``, or the names there are."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f" (did you mean {close[0]!r}?)"
    return f" ({list_as} {', '.join(names)})" if names else ""


def _codepoint(character: Any) -> int:
    return character if isinstance(character, int) else ord(str(character)[0])


_MANY_BRACKETS = 10_000


def _flow_depth(text: str) -> int:
    """How deep brackets open, strings not looked at: old versions of libyaml crash where no file of sense goes."""
    depth = deepest = 0
    for bracket in re.findall(r"[\[\]{}]", text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


@cache
def _loader() -> Any:
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("Loader", (base,), {"yaml_implicit_resolvers": {}})
    loader.add_implicit_resolver(_NULL, re.compile(r"(?:null|)\Z"), ["n", ""])
    loader.add_implicit_resolver(_BOOL, re.compile(r"(?:true|false)\Z"), ["t", "f"])
    loader.add_implicit_resolver(_NUMBER_TAG, _NUMBER, list("-0123456789"))
    loader.add_implicit_resolver(_MERGE, re.compile(r"<<\Z"), ["<"])
    return loader


class _Disguise:
    """A text in a form that YAML 1.1 parsers read as YAML 1.2 has it; ``off`` takes the disguise from a scalar.

    U+0085, U+2028 and U+2029 are line breaks in 1.1 alone. libyaml refuses an escaped surrogate pair, which JSON allows:
    the two escapes become escapes of private characters, one for one, so that what only looks like an escape (in a plain
    or block scalar) comes back as it was.
    """

    _NIBBLES = "89abcdefABCDEF"  # the second digit of a surrogate; its place here is the digit in the disguise

    def __init__(self, text: str) -> None:
        self.text = text
        self.characters: dict[int, str] = {}
        self.lead = ""
        breaks = [mark for mark in "\u0085\u2028\u2029" if mark in text]
        if breaks:
            spelled = text.upper()
            codes = range(0xF0000, 0xF1000)
            free = (chr(code) for code in codes if chr(code) not in text and f"{code:08X}" not in spelled)
            self.characters = {ord(next(free)): mark for mark in breaks}
            self.text = text.translate({ord(mark): chr(code) for code, mark in self.characters.items()})
        if _SURROGATE_ESCAPE.search(text):
            for lead, first in (("e", 0xE000), ("f", 0xF000)):
                taken = any(first <= ord(character) < first + 0xE00 for character in self.text)
                if not taken and not re.search(rf"\\u(?:0000)?{lead}[0-9a-dA-D]", text, re.IGNORECASE):
                    self.lead, self.first = lead, first
                    self.text = _SURROGATE_ESCAPE.sub(self._put_on, self.text)
                    break

    def off(self, value: str) -> str:
        """A scalar's own text."""
        if self.lead:
            value = re.sub(rf"(\\u)([{self.lead}{self.lead.upper()}])([0-9a-d])", self._take_off, value)
            value = "".join(map(self._surrogate, value))
        return value.translate(self.characters) if self.characters else value

    def _put_on(self, match: re.Match[str]) -> str:
        lead = self.lead.upper() if match[2] == "D" else self.lead
        return f"{match[1]}{lead}{self._NIBBLES.index(match[3]):x}"

    def _take_off(self, match: re.Match[str]) -> str:
        return f"{match[1]}{'D' if match[2].isupper() else 'd'}{self._NIBBLES[int(match[3], 16)]}"

    def _surrogate(self, character: str) -> str:
        code = ord(character) - self.first
        if not 0 <= code < 0xE00:
            return character
        return chr(0xD000 | int(self._NIBBLES[code >> 8], 16) << 8 | code & 0xFF)


class _Builder:
    """Turns PyYAML's nodes into plain values, and keeps the lines."""

    def __init__(self, path: Path, disguise: _Disguise) -> None:
        self.path = path
        self.disguise = disguise
        self.lines: dict[Where, int] = {}
        self.flow: set[Where] = set()
        self.bare_words: set[Where] = set()
        self.values = 0
        self.merging = 0  # inside how many merges: what is merged does not take the lines of a mapping's own keys
        self.open: set[int] = set()  # nodes being built: an alias back into one would never end

    def fail(self, node: yaml.Node, message: str) -> NoReturn:
        raise ConfigError(f"{shown(self.path)}:{node.start_mark.line + 1}: {message}")

    def build(self, node: yaml.Node, where: Where) -> Any:
        self.values += 1
        if self.values > MAX_VALUES:
            self.fail(node, f"aliases make this file larger than {MAX_VALUES:,} values")
        if len(self.open) > MAX_DEPTH:
            self.fail(node, f"nested more than {MAX_DEPTH} deep")
        if isinstance(node, yaml.ScalarNode):
            if node.tag == _STR and not node.style and str(node.value).lower() in _BARE_WORDS:
                self.bare_words.add(where)
            return self.scalar(node)
        if id(node) in self.open:
            self.fail(node, "an alias inside the value that it names: this would never end")
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                if node.tag != "tag:yaml.org,2002:seq":
                    self.fail(node, f"the tag {node.tag!r} is not allowed here")
                items = []
                for index, child in enumerate(node.value):
                    place = (*where, index)
                    self.put_line(place, child)
                    items.append(self.build(child, place))
                return items
            return self.mapping(node, where)
        finally:
            self.open.discard(id(node))

    def put_line(self, place: Where, node: yaml.Node) -> None:
        if not self.merging or place not in self.lines:
            self.lines[place] = node.start_mark.line + 1

    def mapping(self, node: yaml.Node, where: Where) -> dict[str, Any]:
        if node.tag != "tag:yaml.org,2002:map":
            self.fail(node, f"the tag {node.tag!r} is not allowed here")
        if getattr(node, "flow_style", False):
            self.flow.add(where)
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        merge_lines: list[int] = []
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                if merge_lines:
                    self.fail(key_node, f"the key '<<' stands twice (first on line {merge_lines[0]})")
                merge_lines.append(key_node.start_mark.line + 1)
                merged = self.merge(value_node, where)
                continue
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != _STR:
                found = kind(self.scalar(key_node)) if isinstance(key_node, yaml.ScalarNode) else "a collection"
                self.fail(key_node, f"a key must be a string, found {found}; put it in quotes")
            key = self.scalar(key_node)
            place = (*where, key)
            if key in own:
                self.fail(key_node, f"the key {brief(key)} stands twice (first on line {self.lines[place]})")
            self.put_line(place, key_node)
            own[key] = self.build(value_node, place)
        return {**merged, **own}

    def merge(self, node: yaml.Node, where: Where) -> dict[str, Any]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                self.fail(source, "`<<` takes a mapping or a list of mappings")
            self.merging += 1
            for key, value in self.build(source, where).items():
                merged.setdefault(key, value)
            self.merging -= 1
        return merged

    def scalar(self, node: yaml.ScalarNode) -> Any:
        tag, text = node.tag, self.disguise.off(str(node.value))
        if tag == _NULL and text in ("", "null"):
            return None
        if tag == _BOOL and text in ("true", "false"):
            return text == "true"
        if tag in (_NULL, _BOOL):
            self.fail(node, f"{text!r} is no {tag.rpartition(':')[2]} as JSON writes it")
        if tag == _NUMBER_TAG:
            return self.number(node, text)
        if tag not in (_STR, _MERGE):
            self.fail(node, f"the tag {tag!r} is not allowed here")
        return self.string(node, text)

    def number(self, node: yaml.ScalarNode, text: str) -> int | float:
        if not _NUMBER.match(text):
            self.fail(node, f"{text!r} is not a number as JSON writes it")
        try:
            if not any(mark in text for mark in ".eE"):
                return int(text)
            value = float(text)
        except ValueError:
            self.fail(node, "a number of too many digits")
        if math.isinf(value):
            self.fail(node, f"the number {text} is too large")
        return value

    def string(self, node: yaml.ScalarNode, text: str) -> str:
        if not _SURROGATE.search(text):
            return text
        try:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            self.fail(node, "half of a surrogate pair: no text holds it, and no engine can be sent it")
