"""A chat template rendered by Jinja2 alone, in the environment that Transformers gives it.

What Transformers does was read in `utils/chat_template_utils.py` and `tokenization_utils_base.py` of 5.24. Here each part
of it (template, variables, `tojson`, clock, what is done to messages first) can be exchanged, which is how causes are tried.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .errors import EngineError, RequestRefused
from .request import Request

if TYPE_CHECKING:
    from jinja2 import Environment as JinjaEnvironment
    from jinja2 import Template, TemplateSyntaxError
    from jinja2.runtime import Context

ToJson = Callable[..., str]
"""``tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False) -> str``"""

REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")
"""The keys under which a message's reasoning is passed; templates read the first."""

_TAG = "CONTINUE_FINAL_MESSAGE_TAG "  # Transformers' own; the space at its end tells whether the template trims
_OURS = "tokenparity:environment"  # no template can name a variable with a colon


@dataclass(frozen=True)
class Conventions:
    """What is done to messages before a template sees them.

    ``drop_null_keys``: a key whose value is null is left out; ``alias_reasoning``: reasoning under any of its names is
    given under all. Transformers does both since 5.20 or later, seen in 5.24.
    """

    drop_null_keys: bool = True
    alias_reasoning: bool = True


@dataclass(frozen=True)
class TemplateEnvironment:
    """What surrounds a template while it renders; the defaults are Transformers'.

    ``template`` None is the model's own. ``variables`` stand beside the request's; the request's own win. The names of
    ``undefined`` are not defined at all. ``clock`` None is the real time. ``printed`` rewrites what ``{{ }}`` prints.
    """

    template: str | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    undefined: frozenset[str] = frozenset()
    clock: datetime | None = None
    tojson: ToJson | None = None
    printed: Callable[[Any], Any] | None = None
    values: Callable[[Any], Any] | None = None
    """Rewrites messages and tools, leaf by leaf, as the template's language would hold them."""
    conventions: Conventions = Conventions()
    lenient: bool = False
    """Whether a request without messages is rendered, and what is not there prints as nothing, attributes of it too."""


def render(template: str, request: Request, environment: TemplateEnvironment) -> str:
    """The prompt's text.

    RequestRefused with the message of whatever the template raises. jinja2's TemplateSyntaxError for a template that is
    none.
    """
    compiled = _compiled(template, environment.printed is not None, environment.lenient)
    try:
        return _rendered(compiled, template, request, environment)
    except RequestRefused:
        raise
    except Exception as error:  # a template is a program: it can raise anything
        from .engines.base import one_line

        raise RequestRefused(one_line(str(error) or type(error).__name__)) from None


def no_template(error: TemplateSyntaxError | SyntaxError, place: str, file: str) -> EngineError:
    """What to say of a template with a syntax error: its file and line, or ``place``, which names the tokenizer."""
    if isinstance(error, SyntaxError):  # of the Python that jinja2 made of the template: its line says nothing
        return EngineError(f"{file or f'{place}: the chat template'} has a syntax error: {error.msg}")
    if file:
        return EngineError(f"{file}:{error.lineno}: {error.message}")
    return EngineError(f"{place}: the chat template has a syntax error on line {error.lineno}: {error.message}")


@lru_cache(maxsize=64)
def undeclared_variables(template: str) -> frozenset[str]:
    """The variables that a template reads from outside, also those that it sets itself where they are undefined."""
    from jinja2 import meta

    return frozenset(meta.find_undeclared_variables(_environment().parse(template)))


def plain_tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Transformers' `tojson`: Python's own JSON, nothing escaped for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _rendered(compiled: Template, source: str, request: Request, environment: TemplateEnvironment) -> str:
    if not request.messages and not environment.lenient:
        raise RequestRefused("Cannot apply chat template to an empty conversation. Provide at least one message.")
    if request.continue_final_message and request.add_generation_prompt:
        raise RequestRefused("continue_final_message and add_generation_prompt are not compatible.")
    if not all(isinstance(document, Mapping) for document in request.template_kwargs.get("documents") or ()):
        raise RequestRefused("Documents should be a list of dicts with 'title' and 'text' keys!")
    messages = [_prepared(message, environment.conventions) for message in request.messages]
    tools: Any = None if request.tools is None else list(request.tools)
    if environment.values is not None:
        messages, tools = environment.values(messages), environment.values(tools)
    continued = _tag(messages, source) if request.continue_final_message else None
    variables: dict[str, Any] = {
        **environment.variables,
        "documents": None,
        **request.template_kwargs,
        "messages": messages,
        "tools": tools,
        "add_generation_prompt": request.add_generation_prompt,
    }
    for name in environment.undefined:
        if not (variables.get(name) or name in request.template_kwargs):
            variables.pop(name, None)
    text = compiled.render({**variables, _OURS: environment})
    return text if continued is None else _cut(text, continued)


