"""The engine contract: a request goes in, a rendering comes out."""

from __future__ import annotations

import operator
import sysconfig
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ..errors import EngineError, RequestRefused, TokenParityError
from ..request import Conversation, Request, Tools

if TYPE_CHECKING:
    from typing_extensions import Self


_PACKAGE = str(Path(__file__).parent.parent)
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

    def render(self, request: Request) -> Rendering:
        def ask() -> Rendering:
            own = request.copy()  # a renderer that changes what it is given must not change what the next engine sees
            ids = self.renderer.ids(own.messages, own.tools, **own.keywords)
            return Rendering(ids=token_ids(ids, f"the engine {self.name!r}"))

        return _guarded(self.name, ask)

    def version(self) -> str:
        kind = type(self.renderer)
        return f"{self.name} ({kind.__module__}.{kind.__qualname__})"


def checked_render(engine: Engine, name: str, request: Request) -> Rendering:
    """A rendering of any engine, somebody else's too: EngineError in one line for what is none, or raises."""
    if type(engine).__module__.startswith(f"{__package__}."):
        return engine.render(request)
    return _guarded(name, lambda: engine.render(request.copy()))


def _guarded(name: str, ask: Callable[[], Rendering]) -> Rendering:
    try:
        rendering: Any = ask()
        if isinstance(rendering, Rendering) and rendering.ids is not None:
            rendering = replace(rendering, ids=token_ids(rendering.ids, f"the engine {name!r}"))
    except RequestRefused as refusal:
        return Rendering(refused=str(refusal))
    except TokenParityError:
        raise
    except (Exception, SystemExit) as error:
        if is_template_error(error):
            return Rendering(refused=raised(error))
        raise EngineError(f"the engine {name!r} raised {raised(error)}") from error
    if not isinstance(rendering, Rendering):
        raise EngineError(f"the engine {name!r} must give a Rendering, it gave {type(rendering).__name__}")
    return rendering


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
    if isinstance(answer, (str, bytes, dict)) or not isinstance(answer, Iterable):
        raise EngineError(f"{source} must give a list of token IDs, it gave {type(answer).__name__}: {answer!r:.80}")
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
                f"{source} must give integers, it gave {type(entry).__name__} {entry!r:.40} at token {position}"
            ) from None
        if number < 0:
            raise EngineError(f"{source} gave a negative token ID, {number}, at token {position}")
        ids.append(number)
    return ids


def is_template_error(error: BaseException) -> bool:
    """Whether jinja2 raised it, which is how a chat template refuses a request; jinja2 is not imported to find out."""
    return any(kind.__module__ == "jinja2.exceptions" for kind in type(error).__mro__)


def raised(error: BaseException) -> str:
    """``KeyError: 'x' (prompts.py:12)``: an exception of other people's code, and the last line of theirs."""
    frames = traceback.extract_tb(error.__traceback__)
    last = [frame for frame in frames if not frame.filename.startswith((*_LIBRARIES, _PACKAGE, "<"))][-1:]
    place = f" ({Path(last[0].filename).name}:{last[0].lineno})" if last else ""
    return f"{type(error).__name__}: {one_line(str(error))}{place}"


def one_line(message: str, most: int = 300) -> str:
    """A message on one line, cut at ``most`` characters."""
    flat = " ".join(message.split())
    flat = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in flat)
    return flat if len(flat) <= most else flat[: most - 1] + "…"
