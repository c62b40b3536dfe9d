"""SGLang: `/v1/tokenize` held to what a real SGLang 0.5.23 answered, and versions that could not be recorded."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from pytest_tokenparity import ClientCompletionTokens, EngineError, EngineUnreachable, Rendering, Request
from pytest_tokenparity.engines.sglang import TOKENIZE, SglangTokens

from ..recorded.shapes import COUNTING, KEY
from .recorded import Recorded, recorded, request_of, shapes

QWEN, GEMMA = "sglang-0.5.23", "sglang-0.5.23-gemma3"
NAMES = {QWEN: "qwen3", GEMMA: "gemma3"}
HI = [{"role": "user", "content": "Hi"}]


def sglang(name: str = QWEN, instead: dict[str, httpx.Response] | None = None, **options: Any) -> SglangTokens:
    transport = Recorded(name, instead)
    return SglangTokens("http://user:secret@gpu:30000", transport, **{"model": NAMES[name], "api_key": KEY, **options})


def asked(engine: SglangTokens) -> list[tuple[str, Any]]:
    transport = engine._server.client._transport
    assert isinstance(transport, Recorded)
    return transport.asked


@pytest.mark.parametrize("name", [QWEN, GEMMA])
def test_the_body_of_every_shape_is_the_recorded_one_and_its_answer_is_told(name: str) -> None:
    with sglang(name) as engine:
        for shape in shapes(name, TOKENIZE):
            expected, rendering = recorded(name, TOKENIZE, shape), engine.render(request_of(shape))
            assert rendering.unseen == ()
            assert (rendering.ids, rendering.refused is None) == (expected.get("ids"), expected["status"] == 200), shape


@pytest.mark.parametrize("name", [QWEN, GEMMA])
def test_no_refusal_shows_a_path_of_the_servers(name: str) -> None:
    refusals = {}
    with sglang(name) as engine:
        for shape in shapes(name, TOKENIZE):
            refused = engine.render(request_of(shape)).refused
            if refused is not None:
                refusals[shape] = refused
    assert "call-unlisted-arguments-empty" in refusals
    assert refusals["call-unlisted-arguments-empty"] == "Assistant tool call function.arguments must be valid JSON."
    assert {shape: text for shape, text in refusals.items() if "File" in text or "site-packages" in text} == {}
    assert all(len(text) <= 300 and text.isprintable() for text in refusals.values())


# Flags


def test_a_continued_message_is_sent_without_the_other_flag_which_sglang_refuses_beside_it() -> None:
    with sglang() as engine:
        assert len(engine.ids(COUNTING, continue_final_message=True)) == 16
        assert asked(engine)[-1][1] == {"model": "qwen3", "messages": COUNTING, "continue_final_message": True}


# Who is there


def test_the_models_name_is_looked_up_once_since_sglang_answers_whatever_it_is() -> None:
    with sglang() as engine:
        engine.render(Request(HI))
        engine.render(Request(HI))
        assert [path for path, _ in asked(engine)] == ["GET /v1/models", f"POST {TOKENIZE}", f"POST {TOKENIZE}"]


def test_another_model_than_the_one_that_is_served_is_an_error_that_names_both() -> None:
    posted = ClientCompletionTokens(
        lambda conversation, tools=None: "Hi",
        "http://u:p@gpu:30000",
        Recorded(QWEN),
        server="sglang",
        model="nope",
        api_key=KEY,
    )
    for name, engine in (("sglang", sglang(model="nope")), ("client-completion", posted)):
        with engine, pytest.raises(EngineError) as raised:
            engine.render(Request(HI))
        assert str(raised.value) == f"{name} at http://gpu:30000 serves qwen3, not 'nope' (`model:`)"
        assert not isinstance(raised.value, EngineUnreachable)


def test_without_a_name_nothing_is_looked_up() -> None:
    nowhere = httpx.Response(404, json={"detail": "Not Found"})
    with sglang(instead={"/server_info": nowhere}, model=None) as engine:
        assert len(engine.ids(HI)) == 9
        assert [path for path, _ in asked(engine)] == [f"POST {TOKENIZE}"]
        assert engine.describe() == "sglang at http://gpu:30000, serving qwen3"


def test_the_version_is_what_server_info_says() -> None:
    # Not recorded: /server_info asks the scheduler. sglang/srt/entrypoints/http_server.py: all arguments and `version`.
    info = httpx.Response(200, json={"model_path": "/models/qwen3", "version": "0.5.23"})
    with sglang(instead={"/server_info": info}) as engine:
        assert engine.version() == "sglang 0.5.23"
        assert engine.describe() == "sglang 0.5.23 at http://gpu:30000, serving qwen3"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (
            400,  # sglang 0.5.0, entrypoints/http_server.py: exc.errors(), which quotes the whole body
            {
                "object": "error",
                "message": "[{'type': 'missing', 'loc': ('body', 'prompt'), 'msg': 'Field required', 'input': "
                "{'messages': [{'role': 'user', 'content': 'Hi'}], 'model': 'qwen3'}}]",
                "type": "Bad Request",
                "param": None,
                "code": 400,
            },
        ),
        (
            400,  # the same as 0.5.23 words it
            {
                "object": "error",
                "message": "1 validation error:\n  {'type': 'missing', 'loc': ('body', 'prompt'), 'msg': 'Field required', "
                "'input': {'messages': [{'role': 'user', 'content': 'Hi'}]}}\n\n  File \"/venv/x.py\", line 1",
                "code": 400,
            },
        ),
        (
            422,
            {"detail": "1 validation error for Request\nbody -> prompt\n  field required (type=value_error.missing)"},
        ),
    ],
)
def test_a_version_that_takes_only_a_prompt_is_told_apart_from_a_refusal(status: int, body: Any) -> None:
    instead = {TOKENIZE: httpx.Response(status, json=body)}
    with sglang(instead=instead) as engine, pytest.raises(EngineError) as raised:
        engine.render(Request(HI))
    assert str(raised.value) == (
        "sglang at http://gpu:30000 takes only `prompt` at /v1/tokenize: it needs a version whose /v1/tokenize takes "
        "messages (0.5.23 does)"
    )


def test_a_version_without_the_route_is_said_to_be_one() -> None:
    instead = {TOKENIZE: httpx.Response(404, json={"detail": "Not Found"})}
    with sglang(instead=instead) as engine, pytest.raises(EngineError) as raised:
        engine.render(Request(HI))
    assert str(raised.value) == (
        "sglang at http://gpu:30000 has no /v1/tokenize (Not Found): an older version, or no SGLang? It needs a "
        "version whose /v1/tokenize takes messages (0.5.23 does)"
    )


@pytest.mark.parametrize(
    "message", ["Exactly one of 'prompt' or 'messages' must be provided.", "Messages cannot be empty.", "a prompt"]
)
def test_other_words_about_prompts_are_refusals(message: str) -> None:
    instead = {TOKENIZE: httpx.Response(400, json={"object": "error", "message": message, "code": 400})}
    with sglang(instead=instead) as engine:
        assert engine.render(Request(HI)) == Rendering(refused=message)


def test_what_breaks_inside_sglang_is_an_error_and_no_refusal() -> None:
    # as recorded for `tokenize` among the switches
    body = {"object": "error", "message": "Internal server error during tokenization: 'tokenize'", "code": 500}
    with sglang(instead={TOKENIZE: httpx.Response(500, json=body)}) as engine, pytest.raises(EngineError) as raised:
        engine.render(Request(HI))
    assert str(raised.value) == (
        "sglang at http://gpu:30000 answered /v1/tokenize with status 500: Internal server error during tokenization: "
        "'tokenize'; its log may say more"
    )


def test_the_real_sglang_wants_its_key() -> None:
    for key, wants in ((None, "a key"), ("another-key", "another key")):
        with sglang(api_key=key) as engine, pytest.raises(EngineError) as raised:
            engine.render(Request(HI))
        how = "" if key else "; name its variable with `api_key_env:`"
        assert str(raised.value) == f"sglang at http://gpu:30000 wants {wants} (401: Unauthorized){how}"


@pytest.mark.parametrize("choices", [None, [], ["x"], [{}], [{"prompt_token_ids": None}]])
def test_a_real_call_that_tells_no_ids_confirms_nothing(choices: Any) -> None:
    chat = httpx.Response(200, json={"choices": choices})
    with sglang(instead={"/v1/chat/completions": chat}) as engine, pytest.raises(EngineError) as raised:
        engine.confirm(Request(HI))
    assert str(raised.value).startswith("sglang at http://gpu:30000 answered /v1/chat/completions with status 200: ")
    assert str(raised.value).endswith("; expected choices[0].prompt_token_ids")
