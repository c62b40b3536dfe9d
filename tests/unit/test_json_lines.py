"""`requests: FILE.jsonl`: one chat body a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_tokenparity import ConfigError, Request
from pytest_tokenparity.cases import CaseFile, load_case_file
from pytest_tokenparity.config import load_config

CONFIG = "models:\n  m: {tokenizer: t, engines: {transformers: }}\n"
TOOLS = "tools:\n  get_weather: {type: function, function: {name: get_weather}}\n"
WEATHER = {"type": "function", "function": {"name": "get_weather"}}
USER = [{"role": "user", "content": "a"}]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a configuration in it: messages name files relative to it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tokenparity.yaml").write_bytes(CONFIG.encode())
    return tmp_path


def load(lines: str | bytes, more: str = "") -> CaseFile:
    """A case file whose one case takes its requests from ``r.jsonl``; ``more`` are further keys of the case."""
    Path("r.jsonl").write_bytes(lines if isinstance(lines, bytes) else lines.encode())
    path = Path("chat.tokenparity.yaml").absolute()
    path.write_bytes(f"{TOOLS}cases:\n  c: {{requests: r.jsonl{more}}}\n".encode())
    return load_case_file(path, load_config(Path("tokenparity.yaml")))


def requests(lines: str | bytes, more: str = "") -> tuple[Request, ...]:
    return load(lines, more).cases[0].requests


def complaint(lines: str | bytes, more: str = "") -> str:
    with pytest.raises(ConfigError) as caught:
        load(lines, more)
    return str(caught.value)


def body(**keys: Any) -> str:
    """One chat body with one message, on one line."""
    return json.dumps({"messages": USER, **keys}) + "\n"


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        (body(), Request(USER)),
        (body(tools=[WEATHER]), Request(USER, [WEATHER])),
        (body(tools=[]), Request(USER, [])),
        (body(tools=None), Request(USER)),
        (body(chat_template_kwargs={"enable_thinking": False}), Request(USER, None, {"enable_thinking": False})),
        (body(template_kwargs={"n": 2**70}), Request(USER, None, {"n": 2**70})),
        (body(template_kwargs=None), Request(USER)),
        (body(add_generation_prompt=False), Request(USER, add_generation_prompt=False)),
        (
            body(continue_final_message=True),
            Request(USER, add_generation_prompt=False, continue_final_message=True),
        ),
        (
            body(continue_final_message=True, add_generation_prompt=False),
            Request(USER, add_generation_prompt=False, continue_final_message=True),
        ),
        (body(model="m", stream=True, temperature=0.5, max_tokens=1), Request(USER)),
    ],
)
def test_a_line_is_a_request(line: str, request_: Request) -> None:
    assert requests(line) == (request_,)


def test_messages_are_kept_as_they_were_written() -> None:
    line = '{"messages": [{"content": "a", "role": "user", "zzz": {"b": 1, "a": 1.0}}]}\n'
    assert repr(requests(line)[0].messages) == "[{'content': 'a', 'role': 'user', 'zzz': {'b': 1, 'a': 1.0}}]"


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        (r"\ud83d\ude00", "\U0001f600"),
        ("\U0001f600", "\U0001f600"),
        (r"\u2028", "\u2028"),
        ("a\u2028b\u0085c", "a\u2028b\u0085c"),
        (r"\/\t", "/\t"),
    ],
)
def test_text_is_what_json_says(escaped: str, text: str) -> None:
    assert requests(f'{{"messages": [{{"role": "user", "content": "{escaped}"}}]}}\n' * 2)[1].messages == [
        {"role": "user", "content": text}
    ]


@pytest.mark.parametrize(
    "lines",
    [
        body() * 2,
        body() + body().rstrip(),
        body().rstrip() + "\r\n" + body().rstrip() + "\r\n",
        "  " + body() + "\t" + body(),
        b"\xef\xbb\xbf" + body().encode() * 2,
    ],
    ids=["lf", "no-newline-at-the-end", "crlf", "indented", "bom"],
)
def test_lines_end_in_any_way(lines: str | bytes) -> None:
    assert requests(lines) == (Request(USER), Request(USER))


def test_the_cases_own_keys_are_defaults_under_those_of_a_line() -> None:
    lines = (
        body()
        + body(chat_template_kwargs={"b": 2, "c": 3})
        + body(tools=None)
        + body(tools=[])
        + body(add_generation_prompt=False)
    )
    assert requests(lines, ", tools: [get_weather], template_kwargs: {a: 1, b: 1}") == (
        Request(USER, [WEATHER], {"a": 1, "b": 1}),
        Request(USER, [WEATHER], {"a": 1, "b": 2, "c": 3}),
        Request(USER, None, {"a": 1, "b": 1}),
        Request(USER, [], {"a": 1, "b": 1}),
        Request(USER, [WEATHER], {"a": 1, "b": 1}, add_generation_prompt=False),
    )


@pytest.mark.parametrize(
    ("of_case", "of_line", "flags"),
    [
        ("", {}, (True, False)),
        (", add_generation_prompt: false", {}, (False, False)),
        (", add_generation_prompt: false", {"add_generation_prompt": True}, (True, False)),
        (", add_generation_prompt: false", {"continue_final_message": True}, (False, True)),
        (", add_generation_prompt: true", {"continue_final_message": True}, (False, True)),
        (", continue_final_message: true", {}, (False, True)),
        (", continue_final_message: true", {"continue_final_message": False}, (True, False)),
        (
            ", continue_final_message: true",
            {"continue_final_message": False, "add_generation_prompt": True},
            (True, False),
        ),
    ],
)
def test_the_generation_flags_of_a_line_come_before_the_cases(
    of_case: str, of_line: dict[str, bool], flags: tuple[bool, bool]
) -> None:
    """A generation prompt is the default of every request that continues no message."""
    request = requests(body(**of_line), of_case)[0]
    assert (request.add_generation_prompt, request.continue_final_message) == flags


def test_ignored_keys_that_change_prompts_are_named_in_a_warning() -> None:
    lines = body(tool_choice="auto", reasoning_effort="low", response_format={}, model="m") + body(tool_choice=None)
    assert load(lines).warnings == {
        "c": (
            "r.jsonl:1: `tool_choice` is ignored here, and changes the prompt on some engines",
            "r.jsonl:1: `reasoning_effort` is ignored here, and changes the prompt on some engines",
            "r.jsonl:1: `response_format` is ignored here, and changes the prompt on some engines",
            "r.jsonl:2: `tool_choice` is ignored here, and changes the prompt on some engines",
        )
    }


def test_other_ignored_keys_are_not_worth_a_warning() -> None:
    assert load(body(model="m", stream=True, seed=1, stop=["x"])).warnings == {}


def test_the_file_is_relative_to_the_case_file(folder: Path) -> None:
    (folder / "api" / "recorded").mkdir(parents=True)
    (folder / "api" / "recorded" / "agent.jsonl").write_bytes(body().encode())
    path = folder / "api" / "chat.tokenparity.yaml"
    path.write_bytes(b"cases: {c: {requests: recorded/agent.jsonl}}\n")
    case = load_case_file(path, load_config(folder / "tokenparity.yaml")).cases[0]
    assert case.requests == (Request(USER),)


def test_a_file_that_is_not_there_is_an_error_of_the_case() -> None:
    load(body())
    Path("r.jsonl").unlink()
    with pytest.raises(ConfigError) as caught:
        load_case_file(Path("chat.tokenparity.yaml").absolute(), load_config(Path("tokenparity.yaml")))
    assert str(caught.value) == (
        "chat.tokenparity.yaml:4: cases.c.requests: 'r.jsonl' cannot be read: No such file or directory"
    )


def test_an_empty_file_is_an_error_of_the_case() -> None:
    assert complaint("") == (
        "chat.tokenparity.yaml:4: cases.c.requests: r.jsonl is empty: it needs one chat body a line"
    )


@pytest.mark.parametrize(
    ("lines", "line"), [("\n", 1), ("\n" + body(), 1), (body() + "\n" + body(), 2), (body() + " \t\r\n" + body(), 2)]
)
def test_an_empty_line_is_an_error_with_its_number(lines: str, line: int) -> None:
    assert complaint(lines) == f"r.jsonl:{line}: an empty line; every line holds one chat body"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes at character 2"),
        ("not json", "not JSON: Expecting value at character 1"),
        (body().rstrip() + " x", "not JSON: Extra data at character 50"),
        (
            '{"messages": [], "messages": []}',
            "not JSON as the standard has it: the key 'messages' stands twice",
        ),
        (
            '{"messages": [{"role": "user", "role": "user"}]}',
            "not JSON as the standard has it: the key 'role' stands twice",
        ),
        ('{"messages": [], "x": NaN}', "not JSON as the standard has it: NaN is no JSON number"),
        ('{"messages": [], "x": -Infinity}', "not JSON as the standard has it: -Infinity is no JSON number"),
        ("[]", "expected a chat body (an object with `messages`), found an empty list"),
        ('"x"', "expected a chat body (an object with `messages`), found the string 'x'"),
        ("null", "expected a chat body (an object with `messages`), found nothing (null)"),
        ("{}", "a chat body without `messages`"),
        ('{"messages": null}', "messages: expected a list of messages, found null"),
        ('{"messages": []}', "messages: the list of messages is empty: a request needs at least one"),
        ('{"messages": [{"role": "user"}]}', "messages[0]: a user message without `content`"),
        (
            '{"messages": [{"role": "user", "content": "\\ud83d"}]}',
            "messages[0].content: half of a surrogate pair inside a string: it is not text",
        ),
        (
            '{"messages": [{"role": "user", "content": "a\\u0000"}]}',
            "messages[0].content: NUL inside a string: llama.cpp and tokenizers cut or refuse it",
        ),
        (body(tools={}), "tools: expected a list of schemas, found an empty mapping"),
        (body(tools=["get_weather"]), "tools[0]: a tool must be a mapping with `type: function` and `function`"),
        (body(tools=[WEATHER, {"type": "function"}]), "tools[1].function: a tool needs `function`, a mapping"),
        (
            body(template_kwargs={}, chat_template_kwargs={}),
            "`chat_template_kwargs` and `template_kwargs` are one thing; keep one of them",
        ),
        (body(chat_template_kwargs=[]), "chat_template_kwargs: expected an object, found an empty list"),
        (body(template_kwargs="x"), "template_kwargs: expected an object, found the string 'x'"),
        (body(template_kwargs={"tools": []}), "template_kwargs: 'tools' is no switch of a template"),
        (
            body(chat_template_kwargs={"x": ["\0"]}),
            "chat_template_kwargs.x[0]: NUL inside a string: llama.cpp and tokenizers cut or refuse it",
        ),
        (body(add_generation_prompt=1), "add_generation_prompt: expected true or false, found the number 1"),
        (body(continue_final_message="no"), "continue_final_message: expected true or false, found the string 'no'"),
        (
            body(add_generation_prompt=True, continue_final_message=True),
            "a final message that is continued takes `add_generation_prompt: false`",
        ),
    ],
)
def test_a_line_that_cannot_be_used_is_an_error_with_its_number(line: str, message: str) -> None:
    assert complaint(body() + line.rstrip() + "\n") == f"r.jsonl:2: {message}"


def test_a_byte_that_is_not_utf_8_is_an_error_with_its_line() -> None:
    assert complaint(body().encode() + b'{"messages": "\xff"}\n') == "r.jsonl:2: not UTF-8: byte 0xff cannot stand here"


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 5000])
def test_a_number_that_cannot_be_held_is_an_error(number: str) -> None:
    """An infinite number is none of JSON's: no engine can be sent it."""
    line = f'{{"messages": [{{"role": "user", "content": "a"}}], "template_kwargs": {{"x": {number}}}}}\n'
    assert complaint(body() + line).startswith("r.jsonl:2: ")


@pytest.mark.parametrize("depth", [1200, 5000, 100_000])
def test_endless_nesting_is_an_error_with_its_line(depth: int) -> None:
    nested = "[" * depth + "]" * depth
    line = f'{{"messages": [{{"role": "user", "content": "a"}}], "template_kwargs": {{"x": {nested}}}}}\n'
    assert complaint(body() + line).startswith("r.jsonl:2: ")
