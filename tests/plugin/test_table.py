"""``--tokenparity-table``: every case through every engine, and why one is not equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..harness import QUESTION, Project, qwen_config

CASES = (
    QUESTION
    + """tools:
  look: &look
    type: function
    function: &function {name: look, description: d, parameters: {type: object, properties: {}}}
  strict: {type: function, function: {<<: *function, strict: true}}
cases:
  plain: {messages: question}
  no-text: {messages: [{role: user, content: null}]}
  pinned:
    messages: question
    tools: [strict]
    expect: {llama-server: {differs: [tool-field-dropped], reason: r}}
  failing: {messages: question, tools: [strict], engines: [transformers, llama-server]}
  prefix:
    engines: [transformers]
    requests:
      - {messages: question, tools: [look]}
      - {messages: question}
"""
)

TABLE = """\
qwen3-0.6b     transformers  llama-server  posted-string
chat::plain    =             =             =
chat::no-text  r             1!            r
chat::pinned   =             2             =
chat::failing  =             3!            .
chat::prefix   !             .             .

  =   equal to the golden
  r   refused alike
  !   fails
  .   not in this run
  1   content-null: ''
  2   tool-field-dropped
  3   tool-field-dropped: strict
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, qwen_url: str) -> Project:
    """A project with its goldens; no test changes it."""
    files = {"tokenparity.yaml": qwen_config(qwen_url), "chat.tokenparity.yaml": CASES}
    project = Project(tmp_path_factory.mktemp("table"), files)
    project.pytest("--update-golden")
    return project


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one-process", "two-workers"])
def test_the_table_has_a_mark_for_each_case_and_engine_and_the_causes_below(
    project: Project, options: tuple[str, ...]
) -> None:
    output = project.pytest("--tokenparity-table", *options, COLUMNS="120").output
    assert f"\n\n{TABLE}" in output


def test_without_the_option_there_is_no_table(project: Project) -> None:
    assert "chat::plain" not in project.pytest().output.replace("chat.tokenparity.yaml::plain", "")


def test_engines_that_do_not_fit_stand_below(project: Project) -> None:
    output = project.pytest("--tokenparity-table", "-k", "plain", COLUMNS="45").output
    assert "\nqwen3-0.6b   transformers  llama-server\n" in output
    assert "\nqwen3-0.6b   posted-string\nchat::plain  =\n" in output


def test_what_cannot_be_asked_is_not_checked(tmp_path: Path) -> None:
    project = Project(tmp_path, {"tokenparity.yaml": qwen_config("http://127.0.0.1:9"), "chat.tokenparity.yaml": CASES})
    output = project.pytest(
        "--update-golden", "--tokenparity-table", "--tokenparity-unreachable=skip", "-k", "plain", COLUMNS="120"
    ).output
    assert "\nchat::plain  =             x             x\n" in output
