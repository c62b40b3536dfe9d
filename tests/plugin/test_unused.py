"""Installed and unused, the plugin costs nothing: no heavy import, no line, no fixture that every test pays for."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..harness import LETTERS_CONFTEST, PLAIN, Project, letters_config

HEAVY = {"transformers", "tokenizers", "httpx", "jinja2", "yaml"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, {"test_unit.py": "def test_unit(): pass\n"})


def imported(output: str) -> set[str]:
    """The top-level modules that a run with `-X importtime` names."""
    rows = [line.rpartition("|")[2].strip() for line in output.splitlines() if line.startswith("import time:")]
    return {row.partition(".")[0] for row in rows}


# Other plugins of this interpreter may import what they like: this is about ours.
ALONE = ("-p", "no:anyio", "-p", "no:xdist")


@pytest.mark.parametrize("arguments", [["--collect-only"], []], ids=["collect", "run"])
def test_without_a_configuration_nothing_heavy_is_imported_and_nothing_printed(
    project: Project, arguments: list[str]
) -> None:
    result = project.pytest(*ALONE, *arguments, python=("-X", "importtime"))
    assert result.code == 0, result.output
    names = imported(result.output)
    assert "pytest_tokenparity" in names
    assert not names & HEAVY
    printed = [line for line in result.output.splitlines() if not line.startswith("import time:")]
    mentions = [line for line in printed if "tokenparity" in line]
    assert [line for line in mentions if not line.startswith("plugins: ")] == []


def test_tests_beside_a_configuration_import_no_engine(project: Project) -> None:
    project.write("tokenparity.yaml", letters_config("letters"))
    project.write("chat.tokenparity.yaml", PLAIN)
    result = project.pytest(*ALONE, "--collect-only", python=("-X", "importtime"))
    assert result.code == 0, result.output
    assert imported(result.output) & HEAVY == {"yaml"}


def test_a_run_without_a_server_imports_no_http_client(project: Project) -> None:
    project.write("conftest.py", LETTERS_CONFTEST)
    project.write("tokenparity.yaml", letters_config("letters"))
    project.write("chat.tokenparity.yaml", f"{PLAIN}  again: {{messages: question}}\n")
    assert project.pytest("--tokenparity-update").passed(3)
    result = project.pytest(*ALONE, python=("-X", "importtime"))
    assert result.passed(3)
    assert not imported(result.output) & {"transformers", "httpx"}


def test_no_fixture_is_automatic(project: Project) -> None:
    result = project.pytest("--setup-show")
    assert result.passed(1)
    assert "tokenparity" not in result.output.replace("tokenparity-", "")


def test_the_plugin_can_be_switched_off(project: Project) -> None:
    project.write("tokenparity.yaml", "models: {")
    project.write("chat.tokenparity.yaml", PLAIN)
    result = project.pytest("-p", "no:tokenparity")
    assert result.passed(1)
    assert "tokenparity: " not in result.output
