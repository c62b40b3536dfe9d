"""Every option of pytest beside the plugin, a row for each: items of a case file and tests with the fixture do the same.

One project holds both kinds, one that passes (`letters`) and one that fails (`shouting`) of each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ..harness import LETTERS_CONFTEST, QUESTION, Project, Result, letters_config
from ..real_models import QWEN3

ITEMS, TESTS = "chat.tokenparity.yaml", "test_chat.py"
ITEM, TEST = f"{ITEMS}::plain[tiny-shouting]", f"{TESTS}::test_shouting"
GOOD_ITEM, GOOD_TEST = f"{ITEMS}::plain[tiny-letters]", f"{TESTS}::test_letters"
HEADLINES = (
    "shouting leaves the golden at token 0 (44 tokens recorded, 44 rendered)",
    "the test leaves the golden at token 1 (3 tokens recorded, 3 rendered)",
)
"""What the failing item and the failing test say first."""

TABLES = (
    """
            0     1     2     3
  golden    115   121   115   116
  rendered  83    89    83    84
            115 != 83
""",
    """
            0   1   2
  golden    1   2   3
  rendered  1   0   3
                2 != 0
""",
)
COMMANDS = (f"  more    pytest -vv '{ITEM}'\n", f"  more    pytest -vv {TEST}\n")
PLACES = (
    f"  at      {ITEMS}:7: plain[tiny-shouting]\n",
    f"  at      {TESTS}:13: test_shouting, golden 'ids'\n",
)

IDS = [ord(letter) for letter in "system: You are terse.\nuser: What is 2 + 2?\n"]
CASES = QUESTION + "cases:\n  plain: {messages: question, marks: [slow]}\n"
TEST_MODULE = """\
import pytest


@pytest.mark.tokenparity(model="tiny", engine="letters")
def test_letters(tokenparity):
    tokenparity.assert_golden("ids", [1, 2, 3], model="tiny")


@pytest.mark.slow
@pytest.mark.tiny
@pytest.mark.tokenparity(model="tiny", engine="shouting")
def test_shouting(tokenparity):
    tokenparity.assert_golden("ids", [1, 0, 3], model="tiny")
"""
WRITES_DOWN = """

import os

WORKER = []


def pytest_configure(config):
    WORKER[:] = [True] if hasattr(config, "workerinput") else []


def pytest_runtest_logreport(report):
    if report.when == "call" and not WORKER:  # a worker's variables may be those of the run that started this one
        with open(os.path.join(os.path.dirname(__file__), "ran.txt"), "a", encoding="utf-8") as file:
            print(report.nodeid.rpartition("/")[2], report.outcome, file=file)
