"""The engine contract: a request goes in, a rendering comes out."""

from __future__ import annotations

import inspect
import operator
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Set
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from ..errors import ConfigError, EngineError, EngineUnreachable, RequestRefused
from ..request import Conversation, Request, Tools
from ..words import brief
from ..words import one_line as one_line

if TYPE_CHECKING:
    from typing_extensions import Self


_PACKAGE = str(Path(__file__).parent.parent)
_PYTEST = "_pytest."
_Answer = TypeVar("_Answer")
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@dataclass(frozen=True)
class Rendering:
    """What an engine answered to one request.

    ``ids`` are the prompt's token IDs as the engine showed them, or None; ``text`` is the prompt's text, or None;
    ``count`` is the number of tokens, or None. ``refused`` is the engine's message when it does not render the request.
    ``unseen`` says in words what the engine could not show: a rendering with ``unseen`` is never a plain pass.
    """

    ids: list[int] | None = None
    text: str | None = None
    count: int | None = None
    refused: str | None = None
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wait:
    """How long to wait for a server, in seconds: while it says that it is loading, and while nothing listens yet."""

    loading: float = 30.0
    refused: float = 0.0


@dataclass(frozen=True)
class Confirmation:
    """What a real call said of its prompt: its IDs, or at least their number; neither where it tells nothing.

    ``how`` names what told it.
    """

    ids: list[int] | None = None
    count: int | None = None
    how: str = ""


@runtime_checkable
class TokenRenderer(Protocol):
    """All that a new engine needs: a name, and the token IDs of a request.

    ``add_generation_prompt`` and ``continue_final_message`` come as keywords only when they are not the default. To
    refuse a request as a template does, raise :class:`pytest_tokenparity.RequestRefused` with the message.
    """

    @property
    def name(self) -> str: ...

    def ids(self, conversation: Conversation, tools: Tools | None = None, **template_kwargs: Any) -> list[int]: ...


class Engine:
    """Base of the package's engines: :meth:`render` is the whole of the work, :meth:`ids` is the public short form."""

    name: str
    concurrency = 0
    """How many requests a run sends at once, ahead of the items that need them; 0: each is rendered when it is needed."""

    def render(self, request: Request) -> Rendering:
        """Render one request. A refusal is a Rendering; EngineError and EngineUnreachable say why there is none."""
        raise NotImplementedError(f"{type(self).__name__} must define render")

    def ids(self, conversation: Conversation, tools: Tools | None = None, **template_kwargs: Any) -> list[int]:
        """The prompt's token IDs. RequestRefused if the engine refuses the request, EngineError if it shows no IDs."""
        return ids_of(self.render(Request.of(conversation, tools, **template_kwargs)), self.name)

    def text(self, request: Request) -> str:
        """The prompt's text. RequestRefused if the engine refuses the request, EngineError if it shows no text."""
        rendering = self.render(request)
        if rendering.refused is not None:
            raise RequestRefused(rendering.refused)
        if rendering.text is None:
            raise EngineError(f"{self.name} shows no prompt text")
        return rendering.text

    def confirm(self, request: Request) -> Confirmation | None:  # noqa: ARG002  # for engines that ask a server
        """What a real call that generates one token says of its prompt; None for an engine that makes none.

        EngineError if the call fails.
        """
        return None

    def template_for(self, request: Request) -> str | None:  # noqa: ARG002  # for engines that have one
        """The chat template that renders this request, as text, or None. A golden keeps its hash."""
        return None

    def version(self) -> str:
        """Program and version, such as ``transformers 5.24.0``: what a golden says it was recorded by."""
        return self.name

    def describe(self) -> str:
        """Which program answers and where, in one line, as far as it tells of itself."""
        return self.version()

    def close(self) -> None:
        """Let go of connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RendererEngine(Engine):
    """An engine of somebody else's: a TokenRenderer behind the contract."""

    def __init__(self, renderer: TokenRenderer, name: str) -> None:
        self.renderer = renderer
        self.name = name
        self._called = inspect.getattr_static(renderer, "ids", None)

    def render(self, request: Request) -> Rendering:
        def ask() -> Rendering:
            own = request.copy()  # a renderer that changes what it is given must not change what the next engine sees
            ids = self.renderer.ids(own.messages, own.tools, **own.keywords)
            return Rendering(ids=token_ids(ids, f"the engine {self.name!r}"))

        return _guarded(self.name, ask, self._called)

    def version(self) -> str:
        kind = type(self.renderer)
        return f"{self.name} ({kind.__module__}.{kind.__qualname__})"


