"""A case file as data: its conversations, tools and cases, each case a tuple of requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .config import Config, check_name
from .errors import ConfigError, InvalidConversation
from .json_lines import FLAGS, read_json_lines, request_of
from .messages import assert_text, assert_valid, request_points
from .request import RESERVED_KWARGS, Request
from .tools import assert_valid_tool
from .words import brief
from .yaml12 import Document, Section, Where, did_you_mean, dotted_path, kind, load, shown

if TYPE_CHECKING:
    from .causes.explanation import DeclaredCause

SUFFIXES = (".tokenparity.yaml", ".tokenparity.yml")
UNKNOWN = "unknown"
"""What ``expect`` names a difference whose cause is not known; it stands alone."""

_CASE_KEYS = (
    *("messages", "session", "requests", "tools", "template_kwargs", "add_generation_prompt"),
    *("continue_final_message", "shape", "prefix", "stop", "expect", "control_tokens", "models", "engines", "marks"),
)
_REQUEST_KEYS = ("messages", "tools", "template_kwargs", "add_generation_prompt", "continue_final_message")


@dataclass(frozen=True)
class DocumentedBreak:
    """A prefix break that is known: at this token, for this reason."""

    at: int
    reason: str


@dataclass(frozen=True)
class PrefixRule:
    """How a case's requests must share their leading tokens.

    ``tail``: a break inside that many last tokens of the earlier prompt is allowed. ``breaks``: these must be there, and
    no others.
    """

    check: bool = True
    tail: int = 0
    breaks: tuple[DocumentedBreak, ...] = ()


@dataclass(frozen=True)
class Expectation:
    """A known difference of one engine: the case passes only while it is there."""

    differs: tuple[DeclaredCause, ...]
    reason: str
    place: str

    @property
    def is_unknown(self) -> bool:
        return self.differs[0].name == UNKNOWN


@dataclass(frozen=True)
class Case:
    """One case: its requests, and what is said of them."""

    name: str
    file: str
    """The case file, relative to the configuration, with forward slashes."""
    golden_name: str
    """``file`` without its ending: the folder of the goldens."""
    line: int
    requests: tuple[Request, ...]
    shape: str
    prefix: PrefixRule
    prefix_by_model: Mapping[str, PrefixRule]
    expect: Mapping[str, Expectation]
    stop: tuple[str, ...]
    models: tuple[str, ...]
    engines: tuple[str, ...] | None
    marks: tuple[str, ...]
    control_tokens: Literal["allow", "warn", "fail"] = "warn"
    """What becomes of control tokens in the request's own text."""

    def prefix_for(self, model: str) -> PrefixRule:
        return self.prefix_by_model.get(model, self.prefix)

    def expectation(self, model: str, engine: str) -> Expectation | None:
        """The known difference of that engine; what is said of ``MODEL/ENGINE`` comes before what is said of ``ENGINE``."""
        return self.expect.get(f"{model}/{engine}") or self.expect.get(engine)


@dataclass(frozen=True)
class CaseFile:
    """A case file: its cases in order, what is wrong with others, and for each case what was read but not used.

    ``broken`` holds for the name of a case (or of a conversation or tool that no case uses) the error that says why.
    """

    path: Path
    cases: tuple[Case, ...]
    broken: Mapping[str, ConfigError]
    warnings: Mapping[str, tuple[str, ...]]


def read_case_file(path: Path, config: Config) -> CaseFile:
    """Read a case file against the configuration. A fault in one case does not keep the others from being read.

    ConfigError names the file and line where the file as a whole cannot be used.
    """
    document = load(path)
    if document.value is None:
        raise ConfigError(f"{shown(path)}:1: the file is empty; it needs `cases:`")
    for suffix in SUFFIXES:
        twin = path.with_name(_without_suffix(path.name) + suffix)
        if path.name.endswith(SUFFIXES) and twin != path and twin.is_file():
            raise ConfigError(f"{shown(path)}:1: {twin.name} beside it would have the same goldens; rename one of them")
    return _Reader(document, config).read()


def load_case_file(path: Path, config: Config) -> CaseFile:
    """Read a case file of which every case must be right; ConfigError for the first that is not."""
    file = read_case_file(path, config)
    for error in file.broken.values():
        raise error
    return file


