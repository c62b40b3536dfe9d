"""Ollama, by a fake that follows its sources of August 2026 (v0.33.0-rc2). No package brings a real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from pytest_tokenparity import EngineError, Rendering, Request
from pytest_tokenparity.engines.ollama import CHAT, COMPUTED, OllamaTokens
from pytest_tokenparity.engines.tokenizers import read_files

from ..harness import Project
from ..real_models import QWEN3

HI = [{"role": "user", "content": "Hi"}]
PROMPT = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
IDS = [151644, 872, 198, 13048, 151645, 198, 151644, 77091, 198]


class FakeOllama(httpx.BaseTransport):
    """Stands for an Ollama: `ChatHandler` of `server/routes.go` with `_debug_render_only`.

    It serves `qwen3:0.6b`, rendered as the Go template of that model does (`think: false` adds an empty think block). Gin
    answers what Go cannot decode with 400, and a path that it does not have in plain text.
    """

    def __init__(self, answer: httpx.Response | None = None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Any]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        content = request.read()
        body: Any = json.loads(content) if content else None
        self.asked.append((request.url.path, body))
        if request.url.path == "/api/version":
            return httpx.Response(200, json={"version": "0.33.0"})
        if request.url.path == "/v1/models":  # openai/openai.go: ToListCompletion
            return httpx.Response(200, json={"object": "list", "data": [{"id": "qwen3:0.6b"}, {"id": "gemma3:1b"}]})
        if request.url.path != CHAT:
            return httpx.Response(404, text="404 page not found")
        if self.answer is not None:
            return self.answer
        if body["model"] not in ("qwen3:0.6b", "gemma3:1b"):
            return httpx.Response(404, json={"error": f"model '{body['model']}' not found"})
        if body["model"] == "gemma3:1b" and body.get("think"):
            return httpx.Response(400, json={"error": '"gemma3:1b" does not support thinking'})
        for message in body["messages"]:
            if not isinstance(message["content"], str):
                words = "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type string"
                return httpx.Response(400, json={"error": words})
            for call in message.get("tool_calls", ()):
                if isinstance(call["function"]["arguments"], str):
                    words = "json: cannot unmarshal string into Go struct field ToolCallFunction.arguments"
                    return httpx.Response(400, json={"error": words})
        text = "".join(f"<|im_start|>{it['role']}\n{it['content']}<|im_end|>\n" for it in body["messages"])
        text += "<|im_start|>assistant\n" + ("<think>\n\n</think>\n\n" if body.get("think") is False else "")
        return httpx.Response(
            200,
            json={
                "model": body["model"],
                "created_at": "2026-08-21T00:00:00Z",
                "message": {"role": "", "content": ""},
                "done": False,
                "_debug_info": {"rendered_template": text, "image_count": 0},
            },
        )


def ollama(answer: httpx.Response | None = None, **options: Any) -> tuple[OllamaTokens, FakeOllama]:
    fake = FakeOllama(answer)
    given = {"model": "qwen3:0.6b", "tokenizer": read_files(QWEN3), **options}
    return OllamaTokens("http://user:secret@gpu:11434", fake, **given), fake


def test_the_text_is_ollamas_and_the_ids_are_those_of_the_models_own_tokenizer() -> None:
    engine, fake = ollama()
    with engine:
        assert engine.render(Request(HI)) == Rendering(ids=IDS, text=PROMPT, unseen=(COMPUTED,))
    assert fake.asked == [
        (
            CHAT,
            {
                "messages": HI,
                "stream": False,
                "model": "qwen3:0.6b",
                "truncate": False,
                "_debug_render_only": True,
            },
        )
    ]


def test_without_a_tokenizer_only_the_text_is_seen() -> None:
    engine, _ = ollama(tokenizer=None)
    with engine:
        assert engine.render(Request(HI)) == Rendering(text=PROMPT, unseen=("Ollama shows no IDs",))
        with pytest.raises(EngineError) as raised:
            engine.ids(HI)
    assert str(raised.value) == "ollama shows no token IDs: Ollama shows no IDs"


@pytest.mark.parametrize("thinking", [True, False, "low"])
def test_thinking_is_sent_as_think(thinking: Any) -> None:
    engine, fake = ollama()
    with engine:
        text = engine.render(Request(HI, template_kwargs={"enable_thinking": thinking})).text
    assert fake.asked[-1][1]["think"] == thinking
    assert text == PROMPT + ("<think>\n\n</think>\n\n" if thinking is False else "")


def test_other_switches_reach_no_ollama() -> None:
    engine, fake = ollama()
    with engine:
        engine.ids(HI, builtin_tools=["x"], add_generation_prompt=False)
    assert set(fake.asked[-1][1]) == {"messages", "stream", "model", "truncate", "_debug_render_only"}


def call(arguments: Any) -> list[dict[str, Any]]:
    made = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": arguments}}
    answer = {"role": "tool", "tool_call_id": "call_1", "content": "5"}
    return [*HI, {"role": "assistant", "content": "", "tool_calls": [made]}, answer]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"city": "Paris"}', {"city": "Paris"}),
        ("{}", {}),
        ({"city": "Paris"}, {"city": "Paris"}),
        ('{"city": "Par', '{"city": "Par'),
    ],
)
def test_arguments_are_sent_parsed(arguments: Any, sent: Any) -> None:
    engine, fake = ollama()
    messages = call(arguments)
    with engine:
        refused = engine.render(Request(messages)).refused
    (made,) = fake.asked[-1][1]["messages"][1]["tool_calls"]
    assert made == {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": sent}}
    assert (refused is None) == isinstance(sent, dict)
    assert messages == call(arguments)


def test_tools_are_sent_whole() -> None:
    tool = {"type": "function", "function": {"name": "now", "return": {"type": "string"}}}
    engine, fake = ollama()
    with engine:
        engine.render(Request(HI, [tool]))
    assert fake.asked[-1][1]["tools"] == [tool]


def test_what_ollama_cannot_decode_is_a_refusal_in_its_words() -> None:
    engine, _ = ollama()
    with engine:
        refused = engine.render(Request([{"role": "user", "content": [{"type": "text", "text": "a"}]}]))
    assert refused == Rendering(
        refused="json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type string"
    )


def test_a_model_that_cannot_think_refuses_to() -> None:
    engine, _ = ollama(model="gemma3:1b")
    with engine:
        refused = engine.render(Request(HI, template_kwargs={"enable_thinking": True}))
    assert refused == Rendering(refused='"gemma3:1b" does not support thinking')


def test_a_model_that_is_not_there_is_named_beside_those_that_are() -> None:
    engine, _ = ollama(model="llama4")
    with engine, pytest.raises(EngineError) as raised:
        engine.render(Request(HI))
    assert str(raised.value) == (
        "ollama at http://gpu:11434 serves qwen3:0.6b, gemma3:1b, not 'llama4' (`model:`): pull it, or name another"
    )


def test_a_model_must_be_named() -> None:
    with pytest.raises(EngineError) as raised:
        OllamaTokens("http://gpu:11434")
    assert str(raised.value) == "ollama: Ollama serves many models: name one with `model:`, such as qwen3:0.6b"


@pytest.mark.parametrize("body", [{"model": "m", "done": True}, [], {}])
def test_a_version_without_the_debug_answer_is_an_error(body: Any) -> None:
    engine, _ = ollama(httpx.Response(200, json=body))
    with engine, pytest.raises(EngineError) as raised:
        engine.render(Request(HI))
    assert str(raised.value) == (
        f"ollama at http://gpu:11434 answered /api/chat with status 200: {json.dumps(body)}; expected _debug_info; it "
        "needs a version with _debug_render_only (0.12 or newer)"
    )


def test_what_breaks_inside_ollama_is_an_error() -> None:
    engine, _ = ollama(httpx.Response(500, json={"error": "llama runner process has terminated"}))
    with engine, pytest.raises(EngineError) as raised:
        engine.render(Request(HI))
    assert str(raised.value) == (
        "ollama at http://gpu:11434 answered /api/chat with status 500: llama runner process has terminated; its log "
        "may say more"
    )


def test_it_says_which_version_and_model_it_is() -> None:
    engine, _ = ollama()
    with engine:
        assert engine.version() == "ollama 0.33.0"
        assert engine.describe() == "ollama 0.33.0 at http://gpu:11434, serving qwen3:0.6b"


SERVER = '''
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Ollama(BaseHTTPRequestHandler):
    """The same fake over HTTP."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = "".join(f"<|im_start|>{it['role']}\\n{it['content']}<|im_end|>\\n" for it in body["messages"])
        text += "" if body["model"] == "cut" else "<|im_start|>assistant\\n"
        content = json.dumps({"_debug_info": {"rendered_template": text}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


def pytest_configure(config):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Ollama)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    import os

    os.environ["OLLAMA_URL"] = f"http://127.0.0.1:{server.server_port}"
'''
CASES = "cases:\n  plain:\n    messages: [{role: user, content: Hi}]\n"


def test_in_a_run_it_is_partly_checked_and_never_passed_and_what_differs_fails(tmp_path: Path) -> None:
    config = f"models:\n  qwen:\n    tokenizer: {QWEN3}\n    engines:\n      tokenizers: {{}}\n" + "".join(
        f"      {name}: {{type: ollama, url: '${{OLLAMA_URL}}', model: '{model}'}}\n"
        for name, model in (("ollama", "qwen3:0.6b"), ("cut", "cut"))
    )
    files = {"conftest.py": SERVER, "tokenparity.yaml": config, "chat.tokenparity.yaml": CASES}
    output = Project(tmp_path, files).pytest("--update-golden", COLUMNS="200").output
    assert "1 failed, 1 passed, 1 partly checked" in output
    assert COMPUTED in output
    assert "\ncut leaves the golden at token 6 (9 tokens recorded, 6 rendered)\n" in output
