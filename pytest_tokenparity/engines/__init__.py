"""The engines: one module for each, and :func:`build_engine`, which makes one from a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EngineError
from ..yaml12 import did_you_mean
from .catalogue import BUILTIN_ENGINES

if TYPE_CHECKING:
    from .base import Engine, Wait


def build_engine(
    name: str,
    type_: str,
    options: Mapping[str, Any],
    *,
    place: str,
    folder: Path,
    wait: Wait,
    local: Callable[[str], Engine],
    reference: Callable[[], Engine],
) -> Engine:
    """An engine of the package, from its expanded options.

    ``local(name)`` gives the in-process engine of the model, ``reference()`` the model's reference; both are called only
    when they are needed. EngineError if there is no such type.
    """
    if type_ not in BUILTIN_ENGINES:
        raise EngineError(
            f"{place}: no engine type {type_!r}{did_you_mean(type_, BUILTIN_ENGINES, 'built in are')}; "
            "an engine of your own comes from the hook pytest_tokenparity_engine in a conftest.py"
        )
    if type_ == "transformers":
        return local(name)
    from .client_completion import ClientCompletionTokens, import_render, render_of
    from .http import DEFAULT_TIMEOUT
    from .llama_server import LlamaCppTokens

    common: dict[str, Any] = {
        "name": name,
        "model": options.get("model"),
        "timeout": float(options.get("timeout", DEFAULT_TIMEOUT)),
        "wait": wait,
    }
    if type_ == "llama-server":
        return LlamaCppTokens(options["url"], **common)
    own = options.get("render")
    render = import_render(own, folder, place) if own else render_of(reference())
    return ClientCompletionTokens(
        render,
        options["url"],
        add_special=options.get("add_special", True),
        parse_special=options.get("parse_special", True),
        **common,
    )