def case_file_name(path: Path, config: Config) -> str:
    """A case or test file relative to the configuration, with forward slashes; ConfigError if it lies outside."""
    try:
        return path.relative_to(config.folder).as_posix()
    except ValueError:
        try:
            return path.resolve().relative_to(config.folder.resolve()).as_posix()
        except ValueError:
            raise ConfigError(
                f"{shown(path)}: lies outside {shown(config.folder)}, the folder of {config.path.name}: its goldens "
                "would have no name; move it, or put a configuration above both"
            ) from None


class _Reader:
    def __init__(self, document: Document, config: Config) -> None:
        self.document = document
        self.config = config
        self.file = case_file_name(document.path, config)
        self.warnings: list[str] = []
        self.conversations: dict[str, list[Any] | ConfigError] = {}
        self.tools: dict[str, Any] = {}
        self.used: set[tuple[str, str]] = set()

    def read(self) -> CaseFile:
        top = self.document.section(what="a mapping with `cases`")
        top.only(("conversations", "tools", "cases"))
        for name, value in top.mapping("conversations").items():
            self.conversations[name] = _value_or_error(self.messages, value, ("conversations", name))
        for name, value in top.mapping("tools").items():
            self.tools[name] = _value_or_error(self.tool, value, ("tools", name))
        cases = top.section("cases", "a mapping of case names") if "cases" in top.value else None
        if cases is None or not cases.value:
            for value in (*self.conversations.values(), *self.tools.values()):
                if isinstance(value, ConfigError):
                    raise value
            raise top.error("cases" if cases else None, "no case here: name at least one under `cases:`")
        read: list[Case] = []
        broken: dict[str, ConfigError] = {}
        warnings: dict[str, tuple[str, ...]] = {}
        first: dict[str, str] = {}
        for name in cases.value:
            self.warnings = []
            try:
                twin = first.setdefault(name.lower(), name)
                if twin != name:
                    raise cases.error(name, f"{twin!r} and {name!r} differ by case alone: one golden on some disks")
                read.append(self.case(cases, name))
            except ConfigError as error:
                broken[name] = error
            warnings[name] = tuple(dict.fromkeys(self.warnings))
        for what, values in (("conversations", self.conversations), ("tools", self.tools)):
            for name, value in values.items():
                if isinstance(value, ConfigError) and (what, name) not in self.used:
                    broken[f"{what}.{name}"] = value
        return CaseFile(
            self.document.path, tuple(read), broken, {name: said for name, said in warnings.items() if said}
        )

    def case(self, cases: Section, name: str) -> Case:
        fault = check_name(name, "the case name")
        if fault:
            raise cases.error(name, fault)
        section = cases.section(name, "a mapping with `messages`, `session` or `requests`")
        section.only(_CASE_KEYS)
        requests = self.requests(section)
        several = len(requests) > 1
        models = self.models(section)
        engines = self.engines(section, models)
        prefix, prefix_by_model = self.prefix(section, several, models)
        return Case(
            name=name,
            file=self.file,
            golden_name=_without_suffix(self.file),
            line=self.document.line(section.where),
            requests=requests,
            shape=self.shape(section, requests),
            prefix=prefix,
            prefix_by_model=prefix_by_model,
            expect=self.expect(section, models, engines),
            stop=section.texts("stop") or (),
            models=models,
            engines=engines,
            marks=section.texts("marks") or (),
            control_tokens=self.control_tokens(section),
        )

    def requests(self, section: Section) -> tuple[Request, ...]:
        kinds = [key for key in ("messages", "session", "requests") if key in section.value]
        if len(kinds) != 1:
            found = " and ".join(f"`{key}`" for key in kinds) or "none of them"
            raise section.error(
                kinds[1] if kinds else None, f"a case has one of `messages`, `session`, `requests`; found {found}"
            )
        if kinds[0] == "requests":
            return self.several(section)
        defaults = self.defaults(section)
        conversation = self.conversation(section, kinds[0])
        if kinds[0] == "messages":
            return (self.request(section, conversation, defaults),)
        points = request_points(conversation)
        if not points:
            raise section.error("session", "no message of the user and no tool result here: no request would be sent")
        return tuple(self.request(section, conversation[:count], defaults) for count in points)

    def several(self, section: Section) -> tuple[Request, ...]:
        value = section.value["requests"]
        if isinstance(value, str) and value:
            return self.json_lines(section, value)
        if not isinstance(value, list) or not value:
            raise section.error(
                "requests", f"expected a list of requests or the path of a JSON Lines file, found {kind(value)}"
            )
        base = self.defaults(section)
        requests = []
        for index in range(len(value)):
            entry = self.document.section((*section.where, "requests", index), "a request (a mapping with `messages`)")
            entry.only(_REQUEST_KEYS)
            if "messages" not in entry.value:
                raise entry.error(None, "a request without `messages`")
            requests.append(self.request(entry, self.conversation(entry, "messages"), self.defaults(entry, base)))
        return tuple(requests)

    def defaults(self, section: Section, base: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What ``section`` says of a request beside its messages, over what the case says.

        A generation flag that nobody wrote is None: what it is depends on the other one.
        """
        base = base or {"tools": None, "template_kwargs": {}, **dict.fromkeys(FLAGS)}
        flags = {key: section.flag(key, False) if key in section.value else base[key] for key in FLAGS}
        if flags["continue_final_message"] and "add_generation_prompt" not in section.value:
            flags["add_generation_prompt"] = None
        return {
            "tools": self.tool_list(section) if "tools" in section.value else base["tools"],
            "template_kwargs": {**base["template_kwargs"], **self.template_kwargs(section)},
            **flags,
        }

    def request(self, section: Section, messages: list[Any], settings: Mapping[str, Any]) -> Request:
        try:
            return request_of(messages, settings)
        except ValueError as error:
            raise section.error("continue_final_message", str(error)) from None

    def template_kwargs(self, section: Section) -> dict[str, Any]:
        kwargs = section.mapping("template_kwargs")
        for key in kwargs:
            if key in RESERVED_KWARGS:
                raise self.document.error(
                    (*section.where, "template_kwargs", key),
                    f"{brief(key)} is no switch of a template: it is a key of the request itself, or belongs to the call",
                )
        where = (*section.where, "template_kwargs")
        self.checked(assert_text, kwargs, where)
        for place in sorted(self.document.bare_words, key=lambda it: (self.document.line(it), dotted_path(it))):
            if place[: len(where)] == where:
                value: Any = self.document.value
                for step in place:
                    value = value[step]
                self.warnings.append(
                    f"{shown(self.document.path)}:{self.document.line(place)}: {dotted_path(place)}: {value} is the string "
                    f"{value!r} (YAML 1.2: only `true`, `false` and `null` are none); put it in quotes if it is meant"
                )
        return kwargs

    def conversation(self, section: Section, key: str) -> list[Any]:
        value = section.value[key]
        if isinstance(value, str):
            if value not in self.conversations:
                hint = did_you_mean(value, self.conversations, "there are")
                raise section.error(key, f"no conversation {brief(value)} in this file{hint}")
            messages: list[Any] = self.named("conversations", self.conversations, value)
            return messages
        return self.messages(value, (*section.where, key))

    def named(self, what: str, values: Mapping[str, Any], name: str) -> Any:
        """A conversation or tool by its name; what is wrong with it is wrong with the case that uses it."""
        again = (what, name) in self.used
        self.used.add((what, name))
        error = values[name]
        if isinstance(error, ConfigError):
            if again:  # it was said in full for the case before
                place, line = f"{what}.{name}", self.document.line((what, name))
                raise ConfigError(f"{str(error).partition(': ')[0]}: {place} (line {line}) is broken: see above")
            raise error
        return values[name]

    def messages(self, value: Any, where: Where) -> list[Any]:
        if not isinstance(value, list):
            raise self.document.error(where, f"expected a list of messages, found {kind(value)}")
        self.checked(assert_valid, value, where)
        for index, message in enumerate(value):
            if "generated" in message:
                raise self.document.error(
                    (*where, index, "generated"), "this version does not compare what a model generated: take it out"
                )
        return value

    def tool_list(self, section: Section) -> list[Any] | None:
        value = section.value["tools"]
        if value is None:
            return None
        if not isinstance(value, list):
            raise section.error("tools", f"expected a list of tool names or schemas, found {kind(value)}")
        tools = []
        for index, entry in enumerate(value):
            where = (*section.where, "tools", index)
            if isinstance(entry, str):
                if entry not in self.tools:
                    hint = did_you_mean(entry, self.tools, "there are")
                    raise self.document.error(where, f"no tool {brief(entry)} in this file{hint}")
                tools.append(self.named("tools", self.tools, entry))
            else:
                tools.append(self.tool(entry, where))
        return tools

    def tool(self, value: Any, where: Where) -> Any:
        self.checked(assert_valid_tool, value, where)
        return value

    def checked(self, check: Any, value: Any, where: Where) -> None:
        """Run a check of messages or tools, and put the file and line before its complaint."""
        try:
            check(value)
        except InvalidConversation as error:
            raise self.document.error((*where, *error.where), str(error)) from None

    def json_lines(self, section: Section, value: str) -> tuple[Request, ...]:
        path = self.document.path.parent / value
        base = self.defaults(section)
        try:
            raw = path.read_bytes()
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            reason = getattr(error, "strerror", None) or str(error)
            raise section.error("requests", f"{brief(value)} cannot be read: {reason}") from None
        requests = read_json_lines(path, raw, base, self.warnings)
        if not requests:
            raise section.error("requests", f"{shown(path)} is empty: it needs one chat body a line")
        return requests

    def shape(self, section: Section, requests: tuple[Request, ...]) -> str:
        given = section.text("shape")
        if given is not None:
            fault = check_name(given, "the shape")
            if fault:
                raise section.error("shape", fault)
            return given
        if len(requests) > 1:
            return "session"
        if requests[0].tools:
            return "tools"
        return "thinking_off" if requests[0].template_kwargs.get("enable_thinking") is False else "plain"

    def prefix(
        self, section: Section, several: bool, models: tuple[str, ...]
    ) -> tuple[PrefixRule, dict[str, PrefixRule]]:
        if "prefix" not in section.value:
            return PrefixRule(), {}
        where = (*section.where, "prefix")
        value = section.value["prefix"]
        if not several and value not in ("stable", "off"):
            raise section.error("prefix", "this case makes one request: there is no other to share a prefix with")
        if not isinstance(value, dict) or "models" not in value:
            return self.prefix_rule(value, where, ("tail", "breaks", "models")), {}
        by_model = {}
        for model, rule in section.section("prefix").section("models", "a mapping of model names").value.items():
            self.known_model(model, (*where, "models", model))
            if model not in models:
                raise self.document.error((*where, "models", model), f"this case does not run on model {model!r}")
            by_model[model] = self.prefix_rule(rule, (*where, "models", model), ("tail", "breaks"))
        rest = {key: entry for key, entry in value.items() if key != "models"}
        return self.prefix_rule(rest, where, ("tail", "breaks", "models")), by_model

    def prefix_rule(self, value: Any, where: Where, keys: tuple[str, ...]) -> PrefixRule:
        if value == "stable":
            return PrefixRule()
        if value == "off":
            return PrefixRule(check=False)
        if not isinstance(value, dict):
            raise self.document.error(
                where, f"expected `stable`, `off` or a mapping ({', '.join(keys)}), found {kind(value)}"
            )
        section = Section(self.document, where, value)
        section.only(keys)
        breaks = section.value.get("breaks", [])
        if not isinstance(breaks, list):
            raise section.error("breaks", f"expected a list such as [{{at: 25, reason: ...}}], found {kind(breaks)}")
        documented = []
        for index in range(len(breaks)):
            entry = self.document.section((*where, "breaks", index), "a mapping with `at` and `reason`")
            entry.only(("at", "reason"))
            reason = entry.text("reason")
            if "at" not in entry.value or reason is None:
                raise entry.error(None, "a documented break needs `at` (the token) and `reason`")
            if reason.strip(". …") == "":
                raise entry.error("reason", f"{reason!r} is no reason: say why the prefix breaks there")
            documented.append(DocumentedBreak(entry.count("at", 0), reason))
        return PrefixRule(True, section.count("tail", 0), tuple(documented))

    def expect(
        self, section: Section, models: tuple[str, ...], chosen: tuple[str, ...] | None
    ) -> dict[str, Expectation]:
        if "expect" not in section.value:
            return {}
        engines = section.section("expect", "a mapping of engine names")
        pairs = [
            (model, engine.name)
            for model in models
            for engine in self.config.models[model].engines
            if chosen is None or engine.name in chosen
        ]
        known = {name for model, engine in pairs for name in (engine, f"{model}/{engine}")}
        expectations = {}
        for name in engines.value:
            if name not in known:
                raise engines.error(
                    name, f"this case has no such engine{did_you_mean(name, sorted(known), 'there are')}"
                )
            of = [self.config.models[model] for model, engine in pairs if engine == name]
            if of and all(model.reference.name == name for model in of):
                raise engines.error(name, f"{name} records the golden; it cannot differ from it")
            entry = engines.section(name, "a mapping with `differs` and `reason`")
            entry.only(("differs", "reason"))
            reason = entry.text("reason")
            if not entry.value.get("differs") or reason is None:
                raise entry.error(None, "a known difference needs `differs: [NAME, ...]` and a `reason`")
            if reason.strip(". …") == "":
                raise entry.error("reason", f"{reason!r} is no reason: say why {name} differs")
            differs = self.differs(entry)
            place = f"{shown(self.document.path)}:{self.document.line(entry.where)}"
            expectations[name] = Expectation(differs, reason, place)
        return expectations

    def differs(self, entry: Section) -> tuple[DeclaredCause, ...]:
        """The causes that ``expect`` names: each a name, or a name with its parameters."""
        from .causes.explanation import DeclaredCause
        from .causes.table import CAUSES

        listed = entry.value["differs"]
        if not isinstance(listed, list):
            raise entry.error("differs", f"expected a list of causes, found {kind(listed)}")
        causes: list[DeclaredCause] = []
        for index, value in enumerate(listed):
            where = (*entry.where, "differs", index)
            name, parameters = next(iter(value.items())) if isinstance(value, dict) and len(value) == 1 else (value, [])
            parameters = [parameters] if isinstance(parameters, str) else parameters
            texts = isinstance(parameters, list) and all(isinstance(it, str) for it in parameters)
            if not isinstance(name, str) or not texts or (isinstance(value, dict) and not parameters):
                raise self.document.error(where, f"expected NAME or {{NAME: [PARAMETER, ...]}}, found {kind(value)}")
            if name not in CAUSES and name != UNKNOWN:
                hint = did_you_mean(name, (*CAUSES, UNKNOWN), "known are")
                raise self.document.error(where, f"unknown cause {name!r}{hint}; `unknown` pins any difference")
            if any(cause.name == name for cause in causes):
                raise self.document.error(where, f"{name!r} stands here twice: give all its parameters at once")
            causes.append(DeclaredCause(name, tuple(parameters)))
        if len(causes) > 1 and any(cause.name == UNKNOWN for cause in causes):
            raise entry.error("differs", "`unknown` pins any difference: it stands alone")
        return tuple(causes)

    def control_tokens(self, section: Section) -> Literal["allow", "warn", "fail"]:
        value = section.text("control_tokens", "warn")
        choices: tuple[Literal["allow", "warn", "fail"], ...] = ("allow", "warn", "fail")
        for choice in choices:
            if value == choice:
                return choice
        raise section.error("control_tokens", f"expected {' or '.join(choices)}, found {value!r}")

    def models(self, section: Section) -> tuple[str, ...]:
        names = section.texts("models")
        if names is None:
            return tuple(self.config.models)
        if not names:
            raise section.error("models", "an empty list: the case would never run")
        for index, name in enumerate(names):
            self.known_model(name, (*section.where, "models", index))
        return tuple(dict.fromkeys(names))

    def known_model(self, name: str, where: Where) -> None:
        if name not in self.config.models:
            hint = did_you_mean(name, self.config.models, "it has")
            raise self.document.error(where, f"no model {brief(name)} in {shown(self.config.path)}{hint}")

    def engines(self, section: Section, models: tuple[str, ...]) -> tuple[str, ...] | None:
        names = section.texts("engines")
        if names is None:
            return None
        if not names:
            raise section.error("engines", "an empty list: the case would never run")
        known = dict.fromkeys(engine.name for model in models for engine in self.config.models[model].engines)
        for index, name in enumerate(names):
            if name not in known:
                hint = did_you_mean(name, known, "there are")
                raise self.document.error(
                    (*section.where, "engines", index), f"no engine {brief(name)} of this case's models{hint}"
                )
        return names


def _value_or_error(read: Callable[[Any, Where], Any], value: Any, where: Where) -> Any:
    try:
        return read(value, where)
    except ConfigError as error:
        return error


def _without_suffix(file: str) -> str:
    for suffix in SUFFIXES:
        if file.endswith(suffix):
            return file[: -len(suffix)]
    return str(Path(file).with_suffix("").as_posix())
