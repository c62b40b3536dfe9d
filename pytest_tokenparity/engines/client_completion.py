"""A client that renders the prompt itself and posts the string to the completion endpoint of a server."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EngineError, RequestRefused
from ..request import Request
from .base import Confirmation, Engine, Rendering, asked, is_not_ours, raised
from .llama_server import LlamaServer
from .server import ServerEngine, whole_number
from .sglang import SglangServer
from .vllm import VllmServer

if TYPE_CHECKING:
    import httpx

Render = Callable[..., str]
"""``render(conversation, tools=None, **template_kwargs) -> str``"""


SERVERS = ("llama-server", "vllm", "sglang")
"""The servers to which a string can be posted."""


class ClientCompletionTokens(ServerEngine):
    """The IDs that a server makes of a string which ``render`` made.

    ``server`` says which program it is: each tokenizes a string for its completion endpoint with special tokens added and
    parsed. ``add_special`` and ``parse_special`` (llama-server alone) set to False show a client that tokenizes otherwise
    before it posts the IDs. The other arguments are those of every server (:class:`ServerEngine`). A ``render`` refuses a request by raising
    RequestRefused or an error of jinja2's; whatever else it raises is a fault, an EngineError.
    """

    default_name = "client-completion"

    def __init__(
        self,
        render: Render,
        base_url: str,
        transport: httpx.BaseTransport | None = None,
        *,
        server: str = "llama-server",
        add_special: bool = True,
        parse_special: bool = True,
        **access: Any,
    ) -> None:
        super().__init__(base_url, transport, **access)
        if server not in SERVERS:
            raise EngineError(f"{self.name}: `server` must be one of {', '.join(SERVERS)}, found {server!r}")
        if server != "llama-server" and not parse_special:
            raise EngineError(f"{self.name}: only llama-server can be told not to parse special tokens, not {server}")
        self._render = render
        self._to = server
        self._add_special, self._parse_special = add_special, parse_special

    def render(self, request: Request) -> Rendering:
        try:
            text = self.text(request)
        except RequestRefused as refusal:
            return Rendering(refused=str(refusal))
        return Rendering(ids=self._tokenize(text), text=text)

    def text(self, request: Request) -> str:
        own = request.copy()  # a renderer that changes what it is given must not change what the next engine sees
        text = asked(
            f"{self.name}: `render`",
            lambda: self._render(own.messages, own.tools, **own.keywords),
            self._render,
            "(conversation, tools=None, **template_kwargs)",
            "render raised ",
        )
        if inspect.iscoroutine(text):
            text.close()  # nobody will await it
            raise EngineError(f"{self.name}: `render` must return the prompt as a string: it must not be async")
        if not isinstance(text, str):
            raise EngineError(
                f"{self.name}: `render` must return the prompt as a string, it returned {type(text).__name__}"
            )
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise EngineError(f"{self.name}: `render` returned half of a surrogate pair, which no server can be sent")
        return text

    def confirm(self, request: Request) -> Confirmation | None:
        """What the completion endpoint makes of the posted string: the IDs where the server is vLLM, else their number."""
        text = self.text(request)
        if isinstance(self._posted_to, LlamaServer):
            if not (self._add_special and self._parse_special):
                return Confirmation()  # a client that posts IDs, which are evaluated as they are
            reply = self._server.post("/completion", self._posted_to.named({"prompt": text, "n_predict": 1}))
            count = whole_number(reply.body, "tokens_evaluated") if reply.ok else None
            if count is None:
                raise self._posted_to.unusable("/completion", reply, "expected tokens_evaluated")
            return Confirmation(count=count, how="tokens_evaluated of /completion")
        body: dict[str, Any] = self._posted_to.named({"prompt": text, "max_tokens": 1})
        if not self._add_special:
            body["add_special_tokens"] = False
        if isinstance(self._posted_to, VllmServer):
            return self._posted_to.called("/v1/completions", body)
        return self._usage(self._posted_to, "/v1/completions", body)

    def version(self) -> str:
        return f"a rendered string posted to {self._posted_to.version()}"

    def describe(self) -> str:
        return f"{self.name}: a rendered string posted to {self._server.shown}"

    @cached_property
    def _posted_to(self) -> LlamaServer | VllmServer | SglangServer:
        if self._to == "vllm":
            return VllmServer(self._server, self.model)
        return (SglangServer if self._to == "sglang" else LlamaServer)(self._server, self.model)

    def _tokenize(self, text: str) -> list[int]:
        server = self._posted_to
        if isinstance(server, LlamaServer):
            return server.tokenize(text, self._add_special, self._parse_special)
        return server.tokenize(text, self._add_special)


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
    render: Render = import_object(path, folder, f"{place}: `render: {path}`", "a function")
    return render


def import_object(path: str, folder: Path, what: str, kind: str) -> Any:
    """What ``module:name`` names, which can be called; modules in ``folder`` can be imported too.

    EngineError, which starts with ``what``, if it is not there, or cannot be called as a function or class (``kind``) can.
    """
    module_name, _, attribute = path.partition(":")
    entry = str(folder)
    added = entry not in sys.path
    if added:
        sys.path.insert(0, entry)
    try:
        found: Any = importlib.import_module(module_name)
        for step in attribute.split("."):
            found = getattr(found, step)
    except BaseException as error:  # importing runs the user's code
        if is_not_ours(error):
            raise
        raise EngineError(f"{what} cannot be imported: {raised(error)}") from error
    finally:
        if added and entry in sys.path:
            sys.path.remove(entry)
    if not callable(found):
        raise EngineError(f"{what} is {type(found).__name__}, not {kind}")
    return found
