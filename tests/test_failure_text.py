"""The whole text of a failed item, as it stands at a red CI: a divergence and a prefix break."""

from __future__ import annotations

import re
from importlib.metadata import version

import pytest

from .harness import QUESTION, Project, qwen_config

CASES = (
    QUESTION
    + """  arithmetic:
    - {role: user, content: "2 + 2?"}
    - {role: assistant, content: "4."}
    - {role: user, content: "Minus 5?"}
tools:
  get_weather:
    type: function
    function:
      name: get_weather
      description: Get the current weather for a city.
      parameters: {type: object, properties: {city: {type: string, description: The city name.}}, required: [city]}
      return: {type: string}
cases:
  tools: {messages: question, tools: [get_weather]}
  thinking-off: {session: arithmetic, template_kwargs: {enable_thinking: false}}
"""
)

RECORDED_BY = f"recorded by transformers {version('transformers')}, tokenizers {version('tokenizers')}"

TOOLS = f"""\
llama-server leaves the golden at token 106 (177 tokens recorded, 168 rendered)

            103     104      105    106    107     108        109
  golden    ' ["'   'city'   '"]'   '}},'   ' "'    'return'   '":'
  rendered  ' ["'   'city'   '"]'   '}}}}'   '}}\\n'   '</'       'tools'
                                    2137 != 3417

  where   tools[0].function.return
  cause   tool-field-dropped: with `return` removed from the tools, the reference renders exactly these 168 tokens
  golden  {RECORDED_BY}; tokenizer, template and request are unchanged since
          the reference still renders the golden
  fix     send tools reduced to name, description and parameters (request_tool); or pin it in the case:
          expect: {{llama-server: {{differs: [tool-field-dropped], reason: ...}}}}
  more    pytest -vv 'chat.tokenparity.yaml::tools[qwen3-0.6b-llama-server]'
  at      chat.tokenparity.yaml:19: tools[qwen3-0.6b-llama-server]
"""

TOOLS_LINES = """\
  --- golden
  +++ rendered
      '<|im_start|>system\\n'  [151644, 8948, 198]
"""

DROPPED = """"required": ["city"]}, "return": {"type": "string"}}}\\n'  [4913,"""
KEPT = """"required": ["city"]}}}\\n'  [4913,"""

BREAK = """\
request 2 (3 messages) leaves request 1 (1 message) at token 13 of 17: 13 tokens reused, 20 computed again

             11            12     13          14       15
  request 1  'assistant'   '\\n'   '<think>'   '\\n\\n'   '</think>'
  request 2  'assistant'   '\\n'   '4'         '.'      '<|im_end|>'
                                  151667 != 19

  where   generation prompt (generation-prompt)
  cause   think-block-in-prompt-only: enable_thinking: false
  fix     nothing in the request: allow these tokens (`prefix: {tail: N}`), or use a template that keeps the block; if it is known, in the case:
          prefix: {tail: 4}
  more    pytest -vv 'chat.tokenparity.yaml::thinking-off[qwen3-0.6b-transformers]'
  at      chat.tokenparity.yaml:20: thinking-off[qwen3-0.6b-transformers]
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, qwen_url: str) -> Project:
    """A project with its goldens; no test changes it."""
    folder = tmp_path_factory.mktemp("project")
    project = Project(folder, {"tokenparity.yaml": qwen_config(qwen_url), "chat.tokenparity.yaml": CASES})
    project.pytest("--update-golden")
    return project


@pytest.fixture(scope="module")
def output(project: Project) -> str:
    """What a run in a log of 200 columns prints."""
    return project.pytest(COLUMNS="200").output


def failure(output: str, item: str) -> str:
    """The text between an item's head among the failures and the next head."""
    match = re.search(rf"^_+ {re.escape(item)} _+\n(.*?)^[_=]{{3,}}", output, re.MULTILINE | re.DOTALL)
    assert match, output
    return match[1]


def test_a_divergence_says_where_since_when_what_to_do_and_its_place(output: str) -> None:
    assert failure(output, "tools[qwen3-0.6b-llama-server]") == TOOLS


def test_a_divergence_has_at_most_25_lines_and_a_table_of_80_columns(output: str) -> None:
    lines = failure(output, "tools[qwen3-0.6b-llama-server]").splitlines()
    assert len(lines) <= 25
    assert max(len(line) for line in lines[2:6]) <= 80


def test_a_prefix_break_says_what_is_reused_and_what_is_computed_again(output: str) -> None:
    assert failure(output, "thinking-off[qwen3-0.6b-transformers]") == BREAK


def test_the_first_line_stands_alone_in_the_short_summary(output: str) -> None:
    assert (
        "FAILED chat.tokenparity.yaml::tools[qwen3-0.6b-llama-server] - "
        "llama-server leaves the golden at token 106 (177 tokens recorded, 168 rendered)\n"
    ) in output


def test_no_failure_holds_a_traceback_or_a_colour_code_when_nobody_looks(output: str) -> None:
    assert "2 passed" in output
    assert "Traceback" not in output
    assert "\x1b" not in output


def test_vv_shows_every_line_of_the_prompt_with_its_ids(project: Project) -> None:
    text = failure(project.pytest("-vv", "-k", "tools and llama").output, "tools[qwen3-0.6b-llama-server]")
    head, tail = TOOLS.split("\n  where   ")
    more = "  more    pytest -vv 'chat.tokenparity.yaml::tools[qwen3-0.6b-llama-server]'\n"
    assert text.startswith(f"{head}\n{TOOLS_LINES}")
    assert text.endswith(("\n  where   " + tail).replace(more, ""))
    (removed,) = (line for line in text.splitlines() if line.startswith("  -   "))
    (added,) = (line for line in text.splitlines() if line.startswith("  +   "))
    assert DROPPED in removed
    assert KEPT in added
    assert removed.endswith("2137, 330, 689, 788, 5212, 1313, 788, 330, 917, 30975, 532]")
    assert added.endswith("3417, 532]")
