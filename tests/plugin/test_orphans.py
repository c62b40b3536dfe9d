"""Goldens whose case is gone: named when updating, deleted when that is asked for, and never mistaken."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ..harness import LETTERS_CONFTEST, PLAIN, QUESTION, Project, Result, letters_config

CONFIG = letters_config("letters") + letters_config("letters").replace("models:\n  tiny:", "  other:")
PLAIN_GOLDENS = {"golden/other/chat/plain.json", "golden/tiny/chat/plain.json"}
GONE_GOLDENS = {"golden/other/gone/case.json", "golden/tiny/gone/case.json"}
TEST_GOLDEN = "golden/tiny/test_ids/mine.json"
GOLDENS = PLAIN_GOLDENS | GONE_GOLDENS | {TEST_GOLDEN}
NOTHING = "no golden is an orphan: nothing to delete"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Two case files and one test, recorded for two models."""
    project = Project(
        tmp_path_factory.mktemp("recorded"),
        {
            "conftest.py": LETTERS_CONFTEST,
            "tokenparity.yaml": CONFIG,
            "chat.tokenparity.yaml": PLAIN,
            "gone.tokenparity.yaml": QUESTION + "cases:\n  case: {messages: question}\n",
            "test_ids.py": "def test_mine(tokenparity):\n    tokenparity.assert_golden('mine', [1, 2], model='tiny')\n",
        },
    )
    result = project.pytest("--tokenparity-update", "-p", "no:cacheprovider")
    assert result.passed(5), result.output
    assert goldens(project) == GOLDENS
    return result


@pytest.fixture
def project(tmp_path: Path, recorded: Result) -> Project:
    shutil.copytree(recorded.folder, tmp_path, dirs_exist_ok=True)
    return Project(tmp_path, {})


def goldens(project: Project) -> set[str]:
    return {name for name in project.files() if name.startswith("golden/")}


def remove_the_file(project: Project) -> None:
    (project.folder / "gone.tokenparity.yaml").unlink()


def rename_the_case(project: Project) -> None:
    project.edit("gone.tokenparity.yaml", "  case:", "  renamed:")


def limit_the_case_to_tiny(project: Project) -> None:
    project.edit("gone.tokenparity.yaml", "{messages: question}", "{messages: question, models: [tiny]}")


def remove_the_model(project: Project) -> None:
    project.write("tokenparity.yaml", letters_config("letters"))


def break_the_file(project: Project) -> None:
    project.edit("gone.tokenparity.yaml", "  case: {", "  renamed: {tool: [], ")


def break_the_yaml(project: Project) -> None:
    project.write("gone.tokenparity.yaml", "cases: {")


def remove_the_test(project: Project) -> None:
    (project.folder / "test_ids.py").unlink()


def change_nothing(project: Project) -> None:
    assert goldens(project) == GOLDENS


@pytest.mark.parametrize(
    ("change", "orphans"),
    [
        (remove_the_file, GONE_GOLDENS),
        (rename_the_case, GONE_GOLDENS),
        (limit_the_case_to_tiny, {"golden/other/gone/case.json"}),
        (remove_the_model, {"golden/other/chat/plain.json", "golden/other/gone/case.json"}),
    ],
    ids=["gone-file", "gone-case", "not-for-that-model", "gone-model"],
)
def test_prune_deletes_what_is_declared_no_more(
    project: Project, change: Callable[[Project], None], orphans: set[str]
) -> None:
    change(project)
    result = project.pytest("--tokenparity-prune", "chat.tokenparity.yaml")
    assert result.code == 0, result.output
    assert {line.split()[1] for line in result.output.splitlines() if line.startswith("deleted ")} == orphans
    assert goldens(project) == GOLDENS - orphans
    assert all(any(folder.iterdir()) for folder in project.folder.glob("golden/**/") if folder.is_dir())


@pytest.mark.parametrize(
    ("change", "arguments"),
    [
        pytest.param(change_nothing, ["-k", "nothing_of_that_name"], id="by-name"),
        pytest.param(change_nothing, ["-m", "other"], id="by-marker"),
        pytest.param(change_nothing, ["--deselect", "gone.tokenparity.yaml"], id="deselected"),
        pytest.param(change_nothing, ["test_ids.py"], id="another-path"),
        pytest.param(break_the_file, [], id="broken-file"),
        pytest.param(break_the_yaml, [], id="broken-yaml"),
        pytest.param(remove_the_test, [], id="a-tests-golden"),
    ],
)
def test_what_was_not_run_is_no_orphan(
    project: Project, change: Callable[[Project], None], arguments: list[str]
) -> None:
    change(project)
    result = project.pytest("--tokenparity-prune", *arguments)
    assert NOTHING in result.output
    assert "deleted" not in result.output
    assert goldens(project) == GOLDENS


