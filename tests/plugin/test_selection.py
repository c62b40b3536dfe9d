"""Which items there are and how they are picked: node ids, `-k`, `-m`, `--lf`, and what a case says of itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ..harness import LETTERS_CONFTEST, QUESTION, Project, Result, letters_config

CONFTEST = LETTERS_CONFTEST + '\nCHANGES["again"] = None\n'
CONFIG = letters_config("letters", "again") + letters_config("letters").replace("models:\n  tiny:", "  qwen3-0.6b:")
CHAT = (
    QUESTION
    + "cases:\n"
    + "  plain: {messages: question, marks: [slow]}\n"
    + "  off: {messages: question, template_kwargs: {enable_thinking: false}, models: [tiny]}\n"
    + "  session: {session: question, shape: long.one, engines: [letters]}\n"
)
TOOLS = (
    QUESTION
    + "cases:\n"
    + "  tools: {messages: question, tools: [{type: function, function: {name: f, parameters: {}}}], engines: [letters]}\n"
)
CHAT_ITEMS = [
    "chat.tokenparity.yaml::plain[tiny-letters]",
    "chat.tokenparity.yaml::plain[tiny-again]",
    "chat.tokenparity.yaml::off[tiny-letters]",
    "chat.tokenparity.yaml::off[tiny-again]",
    "chat.tokenparity.yaml::session[tiny-letters]",
    "chat.tokenparity.yaml::plain[qwen3-0.6b-letters]",
    "chat.tokenparity.yaml::session[qwen3-0.6b-letters]",
]
TOOLS_ITEMS = ["tools.tokenparity.yaml::tools[tiny-letters]", "tools.tokenparity.yaml::tools[qwen3-0.6b-letters]"]
ALL_ITEMS = [*CHAT_ITEMS[:5], TOOLS_ITEMS[0], *CHAT_ITEMS[5:], TOOLS_ITEMS[1]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Two case files for two models, recorded."""
    project = Project(
        tmp_path_factory.mktemp("recorded"),
        {
            "pytest.ini": "[pytest]\naddopts = --strict-markers\nmarkers =\n    slow: takes long\n",
            "conftest.py": CONFTEST,
            "tokenparity.yaml": CONFIG,
            "chat.tokenparity.yaml": CHAT,
            "tools.tokenparity.yaml": TOOLS,
        },
    )
    result = project.pytest("--tokenparity-update", "-p", "no:cacheprovider")
    assert result.passed(9), result.output
    return result


@pytest.fixture
def project(tmp_path: Path, recorded: Result) -> Project:
    shutil.copytree(recorded.folder, tmp_path, dirs_exist_ok=True)
    return Project(tmp_path, {})


def collected(project: Project, *arguments: str) -> list[str]:
    """The node ids that a run would run, in its order."""
    output = project.pytest("--collect-only", "-q", *arguments).output
    return [line for line in output.splitlines() if "::" in line]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param([], ALL_ITEMS, id="all-model-by-model"),
        pytest.param([CHAT_ITEMS[5]], [CHAT_ITEMS[5]], id="node-id"),
        pytest.param([CHAT_ITEMS[6], CHAT_ITEMS[3]], [CHAT_ITEMS[6], CHAT_ITEMS[3]], id="node-ids"),
        pytest.param(["chat.tokenparity.yaml::off"], CHAT_ITEMS[2:4], id="case-of-every-engine"),
        pytest.param(["-k", "tools"], TOOLS_ITEMS, id="k-case"),
        pytest.param(["-k", "qwen3-0.6b"], [*CHAT_ITEMS[5:], TOOLS_ITEMS[1]], id="k-model"),
        pytest.param(["-m", "qwen3_0_6b"], [*CHAT_ITEMS[5:], TOOLS_ITEMS[1]], id="m-model"),
        pytest.param(["-m", "tiny and not slow"], [*CHAT_ITEMS[2:5], TOOLS_ITEMS[0]], id="m-and-marks"),
        pytest.param(["-m", "slow"], [*CHAT_ITEMS[:2], CHAT_ITEMS[5]], id="m-marks"),
        pytest.param(["-m", 'tokenparity(engine="again")'], [CHAT_ITEMS[1], CHAT_ITEMS[3]], id="m-engine"),
        pytest.param(
            ["-m", 'tokenparity(model="qwen3-0.6b")'], [*CHAT_ITEMS[5:], TOOLS_ITEMS[1]], id="m-model-keyword"
        ),
        pytest.param(["-m", 'tokenparity(shape="tools")'], TOOLS_ITEMS, id="m-shape-tools"),
        pytest.param(["-m", 'tokenparity(shape="thinking_off")'], CHAT_ITEMS[2:4], id="m-shape-thinking-off"),
        pytest.param(["-m", 'tokenparity(shape="long.one", model="tiny")'], [CHAT_ITEMS[4]], id="m-shape-of-ones-own"),
    ],
)
def test_items_are_picked_as_any_test_is(project: Project, arguments: list[str], expected: list[str]) -> None:
    assert collected(project, *arguments) == expected


