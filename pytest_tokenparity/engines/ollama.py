"""Ollama: the text of a chat request from `_debug_render_only`; Ollama shows no IDs.

Read in Ollama's sources of August 2026 (v0.33.0-rc2: `server/routes.go`, `server/prompt.go`); no package brings a server to
run. The IDs are those of the model's own tokenizer on Ollama's text: never more than partly checked.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..errors import EngineError, WrongServer
from ..request import Request
from .base import Confirmation, Rendering
from .http import Reply
from .server import ChatServer, ServerEngine, identity, whole_number

if TYPE_CHECKING:
    from .tokenizers import TokenizerFiles

CHAT = "/api/chat"
COMPUTED = "Ollama shows no IDs: those of the model's own tokenizer on its text were compared"


class OllamaServer(ChatServer):
    """The routes of Ollama that the engine uses."""

    program = "Ollama"
    needs = "a version with _debug_render_only (0.12 or newer)"

    def body(self, request: Request) -> dict[str, Any]:
        """A request in the form of ``/api/chat``: arguments as mappings, and `think` for `enable_thinking`."""
        body: dict[str, Any] = {"messages": [_message(message) for message in request.messages], "stream": False}
        if request.tools is not None:
            body["tools"] = list(request.tools)
        thinking = request.template_kwargs.get("enable_thinking")
        if thinking is not None:
            body["think"] = thinking
        return {**self.named(body), "truncate": False}


class OllamaTokens(ServerEngine):
    """The text that Ollama makes of a chat request, and the IDs that the model's own tokenizer makes of that text.

    ``tokenizer`` is the model's tokenizer; ``model`` the name that Ollama serves it under. The other arguments are those of
    every server.
    """

    default_name = "ollama"

    def __init__(self, base_url: str, *args: Any, tokenizer: TokenizerFiles | None = None, **access: Any) -> None:
        super().__init__(base_url, *args, **access)
        self._tokenizer = tokenizer
        if not self.model:
            raise EngineError(f"{self.name}: Ollama serves many models: name one with `model:`, such as qwen3:0.6b")

    @cached_property
    def _ollama(self) -> OllamaServer:
        return OllamaServer(self._server, self.model)

    def render(self, request: Request) -> Rendering:
        reply = self._server.post(CHAT, {**self._ollama.body(request), "_debug_render_only": True})
        if not reply.ok:
            return Rendering(refused=self._refusal(reply))
        info = reply.body.get("_debug_info") if isinstance(reply.body, dict) else None
        text = info.get("rendered_template") if isinstance(info, dict) else None
        if not isinstance(text, str):
            raise self._ollama.unusable(CHAT, reply, f"expected _debug_info; it needs {self._ollama.needs}")
        if self._tokenizer is None:
            return Rendering(text=text, unseen=("Ollama shows no IDs",))
        return Rendering(ids=self._tokenizer.encode_prompt(text), text=text, unseen=(COMPUTED,))

    def confirm(self, request: Request) -> Confirmation | None:
        """The number of tokens that a chat evaluates, BOS included."""
        body = {**self._ollama.body(request), "options": {"num_predict": 1}}
        reply = self._server.post(CHAT, body)
        count = whole_number(reply.body, "prompt_eval_count") if reply.ok else None
        if count is None:
            raise self._ollama.unusable(CHAT, reply, "expected prompt_eval_count")
        return Confirmation(count=count, how=f"prompt_eval_count of {CHAT}")

    def version(self) -> str:
        version = self._ollama.told("/api/version").get("version")
        return f"ollama {version}" if isinstance(version, str) else "ollama"

    def describe(self) -> str:
        return identity(self.version(), f" at {self._server.shown}, serving {self.model}")

    def _refusal(self, reply: Reply) -> str:
        if reply.status == 404 and "not found" in reply.message:
            try:
                served = ", ".join(self._ollama.models()) or "no model"
            except EngineError:  # an older one lists them elsewhere
                served = "other models"
            raise WrongServer(
                f"{self._ollama.who} serves {served}, not {self.model!r} (`model:`): pull it, or name another",
                "correct `model:`",
            )
        if reply.status != 400 or not reply.message:
            raise self._ollama.unusable(CHAT, reply, "expected a rendered prompt")
        return reply.message


def _message(message: Any) -> dict[str, Any]:
    """A message as ``/api/chat`` takes it: its OpenAI route parses the arguments of calls in the same way."""
    made = dict(message)
    calls = []
    for call in made.get("tool_calls") or []:
        function = dict(call.get("function", call))
        if isinstance(function.get("arguments"), str):
            with suppress(ValueError):  # Ollama says that it is none
                function["arguments"] = json.loads(function["arguments"] or "{}")
        calls.append({**call, "function": function})
    return {**made, "tool_calls": calls} if calls else made
