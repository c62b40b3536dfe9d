"""What real vLLM 0.33.0 and SGLang 0.5.23 do with a chat request, a row for each fact.

The table stands once: ``test_measured_rows`` holds the recorded replies to it in every run, and ``tests/live`` running
servers. Where the package cannot send what a row is about (`tool_choice`, `reasoning_effort`: keys that a server alone
reads), the body is posted as it is, and its IDs are explained all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from pytest_tokenparity import ClientCompletionTokens, Explanation, Rendering, Request, TokenizersTokens, explain
from pytest_tokenparity.engines.server import ServerEngine
from pytest_tokenparity.engines.sglang import SglangTokens
from pytest_tokenparity.engines.vllm import VllmTokenizeTokens, VllmTokens

from ..recorded.record import bearer, reply
from ..recorded.shapes import COUNTING, KEY, QUESTION, QUESTION_TEXT, SHAPES, TOOL, Shape

ENGINES: dict[str, type[ServerEngine]] = {
    "vllm": VllmTokens,
    "vllm-tokenize": VllmTokenizeTokens,
    "sglang": SglangTokens,
}
ROUTES = {"vllm": "/v1/chat/completions/render", "vllm-tokenize": "/tokenize", "sglang": "/v1/tokenize"}


@dataclass(frozen=True)
class Server:
    """A server that is asked, recorded or running, and the family of the model that it serves under that name."""

    family: str
    url: str = "http://gpu:8000"
    transport: httpx.BaseTransport | None = None

    @contextmanager
    def engine(self, type_: str) -> Iterator[ServerEngine]:
        with ENGINES[type_](self.url, self.transport, model=self.family, api_key=KEY) as engine:
            yield engine

    @contextmanager
    def posted(self, server: str, add_special: bool) -> Iterator[ClientCompletionTokens]:
        """A client that posts the text of the question."""

        def render(conversation: Any, tools: Any = None) -> str:
            return QUESTION_TEXT[self.family]

        with ClientCompletionTokens(
            render,
            self.url,
            self.transport,
            server=server,
            add_special=add_special,
            model=self.family,
            api_key=KEY,
        ) as engine:
            yield engine

    @contextmanager
    def http(self) -> Iterator[httpx.Client]:
        with httpx.Client(base_url=self.url, transport=self.transport, timeout=120) as client:
            yield client


@dataclass(frozen=True)
class Seen:
    """What one route makes of a request: how many tokens, and the causes why they are not the reference's."""

    tokens: int = 0
    causes: tuple[str, ...] = ()
    refused: str = ""
    """How the message begins with which it refuses the request."""


@dataclass(frozen=True)
class Row:
    """One fact: a shape of ``tests/recorded/shapes.py``, the reference's number of tokens, and what each route makes of it."""

    shape: str
    reference: int
    seen: dict[str, Seen]

    @property
    def asked(self) -> Shape:
        (found,) = (it for it in SHAPES if it.name == self.shape)
        return found

    @property
    def request(self) -> Request:
        asked = dict(self.asked.request)
        return Request.of(asked.pop("messages"), asked.pop("tools", None), **asked.pop("template_kwargs", {}), **asked)


def row(shape: str, reference: int, *, vllm: Seen, sglang: Seen, tokenize: Seen | None = None) -> Row:
    """A row; vLLM's `/tokenize` does what its `/render` does unless the row says otherwise."""
    return Row(shape, reference, {"vllm": vllm, "vllm-tokenize": tokenize or vllm, "sglang": sglang})


def seen(tokens: int, *causes: str) -> Seen:
    return Seen(tokens, causes)


def alike(shape: str, tokens: int) -> Row:
    return row(shape, tokens, vllm=seen(tokens), sglang=seen(tokens))


def dropped(field: str) -> str:
    return f"tool-field-dropped: {field}"


def added(field: str = "") -> str:
    """SGLang adds `defer_loading` to every tool; vLLM does not."""
    return f"tool-field-added: {field}{', ' if field else ''}tool.defer_loading=null, at the end"


