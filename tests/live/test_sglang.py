"""A real SGLang 0.5.23, as far as it renders and tokenizes: `tox -e sglang`.

Its scheduler is replaced, so nothing generates and nothing can be confirmed by a call. What it was measured to do stands
in ``tests/engines/measured.py``, and what it was recorded to answer in ``tests/recorded``: both are asked again here, and
the project's own suite runs through it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..causes.witnesses import reference
from ..engines.measured import ROWS, Row, Server, assert_posted, assert_row
from .parity import assert_suite
from .recordings import assert_recorded
from .servers import sglang_front

ENGINES: dict[str, Any] = {"sglang": {}, "posted-string": {"type": "client-completion", "server": "sglang"}}
DIFFERENT = {
    "qwen3": {
        "tools sglang": "tool-field-added",
        "tools-with-return sglang": "tool-field-dropped + tool-field-added",
        "session-tools-reordered sglang": "tool-field-added",
        "agent sglang": "tool-field-added",
        "content-parts sglang": "content-parts-joined",  # which Qwen3's template refuses
        "continued sglang": "last-turn-prefilled",
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
EQUAL_ITEMS = {"qwen3": 51, "gemma3": 17}

qwen3 = pytest.mark.parametrize("server", ["qwen3"], indirect=True)
each = pytest.mark.parametrize("server", ["qwen3", "gemma3"], indirect=True)


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with sglang_front(request.param) as running:
        yield running


@each
def test_the_projects_suite_is_equal_or_differs_for_proven_causes(tmp_path: Path, server: Server) -> None:
    assert_suite(tmp_path, server, ENGINES, DIFFERENT[server.family], EQUAL_ITEMS[server.family])


@qwen3
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.shape)
def test_what_was_measured_still_holds(row: Row, server: Server) -> None:
    assert_row(row, "sglang", server, reference("qwen3"))


@each
def test_a_posted_text_has_two_bos_where_the_template_writes_one(server: Server) -> None:
    assert_posted("sglang", server, reference(server.family))


@each
def test_the_recordings_are_still_true(server: Server) -> None:
    assert_recorded(server, "sglang", "0.5.23")  # its own version is told by the scheduler alone
