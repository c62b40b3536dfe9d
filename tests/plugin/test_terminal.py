"""What a terminal shows of typical runs, kept as text in `terminal/*.txt`: whoever changes it sees the change in review.

Set the environment variable REWRITE_EXPECTED to write the files anew, then read the diff:

    REWRITE_EXPECTED=1 pytest tests/plugin/test_terminal.py

What differs from machine to machine, from run to run, and between the versions of pytest stands there as a word in
capitals: see :func:`normalised`. The files are the same for the lowest pytest that is supported and for the newest.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ..harness import LETTERS_CONFTEST, PLAIN, QUESTION, Project, letters_config, qwen_config
from ..real_models import QWEN3
from .test_options import IDS, golden, run

EXPECTED = Path(__file__).parent / "terminal"
REWRITE = bool(os.environ.get("REWRITE_EXPECTED"))

CHAT = QUESTION + (
    "cases:\n  plain: {messages: question}\n  brief: {messages: question, template_kwargs: {enable_thinking: false}}\n"
)
AGENT = (
    QUESTION
    + """\
  arithmetic:
    - {role: user, content: "2 + 2?"}
    - {role: assistant, content: "4."}
    - {role: user, content: "Minus 5?"}
tools:
  get_weather:
    type: function
    function:
      name: get_weather
      description: Get the current weather for a city.
      parameters: {type: object, properties: {city: {type: string, description: The city name.}}, required: [city]}
      return: {type: string}
cases:
  tools: {messages: question, tools: [get_weather]}
  session: {session: arithmetic, template_kwargs: {enable_thinking: false}, engines: [transformers]}
  parts: {messages: [{role: user, content: [{type: text, text: Hi}]}], engines: [transformers, llama-server]}
