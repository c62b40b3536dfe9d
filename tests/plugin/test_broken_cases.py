"""Cases that cannot be read: chosen by the ids that their items would have, and forgotten once they are mended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..harness import Project
from .test_options import IDS, both_kinds, golden, run

PROCESSES = pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one-process", "two-workers"])
CASES = """
conversations:
  question:
    - {role: system, content: You are terse.}
    - {role: user, content: "What is 2 + 2?"}
cases:
  plain: {messages: question}
  off: {messages: qestion}
"""
MESSAGE = "chat.tokenparity.yaml:8: cases.off.messages: no conversation 'qestion'"
FILE = "chat.tokenparity.yaml"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A case that is right and one that is broken, with goldens for both."""
    project = both_kinds(tmp_path, tests="def test_other(): pass\n")
    project.write(FILE, CASES)
    project.write("golden/tiny/chat/off.json", golden(FILE, "off", IDS, 2))
    return project


def failed_before(project: Project) -> list[str]:
    return sorted(json.loads(project.read(".pytest_cache/v/cache/lastfailed")))


@PROCESSES
@pytest.mark.parametrize(
    ("ids", "errors"),
    [
        (["off[tiny-letters]"], 1),
        (["off[tiny-letters]", "off[tiny-shouting]"], 2),
        (["off[a-model-that-is-gone]"], 1),
        (["off"], 1),
    ],
)
def test_a_broken_case_is_its_error_under_its_items_ids(
    project: Project, ids: list[str], errors: int, workers: tuple[str, ...]
) -> None:
    result = run(project, *(f"{FILE}::{item}" for item in ids), *workers)
    assert f"\n{MESSAGE}" in result.output
    assert "not found" not in result.output
    if not workers:  # pytest-xdist shows errors of one text once
        assert f" {errors} error" in result.output
    assert f"NOTHING WAS CHECKED: {errors} could not be read" in result.output


def test_a_broken_case_is_its_error_beside_another_item_and_from_a_sub_folder(project: Project) -> None:
    arguments = [f"../{FILE}::plain[tiny-letters]", f"../{FILE}::off[tiny-letters]"]
    result = run(project, *arguments, start="sub")
    assert "1 passed, 1 error" in result.output
    assert MESSAGE in result.output


def test_an_id_of_no_case_is_still_not_found(project: Project) -> None:
    result = run(project, f"{FILE}::of[tiny-letters]")
    assert result.code == 4
    assert "not found" in result.output


@PROCESSES
def test_last_failed_runs_a_mended_case_and_forgets_its_error(project: Project, workers: tuple[str, ...]) -> None:
    project.edit("tokenparity.yaml", "      shouting: {}\n", "")
    assert MESSAGE in run(project, *workers).output
    assert f"{FILE}::off" in failed_before(project)
    assert "passed" not in run(project, "--lf").output
    project.edit(FILE, "qestion", "question")
    result = run(project, "--lf", *workers)
    assert "1 passed" in result.output
    assert failed_before(project) == []


def test_last_failed_forgets_a_broken_case_that_was_taken_out(project: Project) -> None:
    project.edit("tokenparity.yaml", "      shouting: {}\n", "")
    run(project)
    project.edit(FILE, "  off: {messages: qestion}\n", "")
    assert run(project).passed(2)
    assert failed_before(project) == []


def test_last_failed_keeps_the_failures_of_a_case_while_it_is_broken(project: Project) -> None:
    project.edit(FILE, "qestion", "question")
    run(project)
    project.edit(FILE, "off: {messages: question", "off: {messages: qestion")
    run(project)
    assert f"{FILE}::off[tiny-shouting]" in failed_before(project)
    project.edit(FILE, "off: {messages: qestion", "off: {messages: question")
    result = run(project, "--lf")
    assert "2 failed, 1 passed" in result.output  # both items of the mended case, and what failed before
    assert failed_before(project) == [f"{FILE}::off[tiny-shouting]", f"{FILE}::plain[tiny-shouting]"]


@pytest.mark.parametrize("mark", ["__class__", "__init__", "__dict__", "_config"])
def test_an_attribute_that_is_no_mark_is_an_error_of_its_case(project: Project, mark: str) -> None:
    project.edit(FILE, "off: {messages: qestion}", f"off: {{messages: question, marks: [{mark}]}}")
    result = run(project)
    assert "1 failed, 2 passed, 1 error" in result.output
    assert f"\n{FILE}:8: cases.off.marks: " in result.output
    assert "Traceback" not in result.output