class NamedEngine(Engine):
    """An Engine of somebody else's behind a guard, under the name that the configuration gives it."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name

    def render(self, request: Request) -> Rendering:
        return checked_render(self.engine, self.name, request)

    def text(self, request: Request) -> str:
        if type(self.engine).text is Engine.text:
            return super().text(request)
        text: str = self._text("text", lambda: self.engine.text(request.copy()))
        return text

    def confirm(self, request: Request) -> Confirmation | None:
        who = f"the engine {self.name!r}: `confirm`"
        found = asked(who, lambda: self.engine.confirm(request.copy()))
        if found is not None and not isinstance(found, Confirmation):
            raise EngineError(f"{who} must give a Confirmation or None, it gave {_a(found, 'confirm')}")
        return found

    def template_for(self, request: Request) -> str | None:
        ask = self.engine.template_for
        template: str | None = self._text("template_for", lambda: ask(request.copy()), optional=True)
        return template

    def version(self) -> str:
        if type(self.engine).version is Engine.version:
            return self.name
        return one_line(self._text("version", self.engine.version))

    def describe(self) -> str:
        if type(self.engine).describe is Engine.describe:
            return self.version()
        return one_line(self._text("describe", self.engine.describe))

    def close(self) -> None:
        self.engine.close()

    def _text(self, method: str, ask: Callable[[], Any], optional: bool = False) -> Any:
        """What a method that gives a text gave; EngineError if it is none."""
        answer = asked(f"the engine {self.name!r}: `{method}`", ask)
        if not (isinstance(answer, str) or (optional and answer is None)):
            raise EngineError(f"the engine {self.name!r}: `{method}` must give a string, it gave {_a(answer, method)}")
        return answer


def named_engine(own: Any, name: str) -> Engine | None:
    """What a hook gave, behind the contract and under a name of its own; None if it is no engine.

    It is never renamed: it may be frozen, or stand under two names.
    """
    if isinstance(own, type):
        return None
    if isinstance(own, Engine):
        if not _is_ours(own):
            return NamedEngine(own, name)
        ours = copy(own)
        ours.name = name
        return ours
    return RendererEngine(own, name) if _has(own, "name") and _has(own, "ids") else None


def checked_render(engine: Engine, name: str, request: Request) -> Rendering:
    """A rendering of any engine, somebody else's too: EngineError in one line for what is none, or raises."""
    if _is_ours(engine):
        return engine.render(request)

    def ask() -> Rendering:
        return _validated(engine.render(request.copy()), f"the engine {name!r}")

    return _guarded(name, ask, type(engine).render, "(request)")


def asked(who: str, ask: Callable[[], _Answer], called: Any = None, takes: str = "", refusing: str = "") -> _Answer:
    """What other people's code answers. What it raises is a RequestRefused or an EngineError, of one line."""
    try:
        return ask()
    except RequestRefused as refusal:
        raise RequestRefused(_text_of(refusal)) from None
    except ConfigError:
        raise
    except EngineError as error:
        message = _text_of(error, 1000) or f"{who} raised {type(error).__name__} without a message"
        if message == str(error):
            raise
        if isinstance(error, EngineUnreachable):
            raise EngineUnreachable(message, error.advice) from None
        raise EngineError(message) from None
    except BaseException as error:
        if is_not_ours(error):
            raise
        if is_template_error(error):
            raise RequestRefused(f"{refusing}{raised(error)}") from error
        raise EngineError(f"{who} raised {raised(error, called, takes)}") from error


def is_not_ours(error: BaseException) -> bool:
    """Whether an exception ends more than a rendering: Ctrl-C, or what pytest ends a test with."""
    return isinstance(error, KeyboardInterrupt) or any(
        kind.__module__.startswith(_PYTEST) for kind in type(error).__mro__
    )


def _guarded(
    name: str,
    ask: Callable[[], Rendering],
    called: Any,
    takes: str = "(conversation, tools=None, **template_kwargs)",
) -> Rendering:
    try:
        return asked(f"the engine {name!r}", ask, called, takes)
    except RequestRefused as refusal:
        return Rendering(refused=str(refusal))


def _validated(rendering: Any, source: str) -> Rendering:
    """A rendering whose every part is what it should be. EngineError for anything else."""
    if not isinstance(rendering, Rendering):
        raise EngineError(f"{source} must give a Rendering, it gave {_a(rendering, 'render')}")
    ids, count, unseen = rendering.ids, rendering.count, rendering.unseen
    for part, value in (("text", rendering.text), ("refused", rendering.refused)):
        if not (value is None or isinstance(value, str)):
            raise EngineError(f"{source} must give `{part}` as a string or None, it gave {_a(value)}")
    if count is not None:
        if isinstance(count, bool) or not hasattr(count, "__index__") or operator.index(count) < 0:
            raise EngineError(f"{source} must give `count` as a whole number or None, it gave {_a(count)}")
        count = operator.index(count)
    if not isinstance(unseen, (tuple, list)) or not all(isinstance(entry, str) for entry in unseen):
        raise EngineError(f"{source} must give `unseen` as a tuple of strings, it gave {_a(unseen)}")
    return Rendering(
        None if ids is None else token_ids(ids, source),
        rendering.text,
        count,
        None if rendering.refused is None else one_line(rendering.refused),
        tuple(map(one_line, unseen)),
    )


