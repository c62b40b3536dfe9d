"""Every YAML that the README shows can be read, and the known differences that it shows can be pasted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_tokenparity.yaml12 import loads

from .test_readme import README, blocks, pasted

__all__ = ["pasted"]

PINNED = next(block for block in blocks("") if block.startswith("    expect:"))


def test_every_block_can_be_read() -> None:
    for block in (*blocks("yaml"), PINNED):
        assert loads(block, Path("README.md")).value


@pytest.mark.parametrize("row", re.findall(r"^\| `[^|]*\|[^\n]*", README, re.MULTILINE))
def test_what_stands_in_braces_in_the_tables_can_be_read(row: str) -> None:
    for written in re.findall(r"`(\{[^`]*\})`", row):
        assert loads(written, Path("README.md")).value


def test_the_known_difference_can_be_pasted(pasted, qwen_url: str) -> None:  # type: ignore[no-untyped-def]
    chat = pasted.read("chat.tokenparity.yaml")
    pasted.write("chat.tokenparity.yaml", chat.rstrip("\n") + "\n" + PINNED)
    result = pasted.pytest("--update-golden", "-k", "tools", QWEN_URL=qwen_url)
    assert result.passed(2), result.output
    assert "checked  1 equal to the golden, 1 known to differ" in result.output


def test_the_known_differences_hold(pasted, qwen_url: str) -> None:  # type: ignore[no-untyped-def]
    (known,) = (block for block in blocks("yaml") if block.startswith("cases:"))
    head, _, _ = pasted.read("chat.tokenparity.yaml").partition("cases:\n")
    pasted.write("chat.tokenparity.yaml", head + known)
    result = pasted.pytest("--update-golden", QWEN_URL=qwen_url)
    assert result.passed(6), result.output
    assert "checked  3 equal to the golden, 3 known to differ" in result.output


def test_a_known_difference_with_another_parameter_fails(pasted, qwen_url: str) -> None:  # type: ignore[no-untyped-def]
    (known,) = (block for block in blocks("yaml") if block.startswith("cases:"))
    head, _, _ = pasted.read("chat.tokenparity.yaml").partition("cases:\n")
    pasted.write("chat.tokenparity.yaml", head + known.replace("[return]", "[strict]").replace(": newline", ": space"))
    result = pasted.pytest("--update-golden", QWEN_URL=qwen_url)
    assert "checked  3 equal to the golden, 1 known to differ, 2 failed" in result.output
