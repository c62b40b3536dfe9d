"""The table of exact numbers that the project publishes: real tokenizers, real llama-servers, one test for each cell.

Every row stands here twice: through the Python API, and through case files in a project of somebody else's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from pytest_tokenparity import (
    ClientCompletionTokens,
    LlamaCppTokens,
    PrefixBreak,
    Request,
    TokenDivergence,
    TransformersTokens,
    compare_token_renders,
    find_prefix_breaks,
    request_points,
    request_tool,
)

from .harness import Project, Result
from .real_models import GEMMA3, QWEN3

Messages = list[dict[str, Any]]

QUESTION: Messages = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": "What is 2 + 2?"},
]
SESSION: Messages = [
    *QUESTION,
    {"role": "assistant", "content": "4."},
    {"role": "user", "content": "And times 3?"},
    {"role": "assistant", "content": "12."},
    {"role": "user", "content": "Minus 5?"},
]
QWEN_START = [151644, 8948, 198, 2610, 525, 50537, 13, 151645, 198]


def get_weather(city: str) -> str:
    """Get the current weather for a city.

    Args:
        city: The city name.
    """
    return city


def get_time(city: str) -> str:
    """Get the local time in a city.

    Args:
        city: The city name.
    """
    return city


def schema(function: Callable[[str], str]) -> dict[str, Any]:
    """A tool as Transformers itself describes a function: with the `return` that servers drop."""
    from transformers.utils import get_json_schema

    found: dict[str, Any] = get_json_schema(function)
    return found


@dataclass(frozen=True)
class Engines:
    """The three engines of the table for one model."""

    transformers: TransformersTokens
    llama_server: LlamaCppTokens
    posted_string: ClientCompletionTokens

    @property
    def both(self) -> list[TransformersTokens | LlamaCppTokens]:
        return [self.transformers, self.llama_server]


def engines_of(tokenizer: Any, url: str) -> Iterator[Engines]:
    reference = TransformersTokens(tokenizer)

    def render(conversation: Messages, tools: Any = None, **template_kwargs: Any) -> str:
        """As a client does it who renders the prompt with Transformers."""
        text: str = tokenizer.apply_chat_template(
            conversation, tools=tools, tokenize=False, add_generation_prompt=True, **template_kwargs
        )
        return text

    llama_server, posted_string = LlamaCppTokens(url), ClientCompletionTokens(render, url, name="posted-string")
    yield Engines(reference, llama_server, posted_string)
    llama_server.close()
    posted_string.close()


@pytest.fixture
def qwen(qwen_tokenizer: Any, qwen_url: str) -> Iterator[Engines]:
    yield from engines_of(qwen_tokenizer, qwen_url)


@pytest.fixture
def gemma(gemma_tokenizer: Any, gemma_url: str) -> Iterator[Engines]:
    yield from engines_of(gemma_tokenizer, gemma_url)


# Through the Python API


def test_transformers_renders_the_question_in_25_tokens_of_qwen3(qwen: Engines) -> None:
    ids = qwen.transformers.ids(QUESTION)
    assert (len(ids), ids[:9]) == (25, QWEN_START)


def test_llama_server_renders_the_question_as_transformers_does(qwen: Engines) -> None:
    assert qwen.transformers.ids(QUESTION) == qwen.llama_server.ids(QUESTION)
    assert compare_token_renders([*qwen.both, qwen.posted_string], QUESTION) == []


def test_the_questions_prompt_is_46_tokens_when_special_tokens_are_not_parsed(qwen: Engines) -> None:
    prompt = qwen.transformers.text(Request(QUESTION))
    assert len(qwen.llama_server.tokenize(prompt, parse_special=False)) == 46
    assert qwen.transformers.ids(QUESTION) == qwen.llama_server.tokenize(prompt)


def test_the_question_with_thinking_off_is_29_tokens_on_both(qwen: Engines) -> None:
    assert len(qwen.transformers.ids(QUESTION, enable_thinking=False)) == 29
    assert compare_token_renders(qwen.both, QUESTION, enable_thinking=False) == []


def test_a_tool_with_a_return_key_is_177_tokens_and_llama_server_leaves_at_106_with_168(qwen: Engines) -> None:
    tool = schema(get_weather)
    assert tool["function"]["return"] == {"type": "string"}
    assert [TokenDivergence("transformers", "llama-server", 106, 177, 168)] == compare_token_renders(
        qwen.both, QUESTION, [tool]
    )


def test_the_tool_reduced_by_request_tool_is_168_tokens_on_both(qwen: Engines) -> None:
    tool = request_tool(schema(get_weather))
    assert len(qwen.transformers.ids(QUESTION, [tool])) == 168
    assert compare_token_renders(qwen.both, QUESTION, [tool]) == []


def test_llama_server_renders_the_whole_tool_as_transformers_renders_the_reduced_one(qwen: Engines) -> None:
    tool = schema(get_weather)
    assert qwen.transformers.ids(QUESTION, [request_tool(tool)]) == qwen.llama_server.ids(QUESTION, [tool])


def test_the_question_is_22_tokens_of_gemma_3_on_both(gemma: Engines) -> None:
    ids = gemma.transformers.ids(QUESTION)
    assert (len(ids), ids[:3]) == (22, [2, 105, 2364])
    assert ids == gemma.llama_server.ids(QUESTION)


def test_gemma_3s_posted_string_gets_a_second_bos(gemma: Engines) -> None:
    ids = gemma.posted_string.ids(QUESTION)
    assert (len(ids), ids[:3]) == (23, [2, 2, 105])
    renderers = [gemma.transformers, gemma.llama_server, gemma.posted_string]
    assert [TokenDivergence("transformers", "posted-string", 1, 22, 23)] == compare_token_renders(renderers, QUESTION)


@pytest.mark.parametrize(("posted", "evaluated"), [("string", 23), ("ids", 22)])
def test_llama_server_evaluates_what_was_posted_to_completion(
    gemma: Engines, gemma_url: str, posted: str, evaluated: int
) -> None:
    prompt = gemma.transformers.ids(QUESTION) if posted == "ids" else gemma.transformers.text(Request(QUESTION))
    answer = httpx.post(f"{gemma_url}/completion", json={"prompt": prompt, "n_predict": 1}, timeout=60)
    assert evaluated == answer.json()["tokens_evaluated"]


def test_llama_server_counts_22_prompt_tokens_in_a_chat_completion(gemma_url: str) -> None:
    body = {"messages": QUESTION, "max_tokens": 1}
    answer = httpx.post(f"{gemma_url}/v1/chat/completions", json=body, timeout=60)
    assert answer.json()["usage"]["prompt_tokens"] == 22


@pytest.mark.parametrize("engine", ["transformers", "llama_server"])
def test_the_session_is_stable(qwen: Engines, engine: str) -> None:
    ids = getattr(qwen, engine).ids
    assert [len(ids(SESSION[:count])) for count in request_points(SESSION)] == [25, 42, 59]
    assert find_prefix_breaks(ids, SESSION) == []


@pytest.mark.parametrize("engine", ["transformers", "llama_server"])
def test_the_session_breaks_twice_with_thinking_off_and_only_in_the_tail(qwen: Engines, engine: str) -> None:
    def ids(conversation: Any) -> list[int]:
        found: list[int] = getattr(qwen, engine).ids(conversation, enable_thinking=False)
        return found

    assert [PrefixBreak(2, 4, 25), PrefixBreak(4, 6, 42)] == find_prefix_breaks(ids, SESSION)
    assert [PrefixBreak(2, 4, 25), PrefixBreak(4, 6, 42)] == find_prefix_breaks(ids, SESSION, tail=3)
    assert find_prefix_breaks(ids, SESSION, tail=4) == []


@pytest.mark.parametrize("engine", ["transformers", "llama_server"])
def test_the_session_breaks_at_56_when_its_tools_are_reordered(qwen: Engines, engine: str) -> None:
    tools = [request_tool(schema(get_weather)), request_tool(schema(get_time))]

    def ids(conversation: Any) -> list[int]:
        ordered = tools if len(conversation) == 2 else tools[::-1]
        found: list[int] = getattr(qwen, engine).ids(conversation, ordered)
        return found

    assert [PrefixBreak(2, 4, 56)] == find_prefix_breaks(ids, SESSION)


# Through case files

CONVERSATIONS = """
conversations:
  question: &question
    - {role: system, content: You are terse.}
    - {role: user, content: "What is 2 + 2?"}
  arithmetic:
    - {role: system, content: You are terse.}
    - {role: user, content: "What is 2 + 2?"}
    - {role: assistant, content: "4."}
    - {role: user, content: "And times 3?"}
    - {role: assistant, content: "12."}
    - {role: user, content: "Minus 5?"}
