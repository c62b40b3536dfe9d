"""A client that renders the prompt itself and posts the string to `/completion` of a llama-server."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EngineError, RequestRefused
from ..request import Request
from .base import Engine, Rendering, Wait, is_template_error, raised
from .http import DEFAULT_TIMEOUT, JsonServer
from .llama_server import LlamaServer

if TYPE_CHECKING:
    import httpx

Render = Callable[..., str]
"""``render(conversation, tools=None, **template_kwargs) -> str``"""


class ClientCompletionTokens(Engine):
    """The IDs that a llama-server makes of a string which ``render`` made.

    ``/completion`` tokenizes a string with special tokens added and parsed; ``add_special`` and ``parse_special`` set to
    False show a client that tokenizes otherwise before it posts the IDs. A ``render`` refuses a request by raising
    RequestRefused or an error of jinja2's; whatever else it raises is a fault, an EngineError.
    """

    def __init__(
        self,
        render: Render,
        base_url: str,
        transport: httpx.BaseTransport | None = None,
        *,
        name: str = "client-completion",
        model: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        wait: Wait | None = None,
        add_special: bool = True,
        parse_special: bool = True,
    ) -> None:
        self.name = name
        self._render = render
        self._server = JsonServer(base_url, name, transport, timeout, wait)
        self._llama = LlamaServer(self._server, model)
        self._how = (add_special, parse_special)

    def render(self, request: Request) -> Rendering:
        try:
            text = self.text(request)
        except RequestRefused as refusal:
            return Rendering(refused=str(refusal))
        return Rendering(ids=self._llama.tokenize(text, *self._how), text=text)

    def text(self, request: Request) -> str:
        own = request.copy()  # a renderer that changes what it is given must not change what the next engine sees
        try:
            text = self._render(own.messages, own.tools, **own.keywords)
        except (RequestRefused, EngineError):
            raise
        except (Exception, SystemExit) as error:
            if is_template_error(error):
                raise RequestRefused(f"render raised {raised(error)}") from error
            raise EngineError(f"{self.name}: `render` raised {raised(error)}") from error
        if not isinstance(text, str):
            raise EngineError(
                f"{self.name}: `render` must return the prompt as a string, it returned {type(text).__name__}"
            )
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise EngineError(f"{self.name}: `render` returned half of a surrogate pair, which no server can be sent")
        return text

    def version(self) -> str:
        return f"a rendered string posted to {self._llama.version()}"

    def describe(self) -> str:
        return f"{self.name}: a rendered string posted to {self._llama.server.shown}"

    def close(self) -> None:
        self._server.close()


def render_of(engine: Engine) -> Render:
    """A client's render that gives the very text which ``engine`` renders."""

    def render(conversation: Any, tools: Any = None, **template_kwargs: Any) -> str:
        return engine.text(Request.of(conversation, tools, **template_kwargs))

    return render


def import_render(path: str, folder: Path, place: str) -> Render:
    """The function that ``module:function`` names; modules in ``folder`` can be imported too. EngineError if it is not there."""
    module_name, colon, attribute = path.partition(":")
    if not (module_name and colon and attribute):
        raise EngineError(f"{place}: `render` must be `module:function`, found {path!r}")
    entry = str(folder)
    added = entry not in sys.path
    if added:
        sys.path.insert(0, entry)
    try:
        found: Any = importlib.import_module(module_name)
        for step in attribute.split("."):
            found = getattr(found, step)
    except (Exception, SystemExit) as error:  # importing runs the user's code
        raise EngineError(f"{place}: `render: {path}` cannot be imported: {raised(error)}") from error
    finally:
        if added and entry in sys.path:
            sys.path.remove(entry)
    if not callable(found):
        raise EngineError(f"{place}: `render: {path}` is {type(found).__name__}, not a function")
    render: Render = found
    return render
