"""Causes in how a prompt ends, and in the switch of thinking."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

from .cause import Cause, View
from .of_content import parts_of, texts_of
from .prompt import Body, Change, Layer

_EMPTY_THINK = "<think>\n\n</think>\n\n"


def _prompt_missing(view: View) -> Iterator[Change]:
    if not view.body.add_generation_prompt:
        return

    def apply(body: Body) -> None:
        body.add_generation_prompt = False

    evidence = view.refused or len(view.target) < len(view.text)
    yield Change("generation-prompt-missing", "", Layer.REQUEST, apply, ("add_generation_prompt",), evidence, order=11)


def _prompt_added(view: View) -> Iterator[Change]:
    if view.body.add_generation_prompt or view.body.continue_final_message:
        return

    def apply(body: Body) -> None:
        body.add_generation_prompt = True

    evidence = view.refused or len(view.target) > len(view.text)
    yield Change("generation-prompt-added", "", Layer.REQUEST, apply, ("add_generation_prompt",), evidence, order=11)


def _prefilled(view: View) -> Iterator[Change]:
    last = view.body.messages[-1] if view.body.messages else {}
    if last.get("role") != "assistant" and not view.body.continue_final_message:
        return
    path = (f"messages[{len(view.body.messages) - 1}].content",)

    def open_turn(body: Body) -> None:
        body.continue_final_message, body.add_generation_prompt = True, False

    def after_prompt(think: str) -> Callable[[Body], None]:
        def apply(body: Body) -> None:
            message = body.messages.pop()
            parts = parts_of(message)
            content = "".join(texts_of(parts)) if parts is not None else message.get("content") or ""
            body.continue_final_message, body.add_generation_prompt = False, True
            body.appended = think + str(content)

        return apply

    if not (last.get("content") or last.get("tool_calls")):

        def vanish(body: Body) -> None:
            if body.messages:
                body.messages.pop()
                body.add_generation_prompt = False

        yield Change(
            "last-turn-prefilled", "an empty turn, lost with its prompt", Layer.REQUEST, vanish, path, order=12
        )
    yield Change("last-turn-prefilled", "after the generation prompt", Layer.REQUEST, after_prompt(""), path, order=12)
    yield Change(
        "last-turn-prefilled",
        "after an empty think block",
        Layer.REQUEST,
        after_prompt(_EMPTY_THINK),
        path,
        _EMPTY_THINK in view.target,
        order=12,
    )
    if not view.body.continue_final_message:
        yield Change("last-turn-prefilled", "in its own turn", Layer.REQUEST, open_turn, path, order=12)


def _continue_ignored(view: View) -> Iterator[Change]:
    if not view.body.continue_final_message:
        return

    def apply(body: Body) -> None:
        body.continue_final_message, body.add_generation_prompt = False, True

    yield Change("continue-ignored", "", Layer.REQUEST, apply, ("continue_final_message",), evidence=True, order=12)


def _last_role(view: View) -> Iterator[Change]:
    last = view.body.messages[-1] if view.body.messages else {}
    old = last.get("role")
    if old != "assistant":
        return
    for new in ("user", "system"):

        def rewrite(body: Body, new: str = new) -> None:
            if body.messages:
                body.messages[-1]["role"] = new

        path = (f"messages[{len(view.body.messages) - 1}].role",)
        yield Change("last-turn-role", f"{old} -> {new}", Layer.REQUEST, rewrite, path, order=12)


def _thinking(view: View) -> Iterator[Change]:
    for value in (True, False, None):
        asked = view.body.template_kwargs.get("enable_thinking")
        if asked == value:
            continue

        def apply(body: Body, value: bool | None = value) -> None:
            if value is None:
                body.template_kwargs.pop("enable_thinking", None)
            else:
                body.template_kwargs["enable_thinking"] = value

        parameter = "not set" if value is None else json.dumps(value)
        yield Change(
            "thinking-default",
            parameter,
            Layer.REQUEST,
            apply,
            ("template_kwargs.enable_thinking",),
            view.fewer("think") or view.more("think"),
            order=13,
        )


def _thinking_fix(parameters: Sequence[str]) -> str:
    if "not set" in parameters:
        return (
            "the switch does not reach the engine's template: use an engine that takes template_kwargs, or do without"
        )
    return "send `template_kwargs: {enable_thinking: ...}` always"


CAUSES = (
    Cause(
        "generation-prompt-missing",
        "without the generation prompt",
        "ask the engine for `add_generation_prompt: true`",
        {"shimmy": "2.5.0 (source)", "llama-server": "b11549"},
        _prompt_missing,
    ),
    Cause(
        "generation-prompt-added",
        "with a generation prompt that the request leaves out",
        "ask for `add_generation_prompt: false` only where the engine can leave it out",
        {"tgi": "3.3.7 (source)", "shimmy": "2.5.0 (source)"},
        _prompt_added,
    ),
    Cause(
        "last-turn-prefilled",
        "with the last turn left open ({})",
        "end the request with a turn of the user, or start llama-server with --no-prefill-assistant",
        {"llama-server": "b11549"},
        _prefilled,
    ),
    Cause(
        "continue-ignored",
        "with a generation prompt in place of the open last turn",
        "continue a turn of the assistant only, or end the request with a turn of the user",
        {"sglang": "0.5.23"},
        _continue_ignored,
    ),
    Cause(
        "last-turn-role",
        "with the last turn's role {}",
        "end the request with a turn of the user, or send `continue_final_message`",
        {"sglang": "0.5.23"},
        _last_role,
    ),
    Cause(
        "thinking-default",
        "with `enable_thinking` {}",
        _thinking_fix,
        {"llama-server": "b11549", "ollama": "v0.33.0-rc2 (source)", "tgi": "3.3.7 (source)"},
        _thinking,
    ),
)
