"""Which field of a request a place in its prompt comes from: the request is marked, and rendered once more.

Looking for a field's words in the text is wrong too often: `hi` stands in `which`. So each string of the request gets a
character of its own in its middle, and each piece of JSON one at either end. What the marks say counts only if the text
without them is the text that was rendered before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ..chat_template import plain_tojson
from ..errors import RequestRefused
from ..request import Request
from .prompt import NONE, Body, Changes, Prompts

_STRINGS = 0xF0000  # plane 15: one character for each string
_BLOCKS = 0x100000  # plane 16: one for each piece of JSON
_MOST = 4000
_MOST_RENDERS = 24
_ROOT = re.compile(r"(messages|tools)\[\d+\]")


@dataclass(frozen=True)
class Span:
    """Characters ``start`` to ``end`` of a prompt, and the field they come from."""

    start: int
    end: int
    path: str


def fields_of(prompts: Prompts, changes: Changes = NONE) -> list[Span]:
    """The fields of a request as they stand in its prompt, in order; those inside others follow them."""
    text = prompts.text(changes)
    if text is None:
        return []
    return _Marked(prompts, changes, text).spans()


def field_at(prompts: Prompts, position: int, changes: Changes = NONE) -> str | None:
    """The field that the character at ``position`` of a prompt comes from, or the template's text around it."""
    text = prompts.text(changes)
    if text is None:
        return None
    spans = fields_of(prompts, changes)
    inside = [span for span in spans if span.start <= position < span.end]
    if inside:
        return min(inside, key=lambda span: (span.end - span.start, -len(span.path))).path
    if position >= _without_generation_prompt(prompts, changes, text):
        return "generation prompt"
    later = [span for span in spans if span.start >= position]
    if not later:
        return "template text at the end"
    root = _ROOT.match(min(later, key=lambda span: span.start).path)
    return f"template text before {root.group() if root else later[0].path}"


def _without_generation_prompt(prompts: Prompts, changes: Changes, text: str) -> int:
    """Where the generation prompt starts; behind the end where there is none."""
    body = prompts.body(changes)
    if not body.add_generation_prompt:
        return len(text) + 1
    body.add_generation_prompt = False
    try:
        shorter = prompts.engine.compose(body.request, prompts.environment(changes))
    except RequestRefused:
        return len(text) + 1
    return len(shorter) if text.startswith(shorter) and shorter != text else len(text) + 1


class _Marked:
    def __init__(self, prompts: Prompts, changes: Changes, text: str) -> None:
        self.prompts = prompts
        self.changes = changes
        self.text = text
        self.renders = 0

    def spans(self) -> list[Span]:
        paths = [path for path, value in _strings(self.prompts.body(self.changes)) if len(value) > 0]
        found = self._of(paths[:_MOST])
        return sorted(found, key=lambda span: (span.start, -span.end))

    def _of(self, paths: list[str]) -> list[Span]:
        """The spans of some strings; where marking them changes the text, each half of them is tried alone."""
        if not paths or self.renders >= _MOST_RENDERS:
            return []
        found = self._render(paths)
        if found is not None or len(paths) == 1:
            return found or []
        middle = len(paths) // 2
        return self._of(paths[:middle]) + self._of(paths[middle:])

    def _render(self, paths: list[str]) -> list[Span] | None:
        self.renders += 1
        body = self.prompts.body(self.changes)
        marks: dict[str, tuple[str, str, int]] = {}
        wanted = set(paths)

        def mark(path: str, value: str) -> str:
            if path not in wanted:
                return value
            character, half = chr(_STRINGS + len(marks)), len(value) // 2 or len(value)
            marks[character] = path, value, half
            return value[:half] + character + value[half:]

        _rewrite(body, mark)
        environment = self.prompts.environment(self.changes)
        inner = environment.tojson or plain_tojson
        blocks: list[str | None] = []
        homes = _homes(body)

        def tojson(value: Any, *args: Any, **kwargs: Any) -> str:
            character = chr(_BLOCKS + len(blocks) % 0xFFFF)
            blocks.append(_home(value, homes, body))
            return f"{character}{inner(value, *args, **kwargs)}{character}"

        request: Request = body.request
        try:
            marked = self.prompts.engine.compose(request, replace(environment, tojson=tojson)) + body.appended
        except RequestRefused:
            return None
        for change in sorted((it for it in self.changes if it.layer == 3), key=lambda it: (it.order, it.cause)):
            marked = change.apply(marked)
        bare: list[str] = []
        strings: list[tuple[str, int]] = []
        edges: dict[str, list[int]] = {}
        for character in marked:
            if character in marks:
                strings.append((character, len(bare)))
            elif ord(character) >= _BLOCKS and ord(character) - _BLOCKS < len(blocks):
                edges.setdefault(character, []).append(len(bare))
            else:
                bare.append(character)
        if "".join(bare) != self.text:
            return None
        spans = [span for character, at in strings if (span := self._string(at, *marks[character])) is not None]
        for character, places in edges.items():
            home = blocks[ord(character) - _BLOCKS]
            if home is not None and len(places) == 2:
                spans += _json_spans(self.text[places[0] : places[1]], places[0], home)
        return spans

    def _string(self, at: int, path: str, value: str, half: int) -> Span | None:
        """A string around its mark, as it is or as JSON writes it; what the template cut off its ends is missing."""
        best: Span | None = None
        for write in (str, _escaped, _escaped_ascii):
            left, right = write(value[:half]), write(value[half:])
            start, end = at, at
            while start > 0 and at - start < len(left) and self.text[start - 1] == left[len(left) - 1 - (at - start)]:
                start -= 1
            while end < len(self.text) and end - at < len(right) and self.text[end] == right[end - at]:
                end += 1
            if best is None or end - start > best.end - best.start:
                best = Span(start, end, path)
        return best


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _escaped_ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


