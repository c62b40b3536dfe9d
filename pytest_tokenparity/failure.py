"""A failed check as pytest shows it: an exception to raise, and the object that writes itself to the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from .check import Outcome
    from .report import Line


class CheckFailed(AssertionError):
    """Raised by an item whose check found something."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.findings[0].headline)
        self.outcome = outcome


@dataclass(frozen=True)
class Crash:
    """Where and what, as pytest's short summary and other plugins read it."""

    path: str
    lineno: int
    message: str


class FailureText:
    """A failure without a traceback: coloured in a terminal, plain in a junit file and between processes."""

    def __init__(self, lines: Sequence[Line], path: str, lineno: int) -> None:
        self.lines = lines
        self.reprcrash = Crash(path, lineno, lines[0].text)

    def __str__(self) -> str:
        return "\n".join(line.text for line in self.lines)

    def toterminal(self, writer: pytest.TerminalReporter) -> None:
        """Write to pytest's terminal writer, which knows about colour."""
        for line in self.lines:
            writer.line(line.text, **line.style)
