"""The engines that come with the package, and the options each takes in `tokenparity.yaml`. Imports none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class EngineType:
    """The options of one engine type: each name with the Python types its value may have."""

    options: Mapping[str, tuple[type, ...]] = field(default_factory=dict)
    required: tuple[str, ...] = ()


_TEXT, _FLAG, _SECONDS = (str,), (bool,), (int, float)

BUILTIN_ENGINES: Mapping[str, EngineType] = {
    "transformers": EngineType({"model": _TEXT}),
    "llama-server": EngineType({"url": _TEXT, "model": _TEXT, "timeout": _SECONDS}, required=("url",)),
    "client-completion": EngineType(
        {
            "url": _TEXT,
            "model": _TEXT,
            "timeout": _SECONDS,
            "render": _TEXT,
            "add_special": _FLAG,
            "parse_special": _FLAG,
        },
        required=("url",),
    ),
}
