"""What an outcome means: passed is seen and equal, `partly checked` is a word of its own, nothing checked is said in red."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ..harness import PLAIN, QUESTION, Project, letters_config
from ..real_models import QWEN3
from .test_options import IDS, golden, properties, run

CONFTEST = '''
from pytest_tokenparity import Engine, Rendering


class Showing(Engine):
    """An engine of somebody else's that shows of a prompt what `shows` gives of its text."""

    def __init__(self, name, shows):
        self.name = name
        self.shows = shows

    def render(self, request):
        return self.shows("".join(f"{message['role']}: {message['content']}\\n" for message in request.messages))


class Nameless(Showing):
    def describe(self):
        raise KeyError("build_info")


def ids(text):
    return [ord(letter) for letter in text]


def raises(text):
    raise LookupError("no vocabulary\\nat all")


NO_IDS, A_COUNT, NOTHING = "it shows text, no token IDs", "it shows the number of tokens alone", "it shows no prompt"
SHOWS = {
    "reference": lambda text: Rendering(ids=ids(text), text=text),
    "again": lambda text: Rendering(ids=ids(text)),
    "text": lambda text: Rendering(text=text, unseen=(NO_IDS,)),
    "count": lambda text: Rendering(count=len(text), unseen=(A_COUNT,)),
    "nothing": lambda text: Rendering(unseen=(NOTHING,)),
    "computed": lambda text: Rendering(ids=ids(text), unseen=("its IDs are computed, not observed",)),
    "silent-text": lambda text: Rendering(text=text),
    "silent-count": lambda text: Rendering(count=len(text)),
    "silent": lambda text: Rendering(),
    "other-text": lambda text: Rendering(text=text.replace("terse", "verbose"), count=len(text), unseen=(NO_IDS,)),
    "other-count": lambda text: Rendering(text=text, count=len(text) + 1, unseen=(A_COUNT,)),
    "other-ids": lambda text: Rendering(ids=ids(text)[:-1], unseen=("its IDs are computed, not observed",)),
    "raising": raises,
    "none": lambda text: None,
    "list": ids,
    "floats": lambda text: Rendering(ids=[1.5]),
}


def pytest_tokenparity_engine(config, model, name, options):
    if name == "nameless":
        return Nameless(name, SHOWS["again"])
    return Showing(name, SHOWS[name]) if name in SHOWS else None
