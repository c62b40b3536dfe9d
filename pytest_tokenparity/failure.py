"""A failed check as pytest shows it: an exception to raise, and the object that writes itself to the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .report import HEADLINE_STYLE, Line

if TYPE_CHECKING:
    import pytest

    from .check import Outcome


class CheckFailed(AssertionError):
    """Raised by an item whose check found something."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.findings[0].headline)
        self.outcome = outcome


@dataclass(frozen=True)
class Crash:
    """Where and what, as pytest's short summary, ``--tb=line`` and other plugins read it."""

    path: str
    lineno: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.lineno}: {self.message}"


class FailureText:
    """A failure without a traceback: coloured in a terminal, plain in a junit file and between processes.

    With ``crash_line_alone`` (``--tb=line``) the terminal shows only what pytest makes of ``reprcrash``.
    """

    def __init__(self, lines: Sequence[Line], path: str, lineno: int, crash_line_alone: bool = False) -> None:
        self.lines = lines
        self.reprcrash = Crash(path, lineno, lines[0].text)
        self.crash_line_alone = crash_line_alone

    @classmethod
    def of_text(cls, text: str, path: str, lineno: int, crash_line_alone: bool) -> FailureText:
        """A failure that came as plain text: from another process, or from a test function."""
        first, *rest = text.split("\n")
        return cls([Line(first, HEADLINE_STYLE), *map(Line, rest)], path, lineno, crash_line_alone)

    def __str__(self) -> str:
        return "\n".join(line.text for line in self.lines)

    def toterminal(self, writer: pytest.TerminalReporter) -> None:
        """Write to pytest's terminal writer, which knows about colour."""
        for line in [] if self.crash_line_alone else self.lines:
            writer.line(line.text, **line.style)
