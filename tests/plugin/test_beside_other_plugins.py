"""Plugins that many projects have installed beside this one: alone and all together, for items and for tests alike."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..harness import QUESTION, Project, letters_config
from ..real_models import QWEN3
from .test_options import (
    BOTH,
    GOOD_ITEM,
    GOOD_TEST,
    HEADLINES,
    IN_FULL,
    ITEM,
    ITEMS,
    TEST,
    TESTS,
    both_kinds,
    properties,
    ran,
    report,
)

CHECKED = "checked  2 equal to the golden, 2 failed\n"

SLOW = """
import time

CHANGES["late"] = lambda ids: time.sleep(60) or ids
"""
SLOW_TESTS = """\
import time


def test_letters(tokenparity):
    tokenparity.assert_golden("ids", [1, 2, 3], model="tiny")


def test_late(tokenparity):
    time.sleep(60)
    tokenparity.assert_golden("ids", [1, 2, 3], model="tiny")
"""
FLAKY = """
from pathlib import Path


def first_time(what):
    flag = Path(__file__).with_name(f"{what}.flag")
    if flag.exists():
        return False
    flag.touch()
    return True


CHANGES["flaky"] = lambda ids: ids[:-1] if first_time("item") else ids
"""
FLAKY_TESTS = """\
from pathlib import Path


def test_letters(tokenparity):
    tokenparity.assert_golden("ids", [1, 2, 3], model="tiny")


def test_flaky(tokenparity):
    flag = Path(__file__).with_name("test.flag")
    again = flag.exists()
    flag.touch()
    tokenparity.assert_golden("ids", [1, 2, 3] if again else [1, 2], model="tiny")


def test_shouting(tokenparity):
    tokenparity.assert_golden("ids", [1, 0, 3], model="tiny")
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return both_kinds(tmp_path)


def loaded(output: str) -> set[str]:
    """The names of the plugins in the header."""
    (line,) = (line for line in output.splitlines() if line.startswith("plugins: "))
    return {re.sub(r"-[\d.]+$", "", name) for name in line.removeprefix("plugins: ").split(", ")}


def annotated(output: str) -> dict[str, str]:
    """What GitHub shows at a line of a file, by ``file:line``."""
    found = re.findall(r"::error file=(.+?),line=(\d+)::(.*)", output)
    return {f"{file}:{line}": text.replace("%0A", "\n") for file, line, text in found}


# pytest-randomly


def test_randomly_shuffles_both_kinds_and_keeps_the_items_of_a_model_together(tmp_path: Path) -> None:
    models = letters_config("letters", "shouting") + letters_config("letters", "shouting").replace(
        "models:\n  tiny:", "  other:"
    )
    project = both_kinds(tmp_path)
    project.write("tokenparity.yaml", models.replace(str(QWEN3), "./none"))
    cases = "".join(f"  case-{number}: {{messages: question}}\n" for number in range(5))
    project.write(ITEMS, f"{QUESTION}cases:\n{cases}")
    project.write("more.tokenparity.yaml", f"{QUESTION}cases:\n{cases}")
    tests = "".join(f"def test_{number}(tokenparity): pass\n\n\n" for number in range(10))
    project.write(TESTS, tests)
    orders = []
    for seed in (1, 2, 1):
        result = project.pytest("-p", "randomly", f"--randomly-seed={seed}", "--collect-only", "-q")
        orders.append([line for line in result.output.splitlines() if "::" in line])
    assert orders[0] == orders[2]
    assert orders[0] != orders[1]
    for order in orders:
        assert sorted(order) == sorted(orders[0])
        models_in_order = [name.partition("[")[2].partition("-")[0] for name in order if "[" in name]
        assert models_in_order in ([*["tiny"] * 20, *["other"] * 20], [*["other"] * 20, *["tiny"] * 20])
        tests_in_order = [name for name in order if name.startswith(TESTS)]
        assert tests_in_order != sorted(tests_in_order, key=lambda name: int(name.rpartition("_")[2]))


def test_randomly_changes_no_outcome(project: Project) -> None:
    result = project.pytest("-p", "randomly", "--randomly-seed=3")
    assert "randomly" in loaded(result.output)
    items, tests = ran(project)
    assert (sorted(items), sorted(tests)) == ([*BOTH], [*BOTH])
    assert [text for text in (*IN_FULL, CHECKED) if text not in result.output] == []


# pytest-rerunfailures


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one-process", "two-workers"])
def test_what_passes_when_it_is_run_again_is_counted_as_it_ended(tmp_path: Path, workers: tuple[str, ...]) -> None:
    """Each test is counted once, by its last run, whatever ran before it."""
    project = both_kinds(tmp_path, "flaky", conftest=FLAKY, tests=FLAKY_TESTS)
    result = project.pytest("--reruns", "1", *workers)
    assert "2 failed, 4 passed, 4 rerun" in result.output
    assert "checked  4 equal to the golden, 2 failed\n" in result.output
    assert [headline for headline in HEADLINES if f"\n{headline}\n" not in result.output] == []