def test_a_broken_configuration_makes_no_orphans(project: Project) -> None:
    project.write("tokenparity.yaml", "models: {")
    result = project.pytest("--tokenparity-prune")
    assert result.code == 1
    assert goldens(project) == GOLDENS


def test_a_run_that_only_checks_does_not_speak_of_orphans(project: Project) -> None:
    remove_the_file(project)
    result = project.pytest()
    assert result.passed(3)
    assert "orphan" not in result.output


def test_an_update_names_orphans_and_the_command_that_deletes_them(project: Project) -> None:
    rename_the_case(project)
    result = project.pytest("--tokenparity-update", "-k", "renamed")
    assert result.passed(2), result.output
    section = """
goldens  2 new, 0 changed, 0 unchanged, 2 orphaned
new      golden/other/gone/renamed.json
new      golden/tiny/gone/renamed.json
orphan   golden/other/gone/case.json (pytest --tokenparity-prune deletes it)
orphan   golden/tiny/gone/case.json (pytest --tokenparity-prune deletes it)
"""
    assert section in result.output
    assert goldens(project) >= GOLDENS


def test_prune_beside_an_update_deletes_and_records(project: Project) -> None:
    rename_the_case(project)
    result = project.pytest("--tokenparity-update", "--tokenparity-prune", "-k", "renamed")
    assert result.passed(2), result.output
    assert "goldens  2 new, 0 changed, 0 unchanged, 2 orphaned" in result.output
    assert "deleted  golden/other/gone/case.json\ndeleted  golden/tiny/gone/case.json\n" in result.output
    assert goldens(project) == GOLDENS - GONE_GOLDENS | {name.replace("case", "renamed") for name in GONE_GOLDENS}


def test_prune_obeys_the_guard(project: Project) -> None:
    remove_the_file(project)
    refused = project.pytest("--tokenparity-prune", CI="true")
    assert refused.code == 4
    assert "ERROR: --tokenparity-prune writes goldens, and the environment variable CI is set" in refused.output
    assert goldens(project) == GOLDENS
    forced = project.pytest("--tokenparity-prune", "--tokenparity-force", CI="true")
    assert forced.passed(3), forced.output
    assert goldens(project) == GOLDENS - GONE_GOLDENS


def test_prune_of_a_collection_alone_names_and_deletes_nothing(project: Project) -> None:
    remove_the_file(project)
    before = project.files()
    result = project.pytest("--tokenparity-prune", "--collect-only")
    assert result.code == 0
    assert "orphan   golden/tiny/gone/case.json" in result.output
    assert project.files() == before


def test_prune_in_two_workers_deletes_once(project: Project) -> None:
    remove_the_file(project)
    result = project.pytest("--tokenparity-prune", "-n", "2")
    assert result.passed(3), result.output
    assert result.output.count("deleted  ") == 2
    assert goldens(project) == GOLDENS - GONE_GOLDENS


def test_other_files_in_the_golden_folder_are_left_alone(project: Project) -> None:
    others = {"golden/README.md": "Reviewed by people.\n", "golden/tiny/notes.json": "{}", "golden/tiny/x/y.json": "["}
    for name, text in others.items():
        project.write(name, text)
    remove_the_file(project)
    project.pytest("--tokenparity-prune")
    assert goldens(project) == GOLDENS - GONE_GOLDENS | others.keys()


def test_a_golden_of_a_model_that_the_configuration_never_had_is_no_orphan(project: Project) -> None:
    """Another project's, in a folder that both share."""
    theirs = project.read("golden/tiny/gone/case.json").replace('"model": "tiny"', '"model": "theirs"')
    project.write("golden/theirs/gone/case.json", theirs)
    remove_the_file(project)
    project.pytest("--tokenparity-prune")
    assert goldens(project) == (GOLDENS - GONE_GOLDENS) | {"golden/theirs/gone/case.json"}