def test_a_node_id_with_brackets_runs_that_item_alone(project: Project) -> None:
    result = project.pytest("-v", CHAT_ITEMS[5])
    assert result.passed(1)
    assert f"{CHAT_ITEMS[5]} PASSED" in result.output


def test_items_keep_their_model_together_and_other_tests_their_places(project: Project) -> None:
    project.write("a_test.py", "def test_a(): pass\n")
    project.write("mid_test.py", "def test_mid(): pass\n")
    assert collected(project) == [
        "a_test.py::test_a",
        *ALL_ITEMS[:7],
        "mid_test.py::test_mid",
        *ALL_ITEMS[7:],
    ]


def test_last_failed_runs_only_what_failed(project: Project) -> None:
    (project.folder / "golden/tiny/chat/off.json").unlink()
    (project.folder / "golden/qwen3-0.6b/tools/tools.json").unlink()
    failed = [CHAT_ITEMS[2], CHAT_ITEMS[3], TOOLS_ITEMS[1]]
    first = project.pytest()
    assert "3 failed, 6 passed" in first.output
    assert collected(project, "--lf") == failed
    again = project.pytest("--lf")
    assert "3 failed" in again.output
    assert "passed" not in again.output
    assert collected(project, "--ff")[:3] == failed


def test_a_single_failed_item_is_all_that_last_failed_runs(project: Project) -> None:
    (project.folder / "golden/qwen3-0.6b/tools/tools.json").unlink()
    assert "1 failed, 8 passed" in project.pytest().output
    result = project.pytest("--lf", "-v")
    assert "1 failed" in result.output
    assert f"{TOOLS_ITEMS[1]} FAILED" in result.output
    assert "passed" not in result.output


def test_first_failure_stops_the_run(project: Project) -> None:
    shutil.rmtree(project.folder / "golden")
    assert "1 failed in" in project.pytest("-x").output


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "models: [tiny]",
            "models: [tiney]",
            "chat.tokenparity.yaml:8: cases.off.models[0]: no model 'tiney' in tokenparity.yaml (did you mean 'tiny'?)",
        ),
        (
            "engines: [letters]",
            "engines: [leters]",
            "chat.tokenparity.yaml:9: cases.session.engines[0]: no engine 'leters' of this case's models (did you mean 'letters'?)",
        ),
        (
            "models: [tiny]",
            "models: []",
            "chat.tokenparity.yaml:8: cases.off.models: an empty list: the case would never run",
        ),
    ],
    ids=["model", "engine", "empty"],
)
def test_a_case_that_would_never_run_is_a_collection_error(project: Project, old: str, new: str, message: str) -> None:
    project.edit("chat.tokenparity.yaml", old, new)
    result = project.pytest("--collect-only")
    assert result.code == 1
    assert "ERROR collecting chat.tokenparity.yaml" in result.output
    assert f"\n{message}\n" in result.output
    assert "Traceback" not in result.output
    assert "tools[tiny-letters]" in result.output
    assert "plain[tiny-letters]" in result.output  # the other cases of the file are there


def test_other_tests_run_beside_a_broken_case_but_not_beside_a_broken_module(project: Project) -> None:
    project.edit("chat.tokenparity.yaml", "models: [tiny]", "models: [none]")
    beside = project.pytest("-q")
    assert beside.code == 1
    assert "7 passed, 1 error" in beside.output
    project.write("test_broken.py", "import a_module_that_is_not_there\n")
    stopped = project.pytest("-q")
    assert stopped.code == 2
    assert "Interrupted: 2 errors during collection" in stopped.output


def test_other_file_names_are_case_files_where_the_ini_says_so(project: Project) -> None:
    project.write("more.tokenparity.yml", TOOLS)
    project.write("mine.parity", TOOLS)
    assert [item for item in collected(project) if item.startswith("m")] == [
        "more.tokenparity.yml::tools[tiny-letters]",
        "more.tokenparity.yml::tools[qwen3-0.6b-letters]",
    ]
    project.write("pytest.ini", "[pytest]\ntokenparity_files = *.parity\nmarkers = slow\n")
    assert collected(project) == ["mine.parity::tools[tiny-letters]", "mine.parity::tools[qwen3-0.6b-letters]"]