"""

QWEN_CASES = (
    CONVERSATIONS
    + """
tools:
  get_weather:
    type: function
    function: &weather
      name: get_weather
      description: Get the current weather for a city.
      parameters: &city
        type: object
        properties: {city: {type: string, description: The city name.}}
        required: [city]
  get_weather_with_return:
    type: function
    function: {<<: *weather, return: {type: string}}
  get_time:
    type: function
    function: {name: get_time, description: Get the local time in a city., parameters: *city}
cases:
  question: {messages: question, models: [qwen3-0.6b]}
  thinking-off: {messages: question, template_kwargs: {enable_thinking: false}, models: [qwen3-0.6b]}
  tool-with-return: {messages: question, tools: [get_weather_with_return], models: [qwen3-0.6b]}
  tool-reduced: {messages: question, tools: [get_weather], models: [qwen3-0.6b]}
  session: {session: arithmetic, models: [qwen3-0.6b]}
  session-thinking-off: {session: arithmetic, template_kwargs: {enable_thinking: false}, models: [qwen3-0.6b]}
  session-thinking-off-tail:
    session: arithmetic
    template_kwargs: {enable_thinking: false}
    prefix: {tail: 4}
    models: [qwen3-0.6b]
  session-tools-reordered:
    models: [qwen3-0.6b]
    requests:
      - {messages: question, tools: [get_weather, get_time]}
      - messages:
          - {role: system, content: You are terse.}
          - {role: user, content: "What is 2 + 2?"}
          - {role: assistant, content: "4."}
          - {role: user, content: "And times 3?"}
        tools: [get_time, get_weather]
