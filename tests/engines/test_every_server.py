"""Every engine behind HTTP meets every fault that a server, a proxy or a configuration can have: one line, and no secret."""

from __future__ import annotations

import base64
import json
import logging
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from pytest_tokenparity import (
    ClientCompletionTokens,
    EngineError,
    EngineUnreachable,
    LlamaCppTokens,
    Rendering,
    Request,
)
from pytest_tokenparity.engines.ollama import OllamaTokens
from pytest_tokenparity.engines.server import ServerEngine
from pytest_tokenparity.engines.sglang import SglangTokens
from pytest_tokenparity.engines.tgi import TgiTokens
from pytest_tokenparity.engines.vllm import VllmTokenizeTokens, VllmTokens
from pytest_tokenparity.errors import WrongServer

from ..harness import LETTERS_CONFTEST, PLAIN, Project, Result
from ..real_models import QWEN3

HI = [{"role": "user", "content": "Hi"}]
KEY = "sk-this-is-a-secret-key"
PASSWORD = "pa55word"
Make = Callable[..., ServerEngine]


def client(server: str) -> Make:
    def make(url: str, transport: Any = None, **options: Any) -> ServerEngine:
        return ClientCompletionTokens(lambda conversation, tools=None: "Hi", url, transport, server=server, **options)

    return make


def ollama(url: str, transport: Any = None, **options: Any) -> ServerEngine:
    return OllamaTokens(url, transport, **{"model": "m", **options})


ENGINES: Mapping[str, tuple[Make, str, str]] = {
    # how one is made; the route that shows its prompt; its options in a configuration
    "llama-server": (LlamaCppTokens, "/apply-template", "type: llama-server"),
    "vllm": (VllmTokens, "/v1/chat/completions/render", "type: vllm"),
    "vllm-tokenize": (VllmTokenizeTokens, "/tokenize", "type: vllm-tokenize"),
    "sglang": (SglangTokens, "/v1/tokenize", "type: sglang"),
    "tgi": (TgiTokens, "/chat_tokenize", "type: tgi"),
    "ollama": (ollama, "/api/chat", "type: ollama, model: m"),
    "to-llama-server": (client("llama-server"), "/tokenize", "type: client-completion, server: llama-server"),
    "to-vllm": (client("vllm"), "/tokenize", "type: client-completion, server: vllm"),
    "to-sglang": (client("sglang"), "/v1/tokenize", "type: client-completion, server: sglang"),
}
ALL = pytest.mark.parametrize("name", ENGINES)


def prompt_of(route: str) -> Any:
    """What a healthy server answers at a route that shows a prompt."""
    return {
        "/apply-template": {"prompt": "Hi"},
        "/v1/chat/completions/render": {"token_ids": [1]},
        "/chat_tokenize": {"tokenize_response": [{"id": 1}], "templated_text": "Hi"},
        "/api/chat": {"_debug_info": {"rendered_template": "Hi"}},
    }.get(route, {"tokens": [1]})


def engine(
    name: str, answer: Callable[[httpx.Request], httpx.Response] | httpx.Response, **options: Any
) -> ServerEngine:
    """An engine whose server is a fake that answers so, at an address with credentials (unless ``url`` says another)."""
    url = options.pop("url", f"http://user:{PASSWORD}@gpu:1/")
    given: Any = answer

    def respond(request: httpx.Request) -> httpx.Response:
        if callable(given):
            made: httpx.Response = given(request)
            return made
        return httpx.Response(given.status_code, headers=given.headers, content=given.content)

    return ENGINES[name][0](url, httpx.MockTransport(respond), **{"name": name, **options})


def healthy(request: httpx.Request) -> httpx.Response:
    if request.url.path == "/v1/models":
        return httpx.Response(200, json={"data": [{"id": "served"}]})
    return httpx.Response(200, json=prompt_of(request.url.path))


def fault(made: ServerEngine) -> EngineError:
    with made, pytest.raises(EngineError) as raised:
        made.render(Request(HI))
    assert_one_line_without_secrets(str(raised.value))
    return raised.value