"""
)
BROKEN = """\
cases:
  plain: {mesages: question}
  other: {messages: [{role: user, content: Hi}
"""
HALF = (
    QUESTION
    + """\
cases:
  plain: {messages: question}
  typo: {mesages: question}
  unknown: {messages: qestion}
"""
)


def normalised(output: str, project: Project) -> str:
    """An output without what no review is about: versions, times, paths, ports, plugins, the interpreter."""
    text = output.replace(str(project.folder), "FOLDER")
    for pattern, word in (
        (r"^platform .*", "platform PLATFORM"),
        (r"^plugins: .*", "plugins: PLUGINS"),
        (r"^=+ (.*) in [\d.]+s( \([\d:]+\))? =+$", r"= \1 in TIME ="),
        (r"^\[gw\d\] .*", "[WORKER] PLATFORM"),
        (r"\b(transformers|tokenizers) \d[\w.]*", r"\1 VERSION"),
        (r"llama-server b?\d[\w.-]* at", "llama-server VERSION at"),
        (r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:PORT"),
        (r"serving \S+", "serving MODEL"),
        (r"\[Errno \d+\]", "[ERRNO]"),
        (r"[ \t]+$", ""),
    ):
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text


def from_workers(text: str) -> str:
    """What two workers say, but for who was first: from the failures on, the engines in the order of their names."""
    lines = text.splitlines(keepends=True)
    lines = lines[next(number for number, line in enumerate(lines) if line.strip("= \n") == "FAILURES") :]
    engines = [number for number, line in enumerate(lines) if line.startswith("engine ")]
    for number, line in zip(engines, sorted(lines[number] for number in engines), strict=True):
        lines[number] = line
    return "".join(lines)


@dataclass(frozen=True)
class Run:
    """A typical run of the recorded project, after an edit of it: ``{file: (old, new)}``."""

    arguments: tuple[str, ...]
    code: int = 1
    edits: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    view: Callable[[str], str] = str


OF_TOOLS = ("agent.tokenparity.yaml", "-k", "tools")
RUNS = {
    "all-equal": Run(("chat.tokenparity.yaml",), code=0),
    "divergence": Run(OF_TOOLS),
    "divergence-vv": Run((*OF_TOOLS, "-vv")),
    "divergence-two-workers": Run((*OF_TOOLS, "-n", "2"), view=from_workers),
    "prefix-break": Run(("agent.tokenparity.yaml", "-k", "session")),
    "refused-request": Run(("agent.tokenparity.yaml", "-k", "parts")),
    "edited-case": Run(
        ("chat.tokenparity.yaml", "-k", "plain"), edits={"chat.tokenparity.yaml": ("What is 2 + 2?", "What is 2 + 3?")}
    ),
    "changed-template": Run(
        ("chat.tokenparity.yaml", "-k", "plain"), edits={"chat.jinja": ("<|im_start|>assistant", "<|im_start|>model")}
    ),
    "edited-golden": Run(
        ("chat.tokenparity.yaml", "-k", "plain"), edits={"golden/qwen3-0.6b/chat/plain.json": ("[2610, ", "[2611, ")}
    ),
    "known-differences-v": Run(
        (*OF_TOOLS, "-v"),
        code=0,
        edits={
            "agent.tokenparity.yaml": (
                "tools: [get_weather]}",
                "tools: [get_weather], expect: {llama-server: {differs: [unknown], reason: it drops the `return` field}}}",
            )
        },
    ),
}


def check(name: str, text: str) -> None:
    """Compare with the expected text; or write it, where that was asked for."""
    path = EXPECTED / f"{name}.txt"
    if REWRITE:
        path.write_bytes(text.encode())
    assert text == path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, qwen_url: str) -> tuple[Project, str]:
    """A project with Qwen3 through Transformers and llama-server, recorded; and what its first recording printed."""
    template = json.loads((QWEN3 / "tokenizer_config.json").read_text(encoding="utf-8"))["chat_template"]
    config = qwen_config(qwen_url, more="    template: chat.jinja\n")
    config = "".join(line for line in config.splitlines(keepends=True) if "posted-string" not in line)
    project = Project(
        tmp_path_factory.mktemp("qwen"),
        {"tokenparity.yaml": config, "chat.jinja": template, "chat.tokenparity.yaml": CHAT},
    )
    output = normalised(run(project, "--update-golden").output, project)
    project.write("agent.tokenparity.yaml", AGENT)
    run(project, "--update-golden", "-p", "no:cacheprovider", "-k", "agent and transformers")
    return project, output


@pytest.fixture
def project(tmp_path: Path, first: tuple[Project, str]) -> Project:
    """The recorded project, in a folder of its own."""
    shutil.copytree(first[0].folder, tmp_path, dirs_exist_ok=True)
    return Project(tmp_path, {})


def test_a_recording_reads_as_expected(first: tuple[Project, str]) -> None:
    check("recording", first[1])


@pytest.mark.parametrize("name", RUNS)
def test_a_run_reads_as_expected(project: Project, name: str) -> None:
    this = RUNS[name]
    for file, (old, new) in this.edits.items():
        project.edit(file, old, new)
    result = run(project, *this.arguments)
    assert result.code == this.code
    check(name, this.view(normalised(result.output, project)))


def letters_project(folder: Path, more: str = "", **files: str) -> Project:
    """A project without a tokenizer: of what it shows, no token is looked up."""
    return Project(
        folder,
        {
            "conftest.py": LETTERS_CONFTEST + '\nCHANGES["again"] = None\n',
            "tokenparity.yaml": letters_config("letters", "again").replace(str(QWEN3), "./none") + more,
            "chat.tokenparity.yaml": PLAIN + "  twin: {messages: question}\n",
            "golden/tiny/chat/plain.json": golden("chat.tokenparity.yaml", "plain", IDS, 2),
            "golden/tiny/chat/twin.json": golden("chat.tokenparity.yaml", "twin", IDS, 2),
            **files,
        },
    )


@pytest.mark.parametrize(("what", "code"), [("fail", 1), ("skip", 0)])
def test_an_unreachable_server_reads_as_expected(tmp_path: Path, what: str, code: int) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    project = letters_project(tmp_path, f"      server: {{type: llama-server, url: '{url}'}}\n")
    result = run(project, f"--tokenparity-unreachable={what}")
    assert result.code == code
    check(f"unreachable-{what}", normalised(result.output, project))


def test_broken_case_files_beside_good_ones_read_as_expected(tmp_path: Path) -> None:
    files = {
        "broken.tokenparity.yaml": BROKEN,
        "half.tokenparity.yaml": HALF,
        "test_unit.py": "def test_unit(): pass\n",
    }
    project = letters_project(tmp_path, **files)
    project.write("golden/tiny/half/plain.json", golden("half.tokenparity.yaml", "plain", IDS, 2))
    result = run(project)
    assert result.code == 1
    check("broken-case-files", normalised(result.output, project))


def test_every_expected_text_is_of_a_run_and_holds_nothing_of_this_machine() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in EXPECTED.glob("*")}
    assert texts.keys() == {*RUNS, "recording", "unreachable-fail", "unreachable-skip", "broken-case-files"}
    for text in texts.values():
        assert "\x1b" not in text
        assert QWEN3.parents[2].as_posix() not in text
        assert not re.search(r"pytest-of-|site-packages|\d\.\d+s\b", text)
