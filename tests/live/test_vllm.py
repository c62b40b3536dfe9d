"""A real vLLM 0.33.0, as a server that renders: `tox -e vllm`.

What it was measured to do stands in ``tests/engines/measured.py``, and what it was recorded to answer in
``tests/recorded``: both are asked again here, and the project's own suite runs through it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..causes.witnesses import reference
from ..engines.measured import (
    ROWS,
    Row,
    Server,
    assert_posted,
    assert_row,
    assert_vllm_refuses_both_flags,
    assert_vllm_without_tool_flags_is_seen_through,
    assert_vllms_completions_add_special_tokens,
)
from .parity import REFUSED, assert_suite
from .recordings import assert_recorded
from .servers import vllm_render

ENGINES: dict[str, Any] = {
    "vllm": {},
    "vllm-tokenize": {},
    "posted-string": {"type": "client-completion", "server": "vllm"},
}
DIFFERENT = {
    "qwen3": {
        f"{case} {engine}": said
        for engine in ("vllm", "vllm-tokenize")
        for case, said in {
            "tools-with-return": "tool-field-dropped",
            "content-parts": "content-parts-joined",  # which Qwen3's template refuses
            "agent": REFUSED,  # arguments of past calls as mappings
        }.items()
    },
    "gemma3": {
        f"{case} posted-string": "bos-doubled"
        for case in (
            *("plain-gemma", "session", "content-parts", "continued", "scripts", "white-space"),
            "combining-accent",
        )
    },
}
"""What of the suite is not equal to the golden, and why."""
EQUAL_ITEMS = {"qwen3": 70, "gemma3": 25}
ASKED_TO_CONFIRM = {"qwen3": 53, "gemma3": 21}
"""The items of servers whose IDs were seen: not the reference's, and not those of requests that are refused."""

qwen3 = pytest.mark.parametrize("server", ["qwen3"], indirect=True)
gemma3 = pytest.mark.parametrize("server", ["gemma3"], indirect=True)
each = pytest.mark.parametrize("server", ["qwen3", "gemma3"], indirect=True)


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with vllm_render(request.param) as running:
        yield running


@each
def test_the_projects_suite_is_equal_or_differs_for_proven_causes(tmp_path: Path, server: Server) -> None:
    different, equal = DIFFERENT[server.family], EQUAL_ITEMS[server.family]
    output = assert_suite(tmp_path, server, ENGINES, different, equal, "--tokenparity-confirm").output
    # A server that only renders can confirm nothing, and is not blamed for it.
    asked = ASKED_TO_CONFIRM[server.family]
    assert f"confirmed by a call: 0 of {asked} ({asked} not, by engines that cannot be called)\n" in output


@qwen3
@pytest.mark.parametrize("type_", ["vllm", "vllm-tokenize"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.shape)
def test_what_was_measured_still_holds(row: Row, type_: str, server: Server) -> None:
    assert_row(row, type_, server, reference("qwen3"))


@each
def test_a_posted_text_has_two_bos_where_the_template_writes_one(server: Server) -> None:
    assert_posted("vllm", server, reference(server.family))


@each
def test_a_posted_text_is_what_completions_make_of_it(server: Server) -> None:
    assert_vllms_completions_add_special_tokens(server)


@qwen3
def test_it_is_sent_one_flag_to_continue_a_message_and_refuses_both(server: Server) -> None:
    assert_vllm_refuses_both_flags(server)


@gemma3
def test_without_tool_flags_it_is_seen_through_and_never_passes_plainly(server: Server) -> None:
    assert_vllm_without_tool_flags_is_seen_through(server)


@each
def test_the_recordings_are_still_true(server: Server) -> None:
    assert_recorded(server, "vllm")
