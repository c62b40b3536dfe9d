"""The engines: one module for each, and :func:`build_engine`, which makes one from a configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EngineError
from ..yaml12 import did_you_mean
from .catalogue import BUILTIN_ENGINES

if TYPE_CHECKING:
    from .base import Engine, Wait
    from .tokenizers import TokenizerFiles


@dataclass(frozen=True)
class Surroundings:
    """What an engine is made in.

    ``place`` is what errors name, ``folder`` that of the configuration. ``local(type, name)`` gives an in-process engine
    of the model, ``reference()`` the model's reference, ``files()`` its tokenizer, ``tokenizer()`` what the configuration
    names it: called only when they are needed.
    """

    place: str
    folder: Path
    wait: Wait
    model_name: str
    local: Callable[[str, str], Engine]
    reference: Callable[[], Engine]
    files: Callable[[], TokenizerFiles]
    tokenizer: Callable[[], str]


def build_engine(name: str, type_: str, options: Mapping[str, Any], around: Surroundings) -> Engine:
    """An engine of the package, or of the class that ``type_`` names, from its expanded options.

    EngineError if there is no such type, or the engine cannot be made.
    """
    if ":" in type_:
        return _own(name, type_, options, around)
    if type_ not in BUILTIN_ENGINES:
        raise EngineError(
            f"{around.place}: no engine type {type_!r}{did_you_mean(type_, BUILTIN_ENGINES, 'built in are')}; "
            "an engine of your own is a class (`type: module:Class`), or comes from the hook pytest_tokenparity_engine "
            "in a conftest.py"
        )
    if type_ in ("transformers", "tokenizers"):
        return around.local(type_, name)
    kind = BUILTIN_ENGINES[type_]
    module, _, class_name = kind.home.partition(":")
    made: Callable[..., Engine] = getattr(import_module(f".{module}", __name__), class_name)
    arguments = {"name": name, **(_access(options, around) if kind.is_server else dict(options))}
    if type_ == "client-completion":
        from .client_completion import import_render, render_of

        own = arguments.pop("render", None)
        render = import_render(own, around.folder, around.place) if own else render_of(around.reference())
        return made(render, arguments.pop("url"), **arguments)
    if type_ == "ollama":
        arguments["tokenizer"] = around.files()
    if kind.is_server:
        return made(arguments.pop("url"), **arguments)
    if type_ == "shimmy":
        return made(around.files(), **{"model": around.model_name, **arguments})
    return made(_mistral_file(arguments.pop("file", None) or around.tokenizer(), around.folder), name=name)


def _mistral_file(named: str, folder: Path) -> str | Path:
    """A tokenizer of Mistral's: a file, one in a folder, or the name of one that the wheel ships."""
    path = folder / Path(named).expanduser()
    if path.is_dir():
        found = sorted([*path.glob("tekken*.json"), *path.glob("*.model*")])
        return found[0] if found else path
    return path if path.is_file() else named


def _access(options: Mapping[str, Any], around: Surroundings) -> dict[str, Any]:
    """The options of a server as arguments of its engine: the key itself, seconds, a path that is found."""
    arguments = {**options, "wait": around.wait}
    variable = arguments.pop("api_key_env", None)
    if variable is not None:
        key = os.environ.get(variable)
        if not key:
            raise EngineError(f"{around.place}: the variable {variable} is not set (`api_key_env`)")
        arguments["api_key"] = key
    if "timeout" in arguments:
        arguments["timeout"] = float(arguments["timeout"])
    for key in ("verify", "slot_save_path"):
        if isinstance(arguments.get(key), str):
            arguments[key] = str(around.folder / Path(arguments[key]).expanduser())
    return arguments


def _own(name: str, path: str, options: Mapping[str, Any], around: Surroundings) -> Engine:
    """An engine of somebody else's, from the class that ``type:`` names."""
    from .base import asked, named_engine
    from .client_completion import import_object

    found = import_object(path, around.folder, f"{around.place}: `type: {path}`", "a class")
    made = asked(f"{around.place}: {path}", lambda: found(**options), found, "the engine's options as keywords")
    engine = named_engine(made, name)
    if engine is None:
        raise EngineError(f"{around.place}: {path} gives {type(made).__name__}, which has no `name` and `ids`")
    return engine