def _is_ours(engine: Engine) -> bool:
    return type(engine).__module__.startswith(f"{__package__}.")


def _has(own: Any, attribute: str) -> bool:
    """Whether an object has an attribute; a property that raises is one."""
    try:
        return hasattr(own, attribute)
    except Exception:
        return True


def _a(answer: Any, method: str = "") -> str:
    """What was given instead of what was wanted."""
    if inspect.iscoroutine(answer):
        answer.close()  # nobody will await it
        return f"a coroutine: {f'`{method}`' if method else 'it'} must not be async"
    return f"{type(answer).__name__} {brief(answer)}"


def ids_of(rendering: Rendering, name: str) -> list[int]:
    """The IDs of a rendering. RequestRefused if there is a refusal instead, EngineError if the engine shows none."""
    if rendering.refused is not None:
        raise RequestRefused(f"{name} refuses the request: {rendering.refused}")
    if rendering.ids is None:
        raise EngineError(f"{name} shows no token IDs: {'; '.join(rendering.unseen) or 'it did not say why'}")
    return rendering.ids


def token_ids(answer: Any, source: str) -> list[int]:
    """``answer`` as a plain list of IDs; arrays and tensors of one dimension are taken. EngineError for anything else."""
    if hasattr(answer, "tolist"):
        answer = answer.tolist()
    if inspect.iscoroutine(answer):
        raise EngineError(f"{source} must give a list of token IDs, it gave {_a(answer, 'ids')}")
    if isinstance(answer, (str, bytes, dict, Set)) or not isinstance(answer, Iterable):
        unordered = ", which has no order" if isinstance(answer, Set) else ""
        found = f"{type(answer).__name__}{unordered}: {brief(answer, 80)}"
        raise EngineError(f"{source} must give a list of token IDs, it gave {found}")
    entries: list[Any] = list(answer)
    if set(map(type, entries)) <= {int} and (not entries or min(entries) >= 0):
        return entries
    ids = []
    for position, entry in enumerate(entries):
        try:
            if isinstance(entry, bool):
                raise TypeError
            number = operator.index(entry)
        except TypeError:
            raise EngineError(
                f"{source} must give integers, it gave {type(entry).__name__} {brief(entry, 40)} at token {position}"
            ) from None
        if number < 0:
            raise EngineError(f"{source} gave a negative token ID, {number}, at token {position}")
        ids.append(number)
    return ids


def is_template_error(error: BaseException) -> bool:
    """Whether jinja2 raised it, which is how a chat template refuses a request; jinja2 is not imported to find out."""
    return any(kind.__module__ == "jinja2.exceptions" for kind in type(error).__mro__)


def raised(error: BaseException, called: Any = None, takes: str = "") -> str:
    """``KeyError: 'x' (prompts.py:12)``: an exception of other people's code, and the last line of theirs.

    ``called`` is what was called, and ``takes`` the arguments it should take: a call that does not fit has no line of
    theirs.
    """
    frames = traceback.extract_tb(error.__traceback__)
    last = [frame for frame in frames if not frame.filename.startswith((*_LIBRARIES, _PACKAGE, "<"))][-1:]
    place = f" ({Path(last[0].filename).name}:{last[0].lineno})" if last else ""
    if takes and isinstance(error, TypeError) and all(frame.filename.startswith(_PACKAGE) for frame in frames):
        place = f"{_place_of(called)}: it should take {takes}"
    return f"{type(error).__name__}: {_text_of(error)}{place}"


def _text_of(error: BaseException, most: int = 300) -> str:
    """The text of an exception, on one line; its ``__str__`` is other people's code too."""
    try:
        return one_line(str(error), most)
    except Exception as fault:
        return f"(its text cannot be had: __str__ raised {type(fault).__name__})"


def _place_of(called: Any) -> str:
    """`` (prompts.py:3)``, where a function is written; nothing if that is not known."""
    function = getattr(called, "__func__", called)
    code = getattr(function, "__code__", None) or getattr(vars(type(function)).get("__call__"), "__code__", None)
    return f" ({Path(code.co_filename).name}:{code.co_firstlineno})" if code else ""
