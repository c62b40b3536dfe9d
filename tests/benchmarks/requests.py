"""How long 1,000 requests through a real llama-server take, against a bare httpx loop of the same concurrency.

Run as ``python -m tests.benchmarks.requests``: the engine alone, whose requests are sent ahead as in a run; pytest with 1,000
items of one llama-server; and a loop that posts the same two requests for each (`/apply-template`, `/tokenize`) from as
many threads, each with a client and a connection that it keeps. The loop starts no interpreter and runs no test: what pytest takes to start and to collect the same items, asking
nothing, and what it takes for as many empty tests, is printed beside.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from pytest_tokenparity import LlamaCppTokens, Request
from pytest_tokenparity.engines.ahead import Ahead

from ..real_models import QWEN3, Servers

ITEMS = 1000
CONCURRENCY = 8
RUNS = 3
EMPTY = f"""
import pytest


@pytest.mark.parametrize("number", range({ITEMS}))
def test_nothing(number):
    pass
"""


def body(number: int) -> dict[str, Any]:
    return {
        "messages": [
            {"role": "system", "content": "You are terse."},
            {"role": "user", "content": f"What is {number} + 2?"},
        ]
    }


def project(folder: Path, url: str) -> None:
    """A project of ITEMS cases on one llama-server, with goldens that `tokenizers` recorded."""
    cases = {f"c{number}": body(number) for number in range(ITEMS)}
    (folder / "chat.tokenparity.yaml").write_text(json.dumps({"cases": cases}), encoding="utf-8")
    engines = {"tokenizers": {}, "llama-server": {"url": url, "concurrency": CONCURRENCY}}
    config = {"models": {"qwen3": {"tokenizer": str(QWEN3), "engines": engines}}}
    (folder / "tokenparity.yaml").write_text(json.dumps(config), encoding="utf-8")
    run(folder, "--tokenparity-update", "-k", "tokenizers")


def run(folder: Path, *options: str) -> float:
    """The wall time of a pytest run, in seconds."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", *options]
    environment = {**os.environ, "CI": "", "PYTHONDONTWRITEBYTECODE": ""}  # a plugin is compiled once, not in each run
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - started


def bare(url: str) -> float:
    """The wall time of the same requests without pytest, in seconds.

    A client of its own for each thread: one that all share loses a connection now and then, and the loop with it.
    """
    context = httpx.create_ssl_context()

    def ask(client: httpx.Client, number: int) -> int:
        prompt = client.post("/apply-template", json=body(number)).raise_for_status().json()["prompt"]
        asked = {"content": prompt, "add_special": True, "parse_special": True}
        return len(client.post("/tokenize", json=asked).raise_for_status().json()["tokens"])

    def ask_all(numbers: range) -> int:
        with httpx.Client(base_url=url, timeout=60, verify=context) as client:
            return min(ask(client, number) for number in numbers)

    with ThreadPoolExecutor(CONCURRENCY) as pool:
        started = time.perf_counter()
        assert min(pool.map(ask_all, [range(first, ITEMS, CONCURRENCY) for first in range(CONCURRENCY)])) > 20
        return time.perf_counter() - started


def sent(url: str) -> float:
    """The wall time of the same requests through the engine, sent ahead and taken in order, in seconds."""
    plan = [Request.of(body(number)["messages"]) for number in range(ITEMS)]
    with LlamaCppTokens(url, concurrency=CONCURRENCY) as engine:
        started = time.perf_counter()
        ahead = Ahead(engine, plan, CONCURRENCY)
        assert min(len(ahead.render(request).ids or ()) for request in plan) > 20
        taken = time.perf_counter() - started
        ahead.close()
    return taken


def main() -> None:
    servers = Servers()
    try:
        url = servers.url("qwen3")
        with TemporaryDirectory() as name, TemporaryDirectory() as other:
            folder, empty = Path(name), Path(other)
            project(folder, url)
            (empty / "test_empty.py").write_text(EMPTY)
            run(empty)
            rows = [
                (
                    run(folder, "-k", "llama-server"),
                    sent(url),
                    bare(url),
                    run(folder, "-k", "llama-server", "--collect-only"),
                    run(empty),
                )
                for _ in range(RUNS)
            ]
    finally:
        servers.close()
    ours, engine, theirs, collected, tests = (median(times) for times in zip(*rows, strict=True))
    print(
        f"{ITEMS} items through llama-server: {ours:.2f} s; a bare httpx loop: {theirs:.2f} s; collecting alone "
        f"{collected:.2f} s; {ITEMS} empty tests: {tests:.2f} s"
    )
    print(f"the engine alone: {engine:.2f} s, ratio {engine / theirs:.2f} (aim 1.25)")
    print(
        f"pytest: ratio {ours / theirs:.2f} of whole runs, {(ours - collected) / theirs:.2f} without starting and collecting, "
        f"{ours / (theirs + tests):.2f} of the loop and the empty tests"
    )


if __name__ == "__main__":
    main()
