"""What is printed around the tests: one line before, a section after, and neither where there is nothing to say."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..harness import LETTERS_CONFTEST, PLAIN, Project, letters_config
from ..real_models import QWEN3

GOLDEN = """{"format": 1, "model": "tiny", "case": "plain", "file": "chat.tokenparity.yaml",
 "recorded": {"engine": "letters"}, "requests": [{"messages": 2, "tokens": 44, "keep": 0, "append": [[IDS, "text"]]}]}
""".replace("IDS", str([ord(letter) for letter in "system: You are terse.\nuser: What is 2 + 2?\n"]))
"""A golden by hand: what the engine `letters` renders."""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(
        tmp_path,
        {
            "conftest.py": LETTERS_CONFTEST + '\nCHANGES["again"] = None\n',
            "tokenparity.yaml": letters_config("letters", "again").replace(str(QWEN3), "./none"),  # no token is shown
            "chat.tokenparity.yaml": PLAIN,
            "golden/tiny/chat/plain.json": GOLDEN,
            "unit/test_unit.py": "def test_unit(): pass\n",
        },
    )


def ours(output: str) -> list[str]:
    """The lines of the plugin's section, with its title; and the header line."""
    lines = output.splitlines()
    header = [line for line in lines if line.startswith("tokenparity: ")]
    start = next((number for number, line in enumerate(lines) if line.strip("=- ") == "tokenparity"), None)
    if start is None:
        return header
    end = next(number for number, line in enumerate(lines) if number > start and " in " in line)
    return header + lines[start:end]


def test_a_run_prints_one_line_before_and_one_section_after(project: Project) -> None:
    result = project.pytest()
    assert result.passed(3), result.output
    assert ours(result.output) == [
        "tokenparity: tokenparity.yaml: tiny (letters, again)",
        " tokenparity ".center(80, "="),
        "checked  2 equal to the golden",
        "engine   letters (conftest.Letters)",
        "engine   again (conftest.Letters)",
    ]


def test_a_quiet_run_keeps_what_was_checked(project: Project) -> None:
    result = project.pytest("-q")
    assert ours(result.output) == [" tokenparity ".center(80, "-"), "checked  2 equal to the golden"]


def test_the_header_shows_the_configuration_from_where_pytest_was_started(project: Project) -> None:
    result = project.pytest("../chat.tokenparity.yaml", start="unit")
    assert result.passed(2), result.output
    assert "\ntokenparity: ../tokenparity.yaml: tiny (letters, again)\n" in result.output.replace("\\", "/")


@pytest.mark.parametrize(
    "arguments",
    [["unit"], ["--collect-only"], ["-m", "nothing"], ["--deselect", "chat.tokenparity.yaml"]],
    ids=["other-tests", "collect-only", "nothing-selected", "deselected"],
)
def test_a_run_without_an_item_of_ours_has_no_section(project: Project, arguments: list[str]) -> None:
    project.write("pytest.ini", "[pytest]\nmarkers = nothing\n")
    result = project.pytest(*arguments)
    assert result.code in (0, 5)
    assert ours(result.output) == ["tokenparity: tokenparity.yaml: tiny (letters, again)"]


def test_without_a_configuration_there_is_no_header(project: Project) -> None:
    (project.folder / "tokenparity.yaml").unlink()
    result = project.pytest("unit")
    assert result.passed(1)
    assert "tokenparity:" not in result.output


def test_case_files_without_a_configuration_say_what_is_missing(project: Project) -> None:
    (project.folder / "tokenparity.yaml").unlink()
    result = project.pytest()
    assert "1 passed, 1 error" in result.output
    message = f"no tokenparity.yaml at or above {project.folder}: write one, or name one with the ini option tokenparity_config"
    assert f"\n{message}\n" in result.output
    assert "Traceback" not in result.output


def test_the_nearest_configuration_above_the_start_is_the_one(project: Project) -> None:
    project.write("unit/tokenparity.yaml", letters_config("again"))
    inner = project.pytest("--collect-only", start="unit")
    assert "tokenparity: tokenparity.yaml: tiny (again)\n" in inner.output
    outer = project.pytest("--collect-only", "unit")
    assert "tokenparity: tokenparity.yaml: tiny (letters, again)\n" in outer.output


def test_the_ini_option_names_another_configuration(project: Project) -> None:
    project.write("parity/other.yaml", letters_config("again"))
    project.write("parity/chat.tokenparity.yaml", PLAIN)
    project.write("pytest.ini", "[pytest]\ntokenparity_config = parity/other.yaml\n")
    result = project.pytest("parity", start=".")
    assert "tokenparity: parity/other.yaml: tiny (again)\n" in result.output.replace("\\", "/")
    assert "no golden yet: parity/golden/tiny/chat/plain.json is not there" in result.output


def test_an_ini_option_that_names_no_file_fails_the_case_files(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\ntokenparity_config = gone.yaml\n")
    result = project.pytest()
    assert "1 passed, 1 error" in result.output
    assert "tokenparity: gone.yaml cannot be used (its case files say why)" in result.output
    assert "\ngone.yaml: " in result.output
    assert "Traceback" not in result.output


def test_outcomes_have_their_words(project: Project) -> None:
    project.edit("tokenparity.yaml", "again: {}", "short: {}\n      shouting: {}\n      again: {}")
    project.edit(
        "chat.tokenparity.yaml", "question}", "question, expect: {short: {differs: [unknown], reason: it is short}}}"
    )
    result = project.pytest()
    assert "1 failed, 4 passed" in result.output
    assert "\nchecked  2 equal to the golden, 1 known to differ, 1 failed\n" in result.output


def test_colour_codes_reach_no_junit_file(project: Project) -> None:
    (project.folder / "golden/tiny/chat/plain.json").unlink()
    result = project.pytest("--color=yes", "--junitxml=report.xml", "-k", "letters")
    assert "\x1b[1m\x1b[31mno golden yet" in result.output or "\x1b[31m\x1b[1mno golden yet" in result.output
    report = result.file("report.xml")
    assert "no golden yet: golden/tiny/chat/plain.json is not there" in report
    assert "\x1b" not in report
    assert "#x1B" not in report
    for name, value in (("model", "tiny"), ("engine", "letters"), ("shape", "plain"), ("tokenparity", "failed")):
        assert f'<property name="{name}" value="{value}" />' in report