"""
)
GEMMA_CASES = CONVERSATIONS + "cases:\n  question: {messages: question, models: [gemma-3]}\n"


@dataclass(frozen=True)
class Published:
    """The project after recording, and the run that checked it."""

    project: Project
    recorded: Result
    checked: Result

    def requests(self, file: str, case: str) -> list[dict[str, Any]]:
        model = {"qwen": "qwen3-0.6b", "gemma": "gemma-3"}[file]
        body = json.loads(self.project.read(f"golden/{model}/{file}/{case}.json"))
        found: list[dict[str, Any]] = body["requests"]
        return found

    def first_line(self, item: str) -> str | None:
        """The first line of an item's failure, or None if it passed."""
        if re.search(rf"^\S+::{re.escape(item)} PASSED", self.checked.output, re.MULTILINE):
            return None
        failure = re.search(rf"^_+ {re.escape(item)} _+\n(.*)$", self.checked.output, re.MULTILINE)
        assert failure, f"{item} is not in the output:\n{self.checked.output}"
        return failure[1]


@pytest.fixture(scope="module")
def published(
    tmp_path_factory: pytest.TempPathFactory, qwen_url: str, gemma_url: str, gemma_tokenizer: Any
) -> Published:
    config = f"""
models:
  qwen3-0.6b:
    tokenizer: {QWEN3}
    engines:
      transformers: {{}}
      llama-server: {{url: '{qwen_url}'}}
      posted-string: {{type: client-completion, url: '{qwen_url}'}}
      posted-as-letters: {{type: client-completion, url: '{qwen_url}', parse_special: false}}
  gemma-3:
    tokenizer: {GEMMA3}
    engines:
      transformers: {{}}
      llama-server: {{url: '{gemma_url}'}}
      posted-string: {{type: client-completion, url: '{gemma_url}'}}
"""
    project = Project(
        tmp_path_factory.mktemp("published"),
        {"tokenparity.yaml": config, "qwen.tokenparity.yaml": QWEN_CASES, "gemma.tokenparity.yaml": GEMMA_CASES},
    )
    return Published(project, project.pytest("--update-golden"), project.pytest("-v"))


def ids_of(requests: list[dict[str, Any]]) -> list[list[int]]:
    """The prompts of a golden, read as a program without this package reads them."""
    prompts: list[list[int]] = []
    for request in requests:
        kept = prompts[-1][: request["keep"]] if prompts else []
        prompts.append(kept + [token for ids, _ in request["append"] for token in ids])
    return prompts