def _strings(body: Body) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    def see(path: str, value: str) -> str:
        found.append((path, value))
        return value

    _rewrite(body, see)
    return found


def _rewrite(body: Body, change: Any) -> None:
    """Give every string of messages and tools, but for roles and types, to ``change``; its answer takes its place."""
    for name, entries in (("messages", body.messages), ("tools", body.tools or [])):
        for index, entry in enumerate(entries):
            _rewrite_value(entry, f"{name}[{index}]", change)


def _rewrite_value(value: Any, path: str, change: Any) -> None:
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, entry in items:
        inner = f"{path}.{key}" if isinstance(value, dict) else f"{path}[{key}]"
        if isinstance(entry, str):
            if key not in ("role", "type"):
                value[key] = change(inner, entry)
        else:
            _rewrite_value(entry, inner, change)


def _homes(body: Body) -> dict[int, str]:
    """The path of every mapping and list of a body, by identity."""
    homes: dict[int, str] = {}

    def see(value: Any, path: str) -> None:
        if isinstance(value, (dict, list)):
            homes[id(value)] = path
            entries = value.items() if isinstance(value, dict) else enumerate(value)
            for key, entry in entries:
                see(entry, f"{path}.{key}" if isinstance(value, dict) else f"{path}[{key}]")

    for name, values in (("messages", body.messages), ("tools", body.tools or [])):
        for index, value in enumerate(values):
            see(value, f"{name}[{index}]")
    return homes


def _home(value: Any, homes: dict[int, str], body: Body) -> str | None:
    if id(value) in homes:
        return homes[id(value)]
    if isinstance(value, list) and value and value == body.tools:
        return "tools"
    return None


def _json_spans(block: str, offset: int, home: str) -> list[Span]:
    """The spans of every entry of a piece of JSON, its key included; nothing if it is no JSON."""
    spans: list[Span] = []
    decoder = json.JSONDecoder()

    def skip(at: int) -> int:
        while at < len(block) and block[at] in " \t\r\n":
            at += 1
        return at

    def read(at: int, path: str, begin: int) -> int:
        at = skip(at)
        end = at
        if block[at] in "{[":
            closing, index = ("}" if block[at] == "{" else "]"), 0
            end = skip(at + 1)
            while block[end] != closing:
                start = end
                if closing == "}":
                    key, end = decoder.raw_decode(block, end)
                    end = skip(end) + 1  # the colon
                    end = read(end, f"{path}.{key}", start)
                else:
                    end = read(end, f"{path}[{index}]", start)
                    index += 1
                end = skip(end)
                if block[end] == ",":
                    end = skip(end + 1)
            end += 1
        else:
            _, end = decoder.raw_decode(block, at)
        spans.append(Span(offset + begin, offset + end, path))
        return end

    try:
        read(0, home, 0)
    except (ValueError, IndexError, RecursionError):
        return [Span(offset, offset + len(block), home)]
    return spans
