"""`tokenparity.yaml` as data: the models, their engines, and where goldens live."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from .engines.catalogue import BUILTIN_ENGINES
from .errors import ConfigError
from .words import brief
from .yaml12 import Document, Section, did_you_mean, kind, load, shown

DEFAULT_CLOCK = datetime(2026, 1, 2, 3, 4, 5)
"""What a template's ``strftime_now`` sees unless the model sets ``clock``: never the real clock."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*\Z")
_CLASS_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*\Z")
_MARKER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*\Z")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|\Z)", re.IGNORECASE)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_PYTEST_MARKS = {"filterwarnings", "parametrize", "skip", "skipif", "tryfirst", "trylast", "usefixtures", "xfail"}
_EXPRESSION_WORDS = {"and", "or", "not", "True", "False", "None"}


@dataclass(frozen=True)
class EngineConfig:
    """One engine of a model, as written: ``options`` still hold ``${VAR}``."""

    name: str
    type: str
    options: Mapping[str, Any]
    place: str
    """``file:line: models.M.engines.E``, for errors."""


@dataclass(frozen=True)
class ModelConfig:
    """One model: how its reference tokenizer is found, and the engines that serve it. The first one is the reference."""

    name: str
    tokenizer: str
    revision: str | None
    template: str | None
    clock: datetime
    marker: str
    engines: tuple[EngineConfig, ...]
    places: Mapping[str, str]
    """``file:line: models.M.KEY`` for each key that is there; under ``""`` that of the model itself."""

    @property
    def reference(self) -> EngineConfig:
        """The engine that records the golden."""
        return self.engines[0]

    def engine(self, name: str) -> EngineConfig:
        """The engine of that name; ConfigError if there is none."""
        for engine in self.engines:
            if engine.name == name:
                return engine
        names = [engine.name for engine in self.engines]
        raise ConfigError(f"model {self.name!r} has no engine {name!r}{did_you_mean(name, names, 'it has')}")


@dataclass(frozen=True)
class Config:
    """The whole configuration."""

    path: Path
    golden_dir: Path
    models: Mapping[str, ModelConfig]

    @property
    def folder(self) -> Path:
        """The folder that paths in the configuration, and the names of case files, are relative to."""
        return self.path.parent

    def model(self, name: str) -> ModelConfig:
        """The model of that name; ConfigError if there is none."""
        if name not in self.models:
            raise ConfigError(f"{shown(self.path)} has no model {name!r}{did_you_mean(name, self.models, 'it has')}")
        return self.models[name]


def load_config(path: Path) -> Config:
    """Read a configuration; ConfigError names the file and line of what cannot be used."""
    document = load(path)
    if document.value is None:
        raise ConfigError(f"{shown(path)}:1: the file is empty; it needs `models:`")
    top = document.section(what="a mapping with `models`")
    top.only(("golden_dir", "models"))
    golden_dir = top.text("golden_dir", "golden")
    assert golden_dir is not None
    if golden_dir.startswith("~") or "${" in golden_dir:
        raise top.error("golden_dir", "a path relative to this file, without ~ and ${...}: goldens are committed")
    if "models" not in top.value:
        raise top.error(None, "`models:` is missing: name at least one model")
    names = top.section("models", "a mapping of model names")
    if not names.value:
        raise top.error("models", "no model here: name at least one")
    models = {name: _model(document, names, name) for name in names.value}
    _unlike_names(document, ("models",), models)
    _unlike_markers(document, models.values())
    _unlike_ids(document, models.values())
    return Config(path.absolute(), Path(os.path.normpath(path.parent.absolute() / golden_dir)), models)


def readable_markers(path: Path) -> list[str]:
    """The markers of every model name that can be read from a configuration that may be broken.

    Other people's ``-m 'not that_model'`` keeps working under strict markers while the file is mended.
    """
    try:
        models = load(path).value["models"]
        pairs = [(name, entry.get("marker") if isinstance(entry, dict) else None) for name, entry in models.items()]
    except (ConfigError, KeyError, TypeError, AttributeError):
        pairs = _models_in_broken_yaml(path)
    markers = [marker if isinstance(marker, str) else default_marker(name) for name, marker in pairs]
    return [marker for marker in dict.fromkeys(markers) if _MARKER.match(marker)]


