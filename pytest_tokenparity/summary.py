"""The end of a run: what was checked, what was not, what was written, and which engines answered."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from .session import EQUAL, FAILED, KNOWN, OUTCOME_KEY, PARTLY, REASON_KEY, SEEN_KEY, UNREACHABLE, ParitySession

_NO_ENDS = ("deselected", "rerun", "warnings", "")  # items that did not run, runs that were not the last, other things
SKIPPED, XFAILED = "skipped", "xfailed"
_WORDS = {
    EQUAL: "equal to the golden",
    KNOWN: "known to differ",
    PARTLY: "partly checked",
    FAILED: "failed",
    UNREACHABLE: "not checked",
    SKIPPED: "skipped",
    XFAILED: "failed as expected",
}


def write_summary(terminal: pytest.TerminalReporter, session: ParitySession) -> None:
    """Write the section, where there is something to say."""
    checks = list(_checks(terminal))
    lines = [
        *_checked(checks, session.unreadable),
        *_not_checked(checks),
        *_known(checks, terminal.verbosity),
        *_written(session, bool(checks)),
    ]
    if checks and terminal.verbosity >= 0:
        lines += [(f"engine   {name}", {}) for name in session.tally.engines]
    if not lines:
        return
    terminal.ensure_newline()
    terminal.section("tokenparity", sep="-" if terminal.verbosity < 0 else "=")
    for text, style in lines:
        terminal.write_line(text, **style)


_Check = dict[str, object]
"""What one check said of itself: the properties of a report up to the next outcome, with the item's name."""
_WORST = [EQUAL, KNOWN, PARTLY, SKIPPED, XFAILED, UNREACHABLE, FAILED]
_Line = tuple[str, dict[str, bool]]


def _checks(terminal: pytest.TerminalReporter) -> Iterable[_Check]:
    """What each test says of itself. Of several checks in one test function the worst counts, of several runs the last."""
    seen: dict[str, _Check] = {}
    for category, reports in terminal.stats.items():
        for report in reports if category not in _NO_ENDS else []:
            found = [(key, value) for key, value in getattr(report, "user_properties", [])]
            if not any(key in (OUTCOME_KEY, "shape") for key, _ in found):
                continue
            checks: list[_Check] = []
            about: _Check = {"item": report.nodeid.rpartition("::")[2]}
            for key, value in found:
                if key == OUTCOME_KEY:
                    checks.append({**about, key: value})
                elif checks and key in (REASON_KEY, SEEN_KEY, "first_divergence"):
                    checks[-1][key] = value
                else:
                    about[key] = value
            ended = _ended(report)
            if ended == XFAILED or (ended and not checks):  # skipped by a mark, timed out, or what nobody expected
                checks = [{**about, OUTCOME_KEY: ended}]
            if checks:
                worst = max(checks, key=lambda check: _WORST.index(str(check[OUTCOME_KEY])))
                seen[report.nodeid] = {
                    **worst,
                    "checked": any(check[OUTCOME_KEY] in (EQUAL, KNOWN) for check in checks),
                }
    return seen.values()


def _ended(report: Any) -> str | None:
    """How a report ends that says nothing of a check."""
    if hasattr(report, "wasxfail"):
        return XFAILED if report.skipped else None
    return FAILED if report.failed else SKIPPED if report.skipped else None


def _checked(checks: list[_Check], unreadable: int) -> list[_Line]:
    if not checks and not unreadable:
        return []
    counts = Counter(str(check[OUTCOME_KEY]) for check in checks)
    parts = [f"{counts[key]} {word}" for key, word in _WORDS.items() if counts[key]]
    words = ", ".join([*parts, *([f"{unreadable} could not be read"] if unreadable else [])])
    if not any(check["checked"] or _was_seen(check) for check in checks):
        return [(f"NOTHING WAS CHECKED: {words}", {"red": True, "bold": True})]
    return [(f"checked  {words}", {})]


def _was_seen(check: _Check) -> bool:
    return check[OUTCOME_KEY] not in (UNREACHABLE, SKIPPED) and check.get(SEEN_KEY) != "nothing"


def _not_checked(checks: list[_Check]) -> list[_Line]:
    """What was not checked, or not wholly, and why: one line for each engine and reason."""
    lines: list[_Line] = []
    for outcome, style in ((UNREACHABLE, {"red": True}), (PARTLY, {"yellow": True})):
        reasons = Counter(
            (f"{check.get('model', '')}: {check[REASON_KEY]}" if "model" in check else str(check[REASON_KEY]))
            for check in checks
            if check[OUTCOME_KEY] == outcome
        )
        lines += [(f"{_WORDS[outcome]}: {_items(count)} of {reason}", dict(style)) for reason, count in reasons.items()]
    return lines


def _items(count: int) -> str:
    return f"{count} item{'' if count == 1 else 's'}"


def _known(checks: list[_Check], verbosity: int) -> list[_Line]:
    """The known differences and their reasons, under -v."""
    if verbosity < 1:
        return []
    lines: list[_Line] = []
    for check in checks:
        if check[OUTCOME_KEY] == KNOWN:
            at = f" at token {check['first_divergence']}" if "first_divergence" in check else ""
            lines.append((f"known    {check['item']}{at}: {check[REASON_KEY]}", {}))
    return lines


def _written(session: ParitySession, any_check: bool) -> list[_Line]:
    lines: list[_Line] = []
    if session.updating and session.pytest_config.option.collectonly:
        lines.append(("goldens  nothing is recorded while collecting", {}))
    elif session.updating:
        counts = Counter(session.tally.written.values())
        if not session.tally.case_files and not any_check:
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
    lines += [
        (f"kept     {_shown(path)}: cannot be deleted: {why}", {"red": True})
        for path, why in session.not_pruned.items()
    ]
    if session.pruning and session.config is None:
        lines.append(("no golden was looked at: there is no configuration that can be used", {"red": True}))
    elif session.pruning and not (session.pruned or session.orphans or session.not_pruned):
        lines.append(("no golden is an orphan: nothing to delete", {}))
    return lines


def _shown(path: str | Path) -> str:
    return Path(os.path.relpath(path)).as_posix()
