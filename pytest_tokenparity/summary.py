"""The end of a run: what was checked, what was not, what was written, and which engines answered."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

import pytest

from .session import (
    EQUAL,
    FAILED,
    KNOWN,
    OUTCOME_KEY,
    PARTLY,
    REASON_KEY,
    SEEN_KEY,
    UNREACHABLE,
    ParitySession,
    Record,
    is_case_file,
    registered_markers,
)

_NO_ENDS = ("deselected", "rerun", "warnings", "")  # items that did not run, runs that were not the last, other things
SKIPPED, XFAILED, ASKED = "skipped", "xfailed", "asked"
_SEP = ", "
_CRASHED = "???"  # what xdist says instead of a phase where a worker ended in the middle of a test
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
    checks = _checks(terminal)
    lines = [
        *_deselected(session),
        *_checked(checks, session.unreadable),
        *_confirmed(checks),
        *_not_checked(checks),
        *_known(checks, terminal.verbosity),
        *_written(session, bool(checks)),
        *_lost(terminal, session),
    ]
    if any(check[OUTCOME_KEY] != ASKED for check in checks) and terminal.verbosity >= 0:
        lines += [(f"engine   {name}", {}) for name in session.tally.engines]
    if not lines:
        return
    terminal.ensure_newline()
    terminal.section("tokenparity", sep="-" if terminal.verbosity < 0 else "=")
    for text, style in lines:
        terminal.write_line(text, **style)
    if terminal.config.option.tokenparity_table and session.config is not None:
        from .matrix import table

        order = {name: [engine.name for engine in model.engines] for name, model in session.config.models.items()}
        for text, style in table(checks, order, get_terminal_size().columns):
            terminal.write_line(text, **style)


_Check = dict[str, object]
"""What one check said of itself: the properties of a report up to the next outcome, with the item's name."""
_WORST = [ASKED, EQUAL, KNOWN, PARTLY, SKIPPED, XFAILED, UNREACHABLE, FAILED]
_Line = tuple[str, dict[str, bool]]


def _checks(terminal: pytest.TerminalReporter) -> list[_Check]:
    """What each test says of itself. Of several checks in one test function the worst counts, of several runs the last."""
    seen: dict[str, _Check] = {}
    for category, reports in terminal.stats.items():
        for report in reports if category not in _NO_ENDS else []:
            if getattr(report, "when", None) == "teardown":
                continue  # how a test is cleared away says nothing of its check
            said = Record.on(report) or _crashed(terminal, report)
            if said is None:
                continue
            about = {"item": report.nodeid.rpartition("::")[2], **said.about}
            checks = _ended(report, said.checks)
            worst = max(checks, key=lambda check: _WORST.index(check[OUTCOME_KEY]))
            checked = any(check[OUTCOME_KEY] in (ASKED, EQUAL, KNOWN) for check in said.checks or checks)
            seen[report.nodeid] = {**about, **worst, "checked": checked}
    return [*seen.values()]


def _crashed(terminal: pytest.TerminalReporter, report: Any) -> Record | None:
    """An item whose worker did not live to report it; of a test function nobody knows that it was one of ours."""
    crashed = getattr(report, "when", None) == _CRASHED
    return Record() if crashed and is_case_file(terminal.config, Path(report.nodeid.partition("::")[0])) else None


