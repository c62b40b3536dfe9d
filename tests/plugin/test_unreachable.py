"""Servers that nobody answers for, or that are still loading: one clear reason, asked once, and never a silent pass."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ..harness import LETTERS_CONFTEST, QUESTION, Project

CASES = QUESTION + "cases:\n" + "".join(f"  case-{number}: {{messages: question}}\n" for number in range(3))
TEXT = "system: You are terse.\nuser: What is 2 + 2?\n"
GOLDEN = """{"format": 1, "model": "tiny", "case": "case-NUMBER", "file": "chat.tokenparity.yaml",
 "recorded": {"engine": "letters"}, "requests": [{"messages": 2, "tokens": 44, "keep": 0, "append": [[IDS, "text"]]}]}
"""
"""A golden by hand: what the engine `letters` renders."""
TELL_WHEN_COLLECTED = """
def pytest_collection_finish(session):
    (session.config.rootpath / "collected").touch()
"""


class FakeLlamaServer(ThreadingHTTPServer):
    """Stands for a llama-server that is loading its model, a state that a healthy server does not show.

    Follows llama.cpp's `tools/server/server-http.cpp`: until the model is loaded every route answers 503 with this error
    object. After `loading` seconds from the first question it answers in the shapes of `/apply-template` and `/tokenize`,
    with a token for each letter.
    """

    def __init__(self, port: int = 0, loading: float = 0.0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.loading = loading
        self.asked: list[str] = []
        self.first: float | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def is_loading(self) -> bool:
        if self.first is None:
            self.first = time.monotonic()
        return time.monotonic() - self.first < self.loading


class _Handler(BaseHTTPRequestHandler):
    server: FakeLlamaServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer({"build_info": "b1-fake", "model_alias": "letters"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/apply-template":
            self._answer({"prompt": "".join(f"{m['role']}: {m['content']}\n" for m in body["messages"])})
        elif self.path == "/tokenize":
            self._answer({"tokens": [ord(letter) for letter in body["content"]]})
        else:
            self._answer({"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}}, 404)

    def _answer(self, body: object, status: int = 200) -> None:
        self.server.asked.append(self.path)
        if self.server.is_loading:
            status = 503
            body = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving(server: FakeLlamaServer) -> Iterator[FakeLlamaServer]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    assert isinstance(number, int)
    return number


@pytest.fixture
def project_at(tmp_path: Path) -> Callable[[str], Project]:
    """A project with goldens for three cases, whose llama-server is at the given address."""

    def make(url: str) -> Project:
        ids = str([ord(letter) for letter in TEXT])
        goldens = {
            f"golden/tiny/chat/case-{number}.json": GOLDEN.replace("NUMBER", str(number)).replace("IDS", ids)
            for number in range(3)
        }
        # The tokenizer is never needed: nothing is recorded, and no token is shown.
        config = f"models:\n  tiny:\n    tokenizer: ./none\n    engines:\n      letters: {{}}\n      server: {{type: llama-server, url: '{url}'}}\n"
        files = {"conftest.py": LETTERS_CONFTEST, "tokenparity.yaml": config, "chat.tokenparity.yaml": CASES}
        return Project(tmp_path, {**files, **goldens})

    return make


def test_a_refused_connection_fails_with_one_reason_and_no_traceback(
    project_at: Callable[[str], Project], port: int
) -> None:
    project = project_at(f"http://someone:secret@127.0.0.1:{port}")
    before = project.files()
    started = time.monotonic()
    result = project.pytest()
    assert result.code == 1
    assert "3 failed, 3 passed" in result.output
    reason = f"server cannot be reached: nothing answers at http://127.0.0.1:{port}: "
    text = rf"""
