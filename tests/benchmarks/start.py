"""What a whole pytest run costs with the reference `tokenizers`, beside the same run with `transformers`.

``python -m tests.benchmarks.start``: 18 items that all pass, on Qwen3's tokenizer, the two in turn; prints wall and CPU
seconds of the whole processes and the ratios of their medians.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ..real_models import QWEN3

COUNT, RUNS = 18, 5


def write_project(folder: Path, engine: str) -> None:
    """18 cases, one engine, their goldens recorded."""
    (folder / "tokenparity.yaml").write_text(
        f"models:\n  m:\n    tokenizer: {QWEN3}\n    engines:\n      {engine}: {{}}\n"
    )
    cases = "".join(f'  c{n}:\n    messages:\n      - {{role: user, content: "What is {n}?"}}\n' for n in range(COUNT))
    (folder / "some.tokenparity.yaml").write_text(f"cases:\n{cases}")
    run(folder, "--tokenparity-update")


def run(folder: Path, *arguments: str) -> tuple[float, float]:
    """One pytest run; the wall and the CPU seconds of the whole process."""
    environment = {key: value for key, value in os.environ.items() if key not in ("CI", "PYTEST_ADDOPTS")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - start, os.times()
    if f"{COUNT} passed" not in done.stdout:
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        write_project(Path(ours), "tokenizers")
        write_project(Path(theirs), "transformers")
        pairs = [(run(Path(ours)), run(Path(theirs))) for _ in range(RUNS)]
    for which, name in enumerate(("wall", "CPU")):
        tokenizers, transformers = (statistics.median(pair[side][which] for pair in pairs) for side in (0, 1))
        print(
            f"{COUNT} items, {name}: tokenizers {tokenizers:.2f} s, transformers {transformers:.2f} s, "
            f"ratio {tokenizers / transformers:.2f} (median of {RUNS} pairs)"
        )


if __name__ == "__main__":
    main()
