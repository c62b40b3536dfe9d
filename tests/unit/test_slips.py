"""Slips of the keyboard in case files, bodies and messages: what was probably meant is said, nothing is lost silently."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_tokenparity import InvalidConversation, Request, assert_valid
from pytest_tokenparity.cases import CaseFile, read_case_file
from pytest_tokenparity.config import load_config
from pytest_tokenparity.errors import ConfigError
from pytest_tokenparity.request import RESERVED_KWARGS
from pytest_tokenparity.yaml12 import loads

CONFIG = """
models:
  one: {tokenizer: x, engines: {transformers: , letters: }}
  two: {tokenizer: x, engines: {letters: , transformers: }}
"""
HEAD = """conversations:
  good: [{role: user, content: Hi}]
  bad: [{role: user, contents: Hi}]
cases:
"""
HI = {"role": "user", "content": "Hi"}


def read(tmp_path: Path, cases: str) -> CaseFile:
    (tmp_path / "tokenparity.yaml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "chat.tokenparity.yaml").write_text(HEAD + cases, encoding="utf-8")
    return read_case_file(tmp_path / "chat.tokenparity.yaml", load_config(tmp_path / "tokenparity.yaml"))


def bodies(tmp_path: Path, body: dict[str, Any]) -> CaseFile:
    (tmp_path / "r.jsonl").write_text(json.dumps(body) + "\n", encoding="utf-8")
    return read(tmp_path, "  c: {requests: r.jsonl}\n")


def test_no_switch_of_a_template_can_reach_a_parameter_of_the_call() -> None:
    from transformers import PreTrainedTokenizerBase
    from transformers.utils.chat_template_utils import render_jinja_template

    for function in (PreTrainedTokenizerBase.apply_chat_template, render_jinja_template):
        names = {name for name, it in inspect.signature(function).parameters.items() if it.kind != it.VAR_KEYWORD}
        assert names - {"documents"} <= RESERVED_KWARGS  # documents are a variable of templates too
    with pytest.raises(TypeError, match="'conversations' is no switch of a template"):
        Request.of([HI], conversations=[1])


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("chat_template_kwarg", "chat_template_kwargs"),
        ("template_kwarg", "template_kwargs"),
        ("tols", "tools"),
        ("tool", "tools"),
        ("mesages", "messages"),
        ("add_generation_promt", "add_generation_prompt"),
    ],
)
def test_a_key_of_a_body_that_is_nearly_ours_is_an_error_with_its_line(tmp_path: Path, key: str, meant: str) -> None:
    error = bodies(tmp_path, {"messages": [HI], key: []}).broken["c"]
    assert str(error).endswith(f"r.jsonl:1: unknown key {key!r} (did you mean {meant!r}?)")


def test_keys_that_servers_know_are_never_taken_for_ours(tmp_path: Path) -> None:
    keys = ("stop", "n", "seed", "top_k", "model", "chat_template", "message_id", "functions", "x_own_key", "metadata")
    assert "c" not in bodies(tmp_path, {"messages": [HI], **dict.fromkeys(keys, 1)}).broken


@pytest.mark.parametrize(
    ("key", "hint"),
    [("conversation", "(its keys: conversation, model)"), ("message_list", "(did you mean it by 'message_list'?)")],
)
def test_a_body_without_messages_says_what_it_has(tmp_path: Path, key: str, hint: str) -> None:
    error = bodies(tmp_path, {key: [HI], "model": "m"}).broken["c"]
    assert str(error).endswith(f"r.jsonl:1: a chat body without `messages` {hint}")


@pytest.mark.parametrize("word", ["yes", "no", "On", "off", "True", "FALSE", "None", "~"])
def test_a_bare_word_among_the_switches_is_warned_about(tmp_path: Path, word: str) -> None:
    file = read(tmp_path, f"  c: {{messages: good, template_kwargs: {{thinking: {word}, deep: [{{x: {word}}}]}}}}\n")
    assert not [*file.broken][1:]
    second, first = file.warnings["c"]  # those of one line by their names
    assert f"chat.tokenparity.yaml:5: cases.c.template_kwargs.thinking: {word} is the string {word!r}" in first
    assert "template_kwargs.deep[0].x" in second


@pytest.mark.parametrize("word", ["'no'", '"True"', "true", "null", "1", "other"])
def test_quoted_words_and_real_values_are_not(tmp_path: Path, word: str) -> None:
    assert not read(tmp_path, f"  c: {{messages: good, template_kwargs: {{thinking: {word}}}}}\n").warnings


EXPECT = "  c: {{messages: good, models: [{models}], expect: {{{key}: {{differs: [unknown], reason: why}}}}}}\n"


@pytest.mark.parametrize(
    ("models", "key", "refused"),
    [
        ("one", "transformers", True),
        ("two", "letters", True),
        ("one", "letters", False),
        ("one, two", "transformers", False),  # of `two` it is not the reference
    ],
)
def test_the_reference_cannot_be_pinned(tmp_path: Path, models: str, key: str, refused: bool) -> None:
    broken = read(tmp_path, EXPECT.format(models=models, key=key)).broken
    said = f"cases.c.expect.{key}: {key} records the golden; it cannot differ from it"
    assert ("c" in broken) == refused
    assert not refused or str(broken["c"]).endswith(said)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"role": "user", "contents": "Hi"}, "a user message without `content`: 'contents' stands there (did you mean"),
        ({"roles": "user", "content": "Hi"}, "a message without `role`: 'roles' stands there (did you mean 'role'?)"),
        ({"role": "assistant", "content": "", "tool_call": []}, "without `tool_calls`: 'tool_call' stands there"),
        ({"role": "assistant", "contnet": "Hi"}, "an assistant message without `content`: 'contnet' stands there"),
        ({"role": "x" * 5000, "content": "Hi"}, "unknown role '" + "x" * 58 + "… (known"),
    ],
)
def test_a_message_says_what_was_probably_meant(message: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConversation) as raised:
        assert_valid([message])
    assert said in str(raised.value)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("key", ["tool_call_id", "name", "reasoning_content", "refusal", "audio", "function_call"])
def test_other_keys_of_a_message_are_none_of_ours(key: str) -> None:
    assert_valid([{"role": "assistant", "content": "Hi", key: None}, {**HI, key: None}])


def test_a_bad_conversation_is_said_in_full_once(tmp_path: Path) -> None:
    broken = read(tmp_path, "  a: {messages: bad}\n  b: {messages: bad}\n  c: {session: bad}\n").broken
    assert "conversations.bad[0]: a user message without `content`" in str(broken["a"])
    for name in ("b", "c"):
        assert str(broken[name]).endswith("chat.tokenparity.yaml:3: conversations.bad (line 3) is broken: see above")


def test_an_unquoted_comma_in_braces_is_hinted_at(tmp_path: Path) -> None:
    pinned = "{differs: [unknown], reason: it keeps name, description and parameters}"
    broken = read(tmp_path, f"  c: {{messages: good, models: [one], expect: {{letters: {pinned}}}}}\n").broken
    assert "unknown key 'description and parameters': a value with a comma needs quotes" in str(broken["c"])


@pytest.mark.parametrize("text", ["a: {b: {c: d: e}}\n", "a: b: c\n", "a: {b: 'c' d}\n"])
def test_broken_yaml_has_a_column_and_a_hint(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^x\.yaml:\d: not YAML: .* at column \d+.*needs quotes$"):
        loads(text, Path("x.yaml"))


def test_what_a_file_says_is_shown_short_and_printable(tmp_path: Path) -> None:
    (tmp_path / "tokenparity.yaml").write_text(
        f"models:\n  m: {{tokenizer: x, clock: {'y' * 5000}, engines: {{letters: }}}}\n", encoding="utf-8"
    )
    with pytest.raises(ConfigError) as raised:
        load_config(tmp_path / "tokenparity.yaml")
    assert len(str(raised.value)) < 300
    document = loads('"a\\e[31m\\nb": {c: 1}\n', Path("x\x1b[31m.yaml"))
    said = str(document.error(("a\x1b[31m\nb", "c"), "wrong"))
    assert said == "x\\x1b[31m.yaml:1: a\\x1b[31m b.c: wrong"
