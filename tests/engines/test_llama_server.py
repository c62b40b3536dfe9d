"""llama-server: what is posted to a real one and what it answers; and the faults that a healthy server does not show."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from pytest_tokenparity import EngineError, EngineUnreachable, LlamaCppTokens, Rendering, Request, RequestRefused
from pytest_tokenparity.engines import http
from pytest_tokenparity.engines.base import Wait
from pytest_tokenparity.engines.base import raised as raised_by

HI = [{"role": "user", "content": "Hi"}]
TALK = [*HI, {"role": "assistant", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "now", "return": {"type": "string"}, "parameters": {"type": "object"}}}
QUESTION = [{"role": "system", "content": "You are terse."}, {"role": "user", "content": "What is 2 + 2?"}]


class Recorder(httpx.BaseTransport):
    """Passes every request on to the real server, and keeps what was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        self._real = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        content = request.read()
        self.sent.append((f"{request.method} {request.url.path}", json.loads(content) if content else None))
        return self._real.handle_request(request)

    def close(self) -> None:
        self._real.close()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def engine(qwen_url: str, recorder: Recorder) -> Iterator[LlamaCppTokens]:
    engine = LlamaCppTokens(qwen_url, transport=recorder)
    yield engine
    engine.close()


@contextmanager
def closing(engine: LlamaCppTokens) -> Iterator[LlamaCppTokens]:
    try:
        yield engine
    finally:
        engine.close()


# What is posted to the real server


def test_a_plain_request_posts_its_messages_and_nothing_else(engine: LlamaCppTokens, recorder: Recorder) -> None:
    rendering = engine.render(Request(HI))
    prompt = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert [
        ("POST /apply-template", {"messages": HI}),
        ("POST /tokenize", {"content": prompt, "add_special": True, "parse_special": True}),
    ] == recorder.sent
    assert Rendering(ids=[151644, 872, 198, 13048, 151645, 198, 151644, 77091, 198], text=prompt) == rendering


def test_messages_keep_their_key_order_and_keys_of_the_users_own(engine: LlamaCppTokens, recorder: Recorder) -> None:
    messages: list[dict[str, Any]] = [
        {"content": "Hi", "role": "user", "name": "ada", "cache_control": {"ttl": 5, "kind": "short"}},
        {"reasoning_content": "hm", "role": "assistant", "content": "Hello", "weight": 0},
        {"role": "user", "content": "é 你好 \U0001f600"},
    ]
    engine.render(Request(messages))
    assert json.dumps(messages) == json.dumps(recorder.sent[0][1]["messages"])


def test_tools_are_posted_whole_and_in_their_key_order(engine: LlamaCppTokens, recorder: Recorder) -> None:
    engine.render(Request(HI, [TOOL]))
    assert json.dumps([TOOL]) == json.dumps(recorder.sent[0][1]["tools"])


@pytest.mark.parametrize(
    ("request_", "more"),
    [
        (Request(HI, []), {"tools": []}),
        (
            Request(HI, template_kwargs={"enable_thinking": False, "b": [1]}),
            {"chat_template_kwargs": {"enable_thinking": False, "b": [1]}},
        ),
        (Request(TALK, add_generation_prompt=False), {"add_generation_prompt": False}),
        (
            Request(TALK, add_generation_prompt=False, continue_final_message=True),
            {"add_generation_prompt": False, "continue_final_message": True},
        ),
    ],
    ids=["no tools in a list", "switches", "no generation prompt", "continued"],
)
def test_what_is_not_the_default_is_posted(
    engine: LlamaCppTokens, recorder: Recorder, request_: Request, more: dict[str, Any]
) -> None:
    assert engine.render(request_).ids is not None
    assert {"messages": list(request_.messages), **more} == recorder.sent[0][1]


def test_ids_takes_the_flags_and_switches_as_keywords(engine: LlamaCppTokens, recorder: Recorder) -> None:
    engine.ids(TALK, [TOOL], continue_final_message=True, enable_thinking=False)
    assert recorder.sent[0][1] == {
        "messages": TALK,
        "tools": [TOOL],
        "chat_template_kwargs": {"enable_thinking": False},
        "add_generation_prompt": False,
        "continue_final_message": True,
    }


