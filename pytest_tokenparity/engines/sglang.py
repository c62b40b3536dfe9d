"""SGLang: `/v1/tokenize` with messages, which runs the code of a chat completion. Measured on SGLang 0.5.23."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from ..errors import EngineError, WrongServer
from ..request import Request
from .base import Confirmation, Rendering
from .http import Reply
from .server import ChatServer, ServerEngine, identity

TOKENIZE = "/v1/tokenize"
_WANTS_PROMPT = re.compile(r"\bbody\W+prompt\W+(?:msg\W+)?field required", re.IGNORECASE)
"""What pydantic says where `prompt` is all that a body can hold; behind it stands the whole body."""


class SglangServer(ChatServer):
    """The routes of SGLang that engines use."""

    program = "SGLang"
    needs = "a version whose /v1/tokenize takes messages (0.5.23 does)"

    def version(self) -> str:
        version = self.told("/server_info").get("version")
        return f"sglang {version}" if isinstance(version, str) else "sglang"

    def tokenize(self, text: str, add_special: bool = True) -> list[int]:
        """The IDs of a string, as `/v1/completions` makes them: with special tokens added unless told otherwise."""
        self.check_model()
        reply = self.server.post(TOKENIZE, self.named({"prompt": text, "add_special_tokens": add_special}))
        return self.tokens(TOKENIZE, reply)

    def body(self, request: Request) -> dict[str, Any]:
        body = self.chat_body(request)
        if request.continue_final_message:
            body.pop("add_generation_prompt", None)  # it refuses the two together, whatever their values
        return body

    def refusal(self, reply: Reply) -> str | None:
        """The message with which the server refuses this request. EngineError if it takes no messages at all."""
        if reply.status not in (400, 422):
            return None
        message = reply.message.partition("\n\n  File")[0].partition(' File "')[0]  # then comes a path of the server's
        if _WANTS_PROMPT.search(message):
            raise WrongServer(f"{self.who} takes only `prompt` at {TOKENIZE}: it needs {self.needs}")
        return message


class SglangTokens(ServerEngine):
    """The IDs that SGLang makes of a chat request. The arguments are those of every server (:class:`ServerEngine`)."""

    default_name = "sglang"

    @cached_property
    def _sglang(self) -> SglangServer:
        return SglangServer(self._server, self.model)

    def render(self, request: Request) -> Rendering:
        self._sglang.check_model()  # SGLang answers whatever model a request names
        reply = self._server.post(TOKENIZE, self._sglang.body(request))
        if reply.ok:
            return Rendering(ids=self._sglang.tokens(TOKENIZE, reply))
        refused = self._sglang.refusal(reply)
        if refused is None:
            raise self._sglang.unusable(TOKENIZE, reply, "expected tokens")
        return Rendering(refused=refused)

    def confirm(self, request: Request) -> Confirmation | None:
        """The IDs that a chat completion was given."""
        path = "/v1/chat/completions"
        body = {**self._sglang.body(request), "max_tokens": 1, "return_prompt_token_ids": True}
        reply = self._server.post(path, body)
        choices = reply.body.get("choices") if reply.ok and isinstance(reply.body, dict) else None
        first = choices[0] if isinstance(choices, list) and choices else None
        ids = first.get("prompt_token_ids") if isinstance(first, dict) else None
        if not isinstance(ids, list):
            raise self._sglang.unusable(path, reply, "expected choices[0].prompt_token_ids")
        return Confirmation(ids=self._sglang.ids(ids), how=f"prompt_token_ids of {path}")

    def version(self) -> str:
        return self._sglang.version()

    def describe(self) -> str:
        try:
            served = self.model or ", ".join(self._sglang.models()) or "no model"
        except EngineError:
            served = self.model or "an unnamed model"
        return identity(self.version(), f" at {self._server.shown}, serving {served}")
