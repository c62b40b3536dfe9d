"""Case files as data: requests, shapes, prefixes, expectations, and every complaint about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_tokenparity import ConfigError, Engine, Rendering, Request
from pytest_tokenparity.cases import (
    Case,
    CaseFile,
    DocumentedBreak,
    Expectation,
    PrefixRule,
    case_file_name,
    load_case_file,
    read_case_file,
)
from pytest_tokenparity.causes.explanation import DeclaredCause
from pytest_tokenparity.config import Config, load_config
from pytest_tokenparity.engines.base import checked_render

CONFIG = """\
models:
  qwen3-0.6b: {tokenizer: t, engines: {transformers: , llama-server: {url: x}}}
  gemma-3: {tokenizer: t, engines: {transformers: , posted-string: }}
"""

HEAD = """\
conversations:
  question:
    - {role: system, content: You are terse.}
    - {role: user, content: "What is 2 + 2?"}
  arithmetic: [{role: user, content: a}, {role: assistant, content: b}, {role: user, content: c}]
tools:
  get_weather: {type: function, function: {name: get_weather}}
cases:
"""
"""What the cases below stand after: a case on one line is on line 9."""

CAUSE = "unknown"
"""A name that `differs` may hold."""

QUESTION = [{"role": "system", "content": "You are terse."}, {"role": "user", "content": "What is 2 + 2?"}]
WEATHER = {"type": "function", "function": {"name": "get_weather"}}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a configuration in it: messages name files relative to it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tokenparity.yaml").write_bytes(CONFIG.encode())
    return tmp_path


def config() -> Config:
    return load_config(Path("tokenparity.yaml"))


def load(text: str, name: str = "chat.tokenparity.yaml") -> CaseFile:
    path = Path(name).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return load_case_file(path, config())


def case(body: str) -> Case:
    """The case ``c``, from the inside of its flow mapping."""
    return load(f"{HEAD}  c: {{{body}}}\n").cases[0]


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text)
    return str(caught.value)


def case_complaint(body: str) -> str:
    """What is said of the case ``c``, after the file and the line."""
    place, _, rest = complaint(f"{HEAD}  c: {{{body}}}\n").partition(": ")
    assert place == "chat.tokenparity.yaml:9"
    return rest


EXAMPLE = """\
conversations:
  question:
    - {role: system, content: You are terse.}
    - {role: user, content: "What is 2 + 2?"}
  arithmetic:
    - {role: system, content: You are terse.}
    - {role: user, content: "What is 2 + 2?"}
    - {role: assistant, content: "4."}
    - {role: user, content: "And times 3?"}
    - {role: assistant, content: "12."}
    - {role: user, content: "Minus 5?"}
tools:
  get_weather: {type: function, function: {name: get_weather, description: d, parameters: {}}}
cases:
  plain:
    messages: question
  thinking-off:
    messages: question
    template_kwargs: {enable_thinking: false}
  tools:
    messages: question
    tools: [get_weather]
  session:
    session: arithmetic
    prefix: stable
  session-thinking-off:
    session: arithmetic
    template_kwargs: {enable_thinking: false}
    prefix: {tail: 4}
  recorded:
    requests: recorded/agent.jsonl
    models: [qwen3-0.6b]
    engines: [llama-server]
    marks: [slow]
