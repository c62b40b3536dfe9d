"""Whether a running server still answers what ``tests/recorded`` keeps of it."""

from __future__ import annotations

import json
from typing import Any

from ..engines.measured import Server
from ..recorded.record import file_of, recording_of


def assert_recorded(server: Server, program: str, version: str = "") -> None:
    """All that was recorded is asked again, and is answered alike; what is not is shown as (recorded, answered)."""
    with server.http() as client:
        now = recording_of(client, program, version)
    kept = json.loads(file_of(now).read_text(encoding="utf-8"))
    old, new = _entries(kept), _entries(now)
    assert {key: (old.get(key), new.get(key)) for key in {**old, **new} if old.get(key) != new.get(key)} == {}
    assert (kept["server"], kept["tokenizer"]) == (now["server"], now["tokenizer"])


def _entries(recording: Any) -> dict[tuple[str, str], Any]:
    return {
        **{(it["route"], it["shape"]): it for it in recording["replies"]},
        **{(it["route"], it["name"]): it for it in recording["raw"]},
    }
