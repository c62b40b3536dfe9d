"""JSON over HTTP to one server: every way it can go wrong becomes one readable error."""

from __future__ import annotations

import json
import re
import time
import weakref
from dataclasses import dataclass
from typing import Any

import httpx

from ..errors import EngineError, EngineUnreachable
from .base import Wait, one_line

DEFAULT_TIMEOUT = 60.0  # seconds
IDENTITY_TIMEOUT = 5.0  # seconds: who a server is can be left out, and must not hold the end of a run
MAX_REPLY = 64 * 1024 * 1024  # bytes: a million tokens with their pieces stay far below


@dataclass(frozen=True)
class Reply:
    """A server's answer: the status, and the body read as JSON."""

    status: int
    body: Any

    @property
    def ok(self) -> bool:
        return self.status == 200

    @property
    def message(self) -> str:
        """The error message in any of the four envelopes that inference servers use."""
        body = self.body
        if isinstance(body, dict):
            inner = body.get("error", body)
            if isinstance(inner, dict):
                inner = inner.get("message", inner.get("detail", inner))
            return one_line(inner if isinstance(inner, str) else json.dumps(inner))
        return one_line(json.dumps(body))


class JsonServer:
    """One server. ``base_url`` may carry credentials; no message shows them."""

    def __init__(
        self,
        base_url: str,
        name: str,
        transport: httpx.BaseTransport | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        wait: Wait | None = None,
    ) -> None:
        self.name = name
        self.timeout = timeout
        self.wait = wait or Wait()
        if not isinstance(base_url, str):
            raise TypeError(f"{name}: the address must be a string such as http://localhost:8080, not {base_url!r}")
        try:
            url = httpx.URL(base_url)
        except httpx.InvalidURL as error:
            raise EngineError(f"{name}: {without_secrets(base_url)!r} is no URL: {error}") from None
        if url.scheme not in ("http", "https") or not url.host:
            raise EngineError(
                f"{name}: {without_secrets(base_url)!r} is no URL of a server; it looks like http://localhost:8080"
            )
        self.shown = without_secrets(base_url).rstrip("/")
        try:
            self.client = httpx.Client(base_url=url, transport=transport, timeout=timeout)
        except (
            Exception
        ) as error:  # what the environment asks for: a proxy of an unknown kind, a missing certificate file
            raise EngineError(
                f"{name}: no HTTP client can be made as the environment asks: {one_line(str(error))}"
            ) from None
        weakref.finalize(self, self.client.close)  # an engine that nobody closed leaves no open socket behind

    def get(self, path: str, timeout: float | None = None) -> Reply:
        """Ask for JSON; ``timeout`` (seconds) where the server's own is too long."""
        return self._ask("GET", path, None, timeout)

    def post(self, path: str, body: dict[str, Any]) -> Reply:
        """Send ``body`` as JSON. EngineUnreachable if nobody answers in time, EngineError if the answer is not JSON."""
        return self._ask("POST", path, body)

    def close(self) -> None:
        self.client.close()

    def _ask(self, method: str, path: str, body: dict[str, Any] | None, timeout: float | None = None) -> Reply:
        started = time.monotonic()
        pause = 0.1
        while True:
            try:
                reply = self._once(method, path, body, timeout)
            except httpx.ConnectError as error:
                if time.monotonic() - started >= self.wait.refused:
                    raise EngineUnreachable(self._unreachable(error)) from None
            else:
                if reply.status != 503 or "loading" not in reply.message.lower():
                    return reply
                if time.monotonic() - started >= self.wait.loading:
                    raise EngineUnreachable(
                        f"{self.name} at {self.shown} is still loading its model after {self.wait.loading:g} s; "
                        "wait longer with --tokenparity-wait=SECONDS"
                    )
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)

    def _once(self, method: str, path: str, body: dict[str, Any] | None, timeout: float | None) -> Reply:
        try:
            status, content, kind = self._exchange(method, path, body, timeout)
        except (ValueError, OverflowError) as error:  # half a surrogate pair, a host name that is none, a time too long
            raise EngineError(f"{self.name} at {self.shown} cannot be asked: {one_line(str(error))}") from None
        except httpx.ConnectError:
            raise
        except httpx.TimeoutException:
            raise EngineUnreachable(
                f"{self.name} at {self.shown} did not answer {path} within {self.timeout:g} s; set `timeout:` (seconds) "
                f"if it needs longer{', or http:// if it speaks no TLS' if self.shown.startswith('https') else ''}"
            ) from None
        except httpx.HTTPError as error:  # it was reached: an error, which no option skips
            raise EngineError(
                f"{self.name} at {self.shown} broke off while answering {path}: {one_line(str(error) or repr(error))}"
            ) from None
        try:
            return Reply(status, json.loads(content))
        except (ValueError, RecursionError):
            glimpse = one_line(content[:200].decode("utf-8", "replace"), 80)
            what = "an HTML page" if content.lstrip()[:1] == b"<" else f"{kind or 'no content type'}, not JSON"
            raise EngineError(
                f"{self.name} at {self.shown} answered {path} with status {status} and {what}: {glimpse!r}; "
                "is this the right server and port?"
            ) from None

    def _exchange(
        self, method: str, path: str, body: dict[str, Any] | None, timeout: float | None
    ) -> tuple[int, bytes, str]:
        for attempt in (1, 2):
            answered = False
            try:
                with self.client.stream(
                    method, path, json=body, timeout=min(timeout or self.timeout, self.timeout)
                ) as response:
                    answered = True
                    content = bytearray()
                    for chunk in response.iter_bytes():
                        content += chunk
                        if len(content) > MAX_REPLY:
                            raise EngineError(
                                f"{self.name} at {self.shown} answered {path} with more than "
                                f"{MAX_REPLY // 1024**2} MiB, larger than any prompt"
                            )
                    return response.status_code, bytes(content), response.headers.get("content-type", "")
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                # A server closes an idle connection (llama-server: after 5 s). If no answer had begun, ask once more.
                if answered or attempt == 2:
                    raise
        raise AssertionError("the second attempt returns or raises")

    def _unreachable(self, error: httpx.ConnectError) -> str:
        reason = re.sub(r"^\[Errno -?\d+\] ", "", one_line(str(error)))  # the number differs by system
        low = reason.lower()
        if "ssl" in low or "certificate" in low:
            return f"{self.name} at {self.shown}: TLS failed: {reason}"
        if any(word in low for word in ("name or service", "nodename", "getaddrinfo", "name resolution", "no address")):
            return f"{self.name} cannot be reached: the host of {self.shown} is not known ({reason})"
        waited = f" (waited {self.wait.refused:g} s)" if self.wait.refused else ""
        return f"{self.name} cannot be reached: nothing answers at {self.shown}{waited}: {reason}"


def without_secrets(url: str) -> str:
    """An address without what stands before its ``@`` and after its ``?``."""
    return re.sub(r"^((?:[a-z][a-z0-9+.-]*:)?(?://)?)[^/?#]*@", r"\1", url.partition("?")[0], flags=re.IGNORECASE)