def test_a_models_name_is_posted_to_both_routes(qwen_url: str, recorder: Recorder) -> None:
    name = httpx.get(f"{qwen_url}/v1/models").json()["data"][0]["id"]
    with closing(LlamaCppTokens(qwen_url, transport=recorder, model=name)) as engine:
        engine.ids(HI)
        engine.ids(HI)
    assert [body["model"] for path, body in recorder.sent if path.startswith("POST")] == [name] * 4
    assert [path for path, _ in recorder.sent].count("GET /v1/models") == 1


def test_another_model_than_the_one_named_is_an_error_that_names_both(qwen_url: str) -> None:
    name = httpx.get(f"{qwen_url}/v1/models").json()["data"][0]["id"]
    with closing(LlamaCppTokens(qwen_url, model="gemma-3")) as engine, pytest.raises(EngineError) as caught:
        engine.ids(HI)
    assert str(caught.value) == f"llama-server at {qwen_url} serves {name}, not 'gemma-3' (`model:`)"


def test_a_request_is_not_changed_by_rendering_it(engine: LlamaCppTokens) -> None:
    messages, tools, switches = [dict(HI[0])], [json.loads(json.dumps(TOOL))], {"enable_thinking": False}
    engine.render(Request(messages, tools, switches))
    assert (messages, tools, switches) == (HI, [TOOL], {"enable_thinking": False})


def test_an_address_may_have_a_path_and_a_slash_at_its_end(qwen_url: str) -> None:
    paths: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:  # a fake: a server behind a proxy's path
        paths.append(request.url.path)
        return httpx.Response(200, json={"prompt": "Hi", "tokens": [1]})

    for address in ("http://localhost:1/llama", "http://localhost:1/llama/"):
        with closing(LlamaCppTokens(address, transport=httpx.MockTransport(answer))) as engine:
            assert engine.ids(HI) == [1]
    assert paths == ["/llama/apply-template", "/llama/tokenize"] * 2
    with closing(LlamaCppTokens(f"{qwen_url}/")) as engine:
        assert len(engine.ids(HI)) == 9


# What the real server answers


def test_special_tokens_are_letters_when_they_are_not_parsed(engine: LlamaCppTokens, qwen_tokenizer: Any) -> None:
    prompt = qwen_tokenizer.apply_chat_template(QUESTION, tokenize=False, add_generation_prompt=True)
    assert (len(engine.tokenize(prompt)), len(engine.tokenize(prompt, parse_special=False))) == (25, 46)


def test_gemmas_bos_is_added_unless_it_is_not_wanted(gemma_url: str) -> None:
    with closing(LlamaCppTokens(gemma_url)) as engine:
        assert (engine.tokenize("Hi"), engine.tokenize("Hi", add_special=False)) == ([2, 10979], [10979])


@pytest.mark.parametrize(
    ("messages", "switches", "message"),
    [
        ([{"content": "x"}], {}, """Failed to parse messages: Missing 'role' in message: {"content":"x"}"""),
        ([{"role": "user"}], {}, "All non-assistant messages must contain 'content'"),
        ([*TALK, TALK[1]], {}, "Cannot have 2 or more assistant messages at the end of the list."),
        ([{"role": "user", "content": [{"type": "smell"}]}], {}, "unsupported content[].type"),
        (HI, {"enable_thinking": "yes"}, 'invalid type for "enable_thinking" (expected boolean, got string)'),
    ],
    ids=["no role (500)", "no content", "two assistants", "an unknown part", "a switch of another type"],
)
def test_what_the_server_rejects_is_a_refusal_in_its_own_words(
    engine: LlamaCppTokens, messages: list[dict[str, Any]], switches: dict[str, Any], message: str
) -> None:
    assert Rendering(refused=message) == engine.render(Request(messages, template_kwargs=switches))


def test_both_flags_at_once_are_refused(engine: LlamaCppTokens) -> None:
    with pytest.raises(RequestRefused) as raised:
        engine.ids(TALK, add_generation_prompt=True, continue_final_message=True)
    assert (
        str(raised.value)
        == "llama-server refuses the request: Cannot set both add_generation_prompt and continue_final_message to true."
    )