"""
"""Writes down what ran and how it ended, whatever the terminal shows of it."""


def golden(file: str, case: str, ids: list[int], messages: int | None) -> str:
    """A golden by hand: to have one, no tokenizer is loaded."""
    request = {"messages": messages, "tokens": len(ids), "keep": 0, "append": [[ids, "text"]]}
    recorded = {"engine": "letters"}
    return json.dumps(
        {"format": 1, "model": "tiny", "case": case, "file": file, "recorded": recorded, "requests": [request]}
    )


def both_kinds(folder: Path, *engines: str, conftest: str = "", tests: str = TEST_MODULE) -> Project:
    """A project of both kinds of test; more engines are more items, and ``tests`` other tests."""
    return Project(
        folder,
        {
            "pytest.ini": "[pytest]\nmarkers =\n    slow: takes long\n",
            "conftest.py": LETTERS_CONFTEST + WRITES_DOWN + conftest,
            "tokenparity.yaml": letters_config("letters", "shouting", *engines).replace(str(QWEN3), "./none"),
            ITEMS: CASES,
            TESTS: tests,
            "golden/tiny/chat/plain.json": golden(ITEMS, "plain", IDS, 2),
            "golden/tiny/test_chat/ids.json": golden(TESTS, "ids", [1, 2, 3], None),
            "sub/notes.txt": "",
        },
    )


def run(project: Project, *arguments: str, start: str = ".", ci: bool = False) -> Result:
    """Run pytest with this plugin alone: the others have a module of their own, and take half of the time."""
    xdist = ["-p", "xdist"] if "-n" in arguments else []
    given = ["-p", "tokenparity", *xdist, *arguments]
    if ci:
        return project.pytest(*given, start=start, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", CI="1")
    return project.pytest(*given, start=start, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


def ran(project: Project) -> tuple[list[str], list[str]]:
    """What the items and what the tests did since the last time, in order: `letters passed`."""
    path = project.folder / "ran.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    path.unlink(missing_ok=True)

    def of(file: str) -> list[str]:
        rows = (line.removeprefix(f"{file}::") for line in lines if line.startswith(file))
        return [row.replace("plain[tiny-", "").replace("test_", "").replace("]", "") for row in rows]

    return of(ITEMS), of(TESTS)


def report(project: Project, name: str = "report.xml") -> dict[str, ElementTree.Element]:
    """The test cases of a junit file by their names; the last of each."""
    return {case.attrib["name"]: case for case in ElementTree.parse(project.folder / name).iter("testcase")}


def properties(case: ElementTree.Element) -> list[tuple[str, str]]:
    return [(entry.attrib["name"], entry.attrib["value"]) for entry in case.iter("property")]


BOTH = ("letters passed", "shouting failed")


@dataclass(frozen=True)
class Row:
    """One option: how pytest is started, and what becomes of the items and, alike, of the tests."""

    arguments: tuple[str, ...]
    ran: tuple[str, ...] = BOTH
    code: int = 1
    shown: Iterable[str] = HEADLINES
    hidden: Iterable[str] = ()
    after: bool = False
    """It is a second run: the first has seen both kinds."""
    apart: bool = False
    """Each kind is run alone: where the first failure ends the run."""
    start: str = "."
    ci: bool = False


IN_FULL = tuple(f"\n{headline}\n{table}" for headline, table in zip(HEADLINES, TABLES, strict=True))
SHORT_SUMMARY = tuple(f"FAILED {name} - {headline}\n" for name, headline in zip((ITEM, TEST), HEADLINES, strict=True))
LINES = (f"{ITEMS}:7: {HEADLINES[0]}\n", f"{TESTS}:13: {HEADLINES[1]}\n")
ANSI = ("\x1b",)

ROWS = {
    "m-engine": Row(("-m", 'tokenparity(engine="shouting")'), ran=("shouting failed",)),
    "m-mark-of-the-case": Row(("-m", "slow and not tokenparity(engine='letters')"), ran=("shouting failed",)),
    "k": Row(("-k", "letters"), ran=("letters passed",), code=0, shown=["checked  2 equal to the golden\n"]),
    "node-ids": Row((TEST, ITEM), ran=("shouting failed",), shown=["checked  2 failed\n"]),
    "deselect": Row(("--deselect", ITEM, "--deselect", TEST), ran=("letters passed",), code=0, shown=["2 deselected"]),
    "collect-only": Row(
        ("--collect-only",), ran=(), code=0, shown=["<ParityItem plain[tiny-letters]>", "<Function test_letters>"]
    ),
    "collect-only-q": Row(
        ("--collect-only", "-q"), ran=(), code=0, shown=[f"{GOOD_ITEM}\n{ITEM}\n{GOOD_TEST}\n{TEST}\n"]
    ),
    "q": Row(("-q",), shown=[".F.F  ", *IN_FULL, *PLACES, "checked  2 equal to the golden, 2 failed\n"]),
    "v": Row(("-v",), shown=[f"{GOOD_ITEM} PASSED", f"{GOOD_TEST} PASSED", f"{ITEM} FAILED", f"{TEST} FAILED"]),
    "vv": Row(("-vv",), shown=[*IN_FULL, *SHORT_SUMMARY], hidden=COMMANDS),
    "x": Row(("-x",), apart=True, shown=["stopping after 1 failures"]),
    "x-of-the-failing": Row(("-x", "--ff"), ran=("shouting failed",), after=True, apart=True, shown=["stopping after"]),
    "maxfail-1": Row(("--maxfail=1",), apart=True, shown=["stopping after 1 failures"]),
    "lf": Row(("--lf",), ran=("shouting failed",), after=True, shown=[*HEADLINES, "checked  2 failed\n"]),
    "ff": Row(("--ff",), ran=BOTH[::-1], after=True),
    "sw": Row(("--sw",), apart=True, code=2, shown=["continuing from this test next run"]),
    "rA": Row(
        ("-rA",), shown=[f"PASSED {GOOD_ITEM}\n", f"PASSED {GOOD_TEST}\n", f"FAILED {ITEM} - ", f"FAILED {TEST} - "]
    ),
    "tb-auto": Row(("--tb=auto",), shown=[*IN_FULL, *COMMANDS, *PLACES], hidden=ANSI),
    "tb-long": Row(("--tb=long",), shown=[*IN_FULL, *COMMANDS, *PLACES]),
    "tb-short": Row(("--tb=short",), shown=[*IN_FULL, *COMMANDS, *PLACES]),
    "tb-native": Row(("--tb=native",), shown=[*IN_FULL, *COMMANDS, *PLACES]),
    "tb-line": Row(("--tb=line",), shown=LINES, hidden=TABLES),
    "tb-line-from-a-sub-folder": Row(
        ("--tb=line", ".."), start="sub", shown=[f"../{line}" for line in LINES], hidden=TABLES
    ),
    "tb-no": Row(("--tb=no", "--color=no"), shown=["2 failed, 2 passed"], hidden=[*TABLES, "= FAILURES ="]),
    "color-yes": Row(
        ("--color=yes", "-v"),
        shown=[*(f"\x1b[31m\x1b[1m{headline}\x1b[0m\n" for headline in HEADLINES), f"{ITEM} \x1b[31mFAILED"],
    ),
    "color-no": Row(("--color=no",), shown=IN_FULL, hidden=ANSI),
    "strict-markers": Row(("--strict-markers",)),
    "strict-config": Row(("--strict-config",)),
    "warnings-are-errors": Row(("-W", "error")),
    "import-mode": Row(("--import-mode=importlib",)),
    "rootdir": Row(("--rootdir=..", "-c", "pytest.ini"), shown=[*HEADLINES, *COMMANDS, *PLACES]),
    "sub-folder": Row(
        ("..",),
        start="sub",
        shown=[
            *HEADLINES,
            f"  more    pytest -vv '../{ITEM}'\n",
            f"  more    pytest -vv ../{TEST}\n",
            f"  at      ../{ITEMS}:7: plain[tiny-shouting]\n",
            f"  at      ../{TESTS}:13: test_shouting, golden 'ids'\n",
        ],
    ),
    "two-workers": Row(("-n", "2"), shown=[*IN_FULL, *COMMANDS, *PLACES, "checked  2 equal to the golden, 2 failed\n"]),
    "two-workers-tb-line": Row(("-n", "2", "--tb=line"), shown=LINES, hidden=TABLES),
    "prune": Row(("--tokenparity-prune",), shown=[*HEADLINES, "no golden is an orphan: nothing to delete\n"]),
    "force": Row(("--tokenparity-force",)),
    "ci": Row((), shown=[*IN_FULL, *SHORT_SUMMARY], ci=True),
    "ci-prune-force": Row(("--tokenparity-prune", "--tokenparity-force"), ci=True),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_both_kinds_of_test_do_the_same(tmp_path: Path, row: Row) -> None:
    project = both_kinds(tmp_path)
    if row.after:
        run(project, "--tb=no")
        assert ran(project) == ([*BOTH], [*BOTH])
    before = project.files()
    if row.apart:
        runs = [run(project, *row.arguments, file) for file in (ITEMS, TESTS)]
    else:
        runs = [run(project, *row.arguments, start=row.start, ci=row.ci)]
    items, tests = ran(project)
    if "-n" in row.arguments:  # which worker ends first is chance
        items, tests = sorted(items), sorted(tests)
    assert items == [*row.ran], runs[0].output
    assert tests == [*row.ran], runs[-1].output
    assert {result.code for result in runs} == {row.code}
    output = "".join(result.output for result in runs)
    assert [text for text in row.shown if text not in output] == [], output
    assert [text for text in row.hidden if text in output] == []
    assert "Traceback" not in output
    assert "INTERNALERROR" not in output
    assert project.files() == before


def test_stepwise_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """A failing item is stepped over with --sw-skip as a failing test is."""
    project = both_kinds(tmp_path)
    first = run(project, "--sw")
    assert ran(project) == ([*BOTH], [])
    assert "Interrupted: Test failed, continuing from this test next run" in first.output
    run(project, "--sw", "--sw-skip")
    assert ran(project) == (["shouting failed"], [*BOTH])


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one-process", "two-workers"])
def test_the_junit_file_says_the_same_of_both_kinds_without_colour(tmp_path: Path, workers: tuple[str, ...]) -> None:
    project = both_kinds(tmp_path)
    result = run(project, "--junitxml=report.xml", "--color=yes", *workers)
    assert "\x1b[31m" in result.output
    text = result.file("report.xml")
    assert "\x1b" not in text
    assert "#x1B" not in text
    cases = report(project)
    engine_of = {name: [("engine", name), ("shape", "plain")] for name in ("letters", "shouting")}
    equal, failed = [("tokenparity", "equal")], [("tokenparity", "failed")]
    assert properties(cases["plain[tiny-letters]"]) == [("model", "tiny"), *engine_of["letters"], *equal]
    assert properties(cases["plain[tiny-shouting]"]) == [
        ("model", "tiny"),
        *engine_of["shouting"],
        *failed,
        ("first_divergence", "0"),
    ]
    # IDs that a test made come from no configured engine, and have no shape.
    assert properties(cases["test_letters"]) == [("model", "tiny"), *equal]
    assert properties(cases["test_shouting"]) == [("model", "tiny"), *failed, ("first_divergence", "1")]
    for name, headline, table in zip(("plain[tiny-shouting]", "test_shouting"), HEADLINES, TABLES, strict=True):
        failure = cases[name].find("failure")
        assert failure is not None
        assert failure.attrib["message"] == headline
        assert (failure.text or "").startswith(f"{headline}\n{table}")


def test_an_item_that_raises_what_nobody_expected_has_its_properties_too(tmp_path: Path) -> None:
    """An engine of its own kind whose `render` raises: which model, engine and shape it was stands in the junit file."""
    project = both_kinds(tmp_path, "raising", conftest=RAISING)
    result = run(project, "--junitxml=report.xml", "-k", "raising")
    assert result.code == 1
    assert properties(report(project)["plain[tiny-raising]"])[:3] == [
        ("model", "tiny"),
        ("engine", "raising"),
        ("shape", "plain"),
    ]


RAISING = """

