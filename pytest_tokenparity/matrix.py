"""The table of a run: every case through every engine, a mark for what came of it, and the causes below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .session import EQUAL, FAILED, KNOWN, OUTCOME_KEY, PARTLY

EQUAL_MARK, REFUSED_MARK, PARTLY_MARK, UNKNOWN_MARK, FAILS, NOT_CHECKED, NOT_RUN = "=", "r", "~", "?", "!", "x", "."
REFUSES = "R"
LEGEND = (
    (EQUAL_MARK, "equal to the golden"),
    (REFUSED_MARK, "refused alike"),
    (PARTLY_MARK, "partly checked: what was seen agrees, or differs as `expect` says"),
    (REFUSES, "refuses what the reference renders"),
    (UNKNOWN_MARK, "differs, and nothing known explains it"),
    (FAILS, "fails"),
    (NOT_CHECKED, "not checked"),
    (NOT_RUN, "not in this run"),
)

Check = Mapping[str, Any]
Row = tuple[str, dict[str, bool]]


@dataclass
class Table:
    """The rows of one model: a cell for each case and engine."""

    model: str
    engines: list[str] = field(default_factory=list)
    cells: dict[str, dict[str, str]] = field(default_factory=dict)


def table(checks: Sequence[Check], order: Mapping[str, Sequence[str]], width: int) -> list[Row]:
    """The lines of the table, at most ``width`` columns wide where one engine fits; nothing where no case was run.

    ``order`` is the models with their engines, as configured.
    """
    numbers: dict[str, int] = {}
    tables: dict[str, Table] = {}
    ours = [check for check in checks if "case" in check]  # the others are test functions
    models = list(order)

    def place(check: Check) -> tuple[int, str, int, int]:
        engines = order[check["model"]]
        return models.index(check["model"]), check["file"], int(check["line"]), engines.index(check["engine"])

    for check in sorted(ours, key=place):
        found = tables.setdefault(check["model"], Table(check["model"]))
        cells = found.cells.setdefault(f"{check['file']}::{check['case']}", {})
        cells[check["engine"]] = _mark(check, numbers)
    for name, found in tables.items():
        seen = {engine for line in found.cells.values() for engine in line}
        found.engines = [engine for engine in order[name] if engine in seen]
    lines: list[Row] = [("", {})] if tables else []
    for found in tables.values():
        for engines in _fitting(found, width):
            lines += [*_rows(found, engines), ("", {})]
    used = {
        mark for found in tables.values() for line in found.cells.values() for cell in line.values() for mark in cell
    }
    if any(len(line) < len(found.engines) for found in tables.values() for line in found.cells.values()):
        used.add(NOT_RUN)
    lines += [(f"  {mark:<3} {meaning}", {}) for mark, meaning in LEGEND if mark in used]
    lines += [(f"  {number:<3} {cause}", {}) for cause, number in numbers.items()]
    return lines


_NO_CAUSES = {"unknown": UNKNOWN_MARK, "refuses": REFUSES}


def _mark(check: Check, numbers: dict[str, int]) -> str:
    outcome = check[OUTCOME_KEY]
    if outcome == EQUAL:
        return REFUSED_MARK if check.get("refused") else EQUAL_MARK
    if outcome not in (KNOWN, FAILED, PARTLY) or not check.get("compared", True):
        return NOT_CHECKED
    causes = [
        _NO_CAUSES.get(cause) or str(numbers.setdefault(cause, len(numbers) + 1)) for cause in check.get("causes", ())
    ]
    return ",".join(causes) + {FAILED: FAILS, PARTLY: PARTLY_MARK}.get(outcome, "")


def _fitting(found: Table, width: int) -> list[list[str]]:
    """The engines in groups that fit beside the names of the cases."""
    room = width - max(map(len, (found.model, *found.cells)))
    groups: list[list[str]] = [[]]
    for engine in found.engines:
        if groups[-1] and sum(len(it) + 2 for it in (*groups[-1], engine)) > room:
            groups.append([])
        groups[-1].append(engine)
    return groups


def _rows(found: Table, engines: Sequence[str]) -> list[Row]:
    first = max(map(len, (found.model, *found.cells)))
    widths = {
        engine: max(len(engine), *(len(line.get(engine, "")) for line in found.cells.values())) for engine in engines
    }
    head = "  ".join([f"{found.model:<{first}}", *(f"{engine:<{widths[engine]}}" for engine in engines)])
    rows: list[Row] = [(head.rstrip(), {"bold": True})]
    for case, line in found.cells.items():
        cells = [line.get(engine, NOT_RUN) for engine in engines]
        text = "  ".join(
            [f"{case:<{first}}", *(f"{it:<{widths[engine]}}" for engine, it in zip(engines, cells, strict=True))]
        )
        rows.append((text.rstrip(), {"red": True} if any(FAILS in it or it == NOT_CHECKED for it in cells) else {}))
    return rows
