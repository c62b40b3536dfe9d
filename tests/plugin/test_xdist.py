"""The same run in two workers: the same outcomes, files and words as in one process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..harness import LETTERS_CONFTEST, QUESTION, Project, letters_config

CASES = QUESTION + "cases:\n" + "".join(f"  case-{number}: {{messages: question}}\n" for number in range(4))


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with socket.socket() as taken:  # held to the end, so that nobody else listens there
        taken.bind(("127.0.0.1", 0))
        nobody = f"nobody: {{type: llama-server, url: 'http://127.0.0.1:{taken.getsockname()[1]}'}}"
        yield Project(
            tmp_path,
            {
                "conftest.py": LETTERS_CONFTEST + '\nCHANGES["again"] = None\n',
                "tokenparity.yaml": letters_config("letters", "again") + f"      {nobody}\n",
                "chat.tokenparity.yaml": CASES,
                "more.tokenparity.yaml": CASES,
            },
        )


def summary(output: str) -> list[str]:
    """The lines of the section that the plugin writes, engines sorted: which worker ends first is chance."""
    lines = output.splitlines()
    start = next(number for number, line in enumerate(lines) if line.strip("=- ") == "tokenparity")
    end = next(number for number, line in enumerate(lines) if number > start and line.startswith("=="))
    return sorted(lines[start + 1 : end])


def test_two_workers_write_each_golden_and_count_it_once(project: Project) -> None:
    first = project.pytest("-n", "2", "--tokenparity-update", "--tokenparity-unreachable=skip")
    assert "16 passed, 8 skipped" in first.output
    assert "goldens  8 new, 0 changed, 0 unchanged, 0 orphaned" in first.output
    names = [f"golden/tiny/{file}/case-{number}.json" for file in ("chat", "more") for number in range(4)]
    assert [line.split()[1] for line in first.output.splitlines() if line.startswith("new ")] == names
    assert [name for name in project.files() if name.startswith("golden/")] == names

    project.write("more.tokenparity.yaml", CASES.replace("2 + 2", "2 + 3").replace("case-3", "case-4"))
    second = project.pytest("-n", "2", "--tokenparity-update", "-m", "not tokenparity(engine='nobody')")
    assert second.passed(16), second.output
    assert "goldens  1 new, 3 changed, 4 unchanged, 1 orphaned" in second.output
    assert "orphan   golden/tiny/more/case-3.json" in second.output

    alone = project.pytest("--tokenparity-unreachable=skip")
    together = project.pytest("-n", "2", "--tokenparity-unreachable=skip")
    assert "16 passed, 8 skipped" in alone.output
    assert "16 passed, 8 skipped" in together.output
    assert summary(together.output) == summary(alone.output)
    assert len([line for line in summary(alone.output) if line.startswith("not checked: 8 items of tiny: nobody")]) == 1


def test_a_run_in_which_nothing_was_checked_says_so_from_workers(project: Project) -> None:
    result = project.pytest("-n", "2", "--tokenparity-unreachable=skip", "-k", "nobody")
    assert result.code == 1
    assert "no golden yet" in result.output
    for name in ("chat", "more"):
        for number in range(4):
            path = project.folder / f"golden/tiny/{name}/case-{number}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(GOLDEN.replace("NAME", name).replace("NUMBER", str(number)), encoding="utf-8")
    result = project.pytest("-n", "2", "--tokenparity-unreachable=skip", "-k", "nobody")
    assert result.code == 0
    assert "NOTHING WAS CHECKED: 8 not checked\n" in result.output
    assert "8 skipped" in result.output


GOLDEN = """{"format": 1, "model": "tiny", "case": "case-NUMBER", "file": "NAME.tokenparity.yaml",
 "recorded": {"engine": "letters"}, "requests": [{"messages": 2, "tokens": 1, "keep": 0, "append": [[[1], "a"]]}]}
"""
"""A golden by hand: enough for engines that cannot be asked."""
