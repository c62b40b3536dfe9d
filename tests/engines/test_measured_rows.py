"""The recorded replies of vLLM and SGLang hold every row of ``measured``; ``tests/live`` asks running servers the same."""

from __future__ import annotations

import pytest

from ..causes.witnesses import reference
from .measured import (
    ROWS,
    Row,
    Server,
    assert_posted,
    assert_row,
    assert_vllm_refuses_both_flags,
    assert_vllm_without_tool_flags_is_seen_through,
    assert_vllms_completions_add_special_tokens,
)
from .recorded import Recorded

NAMES = {
    ("vllm", "qwen3"): "vllm-0.33.0",
    ("vllm", "gemma3"): "vllm-0.33.0-gemma3",
    ("sglang", "qwen3"): "sglang-0.5.23",
    ("sglang", "gemma3"): "sglang-0.5.23-gemma3",
}


def recorded(program: str, family: str) -> Server:
    return Server(family, transport=Recorded(NAMES[program, family]))


@pytest.mark.parametrize("type_", ["vllm", "vllm-tokenize", "sglang"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.shape)
def test_what_was_measured_is_what_the_recorded_server_answers(row: Row, type_: str) -> None:
    assert_row(row, type_, recorded(type_.removesuffix("-tokenize"), "qwen3"), reference("qwen3"))


@pytest.mark.parametrize("family", ["qwen3", "gemma3"])
@pytest.mark.parametrize("program", ["vllm", "sglang"])
def test_a_posted_text_has_two_bos_where_the_template_writes_one(program: str, family: str) -> None:
    assert_posted(program, recorded(program, family), reference(family))


@pytest.mark.parametrize("family", ["qwen3", "gemma3"])
def test_a_posted_text_is_what_vllms_completions_make_of_it(family: str) -> None:
    assert_vllms_completions_add_special_tokens(recorded("vllm", family))


def test_vllm_is_sent_one_flag_to_continue_a_message_and_refuses_both() -> None:
    assert_vllm_refuses_both_flags(recorded("vllm", "qwen3"))


def test_a_vllm_without_tool_flags_is_seen_through_and_never_passes_plainly() -> None:
    assert_vllm_without_tool_flags_is_seen_through(recorded("vllm", "gemma3"))