'''
NO_IDS, A_COUNT, NOTHING = "it shows text, no token IDs", "it shows the number of tokens alone", "it shows no prompt"
COMPUTED = "its IDs are computed, not observed"
PARTLY = {"text": NO_IDS, "count": A_COUNT, "nothing": NOTHING, "computed": COMPUTED}
"""Engines that agree in all that they show, and what they do not show."""

SILENT = ["silent-text", "silent-count", "silent"]
"""Engines that show no IDs and do not say so."""

SAYS_NOTHING = "it shows no token IDs"

OTHER = {
    "other-text": (
        "other-text leaves the reference's text at character 16\n"
        "\n"
        "  reference  'em: You are terse.\\nuser: What is'\n"
        "  rendered   'em: You are verbose.\\nuser: What '\n"
        "                          ^\n"
    ),
    "other-count": "other-count counts 45 tokens, the golden has 44\n",
    "other-ids": "other-ids leaves the golden at token 43 (44 tokens recorded, 43 rendered)\n",
}
"""Engines of which something that was seen differs, and what is said of it."""

FAULTS = {
    "raising": "the engine 'raising' raised LookupError: no vocabulary at all (conftest.py:",
    "none": "the engine 'none' must give a Rendering, it gave NoneType",
    "list": "the engine 'list' must give a Rendering, it gave list",
    "floats": "the engine 'floats' must give integers, it gave float 1.5 at token 0",
}
"""Engines of the contract that break it, and what is said of each, as of an engine with `ids` alone."""


def project_of(folder: Path, *engines: str, cases: str = PLAIN) -> Project:
    """A project whose golden is there, with these engines beside the reference."""
    return Project(
        folder,
        {
            "conftest.py": CONFTEST,
            "tokenparity.yaml": letters_config("reference", *engines).replace(str(QWEN3), "./none"),
            "chat.tokenparity.yaml": cases,
            "golden/tiny/chat/plain.json": golden("chat.tokenparity.yaml", "plain", IDS, 2),
        },
    )


def item(engine: str) -> str:
    return f"plain[tiny-{engine}]"


def failure(output: str, title: str) -> str:
    """The text of one failed item."""
    match = re.search(rf"^_+ {re.escape(title)} _+\n(.*?)^[_=-]+ ", output, re.MULTILINE | re.DOTALL)
    assert match, output
    return match[1]


def line_of(output: str, start: str) -> str:
    """The one line that starts so but for its colour, with its colour."""
    (line,) = (line for line in output.splitlines() if re.sub(r"\x1b\[\d+m", "", line).startswith(start))
    return line


@dataclass(frozen=True)
class Mixed:
    """A run of every engine above: what it printed under -v, in dots and from two workers, and its junit file."""

    verbose: str
    dots: str
    workers: str
    junit: dict[str, ElementTree.Element]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    project = project_of(tmp_path_factory.mktemp("mixed"), "again", *PARTLY, *OTHER)
    verbose = run(project, "-v", "--junitxml=report.xml")
    junit = {case.attrib["name"]: case for case in ElementTree.parse(project.folder / "report.xml").iter("testcase")}
    return Mixed(verbose.output, run(project, "--tb=no").output, run(project, "-n", "2").output, junit)


# Partly checked


@pytest.mark.parametrize(("engine", "unseen"), PARTLY.items(), ids=PARTLY)
def test_what_was_not_wholly_seen_has_a_word_of_its_own(mixed: Mixed, engine: str, unseen: str) -> None:
    assert f"chat.tokenparity.yaml::{item(engine)} PARTLY CHECKED " in mixed.verbose
    assert f"partly checked: 1 item of tiny: {unseen}\n" in mixed.verbose
    case = mixed.junit[item(engine)]
    assert [*case] == [case.find("properties")]  # neither failure nor skipped
    assert properties(case) == [
        ("model", "tiny"),
        ("engine", engine),
        ("shape", "plain"),
        ("tokenparity", "partly checked"),
        ("reason", unseen),
        *([("seen", "nothing")] if engine == "nothing" else []),
    ]


def test_the_dots_and_the_last_line_count_it_beside_what_passed(mixed: Mixed) -> None:
    assert "\nchat.tokenparity.yaml ..~~~~FFF " in mixed.dots
    assert "\nchecked  2 equal to the golden, 4 partly checked, 3 failed\n" in mixed.dots
    assert re.search(r"^=+ 3 failed, 2 passed, 4 partly checked in ", mixed.dots, re.MULTILINE)


def test_workers_tell_the_same(mixed: Mixed) -> None:
    assert "\nchecked  2 equal to the golden, 4 partly checked, 3 failed\n" in mixed.workers
    assert re.search(r"^=+ 3 failed, 2 passed, 4 partly checked in ", mixed.workers, re.MULTILINE)
    assert [
        reason for reason in PARTLY.values() if f"partly checked: 1 item of tiny: {reason}\n" not in mixed.workers
    ] == []


@pytest.mark.parametrize(("engine", "text"), OTHER.items(), ids=OTHER)
def test_what_differs_of_what_was_seen_fails(mixed: Mixed, engine: str, text: str) -> None:
    said = failure(mixed.verbose, item(engine))
    assert said.startswith(text)
    assert said.endswith(f"  at      chat.tokenparity.yaml:7: {item(engine)}\n")
    assert dict(properties(mixed.junit[item(engine)]))["tokenparity"] == "failed"


def test_a_run_that_is_partly_checked_alone_ends_well_and_counts_no_pass(tmp_path: Path) -> None:
    result = run(project_of(tmp_path, "text", "count"), "-k", "text or count", "--color=yes")
    assert result.code == 0
    plain = re.sub(r"\x1b\[\d+m", "", result.output)
    assert "\nchecked  2 partly checked\n" in plain
    assert "passed" not in plain
    assert "NOTHING WAS CHECKED" not in plain  # a text and a count were
    assert "\x1b[33m~" in result.output
    assert line_of(result.output, f"partly checked: 1 item of tiny: {NO_IDS}").startswith("\x1b[33m")


@pytest.mark.parametrize("engine", SILENT)
def test_no_ids_are_never_a_pass_even_where_the_engine_does_not_say_so(tmp_path: Path, engine: str) -> None:
    result = run(project_of(tmp_path, engine), "-k", engine, "-v")
    assert f"{item(engine)} PASSED" not in result.output
    assert " 1 partly checked" in result.output
    assert f"\npartly checked: 1 item of tiny: {SAYS_NOTHING}\n" in result.output
    assert "equal to the golden" not in result.output


def test_a_text_beside_a_reference_without_one_is_said_not_to_be_compared(tmp_path: Path) -> None:
    project = project_of(tmp_path, "other-text")
    project.edit("conftest.py", "Rendering(ids=ids(text), text=text)", "Rendering(ids=ids(text))")
    result = run(project, "-v")
    reasons = f"{NO_IDS}; its text is not compared: the reference shows none"
    assert f"\npartly checked: 1 item of tiny: {reasons}\n" in result.output


def test_a_known_difference_of_a_count_is_partly_checked_too(tmp_path: Path) -> None:
    cases = PLAIN.replace("question}\n", "question, expect: {other-count: {differs: [unknown], reason: one more}}}\n")
    result = run(project_of(tmp_path, "other-count", cases=cases), "-v")
    assert f"{item('other-count')} PARTLY CHECKED" in result.output
    assert "\nchecked  1 equal to the golden, 1 partly checked\n" in result.output


def test_a_reference_that_shows_no_ids_records_nothing(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    project.edit("conftest.py", "Rendering(ids=ids(text), text=text)", "Rendering(text=text, unseen=(NO_IDS,))")
    before = project.files()
    result = run(project, "--tokenparity-update")
    assert result.code == 1
    assert "\nnothing recorded: the reference 'reference' shows no token IDs\n" in result.output
    assert project.files() == before


def test_a_test_that_asks_such_an_engine_for_ids_fails_without_a_traceback(tmp_path: Path) -> None:
    project = project_of(tmp_path, "count")
    project.write(
        "test_ids.py",
        "def test_ids(tokenparity):\n"
        "    tokenparity.engine('tiny', 'count').ids([{'role': 'user', 'content': 'Hi'}])\n",
    )
    result = run(project, "test_ids.py")
    assert "1 failed" in result.output
    assert failure(result.output, "test_ids").startswith(f"count shows no token IDs: {A_COUNT}\n")
    assert "Traceback" not in result.output


# Nothing checked


@pytest.fixture
def nobody() -> str:
    """The address of a port on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def with_nobody(project: Project, url: str) -> Project:
    """The project with a server that does not answer, after its other engines."""
    project.write(
        "tokenparity.yaml", project.read("tokenparity.yaml") + f"      nobody: {{type: llama-server, url: '{url}'}}\n"
    )
    return project


def test_skipped_and_unreachable_are_counted_aloud(tmp_path: Path, nobody: str) -> None:
    project = with_nobody(project_of(tmp_path), nobody)
    failed = run(project)
    skipped = run(project, "--tokenparity-unreachable=skip", "--color=yes")
    reason = f"not checked: 1 item of tiny: nobody cannot be reached: nothing answers at {nobody}: Connection refused"
    assert (failed.code, skipped.code) == (1, 0)
    for result in (failed, skipped):
        assert "\nchecked  1 equal to the golden, 1 not checked\n" in result.output
        assert line_of(result.output, reason)
        assert "NOTHING WAS CHECKED" not in result.output
    assert line_of(skipped.output, reason).startswith("\x1b[31m")


@pytest.mark.parametrize(
    ("select", "counts"),
    [
        pytest.param("nobody", r"1 not checked", id="unreachable"),
        pytest.param("nothing", r"1 partly checked", id="nothing-shown"),
        pytest.param("nobody or nothing", r"1 partly checked, 1 not checked", id="both"),
    ],
)
def test_a_run_in_which_nothing_at_all_was_checked_says_so_in_red(
    tmp_path: Path, nobody: str, select: str, counts: str
) -> None:
    project = with_nobody(project_of(tmp_path, "nothing"), nobody)
    result = run(project, "--tokenparity-unreachable=skip", "--color=yes", "-k", select)
    line = line_of(result.output, "NOTHING WAS CHECKED")
    assert re.fullmatch(rf"(\x1b\[\d+m)+NOTHING WAS CHECKED: {counts}\x1b\[0m", line)
    assert "\x1b[31m" in line
    assert "equal to the golden" not in result.output


def test_a_run_of_cases_that_are_all_skipped_says_that_nothing_was_checked(tmp_path: Path) -> None:
    project = project_of(tmp_path, "again", cases=PLAIN.replace("question}\n", "question, marks: [skip]}\n"))
    result = run(project, "--color=yes")
    assert "2 skipped" in result.output
    assert "\x1b[31m" in line_of(result.output, "NOTHING WAS CHECKED: 2 skipped")


def test_a_difference_that_a_mark_expects_is_counted_as_such(tmp_path: Path) -> None:
    project = project_of(tmp_path, "other-count", cases=PLAIN.replace("question}\n", "question, marks: [xfail]}\n"))
    result = run(project, "-k", "other-count")
    assert "1 xfailed" in result.output
    assert "\nchecked  1 failed as expected\n" in result.output


# Engines that break their contract


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run(project_of(tmp_path_factory.mktemp("faulty"), *FAULTS)).output


@pytest.mark.parametrize(("engine", "message"), FAULTS.items(), ids=FAULTS)
def test_a_fault_of_an_engine_with_a_render_of_its_own_is_one_line(faulty: str, engine: str, message: str) -> None:
    text = failure(faulty, item(engine))
    assert text.startswith(message)
    assert text.endswith(f"  at      chat.tokenparity.yaml:7: {item(engine)}\n")
    assert len(text.splitlines()) <= 4


def test_every_fault_is_counted(faulty: str) -> None:
    assert "4 failed, 1 passed" in faulty
    assert "\nchecked  1 equal to the golden, 4 failed\n" in faulty


def test_an_engine_that_cannot_say_what_it_is_stops_nothing(tmp_path: Path) -> None:
    result = run(project_of(tmp_path, "nameless"))
    assert result.passed(2), result.output
    assert "\nchecked  2 equal to the golden\n" in result.output
    assert "\nengine   nameless" in result.output
    assert "Traceback" not in result.output


# Warnings

RECORDED = '{"messages": [{"role": "user", "content": "Hi"}], "tool_choice": "auto"}\n'
SAID = "recorded.jsonl:1: `tool_choice` is ignored here, and changes the prompt on some engines"
ERRORS = {
    "of-the-class": (["-W", "error::pytest_tokenparity.TokenParityWarning"], ""),
    "of-the-class-in-the-ini": ([], "filterwarnings = error::pytest_tokenparity.TokenParityWarning\n"),
    "all": (["-W", "error"], ""),
    "all-from-two-workers": (["-W", "error", "-n", "2"], ""),
}


def warning_project(folder: Path, ini: str = "") -> Project:
    """A case that makes a warning between two files that make none, and a case beside it."""
    cases = f"{QUESTION}cases:\n  plain: {{messages: question}}\n"
    project = project_of(folder, cases=f"{cases}  recorded: {{requests: recorded.jsonl}}\n")
    ids = [ord(letter) for letter in "user: Hi\n"]
    for file in ("a", "z"):
        project.write(f"{file}.tokenparity.yaml", cases)
        project.write(f"golden/tiny/{file}/plain.json", golden(f"{file}.tokenparity.yaml", "plain", IDS, 2))
    project.write("golden/tiny/chat/recorded.json", golden("chat.tokenparity.yaml", "recorded", ids, 1))
    project.write("recorded.jsonl", RECORDED)
    project.write("pytest.ini", f"[pytest]\n{ini}")
    return project


def test_a_warning_changes_no_outcome_and_names_its_class(tmp_path: Path) -> None:
    result = run(warning_project(tmp_path))
    assert result.passed(4), result.output
    assert "4 passed, 1 warning" in result.output
    assert f"chat.tokenparity.yaml:8: TokenParityWarning: {SAID}\n" in result.output


def test_a_warning_can_be_silenced_by_its_class(tmp_path: Path) -> None:
    result = run(warning_project(tmp_path), "-W", "ignore::pytest_tokenparity.TokenParityWarning")
    assert result.passed(4)
    assert "TokenParityWarning" not in result.output
    assert "1 warning" not in result.output


@pytest.mark.parametrize(("arguments", "ini"), ERRORS.values(), ids=ERRORS)
def test_a_project_can_turn_warnings_into_errors_of_one_line(tmp_path: Path, arguments: list[str], ini: str) -> None:
    result = run(warning_project(tmp_path, ini), *arguments)
    assert result.code == 1
    assert re.search(rf"^_+ ERROR collecting .* _+\n{re.escape(SAID)}\n=", result.output, re.MULTILINE)
    assert "Traceback" not in result.output
    assert "1 error" in result.output


def test_a_warning_that_is_an_error_stops_no_other_file_and_no_other_case(tmp_path: Path) -> None:
    result = run(warning_project(tmp_path), "-W", "error", "-v")
    for file in ("a", "chat", "z"):
        assert f"{file}.tokenparity.yaml::plain[tiny-reference] PASSED" in result.output
    assert "3 passed, 1 error" in result.output
    assert "\nchecked  3 equal to the golden, 1 could not be read\n" in result.output
