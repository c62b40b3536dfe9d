"""What a report advises is followed to the letter, as somebody does who has no time: it must lead to a green run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..harness import QUESTION, Project, Result, letters_config, qwen_config
from ..real_models import QWEN3

PIN = re.compile(r"^ +expect: (\{.*\})$", re.MULTILINE)
PREFIX = re.compile(r"^ +prefix: (\{.*\})$", re.MULTILINE)

SEVERAL = (
    QUESTION
    + """  developer:
    - {role: developer, content: Be kind.}
    - {role: user, content: "What is 2 + 2?"}
tools:
  look:
    {type: function, function: {name: look, description: d, parameters: {type: object, properties: {}}, strict: true}}
cases:
  several:
    prefix: off
    requests:
      - {messages: question, tools: [look]}
      - {messages: developer}
"""
)


def pinned(result: Result, cases: str) -> str:
    """The case file with the one difference pinned as the report proposes, for the case's last line."""
    (proposed,) = set(PIN.findall(result.output))
    return f"{cases}    expect: {proposed.replace('...', 'seen')}\n"


def test_a_case_whose_requests_differ_by_unlike_causes_is_pinned_once(tmp_path: Path, qwen_url: str) -> None:
    project = Project(tmp_path, {"tokenparity.yaml": qwen_config(qwen_url), "chat.tokenparity.yaml": SEVERAL})
    failed = project.pytest("--update-golden", COLUMNS="240")
    assert "differs: [tool-field-dropped, role-rewritten]" in failed.output
    project.write("chat.tokenparity.yaml", pinned(failed, SEVERAL))
    assert project.pytest(COLUMNS="240").passed(3)


def test_a_pin_that_covers_one_of_two_requests_is_completed_and_not_turned_round(tmp_path: Path, qwen_url: str) -> None:
    """Each name is needed in at least one request: that it is not in another is no reason to take it away."""
    for name in ("tool-field-dropped", "role-rewritten"):
        half = f"{SEVERAL}    expect: {{llama-server: {{differs: [{name}], reason: half}}}}\n"
        project = Project(tmp_path, {"tokenparity.yaml": qwen_config(qwen_url), "chat.tokenparity.yaml": half})
        failed = project.pytest("--update-golden", COLUMNS="240")
        assert failed.code == 1
        assert "not needed" not in failed.output
        project.write("chat.tokenparity.yaml", pinned(failed, SEVERAL))
        assert project.pytest(COLUMNS="240").passed(3)


BREAKS = """
conversations:
  talk:
    - {role: user, content: "Hi"}
    - {role: assistant, content: "Hello."}
    - {role: user, content: "And now?"}
cases:
  edited:
    template_kwargs: {enable_thinking: false}
    requests:
      - {messages: [{role: user, content: Hi}]}
      - {messages: [{role: user, content: Hi}, {role: assistant, content: Hello.}, {role: user, content: And now?}]}
      - {messages: [{role: user, content: Hey}, {role: assistant, content: Hello.}, {role: user, content: And then?}]}
"""


def alone(engine: str) -> str:
    return f"models: {{qwen3-0.6b: {{tokenizer: {QWEN3}, engines: {{{engine}: {{}}}}}}}}\n"


def test_each_of_several_breaks_has_its_own_cause_and_all_are_documented(tmp_path: Path) -> None:
    files = {"tokenparity.yaml": alone("tokenizers"), "chat.tokenparity.yaml": BREAKS}
    project = Project(tmp_path, files)
    failed = project.pytest("--update-golden", COLUMNS="240")
    first, second = (failed.output.index(name) for name in ("think-block-in-prompt-only", "turn-edited"))
    assert first < failed.output.index("also    request 3") < second
    (proposed,) = set(PREFIX.findall(failed.output))
    project.write("chat.tokenparity.yaml", f"{BREAKS}    prefix: {proposed.replace('...', 'seen')}\n")
    assert project.pytest(COLUMNS="240").passed(1)


def test_a_clock_in_a_short_system_text_is_no_tail(tmp_path: Path) -> None:
    """A tail of some tokens would let any other break there pass."""
    cases = """
cases:
  clock:
    requests:
      - {messages: [{role: system, content: "It is 10:01."}, {role: user, content: Hi}]}
      - {messages: [{role: system, content: "It is 10:02."}, {role: user, content: Hi}]}
"""
    project = Project(tmp_path, {"tokenparity.yaml": alone("tokenizers"), "chat.tokenparity.yaml": cases})
    failed = project.pytest("--update-golden", COLUMNS="240")
    (proposed,) = set(PREFIX.findall(failed.output))
    assert re.fullmatch(r"\{breaks: \[\{at: \d+, reason: \.\.\.\}\]\}", proposed)


