"""Bad input: one clear message with its place, nothing written, and everything beside it still runs.

A project holds dozens of bad things, each beside good ones, and pytest runs in it once or twice: none of them may stop
the run. The rows then look at what was said. Which message belongs to which fault in detail is for the unit tests.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

from ..harness import LETTERS_CONFTEST, PLAIN, QUESTION, Project, Result, letters_config
from ..real_models import QWEN3

TEST_OK = "def test_ok():\n    pass\n"
TEXT = "system: You are terse.\nuser: What is 2 + 2?\n"
"""What the engine `letters` renders of the question."""


class Fault(NamedTuple):
    """One row of a table: the fault in words, what is written, and what is said of it."""

    what: str
    written: str | bytes
    said: str

    @property
    def name(self) -> str:
        """The fault's words as a name for files, cases, models and engines."""
        return re.sub(r"[^a-z0-9]+", "-", self.what.lower()).strip("-")


def by_what(fault: Fault) -> str:
    return fault.what


class Said(NamedTuple):
    """The text that one collection error or failure has in the terminal, under its title."""

    title: str
    lines: tuple[str, ...]


def all_said(result: Result) -> list[Said]:
    """Every error and failure of a run, blank lines left out."""
    sections: list[Said] = []
    for part in re.split(r"^_{3,} (?=\S)", result.output, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        body = re.split(r"^(?:={3,}|_{3,}) ", body, flags=re.MULTILINE)[0]
        lines = tuple(line.rstrip() for line in body.splitlines() if line.strip())
        sections.append(Said(title.rstrip("_ "), lines))
    return sections


def said_of(result: Result, title: str) -> list[tuple[str, ...]]:
    return [said.lines for said in all_said(result) if said.title == title]


def short_summary(result: Result) -> list[str]:
    _, _, summary = result.output.partition("short test summary info")
    return [line.rstrip() for line in summary.splitlines() if line.startswith(("ERROR ", "FAILED "))]


def passed(result: Result) -> set[str]:
    """The node ids that passed in a run with `-v`."""
    return set(re.findall(r"^(\S+) PASSED ", result.output, flags=re.MULTILINE))


def shows_a_traceback(result: Result) -> bool:
    return re.search(r"Traceback|INTERNALERROR|^E  |^\S+:\d+: in |^> ", result.output, flags=re.MULTILINE) is not None


def golden(case: str, file: str, model: str = "tiny") -> str:
    """A golden by hand: what the engine `letters` renders of the question."""
    return json.dumps(
        {
            "format": 1,
            "model": model,
            "case": case,
            "file": file,
            "recorded": {"engine": "letters"},
            "requests": [{"messages": 2, "tokens": 44, "keep": 0, "append": [[[*map(ord, TEXT)], TEXT]]}],
        }
    )


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that is taken, on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert isinstance(port, int)
        yield port


# Case files and requests

HEAD = """\
conversations:
  question:
    - {role: system, content: You are terse.}
    - {role: user, content: "What is 2 + 2?"}
tools:
  get_weather: {type: function, function: {name: get_weather}}
cases:
  good: {messages: question}
"""
"""What a bad case stands after: on one line, it is on line 9."""
PLACE = "FILE:9: cases.bad"
HALF = "half of a surrogate pair"
NUL = "NUL inside a string: llama.cpp and tokenizers cut or refuse it"
ROLES = "system, developer, user, assistant, tool, function, ipython"
TWINS = "  bad: {messages: question}\n  Bad: {messages: question}"
BAD_CASES = [
    Fault(
        "an unknown key",
        "  bad: {message: question}",
        "FILE:9: cases.bad: unknown key 'message' (did you mean 'messages'?)",
    ),
    Fault(
        "a case of the wrong type",
        "  bad: question",
        f"{PLACE}: expected a mapping with `messages`, `session` or `requests`, found the string 'question'",
    ),
    Fault(
        "a value of the wrong type",
        "  bad: {messages: question, add_generation_prompt: no}",
        f"{PLACE}.add_generation_prompt: expected true or false, found the string 'no' "
        "(YAML 1.2: only `true` and `false` are booleans)",
    ),
    Fault(
        "a conversation that is not there",
        "  bad: {messages: qestion}",
        f"{PLACE}.messages: no conversation 'qestion' in this file (did you mean 'question'?)",
    ),
    Fault(
        "a tool that is not there",
        "  bad: {messages: question, tools: [get_wether]}",
        f"{PLACE}.tools[0]: no tool 'get_wether' in this file (did you mean 'get_weather'?)",
    ),
    Fault(
        "a model that is not there",
        "  bad: {messages: question, models: [tinny]}",
        f"{PLACE}.models[0]: no model 'tinny' in tokenparity.yaml (did you mean 'tiny'?)",
    ),
    Fault(
        "an engine that is not there",
        "  bad: {messages: question, engines: [leters]}",
        f"{PLACE}.engines[0]: no engine 'leters' of this case's models (did you mean 'letters'?)",
    ),
    Fault(
        "an expectation of an engine that is not there",
        "  bad: {messages: question, expect: {leters: {differs: [unknown], reason: r}}}",
        f"{PLACE}.expect.leters: this case has no such engine (did you mean 'letters'?)",
    ),
    Fault(
        "a mark that is not there",  # the run has --strict-markers
        "  bad: {messages: question, marks: [solw]}",
        f"{PLACE}.marks: 'solw' not found in `markers` configuration option",
    ),
    Fault(
        "messages and a session",
        "  bad: {messages: question, session: question}",
        f"{PLACE}.session: a case has one of `messages`, `session`, `requests`; found `messages` and `session`",
    ),
    Fault(
        "session and requests",
        "  bad: {session: question, requests: []}",
        f"{PLACE}.requests: a case has one of `messages`, `session`, `requests`; found `session` and `requests`",
    ),
    Fault(
        "none of messages, session and requests",
        "  bad: {tools: [get_weather]}",
        f"{PLACE}: a case has one of `messages`, `session`, `requests`; found none of them",
    ),
    Fault(
        "a forbidden name",
        "  a/b: {messages: question}",
        "FILE:9: cases.a/b: the case name 'a/b': use letters, digits and . _ + -, starting with a letter or digit",
    ),
    Fault(
        "a name that ends with a dot",
        "  bad.: {messages: question}",
        "FILE:9: cases.bad.: the case name 'bad.' ends with a dot, which Windows drops from file names",
    ),
    Fault(
        "a name of a Windows device",
        "  nul: {messages: question}",
        "FILE:9: cases.nul: the case name 'nul' is a device name on Windows",
    ),
    Fault(
        "two names that differ by case alone",
        TWINS,
        "FILE:10: cases.Bad: 'bad' and 'Bad' differ by case alone: one golden on some disks",
    ),
    Fault(
        "a message without a role",
        "  bad: {messages: [{content: a}]}",
        f"{PLACE}.messages[0]: a message without `role` (one of {ROLES})",
    ),
    Fault(
        "an unknown role",
        "  bad:\n    messages:\n      - {role: user, content: a}\n      - {role: usr, content: a}",
        f"FILE:12: cases.bad.messages[1].role: unknown role 'usr' (known are {ROLES})",
    ),
    Fault(
        "content of the wrong type",
        "  bad: {messages: [{role: user, content: 5}]}",
        f"{PLACE}.messages[0].content: content must be a string, null or a list of parts, found 5",
    ),
    Fault(
        "a NUL in content",
        r'  bad: {messages: [{role: user, content: "a\0b"}]}',
        f"{PLACE}.messages[0].content: {NUL}",
    ),
    Fault(
        "an empty message list",
        "  bad: {messages: []}",
        f"{PLACE}.messages: the list of messages is empty: a request needs at least one",
    ),
    Fault(
        "a session without a request point",
        "  bad: {session: [{role: system, content: s}, {role: assistant, content: a}]}",
        f"{PLACE}.session: no message of the user and no tool result here: no request would be sent",
    ),
    Fault(
        "a JSON Lines file that is not there",
        "  bad: {requests: gone.jsonl}",
        f"{PLACE}.requests: 'gone.jsonl' cannot be read: No such file or directory",
    ),
    Fault(
        "a folder in the place of a JSON Lines file",
        "  bad: {requests: ../cases}",
        f"{PLACE}.requests: '../cases' cannot be read: Is a directory",
    ),
    Fault(
        "an empty JSON Lines file",
        "  bad: {requests: empty.jsonl}",
        f"{PLACE}.requests: cases/empty.jsonl is empty: it needs one chat body a line",
    ),
    Fault(
        "a broken line in a JSON Lines file",
        "  bad: {requests: broken.jsonl}",
        "cases/broken.jsonl:2: not JSON: Expecting ':' delimiter at character 23",
    ),
    Fault(
        "an empty line in a JSON Lines file",
        "  bad: {requests: gap.jsonl}",
        "cases/gap.jsonl:2: an empty line; every line holds one chat body",
    ),
    Fault(
        "a line that is no chat body",
        "  bad: {requests: number.jsonl}",
        "cases/number.jsonl:2: expected a chat body (an object with `messages`), found the number 5",
    ),
    Fault(
        "a lone surrogate in a JSON Lines file",
        "  bad: {requests: surrogate.jsonl}",
        f"cases/surrogate.jsonl:1: messages[0].content: {HALF} inside a string: it is not text",
    ),
    Fault(
        "a NUL in a JSON Lines file",
        "  bad: {requests: nul.jsonl}",
        f"cases/nul.jsonl:1: messages[0].content: {NUL}",
    ),
    Fault(
        "a JSON Lines file that is not UTF-8",
        "  bad: {requests: latin.jsonl}",
        "cases/latin.jsonl:1: not UTF-8: byte 0xe9 cannot stand here",
    ),
    Fault(
        "endless nesting in a JSON Lines file",
        "  bad: {requests: deep.jsonl}",
        "cases/deep.jsonl:1: nested without end",
    ),
]
"""Faults of one case of a file: the others of the file run."""

LINE = '{"messages": [{"role": "user", "content": "a"}]}\n'
JSON_LINES: Mapping[str, str | bytes] = {
    "empty.jsonl": "",
    "broken.jsonl": LINE + '{"messages": [{"role" "user", "content": "a"}]}\n',
    "gap.jsonl": LINE + "\n" + LINE,
    "number.jsonl": LINE + "5\n",
    "surrogate.jsonl": LINE.replace('"a"', '"\\ud83d"'),
    "nul.jsonl": LINE.replace('"a"', '"\\u0000"'),
    "latin.jsonl": LINE.replace('"a"', '"caf\u00e9"').encode("latin-1"),
    "deep.jsonl": LINE.replace('"a"', "[" * 100_000 + "]" * 100_000),
}

BOMB = "cases:\n  a: &a {messages: [x]}\n" + "".join(
    f"  {chr(97 + n)}: &{chr(97 + n)} {{" + ", ".join(f"k{k}: *{chr(96 + n)}" for k in range(9)) + "}\n"
    for n in range(1, 9)
)
BAD_FILES = [
    Fault(
        "broken YAML",
        HEAD + "  bad: {messages: question\n",
        "FILE:10: not YAML: did not find expected ',' or '}' at column 1 (while parsing a flow mapping); "
        "a value that holds `: ` or `, ` needs quotes",
    ),
    Fault(
        "a duplicate key",
        HEAD + "  good: {messages: question}\n",
        "FILE:9: the key 'good' stands twice (first on line 8)",
    ),
    Fault(
        "an unknown key at the top",
        HEAD.replace("tools:", "tool:"),
        "FILE:5: unknown key 'tool' (did you mean 'tools'?)",
    ),
    Fault("a list at the top", "- cases\n", "FILE:1: expected a mapping with `cases`, found a list"),
    Fault("cases of the wrong type", "cases: [a]\n", "FILE:1: cases: expected a mapping of case names, found a list"),
    Fault("no cases", QUESTION, "FILE:1: no case here: name at least one under `cases:`"),
    Fault(
        "a tag that builds an object",
        HEAD + "  bad: !!python/object/apply:os.mkdir [built]\n",
        "FILE:9: the tag 'tag:yaml.org,2002:python/object/apply:os.mkdir' is not allowed here",
    ),
    Fault("an alias bomb", BOMB, "FILE:2: aliases make this file larger than 1,000,000 values"),
    Fault(
        "an alias inside itself",
        "cases: &a\n  bad: *a\n",
        "FILE:1: an alias inside the value that it names: this would never end",
    ),
    Fault("endless nesting", HEAD + "  bad: " + "[" * 500 + "]" * 500 + "\n", "FILE:9: nested more than 100 deep"),
    Fault(
        "Latin-1",
        HEAD.replace("terse", "tr\u00e8s terse").encode("latin-1"),
        "FILE:3: not UTF-8: byte 0xe8 cannot stand here; save the file as UTF-8",
    ),
    Fault(
        "UTF-16 with its byte-order mark",
        HEAD.encode("utf-16"),
        "FILE:1: not UTF-8: byte 0xff cannot stand here; save the file as UTF-8",
    ),
    Fault("an empty file", "", "FILE:1: the file is empty; it needs `cases:`"),
    Fault("only a comment", "# later\n", "FILE:1: the file is empty; it needs `cases:`"),
    Fault(
        "a lone surrogate",
        HEAD + r'  bad: {messages: [{role: user, content: "\ud83d"}]}' + "\n",
        f"FILE:9: {HALF}: no text holds it, and no engine can be sent it",
    ),
    Fault(
        "a NUL byte",
        HEAD + "  bad: {messages: [{role: user, content: a\0}]}\n",
        "FILE:9: not YAML: the character U+0000 cannot stand here as it is; write it as an escape in double quotes",
    ),
    Fault(
        "goldens that collide with those of its twin",
        HEAD,
        "FILE:1: goldens-that-collide-with-those-of-its-twin.tokenparity.yml beside it would have the same goldens; "
        "rename one of them",
    ),
]
"""Faults of a whole file."""

GOOD_FILES: Mapping[str, bytes] = {
    "byte-order-mark": b"\xef\xbb\xbf" + HEAD.encode(),
    "crlf": HEAD.replace("\n", "\r\n").encode(),
    "both": b"\xef\xbb\xbf" + HEAD.replace("\n", "\r\n").encode(),
}
"""What an editor on Windows writes is no fault."""


def case_file(fault: Fault) -> str:
    return f"cases/{fault.name}.tokenparity.yaml"


class Run(NamedTuple):
    """One run, and the files of its project before and after it."""

    result: Result
    before: dict[str, bytes]
    after: dict[str, bytes]

    @classmethod
    def of(cls, project: Project, *arguments: str, hub: str | None = None) -> Run:
        """Run pytest with ``-v`` in a wide terminal; ``hub`` is the address of a Hub that may be asked."""
        before = project.files()
        result = project.pytest(
            *("-p", "tokenparity", "-v", "--strict-markers"),
            *arguments,
            COLUMNS="2000",  # no line of the short summary is cut
            PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",  # to import the other plugins beside ours takes as long as the run
            HF_HOME=str(project.folder.parent / "hub"),
            HF_HUB_OFFLINE="0" if hub else "1",
            HF_ENDPOINT=hub or "https://huggingface.co",
        )
        return cls(result, before, project.files())


WRITING = ("--tokenparity-update", "--tokenparity-prune")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """One project, with a golden for everything that is broken now; pytest records in it, and then checks."""
    files: dict[str, str | bytes] = {
        "conftest.py": LETTERS_CONFTEST,
        "tokenparity.yaml": letters_config(),
        "test_ok.py": TEST_OK,
        "cases/test_between.py": TEST_OK,
        "last.tokenparity.yaml": PLAIN,
        **{f"cases/{name}.tokenparity.yaml": content for name, content in GOOD_FILES.items()},
        **{f"cases/{name}": content for name, content in JSON_LINES.items()},
        **{case_file(fault): HEAD + str(fault.written) + "\n" for fault in BAD_CASES},
        **{case_file(fault): fault.written for fault in BAD_FILES},
        "cases/goldens-that-collide-with-those-of-its-twin.tokenparity.yml": HEAD,
    }
    for fault in [*BAD_CASES, *BAD_FILES]:
        # BOMB: read again to look for orphans takes seconds. TWINS: the first of the two is sound, and is recorded.
        if fault.written not in (BOMB, TWINS):
            files[f"golden/tiny/cases/{fault.name}/bad.json"] = golden("bad", case_file(fault))
    project = Project(tmp_path_factory.mktemp("cases"), files)
    return Run.of(project, *WRITING), Run.of(project)


@pytest.mark.parametrize("fault", [*BAD_CASES, *BAD_FILES], ids=by_what)
def test_a_fault_in_a_case_file_is_one_message_with_its_place(runs: tuple[Run, Run], fault: Fault) -> None:
    file = case_file(fault)
    message = fault.said.replace("FILE", file)
    for result, _, _ in runs:
        assert said_of(result, f"ERROR collecting {file}") == [(message,)]
        (line,) = [line for line in short_summary(result) if line.startswith(f"ERROR {file}")]
        assert line.endswith(f" - {message}")


@pytest.mark.parametrize("fault", BAD_CASES, ids=by_what)
def test_the_other_cases_of_its_file_run(runs: tuple[Run, Run], fault: Fault) -> None:
    for result, _, _ in runs:
        assert f"{case_file(fault)}::good[tiny-letters]" in passed(result)


@pytest.mark.parametrize("name", GOOD_FILES)
def test_a_byte_order_mark_and_crlf_are_no_faults(runs: tuple[Run, Run], name: str) -> None:
    for result, _, _ in runs:
        assert f"cases/{name}.tokenparity.yaml::good[tiny-letters]" in passed(result)
        assert said_of(result, f"ERROR collecting cases/{name}.tokenparity.yaml") == []


def test_the_other_files_run_and_the_run_fails(runs: tuple[Run, Run]) -> None:
    beside = {"test_ok.py::test_ok", "cases/test_between.py::test_ok", "last.tokenparity.yaml::plain[tiny-letters]"}
    for result, _, _ in runs:
        assert result.code == 1
        assert beside <= passed(result)
        assert not shows_a_traceback(result)
        assert "Interrupted" not in result.output
        assert "FAILED" not in result.output


def test_what_is_broken_is_not_recorded_and_what_was_recorded_before_stays(runs: tuple[Run, Run]) -> None:
    recording, checking = runs
    ran = {node for node in passed(recording.result) if "tokenparity.yaml::" in node}
    of_those = {"golden/tiny/" + re.sub(r"\.tokenparity\.yaml::(.+)\[.*", r"/\1.json", node) for node in ran}
    assert recording.after.keys() - recording.before.keys() == of_those
    assert {name: recording.after[name] for name in recording.before} == recording.before
    assert checking.after == checking.before


# The configuration

MODEL = f"tokenizer: {QWEN3}, engines: {{letters: }}"
# An alias bomb takes seconds to be refused, and is met by the same reader: one in a case file is enough.
BAD_CONFIGS = [
    Fault(
        "broken YAML",
        f"models:\n  tiny: {{{MODEL}\n",
        "tokenparity.yaml:3: not YAML: did not find expected ',' or '}' at column 1 (while parsing a flow mapping); "
        "a value that holds `: ` or `, ` needs quotes",
    ),
    Fault(
        "a duplicate key",
        f"models:\n  tiny: {{{MODEL}}}\n  tiny: {{{MODEL}}}\n",
        "tokenparity.yaml:3: the key 'tiny' stands twice (first on line 2)",
    ),
    Fault(
        "an unknown key",
        f"models:\n  tiny:\n    {{{MODEL}, templte: t.jinja}}\n",
        "tokenparity.yaml:3: models.tiny: unknown key 'templte' (did you mean 'template'?)",
    ),
    Fault(
        "an unknown key at the top",
        f"golden: here\nmodels: {{tiny: {{{MODEL}}}}}\n",
        "tokenparity.yaml:1: unknown key 'golden' (did you mean 'golden_dir'?)",
    ),
    Fault(
        "an unknown option of an engine",
        f"models:\n  tiny:\n    tokenizer: {QWEN3}\n    engines:\n      llama-server: {{ulr: 'http://localhost'}}\n",
        "tokenparity.yaml:5: models.tiny.engines.llama-server: unknown key 'ulr' (did you mean 'url'?)",
    ),
    Fault(
        "a value of the wrong type",
        "models:\n  tiny: {tokenizer: 5, engines: {letters: }}\n",
        "tokenparity.yaml:2: models.tiny.tokenizer: expected a string, found the number 5 (put it in quotes)",
    ),
    Fault(
        "models of the wrong type",
        "models: [tiny]\n",
        "tokenparity.yaml:1: models: expected a mapping of model names, found a list",
    ),
    Fault(
        "a tag that builds an object",
        f"models:\n  tiny: {{{MODEL}, clock: !!python/object/apply:os.mkdir [built]}}\n",
        "tokenparity.yaml:2: the tag 'tag:yaml.org,2002:python/object/apply:os.mkdir' is not allowed here",
    ),
    Fault("endless nesting", f"models: {'{a: ' * 500}{'}' * 500}\n", "tokenparity.yaml:1: nested more than 100 deep"),
    Fault(
        "Latin-1",
        "# mod\u00e8les\nmodels:\n".encode("latin-1"),
        "tokenparity.yaml:1: not UTF-8: byte 0xe8 cannot stand here; save the file as UTF-8",
    ),
    Fault("an empty file", "", "tokenparity.yaml:1: the file is empty; it needs `models:`"),
    Fault(
        "a forbidden name",
        f"models:\n  org/tiny: {{{MODEL}}}\n",
        "tokenparity.yaml:2: models.org/tiny: the model name 'org/tiny': use letters, digits and . _ + -, "
        "starting with a letter or digit",
    ),
    Fault(
        "two names that differ by case alone",
        f"models:\n  tiny: {{{MODEL}}}\n  Tiny: {{{MODEL}}}\n",
        "tokenparity.yaml:3: models.Tiny: 'tiny' and 'Tiny' differ by case alone: one file on some disks",
    ),
    Fault(
        "two pairs that make one id",
        f"models:\n  a: {{{MODEL.replace('letters', 'b-c')}}}\n  a-b: {{{MODEL.replace('letters', 'c')}}}\n",
        "tokenparity.yaml:3: models.a-b.engines.c: model 'a-b' with engine 'c' and model 'a' with engine 'b-c' make one "
        "id, a-b-c; rename one",
    ),
    Fault(
        "a marker of pytest's",
        f"models:\n  skip: {{{MODEL}}}\n",
        "tokenparity.yaml:2: models.skip: the marker 'skip' is pytest's own; set another with `marker:`",
    ),
    Fault(
        "a marker that is registered already",
        f"models:\n  slow: {{{MODEL}}}\n",
        "tokenparity.yaml:2: models.slow: the marker 'slow' is registered already, by this project or another plugin; "
        "set another with `marker:`",
    ),
]
FIXTURE_TEST = "def test_ids(tokenparity):\n    tokenparity.assert_golden('ids', [1], model='tiny')\n"


@pytest.fixture(scope="module")
def config_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A configuration is read once for a run, so that every bad one needs a project of its own."""

    def run(fault: Fault) -> Run:
        project = Project(
            tmp_path_factory.mktemp("config"),
            {
                "conftest.py": LETTERS_CONFTEST,
                "pytest.ini": "[pytest]\nmarkers = slow: of the project\n",
                "tokenparity.yaml": fault.written,
                "test_ok.py": TEST_OK,
                "test_ids.py": FIXTURE_TEST,
                "chat.tokenparity.yaml": PLAIN,
                "golden/tiny/chat/plain.json": golden("plain", "chat.tokenparity.yaml"),
                "golden/tiny/gone/plain.json": golden("plain", "gone.tokenparity.yaml"),
            },
        )
        return Run.of(project, *WRITING)

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(map(by_what, BAD_CONFIGS), pool.map(run, BAD_CONFIGS), strict=True))


@pytest.mark.parametrize("fault", BAD_CONFIGS, ids=by_what)
def test_a_fault_in_the_configuration_is_said_by_the_case_files_and_the_fixture(
    config_runs: dict[str, Run], fault: Fault
) -> None:
    result, before, after = config_runs[fault.what]
    assert result.code == 1
    assert said_of(result, "ERROR collecting chat.tokenparity.yaml") == [(fault.said,)]
    assert said_of(result, "test_ids") == [(fault.said, "  at      test_ids.py:2: test_ids")]
    assert passed(result) == {"test_ok.py::test_ok"}
    assert not shows_a_traceback(result)
    assert after == before


@pytest.mark.parametrize("content", ["byte-order mark", "CRLF"])
def test_a_byte_order_mark_and_crlf_are_no_faults_of_a_configuration(tmp_path: Path, content: str) -> None:
    text = letters_config()
    written = "\ufeff" + text if content == "byte-order mark" else text.replace("\n", "\r\n")
    project = Project(
        tmp_path,
        {
            "conftest.py": LETTERS_CONFTEST,
            "tokenparity.yaml": written,
            "chat.tokenparity.yaml": PLAIN,
            "golden/tiny/chat/plain.json": golden("plain", "chat.tokenparity.yaml"),
        },
    )
    assert project.pytest().passed(1)


def test_a_configuration_that_is_named_and_not_there_is_one_message(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        {
            "pytest.ini": "[pytest]\ntokenparity_config = conf/parity.yaml\n",
            "test_ok.py": TEST_OK,
            "chat.tokenparity.yaml": PLAIN,
        },
    )
    result, before, after = Run.of(project, *WRITING)
    message = "conf/parity.yaml: cannot be read: No such file or directory"
    assert said_of(result, "ERROR collecting chat.tokenparity.yaml") == [(message,)]
    assert passed(result) == {"test_ok.py::test_ok"}
    assert (result.code, shows_a_traceback(result), after) == (1, False, before)


# Models

RENDERS = """
def raises(conversation, tools=None, **template_kwargs):
    return conversation[0]["contents"]


def number(conversation, tools=None, **template_kwargs):
    return 5


def half(conversation, tools=None, **template_kwargs):
    return chr(0xD83D)


def leaves(conversation, tools=None, **template_kwargs):
    raise SystemExit("usage: renders FILE")


text = "not a function"
"""
SCRIPT = "import sys\n\nsys.exit('usage: script FILE')\n"  # without `if __name__ == "__main__":`
ENGINES = """
ANSWERS = {
    "floats": [1, 2.5], "text": "abc", "nothing": None, "negative": [1, -2], "batch": [[1, 2]], "flags": [True],
}


class Answers(Letters):
    def ids(self, conversation, tools=None, **template_kwargs):
        return ANSWERS[self.name]


def leave():
    raise SystemExit("no licence")


def pytest_tokenparity_engine(config, model, name, options):
    if name == "leaves":
        leave()
    if name in ANSWERS:
        return Answers(name)
    if name in CHANGES:
        return Letters(name, CHANGES[name])
"""


def transformers(tokenizer: object = QWEN3, more: str = "") -> str:
    return f"{{tokenizer: {tokenizer}, {more}engines: {{engine: {{type: transformers}}}}}}"


def client(render: str) -> str:
    """A model whose client makes the string; nobody is ever asked to tokenize it."""
    options = f"type: client-completion, url: 'http://127.0.0.1:1', render: '{render}'"
    return f"{{tokenizer: {QWEN3}, engines: {{engine: {{{options}}}}}}}"


def own(name: str) -> str:
    return f"{{tokenizer: {QWEN3}, engines: {{{name}: }}}}"


AT = "tokenparity.yaml:LINE: models.NAME"
UNSET = "the environment variable NO_SUCH is not set; set it, or give a default: ${NO_SUCH:-...}"
NEEDS = "it needs tokenizer.json and tokenizer_config.json"
GIVE_A_FOLDER = "a folder is given as a path relative to the configuration, such as ./"
CANNOT = f"{AT}.engines.engine: `render: RENDER` cannot be imported: "
BAD_MODELS = [
    Fault("an unset variable in a tokenizer", transformers("'${NO_SUCH}/qwen'"), f"{AT}.tokenizer: {UNSET}"),
    Fault("an unset variable in a template", transformers(more="template: '${NO_SUCH}', "), f"{AT}.template: {UNSET}"),
    Fault(
        "an unset variable in an address",
        f"{{tokenizer: {QWEN3}, engines: {{llama-server: {{url: '${{NO_SUCH}}/v1'}}}}}}",
        f"{AT}.engines.llama-server: {UNSET}",
    ),
    Fault(
        "a tokenizer folder that is missing",
        transformers("./gone"),
        f"{AT}.tokenizer: the folder ./gone is not there (looked at FOLDER/gone)",
    ),
    Fault(
        "a tokenizer folder that is empty",
        transformers("./empty"),
        f"{AT}.tokenizer: the folder FOLDER/empty holds no tokenizer: {NEEDS}",
    ),
    Fault(
        "a template that is missing",
        transformers(more="template: gone.jinja, "),
        f"{AT}.template: FOLDER/gone.jinja cannot be read: No such file or directory",
    ),
    Fault(
        "a folder in the place of a template",
        transformers(more="template: empty, "),
        f"{AT}.template: FOLDER/empty cannot be read: Is a directory",
    ),
    Fault(
        "a template that is not UTF-8",
        transformers(more="template: latin.jinja, "),
        f"{AT}.template: FOLDER/latin.jinja is not UTF-8",
    ),
    Fault(
        "a type that is not there",
        f"{{tokenizer: {QWEN3}, engines: {{engine: {{type: lama-server}}}}}}",
        f"{AT}.engines.engine: no engine type 'lama-server' (did you mean 'llama-server'?); an engine of your own is "
        "a class (`type: module:Class`), or comes from the hook pytest_tokenparity_engine in a conftest.py",
    ),
    Fault(
        "a render that is no name of a function",
        client("renders"),
        f"{AT}.engines.engine: `render` must be `module:function`, found 'renders'",
    ),
    Fault(
        "a render of a module that is not there",
        client("nowhere:render"),
        CANNOT.replace("RENDER", "nowhere:render") + "ModuleNotFoundError: No module named 'nowhere'",
    ),
    Fault(
        "a render that its module has not",
        client("renders:rendr"),
        CANNOT.replace("RENDER", "renders:rendr") + "AttributeError: module 'renders' has no attribute 'rendr'",
    ),
    Fault(
        "a render of a module that raises",
        client("broken:render"),
        CANNOT.replace("RENDER", "broken:render") + "ZeroDivisionError: division by zero (broken.py:1)",
    ),
    Fault(
        "a render that is no function",
        client("renders:text"),
        f"{AT}.engines.engine: `render: renders:text` is str, not a function",
    ),
    Fault(
        "a render that raises",
        client("renders:raises"),
        "engine: `render` raised KeyError: 'contents' (renders.py:2)",
    ),
    Fault(
        "a render that returns no string",
        client("renders:number"),
        "engine: `render` must return the prompt as a string, it returned int",
    ),
    Fault(
        "an engine that gives floats",
        own("floats"),
        "the engine 'floats' must give integers, it gave float 2.5 at token 1",
    ),
    Fault(
        "an engine that gives text",
        own("text"),
        "the engine 'text' must give a list of token IDs, it gave str: 'abc'",
    ),
    Fault(
        "an engine that gives nothing",
        own("nothing"),
        "the engine 'nothing' must give a list of token IDs, it gave NoneType: None",
    ),
    Fault(
        "an engine that gives a negative",
        own("negative"),
        "the engine 'negative' gave a negative token ID, -2, at token 1",
    ),
    Fault(
        "an engine that gives a batch",
        own("batch"),
        "the engine 'batch' must give integers, it gave list [1, 2] at token 0",
    ),
    Fault(
        "an engine that gives flags",
        own("flags"),
        "the engine 'flags' must give integers, it gave bool True at token 0",
    ),
]
"""Models whose reference gives nothing: alike whether it is to record or to be compared."""
HUB_OFFLINE = Fault("a Hub that may not be asked", transformers("nobody/nothing"), "")
NO_TEMPLATE = Fault("a tokenizer folder without a template", transformers("./bare"), "")
SYNTAX_ERROR = Fault("a template with a syntax error", transformers(more="template: bad.jinja, "), "")
RAISING_TEMPLATE = Fault(
    "a template that raises",
    f"{{tokenizer: {QWEN3}, template: raising.jinja, engines: {{transformers: , letters: }}}}",
    "no system prompts here",
)
NO_ADDRESS = Fault(
    "an address that is none", f"{{tokenizer: {QWEN3}, engines: {{llama-server: {{url: 'localhost:8080'}}}}}}", ""
)
DAMAGED = Fault("a damaged tokenizer behind another reference", "{tokenizer: ./damaged, engines: {letters: }}", "")
OTHER_MODELS = [HUB_OFFLINE, NO_TEMPLATE, SYNTAX_ERROR, RAISING_TEMPLATE, NO_ADDRESS, DAMAGED]
MODELS = [*BAD_MODELS, *OTHER_MODELS]


@pytest.fixture(scope="module")
def model_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """All bad models around a good one, one case: pytest records; then, with a golden for each, it checks."""
    folder = tmp_path_factory.mktemp("models")
    models = "".join(f"  {fault.name}: {fault.written!s}\n" for fault in MODELS)
    settings = json.loads((QWEN3 / "tokenizer_config.json").read_text(encoding="utf-8"))
    del settings["chat_template"]
    project = Project(
        folder / "project",
        {
            "conftest.py": LETTERS_CONFTEST + ENGINES,
            "tokenparity.yaml": f"models:\n{models}  tiny: {own('letters')}\n  edited: {transformers()}\n",
            "chat.tokenparity.yaml": PLAIN,
            "test_ok.py": TEST_OK,
            "renders.py": RENDERS.lstrip(),
            "broken.py": "1 / 0\n",
            "empty/README.md": "",
            "bare/tokenizer_config.json": json.dumps(settings),
            "bare/tokenizer.json": (QWEN3 / "tokenizer.json").read_bytes(),
            "damaged/tokenizer_config.json": json.dumps(settings),
            "damaged/tokenizer.json": '{"version": "1.0", ',
            "latin.jinja": b"{# caf\xe9 #}",
            "bad.jinja": "{{ messages }}\n{% if %}\n",
            "raising.jinja": "{{ raise_exception('no system prompts here') }}",
        },
    )
    recording = Run.of(project, *WRITING)
    for fault in [*BAD_MODELS, HUB_OFFLINE, NO_TEMPLATE, SYNTAX_ERROR, NO_ADDRESS, DAMAGED]:
        project.write(f"golden/{fault.name}/chat/plain.json", golden("plain", "chat.tokenparity.yaml", fault.name))
    project.edit("golden/edited/chat/plain.json", '"You are terse.', '"You are chatty.')
    return recording, Run.of(project)


def engine_of(fault: Fault) -> str:
    """The first engine of a model."""
    match = re.search(r"engines: \{([a-z-]+):", str(fault.written))
    assert match
    return match[1]


def said_of_model(run: Run, fault: Fault) -> tuple[str, ...]:
    (lines,) = said_of(run.result, f"plain[{fault.name}-{engine_of(fault)}]")
    return lines


def line_of_model(fault: Fault) -> int:
    return MODELS.index(fault) + 2


@pytest.mark.parametrize("fault", BAD_MODELS, ids=by_what)
def test_a_fault_of_a_model_is_one_message_with_its_place(model_runs: tuple[Run, Run], fault: Fault) -> None:
    for run in model_runs:
        said = fault.said.replace("LINE", str(line_of_model(fault))).replace("NAME", fault.name)
        said = said.replace("FOLDER", str(run.result.folder))
        at = f"  at      chat.tokenparity.yaml:7: plain[{fault.name}-{engine_of(fault)}]"
        assert said_of_model(run, fault) == (said, at)


def test_a_hub_that_may_not_be_asked_is_one_message(model_runs: tuple[Run, Run]) -> None:
    line, name = line_of_model(HUB_OFFLINE), HUB_OFFLINE.name
    for run in model_runs:
        message, at = said_of_model(run, HUB_OFFLINE)
        start = f"tokenparity.yaml:{line}: models.{name}.tokenizer: no tokenizer from the Hub's nobody/nothing: "
        assert message.startswith(start)  # between the two, in words of Transformers' version
        assert message.endswith(f"; {GIVE_A_FOLDER}nobody/nothing")
        assert at.startswith("  at      chat.tokenparity.yaml:7: plain[")


def test_a_template_that_raises_is_recorded_as_a_refusal_and_its_message_shown(model_runs: tuple[Run, Run]) -> None:
    recording, _ = model_runs
    name = RAISING_TEMPLATE.name
    body = json.loads(recording.after[f"golden/{name}/chat/plain.json"])
    assert body["requests"] == [{"messages": 2, "refused": RAISING_TEMPLATE.said}]
    for run in model_runs:
        assert f"chat.tokenparity.yaml::plain[{name}-transformers]" in passed(run.result)
        (lines,) = said_of(run.result, f"plain[{name}-letters]")
        assert lines[0] == f"letters renders a request that the reference refuses: {RAISING_TEMPLATE.said}"


@pytest.mark.parametrize(
    ("fault", "place", "words"),
    [
        pytest.param(SYNTAX_ERROR, "bad.jinja:2: ", "Expected an expression", id="a template with a syntax error"),
        pytest.param(NO_TEMPLATE, "tokenparity.yaml:LINE", "no chat template", id="a tokenizer without a template"),
        pytest.param(NO_ADDRESS, "tokenparity.yaml:LINE", "'localhost:8080' is no URL", id="an address that is none"),
        pytest.param(DAMAGED, "tokenparity.yaml:LINE", "cannot be read as a tokenizer", id="a damaged tokenizer"),
    ],
)
def test_a_fault_that_stands_in_a_file_is_said_with_file_and_line(
    model_runs: tuple[Run, Run], fault: Fault, place: str, words: str
) -> None:
    message = said_of_model(model_runs[0], fault)[0]
    assert words in message
    assert message.startswith(place.replace("LINE", str(line_of_model(fault))))


def test_a_text_that_does_not_match_its_ids_is_said_with_its_line(model_runs: tuple[Run, Run]) -> None:
    recording, checking = model_runs
    node = "plain[edited-engine]"
    assert f"chat.tokenparity.yaml::{node}" in passed(recording.result)
    assert f"chat.tokenparity.yaml::{node}" in passed(checking.result)  # the text is for people, the IDs count
    assert re.search(
        r"TokenParityWarning: golden/edited/chat/plain\.json:16: the text says .*You are chatty\..*"
        r"the IDs beside it are .*You are terse\.",
        checking.result.output,
    )


def test_the_good_model_runs_beside_them_and_nothing_else_is_recorded(model_runs: tuple[Run, Run]) -> None:
    recording, checking = model_runs
    for run in model_runs:
        assert run.result.code == 1
        assert {"chat.tokenparity.yaml::plain[tiny-letters]", "test_ok.py::test_ok"} <= passed(run.result)
        assert not shows_a_traceback(run.result)
    written = recording.after.keys() - recording.before.keys()
    # what a template raises is the reference's answer
    assert written == {f"golden/{name}/chat/plain.json" for name in ("tiny", "edited", RAISING_TEMPLATE.name)}
    assert {name: recording.after[name] for name in recording.before} == recording.before
    assert checking.after == checking.before


# Faults that show where no error was looked for

LATE = [
    Fault("a tokenizer in the home of nobody", transformers("'~no-such-user/qwen'"), "~no-such-user/qwen"),
    Fault("a template in the home of nobody", transformers(more="template: '~no-such-user/t', "), "~no-such-user/t"),
    Fault("a path of a tokenizer that is too long", transformers("./" + "a" * 300), ".tokenizer: "),
    Fault("a render that leaves the program", client("renders:leaves"), "usage: renders FILE"),
    Fault("a render of a module that leaves the program", client("script:render"), "usage: script FILE"),
    Fault("a render that returns half a surrogate pair", client("renders:half"), "surrogate"),
    Fault("an engine hook that leaves the program", own("leaves"), "no licence"),
]
FATAL = [
    Fault(
        "an address with an empty label",  # as `http://${NAME:-}.internal` gives
        f"{{tokenizer: {QWEN3}, engines: {{llama-server: {{url: 'http://.internal'}}}}}}",
        "http://.internal",
    ),
]
"""Each in a run of its own: it could take the reports of all others with it."""


def project_of_late(folder: Path, faults: list[Fault]) -> Project:
    """Bad models and a good one, with goldens for all."""
    models = "".join(f"  {fault.name}: {fault.written!s}\n" for fault in faults)
    names = [*(fault.name for fault in faults), "tiny"]
    return Project(
        folder,
        {
            "conftest.py": LETTERS_CONFTEST + ENGINES,
            "tokenparity.yaml": f"models:\n{models}  tiny: {own('letters')}\n",
            "chat.tokenparity.yaml": PLAIN,
            "test_ok.py": TEST_OK,
            "renders.py": RENDERS.lstrip(),
            "script.py": SCRIPT,
            **{f"golden/{name}/chat/plain.json": golden("plain", "chat.tokenparity.yaml", name) for name in names},
        },
    )


def assert_one_message(run: Run, fault: Fault) -> None:
    item = f"plain[{fault.name}-{engine_of(fault)}]"
    assert said_of(run.result, item), run.result.output[-1000:]
    ((message, *rest),) = said_of(run.result, item)
    assert fault.said in message
    assert rest[-1] == f"  at      chat.tokenparity.yaml:7: {item}"
    assert all(line.startswith("  ") for line in rest)
    assert {"chat.tokenparity.yaml::plain[tiny-letters]", "test_ok.py::test_ok"} == passed(run.result)
    assert (run.result.code, run.after) == (1, run.before)


@pytest.fixture(scope="module")
def late_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run.of(project_of_late(tmp_path_factory.mktemp("late"), LATE))


@pytest.mark.parametrize("fault", LATE, ids=by_what)
def test_a_fault_that_is_seen_late_is_one_message_too(late_run: Run, fault: Fault) -> None:
    assert_one_message(late_run, fault)


@pytest.mark.parametrize("fault", FATAL, ids=by_what)
def test_a_fault_that_is_met_again_at_the_end_takes_no_report_with_it(tmp_path: Path, fault: Fault) -> None:
    assert_one_message(Run.of(project_of_late(tmp_path, [fault])), fault)


def test_a_nul_in_the_path_of_a_json_lines_file_is_one_message_and_stops_nothing(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        {
            "conftest.py": LETTERS_CONFTEST,
            "tokenparity.yaml": letters_config(),
            "chat.tokenparity.yaml": HEAD + '  bad: {requests: "a\\0b"}\n',
            "golden/tiny/chat/good.json": golden("good", "chat.tokenparity.yaml"),
            "test_ok.py": TEST_OK,
        },
    )
    result, before, after = Run.of(project)
    assert not shows_a_traceback(result), result.output
    ((message,),) = said_of(result, "ERROR collecting chat.tokenparity.yaml")
    assert message.startswith("chat.tokenparity.yaml:9: cases.bad.requests: ")
    assert passed(result) == {"chat.tokenparity.yaml::good[tiny-letters]", "test_ok.py::test_ok"}
    assert (result.code, after) == (1, before)


# Servers


class FaultyServer(ThreadingHTTPServer):
    """Answers each path's first part in a bad way of its own: faults that a healthy server does not show.

    The error objects are those of llama.cpp's `tools/server`; everything that a fault does not concern is answered in the
    shapes of a llama-server, with a token for each letter. Under `/hub/` it answers as the Hub does (`X-Error-Code`).
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


def error_object(code: int, message: str, kind: str) -> bytes:
    return json.dumps({"error": {"code": code, "message": message, "type": kind}}).encode()


NO_SUCH_ROUTE = error_object(404, "File Not Found", "not_found_error")
ANSWERS: Mapping[tuple[str, str], tuple[int, str, bytes]] = {
    ("a-key-is-wanted", "apply-template"): (401, "json", error_object(401, "Invalid API Key", "authentication_error")),
    ("an-older-build", "apply-template"): (404, "json", NO_SUCH_ROUTE),
    ("an-error-of-the-template", "apply-template"): (
        400,
        "json",
        error_object(400, "no such role", "invalid_request_error"),
    ),
    ("an-error-of-the-tokenizer", "tokenize"): (500, "json", error_object(500, "out of memory", "server_error")),
    ("a-page", "apply-template"): (200, "html", b"<!DOCTYPE html><html>Welcome to nginx!</html>"),
    ("another-shape", "apply-template"): (200, "json", b'{"text": "Hi"}'),
    ("a-list", "tokenize"): (200, "json", b"[1, 2]"),
    ("tokens-that-are-text", "tokenize"): (200, "json", b'{"tokens": [1, "2"]}'),
    ("tokens-that-are-floats", "tokenize"): (200, "json", b'{"tokens": [1.5]}'),
    ("json-cut-short", "apply-template"): (200, "json", b'{"prompt": "Hi'),
    ("another-model", "v1/models"): (200, "json", b'{"data": [{"id": "gemma-3"}]}'),
}


class _Handler(BaseHTTPRequestHandler):
    server: FaultyServer

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        _, fault, route = self.path.split("/", 2)
        if fault == "hub":
            gated = "/gated/" in self.path
            self.send_response(403 if gated else 404)
            self.send_header("X-Error-Code", "GatedRepo" if gated else "RepoNotFound")
            self.send_header("X-Error-Message", "Access to this model is restricted." if gated else "Not found")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        healthy = {
            "props": b'{"build_info": "b1-fake", "model_alias": "tiny"}',
            "v1/models": b'{"data": [{"id": "tiny"}]}',
        }
        self.answer(fault, route, healthy.get(route, b"{}"))

    def do_POST(self) -> None:
        _, fault, route = self.path.split("/", 2)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if route == "apply-template":
            healthy: object = {"prompt": "".join(f"{m['role']}: {m['content']}\n" for m in body["messages"])}
        else:
            healthy = {"tokens": [ord(letter) for letter in body["content"]]}
        if fault == "no-answer-in-time":
            self.server.over.wait(60)
        elif fault == "a-reply-without-end":
            self.endless()
        else:
            self.answer(fault, route, json.dumps(healthy).encode())

    def answer(self, fault: str, route: str, healthy: bytes) -> None:
        status, kind, content = ANSWERS.get((fault, route), (200, "json", healthy))
        self.send_response(status)
        self.send_header("Content-Type", f"text/{kind}" if kind == "html" else f"application/{kind}")
        self.send_header("Content-Length", str(len(content) + (100 if fault == "a-body-cut-short" else 0)))
        self.end_headers()
        self.wfile.write(content)

    def endless(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while not self.server.over.is_set():
                self.wfile.write(b"[" * 2**20)
        except OSError:  # the client has had enough
            self.close_connection = True

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


HERE = "NAME at <url>/NAME"
OLD = "an older version, or no llama-server? It needs a build of December 2025 or newer"
WRONG_PORT = "is this the right server and port?"
UNREACHABLE = [
    Fault(
        "a refused connection",
        "url: 'http://127.0.0.1:<port>'",
        "NAME cannot be reached: nothing answers at http://127.0.0.1:<port>: ...",
    ),
    Fault(
        "a host that is not known",
        "url: 'http://no-such-host.invalid'",
        "NAME cannot be reached: the host of http://no-such-host.invalid is not known (...",
    ),
    Fault(
        "no answer in time",
        "url: '<url>/NAME', timeout: 0.5",
        f"{HERE} did not answer /apply-template within 0.5 s; set `timeout:` (seconds) if it needs longer",
    ),
    Fault("no TLS", "url: '<tls>/NAME'", "NAME at <tls>/NAME: TLS failed: ..."),
]
AS_REFUSED = Fault(
    "an error of the template",
    "url: '<url>/NAME'",
    "NAME refuses a request that the reference renders: no such role",
)
BAD_ANSWERS = [
    Fault(
        "a key is wanted",
        "url: '<url>/NAME'",
        f"{HERE} wants a key (401: Invalid API Key); name its variable with `api_key_env:`",
    ),
    Fault("an older build", "url: '<url>/NAME'", f"{HERE} has no /apply-template (File Not Found): {OLD}"),
    Fault(
        "an error of the tokenizer",
        "url: '<url>/NAME'",
        f"{HERE} answered /tokenize with status 500: out of memory; its log may say more",
    ),
    Fault(
        "a page",
        "url: '<url>/NAME'",
        f"{HERE} answered /apply-template with status 200 and an HTML page: "
        f"'<!DOCTYPE html><html>Welcome to nginx!</html>'; {WRONG_PORT}",
    ),
    Fault(
        "another shape",
        "url: '<url>/NAME'",
        f'{HERE} answered /apply-template with status 200: {{"text": "Hi"}}; expected {{"prompt": "..."}}',
    ),
    Fault(
        "a list",
        "url: '<url>/NAME'",
        f'{HERE} answered /tokenize with status 200: [1, 2]; expected {{"tokens": [...]}}',
    ),
    Fault("tokens that are text", "url: '<url>/NAME'", f"{HERE} must give integers, it gave str '2' at token 1"),
    Fault("tokens that are floats", "url: '<url>/NAME'", f"{HERE} must give integers, it gave float 1.5 at token 0"),
    Fault(
        "JSON cut short",
        "url: '<url>/NAME'",
        f'{HERE} answered /apply-template with status 200 and application/json, not JSON: \'{{"prompt": "Hi\'; {WRONG_PORT}',
    ),
    Fault("a body cut short", "url: '<url>/NAME'", f"{HERE} broke off while answering /apply-template: ..."),
    Fault(
        "a reply without end",
        "url: '<url>/NAME'",
        f"{HERE} answered /apply-template with more than 64 MiB, larger than any prompt",
    ),
    Fault("another model", "url: '<url>/NAME', model: tiny", f"{HERE} serves gemma-3, not 'tiny' (`model:`)"),
]
BAD_SERVERS = [*UNREACHABLE, *BAD_ANSWERS, AS_REFUSED]


class ServerRuns(NamedTuple):
    checking: Run
    recording: Run
    names: dict[str, str]
    """What stands for an address in the table, and the address."""


@pytest.fixture(scope="module")
def server_runs(tmp_path_factory: pytest.TempPathFactory, server: FaultyServer) -> ServerRuns:
    """All bad servers between two good ones; then each as the reference of a model that is to be recorded."""
    with closed_port() as closed:
        names = {"<url>": server.url, "<tls>": server.url.replace("http:", "https:"), "<port>": str(closed)}

        def engine(fault: Fault) -> str:
            options = str(fault.written).replace("NAME", fault.name)
            for name, value in names.items():
                options = options.replace(name, value)
            return f"{fault.name}: {{type: llama-server, {options}}}"

        engines = "".join(f"      {engine(fault)}\n" for fault in BAD_SERVERS)
        models = "".join(
            f"  of-{fault.name}: {{tokenizer: {QWEN3}, engines: {{{engine(fault)}}}}}\n"
            for fault in [*UNREACHABLE, *BAD_ANSWERS]
        )
        healthy = f"      healthy: {{type: llama-server, url: '{server.url}/healthy', model: tiny}}\n"
        project = Project(
            tmp_path_factory.mktemp("servers"),
            {
                "conftest.py": LETTERS_CONFTEST,
                "tokenparity.yaml": letters_config("letters") + healthy + engines + "      short: {}\n" + models,
                "chat.tokenparity.yaml": PLAIN,
                "test_ok.py": TEST_OK,
                "golden/tiny/chat/plain.json": golden("plain", "chat.tokenparity.yaml"),
            },
        )
        checking = Run.of(project, "-m", "tiny or not tokenparity")
        return ServerRuns(checking, Run.of(project, "--tokenparity-update-new"), names)


def matches(line: str, said: str) -> bool:
    """Whether a line is what was to be said; `...` at its end stands for the system's own words."""
    return line.startswith(said[:-3]) if said.endswith("...") else line == said


@pytest.mark.parametrize("fault", BAD_SERVERS, ids=by_what)
def test_a_fault_of_a_server_is_one_message(server_runs: ServerRuns, fault: Fault) -> None:
    said = fault.said.replace("NAME", fault.name)
    for name, value in server_runs.names.items():
        said = said.replace(name, value)
    for run in (server_runs.checking, server_runs.recording):
        ((message, *rest),) = said_of(run.result, f"plain[tiny-{fault.name}]")
        assert matches(message, said), message
        assert rest[-1] == f"  at      chat.tokenparity.yaml:7: plain[tiny-{fault.name}]"
        assert all(line.startswith("  ") for line in rest)
    if fault is not AS_REFUSED:  # of which a reference that says so is the answer
        (lines,) = said_of(server_runs.recording.result, f"plain[of-{fault.name}-{fault.name}]")
        before = "nothing recorded: " if fault in UNREACHABLE else ""
        assert matches(lines[0], before + said), lines


def test_the_good_servers_are_asked_and_nothing_is_recorded(server_runs: ServerRuns) -> None:
    good = {f"chat.tokenparity.yaml::plain[tiny-{name}]" for name in ("letters", "healthy")} | {"test_ok.py::test_ok"}
    for result, before, after in (server_runs.checking, server_runs.recording):
        assert result.code == 1
        assert passed(result) == good
        assert said_of(result, "plain[tiny-short]")[0][0].startswith("short leaves the golden at token 43")
        assert not shows_a_traceback(result)
        assert after == before


# The Hub


def hub_project(folder: Path, *models: str) -> Project:
    entries = "".join(f"  {name}: {transformers(f'{name}/model')}\n" for name in models)
    return Project(
        folder / "project",
        {
            "conftest.py": LETTERS_CONFTEST,
            "tokenparity.yaml": f"models:\n{entries}  tiny: {{{MODEL}}}\n",
            "chat.tokenparity.yaml": PLAIN,
            "golden/tiny/chat/plain.json": golden("plain", "chat.tokenparity.yaml"),
        },
    )


def said_of_hub(result: Result, model: str, line: int) -> str:
    """The reason in the one message about a model that the Hub does not give."""
    ((message, _),) = said_of(result, f"plain[{model}-engine]")
    start = f"tokenparity.yaml:{line}: models.{model}.tokenizer: no tokenizer from the Hub's {model}/model: "
    end = f"; {GIVE_A_FOLDER}{model}/model"
    assert message.startswith(start)
    assert message.endswith(end)
    return message[len(start) : -len(end)]


def test_a_model_that_the_hub_lacks_or_keeps_behind_a_gate_is_one_message_each(
    tmp_path: Path, server: FaultyServer
) -> None:
    """The Hub is a fake: a real gate needs an account."""
    project = hub_project(tmp_path, "lacking", "gated")
    run = Run.of(project, "--tokenparity-update-new", hub=f"{server.url}/hub")
    assert not shows_a_traceback(run.result)
    assert passed(run.result) == {"chat.tokenparity.yaml::plain[tiny-letters]"}
    assert run.after == run.before
    assert re.search("not a valid model identifier|not found|404", said_of_hub(run.result, "lacking", 2), re.IGNORECASE)
    assert re.search("gated|restricted|access", said_of_hub(run.result, "gated", 3), re.IGNORECASE)


# Goldens


class Damage(NamedTuple):
    """One row of the table of goldens: what is wrong, a text of the golden and the one in its place, what is said."""

    what: str
    old: str
    new: str
    said: str

    @property
    def name(self) -> str:
        return Fault(self.what, "", "").name


def by_damage(damage: Damage) -> str:
    return damage.what


FIRST_ROW = "      [[115, "
CUT_SHORT = "cut short, or a merge conflict?"
MOVED = "for tiny: was it copied or moved? Record it again"
DAMAGES = [
    Damage(
        "truncated",
        "REST_FROM",
        '  "requests"',
        f"GOLDEN:13: not JSON (Expecting property name enclosed in double quotes): {CUT_SHORT}",
    ),
    Damage("empty", "REST_FROM", "{", f"GOLDEN:1: not JSON (Expecting value): {CUT_SHORT}"),
    Damage("not JSON", "{", "golden {", f"GOLDEN:1: not JSON (Expecting value): {CUT_SHORT}"),
    Damage(
        "merge markers",
        FIRST_ROW,
        f"<<<<<<< HEAD\n{FIRST_ROW}",
        f"GOLDEN:15: not JSON (Expecting value): {CUT_SHORT}",
    ),
    Damage(
        "another format number",
        '"format": 1',
        '"format": 2',
        "GOLDEN: format 2; this version reads format 1: update the plugin, or record again",
    ),
    Damage("no format number", '"format": 1', '"version": 1', "GOLDEN: no golden: it has no `format`"),
    Damage(
        "of another case",
        '"case": "of-another-case"',
        '"case": "good"',
        f"GOLDEN: is the golden of chat.tokenparity.yaml::good for tiny, not of chat.tokenparity.yaml::of-another-case {MOVED}",
    ),
    Damage(
        "of another model",
        '"model": "tiny"',
        '"model": "other"',
        f"GOLDEN: is the golden of chat.tokenparity.yaml::of-another-model for other, not of chat.tokenparity.yaml::of-another-model {MOVED}",
    ),
    Damage(
        "another number of tokens",
        '"tokens": 44',
        '"tokens": 45',
        "GOLDEN: damaged: request 1 says 45 tokens and holds 44",
    ),
    Damage(
        "an ID that is none",
        FIRST_ROW,
        '      [["s", ',
        "GOLDEN: damaged: request 1 holds something that is no token ID",
    ),
    Damage(
        "IDs that do not match their text",
        FIRST_ROW,
        "      [[65, ",
        "letters leaves the golden at token 0 (44 tokens recorded, 44 rendered); the golden was edited by hand",
    ),
]
OF_ANOTHER_FILE = "of-another-file"
READ_ONLY, FOLDER = "read-only", "a-folder"


def golden_of(name: str) -> str:
    return f"golden/tiny/chat/{name}.json"


class GoldenRuns(NamedTuple):
    checking: Run
    filling: Run
    """With `--tokenparity-update-new`."""
    mending: Run
    """With `--tokenparity-update`."""


@pytest.fixture(scope="module")
def golden_runs(tmp_path_factory: pytest.TempPathFactory) -> GoldenRuns:
    names = [*(damage.name for damage in DAMAGES), OF_ANOTHER_FILE, READ_ONLY, FOLDER, "good"]
    cases = QUESTION + "cases:\n" + "".join(f"  {name}: {{messages: question}}\n" for name in names)
    project = Project(
        tmp_path_factory.mktemp("goldens"),
        {
            "conftest.py": LETTERS_CONFTEST,
            "tokenparity.yaml": letters_config(),
            "chat.tokenparity.yaml": cases,
            "other.tokenparity.yaml": PLAIN,
            "test_ids.py": FIXTURE_TEST,
            "test_ok.py": TEST_OK,
        },
    )
    recorded = project.pytest("--tokenparity-update")
    assert recorded.passed(len(names) + 3), recorded.output
    for damage in DAMAGES:
        path = golden_of(damage.name)
        if damage.old == "REST_FROM":
            text = project.read(path)
            project.write(path, text[: text.index(damage.new)])
        else:
            project.edit(path, damage.old, damage.new)
    project.edit(golden_of(OF_ANOTHER_FILE), '"chat.tokenparity.yaml"', '"other.tokenparity.yaml"')
    project.edit("golden/tiny/test_ids/ids.json", '"requests": [', "")
    project.edit(golden_of(READ_ONLY), FIRST_ROW, "      [[65, ")
    (project.folder / golden_of(READ_ONLY)).chmod(0o444)
    (project.folder / golden_of(FOLDER)).unlink()
    project.write(f"{golden_of(FOLDER)}/README.md", "")
    return GoldenRuns(
        Run.of(project), Run.of(project, "--tokenparity-update-new"), Run.of(project, "--tokenparity-update")
    )


def line_of_case(name: str) -> int:
    return 7 + [*(damage.name for damage in DAMAGES), OF_ANOTHER_FILE, READ_ONLY, FOLDER].index(name)


@pytest.mark.parametrize("damage", DAMAGES, ids=by_damage)
def test_a_damaged_golden_is_one_message_with_its_place_and_stays(golden_runs: GoldenRuns, damage: Damage) -> None:
    for run in (golden_runs.checking, golden_runs.filling):
        ((message, *rest),) = said_of(run.result, f"{damage.name}[tiny-letters]")
        assert message == damage.said.replace("GOLDEN", golden_of(damage.name))
        at = f"  at      chat.tokenparity.yaml:{line_of_case(damage.name)}: {damage.name}[tiny-letters]"
        assert rest[-1] == at
        assert run.after == run.before


def test_ids_that_do_not_match_their_text_are_shown_with_their_line(golden_runs: GoldenRuns) -> None:
    name = "ids-that-do-not-match-their-text"
    ((_, *rest),) = said_of(golden_runs.checking.result, f"{name}[tiny-letters]")
    assert any(line.startswith(f"  edited  {golden_of(name)}:15: the IDs are ") for line in rest)


def test_an_update_mends_a_damaged_golden(golden_runs: GoldenRuns) -> None:
    result, before, after = golden_runs.mending
    good = before[golden_of("good")].decode()
    for damage in DAMAGES:
        assert f"chat.tokenparity.yaml::{damage.name}[tiny-letters]" in passed(result)
        assert after[golden_of(damage.name)].decode() == good.replace('"case": "good"', f'"case": "{damage.name}"')


@pytest.mark.parametrize(
    ("name", "of_check", "of_update"),
    [
        pytest.param(
            OF_ANOTHER_FILE,
            f"GOLDEN: is the golden of other.tokenparity.yaml::{OF_ANOTHER_FILE} for tiny, not of "
            f"chat.tokenparity.yaml::{OF_ANOTHER_FILE} {MOVED}",
            "GOLDEN: is the golden of other.tokenparity.yaml, which is still there: rename one of the two files",
            id="the golden of another file",
        ),
        pytest.param(
            READ_ONLY,
            "letters leaves the golden at token 0 (44 tokens recorded, 44 rendered); the golden was edited by hand",
            "GOLDEN: cannot be written: the file is read-only",
            id="a golden that is read-only",
        ),
        pytest.param(
            FOLDER,
            "GOLDEN: cannot be read: Is a directory",
            "GOLDEN: cannot be written: Is a directory",
            id="a folder in the place of a golden",
        ),
    ],
)
def test_what_an_update_may_not_write_is_said_and_stays(
    golden_runs: GoldenRuns, name: str, of_check: str, of_update: str
) -> None:
    title = f"{name}[tiny-letters]"
    for run, said in zip(golden_runs, (of_check, of_check, of_update), strict=True):
        ((message, *rest),) = said_of(run.result, title)
        assert message == said.replace("GOLDEN", golden_of(name))
        assert rest[-1] == f"  at      chat.tokenparity.yaml:{line_of_case(name)}: {title}"
        held = [path for path in run.before if path.startswith(golden_of(name))]
        assert [run.after.get(path) for path in held] == [run.before[path] for path in held]


def test_a_damaged_golden_of_a_test_is_said_alike(golden_runs: GoldenRuns) -> None:
    for run in (golden_runs.checking, golden_runs.filling):
        ((message, *rest),) = said_of(run.result, "test_ids")
        assert re.fullmatch(rf"golden/tiny/test_ids/ids\.json:\d+: not JSON \(.+\): {re.escape(CUT_SHORT)}", message)
        assert rest[-1] == "  at      test_ids.py:2: test_ids, golden 'ids'"
    assert "test_ids.py::test_ids" in passed(golden_runs.mending.result)


def test_the_good_goldens_are_compared_beside_them(golden_runs: GoldenRuns) -> None:
    good = {
        "chat.tokenparity.yaml::good[tiny-letters]",
        "other.tokenparity.yaml::plain[tiny-letters]",
        "test_ok.py::test_ok",
    }
    for run in golden_runs:
        assert run.result.code == 1
        assert good <= passed(run.result)
        assert not shows_a_traceback(run.result)


def test_an_edited_golden_in_another_encoding_is_one_message(tmp_path: Path) -> None:
    """As Windows PowerShell writes a file: Python's `json` reads it all the same."""
    files = {"conftest.py": LETTERS_CONFTEST, "tokenparity.yaml": letters_config(), "chat.tokenparity.yaml": PLAIN}
    project = Project(tmp_path, files)
    assert Run.of(project, "--tokenparity-update").result.passed(1)
    text = project.read(golden_of("plain"))
    project.write(golden_of("plain"), text.replace("[[115, ", "[[65, ").encode("utf-16"))
    result, before, after = Run.of(project)
    assert not shows_a_traceback(result), result.output
    assert len(said_of(result, "plain[tiny-letters]")) == 1
    assert (result.code, after) == (1, before)
