"""Engines of a conftest are those of its folder: files run together end as each does alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..harness import LETTERS_CONFTEST, PLAIN, Project, letters_config
from ..real_models import QWEN3
from .test_options import IDS, golden, run

PROCESSES = pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one-process", "two-workers"])
FAILING = "def pytest_tokenparity_engine(): raise LookupError('not here')\n"


def project_of(folder: Path, **conftests: str) -> Project:
    """A project with a case file in each of the folders `a`, `a/x` and `b`."""
    project = Project(folder, {"tokenparity.yaml": letters_config("letters").replace(str(QWEN3), "./none")})
    for place in ("a", "a/x", "b"):
        project.write(f"{place}/chat.tokenparity.yaml", PLAIN)
        file = f"{place}/chat.tokenparity.yaml"
        project.write(f"golden/tiny/{place}/chat/plain.json", golden(file, "plain", IDS, 2))
    for place, text in conftests.items():
        project.write(f"{place.replace('_', '/')}/conftest.py".removeprefix("root/"), text)
    return project


@PROCESSES
def test_the_engine_of_one_folder_is_not_that_of_another(tmp_path: Path, workers: tuple[str, ...]) -> None:
    project = project_of(tmp_path, a=LETTERS_CONFTEST)
    alone = run(project, "b")
    assert "no engine type 'letters'" in alone.output
    result = run(project, *workers)
    assert "1 failed, 2 passed" in result.output
    assert "no engine type 'letters'" in result.output


@PROCESSES
def test_a_failure_of_one_folder_is_not_that_of_another(tmp_path: Path, workers: tuple[str, ...]) -> None:
    project = project_of(tmp_path, a=FAILING, b=LETTERS_CONFTEST)
    result = run(project, *workers)
    assert "2 failed, 1 passed" in result.output
    assert "raised LookupError: not here" in result.output


def test_the_nearest_conftest_comes_first_and_one_at_the_root_serves_all_others(tmp_path: Path) -> None:
    short = LETTERS_CONFTEST.replace('"letters": None', '"letters": lambda ids: ids[:-1]')
    project = project_of(tmp_path, root=LETTERS_CONFTEST, a_x=short)
    result = run(project, "-v")
    assert "1 failed, 2 passed" in result.output
    assert "a/x/chat.tokenparity.yaml::plain[tiny-letters] FAILED" in result.output


def test_folders_that_see_the_same_conftests_share_an_engine(tmp_path: Path) -> None:
    made = LETTERS_CONFTEST.replace("    if name in", '    open("made.txt", "a").write("made ")\n    if name in')
    project = project_of(tmp_path, root=made)
    assert run(project).passed(3)
    assert project.read("made.txt") == "made "


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_the_fixture_of_one_folder_has_not_the_engine_of_another(tmp_path: Path, order: tuple[str, str]) -> None:
    project = project_of(tmp_path, a=LETTERS_CONFTEST)
    for place in ("a", "b"):
        project.write(
            f"{place}/test_{place}.py", "def test_it(tokenparity): tokenparity.engine('tiny', 'letters').ids([])\n"
        )
    result = run(project, *(f"{place}/test_{place}.py" for place in order))
    assert "1 failed, 1 passed" in result.output
    assert "no engine type 'letters'" in result.output