"""


def test_the_example_is_read(folder: Path) -> None:
    (folder / "recorded").mkdir()
    (folder / "recorded" / "agent.jsonl").write_bytes(b'{"messages": [{"role": "user", "content": "a"}]}\n' * 2)
    file = load(EXAMPLE)
    assert file.path == folder / "chat.tokenparity.yaml"
    assert file.warnings == {}
    assert [(case.name, case.line, len(case.requests), case.shape) for case in file.cases] == [
        ("plain", 15, 1, "plain"),
        ("thinking-off", 17, 1, "thinking_off"),
        ("tools", 20, 1, "tools"),
        ("session", 23, 3, "session"),
        ("session-thinking-off", 26, 3, "session"),
        ("recorded", 30, 2, "session"),
    ]
    recorded = file.cases[-1]
    assert (recorded.models, recorded.engines, recorded.marks) == (("qwen3-0.6b",), ("llama-server",), ("slow",))


def test_what_is_not_written_has_a_default() -> None:
    assert case("messages: question") == Case(
        name="c",
        file="chat.tokenparity.yaml",
        golden_name="chat",
        line=9,
        requests=(Request(QUESTION),),
        shape="plain",
        prefix=PrefixRule(check=True, tail=0, breaks=()),
        prefix_by_model={},
        expect={},
        stop=(),
        models=("qwen3-0.6b", "gemma-3"),
        engines=None,
        marks=(),
    )


@pytest.mark.parametrize(
    ("path", "golden_name"),
    [
        ("chat.tokenparity.yaml", "chat"),
        ("chat.tokenparity.yml", "chat"),
        ("api/chat.tokenparity.yaml", "api/chat"),
        ("api/v1.2/chat.x.tokenparity.yaml", "api/v1.2/chat.x"),
    ],
)
def test_a_case_file_is_named_by_its_path_from_the_configuration(path: str, golden_name: str) -> None:
    read = load(f"{HEAD}  c: {{messages: question}}\n", path).cases[0]
    assert (read.file, read.golden_name) == (path, golden_name)


def test_a_case_file_outside_the_folder_of_the_configuration_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = folder / "inside"
    inside.mkdir()
    (inside / "tokenparity.yaml").write_bytes(CONFIG.encode())
    read = load_config(inside / "tokenparity.yaml")
    with pytest.raises(ConfigError) as caught:
        case_file_name(folder / "chat.tokenparity.yaml", read)
    assert str(caught.value) == (
        "chat.tokenparity.yaml: lies outside inside, the folder of tokenparity.yaml: its goldens would have no name; "
        "move it, or put a configuration above both"
    )


def test_messages_and_tools_are_kept_as_they_were_written() -> None:
    """Key order and unknown keys reach the engines: they show in prompts."""
    request = case(
        "messages: [{content: a, role: user, zzz: {b: 1, a: 1.0}}], "
        "tools: [{type: function, function: {parameters: {z: 1, a: 2}, name: n, strict: true}}]"
    ).requests[0]
    assert repr(request.messages) == "[{'content': 'a', 'role': 'user', 'zzz': {'b': 1, 'a': 1.0}}]"
    assert repr(request.tools) == (
        "[{'type': 'function', 'function': {'parameters': {'z': 1, 'a': 2}, 'name': 'n', 'strict': True}}]"
    )


@pytest.mark.parametrize(
    ("body", "request_"),
    [
        ("messages: question", Request(QUESTION)),
        ("messages: [{role: user, content: a}]", Request([{"role": "user", "content": "a"}])),
        ("messages: question, tools: [get_weather]", Request(QUESTION, [WEATHER])),
        (
            "messages: question, tools: [{type: function, function: {name: n}}, get_weather]",
            Request(QUESTION, [{"type": "function", "function": {"name": "n"}}, WEATHER]),
        ),
        ("messages: question, tools: []", Request(QUESTION, [])),
        ("messages: question, tools: null", Request(QUESTION, None)),
        (
            "messages: question, template_kwargs: {enable_thinking: off, n: 1e-7}",
            Request(QUESTION, None, {"enable_thinking": "off", "n": 1e-7}),
        ),
        ("messages: question, add_generation_prompt: false", Request(QUESTION, add_generation_prompt=False)),
        ("messages: question, add_generation_prompt: true", Request(QUESTION)),
        (
            "messages: question, continue_final_message: true",
            Request(QUESTION, add_generation_prompt=False, continue_final_message=True),
        ),
        (
            "messages: question, continue_final_message: true, add_generation_prompt: false",
            Request(QUESTION, add_generation_prompt=False, continue_final_message=True),
        ),
        ("messages: question, continue_final_message: false", Request(QUESTION)),
    ],
)
def test_a_case_is_a_request(body: str, request_: Request) -> None:
    assert case(body).requests == (request_,)


TOOL_TURNS = (
    "[{role: system, content: s}, {role: user, content: a}, {role: assistant, content: null}, {role: tool, content: r}, "
    "{role: tool, content: r}, {role: assistant, content: b}, {role: user, content: c}, {role: assistant, content: d}]"
)


def test_a_session_is_one_request_after_every_user_turn_and_the_last_of_consecutive_tool_results() -> None:
    requests = case(f"session: {TOOL_TURNS}, tools: [get_weather], template_kwargs: {{k: 1}}").requests
    assert [len(request.messages) for request in requests] == [2, 5, 7]
    assert all(request.messages == requests[-1].messages[: len(request.messages)] for request in requests)
    assert [(request.tools, request.template_kwargs) for request in requests] == [([WEATHER], {"k": 1})] * 3


def test_a_list_of_requests_has_the_cases_keys_as_defaults() -> None:
    requests = case(
        "tools: [get_weather], template_kwargs: {a: 1, b: 1}, requests: ["
        "{messages: question}, "
        "{messages: [{role: user, content: a}], tools: [], template_kwargs: {b: 2}}, "
        "{messages: question, tools: null, add_generation_prompt: false}, "
        "{messages: question, continue_final_message: true}]"
    ).requests
    assert requests == (
        Request(QUESTION, [WEATHER], {"a": 1, "b": 1}),
        Request([{"role": "user", "content": "a"}], [], {"a": 1, "b": 2}),
        Request(QUESTION, None, {"a": 1, "b": 1}, add_generation_prompt=False),
        Request(QUESTION, [WEATHER], {"a": 1, "b": 1}, add_generation_prompt=False, continue_final_message=True),
    )


@pytest.mark.parametrize(
    ("of_case", "of_request", "flags"),
    [
        ("", "", (True, False)),
        ("add_generation_prompt: false", "", (False, False)),
        ("add_generation_prompt: false", "add_generation_prompt: true", (True, False)),
        ("add_generation_prompt: false", "continue_final_message: true", (False, True)),
        ("add_generation_prompt: true", "continue_final_message: true", (False, True)),
        ("continue_final_message: true", "", (False, True)),
        ("continue_final_message: true", "continue_final_message: false", (True, False)),
        (
            "continue_final_message: true, add_generation_prompt: false",
            "continue_final_message: false",
            (False, False),
        ),
    ],
)
def test_the_generation_flags_of_a_request_come_before_the_cases(
    of_case: str, of_request: str, flags: tuple[bool, bool]
) -> None:
    """A generation prompt is the default of every request that continues no message."""
    request = case(
        f"{of_case + ', ' if of_case else ''}requests: [{{messages: question{', ' + of_request if of_request else ''}}}]"
    ).requests[0]
    assert (request.add_generation_prompt, request.continue_final_message) == flags


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("messages: question", "plain"),
        ("messages: question, template_kwargs: {enable_thinking: true}", "plain"),
        ("messages: question, template_kwargs: {enable_thinking: off}", "plain"),
        ("messages: question, template_kwargs: {enable_thinking: 0}", "plain"),
        ("messages: question, template_kwargs: {enable_thinking: false}", "thinking_off"),
        ("messages: question, tools: []", "plain"),
        ("messages: question, tools: [get_weather]", "tools"),
        ("messages: question, tools: [get_weather], template_kwargs: {enable_thinking: false}", "tools"),
        ("session: arithmetic", "session"),
        ("session: arithmetic, tools: [get_weather]", "session"),
        ("session: question", "plain"),
        ("requests: [{messages: question, tools: [get_weather]}]", "tools"),
        ("requests: [{messages: question}, {messages: question}]", "session"),
        ("session: arithmetic, shape: my-own", "my-own"),
    ],
)
def test_a_case_has_a_shape(body: str, shape: str) -> None:
    assert case(body).shape == shape


@pytest.mark.parametrize(
    ("prefix", "rule"),
    [
        ("stable", PrefixRule(check=True, tail=0, breaks=())),
        ("{}", PrefixRule(check=True, tail=0, breaks=())),
        ("off", PrefixRule(check=False)),
        ("{tail: 4}", PrefixRule(tail=4)),
        ("{breaks: [{at: 25, reason: r}]}", PrefixRule(breaks=(DocumentedBreak(25, "r"),))),
        (
            "{tail: 2, breaks: [{at: 0, reason: r}, {at: 42, reason: s}]}",
            PrefixRule(tail=2, breaks=(DocumentedBreak(0, "r"), DocumentedBreak(42, "s"))),
        ),
    ],
)
def test_a_prefix_has_a_few_forms(prefix: str, rule: PrefixRule) -> None:
    read = case(f"session: arithmetic, prefix: {prefix}")
    assert (read.prefix, read.prefix_by_model) == (rule, {})
    assert read.prefix_for("qwen3-0.6b") == rule
    by_model = case(f"session: arithmetic, prefix: {{models: {{gemma-3: {prefix}}}}}")
    assert by_model.prefix_for("gemma-3") == rule


def test_a_prefix_can_be_set_for_each_model() -> None:
    read = case("session: arithmetic, prefix: {tail: 4, models: {gemma-3: off}}")
    assert read.prefix_for("qwen3-0.6b") == PrefixRule(tail=4)
    assert read.prefix_for("gemma-3") == PrefixRule(check=False)


def test_a_prefix_set_for_one_model_leaves_the_default_to_the_others() -> None:
    read = case("session: arithmetic, prefix: {models: {gemma-3: {tail: 4}}}")
    assert read.prefix_for("qwen3-0.6b") == PrefixRule()
    assert read.prefix_for("gemma-3") == PrefixRule(tail=4)


@pytest.mark.parametrize("prefix", ["stable", "off"])
def test_a_case_of_one_request_may_say_the_plain_forms_of_a_prefix(prefix: str) -> None:
    assert case(f"messages: question, prefix: {prefix}").requests == (Request(QUESTION),)


def expectation(reason: str) -> str:
    return f"{{differs: [{CAUSE}], reason: {reason}}}"


def test_an_expectation_knows_its_place() -> None:
    read = load(f"{HEAD}  c:\n    messages: question\n    expect:\n      llama-server: {expectation('r')}\n").cases[0]
    assert read.expect == {"llama-server": Expectation((DeclaredCause(CAUSE),), "r", "chat.tokenparity.yaml:12")}


@pytest.mark.parametrize("first", ["llama-server", "qwen3-0.6b/llama-server"])
def test_what_is_said_of_model_and_engine_comes_before_what_is_said_of_the_engine(first: str) -> None:
    keys = {"llama-server": "general", "qwen3-0.6b/llama-server": "special"}
    order = [first, *(key for key in keys if key != first)]
    read = case(f"messages: question, expect: {{{', '.join(f'{key}: {expectation(keys[key])}' for key in order)}}}")

    def reason(model: str, engine: str) -> str | None:
        found = read.expectation(model, engine)
        return found.reason if found else None

    assert reason("qwen3-0.6b", "llama-server") == "special"
    assert reason("gemma-3", "llama-server") == "general"
    assert reason("qwen3-0.6b", "transformers") is None


def test_what_is_said_of_one_model_is_not_said_of_another() -> None:
    read = case(f"messages: question, expect: {{gemma-3/transformers: {expectation('r')}}}")
    assert read.expectation("qwen3-0.6b", "transformers") is None
    assert read.expectation("gemma-3", "transformers") is not None


def expecting(differs: str) -> Case:
    return case(
        f"messages: question, tools: [get_weather], expect: {{llama-server: {{differs: {differs}, reason: r}}}}"
    )


@pytest.mark.parametrize(
    ("differs", "causes"),
    [
        ("[tool-field-dropped]", [DeclaredCause("tool-field-dropped")]),
        ("[{tool-field-dropped: return}]", [DeclaredCause("tool-field-dropped", ("return",))]),
        ("[{tool-field-dropped: [return, strict]}]", [DeclaredCause("tool-field-dropped", ("return", "strict"))]),
        ("[date, tools-reordered]", [DeclaredCause("date"), DeclaredCause("tools-reordered")]),
        ("[unknown]", [DeclaredCause("unknown")]),
    ],
)
def test_the_causes_of_an_expectation_are_names_or_names_with_parameters(
    differs: str, causes: list[DeclaredCause]
) -> None:
    expected = expecting(differs).expectation("qwen3-0.6b", "llama-server")
    assert expected is not None
    assert list(expected.differs) == causes


@pytest.mark.parametrize(
    ("differs", "message"),
    [
        ("[unknown, tool-field-dropped]", "`unknown` pins any difference: it stands alone"),
        ("[unknwon]", "unknown cause 'unknwon' (did you mean 'unknown'?)"),
        ("[tool-field-droped]", "unknown cause 'tool-field-droped' (did you mean 'tool-field-dropped'?)"),
        ("[date, date]", "'date' stands here twice"),
        ("tool-field-dropped", "expected a list of causes, found the string"),
        ("[{tool-field-dropped: []}]", "expected NAME or {NAME: [PARAMETER, ...]}"),
        ("[{date: a, tools-reordered: b}]", "expected NAME or {NAME: [PARAMETER, ...]}"),
        ("[3]", "expected NAME or {NAME: [PARAMETER, ...]}"),
        ("[{date: [1]}]", "expected NAME or {NAME: [PARAMETER, ...]}"),
    ],
)
def test_what_is_no_cause_is_refused_with_its_line(differs: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r"^chat\.tokenparity\.yaml:\d+: ") as raised:
        expecting(differs)
    assert message in str(raised.value)


def test_models_engines_marks_and_stop_strings_are_read() -> None:
    read = case(
        "messages: question, models: [gemma-3, qwen3-0.6b, gemma-3], engines: [posted-string, llama-server], "
        "marks: [slow, nightly], stop: ['<|im_end|>', off]"
    )
    assert read.models == ("gemma-3", "qwen3-0.6b")
    assert read.engines == ("posted-string", "llama-server")
    assert read.marks == ("slow", "nightly")
    assert read.stop == ("<|im_end|>", "off")


def test_cases_can_be_merged() -> None:
    read = load(f"{HEAD}  a: &a {{messages: question, models: [gemma-3]}}\n  b: {{<<: *a, stop: [x]}}\n").cases[1]
    assert (read.name, read.line, read.models, read.stop) == ("b", 10, ("gemma-3",), ("x",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: the file is empty; it needs `cases:`"),
        ("- a\n", "1: expected a mapping with `cases`, found a list"),
        ("conversations: {}\n", "1: no case here: name at least one under `cases:`"),
        ("tools: {}\ncases: {}\n", "2: cases: no case here: name at least one under `cases:`"),
        ("cases:\n", "1: cases: expected a mapping of case names, found nothing (null)"),
        ("cases: [a]\n", "1: cases: expected a mapping of case names, found a list"),
        ("conversations: [a]\ncases: {}\n", "1: conversations: expected a mapping, found a list"),
        ("tools: x\ncases: {}\n", "1: tools: expected a mapping, found the string 'x'"),
        (
            "conversations:\n  q: x\ncases: {}\n",
            "2: conversations.q: expected a list of messages, found the string 'x'",
        ),
        ("conversations:\n  q:\n    - {role: user}\n", "3: conversations.q[0]: a user message without `content`"),
        ("tools:\n  t:\n    type: functoin\n", "2: tools.t: a tool needs `type: function`, found 'functoin'"),
        (
            "tools:\n  t:\n    type: function\n    function:\n      description: d\n",
            "4: tools.t.function: a function needs a `name`",
        ),
        (HEAD + "  c: {messages: question}\n  c: {}\n", "10: the key 'c' stands twice (first on line 9)"),
        (
            HEAD + "  c: {messages: question}\n  C: {messages: question}\n",
            "10: cases.C: 'c' and 'C' differ by case alone: one golden on some disks",
        ),
        (
            HEAD + "  c:\n    messages:\n      - {role: user, content: a}\n      - role: user\n        content: 5\n",
            "13: cases.c.messages[1].content: content must be a string, null or a list of parts, found 5",
        ),
        (HEAD + "  con: {messages: question}\n", "9: cases.con: the case name 'con' is a device name on Windows"),
        (
            HEAD + "  a.: {messages: question}\n",
            "9: cases.a.: the case name 'a.' ends with a dot, which Windows drops from file names",
        ),
        (
            HEAD + "  a b: {messages: question}\n",
            "9: cases.a b: the case name 'a b': use letters, digits and . _ + -, starting with a letter or digit",
        ),
        (
            HEAD + "  c:\n",
            "9: cases.c: expected a mapping with `messages`, `session` or `requests`, found nothing (null)",
        ),
    ],
)
def test_what_cannot_be_used_is_an_error_with_its_line(text: str, message: str) -> None:
    assert complaint(text) == f"chat.tokenparity.yaml:{message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("case: {}\n", "1: unknown key 'case' (did you mean 'cases'?)"),
        (
            HEAD + "  tools:\n    messages: question\n    tool: [get_weather]\n",
            "11: cases.tools: unknown key 'tool' (did you mean 'tools'?)",
        ),
        (HEAD + "  c: {mesages: question}\n", "9: cases.c: unknown key 'mesages' (did you mean 'messages'?)"),
        (
            HEAD + "  c: {requests: [{messages: question, stop: [x]}]}\n",
            (
                "9: cases.c.requests[0]: unknown key 'stop' (the keys here are messages, tools, template_kwargs, "
                "add_generation_prompt, continue_final_message)"
            ),
        ),
        (
            HEAD + "  c: {session: arithmetic, prefix: {tial: 4}}\n",
            "9: cases.c.prefix: unknown key 'tial' (did you mean 'tail'?)",
        ),
        (
            HEAD + "  c: {session: arithmetic, prefix: {models: {gemma-3: {models: {}}}}}\n",
            "9: cases.c.prefix.models.gemma-3: unknown key 'models' (the keys here are tail, breaks)",
        ),
        (
            HEAD + "  c: {session: arithmetic, prefix: {breaks: [{at: 1, reasn: r}]}}\n",
            "9: cases.c.prefix.breaks[0]: unknown key 'reasn' (did you mean 'reason'?)",
        ),
        (
            HEAD + "  c: {messages: question, expect: {llama-server: {differ: [x]}}}\n",
            "9: cases.c.expect.llama-server: unknown key 'differ' (did you mean 'differs'?)",
        ),
    ],
)
def test_an_unknown_key_is_an_error_that_suggests_one(text: str, message: str) -> None:
    """`FILE:LINE: the mapping it stands in: unknown key ...`, as style.md shows it."""
    assert complaint(text) == f"chat.tokenparity.yaml:{message}"


ONE_OF = "a case has one of `messages`, `session`, `requests`; found"
PREFIX_FORMS = "expected `stable`, `off` or a mapping (tail, breaks, models), found"
NEEDED = "a known difference needs `differs: [NAME, ...]` and a `reason`"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("tools: []", f"cases.c: {ONE_OF} none of them"),
        ("messages: question, session: arithmetic", f"cases.c.session: {ONE_OF} `messages` and `session`"),
        (
            "session: arithmetic, requests: [{messages: question}]",
            f"cases.c.requests: {ONE_OF} `session` and `requests`",
        ),
        ("messages: qestion", "cases.c.messages: no conversation 'qestion' in this file (did you mean 'question'?)"),
        ("session: zzz", "cases.c.session: no conversation 'zzz' in this file (there are question, arithmetic)"),
        ("messages: ", "cases.c.messages: expected a list of messages, found nothing (null)"),
        ("messages: []", "cases.c.messages: the list of messages is empty: a request needs at least one"),
        ("messages: {role: user}", "cases.c.messages: expected a list of messages, found a mapping"),
        ("messages: [{role: user}]", "cases.c.messages[0]: a user message without `content`"),
        (
            'messages: [{role: user, content: "\\0"}]',
            "cases.c.messages[0].content: NUL inside a string: llama.cpp and tokenizers cut or refuse it",
        ),
        (
            "session: [{role: system, content: s}]",
            "cases.c.session: no message of the user and no tool result here: no request would be sent",
        ),
        (
            "messages: question, tools: [get_wether]",
            "cases.c.tools[0]: no tool 'get_wether' in this file (did you mean 'get_weather'?)",
        ),
        (
            "messages: question, tools: get_weather",
            "cases.c.tools: expected a list of tool names or schemas, found the string 'get_weather'",
        ),
        (
            "messages: question, tools: [get_weather, {type: function}]",
            "cases.c.tools[1].function: a tool needs `function`, a mapping",
        ),
        ("messages: question, template_kwargs: [a]", "cases.c.template_kwargs: expected a mapping, found a list"),
        (
            "messages: question, template_kwargs: {tokenize: false}",
            (
                "cases.c.template_kwargs.tokenize: 'tokenize' is no switch of a template: it is a key of the request itself, "
                "or belongs to the call"
            ),
        ),
        (
            "messages: question, template_kwargs: {add_generation_prompt: false}",
            (
                "cases.c.template_kwargs.add_generation_prompt: 'add_generation_prompt' is no switch of a template: it is a "
                "key of the request itself, or belongs to the call"
            ),
        ),
        (
            'messages: question, template_kwargs: {a: [x, "\\0"]}',
            "cases.c.template_kwargs.a[1]: NUL inside a string: llama.cpp and tokenizers cut or refuse it",
        ),
        (
            "messages: question, add_generation_prompt: no",
            (
                "cases.c.add_generation_prompt: expected true or false, found the string 'no' "
                "(YAML 1.2: only `true` and `false` are booleans)"
            ),
        ),
        (
            "messages: question, continue_final_message: 1",
            "cases.c.continue_final_message: expected true or false, found the number 1",
        ),
        (
            "messages: question, continue_final_message: true, add_generation_prompt: true",
            "cases.c.continue_final_message: a final message that is continued takes `add_generation_prompt: false`",
        ),
        (
            "requests: []",
            "cases.c.requests: expected a list of requests or the path of a JSON Lines file, found an empty list",
        ),
        (
            "requests: ''",
            "cases.c.requests: expected a list of requests or the path of a JSON Lines file, found an empty string",
        ),
        ("requests: [{tools: []}]", "cases.c.requests[0]: a request without `messages`"),
        (
            "requests: [question]",
            "cases.c.requests[0]: expected a request (a mapping with `messages`), found the string 'question'",
        ),
        ("requests: nope.jsonl", "cases.c.requests: 'nope.jsonl' cannot be read: No such file or directory"),
        (
            "messages: question, shape: a b",
            "cases.c.shape: the shape 'a b': use letters, digits and . _ + -, starting with a letter or digit",
        ),
        (
            "messages: question, prefix: {tail: 4}",
            "cases.c.prefix: this case makes one request: there is no other to share a prefix with",
        ),
        ("session: arithmetic, prefix: stabel", f"cases.c.prefix: {PREFIX_FORMS} the string 'stabel'"),
        ("session: arithmetic, prefix: false", f"cases.c.prefix: {PREFIX_FORMS} false"),
        ("session: arithmetic, prefix: ", f"cases.c.prefix: {PREFIX_FORMS} nothing (null)"),
        (
            "session: arithmetic, prefix: {tail: 1.0}",
            "cases.c.prefix.tail: expected a whole number of at least 0, found the number 1.0",
        ),
        (
            "session: arithmetic, prefix: {tail: -1}",
            "cases.c.prefix.tail: expected a whole number of at least 0, found the number -1",
        ),
        (
            "session: arithmetic, prefix: {tail: true}",
            "cases.c.prefix.tail: expected a whole number of at least 0, found true",
        ),
        (
            "session: arithmetic, prefix: {breaks: {at: 1}}",
            "cases.c.prefix.breaks: expected a list such as [{at: 25, reason: ...}], found a mapping",
        ),
        (
            "session: arithmetic, prefix: {breaks: [{at: 1}]}",
            "cases.c.prefix.breaks[0]: a documented break needs `at` (the token) and `reason`",
        ),
        (
            "session: arithmetic, prefix: {breaks: [{reason: r}]}",
            "cases.c.prefix.breaks[0]: a documented break needs `at` (the token) and `reason`",
        ),
        (
            "session: arithmetic, prefix: {breaks: [{at: x, reason: r}]}",
            "cases.c.prefix.breaks[0].at: expected a whole number of at least 0, found the string 'x'",
        ),
        (
            "session: arithmetic, prefix: {models: {gemma: off}}",
            "cases.c.prefix.models.gemma: no model 'gemma' in tokenparity.yaml (did you mean 'gemma-3'?)",
        ),
        (
            "messages: question, expect: {llama-servr: {}}",
            "cases.c.expect.llama-servr: this case has no such engine (did you mean 'llama-server'?)",
        ),
        (
            "messages: question, models: [gemma-3], expect: {llama-server: {}}",
            (
                "cases.c.expect.llama-server: this case has no such engine "
                "(there are gemma-3/posted-string, gemma-3/transformers, posted-string, transformers)"
            ),
        ),
        ("messages: question, expect: [a]", "cases.c.expect: expected a mapping of engine names, found a list"),
        (
            "messages: question, expect: {llama-server: x}",
            "cases.c.expect.llama-server: expected a mapping with `differs` and `reason`, found the string 'x'",
        ),
        (
            f"messages: question, expect: {{llama-server: {{differs: [{CAUSE}]}}}}",
            f"cases.c.expect.llama-server: {NEEDED}",
        ),
        ("messages: question, expect: {llama-server: {reason: r}}", f"cases.c.expect.llama-server: {NEEDED}"),
        (
            "messages: question, expect: {llama-server: {differs: [], reason: r}}",
            f"cases.c.expect.llama-server: {NEEDED}",
        ),
        ("messages: question, models: []", "cases.c.models: an empty list: the case would never run"),
        (
            "messages: question, models: [gemma]",
            "cases.c.models[0]: no model 'gemma' in tokenparity.yaml (did you mean 'gemma-3'?)",
        ),
        (
            "messages: question, models: gemma-3",
            "cases.c.models: expected a list of strings, found the string 'gemma-3'",
        ),
        ("messages: question, engines: []", "cases.c.engines: an empty list: the case would never run"),
        (
            "messages: question, engines: [llama]",
            (
                "cases.c.engines[0]: no engine 'llama' of this case's models "
                "(there are transformers, llama-server, posted-string)"
            ),
        ),
        (
            "messages: question, models: [gemma-3], engines: [llama-server]",
            "cases.c.engines[0]: no engine 'llama-server' of this case's models (there are transformers, posted-string)",
        ),
        ("messages: question, marks: slow", "cases.c.marks: expected a list of strings, found the string 'slow'"),
        ("messages: question, marks: [slow, 1]", "cases.c.marks[1]: expected a string, found the number 1"),
        ("messages: question, stop: x", "cases.c.stop: expected a list of strings, found the string 'x'"),
        ("messages: question, stop: ['']", "cases.c.stop[0]: expected a string, found an empty string"),
    ],
)
def test_what_a_case_cannot_say_is_an_error(body: str, message: str) -> None:
    assert case_complaint(body) == message


def test_a_cause_that_does_not_exist_is_an_error_with_its_line() -> None:
    body = "  c:\n    messages: question\n    expect:\n      llama-server:\n        reason: r\n        differs:\n"
    found = complaint(f"{HEAD}{body}          - {CAUSE}\n          - no-such-cause\n")
    assert found.startswith(
        "chat.tokenparity.yaml:16: cases.c.expect.llama-server.differs[1]: unknown cause 'no-such-cause' ("
    )


def test_what_a_model_generated_is_refused_with_its_line() -> None:
    body = "  c:\n    messages:\n      - {role: user, content: a}\n      - {role: assistant, content: b, generated: true}\n"
    assert complaint(HEAD + body) == (
        "chat.tokenparity.yaml:12: cases.c.messages[1].generated: this version does not compare what a model generated: "
        "take it out"
    )


def test_of_two_names_that_differ_by_case_alone_the_second_is_broken() -> None:
    path = Path("chat.tokenparity.yaml").absolute()
    path.write_text(HEAD + "  c: {messages: question}\n  C: {messages: question}\n", encoding="utf-8")
    file = read_case_file(path, config())
    assert ([case.name for case in file.cases], list(file.broken)) == (["c"], ["C"])


def test_an_engine_that_changes_what_it_is_given_does_not_change_the_next_case() -> None:
    class Changing(Engine):
        name = "changing"

        def render(self, request: Request) -> Rendering:
            messages: Any = request.messages
            messages[0]["content"] = "changed"
            messages.clear()
            return Rendering(ids=[])

    first, second = load(HEAD + "  c: {messages: question}\n  d: {messages: question}\n").cases
    assert checked_render(Changing(), "changing", first.requests[0]) == Rendering(ids=[])
    assert [first.requests[0].messages, second.requests[0].messages] == [QUESTION, QUESTION]


@pytest.mark.parametrize("key", ["tokenize", "messages", "chat_template"])
def test_a_reserved_name_is_no_switch_for_ids(key: str) -> None:
    switches: dict[str, Any] = {key: True}
    with pytest.raises(TypeError, match=f"^'{key}' is no switch of a template$"):
        Request.of(QUESTION, None, **switches)


def test_a_request_is_frozen() -> None:
    request: Any = case("messages: question").requests[0]
    with pytest.raises(AttributeError):
        request.tools = []


def test_a_number_as_large_as_any_is_kept() -> None:
    number = 2**200
    assert case(f"messages: question, template_kwargs: {{n: {number}}}").requests[0].template_kwargs == {"n": number}