def _ended(report: Any, checks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The checks of a test as its report ends: a mark may have expected a failure, a test may fail of itself."""
    if hasattr(report, "wasxfail") and report.skipped:
        # A mark that hides a failure must not hide that nothing was compared.
        unmade = [{**check, OUTCOME_KEY: UNREACHABLE} for check in checks if not check["compared"]]
        without = {OUTCOME_KEY: UNREACHABLE, REASON_KEY: "it is marked xfail, and did not come to its check"}
        return unmade or ([{**checks[-1], OUTCOME_KEY: XFAILED}] if checks else [without])
    if report.failed and not any(check[OUTCOME_KEY] in (FAILED, UNREACHABLE) for check in checks):
        return [{OUTCOME_KEY: FAILED}]
    # One that passed without a golden asked an engine and judged by itself.
    return checks or [{OUTCOME_KEY: SKIPPED if report.skipped else ASKED}]


def _checked(checks: list[_Check], unreadable: int) -> list[_Line]:
    counts = Counter(str(check[OUTCOME_KEY]) for check in checks)
    parts = [f"{counts[key]} {word}" for key, word in _WORDS.items() if counts[key]]
    words = ", ".join([*parts, *([f"{unreadable} could not be read"] if unreadable else [])])
    if not words:
        return []
    if not any(check["checked"] or _was_seen(check) for check in checks):
        return [(f"NOTHING WAS CHECKED: {words}", {"red": True, "bold": True})]
    return [(f"checked  {words}", {})]


def _confirmed(checks: list[_Check]) -> list[_Line]:
    """How many items a real call confirmed, of those whose engine can make one."""
    said = Counter(str(check.get("confirmed") or "") for check in checks)
    equal = said["confirmed"] + said["counted"]
    asked = equal + said["differs"] + said["cannot"]
    if not asked:
        return []
    notes = [f"{said['counted']} by the number of tokens alone"] if said["counted"] else []
    notes += [f"{said['cannot']} not, by engines that cannot be called"] if said["cannot"] else []
    return [(f"confirmed by a call: {equal} of {asked}{f' ({_SEP.join(notes)})' if notes else ''}", {})]


def _deselected(session: ParitySession) -> list[_Line]:
    """That `-m` or `-k` left out every item of ours, where that can be a slip: what it takes is said."""
    tally, option = session.tally, session.pytest_config.option
    if not tally.deselected or tally.selected or session.config is None:
        return []
    models = session.config.models.values()
    asked = _words(option.markexpr)
    ours = {"tokenparity", *(model.marker for model in models)}
    unknown = asked - registered_markers(session.pytest_config)
    if not (asked & ours or (not tally.tests and (unknown or option.keyword))):
        return []
    engines = dict.fromkeys(f'"{engine.name}"' for model in models for engine in model.engines)
    return [
        (f"NOTHING WAS CHECKED: {tally.deselected} deselected", {"red": True, "bold": True}),
        (f"markers  {', '.join(model.marker for model in models)}; tokenparity(engine={' or '.join(engines)})", {}),
    ]


def _words(expression: str) -> set[str]:
    """The markers that a `-m` expression asks for; one after `not` is left out on purpose."""
    names = re.sub(r"(?<=\w)\([^()]*\)", "", expression)
    names = re.sub(r"\bnot\s+([^\s()]+|\([^()]*\))", "", names)
    return {*re.findall(r"[^\s()]+", names)} - {"and", "or", "not"}


def _lost(terminal: pytest.TerminalReporter, session: ParitySession) -> list[_Line]:
    """That a worker took with it what it recorded."""
    crashed = any(getattr(report, "when", None) == _CRASHED for report in terminal.stats.get("failed", []))
    lost = "goldens that a crashed worker wrote are not counted: see git status"
    return [(lost, {"yellow": True})] if crashed and session.updating else []


def _was_seen(check: _Check) -> bool:
    return check[OUTCOME_KEY] not in (UNREACHABLE, SKIPPED) and check.get(SEEN_KEY) != "nothing"


def _not_checked(checks: list[_Check]) -> list[_Line]:
    """What was not checked, or not wholly, and why: one line for each engine and reason."""
    lines: list[_Line] = []
    for outcome, style in ((UNREACHABLE, {"red": True}), (PARTLY, {"yellow": True})):
        reasons = Counter(
            f" of {check['model']}: {check[REASON_KEY]}" if "model" in check else f": {check[REASON_KEY]}"
            for check in checks
            if check[OUTCOME_KEY] == outcome
        )
        lines += [(f"{_WORDS[outcome]}: {_items(count)}{reason}", dict(style)) for reason, count in reasons.items()]
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
            orphaned = f", {len(session.orphans) + len(session.pruned)} orphaned" if not session.not_looked else ""
            lines.append((f"goldens  {words}{orphaned}", {}))
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
    if session.pruning and session.not_looked:
        lines.append((f"no golden was looked at: {session.not_looked}", {"red": True}))
    elif session.pruning and not (session.pruned or session.orphans or session.not_pruned):
        lines.append(("no golden is an orphan: nothing to delete", {}))
    return lines


def _shown(path: str | Path) -> str:
    return Path(os.path.relpath(path)).as_posix()
