"""vLLM: `/v1/chat/completions/render` for the IDs of a chat request, or `/tokenize` where the server does not offer it.

Measured on vLLM 0.33.0. `/render` runs what a chat completion runs; `/tokenize` does not in all cases: it loses past
`reasoning_content`, and knows no `reasoning_effort` and no `documents`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ..errors import EngineError, WrongServer
from ..request import Request
from .base import Confirmation, Rendering
from .http import Reply
from .server import ChatServer, ServerEngine, identity

RENDER = "/v1/chat/completions/render"
TOKENIZE = "/tokenize"
_NO_TOOL_FLAGS = (
    "calls with tools fail: vLLM was started without --enable-auto-tool-choice and --tool-call-parser; seen with "
    "`tool_choice: none`"
)
_NEEDS_TOOL_FLAGS = '"auto" tool choice requires'


class VllmServer(ChatServer):
    """The routes of vLLM that engines use."""

    program = "vLLM"
    needs = "vLLM 0.15.1 or newer"

    def version(self) -> str:
        version = self.told("/version").get("version")
        return f"vllm {version}" if isinstance(version, str) else "vllm"

    def tokenize(self, text: str, add_special: bool = True) -> list[int]:
        """The IDs of a string, as `/v1/completions` makes them: with special tokens added unless told otherwise."""
        reply = self.server.post(TOKENIZE, self.named({"prompt": text, "add_special_tokens": add_special}))
        if not reply.ok:
            self.refusal(reply)  # another model than the one that is served
        return self.tokens(TOKENIZE, reply)

    def called(self, path: str, body: dict[str, Any]) -> Confirmation:
        """The IDs that a call of one token was given: a chat shows them itself, a completion in its choice."""
        reply = self.server.post(path, {**body, "max_tokens": 1, "return_token_ids": True})
        if reply.status == 404 and "does not exist" not in reply.message:
            return Confirmation()  # a server that only renders
        choices = reply.body.get("choices") if "prompt" in body and isinstance(reply.body, dict) else None
        told = Reply(reply.status, choices[0]) if isinstance(choices, list) and choices else reply
        return Confirmation(ids=self.tokens(path, told, "prompt_token_ids"), how=f"prompt_token_ids of {path}")

    def refusal(self, reply: Reply) -> str | None:
        """The message with which the server refuses this request; EngineError if the error is not about the request."""
        if reply.status == 404 and "does not exist" in reply.message:
            raise WrongServer(
                f"{self.who} serves {', '.join(self.models()) or 'no model'}, not {self.model!r} (`model:`)",
                "correct `model:`",
            )
        # 422: a body of another shape; 400 names the part of it.
        return reply.message if reply.status in (400, 422) else None


class VllmTokens(ServerEngine):
    """The IDs that vLLM makes of a chat request.

    Asks `/v1/chat/completions/render` where the server offers it (`vllm launch render`, or `--enable-scale-out`), else
    `/tokenize`; requests for which that is known to differ from a chat completion are then not observable. The arguments
    are those of every server (:class:`ServerEngine`).
    """

    default_name = "vllm"

    @cached_property
    def _vllm(self) -> VllmServer:
        return VllmServer(self._server, self.model)

    @cached_property
    def _renders(self) -> bool:
        """Whether the server offers `/render`; it is asked with a request that every model takes."""
        reply = self._server.post(RENDER, self._vllm.named({"messages": [{"role": "user", "content": "Hi"}]}))
        return reply.status not in (403, 404, 405) or "does not exist" in reply.message

    def render(self, request: Request) -> Rendering:
        if self._renders:
            return self._by_render(request)
        lost = _lost_by_tokenize(request)
        if lost is not None:
            return Rendering(unseen=(f"{TOKENIZE} alone is offered, which {lost}; start vLLM with --enable-scale-out",))
        return self._by_tokenize(request)

    def confirm(self, request: Request) -> Confirmation | None:
        """The IDs that a chat completion was given; a server that only renders cannot tell."""
        return self._vllm.called("/v1/chat/completions", self._vllm.chat_body(request))

    def version(self) -> str:
        return self._vllm.version()

    def describe(self) -> str:
        route = RENDER if self.__dict__.get("_renders", True) else TOKENIZE
        return identity(self.version(), f" at {self._server.shown} by {route}, serving {_served(self._vllm)}")

    def _by_render(self, request: Request) -> Rendering:
        body = self._vllm.chat_body(request)
        reply = self._server.post(RENDER, body)
        unseen: tuple[str, ...] = ()
        if not reply.ok and _NEEDS_TOOL_FLAGS in reply.message:
            # A client's call fails so; what it would render can be asked for all the same.
            reply = self._server.post(RENDER, {**body, "tool_choice": "none"})
            unseen = (_NO_TOOL_FLAGS,)
        if not reply.ok:
            refused = self._vllm.refusal(reply)
            if refused is None:
                raise self._vllm.unusable(RENDER, reply, "expected token_ids")
            return Rendering(refused=refused)
        return Rendering(ids=self._vllm.tokens(RENDER, reply, "token_ids"), unseen=unseen)

    def _by_tokenize(self, request: Request) -> Rendering:
        reply = self._server.post(TOKENIZE, self._vllm.chat_body(request))
        if not reply.ok:
            refused = self._vllm.refusal(reply)
            if refused is None:
                raise self._vllm.unusable(TOKENIZE, reply, "expected tokens")
            return Rendering(refused=refused)
        return Rendering(ids=self._vllm.tokens(TOKENIZE, reply))


class VllmTokenizeTokens(VllmTokens):
    """The IDs that vLLM's `/tokenize` makes of messages, whatever else the server offers."""

    default_name = "vllm-tokenize"

    def render(self, request: Request) -> Rendering:
        return self._by_tokenize(request)

    def describe(self) -> str:
        return identity(self.version(), f" at {self._server.shown} by {TOKENIZE}, serving {_served(self._vllm)}")


def _lost_by_tokenize(request: Request) -> str | None:
    """What `/tokenize` is known to render otherwise than a chat completion, if this request has it."""
    if any(message.get("reasoning_content") for message in request.messages):
        return "loses past `reasoning_content`"
    if request.tools is not None and not request.tools:
        return "takes an empty list of tools, which chat refuses"
    for key in ("reasoning_effort", "documents"):
        if key in request.template_kwargs:
            return f"does not know `{key}`"
    return None


def _served(server: VllmServer) -> str:
    try:
        return server.model or ", ".join(server.models()) or "no model"
    except EngineError:
        return server.model or "an unnamed model"