ROWS = [
    alike("plain", 25),
    alike("no-generation-prompt", 22),
    alike("thinking-off", 29),
    # tools
    row("tool", 184, vllm=seen(184), sglang=seen(189, added())),
    row("tool-with-return", 193, vllm=seen(184, dropped("return")), sglang=seen(189, dropped("return"), added())),
    row("tool-strict-true", 188, vllm=seen(188), sglang=seen(194, added())),
    row("tool-strict-null", 188, vllm=seen(184, dropped("strict")), sglang=seen(189, dropped("strict"), added())),
    row(
        "tool-defer-loading-null",
        189,
        vllm=seen(184, dropped("defer_loading")),
        sglang=seen(189, dropped("defer_loading"), added()),
    ),
    row(
        "tool-no-description",
        176,
        vllm=seen(181, "tool-field-added: description=null, in place"),
        sglang=seen(186, added("description=null, at the end")),
    ),
    row(
        "tool-no-parameters",
        126,
        vllm=seen(130, "tool-field-added: parameters=null, in place"),
        sglang=seen(136, added("parameters=null, in place")),
    ),
    row(
        "tool-keys-reordered-outer",
        183,
        vllm=seen(184, "tool-keys-reordered: outer"),
        sglang=seen(189, added(), "tool-keys-reordered: outer"),
    ),
    row("tool-keys-reordered-inner", 183, vllm=seen(184, "tool-keys-reordered: inner"), sglang=seen(189, added())),
    row(
        "tool-keys-reordered-both",
        183,
        vllm=seen(184, "tool-keys-reordered: inner, outer"),
        sglang=seen(189, added(), "tool-keys-reordered: outer"),
    ),
    row(
        "tool-unknown-outer-key",
        189,
        vllm=seen(184, dropped("tool.weight")),
        sglang=seen(189, dropped("tool.weight"), added()),
    ),
    row("tool-choice-none", 184, vllm=seen(184), sglang=seen(25, "tools-dropped: all")),
    row(
        "tools-empty", 25, vllm=Seen(refused="`tools` must not be an empty array."), tokenize=seen(25), sglang=seen(25)
    ),
    # calls, in requests without tools: what is done to a tool does not hide what is done to a call
    row(
        "call-unlisted-arguments-compact",
        51,
        vllm=seen(53, "arguments-parsed"),
        sglang=seen(53, "arguments-parsed"),
    ),
    row(
        "call-unlisted-arguments-mapping",
        53,
        vllm=Seen(refused="3 validation errors: {'type': 'string_type', 'loc': 'body.0."),
        tokenize=Seen(refused="3 validation errors for ValidatorIterator 0."),
        sglang=seen(53),
    ),
    row(
        "call-unlisted-arguments-empty",
        43,
        vllm=seen(44, "arguments-emptied"),
        sglang=Seen(refused="Assistant tool call function.arguments must be valid JSON."),
    ),
    # messages
    row("developer", 9, vllm=seen(18, "role-rewritten: developer -> system"), sglang=seen(9)),
    row(
        "reasoning_content-on-the-last-turn",
        225,
        vllm=seen(225),
        tokenize=seen(217, "reasoning-dropped: reasoning_content"),
        sglang=seen(230, added()),
    ),
    row(
        "call-unlisted-reasoning_content",
        61,
        vllm=seen(61),
        tokenize=seen(53, "reasoning-dropped: reasoning_content"),
        sglang=seen(61),
    ),
    row("assistant-last", 25, vllm=seen(25), sglang=seen(21, "last-turn-role: assistant -> user")),
    row("continued", 20, vllm=seen(20), sglang=seen(16, "last-turn-prefilled: after the generation prompt")),
    row(
        "reasoning-effort-none",
        25,
        vllm=seen(29, "thinking-default: false"),
        tokenize=seen(25),
        sglang=seen(29, "thinking-default: false"),
    ),
]
"""On Qwen3's tokenizer and template."""