def assert_one_line_without_secrets(said: str) -> None:
    assert said.isprintable()
    assert len(said) < 700
    assert PASSWORD not in said
    assert KEY not in said


@ALL
def test_a_healthy_server_is_understood(name: str) -> None:
    with engine(name, healthy) as made:
        rendering = made.render(Request(HI))
    assert rendering.refused is None
    assert rendering.ids == [1] or (name == "ollama" and rendering.text == "Hi")


# What a server, or a proxy before it, answers

SHAPES: Mapping[str, Any] = {
    "OpenAI's": {"error": {"message": "boom", "type": "InternalServerError", "param": None, "code": 500}},
    "Ollama's": {"error": "boom"},
    "SGLang's": {"object": "error", "message": "boom", "type": "InternalServerError", "code": 500},
    "TGI's": {"error": "boom", "error_type": "generation"},
    "FastAPI's": {"detail": "boom"},
}


@ALL
@pytest.mark.parametrize("shape", SHAPES)
def test_500_in_any_shape_is_a_fault_with_the_servers_words_and_no_refusal(name: str, shape: str) -> None:
    raised = fault(engine(name, httpx.Response(500, json=SHAPES[shape])))
    assert isinstance(raised, WrongServer)
    assert str(raised).startswith(
        f"{name} at http://gpu:1 answered {ENGINES[name][1]} with status 500: boom; its log may say more"
    )


@ALL
@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (httpx.Response(401, json={"error": "Unauthorized"}), "401: Unauthorized"),
        (httpx.Response(401, json={"error": {"message": "Invalid API Key"}}), "401: Invalid API Key"),
        (httpx.Response(401), "401: it says no more"),
        (httpx.Response(401, html="<html>Sign in</html>"), "401: <html>Sign in</html>"),
        (httpx.Response(401, text=f"no such key: {KEY}"), "401: no such key: {}"),
        (httpx.Response(401, json={"error": f"no such key: {KEY}"}), "401: no such key: {}"),
    ],
    ids=["vLLM", "llama.cpp", "TGI", "a page", "text that echoes the key", "JSON that echoes the key"],
)
def test_401_wants_a_key_or_another_one(name: str, key: str | None, answer: httpx.Response, said: str) -> None:
    if key is None and KEY in answer.text:
        answer, said = httpx.Response(401, text="no key"), "401: no key"
    raised = fault(engine(name, answer, api_key=key))
    wants = "another key" if key else "a key"
    assert isinstance(raised, WrongServer)
    how = "" if key else "; name its variable with `api_key_env:`"
    assert str(raised) == f"{name} at http://gpu:1 wants {wants} ({said.format('***')}){how}"


@ALL
def test_404_says_which_version_or_server_it_should_be(name: str) -> None:
    said = str(fault(engine(name, httpx.Response(404, json={"detail": "Not Found"}))))
    assert said.startswith(f"{name} at http://gpu:1 ")
    route = "/tokenize" if name == "vllm" else ENGINES[name][1]  # vLLM's /render may be closed
    assert f"has no {route} (Not Found): an older version, or no " in said
    assert " It needs " in said


@ALL
def test_404_at_an_address_with_v1_says_which_address_it_should_be(name: str) -> None:
    made = engine(name, httpx.Response(404, json={"detail": "Not Found"}), url=f"http://user:{PASSWORD}@gpu:1/v1/")
    said = str(fault(made))
    assert said.startswith(f"{name} at http://gpu:1/v1 has no ")
    assert said.endswith(": give the server's root, `url: http://gpu:1`, without /v1")


@ALL
@pytest.mark.parametrize("status", [200, 404, 422, 502])
def test_a_page_is_the_wrong_server_or_port(name: str, status: int) -> None:
    page = httpx.Response(status, html="<!DOCTYPE html><html>Welcome to nginx!</html>")
    assert str(fault(engine(name, page))) == (
        f"{name} at http://gpu:1 answered {ENGINES[name][1]} with status {status} and an HTML page: "
        "'<!DOCTYPE html><html>Welcome to nginx!</html>'; is this the right server and port?"
    )


