"""Causes in who speaks: roles rewritten, system messages merged, stripped and added."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from .cause import Cause, View, shown_whitespace
from .of_content import SEPARATORS, parts_of, paths_of, texts_of
from .prompt import Body, Change, Layer

_ROLES = ("system", "user", "assistant", "tool")
_BILLING = re.compile(r"x-anthropic-billing-header:[^\n]*\n?")
_SENTINEL = "\U0010fffcTEXT\U0010fffc"


def _role_rewritten(view: View) -> Iterator[Change]:
    for old in dict.fromkeys(str(message.get("role")) for message in view.body.messages):
        for new in _ROLES:
            if new == old:
                continue

            def rewrite(body: Body, old: str = old, new: str = new) -> None:
                for message in body.messages:
                    if message.get("role") == old:
                        message["role"] = new

            paths = paths_of(view, lambda message, old=old: message.get("role") == old, "role")  # type: ignore[misc]
            evidence = old not in _ROLES
            yield Change("role-rewritten", f"{old} -> {new}", Layer.REQUEST, rewrite, paths, evidence, order=7)


def _systems_merged(view: View) -> Iterator[Change]:
    systems = [
        index for index, message in enumerate(view.body.messages) if message.get("role") in ("system", "developer")
    ]
    if not systems or systems == [0]:
        return
    paths = tuple(f"messages[{index}]" for index in systems)
    for separator in SEPARATORS if len(systems) > 1 else ("",):

        def merge(body: Body, separator: str = separator) -> None:
            found = [message for message in body.messages if message.get("role") == "system"]
            if not found or not all(isinstance(message.get("content"), str) for message in found):
                return
            merged = {**found[0], "content": separator.join(message["content"] for message in found)}
            body.messages[:] = [merged, *(message for message in body.messages if message.get("role") != "system")]

        parameter = shown_whitespace(separator) if len(systems) > 1 else "moved to the front"
        yield Change("systems-merged", parameter, Layer.REQUEST, merge, paths, order=8)


def _system_stripped(view: View) -> Iterator[Change]:
    paths = []
    for index, message in enumerate(view.body.messages):
        texts = texts_of(parts_of(message) or []) or [str(message.get("content"))]
        if message.get("role") in ("system", "developer") and any(_BILLING.search(text) for text in texts):
            paths.append(f"messages[{index}].content")
    if not paths:
        return

    def strip(body: Body) -> None:
        for message in body.messages:
            if message.get("role") in ("system", "developer") and isinstance(message.get("content"), str):
                message["content"] = _BILLING.sub("", message["content"])

    yield Change("system-text-stripped", "the billing header", Layer.REQUEST, strip, tuple(paths), order=9)


def _system_added(view: View) -> Iterator[Change]:
    if any(message.get("role") in ("system", "developer") for message in view.body.messages):
        return

    def adding(text: str) -> Callable[[Body], None]:
        def apply(body: Body) -> None:
            body.messages.insert(0, {"role": "system", "content": text})

        return apply

    probe = Change("system-added", _SENTINEL, Layer.REQUEST, adding(_SENTINEL), order=9)
    rendered = view.prompts.text(view.changes | {probe})
    if rendered is None or _SENTINEL not in rendered:
        return
    before, _, after = view.prompts.bare(rendered).partition(_SENTINEL)
    if not view.target.startswith(before):
        return
    end = view.target.find(after[:24], len(before)) if after else len(view.target)
    text = view.target[len(before) : end] if end > len(before) else ""
    special = any(content in text for content in view.prompts.engine.files.added if content)
    if text.strip() and text not in view.text and not special:
        yield Change(
            "system-added", text, Layer.REQUEST, adding(text), ("messages[0]",), evidence=True, copied=True, order=9
        )


CAUSES = (
    Cause(
        "role-rewritten",
        "with the role {}",
        "send the role that the template knows",
        {"llama-server": "b11549", "vllm": "0.33.0", "vllm-tokenize": "0.33.0"},
        _role_rewritten,
    ),
    Cause(
        "systems-merged",
        "with the system messages as one at the front ({})",
        "send one system message, first",
        {"llama-server": "b11549", "vllm": "0.33.0"},
        _systems_merged,
    ),
    Cause(
        "system-text-stripped",
        "with {} taken out of the system text",
        "leave the header out of the system text",
        {"vllm": "0.33.0"},
        _system_stripped,
    ),
    Cause(
        "system-added",
        "with the system text {!r} added",
        "send a system message of your own",
        {"ollama": "v0.33.0-rc2 (source)"},
        _system_added,
    ),
)