def test_a_test_that_is_run_again_has_the_properties_of_that_run_alone(tmp_path: Path) -> None:
    project = both_kinds(tmp_path, "flaky", conftest=FLAKY, tests=FLAKY_TESTS)
    result = project.pytest("--reruns", "1", "--junitxml=report.xml", "-k", "flaky")
    assert "2 passed, 4 deselected, 2 rerun" in result.output
    cases = report(project)
    assert properties(cases["plain[tiny-flaky]"]) == [
        ("model", "tiny"),
        ("engine", "flaky"),
        ("shape", "plain"),
        ("tokenparity", "equal"),
    ]
    assert properties(cases["test_flaky"]) == [("model", "tiny"), ("tokenparity", "equal")]


# pytest-timeout


@pytest.fixture(scope="module")
def timed_out(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str], list[str], str]:
    """An engine and a test that take too long: the output, what the items and the tests did, and the junit file."""
    project = both_kinds(tmp_path_factory.mktemp("late"), "late", conftest=SLOW, tests=SLOW_TESTS)
    result = project.pytest("--timeout=0.5", "--junitxml=report.xml", "-k", "letters or late")
    return result.output, *ran(project), result.file("report.xml")


def test_a_timeout_ends_the_one_that_is_slow_and_the_others_run(
    timed_out: tuple[str, list[str], list[str], str],
) -> None:
    output, items, tests, _ = timed_out
    assert items == ["letters passed", "late failed"]
    assert tests == ["letters passed", "late failed"]
    for name in (ITEM.replace("shouting", "late"), TEST.replace("shouting", "late")):
        assert f"FAILED {name} - Failed: Timeout (>0.5s)" in output


def test_what_nobody_expected_is_a_short_traceback_of_an_item_without_pytests_own_frames(
    timed_out: tuple[str, list[str], list[str], str],
) -> None:
    text = timed_out[0].partition(" plain[tiny-late] ")[2].partition(" test_late ")[0].partition("Captured")[0]
    assert "in <lambda>" in text  # the line that took so long
    assert "_pytest/runner.py" not in text
    assert "pluggy" not in text


def test_what_timed_out_is_counted_as_failed(timed_out: tuple[str, list[str], list[str], str]) -> None:
    assert "checked  2 equal to the golden, 2 failed\n" in timed_out[0]
    assert '<property name="engine" value="late" />' in timed_out[3]


# pytest-cov


def test_coverage_is_measured_of_engines_and_tests(project: Project) -> None:
    result = project.pytest("--cov=.", "--cov-report=term")
    assert ran(project) == ([*BOTH], [*BOTH])
    assert re.search(r"^conftest\.py +\d+ +\d+ +\d+%$", result.output, re.MULTILINE)
    assert re.search(r"^test_chat\.py +\d+ +0 +100%$", result.output, re.MULTILINE)
    assert [text for text in (*IN_FULL, CHECKED) if text not in result.output] == []


# pytest-split


def test_the_groups_of_a_split_hold_every_item_and_test_once(project: Project) -> None:
    project.pytest("--store-durations", "--tb=no")
    assert ran(project) == ([*BOTH], [*BOTH])
    assert [
        name for name in (ITEM, TEST, GOOD_ITEM, GOOD_TEST) if f'"{name}"' not in project.read(".test_durations")
    ] == []
    items, tests = [], []
    for group in ("1", "2"):
        result = project.pytest("--splits", "2", "--group", group, "--splitting-algorithm=least_duration")
        assert f"Running group {group}/2" in result.output
        found = ran(project)
        assert found != ([], [])
        items += found[0]
        tests += found[1]
    assert (sorted(items), sorted(tests)) == ([*BOTH], [*BOTH])


# pytest-github-actions-annotate-failures


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one-process", "two-workers"])
def test_an_annotation_stands_at_the_case_and_at_the_test_and_says_the_finding(
    project: Project, workers: tuple[str, ...]
) -> None:
    result = project.pytest("--tb=no", *workers, GITHUB_ACTIONS="true")
    found = annotated(result.output)
    assert sorted(found) == [f"{ITEMS}:7", f"{TESTS}:9"]
    assert found[f"{ITEMS}:7"].startswith(f"plain[tiny-shouting]\n\n{HEADLINES[0]}")
    assert found[f"{TESTS}:9"].startswith(f"test_shouting\n\n{HEADLINES[1]}")


# All together


def test_all_of_them_together_in_two_workers_change_no_outcome(project: Project) -> None:
    arguments = ["-n", "2", "-p", "randomly", "--timeout=60", "--cov=.", "--splits", "1", "--group", "1"]
    result = project.pytest(*arguments, "--reruns", "1", GITHUB_ACTIONS="true")
    assert loaded(result.output) >= {
        "randomly",
        "rerunfailures",
        "timeout",
        "cov",
        "split",
        "github-actions-annotate-failures",
        "xdist",
        "tokenparity",
    }
    items, tests = ran(project)
    rerun = ["letters passed", "shouting failed", "shouting rerun"]
    assert (sorted(items), sorted(tests)) == (rerun, rerun)
    assert "2 failed, 2 passed, 2 rerun" in result.output
    assert [text for text in (*IN_FULL, CHECKED) if text not in result.output] == []
    assert re.search(r"^conftest\.py +\d+ +\d+ +\d+%$", result.output, re.MULTILINE)
    assert set(annotated(result.output)) == {f"{ITEMS}:7", f"{TESTS}:9"}
    assert "INTERNALERROR" not in result.output
