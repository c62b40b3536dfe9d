"""A failed check as pytest shows it: an exception to raise, and the object that writes itself to the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .report import HEADLINE_STYLE, Line

if TYPE_CHECKING:
    import pytest

    from .check import Outcome


def crash_line_alone(config: pytest.Config) -> bool:
    """Whether failures are shown as one line each (``--tb=line``); the option is missing where the terminal is off."""
    return bool(config.getoption("tbstyle", "auto") == "line")


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


class FailureText(str):
    """A failure without a traceback: coloured in a terminal, plain in a junit file and between processes.

    It is a string for plugins that read nothing else (pytest-github-actions-annotate-failures); formatted into another
    string, as pytest's short summary does on CI, it is its first line. With ``crash_line_alone`` (``--tb=line``) the
    terminal shows only what pytest makes of ``reprcrash``.
    """

    lines: Sequence[Line]
    reprcrash: Crash
    crash_line_alone: bool

    @classmethod
    def of_lines(cls, lines: Sequence[Line], path: str, lineno: int, crash_line_alone: bool = False) -> FailureText:
        """A failure as a report has it."""
        failure = cls("\n".join(line.text for line in lines))
        failure.lines = lines
        failure.reprcrash = Crash(path, lineno, lines[0].text)
        failure.crash_line_alone = crash_line_alone
        return failure

    @classmethod
    def of_text(cls, text: str, path: str, lineno: int, crash_line_alone: bool) -> FailureText:
        """A failure that came as plain text: from another process, or from a test function."""
        first, *rest = text.split("\n")
        return cls.of_lines([Line(first, HEADLINE_STYLE), *map(Line, rest)], path, lineno, crash_line_alone)

    def __format__(self, spec: str) -> str:
        return format(self.lines[0].text, spec)

    def toterminal(self, writer: pytest.TerminalReporter) -> None:
        """Write to pytest's terminal writer, which knows about colour."""
        for line in [] if self.crash_line_alone else self.lines:
            writer.line(line.text, **line.style)
