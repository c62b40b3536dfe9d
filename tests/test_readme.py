"""What the README tells a newcomer to paste is pasted, and what it shows is what is printed."""

from __future__ import annotations

import re
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from .harness import Project
from .real_models import QWEN3, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [text for name, text in fenced if name == language]


@pytest.fixture
def pasted(tmp_path: Path) -> Project:
    """The quick start as pasted; only the tokenizer comes from the repository, for there may be no Hub."""
    config, cases, *_ = blocks("yaml")
    assert "Qwen/Qwen3-0.6B " in config
    return Project(
        tmp_path,
        {"tokenparity.yaml": config.replace("Qwen/Qwen3-0.6B ", f"{QWEN3} "), "chat.tokenparity.yaml": cases},
    )


def test_the_quick_start_fails_as_the_readme_shows(pasted: Project, qwen_url: str) -> None:
    result = pasted.pytest("--update-golden", QWEN_URL=qwen_url)
    shown = blocks("")[0].strip()
    shown = shown.replace("transformers 5.24.0", f"transformers {version('transformers')}")
    shown = shown.replace("tokenizers 0.23.3", f"tokenizers {version('tokenizers')}")
    assert shown in result.output
    assert "5 passed" in result.output
    assert "1 failed" in result.output


def test_the_golden_is_as_the_readme_shows(pasted: Project, qwen_url: str) -> None:
    pasted.pytest("--update-golden", "-k", "plain", QWEN_URL=qwen_url)
    assert blocks("json")[0] in pasted.read("golden/qwen3-0.6b/chat/plain.json")


def test_without_a_server_the_rest_is_checked_and_the_run_says_what_was_not(pasted: Project) -> None:
    pasted.pytest("--update-golden", "-k", "transformers")
    result = pasted.pytest("--tokenparity-unreachable=skip", QWEN_URL="http://127.0.0.1:9")
    assert "3 passed, 3 skipped" in result.output
    assert "checked  3 equal to the golden, 3 not checked" in result.output


def test_the_first_command_runs_the_suite_with_the_plugin_and_its_own_requirements_alone(tmp_path: Path) -> None:
    command = next(line for line in README.splitlines() if line.startswith("pip install . && "))
    arguments = re.findall(r"'[^']*'|\S+", command.partition("&& pytest ")[2])
    copy = Project(tmp_path, {})
    for name in ("conftest.py", "tokenparity.yaml", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("golden", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("gguf", "xllamacpp"):  # a package of the tests that is asked for would raise
        copy.write(f"{name}.py", f"raise AssertionError('{name} is not needed here')\n")
    result = copy.pytest(*(argument.strip("'") for argument in arguments), QWEN_URL="http://127.0.0.1:9")
    assert result.code == 0, result.output
    assert "skipped" not in result.output
