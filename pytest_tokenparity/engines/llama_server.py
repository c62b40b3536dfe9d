"""llama.cpp's `llama-server`: `/apply-template` for the text, `/tokenize` for the IDs.

Both run the code that a chat completion runs (`oaicompat_chat_params_parse`, then a tokenization that adds special tokens
and parses them), read in llama.cpp b11434 and seen on b11549.
"""

from __future__ import annotations

import os
import re
import struct
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import EngineError
from ..request import Request
from .base import Confirmation, Rendering, one_line
from .http import Reply
from .server import ChatServer, ServerEngine, identity, whole_number


class LlamaServer(ChatServer):
    """The routes of a llama-server that engines use."""

    program = "llama-server"
    needs = "a build of December 2025 or newer"

    def apply_template(self, request: Request) -> tuple[str | None, str | None]:
        """The prompt's text, or the message with which the server refuses the request: (text, refusal)."""
        self.check_model()
        reply = self.server.post("/apply-template", self.chat_body(request))
        if reply.ok:
            prompt = reply.body.get("prompt") if isinstance(reply.body, dict) else None
            if not isinstance(prompt, str):
                raise self.unusable("/apply-template", reply, 'expected {"prompt": "..."}')
            return prompt, None
        if _is_refusal(reply):
            return None, reply.message
        raise self.unusable("/apply-template", reply, "expected a prompt")

    def tokenize(self, text: str, add_special: bool = True, parse_special: bool = True) -> list[int]:
        self.check_model()
        body = {"content": text, "add_special": add_special, "parse_special": parse_special}
        reply = self.server.post("/tokenize", self.named(body))
        return self.tokens("/tokenize", reply)

    def saved_slot(self, slot: int, folder: Path) -> list[int]:
        """The IDs that a slot holds, from the file that ``/slots`` saves; the file is deleted. EngineError if there is none."""
        name = f"tokenparity-{os.getpid()}.bin"
        path = f"/slots/{slot}?action=save"
        reply = self.server.post(path, {"filename": name})
        count = whole_number(reply.body, "n_saved") if reply.ok else None
        if count is None:
            raise self.unusable(path, reply, "expected n_saved; start it with --slot-save-path")
        try:
            content = (folder / name).read_bytes()
            (folder / name).unlink()
        except OSError as error:
            raise EngineError(
                f"{self.who} saved its slot, and {folder / name} cannot be read: {error.strerror}; `slot_save_path` is "
                "the folder of its --slot-save-path, as this machine sees it"
            ) from None
        ids = _ids_of_slot(content, count)
        if ids is None:
            raise EngineError(
                f"{self.who} saves its slots in a layout that is not known here: leave `slot_save_path` out"
            )
        return ids

    def template_for(self, request: Request) -> str | None:
        props = self.told("/props")
        own = props.get("chat_template_tool_use") if request.tools else None
        template = own or props.get("chat_template")
        return template if isinstance(template, str) and template else None

    def version(self) -> str:
        """The build that ``/props`` tells."""
        build = self.told("/props").get("build_info")
        return f"llama-server {one_line(build, 60)}" if isinstance(build, str) else "llama-server"

    def describe(self) -> str:
        """The build, the address and the model's name."""
        props = self.told("/props")
        model = props.get("model_alias") or props.get("model_path") or "an unnamed model"
        return identity(self.version(), f" at {self.server.shown}, serving {model}")


class LlamaCppTokens(ServerEngine):
    """The IDs that a llama-server makes of a chat request.

    The arguments are those of every server (:class:`ServerEngine`); ``model`` is sent too, for a router.
    ``slot_save_path`` is the folder that the server was started with (``--slot-save-path``), as this machine sees it:
    there a confirming call's IDs can be read. A request that the server rejects (status 400 or 500 with llama.cpp's error
    object) is a refusal.
    """

    default_name = "llama-server"

    def __init__(self, *arguments: Any, slot_save_path: str | None = None, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._slots = Path(slot_save_path) if slot_save_path else None

    @cached_property
    def _llama(self) -> LlamaServer:
        return LlamaServer(self._server, self.model)

    def render(self, request: Request) -> Rendering:
        text, refusal = self._llama.apply_template(request)
        if text is None:
            return Rendering(refused=refusal)
        return Rendering(ids=self._llama.tokenize(text), text=text)

    def confirm(self, request: Request) -> Confirmation | None:
        """What a chat completion evaluates: the number of tokens, and their IDs where its slot can be read."""
        body = {**self._llama.chat_body(request), "max_tokens": 1}
        if self._slots is None:
            return self._usage(self._llama, "/v1/chat/completions", body)
        counted = self._usage(self._llama, "/v1/chat/completions", {**body, "id_slot": _SLOT})
        saved = self._llama.saved_slot(_SLOT, self._slots)
        return Confirmation(ids=saved[: counted.count], count=counted.count, how="the slot that the call filled")

    def tokenize(self, text: str, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """The IDs of a string; the defaults are what ``/completion`` does with a prompt that is a string."""
        return self._llama.tokenize(text, add_special, parse_special)

    def template_for(self, request: Request) -> str | None:
        """The chat template that ``/props`` shows: the one for tools where there is one and the request has tools."""
        return self._llama.template_for(request)

    def version(self) -> str:
        return self._llama.version()

    def describe(self) -> str:
        return self._llama.describe()


_SLOT = 0


def _ids_of_slot(content: bytes, count: int) -> list[int] | None:
    """The IDs in a saved slot, of which there are ``count``; None for a layout that is not known.

    `llama_state_seq_save_file` writes a magic, a version, a number and so many 32-bit integers. Up to 2025 these are the
    IDs; since then (seen on b11549) -1 and a version stand before their number and the IDs.
    """
    if len(content) < _HEADER.size:
        return None
    _, _, number = _HEADER.unpack_from(content)
    if len(content) < _HEADER.size + 4 * number:
        return None
    found = list(struct.unpack_from(f"<{number}i", content, _HEADER.size))
    if number == count:
        return found
    return found[3 : 3 + count] if number >= 3 + count and found[0] == -1 and found[2] == count else None


_HEADER = struct.Struct("<4sII")
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