from pytest_tokenparity import Engine


class Raising(Engine):
    name = "raising"

    def render(self, request):
        raise LookupError("no vocabulary")


letters = pytest_tokenparity_engine


def pytest_tokenparity_engine(config, model, name, options):
    return Raising() if name == "raising" else letters(config, model, name, options)
"""


def run_without_the_plugin(project: Project, *arguments: str) -> Result:
    return project.pytest("-p", "no:tokenparity", *arguments)


def test_without_the_plugin_neither_kind_is_checked_and_none_passes(tmp_path: Path) -> None:
    """The hook in a conftest is declared optional: of one that it does not know pluggy makes an error."""
    project = both_kinds(tmp_path)
    project.edit(
        "conftest.py",
        "def pytest_tokenparity_engine(",
        "import pytest\n\n\n@pytest.hookimpl(optionalhook=True)\ndef pytest_tokenparity_engine(",
    )
    before = project.files()
    result = run_without_the_plugin(project)
    assert result.code == 1
    assert ran(project) == ([], [])
    assert "collected 2 items" in result.output
    assert result.output.count("fixture 'tokenparity' not found") == 2
    assert "= tokenparity =" not in result.output
    assert project.files() == before
    assert run_without_the_plugin(project, ITEMS).code == 4  # to pytest it is a file of no kind


def test_without_the_plugin_a_hook_that_is_not_optional_is_pytests_own_error(tmp_path: Path) -> None:
    result = run_without_the_plugin(both_kinds(tmp_path))
    assert result.code == 3
    assert "unknown hook 'pytest_tokenparity_engine' in plugin" in result.output


def test_prune_deletes_the_goldens_of_items_that_are_gone_and_none_of_tests(tmp_path: Path) -> None:
    """A golden of a test is never known to be an orphan: nobody can say which names a function would have used."""
    project = both_kinds(tmp_path)
    project.write("golden/tiny/chat/gone.json", golden(ITEMS, "gone", [1], 1))
    project.write("golden/tiny/test_chat/gone.json", golden(TESTS, "gone", [1], None))
    before = project.files()
    result = run(project, "--tokenparity-prune", "--tokenparity-force", ci=True)
    assert ran(project) == ([*BOTH], [*BOTH])
    assert "deleted  golden/tiny/chat/gone.json\n" in result.output
    assert project.files().keys() == before.keys() - {"golden/tiny/chat/gone.json"}


def test_strict_options_say_the_same_of_both_kinds(tmp_path: Path) -> None:
    """A mark that nobody registered: an error of the case and an error of the module, and no other file stops."""
    project = both_kinds(tmp_path)
    project.write("pytest.ini", "[pytest]\n")
    project.write("test_other.py", "def test_other(): pass\n")
    result = run(project, "--strict-markers", "--strict-config", "--continue-on-collection-errors")
    assert ran(project) == ([], [])
    assert "1 passed, 2 errors" in result.output
    said = "'slow' not found in `markers` configuration option"
    assert f"\n{ITEMS}:7: cases.plain.marks: {said}\n" in result.output
    assert result.output.count(said) >= 2
