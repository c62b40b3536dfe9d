"""Text Generation Inference: `/chat_tokenize` gives the text and the IDs of a chat request.

Read in TGI's sources at 3.3.7 (`router/src/server.rs`, `infer/chat_template.rs`); no package brings a server to run. It
takes no `chat_template_kwargs` and always adds the generation prompt: what a request says of these is ignored by a real
call as well.
"""

from __future__ import annotations

from functools import cached_property

from ..request import Request
from .base import Confirmation, Rendering
from .server import ChatServer, ServerEngine, identity

CHAT_TOKENIZE = "/chat_tokenize"


class TgiServer(ChatServer):
    """The routes of TGI that the engine uses."""

    program = "TGI"
    needs = "TGI 2.0.3 or newer"


class TgiTokens(ServerEngine):
    """The IDs and the text that TGI makes of a chat request. The arguments are those of every server."""

    default_name = "tgi"

    @cached_property
    def _tgi(self) -> TgiServer:
        return TgiServer(self._server, self.model)

    def render(self, request: Request) -> Rendering:
        self._tgi.check_model()  # TGI answers whatever model a request names
        reply = self._server.post(CHAT_TOKENIZE, self._tgi.chat_body(request))
        if not reply.ok:
            if reply.status in (400, 422):
                return Rendering(refused=reply.message)
            raise self._tgi.unusable(CHAT_TOKENIZE, reply, "expected tokenize_response and templated_text")
        body = reply.body if isinstance(reply.body, dict) else {}
        entries, text = body.get("tokenize_response"), body.get("templated_text")
        if not (isinstance(entries, list) and isinstance(text, str) and all(isinstance(it, dict) for it in entries)):
            raise self._tgi.unusable(CHAT_TOKENIZE, reply, "expected tokenize_response and templated_text")
        ids = self._tgi.ids([entry.get("id") for entry in entries])
        return Rendering(ids=ids, text=text)

    def confirm(self, request: Request) -> Confirmation | None:
        """The number of tokens that a chat completion counts."""
        return self._usage(self._tgi, "/v1/chat/completions", {**self._tgi.chat_body(request), "max_tokens": 1})

    def version(self) -> str:
        version = self._tgi.told("/info").get("version")
        return f"tgi {version}" if isinstance(version, str) else "tgi"

    def describe(self) -> str:
        served = self._tgi.told("/info").get("model_id") or self.model or "an unnamed model"
        return identity(self.version(), f" at {self._server.shown}, serving {served}")
