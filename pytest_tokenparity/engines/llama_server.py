"""llama.cpp's `llama-server`: `/apply-template` for the text, `/tokenize` for the IDs.

Both run the code that a chat completion runs (`oaicompat_chat_params_parse`, then a tokenization that adds special tokens
and parses them), read in llama.cpp b11434 and seen on b11549.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..errors import EngineError
from ..request import Request
from .base import Engine, Rendering, Wait, one_line, token_ids
from .http import DEFAULT_TIMEOUT, IDENTITY_TIMEOUT, JsonServer, Reply

if TYPE_CHECKING:
    import httpx


class LlamaServer:
    """The routes of a llama-server that engines use."""

    def __init__(self, server: JsonServer, model: str | None) -> None:
        self.server = server
        self.model = model
        self._model_is_served = model is None

    def apply_template(self, request: Request) -> tuple[str | None, str | None]:
        """The prompt's text, or the message with which the server refuses the request: (text, refusal)."""
        self._check_model()
        reply = self.server.post("/apply-template", self._body(request))
        if reply.ok:
            prompt = reply.body.get("prompt") if isinstance(reply.body, dict) else None
            if not isinstance(prompt, str):
                raise self._unusable("/apply-template", reply, 'expected {"prompt": "..."}')
            return prompt, None
        if _is_refusal(reply):
            return None, reply.message
        raise self._unusable("/apply-template", reply, "expected a prompt")

    def tokenize(self, text: str, add_special: bool = True, parse_special: bool = True) -> list[int]:
        self._check_model()
        body = {"content": text, "add_special": add_special, "parse_special": parse_special}
        reply = self.server.post("/tokenize", self._named(body))
        tokens = reply.body.get("tokens") if reply.ok and isinstance(reply.body, dict) else None
        if not isinstance(tokens, list):
            raise self._unusable("/tokenize", reply, 'expected {"tokens": [...]}')
        return token_ids(tokens, f"{self.server.name} at {self.server.shown}")

    def version(self) -> str:
        """The build that ``/props`` tells."""
        build = self._props().get("build_info")
        return f"llama-server {one_line(build, 60)}" if isinstance(build, str) else "llama-server"

    def describe(self) -> str:
        """The build, the address and the model's name."""
        props = self._props()
        model = props.get("model_alias") or props.get("model_path") or "an unnamed model"
        return one_line(f"{self.version()} at {self.server.shown}, serving {model}", 160)

    def _check_model(self) -> None:
        """EngineError, once for a server, if it serves other models than the one that the configuration names.

        llama-server answers whatever ``model`` a request names (but for a router), so nothing else would tell.
        """
        if self._model_is_served:
            return
        reply = self.server.get("/v1/models")
        entries = reply.body.get("data") if reply.ok and isinstance(reply.body, dict) else None
        if not isinstance(entries, list):
            raise self._unusable("/v1/models", reply, 'expected {"data": [...]}')
        served: list[str] = []
        for entry in entries:
            if isinstance(entry, dict):
                aliases = entry.get("aliases")
                served += [str(name) for name in [entry.get("id"), *(aliases if isinstance(aliases, list) else [])]]
        if self.model not in served:
            names = ", ".join(dict.fromkeys(served)) or "no model"
            raise EngineError(
                f"{self.server.name} at {self.server.shown} serves {names}, not {self.model!r} (`model:`)"
            )
        self._model_is_served = True

    def _props(self) -> dict[str, Any]:
        reply = self.server.get("/props", timeout=IDENTITY_TIMEOUT)
        return reply.body if reply.ok and isinstance(reply.body, dict) else {}

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {"messages": list(request.messages)}
        if request.tools is not None:
            body["tools"] = list(request.tools)
        if request.template_kwargs:
            body["chat_template_kwargs"] = dict(request.template_kwargs)
        if not request.add_generation_prompt:
            body["add_generation_prompt"] = False
        if request.continue_final_message:
            body["continue_final_message"] = True
        return self._named(body)

    def _named(self, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "model": self.model} if self.model else body

    def _unusable(self, path: str, reply: Reply, expected: str) -> EngineError:
        server = f"{self.server.name} at {self.server.shown}"
        if reply.status in (401, 403):
            return EngineError(
                f"{server} wants a key, which this version cannot send ({reply.status}: {reply.message})"
            )
        if reply.status == 404 and self.server.shown.endswith("/v1"):
            root = self.server.shown.removesuffix("/v1")
            return EngineError(f"{server} has no {path}: give the server's root, `url: {root}`, without /v1")
        if reply.status == 404:
            return EngineError(
                f"{server} has no {path} ({reply.message}): an older build, or not a llama-server? "
                "It needs a build of December 2025 or newer"
            )
        return EngineError(f"{server} answered {path} with status {reply.status}: {reply.message}; {expected}")


class LlamaCppTokens(Engine):
    """The IDs that a llama-server makes of a chat request.

    ``base_url`` like ``http://localhost:8080``; ``model`` is sent when the server is a router; ``timeout`` in seconds.
    A request that the server rejects (status 400 or 500 with llama.cpp's error object) is a refusal.
    """

    def __init__(
        self,
        base_url: str,
        transport: httpx.BaseTransport | None = None,
        *,
        name: str = "llama-server",
        model: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        wait: Wait | None = None,
    ) -> None:
        self.name = name
        self._server = JsonServer(base_url, name, transport, timeout, wait)
        self._llama = LlamaServer(self._server, model)

    def render(self, request: Request) -> Rendering:
        text, refusal = self._llama.apply_template(request)
        if text is None:
            return Rendering(refused=refusal)
        return Rendering(ids=self._llama.tokenize(text), text=text)

    def tokenize(self, text: str, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """The IDs of a string; the defaults are what ``/completion`` does with a prompt that is a string."""
        return self._llama.tokenize(text, add_special, parse_special)

    def version(self) -> str:
        return self._llama.version()

    def describe(self) -> str:
        return self._llama.describe()

    def close(self) -> None:
        self._server.close()


_NOT_THE_REQUEST = re.compile(r"\bmodel\b.*\bnot found\b|--jinja\b|api key|out of memory", re.IGNORECASE)


def _is_refusal(reply: Reply) -> bool:
    """Whether an error is the server's word on this request.

    llama.cpp answers 400 when the template raises, and 500 when its parser rejects the body ("Failed to parse messages:
    Missing 'role'"). A missing model, a flag that the server was not started with or an exhausted machine come with the
    same numbers, and say nothing of the request.
    """
    if not (isinstance(reply.body, dict) and isinstance(reply.body.get("error"), dict)):
        return False
    if _NOT_THE_REQUEST.search(reply.message):
        return False
    return reply.status == 400 or (reply.status == 500 and reply.message.startswith(("Failed to parse", "Unable to")))