def assert_row(wanted: Row, type_: str, server: Server, reference: TokenizersTokens) -> None:
    """The route shows what the row says of it, and every difference is proven to have the causes that stand there."""
    expected, request = wanted.seen[type_], wanted.request
    prompt = reference.ids(request.messages, request.tools, **request.keywords)
    assert len(prompt) == wanted.reference
    rendering = _rendering(wanted, type_, server)
    assert rendering.unseen == ()
    if expected.refused:
        assert rendering.ids is None
        assert (rendering.refused or "")[: len(expected.refused)] == expected.refused
        return
    assert rendering.ids is not None, rendering.refused
    assert (len(rendering.ids), _said(reference, request, rendering, type_)) == (
        expected.tokens,
        ("proven" if expected.causes else "equal", list(expected.causes)),
    )
    assert (rendering.ids == prompt) == (not expected.causes)


def assert_posted(type_: str, server: Server, reference: TokenizersTokens) -> None:
    """A client that posts the rendered text has one BOS too many where the model has one, unless it says otherwise."""
    begins_with_bos = server.family == "gemma3"
    prompt = reference.ids(QUESTION)
    assert (len(prompt), prompt[:3]) == ((22, [2, 105, 2364]) if begins_with_bos else (25, [151644, 8948, 198]))
    assert reference.text(Request(QUESTION)) == QUESTION_TEXT[server.family]
    with server.engine(type_) as engine:
        assert engine.ids(QUESTION) == prompt
    with server.posted(type_, add_special=False) as client:
        assert client.ids(QUESTION) == prompt
    with server.posted(type_, add_special=True) as client:
        rendering = client.render(Request(QUESTION))
    assert rendering.ids == ([2, *prompt] if begins_with_bos else prompt)
    assert _said(reference, Request(QUESTION), rendering, "client-completion") == (
        ("proven", ["bos-doubled: 1 -> 2"]) if begins_with_bos else ("equal", [])
    )


def assert_vllms_completions_add_special_tokens(server: Server) -> None:
    """What a posted string is tokenized as is what vLLM's completion endpoint makes of it when it is told nothing more."""
    with server.http() as client:
        body = {"model": server.family, "prompt": QUESTION_TEXT[server.family]}
        answer = client.post("/v1/completions/render", json=body, headers=bearer(KEY)).json()
    with server.posted("vllm", add_special=True) as posted:
        assert [it["token_ids"] for it in answer] == [posted.ids(QUESTION)]


def assert_vllm_refuses_both_flags(server: Server) -> None:
    """To continue a message, `add_generation_prompt: false` has to be said beside it; the engine says it by itself."""
    with server.engine("vllm") as engine:
        assert len(engine.ids(COUNTING, continue_final_message=True)) == 20
        refused = engine.render(Request(COUNTING, add_generation_prompt=True, continue_final_message=True)).refused
    assert (refused or "").startswith("continue_final_message and add_generation_prompt are not compatible.")


def assert_vllm_without_tool_flags_is_seen_through(server: Server) -> None:
    """`/render` takes tools without `tool_choice` for `auto`, which a server without the two flags refuses.

    What it would render is seen with `tool_choice: none`, and is never a plain pass.
    """
    with server.engine("vllm") as engine, server.engine("vllm-tokenize") as tokenize:
        rendering = engine.render(Request(QUESTION, [TOOL]))
        assert rendering.ids == tokenize.ids(QUESTION, [TOOL])
    (unseen,) = rendering.unseen
    assert unseen == (
        "calls with tools fail: vLLM was started without --enable-auto-tool-choice and --tool-call-parser; seen with "
        "`tool_choice: none`"
    )


def _rendering(wanted: Row, type_: str, server: Server) -> Rendering:
    if not wanted.asked.body:
        with server.engine(type_) as engine:
            return engine.render(wanted.request)
    with server.http() as client:
        return Rendering(ids=reply(client, ROUTES[type_], wanted.asked, server.family)["ids"])


def _said(reference: TokenizersTokens, request: Request, rendering: Rendering, type_: str) -> tuple[str, list[str]]:
    why: Explanation = explain(reference, request, rendering.ids, rendering.text, engine=type_)
    return why.word, [str(cause) for cause in why.causes]
