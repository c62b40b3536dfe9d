"""Causes around the template: another template, other variables, another clock, another language's JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..chat_template import TemplateEnvironment, plain_tojson, undeclared_variables
from . import families
from .cause import Cause, View
from .json_forms import NUMBERS, PRINTED, TEXTS, TextForm, tojson_with_forms, trimmed_as_ascii, written_as
from .prompt import Change, Layer

_DATES: tuple[tuple[str, str], ...] = (
    (r"\d{1,2} [A-Z][a-z]{2} \d{4}", "%d %b %Y"),
    (r"\d{4}-\d{2}-\d{2}", "%Y-%m-%d"),
    (r"[A-Z][a-z]{2,8} \d{1,2}, \d{4}", "%B %d, %Y"),
    (r"\d{1,2} [A-Z][a-z]{3,8} \d{4}", "%d %B %Y"),
    (r"\d{1,2}/\d{1,2}/\d{4}", "%m/%d/%Y"),
)
_BECAME = re.compile(r"(-?\d[\d.eE+-]*) became (-?\d[\d.eE+-]*)")
_MAYBE_ABSENT = ("tools", "documents", "add_generation_prompt")


def _numbers(view: View) -> Iterator[Change]:
    numbers = [
        (path, value)
        for path, value in _all_leaves(view)
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    for form in NUMBERS:
        moved = [
            (path, value)
            for path, value in numbers
            if form.write(value) != plain_tojson(value) or (form.prints and form.prints(value) != str(value))
        ]
        if not moved:
            continue
        became = dict.fromkeys(
            f"{plain_tojson(value)} became {form.write(value)}" for _, value in moved if form.write(value) != str(value)
        ) or dict.fromkeys(f"{value} became {(form.prints or form.write)(value)} outside JSON" for _, value in moved)

        def apply(environment: TemplateEnvironment, form: Any = form) -> TemplateEnvironment:
            return replace(
                environment,
                values=_both(environment.values, written_as(form)),
                tojson=tojson_with_forms(environment.tojson or plain_tojson),
            )

        yield Change(
            "tool-json-format",
            ", ".join(became),
            Layer.ENVIRONMENT,
            apply,
            tuple(path for path, _ in moved),
            any(view.fewer(plain_tojson(value)) for _, value in moved),
            order=6,
        )


def _texts(view: View) -> Iterator[Change]:
    strings = [(path, value) for path, value in _all_leaves(view) if isinstance(value, str)]
    whole = (*(["tools[0]"] if view.body.tools else []), *_argument_fields(view))
    for form in TEXTS:
        paths = whole if form.of is None else tuple(path for path, value in strings if form.of.search(value))
        if not paths:
            continue

        def apply(environment: TemplateEnvironment, form: TextForm = form) -> TemplateEnvironment:
            return replace(environment, tojson=form.form(environment.tojson or plain_tojson))

        evidence = view.more(form.shows) if form.shows else view.fewer('": ')
        yield Change("tool-json-format", form.becomes, Layer.ENVIRONMENT, apply, paths, evidence, order=form.kind)
    for name, printed in PRINTED:

        def print_as(environment: TemplateEnvironment, printed: Any = printed) -> TemplateEnvironment:
            return replace(environment, printed=printed)

        evidence = any(view.fewer(word) for word in ("None", "True", "False", "['", "{'", "[{"))
        paths = tuple(_printed_oddly(view))
        yield Change("tool-json-format", name, Layer.ENVIRONMENT, print_as, paths, evidence, order=7)


def _json_format(view: View) -> Iterator[Change]:
    yield from _numbers(view)
    yield from _texts(view)


def _json_fix(parameters: Sequence[str]) -> str:
    """Numbers can be sent as the engine writes them, unless that is another number; the rest is the dumper's."""
    fixes: dict[str, None] = {}
    for parameter in parameters:
        form = next((form for form in TEXTS if form.becomes == parameter), None)
        if form is not None and form.is_dumpers:
            fixes["write JSON as the template does: json.dumps(value, ensure_ascii=False)"] = None
        elif form is not None:
            fixes["leave what is escaped out of descriptions and arguments"] = None
        elif parameter in dict(PRINTED):
            fixes["send what the template prints outside JSON as text"] = None
        for before, after in _BECAME.findall(parameter):
            same = math.isclose(float(before), float(after), rel_tol=1e-5)
            fixes[f"write {before} as {after}" if same else f"leave {before} out, or send it as a string"] = None
    return "; ".join(fixes) or "write values as the template does"


def _printed_oddly(view: View) -> Iterator[str]:
    """The arguments of calls that are no text and no number: what a template may print outside JSON."""
    for index, message in enumerate(view.body.messages):
        for number, call in enumerate(message.get("tool_calls") or []):
            function = call.get("function", call) if isinstance(call, dict) else {}
            arguments = function.get("arguments")
            for key, value in arguments.items() if isinstance(arguments, dict) else ():
                if value is None or isinstance(value, (bool, list, dict)):
                    yield f"messages[{index}].tool_calls[{number}].function.arguments.{key}"


def _argument_fields(view: View) -> tuple[str, ...]:
    """The first arguments of a call, where JSON is written when there are no tools."""
    return tuple(path.partition(".arguments")[0] + ".arguments" for path, _ in view.leaves if ".arguments" in path)[:1]