def test_several_fixes_stand_on_lines_of_their_own(tmp_path: Path, qwen_url: str) -> None:
    cases = SEVERAL.replace("- {messages: question, tools: [look]}", "- {messages: developer, tools: [look]}")
    project = Project(tmp_path, {"tokenparity.yaml": qwen_config(qwen_url), "chat.tokenparity.yaml": cases})
    output = project.pytest("--update-golden", COLUMNS="240").output
    assert re.search(r"\n  fix     send [^;\n]+\n          send [^;\n]+\n          or pin it in the case:\n", output)


FLOATS = """
cases:
  floats:
    messages: [{role: user, content: Hi}]
    tools:
      - {type: function, function: {name: f, description: d, parameters: {type: object, properties: {
          a: {type: number, minimum: -90.0}, b: {type: number, default: 0.1234567891}}}}}
"""


def test_numbers_sent_as_the_advice_says_are_the_same_everywhere(tmp_path: Path, qwen_url: str) -> None:
    project = Project(tmp_path, {"tokenparity.yaml": qwen_config(qwen_url), "chat.tokenparity.yaml": FLOATS})
    failed = project.pytest("--update-golden", COLUMNS="240")
    assert "fix     write -90.0 as -90; write 0.1234567891 as 0.123457; or pin it" in failed.output
    project.write("chat.tokenparity.yaml", FLOATS.replace("-90.0", "-90").replace("0.1234567891", "0.123457"))
    assert project.pytest("--update-golden", COLUMNS="240").passed(3)


def test_a_big_number_that_the_engine_turns_into_another_is_to_be_sent_otherwise(tmp_path: Path, qwen_url: str) -> None:
    cases = FLOATS.replace("-90.0", "12345678901234567890").replace("0.1234567891", "1")
    project = Project(tmp_path, {"tokenparity.yaml": qwen_config(qwen_url), "chat.tokenparity.yaml": cases})
    assert (
        "leave 12345678901234567890 out, or send it as a string"
        in project.pytest("--update-golden", COLUMNS="240").output
    )


CLIENT = """
import json

def texts(conversation, tools):
    system, user = conversation
    schemas = "\\n".join(json.dumps(tool) for tool in tools)
    return "<|im_start|>system\\n" + system["content"] + "\\n# Tools" + schemas + "<|im_end|>\\n"

def compact(conversation, tools=None, **switches):
    from pytest_tokenparity import Request, TokenizersTokens
    text = TokenizersTokens(TOKENIZER).text(Request(conversation, tools))
    return text.replace('": ', '":').replace(", \\"", ",\\"")

def one_newline(conversation, tools=None, **switches):
    from pytest_tokenparity import Request, TokenizersTokens
    return TokenizersTokens(TOKENIZER).text(Request(conversation, tools)).replace("\\n\\n# Tools", "\\n# Tools")
"""


@pytest.mark.parametrize(
    ("render", "says"),
    [
        ("compact", "fix     write JSON as the template does: json.dumps(value, ensure_ascii=False); or pin it"),
        ("one_newline", "text    ' are terse.\\n\\n# Tools\\n\\nYou' became"),
    ],
)
def test_what_a_client_renders_otherwise_is_told_in_its_own_terms(
    tmp_path: Path, qwen_url: str, render: str, says: str
) -> None:
    config = alone("tokenizers").replace(
        "{tokenizers: {}}",
        f'{{tokenizers: {{}}, client: {{type: client-completion, url: "{qwen_url}", render: "client:{render}"}}}}',
    )
    cases = (
        QUESTION
        + "cases:\n  tools:\n    messages: question\n    tools:\n      - {type: function, function: {name: f, description: d,"
        " parameters: {type: object, properties: {}}}}\n"
    )
    client = CLIENT.replace("TOKENIZER", repr(str(QWEN3)))
    project = Project(tmp_path, {"tokenparity.yaml": config, "chat.tokenparity.yaml": cases, "client.py": client})
    assert says in project.pytest("--update-golden", COLUMNS="240").output


