"""JSON Lines of recorded chat bodies: one request a line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from .errors import ConfigError, InvalidConversation
from .messages import assert_text, assert_valid
from .request import RESERVED_KWARGS, Request
from .tools import assert_valid_tool
from .words import brief, one_line
from .yaml12 import kind, shown

FLAGS = ("add_generation_prompt", "continue_final_message")
_PROMPT_KEYS_IGNORED = ("tool_choice", "reasoning_effort", "response_format")
_READ = ("messages", "tools", "chat_template_kwargs", "template_kwargs", *FLAGS)
_CLOSE = 0.85  # how much of a key must be that of another for it to be a slip of the keyboard
_KEYS_OF_SERVERS = frozenset(
    # Keys of chat bodies that are ignored, and are never a misspelt one of ours: OpenAI's, vLLM's and llama.cpp's.
    """
    add_special_tokens allowed_token_ids audio bad_words best_of cache_prompt cache_salt chat_format chat_template
    documents dry_multiplier echo extra_body frequency_penalty function_call functions grammar guided_choice
    guided_grammar guided_json guided_regex id_slot ignore_eos include_stop_str_in_output json_schema length_penalty
    logit_bias logprobs max_completion_tokens max_tokens media message_id metadata min_p min_tokens mirostat modalities
    model n n_predict n_probs parallel_tool_calls parse_tool_calls prediction presence_penalty priority
    prompt_logprobs reasoning_format repeat_penalty repetition_penalty response_format samplers seed service_tier
    skip_special_tokens spaces_between_special_tokens stop stop_token_ids store stream stream_options
    structured_outputs temperature thinking thinking_forced_open timings_per_token tool_choice tool_prompt tool_resources
    top_a top_k top_logprobs top_n_sigma top_p truncate_prompt_tokens typical_p use_beam_search user verbosity
    web_search_options
    """.split()  # noqa: SIM905  # a list that people edit
)


def read_json_lines(path: Path, raw: bytes, base: Mapping[str, Any], warnings: list[str]) -> tuple[Request, ...]:
    """The requests of a file; ``base`` is what the case gives for keys that a line does not have.

    Warnings about keys that are ignored here, and change prompts elsewhere, are added to ``warnings``. ConfigError names
    the line of what cannot be used.
    """
    lines = raw.split(b"\n")
    if not lines[-1].strip():
        lines.pop()  # the newline that ends the last line
    return tuple(_JsonLine(path, number, warnings).request(line, base) for number, line in enumerate(lines, 1))


def request_of(messages: list[Any], settings: Mapping[str, Any]) -> Request:
    """A request from its messages and what else is said of it; a flag that nobody gave is None.

    ValueError if it would both continue the final message and prompt for another.
    """
    continued = bool(settings["continue_final_message"])
    prompted = settings["add_generation_prompt"]
    if prompted and continued:
        raise ValueError("a final message that is continued takes `add_generation_prompt: false`")
    return Request(
        messages,
        settings["tools"],
        settings["template_kwargs"],
        not continued if prompted is None else prompted,
        continued,
    )


@dataclass(frozen=True)
class _JsonLine:
    """One line of a JSON Lines file: one chat body."""

    path: Path
    number: int
    warnings: list[str]

    def fail(self, message: str) -> NoReturn:
        raise ConfigError(f"{shown(self.path)}:{self.number}: {message}") from None

    def request(self, line: bytes, base: Mapping[str, Any]) -> Request:
        body = self.parse(line)
        self.spelling(body)
        if "messages" not in body:
            close = difflib.get_close_matches("messages", body, n=1)
            keys = f" (its keys: {one_line(', '.join(body), 80)})" if body else ""
            hint = f" (did you mean it by {brief(close[0])}?)" if close else keys
            self.fail(f"a chat body without `messages`{hint}")
        self.checked(assert_valid, body["messages"], "messages")
        kwargs = self.template_kwargs(body)
        tools = body.get("tools", base["tools"])
        if tools is not None:
            if not isinstance(tools, list):
                self.fail(f"tools: expected a list of schemas, found {kind(tools)}")
            for index, tool in enumerate(tools):
                self.checked(assert_valid_tool, tool, f"tools[{index}]")
        settings = {
            "tools": tools,
            "template_kwargs": {**base["template_kwargs"], **kwargs},
            **{key: self.flag(body, key) if key in body else base[key] for key in FLAGS},
        }
        for key in _PROMPT_KEYS_IGNORED:
            if key in body:
                self.warnings.append(
                    f"{shown(self.path)}:{self.number}: `{key}` is ignored here, and changes the prompt on some engines"
                )
        if body.get("continue_final_message") and "add_generation_prompt" not in body:
            settings["add_generation_prompt"] = None
        try:
            return request_of(body["messages"], settings)
        except ValueError as error:
            self.fail(str(error))

    def spelling(self, body: dict[str, Any]) -> None:
        """Other keys are ignored, so one that is nearly ours would be lost without a word."""
        for key in body:
            if key in _READ or key in _KEYS_OF_SERVERS or key in _PROMPT_KEYS_IGNORED:
                continue
            close = difflib.get_close_matches(key, _READ, n=1, cutoff=_CLOSE)
            if close:
                self.fail(f"unknown key {brief(key)} (did you mean {close[0]!r}?)")

    def parse(self, line: bytes) -> dict[str, Any]:
        try:
            text = line.decode("utf-8-sig" if self.number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            self.fail(f"not UTF-8: byte 0x{line[error.start]:02x} cannot stand here")
        if not text.strip():
            self.fail("an empty line; every line holds one chat body")
        try:
            body = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
        except json.JSONDecodeError as error:
            self.fail(f"not JSON: {error.msg} at character {error.colno}")
        except RecursionError:
            self.fail("nested without end")
        except ValueError as error:
            self.fail(f"not JSON as the standard has it: {str(error).partition(';')[0]}")
        if not isinstance(body, dict):
            self.fail(f"expected a chat body (an object with `messages`), found {kind(body)}")
        return body

    def template_kwargs(self, body: dict[str, Any]) -> dict[str, Any]:
        if "chat_template_kwargs" in body and "template_kwargs" in body:
            self.fail("`chat_template_kwargs` and `template_kwargs` are one thing; keep one of them")
        key = "chat_template_kwargs" if "chat_template_kwargs" in body else "template_kwargs"
        kwargs = body.get(key)
        if kwargs is None:
            return {}
        if not isinstance(kwargs, dict):
            self.fail(f"{key}: expected an object, found {kind(kwargs)}")
        for name in kwargs:
            if name in RESERVED_KWARGS:
                self.fail(f"{key}: {brief(name)} is no switch of a template")
        self.checked(assert_text, kwargs, key)
        return kwargs

    def flag(self, body: dict[str, Any], key: str) -> bool:
        value = body[key]
        if not isinstance(value, bool):
            self.fail(f"{key}: expected true or false, found {kind(value)}")
        return value

    def checked(self, check: Any, value: Any, what: str) -> None:
        try:
            check(value)
        except InvalidConversation as error:
            path = "".join(f"[{step}]" if isinstance(step, int) else f".{one_line(step, 60)}" for step in error.where)
            self.fail(f"{what}{path}: {error}")


def _no_duplicates(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for key, value in pairs:
        if key in body:
            raise ValueError(f"the key {brief(key)} stands twice")
        body[key] = value
    return body


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
