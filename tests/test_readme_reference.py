"""The README's tables name what there is and no more, and its Python runs as it stands there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from pytest_tokenparity.causes import alone, sessions
from pytest_tokenparity.causes.table import CAUSES
from pytest_tokenparity.engines.catalogue import BUILTIN_ENGINES

from .harness import LETTERS_CONFTEST, PLAIN, Project, letters_config
from .real_models import QWEN3
from .test_failure_text import BREAK
from .test_readme import README, blocks

GATEWAY = "def prompt_ids(tenant, conversation, tools, switches):\n    return [len(tenant), len(conversation)]\n"


def rows(head: str) -> list[list[str]]:
    """The cells of the table below a head, without the rule."""
    _, _, table = README.partition(f"\n{head}\n")
    assert table, head
    lines = table.partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names(head: str) -> list[str]:
    return [cells[0].strip("`") for cells in rows(head)]


def test_the_causes_are_those_of_the_table_with_what_was_seen() -> None:
    shown = [(cells[0].strip("`"), cells[2]) for cells in rows("| cause | what the engine does | seen on |")]
    assert dict(shown) == {
        cause.name: ", ".join(f"{engine} {version}" for engine, version in cause.seen.items())
        for cause in CAUSES.values()
    }
    assert len(shown) == len(CAUSES)


def test_the_causes_and_classes_of_a_break_are_those_that_are_known() -> None:
    assert sorted(names("| cause of a break | what happened |")) == sorted(sessions._SAYS)
    classes = README.partition("In brackets stands its class: ")[2].partition("\n\n")[0]
    found = re.findall(r"`([a-z-]+)`", classes)
    assert sorted(found) == sorted(get_args(sessions.BreakClass))


def test_the_break_that_is_shown_is_one_that_is_printed() -> None:
    (shown,) = (block for block in blocks("") if block.startswith("  where   generation prompt"))
    assert shown in BREAK


def test_the_warnings_are_those_that_are_made() -> None:
    made = re.findall(r'_remark\(\s*"([a-z-]+)"', inspect.getsource(alone))
    assert sorted(names("| name | what | |")) == sorted(set(made))


def test_the_engines_are_those_of_the_catalogue() -> None:
    shown = names("| type | how the IDs are got | what cannot be seen | seen on |")
    assert set(shown) == set(BUILTIN_ENGINES)
    options = re.search(r"All servers take (.*?)\n\n", README, re.DOTALL)
    assert options is not None
    taken = re.findall(r"`([a-z_]+)`", options[1])
    assert {it for it in taken if it != "false"} == set(BUILTIN_ENGINES["vllm"].options)


@pytest.mark.parametrize("way", ["class", "hook"])
def test_an_engine_of_your_own_is_asked(tmp_path: Path, way: str) -> None:
    gateway, hook = (block for block in blocks("python") if "Gateway" in block)
    (entry,) = (block for block in blocks("yaml") if "mypkg.engines:Gateway" in block)
    if way == "hook":
        entry = entry.replace('type: "mypkg.engines:Gateway", ', "")
        hook = f"from mypkg.engines import Gateway\n\n\n{hook}"
        conftest = LETTERS_CONFTEST.replace("def pytest_tokenparity_engine", "def letters") + (
            hook + "    return letters(config, model, name, options)\n"
        )
    else:
        conftest = LETTERS_CONFTEST
    project = Project(
        tmp_path,
        {
            "conftest.py": conftest,
            "my_gateway.py": GATEWAY,
            "mypkg/__init__.py": "",
            "mypkg/engines.py": f"import my_gateway\n\n\n{gateway}",
            "tokenparity.yaml": letters_config("letters") + entry,
            "chat.tokenparity.yaml": PLAIN,
        },
    )
    result = project.pytest("--update-golden", PYTHONPATH=".")
    assert "gateway leaves the golden at token 0 (44 tokens recorded, 2 rendered)" in result.output
    assert "1 failed, 1 passed" in result.output


def test_the_python_prints_what_it_says(qwen_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = blocks("python")[-1]
    code = code.replace("Qwen/Qwen3-0.6B", str(QWEN3)).replace("http://localhost:8080", qwen_url)
    city = {"type": "object", "properties": {"city": {"type": "string", "description": "The city name."}}}
    function = {
        "name": "get_weather",
        "description": "Get the current weather for a city.",
        "parameters": {**city, "required": ["city"]},
        "return": {"type": "string"},
    }
    given: dict[str, Any] = {
        "conversation": [
            {"role": "system", "content": "You are terse."},
            {"role": "user", "content": "What is 2 + 2?"},
        ],
        "tools": [{"type": "function", "function": function}],
    }
    exec(code, given)
    given["server"].close()
    divergence, why = capsys.readouterr().out.splitlines()
    said = re.findall(r"print\(.*\)  # (.*)", code)
    assert divergence.startswith(said[0].removesuffix("...)"))
    assert why == said[1]