def _all_leaves(view: View) -> Iterator[tuple[str, Any]]:
    """Leaves as they are asked, and those of arguments that an engine may have parsed from a string."""
    from .cause import leaves_of

    yield from view.leaves
    for path, value in view.leaves:
        if path.endswith("arguments") and isinstance(value, str):
            try:
                parsed = json.loads(value)
            except ValueError:
                continue
            if isinstance(parsed, (Mapping, list)):
                yield from leaves_of(parsed, path)


def _date(view: View) -> Iterator[Change]:
    if view.refused:
        return
    source = view.prompts.engine.template_for(view.changed.request)
    names = undeclared_variables(source)
    if "strftime_now" not in source and not names & {"date_string", "datetime", "current_date", "today"}:
        return
    for pattern, form in _DATES:
        for written in dict.fromkeys(re.findall(pattern, view.target)):
            if not view.more(written):
                continue
            try:
                then = datetime.strptime(written, form)
            except ValueError:
                continue

            def apply(
                environment: TemplateEnvironment, written: str = written, then: datetime = then
            ) -> TemplateEnvironment:
                clock = environment.clock
                moment = then if clock is None else datetime.combine(then.date(), clock.time())
                dates = dict.fromkeys(("date_string", "current_date", "today"), written)
                return replace(environment, clock=moment, variables={**dates, **environment.variables, **dates})

            field = "the clock" if "strftime_now" in source else "template_kwargs.date_string"
            yield Change("date", written, Layer.ENVIRONMENT, apply, (field,), order=4)


def _both(first: Any, then: Any) -> Any:
    """Two rewritings of values, one after the other."""
    return then if first is None else lambda value: then(first(value))


def trimmed(view: View) -> Iterator[Change]:
    """Spaces beyond ASCII, which some template engines do not trim."""
    paths = tuple(
        path
        for path, value in view.leaves
        if isinstance(value, str) and value.strip() != trimmed_as_ascii(value).strip()
    )

    def apply(environment: TemplateEnvironment) -> TemplateEnvironment:
        return replace(environment, values=_both(environment.values, trimmed_as_ascii))

    if paths:
        yield Change("whitespace", "only spaces of ASCII are trimmed", Layer.ENVIRONMENT, apply, paths, order=1)


def _undefined(view: View) -> Iterator[Change]:
    if view.refused:
        names = frozenset(_MAYBE_ABSENT)
    else:
        names = undeclared_variables(view.prompts.engine.template_for(view.changed.request)) & frozenset(_MAYBE_ABSENT)
    asked = {"tools": bool(view.body.tools), "add_generation_prompt": view.body.add_generation_prompt}
    absent = sorted(name for name in names if not asked.get(name) and not view.body.template_kwargs.get(name))
    source = "" if view.refused else view.prompts.engine.template_for(view.changed.request)
    for name in absent:

        def apply(environment: TemplateEnvironment, name: str = name) -> TemplateEnvironment:
            return replace(environment, undefined=environment.undefined | {name})

        asks = re.search(rf"\b{name}\s+is\s+(?:not\s+)?(?:un)?defined", source) is not None
        yield Change("undefined-variables", name, Layer.ENVIRONMENT, apply, (name,), asks, order=8)


def _template(view: View) -> Iterator[Change]:
    if view.template is None:
        return
    shown = view.template

    def apply(environment: TemplateEnvironment) -> TemplateEnvironment:
        return replace(environment, template=shown)

    yield Change(
        "template-differs", f"{len(shown)} characters", Layer.ENVIRONMENT, apply, ("the chat template",), order=0
    )


def _family(view: View) -> Iterator[Change]:
    if view.engine in ("llama-server", "vllm", "vllm-tokenize", "sglang", "tgi", "transformers", "tokenizers"):
        return  # these render the model's own template
    if view.template is not None:
        return  # the engine shows what it renders with
    for name, (template, shows) in families.TEMPLATES.items():

        def apply(environment: TemplateEnvironment, template: str = template) -> TemplateEnvironment:
            return replace(environment, template=template)

        evidence = shows in view.target and (view.refused or view.more(shows) or view.engine == "shimmy")
        if shows in view.target:
            yield Change("template-family", name, Layer.ENVIRONMENT, apply, ("the chat template",), evidence, order=0)


CAUSES = (
    Cause(
        "template-differs",
        "with the chat template that the engine shows ({})",
        "give the engine the model's current template (llama-server: --chat-template-file), or set `template:`",
        {"llama-server": "b11549", "vllm": "0.33.0"},
        _template,
    ),
    Cause(
        "template-family",
        "with the {} family in place of the model's own chat template",
        "choose the right family for the model, or an engine that renders the model's own template",
        {"shimmy": "2.5.0 (source)"},
        _family,
    ),
    Cause(
        "tool-json-format",
        "with values written otherwise ({})",
        _json_fix,
        {
            "llama-server": "b11549",
            "client-completion": "minijinja 3.1.0, @huggingface/jinja 0.5.11",
            "tgi": "3.3.7 (source)",
            "ollama": "v0.33.0-rc2 (source)",
        },
        _json_format,
    ),
    Cause(
        "date",
        "with the date {}",
        "pin the date: `template_kwargs: {date_string: ...}`, or `clock:` of the model",
        {"llama-server": "b11549"},
        _date,
    ),
    Cause(
        "undefined-variables",
        "with {} not defined",
        "write `{% if tools %}` in the template, not `{% if tools is defined %}`",
        {"llama-server": "b11549"},
        _undefined,
    ),
)
