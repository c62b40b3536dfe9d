"""How a run ends: whatever engines of somebody else's raise then, and whatever stopped it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..harness import Project
from ..real_models import QWEN3
from .test_options import both_kinds, run

ENDING = """
from pytest_tokenparity import Engine, Rendering


class Ending(Engine):
    def __init__(self, name):
        self.name = name

    def render(self, request):
        return Rendering(ids=[1])

    def METHOD(self):
        open("METHOD.txt", "a").write(self.name + " ")
        raise RAISED


letters = pytest_tokenparity_engine


def pytest_tokenparity_engine(config, model, name, options):
    return Ending(name) if name.startswith("ending") else letters(config, model, name, options)
"""


ENDINGS = [
    ("close", "SystemExit(0)"),
    ("describe", "SystemExit(0)"),
    ("version", "GeneratorExit()"),
    ("close", "OSError()"),
]


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one-process", "two-workers"])
@pytest.mark.parametrize(("method", "raised"), ENDINGS)
def test_an_engine_that_raises_at_the_end_hides_no_failure(
    tmp_path: Path, method: str, raised: str, workers: tuple[str, ...]
) -> None:
    conftest = ENDING.replace("METHOD", method).replace("RAISED", raised)
    project = both_kinds(tmp_path, "ending-1", "ending-2", conftest=conftest)
    result = run(project, "--junitxml=report.xml", *workers)
    assert result.code == 1
    assert "4 failed, 2 passed" in result.output
    assert "\nchecked  2 equal to the golden, 4 failed\n" in result.output
    assert (project.folder / "report.xml").exists()
    assert "INTERNALERROR" not in result.output
    assert {*project.read(f"{method}.txt").split()} == {"ending-1", "ending-2"}


@pytest.mark.parametrize("raised", ["SystemExit(0)", "GeneratorExit()", "__import__('asyncio').CancelledError()"])
@pytest.mark.parametrize("update", [(), ("--tokenparity-update",)], ids=["check", "update"])
def test_whatever_an_engine_raises_is_one_message(tmp_path: Path, raised: str, update: tuple[str, ...]) -> None:
    conftest = f"\n\ndef ends(ids):\n    raise {raised}\n\n\nCHANGES['ends'] = ends\n"
    project = both_kinds(tmp_path, "ends", conftest=conftest)
    project.edit("tokenparity.yaml", "./none", str(QWEN3))
    result = run(project, "-k", "ends", *update)
    assert result.code == 1
    name = raised.partition("(0)")[0].rpartition(".")[2].removesuffix("()")
    text = result.output.partition(" plain[tiny-ends] ")[2].lstrip("_\n").partition("\n==")[0]
    assert text.startswith(f"the engine 'ends' raised {name}")
    assert len(text.splitlines()) <= 4
    assert "Traceback" not in result.output
    assert "checked  1 failed\n" in result.output


STOPS = {
    "collection": ("import nothing_of_that_name\n", "errors during collection stopped the run"),
    "ctrl-c": ("def test_it(): raise KeyboardInterrupt\n", "the run was interrupted"),
    "pytest.exit": ("import pytest\n\ndef test_it(): pytest.exit('enough')\n", "the run was interrupted"),
}
"""What stops a run, and what is said of the goldens then."""


@pytest.mark.parametrize(("test", "why"), STOPS.values(), ids=STOPS)
def test_a_run_that_was_stopped_says_that_no_golden_was_looked_at(tmp_path: Path, test: str, why: str) -> None:
    project = both_kinds(tmp_path)
    project.write("test_stops.py", test)
    gone = project.read("golden/tiny/chat/plain.json").replace('"plain"', '"gone"')
    project.write("golden/tiny/chat/gone.json", gone)
    result = run(project, "--tokenparity-prune")
    assert result.code == 2
    assert f"\nno golden was looked at: {why}\n" in result.output
    assert "nothing to delete" not in result.output
    assert (project.folder / "golden/tiny/chat/gone.json").exists()
    updated = run(project, "--tokenparity-update-new")
    assert "orphaned" not in updated.output
    usage = run(project, "--tokenparity-prune", "chat.tokenparity.yaml::gone[tiny-letters]")
    assert usage.code == 4
    assert "\nno golden was looked at: the run ended early, with exit code 4\n" in usage.output


KEEPS_FOLDERS = """
from pathlib import Path


def refuse(self):
    raise PermissionError(13, "Permission denied")


Path.rmdir = refuse
"""


def test_a_golden_that_was_deleted_is_not_said_to_be_kept(tmp_path: Path) -> None:
    project = both_kinds(tmp_path, conftest=KEEPS_FOLDERS)
    gone = project.read("golden/tiny/chat/plain.json").replace("chat.tokenparity", "gone.tokenparity")
    project.write("golden/tiny/gone/plain.json", gone)
    result = run(project, "--tokenparity-prune", "-k", "letters")
    assert result.code == 0, result.output
    assert "\ndeleted  golden/tiny/gone/plain.json\n" in result.output
    assert "kept " not in result.output
    assert not (project.folder / "golden/tiny/gone/plain.json").exists()


# Without pytest's terminal, and with ini options that cannot be


def test_a_run_without_a_terminal_ends_as_one_with_it(tmp_path: Path) -> None:
    result = run(both_kinds(tmp_path), "-p", "no:terminal", "--junitxml=report.xml")
    assert result.code == 1
    assert "INTERNALERROR" not in result.output
    report = result.file("report.xml")
    assert 'errors="0" failures="2" skipped="0" tests="4"' in report
    assert "shouting leaves the golden at token 0" in report


@pytest.mark.parametrize(
    ("patterns", "why"),
    [
        ("./ *.tokenparity.yaml", " './' empty pattern"),
        ("*.tokenparity.yaml ./", " './' empty pattern"),
        ("'*.tokenparity.yaml", " No closing quotation"),
    ],
    ids=["first", "last", "open-quote"],
)
def test_patterns_that_cannot_be_are_one_usage_error(tmp_path: Path, patterns: str, why: str) -> None:
    project = Project(tmp_path, {"test_it.py": "def test_it(): pass\n"})
    project.write("pytest.ini", f"[pytest]\ntokenparity_files = {patterns}\n")
    result = run(project)
    assert result.code == 4
    takes = "ERROR: the ini option tokenparity_files takes patterns of file names, such as *.tokenparity.yaml"
    assert f"{takes}:{why}" in result.output
    assert "Traceback" not in result.output
