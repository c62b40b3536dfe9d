"""An entry of the table of causes, and what the search shows an entry when it asks for changes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from .prompt import NONE, Body, Change, Changes, Prompts

_KEY = re.compile(r'"([^"\\\n]{1,60})"\s*:')


@dataclass(frozen=True)
class Cause:
    """One kind of difference between two engines.

    ``says`` is one sentence about the engine, ``{}`` being the parameter; ``fix`` is what to send or set so that both
    agree, where it depends on the parameters a function of them. ``seen`` names the engine types that were seen doing it, with version: a cause without a witness has no entry.
    ``propose`` gives the changes worth trying.
    """

    name: str
    says: str
    fix: str | Callable[[Sequence[str]], str]
    seen: Mapping[str, str]
    propose: Callable[[View], Iterable[Change]] = field(repr=False)

    def advice(self, parameters: Sequence[str]) -> str:
        """The fix, for these parameters."""
        return self.fix if isinstance(self.fix, str) else self.fix(parameters)

    def sentence(self, parameter: str) -> str:
        return self.says.format(parameter)


@dataclass(frozen=True)
class View:
    """What a cause's ``propose`` sees: the request, the text rendered so far, and the text the engine shows."""

    prompts: Prompts
    changes: Changes
    engine: str | None = None
    """The type of the engine, where it is known."""
    template: str | None = None
    """The chat template that the engine shows."""

    @cached_property
    def body(self) -> Body:
        """The request as it was asked."""
        return self.prompts.body(NONE)

    @cached_property
    def changed(self) -> Body:
        """The request under the changes so far."""
        return self.prompts.body(self.changes)

    @cached_property
    def refused(self) -> bool:
        return self.prompts.text(self.changes) is None

    @cached_property
    def text(self) -> str:
        """The text so far without BOS and EOS; empty where the template refuses."""
        return self.prompts.bare(self.prompts.text(self.changes) or "")

    @property
    def target(self) -> str:
        return self.prompts.target

    def fewer(self, part: str) -> bool:
        """Whether the engine shows ``part`` less often than the text so far; nowhere, if the template refuses."""
        if self.refused:
            return part not in self.target
        return self.target.count(part) < self.text.count(part)

    def fewer_names(self, name: str) -> bool:
        """As :meth:`fewer` for the name of a tool, which may stand inside another name or in a description."""
        quoted = json.dumps(name, ensure_ascii=False)
        return self.fewer(quoted) if quoted in (self.text or self.target) else self.fewer_words(name)

    def fewer_words(self, part: str) -> bool:
        """As :meth:`fewer`, for words that other words may hold: ``question 1`` stands in ``question 12``."""
        pattern = re.compile(rf"(?<![\w.-]){re.escape(part)}(?![\w-])")
        theirs = len(pattern.findall(self.target))
        return theirs == 0 if self.refused else theirs < len(pattern.findall(self.text))

    def more(self, part: str) -> bool:
        return self.target.count(part) > self.text.count(part)

    @cached_property
    def keys(self) -> tuple[list[str], list[str]]:
        """The JSON keys of the text so far and of the engine's, in order."""
        return _KEY.findall(self.text), _KEY.findall(self.target)

    @cached_property
    def keys_moved(self) -> bool:
        """Whether the engine writes JSON keys in another order."""
        ours, theirs = self.keys
        if sorted(ours) == sorted(theirs):
            return ours != theirs
        return bool(set(pairwise(theirs)) - set(pairwise(ours)))

    @cached_property
    def leaves(self) -> list[tuple[str, Any]]:
        """Every leaf of messages and tools as they were asked, with its path."""
        return list(leaves_of({"messages": self.body.messages, "tools": self.body.tools or []}))


def leaves_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Strings, numbers, booleans and nulls of a JSON value with their paths, such as ``tools[0].function.name``."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from leaves_of(entry, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, entry in enumerate(value):
            yield from leaves_of(entry, f"{path}[{index}]")
    else:
        yield path, value


def compact(value: Any) -> str:
    """A value as short JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def shown_whitespace(text: str) -> str:
    """A separator in words."""
    names = {"": "nothing", "\n": "newline", " ": "space", "\n\n": "two newlines"}
    return names.get(text, repr(text))