def test_the_server_renders_null_content_as_no_text(engine: LlamaCppTokens) -> None:
    expected = engine.ids([{"role": "user", "content": ""}])
    assert expected == engine.ids([{"role": "user", "content": None}])


def test_describe_tells_the_build_the_address_and_the_model(engine: LlamaCppTokens, qwen_url: str) -> None:
    props = httpx.get(f"{qwen_url}/props").json()
    version = f"llama-server {props['build_info']}"
    assert version == engine.version()
    described = f"{version} at {qwen_url}, serving {props['model_alias']}"
    assert described[:159] == engine.describe()[:159]


# Faults, from sockets of our own: what a real HTTP client meets


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A port on which each connection is given to ``answer`` and then closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                connection, _ = server.accept()
                with connection:
                    if not stop.is_set():
                        answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            stop.set()
            socket.create_connection(server.getsockname()).close()
            thread.join()


def read_request(connection: socket.socket) -> bytes:
    """One HTTP request with its body, or b"" when the other side has closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    (length,) = (int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
    while len(body) < length:
        body += connection.recv(65536)
    return head


def reply(body: bytes, headers: bytes = b"") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n" % (len(body), headers)
    return head + body


def test_a_port_on_which_nobody_listens_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with closing(LlamaCppTokens(f"http://127.0.0.1:{port}")) as engine, pytest.raises(EngineUnreachable) as raised:
        engine.ids(HI)
    assert str(raised.value).startswith(f"llama-server cannot be reached: nothing answers at http://127.0.0.1:{port}: ")


def test_a_host_that_nobody_knows_is_unreachable() -> None:
    with closing(LlamaCppTokens("http://no-such-host.invalid")) as engine, pytest.raises(EngineUnreachable) as raised:
        engine.ids(HI)
    assert str(raised.value).startswith("llama-server cannot be reached: ")
    assert "http://no-such-host.invalid" in str(raised.value)


def test_a_server_that_never_answers_is_unreachable_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        with closing(LlamaCppTokens(address, timeout=0.2)) as engine, pytest.raises(EngineUnreachable) as raised:
            engine.ids(HI)
    assert (
        f"llama-server at {address} did not answer /apply-template within 0.2 s; "
        "set `timeout:` (seconds) if it needs longer" == str(raised.value)
    )


@pytest.mark.parametrize(
    "answer",
    [
        reply(b'{"prompt": "Hi"}')[:-8],
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{"prompt": ',
        b"",
    ],
    ids=["of a known length", "in chunks", "before its first byte"],
)
def test_a_reply_that_is_cut_off_is_an_error_that_no_option_skips(answer: bytes) -> None:
    def cut(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(answer)

    with listening(cut) as address:
        with closing(LlamaCppTokens(address)) as engine, pytest.raises(EngineError) as raised:
            engine.ids(HI)
        assert not isinstance(raised.value, EngineUnreachable)
        assert str(raised.value).startswith(f"llama-server at {address} broke off while answering /apply-template: ")


def test_an_answer_that_is_no_http_is_an_error_that_no_option_skips() -> None:
    def speak(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")

    with listening(speak) as address:
        with closing(LlamaCppTokens(address)) as engine, pytest.raises(EngineError) as raised:
            engine.ids(HI)
        assert not isinstance(raised.value, EngineUnreachable)
        assert str(raised.value).startswith(f"llama-server at {address} broke off while answering /apply-template: ")


def test_a_connection_that_was_closed_while_idle_is_opened_once_more() -> None:
    requests: list[int] = []  # how many requests each connection brought

    def answer_one_and_hang_up_on_the_next(connection: socket.socket) -> None:
        requests.append(0)
        while read_request(connection):
            requests[-1] += 1
            if requests[-1] == 2:
                return  # as a server whose idle limit ends in the moment the client writes
            connection.sendall(reply(b'{"prompt": "Hi", "tokens": [1, 2]}'))

    with listening(answer_one_and_hang_up_on_the_next) as address, closing(LlamaCppTokens(address)) as engine:
        assert engine.ids(HI) == [1, 2]
    assert requests == [2, 1]


# Faults, from fakes: what a healthy llama-server does not answer (httpx.MockTransport: there is no server)

Answer = Callable[[httpx.Request], httpx.Response]


def fake(
    at_template: Answer | httpx.Response | None = None, at_tokenize: Answer | httpx.Response | None = None, **how: Any
) -> LlamaCppTokens:
    """An engine whose server is made up: the answers at the two routes, healthy ones where none is given."""
    healthy = {"/apply-template": {"prompt": "Hi"}, "/tokenize": {"tokens": [1]}}

    def answer(request: httpx.Request) -> httpx.Response:
        given = {"/apply-template": at_template, "/tokenize": at_tokenize}[request.url.path]
        if given is None:
            return httpx.Response(200, json=healthy[request.url.path])
        return given if isinstance(given, httpx.Response) else given(request)

    return LlamaCppTokens("http://user:secret@gpu:8080", transport=httpx.MockTransport(answer), **how)


def error_object(status: int, message: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"code": status, "message": message, "type": "server_error"}})


@pytest.mark.parametrize(
    ("status", "message", "refused"),
    [
        (400, "no such role", True),
        (500, "Failed to parse messages: Missing 'role'", True),
        (500, "Unable to generate parser for this template.", True),
        (500, "no such role", False),
        (500, "vector::_M_range_check", False),
        (400, "model 'tiny' not found", False),
        (500, "tools param requires --jinja flag", False),
        (400, "Invalid API Key", False),
        (500, "Failed to parse: out of memory", False),
        (503, "Unable to serve", False),
    ],
)
def test_an_error_is_a_refusal_only_where_it_speaks_of_the_request(status: int, message: str, refused: bool) -> None:
    with closing(fake(error_object(status, message))) as engine:
        if refused:
            assert engine.render(Request(HI)) == Rendering(refused=message)
        else:
            with pytest.raises(EngineError) as raised:
                engine.render(Request(HI))
            assert f"answered /apply-template with status {status}: {message}" in str(raised.value)


def test_control_characters_of_a_message_are_escaped() -> None:
    with closing(fake(error_object(400, "no\x1b[31m\u202e red\x00"))) as engine:
        assert engine.render(Request(HI)) == Rendering(refused=r"no\x1b[31m\u202e red\x00")


def test_the_place_of_a_fault_is_in_the_users_code_or_none() -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")  # the last frame is the standard library's
    assert re.search(r" \(test_llama_server\.py:\d+\)$", raised_by(caught.value))
    assert raised_by(KeyError("x")) == "KeyError: 'x'"


GPU = "llama-server at http://gpu:8080"
HTML = httpx.Response(200, html="<!DOCTYPE html><html>Welcome to nginx!</html>")


@pytest.mark.parametrize(
    ("at_template", "at_tokenize", "message"),
    [
        (
            error_object(401, "Invalid API Key"),
            None,
            f"{GPU} wants a key (401: Invalid API Key); name its variable with `api_key_env:`",
        ),
        (
            error_object(403, "Forbidden"),
            None,
            f"{GPU} wants a key (403: Forbidden); name its variable with `api_key_env:`",
        ),
        (
            error_object(404, "File Not Found"),
            None,
            (
                f"{GPU} has no /apply-template (File Not Found): an older version, or no llama-server? "
                "It needs a build of December 2025 or newer"
            ),
        ),
        (
            None,
            error_object(404, "File Not Found"),
            (
                f"{GPU} has no /tokenize (File Not Found): an older version, or no llama-server? "
                "It needs a build of December 2025 or newer"
            ),
        ),
        (
            None,
            error_object(500, "out of memory"),
            f"""{GPU} answered /tokenize with status 500: out of memory; its log may say more""",
        ),
        (
            None,
            error_object(400, "bad content"),
            f"""{GPU} answered /tokenize with status 400: bad content; expected {{"tokens": [...]}}""",
        ),
        (
            httpx.Response(500, json={"detail": "boom"}),
            None,
            f"{GPU} answered /apply-template with status 500: boom; its log may say more",
        ),
        (
            HTML,
            None,
            (
                f"{GPU} answered /apply-template with status 200 and an HTML page: "
                "'<!DOCTYPE html><html>Welcome to nginx!</html>'; is this the right server and port?"
            ),
        ),
        (
            httpx.Response(502, text="Bad Gateway"),
            None,
            (
                f"{GPU} answered /apply-template with status 502 and text/plain; charset=utf-8, not JSON: "
                "'Bad Gateway'; is this the right server and port?"
            ),
        ),
        (
            httpx.Response(200, content=b'{"prompt": "Hi', headers={"content-type": "application/json"}),
            None,
            (
                f"{GPU} answered /apply-template with status 200 and application/json, not JSON: "
                """'{"prompt": "Hi'; is this the right server and port?"""
            ),
        ),
        (
            httpx.Response(200, content=b""),
            None,
            (
                f"{GPU} answered /apply-template with status 200 and no content type, not JSON: ''; "
                "is this the right server and port?"
            ),
        ),
        (
            httpx.Response(200, json={"text": "Hi"}),
            None,
            f"""{GPU} answered /apply-template with status 200: {{"text": "Hi"}}; expected {{"prompt": "..."}}""",
        ),
        (
            httpx.Response(200, json=["Hi"]),
            None,
            f"""{GPU} answered /apply-template with status 200: ["Hi"]; expected {{"prompt": "..."}}""",
        ),
        (
            httpx.Response(200, json={"prompt": None}),
            None,
            f"""{GPU} answered /apply-template with status 200: {{"prompt": null}}; expected {{"prompt": "..."}}""",
        ),
        (
            None,
            httpx.Response(200, json={"tokens": "1 2"}),
            f"""{GPU} answered /tokenize with status 200: {{"tokens": "1 2"}}; expected {{"tokens": [...]}}""",
        ),
        (
            None,
            httpx.Response(200, content=b"null"),
            f"""{GPU} answered /tokenize with status 200: null; expected {{"tokens": [...]}}""",
        ),
        (
            None,
            httpx.Response(200, json={"tokens": [1, "2"]}),
            f"{GPU} must give integers, it gave str '2' at token 1",
        ),
        (None, httpx.Response(200, json={"tokens": [1.0]}), f"{GPU} must give integers, it gave float 1.0 at token 0"),
        (None, httpx.Response(200, json={"tokens": [True]}), f"{GPU} must give integers, it gave bool True at token 0"),
        (
            None,
            httpx.Response(200, json={"tokens": [{"id": 1, "piece": "a"}]}),
            f"{GPU} must give integers, it gave dict {{'id': 1, 'piece': 'a'}} at token 0",
        ),
        (None, httpx.Response(200, json={"tokens": [1, -1]}), f"{GPU} gave a negative token ID, -1, at token 1"),
    ],
)
def test_an_answer_that_cannot_be_used_is_one_readable_error_without_credentials(
    at_template: httpx.Response | None, at_tokenize: httpx.Response | None, message: str
) -> None:
    with closing(fake(at_template, at_tokenize)) as engine, pytest.raises(EngineError) as raised:
        engine.render(Request(HI))
    assert message == str(raised.value)
    assert not isinstance(raised.value, EngineUnreachable)


def test_an_answer_nested_without_end_is_one_readable_error() -> None:
    deep = httpx.Response(200, content=b"[" * 200_000, headers={"content-type": "application/json"})
    with closing(fake(deep)) as engine, pytest.raises(EngineError, match=f"^{GPU} answered /apply-template with"):
        engine.render(Request(HI))


def test_a_reply_larger_than_any_prompt_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_REPLY", 3 * 1024**2)
    large = httpx.Response(200, json={"prompt": "x" * (4 * 1024**2)})
    with closing(fake(large)) as engine, pytest.raises(EngineError) as raised:
        engine.render(Request(HI))
    assert f"{GPU} answered /apply-template with more than 3 MiB, larger than any prompt" == str(raised.value)


@pytest.mark.parametrize("error", [httpx.ReadTimeout, httpx.ConnectTimeout, httpx.WriteTimeout, httpx.PoolTimeout])
def test_every_kind_of_timeout_is_unreachable(error: type[httpx.TimeoutException]) -> None:
    def wait(request: httpx.Request) -> httpx.Response:
        raise error("timed out", request=request)

    with closing(fake(None, wait, timeout=7)) as engine, pytest.raises(EngineUnreachable) as raised:
        engine.render(Request(HI))
    assert f"{GPU} did not answer /tokenize within 7 s; set `timeout:` (seconds) if it needs longer" == str(
        raised.value
    )


@pytest.mark.parametrize("error", [httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError])
def test_a_closed_connection_is_asked_once_more_and_not_again(error: type[httpx.TransportError]) -> None:
    asked: list[str] = []

    def hang_up(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        raise error("Server disconnected without sending a response.", request=request)

    with closing(fake(hang_up)) as engine, pytest.raises(EngineError) as raised:
        engine.render(Request(HI))
    assert asked == ["/apply-template"] * 2
    assert f"{GPU} broke off while answering /apply-template: Server disconnected without sending a response." == str(
        raised.value
    )


def test_a_server_that_is_loading_its_model_is_waited_for() -> None:
    answers = [error_object(503, "Loading model"), error_object(503, "Loading model")]

    def load(request: httpx.Request) -> httpx.Response:
        return answers.pop() if answers else httpx.Response(200, json={"prompt": "Hi"})

    with closing(fake(load)) as engine:
        assert Rendering(ids=[1], text="Hi") == engine.render(Request(HI))
    assert answers == []


def test_a_server_that_never_ends_loading_is_unreachable() -> None:
    loading = fake(error_object(503, "Loading model"), wait=Wait(loading=0.2))
    with closing(loading) as engine, pytest.raises(EngineUnreachable) as raised:
        engine.render(Request(HI))
    assert f"{GPU} is still loading its model after 0.2 s; wait longer with --tokenparity-wait=SECONDS" == str(
        raised.value
    )


def test_a_server_that_is_overloaded_is_not_one_that_is_loading() -> None:
    with closing(fake(error_object(503, "no slot is free"))) as engine, pytest.raises(EngineError) as raised:
        engine.render(Request(HI))
    assert f"{GPU} answered /apply-template with status 503: no slot is free; its log may say more" == str(raised.value)


def test_a_server_that_does_not_start_yet_is_waited_for_when_that_is_asked() -> None:
    refusals = [1, 2]

    def start(request: httpx.Request) -> httpx.Response:
        if refusals:
            refusals.pop()
            raise httpx.ConnectError("Connection refused", request=request)
        return httpx.Response(200, json={"prompt": "Hi"})

    with closing(fake(start, wait=Wait(refused=5))) as engine:
        assert engine.ids(HI) == [1]


@pytest.mark.parametrize("reason", ["Connection refused", "Name or service not known", "[SSL] certificate expired"])
def test_no_credentials_stand_in_the_message_of_an_unreachable_server(reason: str) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(reason, request=request)

    with closing(fake(refuse)) as engine, pytest.raises(EngineUnreachable) as raised:
        engine.render(Request(HI))
    assert "http://gpu:8080" in str(raised.value)
    assert reason in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "user" not in str(raised.value)


@pytest.mark.parametrize(
    "address",
    [
        "user:secret@localhost:8080",
        "ftp://user:secret@localhost",
        "http://user:secret@",
        "http://user:secret@localhost:99999x",
    ],
)
def test_no_credentials_stand_in_the_message_of_an_address_that_is_none(address: str) -> None:
    with pytest.raises(EngineError, match=r"^llama-server: .* is no URL") as raised:
        LlamaCppTokens(address)
    assert "secret" not in str(raised.value)


def test_no_credentials_stand_in_what_an_engine_says_of_itself() -> None:
    props = httpx.Response(200, json={"build_info": "b1", "model_alias": "m"})
    transport = httpx.MockTransport(lambda request: props)
    with closing(LlamaCppTokens("http://user:secret@gpu:8080", transport=transport)) as engine:
        assert engine.describe() == "llama-server b1 at http://gpu:8080, serving m"


@pytest.mark.parametrize("props", [error_object(404, "File Not Found"), httpx.Response(200, json=[])])
def test_a_server_that_tells_nothing_of_itself_is_described_all_the_same(props: httpx.Response) -> None:
    transport = httpx.MockTransport(lambda request: props)
    with closing(LlamaCppTokens("http://gpu:8080", transport=transport)) as engine:
        assert engine.describe() == "llama-server at http://gpu:8080, serving an unnamed model"
