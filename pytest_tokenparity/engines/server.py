"""What every engine behind HTTP does alike: which model is served, what an error says, who answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import EngineError, WrongServer
from ..request import Request
from .base import Confirmation, Engine, one_line, token_ids
from .http import DEFAULT_TIMEOUT, IDENTITY_TIMEOUT, Access, JsonServer, Reply

if TYPE_CHECKING:
    import httpx

    from .base import Wait


CONCURRENCY = 8


class ChatServer:
    """The routes of one inference server: how it is asked, and what is wrong with an answer that cannot be used.

    ``program`` is what it should be, such as ``vLLM``; ``needs`` says which version has the routes that are asked.
    """

    program = "server"
    needs = ""

    def __init__(self, server: JsonServer, model: str | None) -> None:
        self.server = server
        self.model = model
        self._model_is_served = model is None
        self._told: dict[str, Any] = {}

    @property
    def who(self) -> str:
        return f"{self.server.name} at {self.server.shown}"

    def chat_body(self, request: Request) -> dict[str, Any]:
        """A request as the body of ``/v1/chat/completions``: what is the default is left out, as clients do."""
        body: dict[str, Any] = {"messages": list(request.messages)}
        if request.tools is not None:
            body["tools"] = list(request.tools)
        if request.template_kwargs:
            body["chat_template_kwargs"] = dict(request.template_kwargs)
        if not request.add_generation_prompt:
            body["add_generation_prompt"] = False
        if request.continue_final_message:
            body["continue_final_message"] = True
        return self.named(body)

    def named(self, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "model": self.model} if self.model else body

    def tokens(self, path: str, reply: Reply, key: str = "tokens") -> list[int]:
        """The IDs that an answer holds under ``key``. EngineError if it holds none."""
        tokens = reply.body.get(key) if reply.ok and isinstance(reply.body, dict) else None
        if not isinstance(tokens, list):
            raise self.unusable(path, reply, f'expected {{"{key}": [...]}}')
        if not tokens:  # llama-server, too, has a /tokenize, and answers what it does not understand with no token
            raise WrongServer(f"{self.who} answered {path} with no token at all: is it a {self.program}?")
        return self.ids(tokens)

    def ids(self, tokens: list[Any]) -> list[int]:
        """What a server gave as IDs. EngineError if it is none."""
        return token_ids(tokens, self.who)

    def check_model(self) -> None:
        """EngineError, once for a server, if it serves other models than the one that the configuration names.

        Some servers answer whatever ``model`` a request names, so nothing else would tell.
        """
        if self._model_is_served:
            return
        served = self.models()
        if self.model not in served:
            names = ", ".join(dict.fromkeys(served)) or "no model"
            raise WrongServer(f"{self.who} serves {names}, not {self.model!r} (`model:`)", "correct `model:`")
        self._model_is_served = True

    def models(self) -> list[str]:
        """The names of the models that ``/v1/models`` lists, their aliases included."""
        reply = self.server.get("/v1/models")
        entries = reply.body.get("data") if reply.ok and isinstance(reply.body, dict) else None
        if not isinstance(entries, list):
            raise self.unusable("/v1/models", reply, 'expected {"data": [...]}')
        served: list[str] = []
        for entry in entries:
            if isinstance(entry, dict):
                aliases = entry.get("aliases")
                served += [str(name) for name in [entry.get("id"), *(aliases if isinstance(aliases, list) else [])]]
        return served

    def told(self, path: str) -> dict[str, Any]:
        """What a server tells of itself at ``path``, asked once; nothing where it tells nothing."""
        if path not in self._told:
            try:
                reply = self.server.get(path, timeout=IDENTITY_TIMEOUT)
                self._told[path] = reply.body if reply.ok and isinstance(reply.body, dict) else {}
            except EngineError:
                self._told[path] = {}
        found: dict[str, Any] = self._told[path]
        return found

    def unusable(self, path: str, reply: Reply, expected: str) -> EngineError:
        """What to say of an answer that cannot be used."""
        if reply.status in (401, 403):
            if self.server.access.api_key:
                return WrongServer(
                    f"{self.who} wants another key ({reply.status}: {reply.message})",
                    "give the variable that `api_key_env:` names the right key",
                )
            return WrongServer(
                f"{self.who} wants a key ({reply.status}: {reply.message}); name its variable with `api_key_env:`",
                "name the variable that holds its key with `api_key_env:`",
            )
        if reply.status == 404 and self.server.shown.endswith("/v1"):
            root = self.server.shown.removesuffix("/v1")
            return WrongServer(f"{self.who} has no {path}: give the server's root, `url: {root}`, without /v1")
        if reply.status == 404:
            needs = f" It needs {self.needs}" if self.needs else ""
            return WrongServer(
                f"{self.who} has no {path} ({reply.message}): an older version, or no {self.program}?{needs}"
            )
        failed = reply.status >= 500
        return WrongServer(
            f"{self.who} answered {path} with status {reply.status}: {reply.message}; "
            f"{'its log may say more' if failed else expected}",
            "look into the server's log" if failed else "",
        )


class ServerEngine(Engine):
    """Base of the engines behind HTTP.

    ``base_url`` like ``http://localhost:8080``; ``model`` is the name it is served under; ``timeout`` in seconds;
    ``api_key`` is sent as a bearer token and shown nowhere; ``headers`` go with every request; ``verify`` is False for no
    check of certificates, or the path of a bundle; ``concurrency`` is how many requests a run sends at once.
    """

    default_name = "server"

    def __init__(
        self,
        base_url: str,
        transport: httpx.BaseTransport | None = None,
        *,
        name: str | None = None,
        model: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        wait: Wait | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        verify: bool | str = True,
        concurrency: int = CONCURRENCY,
    ) -> None:
        self.name = name or self.default_name
        self.concurrency = concurrency
        self.model = model
        access = Access(api_key, headers or {}, verify, timeout, **({"wait": wait} if wait else {}))
        self._server = JsonServer(base_url, self.name, transport, access)

    def confirm(self, request: Request) -> Confirmation | None:  # noqa: ARG002  # for engines that can
        """As every engine's; a server that cannot tell says so by an empty Confirmation."""
        return Confirmation()

    def close(self) -> None:
        self._server.close()

    def _usage(self, server: ChatServer, path: str, body: dict[str, Any], key: str = "prompt_tokens") -> Confirmation:
        """The number of prompt tokens that a call of OpenAI's kind tells under ``usage``."""
        reply = self._server.post(path, body)
        usage = reply.body.get("usage") if reply.ok and isinstance(reply.body, dict) else None
        count = whole_number(usage, key)
        if count is None:
            raise server.unusable(path, reply, f"expected usage.{key}")
        return Confirmation(count=count, how=f"usage.{key} of {path}")


def whole_number(body: Any, key: str) -> int | None:
    """The number that an answer holds under ``key``; None for anything else, ``true`` too."""
    found = body.get(key) if isinstance(body, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def identity(*parts: str) -> str:
    """What a server says of itself, on one line."""
    return one_line("".join(parts), 160)
