"""What the summary counts: what the plugin itself said of a test, whatever marks, properties and workers do to it."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ..harness import PLAIN, Project
from ..real_models import QWEN3
from .test_options import both_kinds, properties, run

PROCESSES = pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one-process", "two-workers"])
CHECKED = "\nchecked  2 equal to the golden, 2 failed\n"


def line_of(output: str, start: str) -> str:
    """The one line that starts so."""
    (line,) = (line for line in output.splitlines() if re.sub(r"\x1b\[\d+m", "", line).startswith(start))
    return line


def add_tests(project: Project, tests: str) -> Project:
    project.write("test_own.py", f"import pytest\n\n\n{tests}")
    return project


# Properties are anyone's

OWN_PROPERTIES = """\
@pytest.mark.parametrize("key", ["tokenparity", "shape", "reason", "model", "seen"])
@pytest.mark.parametrize("value", ["0.1", "equal", "partly checked"])
def test_own(record_property, key, value):
    record_property(key, value)


def test_failing(record_property):
    record_property("tokenparity", "failed")
    pytest.fail("mine")
"""


@PROCESSES
def test_the_properties_of_other_tests_are_no_checks(tmp_path: Path, workers: tuple[str, ...]) -> None:
    project = add_tests(both_kinds(tmp_path), OWN_PROPERTIES)
    result = run(project, "-v", *workers)
    assert "3 failed, 17 passed" in result.output
    assert CHECKED in result.output
    assert "PARTLY CHECKED" not in result.output
    assert "Traceback" not in result.output


KEPT_PROPERTIES = """\
@pytest.fixture(autouse=True)
def mine(record_property):
    record_property("model", "mine")
    record_property("reason", "mine")
    record_property("seen", "mine")


def test_new(tokenparity, record_property):
    record_property("tokenparity", "mine")
    tokenparity.assert_golden("ids", [1, 2, 3], model="tiny")
"""


def test_the_fixture_deletes_no_property_of_others(tmp_path: Path) -> None:
    project = both_kinds(tmp_path, tests="import pytest\n\n\n" + KEPT_PROPERTIES)
    result = run(project, "--junitxml=report.xml", "test_chat.py")
    assert result.passed(1), result.output
    (case,) = ElementTree.parse(project.folder / "report.xml").iter("testcase")
    names = ("model", "reason", "seen", "tokenparity")
    assert properties(case) == [*((name, "mine") for name in names), ("model", "tiny"), ("tokenparity", "equal")]


# A mark hides a failure, not that nothing was compared


def xfail(project: Project) -> Project:
    project.write("chat.tokenparity.yaml", PLAIN.replace("question}\n", "question, marks: [xfail]}\n"))
    return project


def test_xfail_does_not_hide_a_missing_golden(tmp_path: Path) -> None:
    project = xfail(both_kinds(tmp_path))
    (project.folder / "golden/tiny/chat/plain.json").unlink()
    result = run(project, "chat.tokenparity.yaml", "--color=yes")
    assert "2 xfailed" in result.output
    assert "\x1b[31m" in line_of(result.output, "NOTHING WAS CHECKED: 2 not checked")
    reason = "2 items of tiny: no golden yet: golden/tiny/chat/plain.json is not there"
    assert line_of(result.output, f"not checked: {reason}")


def test_xfail_does_not_hide_an_engine_that_cannot_be_asked_beside_one_that_is_known_to_fail(tmp_path: Path) -> None:
    project = xfail(both_kinds(tmp_path))
    project.write("tokenparity.yaml", project.read("tokenparity.yaml") + "      nobody: {type: none}\n")
    result = run(project, "chat.tokenparity.yaml")
    assert "2 xfailed, 1 xpassed" in result.output
    assert "\nchecked  1 equal to the golden, 1 not checked, 1 failed as expected\n" in result.output
    assert "\nnot checked: 1 item of tiny: tokenparity.yaml:" in result.output


XFAILING = """\
@pytest.mark.xfail
def test_model(tokenparity):
    tokenparity.assert_golden("ids", [1], model="unknown")


@pytest.mark.xfail
def test_before(tokenparity):
    1 / 0


@pytest.mark.xfail(run=False)
def test_not_run(tokenparity):
    tokenparity.assert_golden("ids", [1], model="tiny")
"""


@PROCESSES
def test_xfail_does_not_hide_that_a_test_came_to_no_check(tmp_path: Path, workers: tuple[str, ...]) -> None:
    result = run(add_tests(both_kinds(tmp_path), XFAILING), "test_own.py", *workers)
    assert "3 xfailed" in result.output
    assert "\nNOTHING WAS CHECKED: 3 not checked\n" in result.output
    assert "\nnot checked: 1 item: tokenparity.yaml has no model 'unknown' (it has tiny)\n" in result.output
    assert "\nnot checked: 2 items: it is marked xfail, and did not come to its check\n" in result.output


# Tests with the fixture are counted as items are

ENDED = """\
def test_exception(tokenparity):
    tokenparity.assert_golden("mine", [1], model="tiny")
    1 / 0


def test_before(tokenparity):
    1 / 0


@pytest.mark.skip
def test_skipped(tokenparity):
    pass


def test_asks(tokenparity):
    assert tokenparity.engine("tiny", "letters").ids([])  == []


def test_other():
    1 / 0