def _prepared(message: Mapping[str, Any], conventions: Conventions) -> dict[str, Any]:
    prepared = dict(message)
    if conventions.drop_null_keys:
        prepared = {key: value for key, value in prepared.items() if value is not None}
    if conventions.alias_reasoning:
        known = next((prepared[key] for key in REASONING_FIELDS if prepared.get(key) is not None), None)
        if known is not None:
            prepared = {"thinking": known, **prepared, "reasoning_content": known}
    return prepared


def _tag(messages: list[dict[str, Any]], source: str) -> str:
    """Put a tag after the text that is to be continued; gives that text."""
    last = messages[-1]
    content = last.get("content")
    if content is None:
        raise RequestRefused('continue_final_message is set but the final message has no "content" to continue!')
    if "content" not in source:
        raise RequestRefused("continue_final_message is set, but the chat template does not read `content`")
    if isinstance(content, str):
        last["content"] = content + _TAG
        return content
    parts = [dict(part) if isinstance(part, Mapping) else part for part in content]
    for part in reversed(parts):
        if "text" in part:
            text: str = part["text"]
            part["text"] = text + _TAG
            last["content"] = parts
            return text
    raise RequestRefused("continue_final_message is set but the final message holds no text to continue!")


def _cut(text: str, continued: str) -> str:
    bare = _TAG.strip()
    if continued.strip() not in text or bare not in text:
        raise RequestRefused(
            "continue_final_message is set but the final message does not appear in the chat after applying the chat "
            "template!"
        )
    at = text.rindex(bare)
    return text[:at] if text[at : at + len(_TAG)] == _TAG else text[:at].rstrip()


@lru_cache(maxsize=64)
def _compiled(source: str, finalized: bool, lenient: bool) -> Template:
    return _environment(finalized, lenient).from_string(source)


@lru_cache(maxsize=4)
def _environment(finalized: bool = False, lenient: bool = False) -> JinjaEnvironment:
    """The sandbox, the filters and the functions that a chat template finds in Transformers."""
    import jinja2.ext
    from jinja2 import ChainableUndefined, TemplateError, Undefined, nodes, pass_context
    from jinja2.exceptions import SecurityError
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    class Generation(jinja2.ext.Extension):
        """``{% generation %}`` marks what the model wrote, for training: it prints its body."""

        tags = {"generation"}  # noqa: RUF012  (jinja2 declares it so)

        def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            call = self.call_method("_print")
            return nodes.CallBlock(call, [], [], body).set_lineno(line)

        def _print(self, caller: Callable[[], str]) -> str:
            return caller()

    class ClosedNamespace(Namespace):
        """A namespace whose names do not start with an underscore: templates are programs of strangers."""

        def __init__(*args: Any, **kwargs: Any) -> None:  # a template may call namespace(self=...)
            self, *positional = args
            values = dict(*positional, **kwargs)
            for name in values:
                ClosedNamespace._check(name)
            Namespace.__init__(self, values)

        def __setitem__(self, name: str, value: Any) -> None:
            ClosedNamespace._check(name)
            super().__setitem__(name, value)

        @staticmethod
        def _check(name: str) -> None:
            if isinstance(name, str) and name.startswith("_"):
                raise SecurityError(f"Chat templates cannot store {name!r} on a namespace")

    class Dictionary:
        """``dict`` as templates may use it: a call and ``fromkeys``, and no way to the type behind it."""

        def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
            return dict(*args, **kwargs)

        def fromkeys(self, *args: Any) -> dict[Any, Any]:
            return dict.fromkeys(*args)

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    @pass_context
    def strftime_now(context: Context, format: str) -> str:  # noqa: A002  (the name that templates may use)
        environment: TemplateEnvironment = context[_OURS]
        return (environment.clock or datetime.now()).strftime(format)

    @pass_context
    def tojson(context: Context, value: Any, *args: Any, **kwargs: Any) -> str:
        environment: TemplateEnvironment = context[_OURS]
        return (environment.tojson or plain_tojson)(value, *args, **kwargs)

    @pass_context
    def finalize(context: Context, value: Any) -> Any:
        environment: TemplateEnvironment = context[_OURS]
        return value if environment.printed is None else environment.printed(value)

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols],
        finalize=finalize if finalized else None,
        undefined=ChainableUndefined if lenient else Undefined,
    )
    made.filters["tojson"] = tojson
    made.globals.update(
        raise_exception=raise_exception, strftime_now=strftime_now, dict=Dictionary(), namespace=ClosedNamespace
    )
    return made