def test_a_server_of_another_model_is_called_so(tmp_path: Path, gemma_url: str) -> None:
    project = Project(
        tmp_path,
        {
            "tokenparity.yaml": qwen_config(gemma_url),
            "chat.tokenparity.yaml": QUESTION + "cases:\n  plain: {messages: question}\n",
        },
    )
    output = project.pytest("--update-golden", COLUMNS="240").output
    assert "by this tokenizer its IDs do not read as the text that it shows: is it another model's server" in output


@pytest.mark.parametrize("type_", ["vllm", "vllm-tokenize"])
def test_a_server_of_another_program_is_not_an_empty_prompt(tmp_path: Path, qwen_url: str, type_: str) -> None:
    """llama-server has a `/tokenize`, too, and answers messages with no token."""
    config = f'models: {{qwen3-0.6b: {{tokenizer: {QWEN3}, engines: {{{type_}: {{url: "{qwen_url}"}}}}}}}}\n'
    cases = QUESTION + "cases:\n  plain: {messages: question}\n"
    project = Project(tmp_path, {"tokenparity.yaml": config, "chat.tokenparity.yaml": cases})
    result = project.pytest("--update-golden", COLUMNS="240")
    assert result.code == 1
    assert "answered /tokenize with no token at all: is it a vLLM?" in result.output
    assert not (tmp_path / "golden").exists()


def test_an_engine_of_ones_own_that_renders_nothing_is_no_pass(tmp_path: Path) -> None:
    conftest = (
        "class Silent:\n    name = 'silent'\n\n    def ids(self, conversation, tools=None, **switches):\n        return []\n\n"
        "def pytest_tokenparity_engine(config, model, name, options):\n    return Silent()\n"
    )
    cases = QUESTION + "cases:\n  plain: {messages: question}\n"
    project = Project(
        tmp_path,
        {"tokenparity.yaml": letters_config("silent"), "chat.tokenparity.yaml": cases, "conftest.py": conftest},
    )
    result = project.pytest("--update-golden", COLUMNS="240")
    assert result.code == 1
    assert "the engine 'silent' rendered no token at all: did it take the messages?" in result.output


def test_a_further_request_is_shown_with_all_of_its_causes(tmp_path: Path, qwen_url: str) -> None:
    cases = SEVERAL.replace("- {messages: developer}", "- {messages: developer, tools: [look]}")
    project = Project(tmp_path, {"tokenparity.yaml": qwen_config(qwen_url), "chat.tokenparity.yaml": cases})
    output = project.pytest("--update-golden", COLUMNS="240").output
    also = output[output.index("  also    request 2") : output.index("\n  golden  recorded")]
    assert "tool-field-dropped: " in also
    assert "role-rewritten: " in also
    assert "together: the reference renders exactly" in also


def test_a_reference_of_another_model_records_nothing(tmp_path: Path, gemma_url: str) -> None:
    config = f'models: {{qwen3-0.6b: {{tokenizer: {QWEN3}, engines: {{llama-server: {{url: "{gemma_url}"}}}}}}}}\n'
    cases = QUESTION + "cases:\n  plain: {messages: question}\n"
    project = Project(tmp_path, {"tokenparity.yaml": config, "chat.tokenparity.yaml": cases})
    result = project.pytest("--update-golden", COLUMNS="240")
    assert result.code == 1
    assert (
        "nothing recorded: by this tokenizer the IDs of 'llama-server' do not read as the text that it shows"
        in result.output
    )
    assert not (tmp_path / "golden").exists()


def test_a_known_difference_of_an_engine_that_is_only_partly_seen_keeps_its_cause_in_the_table(tmp_path: Path) -> None:
    config = f"models: {{qwen3-0.6b: {{tokenizer: {QWEN3}, engines: {{tokenizers: {{}}, shimmy: {{}}}}}}}}\n"
    cases = (
        QUESTION
        + "cases:\n  plain: {messages: question, expect: {shimmy: {differs: [special-as-text], reason: its tokenizer}}}\n"
    )
    project = Project(tmp_path, {"tokenparity.yaml": config, "chat.tokenparity.yaml": cases})
    output = project.pytest("--update-golden", "--tokenparity-table", COLUMNS="120").output
    assert "\nchat::plain  =           1~\n" in output
    assert "  1   special-as-text\n" in output