@ALL
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_for_it_would_take_the_key_elsewhere(name: str, status: int) -> None:
    asked: list[str] = []

    def elsewhere(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(status, headers={"location": f"http://elsewhere{request.url.path}"})

    assert str(fault(engine(name, elsewhere, api_key=KEY))) == (
        f"{name} at http://gpu:1 redirects {ENGINES[name][1]} elsewhere (status {status}), which is not followed: give "
        "the address that answers"
    )
    assert asked == [f"http://gpu:1{ENGINES[name][1]}"]


@ALL
def test_another_model_than_the_served_one_is_named_beside_it(name: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": "served"}, {"id": "too", "aliases": ["also"]}]})
        if name == "ollama":
            return httpx.Response(404, json={"error": "model 'nope' not found"})
        if "vllm" in name:
            words = "The model `nope` does not exist. Valid aliases: served."
            return httpx.Response(404, json={"error": {"message": words, "type": "NotFoundError", "code": 404}})
        return healthy(request)  # the others answer whatever model a request names

    raised = fault(engine(name, answer, model="nope"))
    assert isinstance(raised, WrongServer)
    more = ": pull it, or name another" if name == "ollama" else ""
    assert str(raised) == f"{name} at http://gpu:1 serves served, too, also, not 'nope' (`model:`){more}"


@ALL
@pytest.mark.parametrize(
    ("error", "said", "advice"),
    [
        (
            httpx.ConnectError("[Errno 111] Connection refused"),
            "{} cannot be reached: nothing answers at http://gpu:1: Connection refused",
            "start it",
        ),
        (
            httpx.ConnectError("[Errno -2] Name or service not known"),
            "{} cannot be reached: the host of http://gpu:1 is not known (Name or service not known)",
            "join the network that knows it",
        ),
        (
            httpx.ReadTimeout("timed out"),
            "{} at http://gpu:1 did not answer {} within 7 s; set `timeout:` (seconds) if it needs longer",
            "set a longer `timeout:` (seconds)",
        ),
    ],
    ids=["refused", "unknown host", "late"],
)
def test_who_cannot_be_reached_is_unreachable_and_what_to_do_is_said(
    name: str, error: Exception, said: str, advice: str
) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error

    raised = fault(engine(name, fail, timeout=7, api_key=KEY))
    assert isinstance(raised, EngineUnreachable)
    assert (str(raised), raised.advice) == (said.format(name, ENGINES[name][1]), advice)


@ALL
def test_a_server_that_loads_its_model_is_waited_for(name: str) -> None:
    loading = [httpx.Response(503, json={"error": {"message": "Loading model", "code": 503}})]

    def answer(request: httpx.Request) -> httpx.Response:
        return loading.pop() if loading else healthy(request)

    with engine(name, answer) as made:
        assert made.render(Request(HI)).refused is None
    assert loading == []


# Keys


@ALL
def test_the_key_is_sent_as_a_bearer_and_headers_beside_it(name: str) -> None:
    seen: list[httpx.Headers] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers)
        return healthy(request)

    with engine(name, answer, api_key=KEY, headers={"X-Team": "parity"}, model="served") as made:
        made.render(Request(HI))
        made.describe()
    assert {headers["authorization"] for headers in seen} == {f"Bearer {KEY}"}  # and not the address's credentials
    assert {headers["x-team"] for headers in seen} == {"parity"}


@ALL
def test_an_addresss_credentials_are_sent_where_there_is_no_key(name: str) -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"])
        return healthy(request)

    with engine(name, answer) as made:
        made.render(Request(HI))
    assert set(seen) == {"Basic " + base64.b64encode(f"user:{PASSWORD}".encode()).decode()}


@ALL
def test_a_key_stands_in_no_repr_no_log_and_no_version(name: str, caplog: pytest.LogCaptureFixture) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"version": KEY, "model_id": KEY, "build_info": KEY, "data": [{"id": KEY}]})
        return healthy(request)

    with caplog.at_level(logging.DEBUG), engine(name, answer, api_key=KEY) as made:
        made.render(Request(HI))
        shown = [made.version(), made.describe(), repr(made), repr(vars(made)), repr(made._server.access)]
        shown.append(repr(made._server.client.headers))
    assert KEY not in "".join(shown)
    assert caplog.records
    assert all(KEY not in record.getMessage() and PASSWORD not in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("key", [KEY, 'quo"te\\slash/key', "short", "500"])
@pytest.mark.parametrize("status", [400, 401, 500])
def test_a_key_that_the_server_echoes_is_hidden_however_it_is_written_and_breaks_no_answer(
    key: str, status: int
) -> None:
    body = {"error": {"message": f"no: {key}", "type": "invalid_request_error", "code": status}}
    with engine("llama-server", httpx.Response(status, json=body), api_key=key) as made:
        try:
            said = str(made.render(Request(HI)).refused)
        except EngineError as error:
            said = str(error)
    assert "no: ***" in said
    assert key not in said.partition("no: ")[2]


@pytest.mark.parametrize("value", ["1", "true", "no", "4"])
def test_a_header_that_only_says_yes_hides_nothing(value: str) -> None:
    body = {"error": {"message": "404 is not true, no 1", "code": 404}}
    made = engine("sglang", httpx.Response(500, json=body), headers={"x-sglext-return-input-ids": value})
    said = str(fault(made))
    assert said.startswith("sglang at http://gpu:1 answered /v1/tokenize with status 500: 404 is not ")


@pytest.mark.parametrize("headers", [{"X-Api-Key": KEY}, {"Authorization": f"Bearer {KEY}"}])
@pytest.mark.parametrize("echoed", [KEY, f"Bearer {KEY}"])
def test_a_key_in_a_header_is_hidden_with_its_scheme_or_without(headers: dict[str, str], echoed: str) -> None:
    for status in (401, 500):
        fault(engine("vllm", httpx.Response(status, json={"error": f"bad {echoed}"}), headers=headers))
        fault(engine("vllm", httpx.Response(status, text=f"bad {echoed}"), headers=headers))


def test_an_addresss_password_that_the_server_echoes_is_hidden() -> None:
    sent = base64.b64encode(f"user:{PASSWORD}".encode()).decode()
    said = str(fault(engine("vllm", httpx.Response(500, json={"error": f"bad {PASSWORD} {sent}"}))))
    assert "bad *** ***" in said


@pytest.mark.parametrize("key", ["sk-secret\n", " sk-secret", "sk-se\ncret", "sk-secrét", "sk-\x00secret"])
def test_a_key_that_no_header_can_carry_is_said_to_be_one_and_not_shown(key: str) -> None:
    said = (
        "cannot be sent: it begins or ends with a space or a line break, or holds a character that is none of ASCII's "
        "printable ones"
    )
    for options, what in (
        ({"api_key": key}, "the key (`api_key_env:`)"),
        ({"headers": {"X-Api-Key": key}}, "the value of 'X-Api-Key' (`headers:`)"),
    ):
        with pytest.raises(EngineError) as raised:
            engine("vllm", healthy, **options)
        assert str(raised.value) == f"vllm: {what} {said}"


def test_a_header_whose_name_is_none_is_named() -> None:
    with pytest.raises(EngineError) as raised:
        engine("vllm", healthy, headers={"X Api": "1"})
    assert str(raised.value) == "vllm: 'X Api' (`headers:`) is no name of a header"


# Certificates


@ALL
def test_a_bundle_that_is_not_there_or_holds_none_is_said_to_be_so(name: str, tmp_path: Path) -> None:
    absent, wrong = tmp_path / "absent.pem", tmp_path / "wrong.pem"
    wrong.write_text("no certificate", encoding="utf-8")
    for bundle, why in ((absent, "No such file or directory"), (wrong, "")):
        with pytest.raises(EngineError) as raised:
            engine(name, healthy, verify=str(bundle))
        assert_one_line_without_secrets(str(raised.value))
        assert str(raised.value).startswith(f"`verify: {bundle}` cannot be read as certificates: {why}")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a server with a certificate that it signed itself, and that certificate's file."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "openssl makes the certificate"
    folder = tmp_path_factory.mktemp("tls")
    pem, key = folder / "cert.pem", folder / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", *subject]
    subprocess.run([*made, "-keyout", str(key), "-out", str(pem)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    with serving(context) as address:
        yield address, str(pem)


def test_a_certificate_that_nobody_knows_is_refused_unless_its_bundle_is_named_or_nothing_checked(
    tls: tuple[str, str],
) -> None:
    address, bundle = tls
    with VllmTokenizeTokens(f"{address}/fine") as made, pytest.raises(EngineUnreachable) as raised:
        made.render(Request(HI))
    assert str(raised.value).startswith(f"vllm-tokenize at {address}/fine: TLS failed: ")
    assert raised.value.advice == "mend its certificate, or name the bundle that it needs with `verify:`"
    for verify in (False, bundle):
        with VllmTokenizeTokens(f"{address}/fine", verify=verify) as made:
            assert made.render(Request(HI)) == Rendering(ids=[1])


# The same over sockets, in one run


class _Handler(BaseHTTPRequestHandler):
    """Answers by the first part of the path."""

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kind, _, route = self.path[1:].partition("/")
        status, body = 200, json.dumps(prompt_of(f"/{route}"))
        if kind == "keyed":
            status, body = (
                401,
                json.dumps({"error": f"not {self.headers.get('Authorization')} {self.headers['X-Own']}"}),
            )
        elif kind == "page":
            body = "<html>hello"
        elif kind == "broken":
            status, body = 500, json.dumps(SHAPES["TGI's"])
        elif kind == "elsewhere":
            status, body = 307, ""
        elif kind == "late":
            time.sleep(0.6)
        content = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content) + (20 if kind == "cut" else 0)))
        if status == 307:
            self.send_header("Location", "http://127.0.0.2:9/elsewhere")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that waited long enough, or knows no such certificate, hangs up."""


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[str]:
    server = _Server(("127.0.0.1", 0), _Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Meeting(BaseHTTPRequestHandler):
    """Answers a tokenization only when as many have come as ``server.expected`` says; counts the connections."""

    protocol_version = "HTTP/1.1"
    server: _MeetingServer

    def setup(self) -> None:
        super().setup()
        self.server.connections.append(True)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/tokenize":
            self.server.expected.wait(timeout=20)
        content = json.dumps({"prompt": "Hi", "tokens": [1]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def finish(self) -> None:
        super().finish()
        self.server.ended.release()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _MeetingServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, at_once: int) -> None:
        super().__init__(("127.0.0.1", 0), _Meeting)
        self.expected = threading.Barrier(at_once)
        self.connections: list[bool] = []
        self.ended = threading.Semaphore(0)


@contextmanager
def meeting(at_once: int) -> Iterator[_MeetingServer]:
    server = _MeetingServer(at_once)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_requests_at_once_have_a_connection_each_that_is_kept_and_closed_at_the_end() -> None:
    with meeting(4) as server:
        with (
            LlamaCppTokens(f"http://127.0.0.1:{server.server_port}", timeout=30) as engine,
            ThreadPoolExecutor(4) as pool,
        ):
            for _ in range(3):
                assert list(pool.map(engine.render, [Request(HI)] * 4)) == [Rendering(ids=[1], text="Hi")] * 4
            assert len(server.connections) == 4
        assert all(server.ended.acquire(timeout=20) for _ in range(4))


def test_a_transport_that_was_given_serves_requests_at_once_and_is_closed_once() -> None:
    class Transport(httpx.MockTransport):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    both = threading.Barrier(2)

    def answer(request: httpx.Request) -> httpx.Response:
        both.wait(timeout=20)
        return httpx.Response(200, json={"prompt": "Hi", "tokens": [1]})

    transport = Transport(answer)
    with LlamaCppTokens("http://gpu", transport=transport) as engine, ThreadPoolExecutor(2) as pool:
        assert list(pool.map(engine.render, [Request(HI)] * 2)) == [Rendering(ids=[1], text="Hi")] * 2
    assert transport.closed == 1


FAULTS: Mapping[str, str] = {
    "nobody": "{name} cannot be reached: nothing answers at {url}: ",
    "late": "{name} at {url} did not answer {route} within 0.3 s; set `timeout:` (seconds) if it needs longer",
    "cut": "{name} at {url} broke off while answering {route}: ",
    "broken": "{name} at {url} answered {route} with status 500: boom; its log may say more",
    "page": "{name} at {url} answered {route} with status 200 and an HTML page: '<html>hello'; is this the right server",
    "elsewhere": "{name} at {url} redirects {route} elsewhere (status 307), which is not followed: give the address that",
    "keyed": "{name} at {url} wants another key (401: not Bearer *** ***)",
    "keyless": "tokenparity.yaml:{line}: models.tiny.engines.{name}: the variable TP_UNSET is not set (`api_key_env`)",
    "unsigned": "tokenparity.yaml:{line}: models.tiny.engines.{name}: `verify: {folder}/absent.pem` cannot be read as "
    "certificates: ",
}
CASES = [(kind, name) for kind in FAULTS for name in ENGINES]
OWN = "own-header-secret"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Result, str]]:
    """One run of every engine against every fault, with httpx's log on; and the server's address."""
    config = f"models:\n  tiny:\n    tokenizer: {QWEN3}\n    engines:\n      letters: {{}}\n"
    more = {
        "late": ", timeout: 0.3",
        "keyed": ", api_key_env: TP_KEY, headers: {X-Own: '${TP_OWN}'}",
        "keyless": ", api_key_env: TP_UNSET",
        "unsigned": ", verify: absent.pem",
    }
    with serving() as address:
        for kind, name in CASES:
            url = "http://127.0.0.1:9/nobody" if kind == "nobody" else f"{address}/{kind}"
            url = url.replace("://", f"://user:{PASSWORD}@")
            config += f"      {kind}-{name}: {{{ENGINES[name][2]}, url: '{url}'{more.get(kind, '')}"
            config += ", render: 'own:render'}\n" if name.startswith("to-") else "}\n"
        project = Project(
            tmp_path_factory.mktemp("faults"),
            {
                "conftest.py": LETTERS_CONFTEST,
                "own.py": "def render(conversation, tools=None, **template_kwargs):\n    return 'Hi'\n",
                "tokenparity.yaml": config,
                "chat.tokenparity.yaml": PLAIN,
            },
        )
        result = project.pytest(
            *("--update-golden", "--junitxml=junit.xml", "--log-level=DEBUG", "--log-file=log.txt", "-vv"),
            COLUMNS="400",
            TP_KEY=KEY,
            TP_OWN=OWN,
        )
        yield result, address


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_fault_is_one_readable_line_and_says_what_to_do(run: tuple[Result, str], kind: str, name: str) -> None:
    result, address = run
    said = FAULTS[kind].format(
        name=f"{kind}-{name}",
        url="http://127.0.0.1:9/nobody" if kind == "nobody" else f"{address}/{kind}",
        route=ENGINES[name][1],
        line=6 + CASES.index((kind, name)),
        folder=result.folder,
    )
    lines = [line for line in result.output.splitlines() if line.startswith(said)]
    assert len(lines) == 1, said
    (_, _, after) = result.output.partition(lines[0])
    section = after.partition("\n____")[0]
    place = f"tokenparity.yaml:{6 + CASES.index((kind, name))}: models.tiny.engines.{kind}-{name}"
    assert place in lines[0] + section
    if kind not in ("keyless", "unsigned"):
        assert "\n  fix     " in section


def test_each_failed_and_none_ended_the_run(run: tuple[Result, str]) -> None:
    assert f"{len(CASES)} failed, 1 passed" in run[0].output
    assert "Traceback" not in run[0].output


def test_no_secret_stands_in_what_the_run_printed_or_wrote(run: tuple[Result, str]) -> None:
    result, _ = run
    written = {
        path.name: path.read_text(encoding="utf-8")
        for path in result.folder.rglob("*")
        if path.is_file() and path.suffix in (".xml", ".txt", ".json")
    }
    assert {"junit.xml", "log.txt", "plain.json"} <= set(written)
    assert "HTTP Request" in written["log.txt"]
    for secret in (KEY, OWN, PASSWORD):
        found = [name for name, text in {**written, "output": result.output}.items() if secret in text]
        assert found == [], secret
