"""vLLM: both routes held to what a real vLLM 0.33.0 answered, and the few states that it was not recorded in."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from pytest_tokenparity import ClientCompletionTokens, EngineError, EngineUnreachable, Rendering, Request
from pytest_tokenparity.engines.base import one_line
from pytest_tokenparity.engines.vllm import RENDER, TOKENIZE, VllmTokenizeTokens, VllmTokens

from ..recorded.shapes import COUNTING, KEY, QUESTION, TOOL
from .recorded import Recorded, recorded, recording, request_of, shapes

QWEN, GEMMA = "vllm-0.33.0", "vllm-0.33.0-gemma3"
NAMES = {QWEN: "qwen3", GEMMA: "gemma3"}
HI = [{"role": "user", "content": "Hi"}]
NOT_FOUND = httpx.Response(404, json={"detail": "Not Found"})  # as recorded for GET /nowhere
CLOSED = httpx.Response(  # vllm/entrypoints/scale_out/factories.py, of a server without --enable-scale-out
    403, json={"error": {"message": "Scale-out endpoints are disabled", "type": "PermissionDeniedError", "code": 403}}
)
NO_FLAGS = (
    "calls with tools fail: vLLM was started without --enable-auto-tool-choice and --tool-call-parser; seen with "
    "`tool_choice: none`"
)


def vllm(name: str = QWEN, instead: dict[str, httpx.Response] | None = None, **options: Any) -> VllmTokens:
    return VllmTokens(
        "http://user:secret@gpu:8000",
        Recorded(name, instead),
        **{"model": NAMES[name], "api_key": KEY, **options},
    )


def by_tokenize(name: str = QWEN, **options: Any) -> VllmTokenizeTokens:
    return VllmTokenizeTokens(
        "http://user:secret@gpu:8000", Recorded(name), **{"model": NAMES[name], "api_key": KEY, **options}
    )


def asked(engine: VllmTokens) -> list[tuple[str, Any]]:
    transport = engine._server.client._transport
    assert isinstance(transport, Recorded)
    return transport.asked


# Every shape, by both routes


@pytest.mark.parametrize("shape", shapes(QWEN, RENDER))
def test_the_body_that_is_sent_to_render_is_the_recorded_one_and_its_answer_is_told(shape: str) -> None:
    expected = recorded(QWEN, RENDER, shape)
    with vllm() as engine:
        rendering = engine.render(request_of(shape))
    if expected["status"] == 200:
        assert rendering == Rendering(ids=expected["ids"])
    else:
        assert rendering == Rendering(refused=one_line(expected["error"]["error"]["message"]))


@pytest.mark.parametrize("name", [QWEN, GEMMA])
def test_the_bodies_that_are_sent_to_tokenize_are_the_recorded_ones(name: str) -> None:
    told = {}
    with by_tokenize(name) as engine:
        for shape in shapes(name, TOKENIZE):
            rendering = engine.render(request_of(shape))
            told[shape] = (200, rendering.ids) if rendering.refused is None else (400, None)
            assert rendering.unseen == ()
    expected = {shape: recorded(name, TOKENIZE, shape) for shape in told}
    assert told == {shape: (it["status"], it.get("ids")) for shape, it in expected.items()}


def test_without_tool_flags_the_bodies_of_requests_without_tools_are_the_recorded_ones() -> None:
    with vllm(GEMMA) as engine:
        for shape in shapes(GEMMA, RENDER):
            request, expected = request_of(shape), recorded(GEMMA, RENDER, shape)
            if request.tools is None:
                rendering = engine.render(request)
                assert (rendering.ids, rendering.refused is not None) == (
                    expected.get("ids"),
                    expected["status"] == 400,
                ), shape


def test_a_request_that_tokenize_is_recorded_to_render_otherwise_is_never_shown_by_it() -> None:
    otherwise = {
        shape
        for shape in shapes(QWEN, RENDER)
        if recorded(QWEN, RENDER, shape).get("ids") != recorded(QWEN, TOKENIZE, shape).get("ids")
    }
    assert otherwise == {
        "tools-empty",
        "call-unlisted-reasoning_content",
        "reasoning_content-on-the-last-turn",
        "four-faults",
    }
    with vllm(instead={RENDER: NOT_FOUND}) as engine:
        for shape in shapes(QWEN, RENDER):
            rendering = engine.render(request_of(shape))
            assert (shape in otherwise) <= bool(rendering.unseen), shape
            assert not (rendering.unseen and rendering.ids), shape


# Flags


def test_a_continued_message_is_sent_with_the_generation_prompt_off() -> None:
    with vllm() as engine:
        assert len(engine.ids(COUNTING, continue_final_message=True)) == 20
        assert asked(engine)[-1][1] == {
            "model": "qwen3",
            "messages": COUNTING,
            "add_generation_prompt": False,
            "continue_final_message": True,
        }


# The two routes


@pytest.mark.parametrize("missing", [CLOSED, NOT_FOUND, httpx.Response(405, json={"detail": "Method Not Allowed"})])
def test_a_server_without_render_is_asked_to_tokenize(missing: httpx.Response) -> None:
    with vllm(instead={RENDER: missing}) as engine:
        assert engine.render(Request(QUESTION)) == Rendering(ids=recorded(QWEN, TOKENIZE, "plain")["ids"])
        assert [path for path, _ in asked(engine)] == [f"POST {RENDER}", f"POST {TOKENIZE}"]
        engine.render(Request(HI))
        assert [path for path, _ in asked(engine)][2:] == [f"POST {TOKENIZE}"]
        assert engine.describe() == "vllm 0.33.0 at http://gpu:8000 by /tokenize, serving qwen3"


def test_whether_render_is_offered_is_asked_once_with_a_request_that_every_model_takes() -> None:
    with vllm() as engine:
        engine.render(Request(QUESTION))
        engine.render(Request(QUESTION))
        assert asked(engine)[0] == (f"POST {RENDER}", {"messages": HI, "model": "qwen3"})
        assert len(asked(engine)) == 3


@pytest.mark.parametrize(
    ("request_", "lost"),
    [
        (
            Request([*HI, {"role": "assistant", "content": "Hello", "reasoning_content": "hm"}, *HI]),
            "loses past `reasoning_content`",
        ),
        (Request(HI, []), "takes an empty list of tools, which chat refuses"),
        (Request(HI, template_kwargs={"reasoning_effort": "low"}), "does not know `reasoning_effort`"),
        (Request(HI, template_kwargs={"documents": []}), "does not know `documents`"),
    ],
)
def test_what_tokenize_is_known_to_render_otherwise_is_not_asked_of_it(request_: Request, lost: str) -> None:
    with vllm(instead={RENDER: CLOSED}) as engine:
        assert engine.render(request_) == Rendering(
            unseen=(f"/tokenize alone is offered, which {lost}; start vLLM with --enable-scale-out",)
        )
        assert [path for path, _ in asked(engine)] == [f"POST {RENDER}"]


def test_who_wants_tokenize_itself_gets_it_whatever_the_request() -> None:
    with by_tokenize() as engine:
        rendering = engine.render(request_of("reasoning_content-on-the-last-turn"))
        assert rendering == Rendering(ids=recorded(QWEN, TOKENIZE, "reasoning_content-on-the-last-turn")["ids"])
        assert {path for path, _ in asked(engine)} == {f"POST {TOKENIZE}"}
        assert engine.describe() == "vllm 0.33.0 at http://gpu:8000 by /tokenize, serving qwen3"


def test_a_server_without_tool_flags_is_asked_with_tool_choice_none_and_never_passes_plainly() -> None:
    with vllm(GEMMA) as engine:
        rendering = engine.render(Request(QUESTION, [TOOL]))
        assert rendering == Rendering(ids=recorded(GEMMA, RENDER, "tool-choice-none")["ids"], unseen=(NO_FLAGS,))
        assert [body.get("tool_choice") for _, body in asked(engine)] == [None, None, "none"]


# Who is there


def test_another_model_than_the_one_that_is_served_is_an_error_that_names_both() -> None:
    message = "{} at http://gpu:8000 serves qwen3, not 'nope' (`model:`)"
    wrong: dict[str, Any] = {"model": "nope", "api_key": KEY}
    render = httpx.Response(404, json=_raw(f"unknown model ({RENDER})"))
    tokenize = httpx.Response(404, json=_raw(f"unknown model ({TOKENIZE})"))
    made: list[tuple[str, Any]] = [
        ("vllm", VllmTokens("http://u:p@gpu:8000", Recorded(QWEN, {RENDER: render}), **wrong)),
        ("vllm", VllmTokens("http://u:p@gpu:8000", Recorded(QWEN, {RENDER: CLOSED, TOKENIZE: tokenize}), **wrong)),
        ("vllm-tokenize", VllmTokenizeTokens("http://u:p@gpu:8000", Recorded(QWEN, {TOKENIZE: tokenize}), **wrong)),
        (
            "client-completion",
            ClientCompletionTokens(
                lambda conversation, tools=None: "Hi",
                "http://u:p@gpu:8000",
                Recorded(QWEN, {TOKENIZE: tokenize}),
                server="vllm",
                **wrong,
            ),
        ),
    ]
    for name, engine in made:
        with engine, pytest.raises(EngineError) as raised:
            engine.render(Request(HI))
        assert str(raised.value) == message.format(name)
        assert not isinstance(raised.value, EngineUnreachable)


def _raw(name: str) -> Any:
    (found,) = (it["reply"] for it in recording(QWEN)["raw"] if it["name"] == name)
    return found


def test_a_server_that_serves_one_model_needs_no_name() -> None:
    with vllm(model=None) as engine:
        assert len(engine.ids(HI)) == 9
        assert engine.version() == "vllm 0.33.0"
        assert engine.describe() == f"vllm 0.33.0 at http://gpu:8000 by {RENDER}, serving qwen3"


def test_a_server_that_tells_nothing_of_itself_is_described_all_the_same() -> None:
    instead = {"/version": NOT_FOUND, "/v1/models": NOT_FOUND}
    with vllm(instead=instead, model=None) as engine:
        assert engine.version() == "vllm"
        assert engine.describe() == f"vllm at http://gpu:8000 by {RENDER}, serving an unnamed model"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({}, """{}; expected {"token_ids": [...]}"""),
        ({"token_ids": None}, """{"token_ids": null}; expected {"token_ids": [...]}"""),
        ([], """[]; expected {"token_ids": [...]}"""),
    ],
)
def test_an_answer_without_ids_is_an_error(reply: Any, said: str) -> None:
    with vllm(instead={RENDER: httpx.Response(200, json=reply)}) as engine, pytest.raises(EngineError) as raised:
        engine.render(Request(HI))
    assert str(raised.value) == f"vllm at http://gpu:8000 answered {RENDER} with status 200: {said}"


def test_ids_that_are_none_are_an_error() -> None:
    reply = httpx.Response(200, json={"token_ids": [1, None]})
    with vllm(instead={RENDER: reply}) as engine, pytest.raises(EngineError) as raised:
        engine.render(Request(HI))
    assert str(raised.value) == "vllm at http://gpu:8000 must give integers, it gave NoneType None at token 1"


def test_a_prompt_that_is_too_long_is_refused_in_vllms_words() -> None:
    reply = httpx.Response(400, json=_raw(f"too long ({RENDER})"))
    with vllm(instead={RENDER: reply}) as engine:
        refused = engine.render(Request(HI)).refused
    assert refused is not None
    assert refused.startswith("This model's maximum context length is 4096 tokens.")


def test_the_real_vllm_wants_its_key() -> None:
    for key, wants in ((None, "a key"), ("another-key", "another key")):
        with vllm(api_key=key) as engine, pytest.raises(EngineError) as raised:
            engine.render(Request(HI))
        how = "" if key else "; name its variable with `api_key_env:`"
        assert str(raised.value) == f"vllm at http://gpu:8000 wants {wants} (401: Unauthorized){how}"
