"""A project of somebody else's, in a few files: pytest is run in it as its owner would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .real_models import QWEN3

_NOT_INHERITED = (
    "CI",
    "BUILD_NUMBER",
    "GITHUB_ACTIONS",
    "PYTEST_ADDOPTS",
    "TOX_ENV_DIR",  # pytest puts its cache there
    "NO_COLOR",
    "FORCE_COLOR",
    "PY_COLORS",
    "COLUMNS",
)

QUESTION = """
conversations:
  question:
    - {role: system, content: You are terse.}
    - {role: user, content: "What is 2 + 2?"}
"""
PLAIN = QUESTION + "cases:\n  plain: {messages: question}\n"

LETTERS_CONFTEST = '''
class Letters:
    """A token for each letter: an engine of somebody else's, fast enough to be asked a thousand times."""

    def __init__(self, name, change=None):
        self.name = name
        self.change = change or (lambda ids: ids)

    def ids(self, conversation, tools=None, **template_kwargs):
        text = "".join(f"{message['role']}: {message['content']}\\n" for message in conversation)
        return self.change([ord(letter) for letter in text])


CHANGES = {"letters": None, "shouting": lambda ids: [ord(chr(i).upper()) for i in ids], "short": lambda ids: ids[:-1]}


def pytest_tokenparity_engine(config, model, name, options):
    if name in CHANGES:
        return Letters(name, CHANGES[name])
'''
"""A conftest whose hook gives the engines `letters`, `shouting` and `short`: no import of Transformers to compare them."""


@dataclass(frozen=True)
class Result:
    """One pytest run: its exit code, what it printed (both streams), and the folder it ran in."""

    code: int
    output: str
    folder: Path

    def passed(self, count: int) -> bool:
        return self.code == 0 and f" {count} passed" in self.output

    def file(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")


class Project:
    """A folder with files, in which pytest is run. Text files are written with LF endings."""

    def __init__(self, folder: Path, files: Mapping[str, str | bytes]) -> None:
        self.folder = folder
        for name, content in files.items():
            self.write(name, content)

    def write(self, name: str, content: str | bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text that must be there."""
        text = self.read(name)
        assert old in text, f"{old!r} is not in {name}"
        self.write(name, text.replace(old, new))

    def files(self) -> dict[str, bytes]:
        """Every file but caches, by its path: to show that nothing was written."""
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts and ".pytest_cache" not in path.parts
        }

    def pytest(self, *arguments: str, start: str = ".", python: tuple[str, ...] = (), **environment: str) -> Result:
        """Run pytest in a process of its own; ``start`` is the sub-folder to run it from.

        Of the plugins in our own environment only pytest-randomly changes what is not about it: it is off, unless a test
        asks for it with ``-p randomly``.
        """
        inherited = {key: value for key, value in os.environ.items() if key not in _NOT_INHERITED}
        done = subprocess.run(
            [sys.executable, *python, "-m", "pytest", "-p", "no:randomly", *arguments],
            cwd=self.folder / start,
            env={**inherited, "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
            check=False,
        )
        return Result(done.returncode, done.stdout.decode("utf-8", "replace"), self.folder)


def qwen_config(url: str | None = None, more: str = "") -> str:
    """A configuration with Qwen3's real tokenizer; with ``url``, a llama-server and a posted string too."""
    engines = "      transformers: {}\n"
    if url:
        engines += (
            f"      llama-server: {{url: '{url}'}}\n      posted-string: {{type: client-completion, url: '{url}'}}\n"
        )
    return f"models:\n  qwen3-0.6b:\n    tokenizer: {QWEN3}\n{more}    engines:\n{engines}"


def letters_config(*engines: str) -> str:
    """A configuration of engines that :data:`LETTERS_CONFTEST` gives; the tokenizer is Qwen3's."""
    names = "".join(f"      {name}: {{}}\n" for name in engines or ("letters",))
    return f"models:\n  tiny:\n    tokenizer: {QWEN3}\n    engines:\n{names}"
