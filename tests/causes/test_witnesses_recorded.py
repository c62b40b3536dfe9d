"""Causes on what real vLLM and SGLang servers answered, whose IDs stand in ``tests/recorded``."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from pytest_tokenparity import Explanation, Request, TokenizersTokens, explain
from pytest_tokenparity.chat_template import Conventions

from ..recorded.record import FOLDER
from .witnesses import assert_explained, reference

RECORDINGS = ("vllm-0.33.0", "vllm-0.33.0-gemma3", "sglang-0.5.23", "sglang-0.5.23-gemma3")
TYPES = {"/v1/chat/completions/render": "vllm", "/tokenize": "vllm-tokenize", "/v1/tokenize": "sglang"}
DEFER = "tool.defer_loading=null, at the end"


@cache
def recording(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def answers(name: str) -> dict[tuple[str, str], Any]:
    """The answers with IDs by the engine's type and the shape's name."""
    return {(TYPES[it["route"]], it["shape"]): it for it in recording(name)["replies"] if "ids" in it}


def explained(name: str, engine: str, shape: str) -> Explanation:
    answer = answers(name)[engine, shape]
    asked = dict(answer["request"])
    request = Request.of(asked.pop("messages"), asked.pop("tools", None), **asked.pop("template_kwargs", {}), **asked)
    return explain(reference(recording(name)["tokenizer"]), request, answer["ids"], engine=engine)


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_recorded_difference_is_proven(name: str) -> None:
    said = {key: explained(name, *key) for key in answers(name)}
    assert {key: found.word for key, found in said.items() if found.word not in ("equal", "proven")} == {}


@pytest.mark.parametrize("name", RECORDINGS)
def test_no_other_cause_is_said_to_do_as_well_for_what_a_recorded_server_did(name: str) -> None:
    said = {key: explained(name, *key) for key in answers(name)}
    assert {key: [str(it) for it in found.also] for key, found in said.items() if found.also} == {}


@pytest.mark.parametrize(
    ("name", "engine", "shape", "causes", "where"),
    [
        # fields of tools
        ("vllm-0.33.0", "vllm", "tool-with-return", ["tool-field-dropped: return"], "tools[0].function.return"),
        ("vllm-0.33.0", "vllm", "tool-strict-null", ["tool-field-dropped: strict"], "tools[0].function.strict"),
        (
            "vllm-0.33.0",
            "vllm",
            "tool-cache-control",
            ["tool-field-dropped: tool.cache_control"],
            "tools[0].cache_control",
        ),
        (
            "vllm-0.33.0",
            "vllm-tokenize",
            "tool-unknown-outer-key",
            ["tool-field-dropped: tool.weight"],
            "tools[0].weight",
        ),
        (
            "vllm-0.33.0",
            "vllm-tokenize",
            "return-in-the-second-of-two",
            ["tool-field-dropped: return"],
            "tools[1].function.return",
        ),
        (
            "vllm-0.33.0",
            "vllm",
            "tool-no-description",
            ["tool-field-added: description=null, in place"],
            "tools[0].function.description",
        ),
        (
            "vllm-0.33.0",
            "vllm",
            "tool-no-type",
            ['tool-field-added: tool.type="function", in place'],
            "tools[0].type",
        ),
        ("sglang-0.5.23", "sglang", "tool", [f"tool-field-added: {DEFER}"], "tools[0].defer_loading"),
        (
            "sglang-0.5.23",
            "sglang",
            "tool-no-description",
            [f"tool-field-added: description=null, at the end, {DEFER}"],
            "tools[0].function.description",
        ),
        (
            "sglang-0.5.23",
            "sglang",
            "tool-name-only",
            [f"tool-field-added: description=null, in place, parameters=null, in place, {DEFER}"],
            "tools[0].function.description",
        ),
        (
            "sglang-0.5.23",
            "sglang",
            "schema-type-int",
            [f"tool-field-added: {DEFER}", "schema-type-rewritten: int -> integer"],
            "tools[0].function.parameters.properties.city.type",
        ),
        ("vllm-0.33.0", "vllm", "tool-keys-reordered-outer", ["tool-keys-reordered: outer"], "tools[0]"),
        ("vllm-0.33.0", "vllm", "tool-keys-reordered-inner", ["tool-keys-reordered: inner"], "tools[0]"),
        ("vllm-0.33.0", "vllm", "tool-keys-reordered-both", ["tool-keys-reordered: inner, outer"], "tools[0]"),
        ("sglang-0.5.23", "sglang", "tool-choice-none", ["tools-dropped: all"], "tools[0]"),
        (
            "sglang-0.5.23",
            "sglang",
            "tool-choice-named",
            [f"tool-field-added: {DEFER}", "tools-dropped: lookup"],
            "tools[0].defer_loading",
        ),
        # calls
        (
            "vllm-0.33.0",
            "vllm",
            "call-arguments-compact",
            ["arguments-parsed"],
            "messages[1].tool_calls[0].function.arguments",
        ),
        (
            "sglang-0.5.23",
            "sglang",
            "call-unlisted-arguments-numbers",
            ["arguments-parsed"],
            "messages[1].tool_calls[0].function.arguments",
        ),
        *(
            (
                "vllm-0.33.0",
                "vllm",
                f"call-arguments-{kind}",
                ["arguments-emptied"],
                "messages[1].tool_calls[0].function.arguments",
            )
            for kind in ("empty", "not-json", "list", "null")
        ),
        ("vllm-0.33.0", "vllm", "call-content-null", ["content-null: ''"], "messages[1].content"),
        ("sglang-0.5.23", "sglang", "call-unlisted-content-null", ["content-null: ''"], "messages[1].content"),
        # content
        ("vllm-0.33.0", "vllm", "parts-two", ["content-parts-joined: newline"], "messages[1].content"),
        (
            "vllm-0.33.0",
            "vllm",
            "parts-with-an-empty-one",
            ["content-parts-joined: newline, empty ones left out"],
            "messages[1].content",
        ),
        ("sglang-0.5.23", "sglang", "parts-two", ["content-parts-joined: space"], "messages[1].content"),
        ("sglang-0.5.23", "sglang", "parts-with-an-empty-one", ["content-parts-joined: space"], "messages[1].content"),
        ("sglang-0.5.23", "sglang", "parts-one", ["content-parts-joined: one part"], "messages[1].content"),
        (
            "vllm-0.33.0",
            "vllm-tokenize",
            "reasoning_content-on-the-last-turn",
            ["reasoning-dropped: reasoning_content"],
            "messages[1].reasoning_content",
        ),
        ("vllm-0.33.0", "vllm", "thinking-on-the-last-turn", ["reasoning-dropped: thinking"], "messages[1].thinking"),
        (
            "sglang-0.5.23",
            "sglang",
            "call-unlisted-reasoning",
            ["reasoning-dropped: reasoning"],
            "messages[1].reasoning",
        ),
        # roles and flags
        ("vllm-0.33.0", "vllm", "developer", ["role-rewritten: developer -> system"], "messages[0].role"),
        ("vllm-0.33.0-gemma3", "vllm", "developer", ["role-rewritten: developer -> system"], "messages[0].role"),
        (
            "vllm-0.33.0",
            "vllm",
            "developer-and-system",
            ["role-rewritten: developer -> system", "systems-merged: two newlines"],
            "messages[1].role",
        ),
        (
            "vllm-0.33.0",
            "vllm",
            "system-billing-header",
            ["system-text-stripped: the billing header"],
            "messages[0].content",
        ),
        ("sglang-0.5.23", "sglang", "assistant-last", ["last-turn-role: assistant -> user"], "messages[1].role"),
        (
            "sglang-0.5.23",
            "sglang",
            "continued",
            ["last-turn-prefilled: after the generation prompt"],
            "messages[1].content",
        ),
        (
            "sglang-0.5.23",
            "sglang",
            "reasoning-effort-none",
            ["thinking-default: false"],
            "template_kwargs.enable_thinking",
        ),
        # several at once
        (
            "sglang-0.5.23",
            "sglang",
            "tool-description-null",
            [
                "tool-field-dropped: description",
                f"tool-field-added: description=null, at the end, {DEFER}",
            ],
            "tools[0].function.description",
        ),
        (
            "sglang-0.5.23",
            "sglang",
            "combining-accent-in-tool",
            [f"tool-field-added: {DEFER}"],
            "tools[0].defer_loading",
        ),
        (
            "vllm-0.33.0",
            "vllm",
            "four-faults",
            [
                "arguments-parsed",
                "tool-field-dropped: return, tool.weight",
                "tool-field-added: description=null, in place",
                "tool-keys-reordered: outer",
                "system-text-stripped: the billing header",
            ],
            "messages[0].content",
        ),
        (
            "vllm-0.33.0",
            "vllm-tokenize",
            "four-faults",
            [
                "arguments-parsed",
                "tool-field-dropped: return, tool.weight",
                "tool-field-added: description=null, in place",
                "tool-keys-reordered: outer",
                "reasoning-dropped: reasoning_content",
                "system-text-stripped: the billing header",
            ],
            "messages[0].content",
        ),
    ],
)
def test_what_a_recorded_server_did_is_named(name: str, engine: str, shape: str, causes: list[str], where: str) -> None:
    found = explained(name, engine, shape)
    assert (found.word, [str(it) for it in found.causes], found.where) == ("proven", causes, where), found


@pytest.mark.parametrize(
    ("name", "probe"),
    [
        ("vllm-0.33.0-gemma3", "special tokens added (/tokenize)"),
        ("vllm-0.33.0-gemma3", "special tokens added (/v1/chat/completions/render)"),
        ("sglang-0.5.23-gemma3", "generation prompt asked for, special tokens added (/v1/tokenize)"),
    ],
)
def test_a_recorded_server_that_adds_special_tokens_to_a_prompt_that_has_them_doubles_the_bos(
    name: str, probe: str
) -> None:
    (raw,) = (it for it in recording(name)["raw"] if it["name"] == probe)
    ids = raw["reply"]["token_ids" if "token_ids" in raw["reply"] else "tokens"]
    assert_explained(
        reference("gemma3"),
        Request(raw["body"]["messages"]),
        ids,
        None,
        ["bos-doubled: 1 -> 2"],
        "the first token",
        engine=TYPES[raw["route"]],
    )


def test_reasoning_under_another_name_is_found_where_the_reference_knows_one_name_alone() -> None:
    (answer,) = (
        it
        for it in recording("vllm-0.33.0")["replies"]
        if (it["shape"], it["route"]) == ("reasoning-on-the-last-turn", "/tokenize")
    )
    files = reference("qwen3").files
    older = TokenizersTokens(files, conventions=Conventions(alias_reasoning=False))  # Transformers before 5.20
    request = Request(answer["request"]["messages"], answer["request"]["tools"])
    where = "messages[1].reasoning"
    causes = ["reasoning-renamed: reasoning -> reasoning_content"]
    assert_explained(older, request, answer["ids"], None, causes, where, engine="vllm-tokenize")
