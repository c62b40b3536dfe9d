"""`--update-golden`, the short alias: ours where it is free, the project's own where the project has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..harness import LETTERS_CONFTEST, PLAIN, Project, letters_config

OWN_FLAG = """
def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", dest="their_update", default=False)


def pytest_report_header(config):
    return f"their update: {config.option.their_update}"
"""
RECORDING = "NOTHING RECORDED: the run met no case file"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(
        tmp_path,
        {
            "conftest.py": LETTERS_CONFTEST,
            "tokenparity.yaml": letters_config("letters"),
            "chat/chat.tokenparity.yaml": PLAIN,
            "unit/test_unit.py": "def test_unit(): pass\n",
        },
    )


@pytest.mark.parametrize(
    ("arguments", "ini", "environment"),
    [
        pytest.param(["--update-golden", "unit"], "", "", id="before-a-path"),
        pytest.param(["unit", "--update-golden"], "", "", id="after-a-path"),
        pytest.param(["unit", "--update-golden", "--update-golden"], "", "", id="twice"),
        pytest.param(["unit", "--update-golden", "--tokenparity-update"], "", "", id="beside-the-long-name"),
        pytest.param(["unit"], "addopts = -q --update-golden", "", id="addopts"),
        pytest.param(["unit"], "testpaths = unit", "--update-golden", id="PYTEST_ADDOPTS"),
    ],
)
def test_the_alias_means_update_wherever_it_stands(
    project: Project, arguments: list[str], ini: str, environment: str
) -> None:
    project.write("pytest.ini", f"[pytest]\n{ini}\n")
    result = project.pytest(*arguments, PYTEST_ADDOPTS=environment)
    assert result.code == 0, result.output
    assert "1 passed" in result.output
    assert RECORDING in result.output


def test_the_alias_records_beside_a_path_in_two_workers(project: Project) -> None:
    result = project.pytest("-n", "2", "chat", "--update-golden")
    assert result.passed(1), result.output
    assert "goldens  1 new, 0 changed, 0 unchanged, 0 orphaned" in result.output
    assert "golden/tiny/chat/chat/plain.json" in project.files()


def test_the_help_names_the_alias(project: Project) -> None:
    assert "(alias: --update-golden)" in " ".join(project.pytest("--help").output.split())


@pytest.mark.parametrize(
    ("files", "arguments"),
    [
        pytest.param({"conftest.py": LETTERS_CONFTEST + OWN_FLAG}, [], id="the-roots-conftest"),
        pytest.param({"chat/conftest.py": OWN_FLAG}, ["chat"], id="a-folders-conftest"),
        pytest.param({"owner.py": OWN_FLAG}, ["-p", "owner"], id="a-plugin"),
    ],
)
def test_a_projects_own_flag_stays_the_projects(project: Project, files: dict[str, str], arguments: list[str]) -> None:
    for name, text in files.items():
        project.write(name, text)
    before = project.files()
    result = project.pytest(*arguments, "--update-golden", "-k", "plain", PYTHONPATH=".")
    assert result.code == 1
    assert "their update: True" in result.output
    assert "no golden yet: golden/tiny/chat/chat/plain.json is not there" in result.output
    command = "pytest --tokenparity-update 'chat/chat.tokenparity.yaml::plain[tiny-letters]'"
    assert f"  record  {command}\n" in result.output
    assert project.files() == before


def test_beside_a_projects_own_flag_the_long_name_records(project: Project) -> None:
    project.write("conftest.py", LETTERS_CONFTEST + OWN_FLAG)
    result = project.pytest("--tokenparity-update")
    assert result.passed(2), result.output
    assert "their update: False" in result.output
    assert "new      golden/tiny/chat/chat/plain.json" in result.output


@pytest.mark.parametrize(
    ("own", "flag"), [(OWN_FLAG, "--tokenparity-update"), ("", "--update-golden")], ids=["theirs", "ours"]
)
def test_workers_print_the_same_name_as_one_process(project: Project, own: str, flag: str) -> None:
    project.write("conftest.py", LETTERS_CONFTEST + own)
    result = project.pytest("-n", "2", "chat")
    assert result.code == 1
    assert f"  record  pytest {flag} 'chat/chat.tokenparity.yaml::plain[tiny-letters]'\n" in result.output