_+ case-0\[tiny-server\] _+
{reason}(?!\[Errno)[^\n]*\n*
  fix     start it, or correct the address at tokenparity\.yaml:6: models\.tiny\.engines\.server
  skip    pytest --tokenparity-unreachable=skip  leaves out what cannot be reached, and says so
  at      chat.tokenparity.yaml:7: case-0\[tiny-server\]
_"""
    assert re.search(text, result.output)
    assert "checked  3 equal to the golden, 3 not checked\n" in result.output
    assert result.output.count("not checked: 3 items of tiny: " + reason) == 1
    assert "Traceback" not in result.output
    assert "secret" not in result.output
    assert time.monotonic() - started < 20
    assert project.files() == before


def test_skip_turns_it_into_skips_and_the_summary_says_what_was_not_checked(
    project_at: Callable[[str], Project], port: int
) -> None:
    project = project_at(f"http://127.0.0.1:{port}")
    result = project.pytest("--tokenparity-unreachable=skip", "-rs")
    assert result.code == 0
    assert "3 passed, 3 skipped" in result.output
    assert "checked  3 equal to the golden, 3 not checked\n" in result.output
    reason = f"server cannot be reached: nothing answers at http://127.0.0.1:{port}"
    assert f"not checked: 3 items of tiny: {reason}" in result.output
    assert "NOTHING WAS CHECKED" not in result.output
    quiet = project.pytest("--tokenparity-unreachable=skip", "-q", "-k", "server")
    assert quiet.code == 0
    assert "NOTHING WAS CHECKED: 3 not checked\n" in quiet.output
    assert f"not checked: 3 items of tiny: {reason}" in quiet.output


def test_other_words_than_fail_and_skip_are_usage_errors(project_at: Callable[[str], Project]) -> None:
    project = project_at("http://127.0.0.1:1")
    result = project.pytest("--tokenparity-unreachable=pass")
    assert result.code == 4
    assert "invalid choice: 'pass'" in result.output


@pytest.mark.parametrize("seconds", ["-1", "nan", "abc"])
def test_a_wait_that_is_no_time_is_a_usage_error(project_at: Callable[[str], Project], seconds: str) -> None:
    result = project_at("http://127.0.0.1:1").pytest(f"--tokenparity-wait={seconds}")
    assert result.code == 4
    assert f"expected seconds, a number of at least 0, found {seconds!r}" in result.output


def test_a_server_that_loads_its_model_is_waited_for(project_at: Callable[[str], Project]) -> None:
    with serving(FakeLlamaServer(loading=1.0)) as server:
        result = project_at(server.url).pytest("-k", "server")
    assert result.passed(3), result.output
    assert f"engine   llama-server b1-fake at {server.url}, serving letters\n" in result.output
    assert 3 <= server.asked.count("/apply-template") < 20
    assert server.asked.count("/tokenize") == 3


def test_a_server_that_never_loads_is_given_up_after_the_wait_and_asked_for_one_item_alone(
    project_at: Callable[[str], Project],
) -> None:
    with serving(FakeLlamaServer(loading=1e6)) as server:
        result = project_at(server.url).pytest("-k", "server", "--tokenparity-wait=0", "--tokenparity-unreachable=skip")
        once = list(server.asked)
        waited = project_at(server.url).pytest(
            "-k", "server", "--tokenparity-wait=0.5", "--tokenparity-unreachable=skip"
        )
    assert "3 skipped" in result.output
    assert once == ["/apply-template"]
    reason = f"server at {server.url} is still loading its model after 0 s; wait longer with --tokenparity-wait=SECONDS"
    assert f"not checked: 3 items of tiny: {reason}\n" in result.output
    assert "3 skipped" in waited.output
    assert "is still loading its model after 0.5 s" in waited.output
    assert 2 <= len(server.asked) - len(once) <= 8


def test_a_refused_connection_is_waited_for_where_a_wait_is_given(
    project_at: Callable[[str], Project], port: int
) -> None:
    project = project_at(f"http://127.0.0.1:{port}")
    project.write("conftest.py", LETTERS_CONFTEST + TELL_WHEN_COLLECTED)
    found: list[list[str]] = []

    def start_late() -> None:
        """Listen only when the first item has been running for a while."""
        deadline = time.monotonic() + 60
        while not (project.folder / "collected").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.5)
        with serving(FakeLlamaServer(port)) as server:
            done.wait(60)
            found.append(server.asked)

    done = threading.Event()
    thread = threading.Thread(target=start_late)
    thread.start()
    try:
        result = project.pytest("-k", "server", "--tokenparity-wait=30")
    finally:
        done.set()
        thread.join()
    assert result.passed(3), result.output
    (asked,) = found
    assert Counter(asked) == {"/apply-template": 3, "/tokenize": 3, "/props": 1}  # side by side, so in any order


def test_a_wait_that_was_in_vain_is_said(project_at: Callable[[str], Project], port: int) -> None:
    result = project_at(f"http://127.0.0.1:{port}").pytest(
        "-k", "case-0 and server", "--tokenparity-wait=0.3", "--tokenparity-unreachable=skip"
    )
    assert f"nothing answers at http://127.0.0.1:{port} (waited 0.3 s)" in result.output


def test_a_server_that_answers_something_else_is_no_unreachable_one(project_at: Callable[[str], Project]) -> None:
    """Only silence may be skipped: a wrong server fails."""
    with serving(FakeLlamaServer()) as server:
        result = project_at(f"{server.url}/v1").pytest(
            "-k", "case-0 and server", "--tokenparity-unreachable=skip", "--tokenparity-wait=0"
        )
    assert result.code == 1
    assert "1 failed" in result.output
    assert (
        f"server at {server.url}/v1 has no /apply-template: give the server's root, `url: {server.url}`, without /v1"
        in result.output
    )
