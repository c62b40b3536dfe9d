"""The end of a run: what was checked, what was not, what was written, and which engines answered."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from .session import EQUAL, FAILED, KNOWN, OUTCOME_KEY, PARTLY, REASON_KEY, UNREACHABLE, ParitySession

_WORDS = {
    EQUAL: "equal to the golden",
    KNOWN: "known to differ",
    PARTLY: "partly checked",
    FAILED: "failed",
    UNREACHABLE: "not checked",
}


def write_summary(terminal: pytest.TerminalReporter, session: ParitySession) -> None:
    """Write the section, where there is something to say."""
    reports = list(_reports(terminal))
    lines = [
        *_checked(reports),
        *_not_checked(reports),
        *_known(reports, terminal.verbosity),
        *_written(session, bool(reports)),
    ]
    if terminal.verbosity >= 0 and reports:
        lines += [(f"engine   {name}", {}) for name in session.tally.engines]
    if not lines:
        return
    terminal.ensure_newline()
    terminal.section("tokenparity", sep="-" if terminal.verbosity < 0 else "=")
    for text, style in lines:
        terminal.write_line(text, **style)


_Line = tuple[str, dict[str, bool]]


def _reports(terminal: pytest.TerminalReporter) -> Iterable[dict[str, object]]:
    """The properties of every test that this plugin knows of, once for each."""
    seen: dict[str, dict[str, object]] = {}
    for reports in terminal.stats.values():
        for report in reports:
            found: Any = getattr(report, "user_properties", None)
            if found and any(key == OUTCOME_KEY for key, _ in found):
                seen[report.nodeid] = dict(found)
    return seen.values()


def _checked(reports: list[dict[str, object]]) -> list[_Line]:
    if not reports:
        return []
    counts = Counter(str(report[OUTCOME_KEY]) for report in reports)
    words = ", ".join(f"{counts[key]} {word}" for key, word in _WORDS.items() if counts[key])
    if counts[UNREACHABLE] == len(reports):
        return [(f"NOTHING WAS CHECKED: {words}", {"red": True, "bold": True})]
    return [(f"checked  {words}", {})]


def _not_checked(reports: list[dict[str, object]]) -> list[_Line]:
    """What was not checked, or not wholly, and why: one line for each engine and reason."""
    lines: list[_Line] = []
    for outcome, style in ((UNREACHABLE, {"red": True}), (PARTLY, {"yellow": True})):
        reasons = Counter(
            (f"{report.get('model', '')}: {report[REASON_KEY]}" if "model" in report else str(report[REASON_KEY]))
            for report in reports
            if report[OUTCOME_KEY] == outcome
        )
        lines += [(f"{_WORDS[outcome]}: {count} of {reason}", dict(style)) for reason, count in reasons.items()]
    return lines


def _known(reports: list[dict[str, object]], verbosity: int) -> list[_Line]:
    """The known differences and their reasons, under -v."""
    if verbosity < 1:
        return []
    reasons = Counter(str(report[REASON_KEY]) for report in reports if report[OUTCOME_KEY] == KNOWN)
    return [(f"known to differ: {count} by {reason}", {}) for reason, count in reasons.items()]


def _written(session: ParitySession, any_report: bool) -> list[_Line]:
    lines: list[_Line] = []
    if session.updating and session.pytest_config.option.collectonly:
        lines.append(("goldens  nothing is recorded while collecting", {}))
    elif session.updating:
        counts = Counter(session.tally.written.values())
        if not session.tally.case_files and not any_report:
            lines.append(
                (
                    "NOTHING RECORDED: the run met no case file (*.tokenparity.yaml) and no golden of a test",
                    {"red": True},
                )
            )
        else:
            shown = ("new", "changed", "unchanged")
            words = ", ".join(f"{counts[status]} {status}" for status in shown)
            if not session.pytest_config.option.tokenparity_update:
                words = f"{counts['new']} new, the others left as they were"
            lines.append((f"goldens  {words}, {len(session.orphans) + len(session.pruned)} orphaned", {}))
        for status in ("new", "changed"):
            paths = sorted(path for path, found in session.tally.written.items() if found == status)
            lines += [(f"{status:<8} {_shown(path)}", {"green": True}) for path in paths]
    lines += [
        (f"orphan   {_shown(path)} (pytest --tokenparity-prune deletes it)", {"yellow": True})
        for path in session.orphans
    ]
    lines += [(f"deleted  {_shown(path)}", {"yellow": True}) for path in session.pruned]
    if session.pruning and not session.pruned and not session.orphans:
        lines.append(("no golden is an orphan: nothing to delete", {}))
    return lines


def _shown(path: str | Path) -> str:
    return Path(os.path.relpath(path)).as_posix()