"""


@PROCESSES
def test_tests_that_end_of_themselves_are_counted(tmp_path: Path, workers: tuple[str, ...]) -> None:
    result = run(add_tests(both_kinds(tmp_path), ENDED), "test_own.py", "--tokenparity-update-new", *workers)
    assert "3 failed, 1 passed, 1 skipped" in result.output
    assert "\nchecked  2 failed, 1 skipped\n" in result.output


def test_a_run_of_tests_that_are_all_skipped_says_that_nothing_was_checked(tmp_path: Path) -> None:
    result = run(add_tests(both_kinds(tmp_path), ENDED), "test_own.py::test_skipped")
    assert "\nNOTHING WAS CHECKED: 1 skipped\n" in result.output
    assert "\nengine " not in result.output


def test_a_test_that_only_asks_an_engine_has_no_count(tmp_path: Path) -> None:
    result = run(add_tests(both_kinds(tmp_path), ENDED), "test_own.py::test_asks")
    assert result.passed(1), result.output
    assert "checked  " not in result.output
    assert "CHECKED" not in result.output


# Workers


@PROCESSES
def test_what_could_not_be_read_is_counted_once_however_many_workers_read_it(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    project = both_kinds(tmp_path)
    broken = PLAIN.replace("question}\n", "qestion}\n")
    project.write("one.tokenparity.yaml", broken)
    project.write("two.tokenparity.yaml", "cases: [")
    result = run(project, *workers)
    assert "2 failed, 2 passed, 2 errors" in result.output
    assert "\nchecked  2 equal to the golden, 2 failed, 2 could not be read\n" in result.output
    alone = run(project, "--color=yes", "one.tokenparity.yaml", *workers)
    assert "\x1b[31m" in line_of(alone.output, "NOTHING WAS CHECKED: 1 could not be read")
    error = line_of(alone.output, "one.tokenparity.yaml:7: cases.plain.messages: no conversation 'qestion'")
    assert "\x1b[31m" in error


CRASHING = """
import os


def crash(ids):
    os._exit(3)


CHANGES["crashing"] = crash
"""


def test_an_item_whose_worker_crashed_is_counted_as_failed(tmp_path: Path) -> None:
    result = run(both_kinds(tmp_path, "crashing", conftest=CRASHING), "-n", "2", "chat.tokenparity.yaml")
    assert "crashed while running" in result.output
    assert "\nchecked  1 equal to the golden, 2 failed\n" in result.output


def test_an_update_says_that_a_crashed_worker_took_its_counts_with_it(tmp_path: Path) -> None:
    project = both_kinds(tmp_path, "crashing", conftest=CRASHING)
    project.edit("tokenparity.yaml", "./none", str(QWEN3))
    result = run(project, "-n", "2", "chat.tokenparity.yaml", "--tokenparity-update")
    assert "\ngoldens that a crashed worker wrote are not counted: see git status\n" in result.output


# Where a skip stands


def test_a_skip_stands_at_the_case_and_at_the_call(tmp_path: Path) -> None:
    project = both_kinds(tmp_path)
    nobody = "      nobody: {type: llama-server, url: 'http://127.0.0.1:9'}\n"
    project.write("tokenparity.yaml", project.read("tokenparity.yaml") + nobody)
    asks = "def test_asks(tokenparity):\n    tokenparity.engine('tiny', 'nobody').ids([])\n"
    add_tests(project, asks)
    result = run(project, "-rs", "--tokenparity-unreachable=skip", "-k", "nobody or asks")
    reason = "nobody cannot be reached: nothing answers at http://127.0.0.1:9"
    assert f"\nSKIPPED [1] chat.tokenparity.yaml:7: {reason}" in result.output
    assert f"\nSKIPPED [1] test_own.py:5: {reason}" in result.output


# Everything deselected


@PROCESSES
@pytest.mark.parametrize(
    "select",
    [
        pytest.param(["-m", "tiny-0.6"], id="no-marker"),
        pytest.param(["-m", "tin"], id="another-name"),
        pytest.param(["-m", 'tokenparity(engine="leters")'], id="no-engine"),
        pytest.param(["-k", "plane", "chat.tokenparity.yaml"], id="no-keyword"),
    ],
)
def test_a_selection_that_leaves_out_every_item_says_so_and_what_there_is(
    tmp_path: Path, select: list[str], workers: tuple[str, ...]
) -> None:
    project = both_kinds(tmp_path, tests="def test_nothing(): pass\n")
    result = run(project, *select, *workers)
    assert "\nNOTHING WAS CHECKED: 2 deselected\n" in result.output
    assert '\nmarkers  tiny; tokenparity(engine="letters" or "shouting")\n' in result.output


@pytest.mark.parametrize(
    "select",
    [
        pytest.param(["-m", "not tiny"], id="left-out-on-purpose"),
        pytest.param(["-m", "not tokenparity(model='tiny') and not (tiny or other)"], id="left-out-in-brackets"),
        pytest.param(["-k", "nothing"], id="another-test"),
        pytest.param(["-m", "slow"], id="a-mark-of-the-project"),
        pytest.param(["--deselect", "chat.tokenparity.yaml"], id="deselected"),
    ],
)
def test_a_selection_of_other_tests_has_no_section(tmp_path: Path, select: list[str]) -> None:
    project = both_kinds(tmp_path, tests="import pytest\n\n\n@pytest.mark.slow\ndef test_nothing(): pass\n")
    project.write("chat.tokenparity.yaml", PLAIN)
    result = run(project, *select)
    assert result.passed(1), result.output
    assert "CHECKED" not in result.output
    assert "markers  " not in result.output
