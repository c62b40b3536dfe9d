"""The whole road, as a user walks it: write two files, record, check, and see a fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .harness import PLAIN, Project, qwen_config

CASES = PLAIN + (
    "  thinking-off: {messages: question, template_kwargs: {enable_thinking: false}}\n"
    "  parts: {messages: [{role: user, content: [{type: text, text: a}]}], engines: [transformers, posted-string]}\n"
)


@pytest.fixture
def project(tmp_path: Path, qwen_url: str) -> Project:
    return Project(tmp_path, {"tokenparity.yaml": qwen_config(qwen_url), "chat.tokenparity.yaml": CASES})


def test_record_then_check(project: Project) -> None:
    first = project.pytest("--update-golden")
    assert first.passed(8), first.output
    golden = json.loads(project.read("golden/qwen3-0.6b/chat/plain.json"))
    assert golden["requests"][0]["tokens"] == 25
    assert golden["requests"][0]["append"][0] == [[151644, 8948, 198], "<|im_start|>system\n"]
    before = project.files()
    assert project.pytest().passed(8)
    second = project.pytest("--update-golden")
    assert "goldens  0 new, 0 changed, 3 unchanged, 0 orphaned" in second.output
    assert project.files() == before


def test_a_missing_golden_prints_the_command_that_records_it_and_writes_nothing(project: Project) -> None:
    before = project.files()
    result = project.pytest("-k", "plain and transformers")
    assert result.code == 1
    assert "no golden yet: golden/qwen3-0.6b/chat/plain.json is not there" in result.output
    assert "pytest --update-golden 'chat.tokenparity.yaml::plain[qwen3-0.6b-transformers]'" in result.output
    assert project.files() == before
