"""What an item of this plugin costs beside a plain pytest test that compares a JSON file.

``python -m tests.benchmarks.items``: 2,000 of each, 200 IDs, the two in turn; prints the CPU seconds of the whole
processes and the ratio of their medians. The aim is 1.1.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from ..real_models import QWEN3

COUNT, LENGTH, RUNS = 2000, 200, 5
NOT_SET = ("CI", "PYTEST_ADDOPTS", "PYTHONDONTWRITEBYTECODE")  # the last: a plugin is compiled once, not in each run

ENGINE = '''
class Numbers:
    """As many IDs as a short prompt has, made of the message: what is measured is the plugin, not an engine."""

    name = "numbers"

    def ids(self, conversation, tools=None, **template_kwargs):
        start = int(conversation[-1]["content"])
        return list(range(start, start + {length}))


def pytest_tokenparity_engine(config, model, name, options):
    return Numbers()
'''

PLAIN = """
import json
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def numbers(start):
    return list(range(start, start + {length}))


@pytest.mark.parametrize("start", range({count}))
def test_numbers(start):
    golden = json.loads((GOLDEN / f"{{start}}.json").read_text(encoding="utf-8"))
    assert numbers(start) == golden["ids"]
"""


def write_plugin_project(folder: Path) -> None:
    """2,000 cases, one engine, their goldens recorded."""
    (folder / "conftest.py").write_text(ENGINE.format(length=LENGTH))
    (folder / "tokenparity.yaml").write_text(
        f"models:\n  m:\n    tokenizer: {QWEN3}\n    engines:\n      numbers: {{}}\n"
    )
    cases = "".join(f'  c{n}:\n    messages:\n      - {{role: user, content: "{n}"}}\n' for n in range(COUNT))
    (folder / "many.tokenparity.yaml").write_text(f"cases:\n{cases}")
    run(folder, "--tokenparity-update")


def write_plain_project(folder: Path) -> None:
    """2,000 plain tests, each with a JSON file."""
    (folder / "golden").mkdir()
    (folder / "test_plain.py").write_text(PLAIN.format(length=LENGTH, count=COUNT))
    for start in range(COUNT):
        (folder / "golden" / f"{start}.json").write_text(json.dumps({"ids": list(range(start, start + LENGTH))}))


def run(folder: Path, *arguments: str) -> float:
    """One pytest run; the CPU seconds of the whole process."""
    environment = {key: value for key, value in os.environ.items() if key not in NOT_SET}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    before = os.times()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    after = os.times()
    if f"{COUNT} passed" not in done.stdout:
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as plain:
        write_plugin_project(Path(ours))
        write_plain_project(Path(plain))
        run(Path(plain))
        pairs = [(run(Path(ours)), run(Path(plain))) for _ in range(RUNS)]
    items, tests = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(f"{COUNT} items of {LENGTH} IDs: {items:.2f} s CPU; {COUNT} plain tests: {tests:.2f} s CPU")
    print(f"ratio {items / tests:.2f} (median of {RUNS} pairs; aim 1.1)")


if __name__ == "__main__":
    main()