def default_marker(model: str) -> str:
    """The model's plain marker: its name, each run of other characters a ``_``."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", model)


def check_name(name: str, what: str) -> str | None:
    """What is wrong with the name of a case, model or engine (it becomes part of paths and node ids), or None."""
    if not _NAME.match(name):
        return f"{what} {brief(name)}: use letters, digits and . _ + -, starting with a letter or digit"
    if name.endswith("."):
        return f"{what} {brief(name)} ends with a dot, which Windows drops from file names"
    if _DEVICE.match(name):
        return f"{what} {brief(name)} is a device name on Windows"
    return None


def unlike_by_case(names: Iterable[str]) -> tuple[str, str] | None:
    """Two names that differ by upper and lower case alone (one file on Windows and macOS), or None."""
    seen: dict[str, str] = {}
    for name in names:
        twin = seen.setdefault(name.lower(), name)
        if twin != name:
            return twin, name
    return None


def expand(value: Any, place: str) -> Any:
    """``${VAR}`` and ``${VAR:-default}`` in every string of ``value`` replaced; an unset variable is a ConfigError.

    As in a shell, ``:-`` gives its default for an empty variable too.
    """
    if isinstance(value, str):

        def variable(match: re.Match[str]) -> str:
            name, default = match[1], match[2]
            found = os.environ.get(name)
            if default is not None:
                return found or str(default)
            if found is None:
                raise ConfigError(
                    f"{place}: the environment variable {name} is not set; set it, or give a default: ${{{name}:-...}}"
                )
            return found

        expanded = _VARIABLE.sub(variable, value)
        if any("${" in (match[2] or "") for match in _VARIABLE.finditer(value)):
            raise ConfigError(
                f"{place}: {brief(value)}: a variable is ${{NAME}} or ${{NAME:-default}}, without another inside"
            )
        return expanded
    if isinstance(value, list):
        return [expand(entry, place) for entry in value]
    if isinstance(value, dict):
        return {key: expand(entry, place) for key, entry in value.items()}
    return value


def _model(document: Document, models: Section, name: str) -> ModelConfig:
    fault = check_name(name, "the model name")
    if fault:
        raise models.error(name, fault)
    section = models.section(name, "a mapping with `tokenizer` and `engines`")
    section.only(("tokenizer", "revision", "template", "clock", "engines", "marker"))
    tokenizer = section.text("tokenizer")
    if tokenizer is None:
        raise models.error(name, "`tokenizer:` is missing: a Hub id, or a folder relative to this file")
    marker = section.text("marker", default_marker(name))
    assert marker is not None
    where = "marker" if "marker" in section.value else None
    if not _MARKER.match(marker):
        raise section.error(where, f"the marker {brief(marker)} must be letters, digits and _, as after `-m`")
    if marker in _PYTEST_MARKS or marker == "tokenparity":
        owner = "this plugin's" if marker == "tokenparity" else "pytest's"
        raise section.error(where, f"the marker {marker!r} is {owner} own; set another with `marker:`")
    if marker in _EXPRESSION_WORDS:
        raise section.error(where, f"the marker {marker!r} is a word of `-m` expressions; set another with `marker:`")
    if not section.value.get("engines"):
        raise section.error(
            "engines" if "engines" in section.value else None, "`engines:` needs at least one engine, the reference"
        )
    entries = section.section("engines", "a mapping of engine names")
    engines = tuple(_engine(document, entries, engine) for engine in entries.value)
    _unlike_names(document, entries.where, entries.value)
    return ModelConfig(
        name=name,
        tokenizer=tokenizer,
        revision=section.text("revision"),
        template=section.text("template"),
        clock=_clock(section),
        marker=marker,
        engines=engines,
        places={
            key: f"{shown(document.path)}:{document.line((*section.where, key))}: models.{name}{'.' + key if key else ''}"
            for key in ("", *section.value)
        },
    )


def _engine(document: Document, engines: Section, name: str) -> EngineConfig:
    fault = check_name(name, "the engine name")
    if fault:
        raise engines.error(name, fault)
    if engines.value[name] is None:  # `transformers:` with nothing after it
        options: dict[str, Any] = {}
    else:
        section = engines.section(name, "a mapping of the engine's options, such as {}")
        options = dict(section.value)
        section.text("type")
        section.text("model")
    type_ = str(options.pop("type", name))
    builtin = BUILTIN_ENGINES.get(type_)
    if builtin is None and ":" in type_ and not _CLASS_PATH.match(type_):
        raise engines.section(name).error("type", f"a class of your own is `module:Class`, found {type_!r}")
    if builtin:
        section = engines.section(name) if engines.value[name] is not None else Section(document, engines.where, {})
        section.only(("type", *builtin.options))
        for key in builtin.required:
            if key not in options:
                raise engines.error(name, f"the engine type {type_!r} needs `{key}:`")
        for key, wanted in builtin.options.items():
            if key in options:
                _check_option(section, key, options[key], wanted)
                choices = builtin.choices.get(key)
                if choices and options[key] not in choices:
                    raise section.error(key, f"expected one of {', '.join(choices)}, found {options[key]!r}")
    place = f"{shown(document.path)}:{document.line((*engines.where, name))}: models.{engines.where[1]}.engines.{name}"
    return EngineConfig(name, type_, options, place)


def _check_option(section: Section, key: str, value: Any, wanted: tuple[type, ...]) -> None:
    flag = isinstance(value, bool)
    if not isinstance(value, wanted) or (flag and bool not in wanted):
        names = {bool: "true or false", str: "a string", dict: "a mapping", float: "a number"}
        words = " or ".join(dict.fromkeys(names.get(it, "a number") for it in wanted))
        raise section.error(key, f"expected {words}, found {kind(value)}")
    if isinstance(value, dict) and not all(isinstance(it, str) for it in value.values()):
        raise section.error(key, "expected a mapping of names to strings")
    if value == "":
        raise section.error(key, "must not be empty")
    if not flag and isinstance(value, (int, float)) and not 0 < value <= 86_400:
        raise section.error(key, "must be more than 0 and at most 86400 seconds, a day")


def _clock(section: Section) -> datetime:
    text = section.text("clock")
    if text is None:
        return DEFAULT_CLOCK
    try:
        clock = datetime.fromisoformat(text)
    except ValueError:
        raise section.error(
            "clock", f"expected a date and time such as 2026-01-02T03:04:05, found {brief(text)}"
        ) from None
    if clock.tzinfo is not None:
        raise section.error("clock", f"a template sees no time zone: leave it out of {brief(text)}")
    return clock


def _unlike_names(document: Document, where: tuple[str | int, ...], names: Iterable[str]) -> None:
    twins = unlike_by_case(names)
    if twins:
        raise document.error(
            (*where, twins[1]), f"{twins[0]!r} and {twins[1]!r} differ by case alone: one file on some disks"
        )


def _unlike_markers(document: Document, models: Iterable[ModelConfig]) -> None:
    seen: dict[str, str] = {}
    for model in models:
        twin = seen.setdefault(model.marker, model.name)
        if twin != model.name:
            raise document.error(
                ("models", model.name),
                f"the models {twin!r} and {model.name!r} share the marker {model.marker!r}; set another with `marker:`",
            )


def _unlike_ids(document: Document, models: Iterable[ModelConfig]) -> None:
    seen: dict[str, tuple[str, str]] = {}
    for model in models:
        for engine in model.engines:
            pair = (model.name, engine.name)
            twin = seen.setdefault(f"{model.name}-{engine.name}".lower(), pair)
            if twin != pair:
                raise document.error(
                    ("models", model.name, "engines", engine.name),
                    f"model {pair[0]!r} with engine {pair[1]!r} and model {twin[0]!r} with engine {twin[1]!r} "
                    f"make one id, {model.name}-{engine.name}; rename one",
                )


def _models_in_broken_yaml(path: Path) -> list[tuple[str, str | None]]:
    """The keys one level under ``models:`` with their ``marker:``, found by their indentation alone."""
    try:
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError:
        return []
    models: list[tuple[str, str | None]] = []
    indent = None
    inside = False
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        depth = len(line) - len(line.lstrip(" "))
        if depth == 0:
            inside = line.startswith("models:")
        elif inside:
            indent = depth if indent is None else indent
            match = re.match(r" +[\"']?([A-Za-z0-9][A-Za-z0-9._+-]*)[\"']?:", line)
            marker = re.match(r" +marker: *[\"']?([A-Za-z0-9_]+)[\"']? *(?:#|$)", line)
            if depth == indent and match:
                models.append((match[1], None))
            elif marker and models:
                models[-1] = (models[-1][0], marker[1])
    return models
