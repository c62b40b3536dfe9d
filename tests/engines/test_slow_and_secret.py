"""A server that answers byte by byte ends at the deadline; and no message shows what an address must keep to itself."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from pytest_tokenparity import EngineError, EngineUnreachable, LlamaCppTokens, Request
from pytest_tokenparity.engines.http import without_secrets

HI = Request([{"role": "user", "content": "Hi"}])
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n"


@pytest.fixture(params=["in the body", "in the headers"])
def dripping(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server that sends one byte every 50 ms."""
    first = HEAD + b"\r\n" if request.param == "in the body" else HEAD
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.recv(65536)
                    connection.sendall(first)
                    for _ in range(200):
                        connection.sendall(b"a")
                        time.sleep(0.05)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()


def test_an_answer_that_drips_ends_at_the_deadline(dripping: str) -> None:
    started = time.monotonic()
    with LlamaCppTokens(dripping, timeout=0.5) as engine, pytest.raises(EngineUnreachable) as raised:
        engine.render(HI)
    assert time.monotonic() - started < 5
    assert "did not answer /apply-template within 0.5 s" in str(raised.value)
    assert raised.value.advice == "set a longer `timeout:` (seconds)"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://localhost:8080/v1", "http://localhost:8080/v1"),
        ("http://user:s3cret@localhost:8080", "http://localhost:8080"),
        ("http://user:s3c/ret@localhost:1", "http://localhost:1"),
        ("http://user:s3c?ret@localhost:1", "http://localhost:1"),
        ("http://user:s3c#ret@localhost:1", "http://localhost:1"),
        ("http://localhost:1?key=s3cret", "http://localhost:1"),
        ("http://localhost:1#s3cret", "http://localhost:1"),
        ("user:s3cret@localhost", "localhost"),
    ],
)
def test_an_address_is_shown_without_what_is_secret_in_it(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


@pytest.mark.parametrize("url", ["http://user:s3c/ret@localhost:1", "http://user:s3c?ret@h", "http://u:p#s3c@h:x"])
def test_an_address_that_is_none_shows_no_part_of_its_password(url: str) -> None:
    with pytest.raises(EngineError) as raised, LlamaCppTokens(url) as engine:
        engine.render(HI)
    assert "s3c" not in str(raised.value)


def test_what_to_do_is_said_by_kind() -> None:
    def loading(request: httpx.Request) -> httpx.Response:
        return httpx.Response(503, json={"error": {"message": "Loading model"}})

    from pytest_tokenparity.engines.base import Wait

    advice = []
    for engine in (
        LlamaCppTokens("http://x", transport=httpx.MockTransport(loading), wait=Wait(0.0, 0.0)),
        LlamaCppTokens("http://127.0.0.1:9"),
        LlamaCppTokens("http://no-such-host.invalid"),
    ):
        with engine, pytest.raises(EngineUnreachable) as raised:
            engine.render(HI)
        advice.append(raised.value.advice)
    assert advice == ["wait longer: --tokenparity-wait=SECONDS", "start it", "join the network that knows it"]
