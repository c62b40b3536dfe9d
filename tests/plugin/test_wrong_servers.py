"""A server that is the wrong one, loads or hangs: where it is configured and what to do, by what went wrong."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ..harness import LETTERS_CONFTEST, PLAIN, Project, Result
from ..real_models import QWEN3
from .test_bad_input import said_of, shows_a_traceback

ANSWERS = {
    "missing": (404, "not found"),
    "keyed": (401, "no key"),
    "broken": (500, "it broke"),
    "loading": (503, "Loading model"),
}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        kind = self.path.split("/")[1]
        if kind == "hanging":
            time.sleep(2)
        status, message = ANSWERS.get(kind, (200, ""))
        body = b"<html>hello" if kind == "page" else json.dumps({"error": {"message": message}}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    """One run against every kind of server; each engine's line is known."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    config = f"models:\n  tiny:\n    tokenizer: {QWEN3}\n    engines:\n      letters: {{}}\n"
    for kind in (*ANSWERS, "page", "hanging"):
        config += f"      {kind}: {{type: llama-server, url: '{url}/{kind}', timeout: 0.5}}\n"
    config += "      refusing: {type: llama-server, url: 'http://127.0.0.1:9'}\n"
    project = Project(
        tmp_path_factory.mktemp("servers"),
        {"conftest.py": LETTERS_CONFTEST, "tokenparity.yaml": config, "chat.tokenparity.yaml": PLAIN},
    )
    assert project.pytest("--update-golden", "-k", "letters").passed(1)
    yield project.pytest("--tokenparity-wait=0.1")
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("kind", "line", "fix"),
    [
        ("missing", 6, "correct the address at PLACE, or start the right server there"),
        ("keyed", 7, "name the variable that holds its key with `api_key_env:`, or correct the address at PLACE"),
        ("broken", 8, "look into the server's log, or correct the address at PLACE"),
        ("loading", 9, "wait longer: --tokenparity-wait=SECONDS, or correct the address at PLACE"),
        ("page", 10, "correct the address at PLACE, or start the right server there"),
        ("hanging", 11, "set a longer `timeout:` (seconds), or correct the address at PLACE"),
        ("refusing", 12, "start it, or correct the address at PLACE"),
    ],
)
def test_the_fix_is_that_of_the_fault_and_names_the_configuration(
    result: Result, kind: str, line: int, fix: str
) -> None:
    assert not shows_a_traceback(result)
    (lines,) = said_of(result, f"plain[tiny-{kind}]")
    place = f"tokenparity.yaml:{line}: models.tiny.engines.{kind}"
    assert f"  fix     {fix.replace('PLACE', place)}" in lines


def test_a_folder_that_is_misspelt_is_said_first_and_soon(tmp_path: Path) -> None:
    config = "models:\n  m:\n    tokenizer: tokk\n    engines: {transformers: }\n"
    project = Project(tmp_path, {"tokenparity.yaml": config, "chat.tokenparity.yaml": PLAIN})
    for offline in ("1", "0"):
        started = time.monotonic()
        result = project.pytest("--update-golden", HF_HUB_OFFLINE=offline, HF_ENDPOINT="http://127.0.0.1:9")
        assert time.monotonic() - started < 40
        assert "tokenparity.yaml:3: models.m.tokenizer: there is no folder tokk, and no tokenizer from" in result.output
        assert "Retry" not in result.output


CLIENTS = """
async def awaited(conversation, tools=None, **template_kwargs):
    return "Hi"


def narrow(conversation, tools=None):
    return "Hi"
"""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("awaited", "`render` must return the prompt as a string: it must not be async"),
        (
            "narrow",
            (
                "`render` raised TypeError: narrow() got an unexpected keyword argument 'thinking' (clients.py:6): it "
                "should take (conversation, tools=None, **template_kwargs)"
            ),
        ),
    ],
)
def test_a_render_that_cannot_be_called_is_one_line_with_its_place(tmp_path: Path, function: str, said: str) -> None:
    config = f"models:\n  m:\n    tokenizer: {QWEN3}\n    engines:\n"
    config += f"      posted: {{type: client-completion, url: 'http://127.0.0.1:9', render: 'clients:{function}'}}\n"
    project = Project(
        tmp_path,
        {
            "clients.py": CLIENTS,
            "pytest.ini": "[pytest]\nfilterwarnings = error\n",
            "tokenparity.yaml": config,
            "chat.tokenparity.yaml": PLAIN.replace("question}\n", "question, template_kwargs: {thinking: true}}\n"),
        },
    )
    result = project.pytest("--update-golden")
    assert f"\nposted: {said}\n" in result.output
    assert not shows_a_traceback(result)