@pytest.mark.parametrize(
    ("file", "case", "tokens", "keep"),
    [
        ("qwen", "question", [25], [0]),
        ("qwen", "thinking-off", [29], [0]),
        ("qwen", "tool-with-return", [177], [0]),
        ("qwen", "tool-reduced", [168], [0]),
        ("qwen", "session", [25, 42, 59], [0, 25, 42]),
        ("qwen", "session-thinking-off", [29, 46, 63], [0, 25, 42]),
        ("qwen", "session-thinking-off-tail", [29, 46, 63], [0, 25, 42]),
        ("qwen", "session-tools-reordered", [234, 251], [0, 56]),
        ("gemma", "question", [22], [0]),
    ],
)
def test_a_golden_holds_the_published_numbers(
    published: Published, file: str, case: str, tokens: list[int], keep: list[int]
) -> None:
    requests = published.requests(file, case)
    assert tokens == [request["tokens"] for request in requests]
    assert tokens == [len(ids) for ids in ids_of(requests)]
    assert keep == [request["keep"] for request in requests]


@pytest.mark.parametrize(("file", "start"), [("qwen", QWEN_START), ("gemma", [2, 105, 2364])])
def test_a_golden_starts_with_the_published_ids(published: Published, file: str, start: list[int]) -> None:
    assert start == ids_of(published.requests(file, "question"))[0][: len(start)]


BREAK_AT_25 = (
    "request 2 (4 messages) leaves request 1 (2 messages) at token 25 of 29: 25 tokens reused, 21 computed again"
)
BREAK_AT_42 = (
    "request 3 (6 messages) leaves request 2 (4 messages) at token 42 of 46: 42 tokens reused, 21 computed again"
)
BREAK_AT_56 = (
    "request 2 (4 messages) leaves request 1 (2 messages) at token 56 of 234: 56 tokens reused, 195 computed again"
)


@pytest.mark.parametrize(
    ("item", "first_line"),
    [
        ("question[qwen3-0.6b-transformers]", None),
        ("question[qwen3-0.6b-llama-server]", None),
        ("question[qwen3-0.6b-posted-string]", None),
        (
            "question[qwen3-0.6b-posted-as-letters]",
            "posted-as-letters leaves the golden at token 0 (25 tokens recorded, 46 rendered)",
        ),
        ("thinking-off[qwen3-0.6b-llama-server]", None),
        (
            "tool-with-return[qwen3-0.6b-llama-server]",
            "llama-server leaves the golden at token 106 (177 tokens recorded, 168 rendered)",
        ),
        ("tool-with-return[qwen3-0.6b-posted-string]", None),
        ("tool-reduced[qwen3-0.6b-llama-server]", None),
        ("question[gemma-3-transformers]", None),
        ("question[gemma-3-llama-server]", None),
        (
            "question[gemma-3-posted-string]",
            "posted-string leaves the golden at token 1 (22 tokens recorded, 23 rendered)",
        ),
        ("session[qwen3-0.6b-transformers]", None),
        ("session[qwen3-0.6b-llama-server]", None),
        ("session-thinking-off[qwen3-0.6b-transformers]", BREAK_AT_25),
        ("session-thinking-off[qwen3-0.6b-llama-server]", BREAK_AT_25),
        ("session-thinking-off-tail[qwen3-0.6b-transformers]", None),
        ("session-thinking-off-tail[qwen3-0.6b-llama-server]", None),
        ("session-tools-reordered[qwen3-0.6b-transformers]", BREAK_AT_56),
        ("session-tools-reordered[qwen3-0.6b-llama-server]", BREAK_AT_56),
    ],
)
def test_a_run_says_the_published_numbers(published: Published, item: str, first_line: str | None) -> None:
    assert first_line == published.first_line(item)


@pytest.mark.parametrize("engine", ["transformers", "llama-server"])
def test_a_run_names_the_second_break_of_the_session_too(published: Published, engine: str) -> None:
    output = published.checked.output
    failure = output[output.index(f" session-thinking-off[qwen3-0.6b-{engine}] __") :]
    assert f"  also    {BREAK_AT_42}\n" in failure[: failure.index("  at  ")]


def test_recording_is_no_verdict_every_golden_is_written_though_engines_differ(published: Published) -> None:
    assert published.recorded.code == 1
    assert "goldens  9 new, 0 changed, 0 unchanged, 0 orphaned" in published.recorded.output
