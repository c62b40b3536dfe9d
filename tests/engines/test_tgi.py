"""TGI, by a fake that follows its router: `router/src/server.rs` and `lib.rs` at 3.3.7. No package brings a real one."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from pytest_tokenparity import EngineError, Rendering, Request
from pytest_tokenparity.engines.tgi import CHAT_TOKENIZE, TgiTokens

HI = [{"role": "user", "content": "Hi"}]
TALK = [*HI, {"role": "assistant", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}


class FakeTgi(httpx.BaseTransport):
    """Stands for a TGI: `get_chat_tokenize`, `get_model_info` and `openai_get_model_info` of `router/src/server.rs`.

    Its template writes every message as ``role: content`` and a generation prompt always; a token is a letter. A body that
    serde cannot read is refused by axum in plain text with 422, a template that raises as `InferError::TemplateError`.
    """

    def __init__(self, answer: httpx.Response | None = None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Any]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        content = request.read()
        body: Any = json.loads(content) if content else None
        self.asked.append((request.url.path, body))
        if request.url.path == "/info":
            return httpx.Response(200, json={"model_id": "org/tiny", "version": "3.3.7", "sha": "abc"})
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"object": "list", "data": [{"id": "org/tiny", "object": "model"}]})
        if request.url.path != CHAT_TOKENIZE:
            return httpx.Response(404)  # axum: no body
        if self.answer is not None:
            return self.answer
        if any(message.get("content") is None and "tool_calls" not in message for message in body["messages"]):
            return httpx.Response(
                422,
                text="Failed to deserialize the JSON body into the target type: messages[0]: data did not match any "
                "variant of untagged enum MessageBody at line 1 column 34",
            )
        if body["messages"][0]["role"] == "narrator":
            return httpx.Response(
                422, json={"error": "Template error: invalid operation: no such role", "error_type": "template_error"}
            )
        text = "".join(f"{message['role']}: {message['content']}\n" for message in body["messages"]) + "assistant:"
        tokens = [
            {"id": ord(letter), "text": letter, "start": start, "stop": start + 1} for start, letter in enumerate(text)
        ]
        return httpx.Response(200, json={"tokenize_response": tokens, "templated_text": text})


def tgi(answer: httpx.Response | None = None, **options: Any) -> tuple[TgiTokens, FakeTgi]:
    fake = FakeTgi(answer)
    return TgiTokens("http://user:secret@gpu:3000", fake, **options), fake


def test_text_and_ids_come_from_one_call() -> None:
    engine, fake = tgi()
    text = "user: Hi\nassistant:"
    with engine:
        assert engine.render(Request(HI)) == Rendering(ids=list(map(ord, text)), text=text)
    assert fake.asked == [(CHAT_TOKENIZE, {"messages": HI})]


def test_tools_and_switches_are_sent_as_a_client_sends_them() -> None:
    engine, fake = tgi(model="org/tiny")
    with engine:
        engine.ids(TALK, [TOOL], enable_thinking=False, add_generation_prompt=False)
    assert fake.asked[-1][1] == {
        "messages": TALK,
        "tools": [TOOL],
        "chat_template_kwargs": {"enable_thinking": False},
        "add_generation_prompt": False,
        "model": "org/tiny",
    }


def test_switches_and_flags_change_nothing_for_tgi_reads_none() -> None:
    engine, _ = tgi()
    with engine:
        plain = engine.ids(HI)
        assert plain == engine.ids(HI, enable_thinking=False) == engine.ids(HI, add_generation_prompt=False)


def test_what_a_template_raises_is_a_refusal_in_its_words() -> None:
    engine, _ = tgi()
    with engine:
        refused = engine.render(Request([{"role": "narrator", "content": "It rains."}]))
    assert refused == Rendering(refused="Template error: invalid operation: no such role")


def test_a_body_that_tgi_cannot_read_is_a_refusal_though_it_says_so_in_plain_text() -> None:
    engine, _ = tgi()
    with engine:
        refused = engine.render(Request([{"role": "user", "content": None}])).refused
    assert refused is not None
    assert refused.startswith("Failed to deserialize the JSON body into the target type: messages[0]:")


@pytest.mark.parametrize(("status", "kind"), [(424, "generation"), (429, "overloaded"), (500, "incomplete_generation")])
def test_what_says_nothing_of_the_request_is_an_error(status: int, kind: str) -> None:
    engine, _ = tgi(httpx.Response(status, json={"error": "Model is overloaded", "error_type": kind}))
    with engine, pytest.raises(EngineError) as raised:
        engine.render(Request(HI))
    assert str(raised.value) == (
        f"tgi at http://gpu:3000 answered /chat_tokenize with status {status}: Model is overloaded; "
        + ("its log may say more" if status >= 500 else "expected tokenize_response and templated_text")
    )


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"tokenize_response": [{"id": 1}]},
        {"tokenize_response": 1, "templated_text": "a"},
        {"tokenize_response": [1], "templated_text": "a"},
    ],
)
def test_an_answer_of_another_shape_is_an_error(body: Any) -> None:
    engine, _ = tgi(httpx.Response(200, json=body))
    with engine, pytest.raises(EngineError) as raised:
        engine.render(Request(HI))
    assert str(raised.value) == (
        f"tgi at http://gpu:3000 answered /chat_tokenize with status 200: {json.dumps(body)}; expected "
        "tokenize_response and templated_text"
    )


def test_a_token_without_an_id_is_an_error() -> None:
    engine, _ = tgi(httpx.Response(200, json={"tokenize_response": [{"text": "a"}], "templated_text": "a"}))
    with engine, pytest.raises(EngineError) as raised:
        engine.render(Request(HI))
    assert str(raised.value) == "tgi at http://gpu:3000 must give integers, it gave NoneType None at token 0"


def test_a_bare_401_wants_a_key() -> None:
    # router/src/server.rs: the layer that looks at the key answers StatusCode::UNAUTHORIZED and no body
    for key, wants in ((None, "a key"), ("my-key", "another key")):
        engine, _ = tgi(httpx.Response(401), api_key=key)
        with engine, pytest.raises(EngineError) as raised:
            engine.render(Request(HI))
        how = "" if key else "; name its variable with `api_key_env:`"
        assert str(raised.value) == f"tgi at http://gpu:3000 wants {wants} (401: it says no more){how}"


def test_another_model_than_the_one_that_is_served_is_an_error_that_names_both() -> None:
    engine, fake = tgi(model="org/large")
    with engine, pytest.raises(EngineError) as raised:
        engine.render(Request(HI))
    assert str(raised.value) == "tgi at http://gpu:3000 serves org/tiny, not 'org/large' (`model:`)"
    assert [path for path, _ in fake.asked] == ["/v1/models"]


def test_info_tells_version_and_model() -> None:
    engine, fake = tgi()
    with engine:
        assert engine.version() == "tgi 3.3.7"
        assert engine.describe() == "tgi 3.3.7 at http://gpu:3000, serving org/tiny"
    assert [path for path, _ in fake.asked] == ["/info"]
