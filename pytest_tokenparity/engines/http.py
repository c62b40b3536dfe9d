"""JSON over HTTP to one server: every way it can go wrong becomes one readable error."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx

from ..errors import EngineError, EngineUnreachable, WrongServer
from ..words import brief, one_line
from .base import Wait

if TYPE_CHECKING:
    import ssl

DEFAULT_TIMEOUT = 60.0  # seconds
IDENTITY_TIMEOUT = 5.0  # seconds: who a server is can be left out, and must not hold the end of a run
_LONG_SECRET = 8  # characters: what is shorter may stand in any answer
_SHORT_WORD = 4  # characters: a header's value that is shorter says yes, no or a number
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"(?:[!-~](?:[ -~\t]*[!-~])?)?")
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
            body = inner
        return one_line(body if isinstance(body, str) else json.dumps(body))


@dataclass(frozen=True)
class Access:
    """How a server is reached beside its address.

    ``api_key`` is sent as a bearer token, and no message, log or repr shows it. ``headers`` go with every request;
    ``verify`` is False for no check of certificates, or the path of a bundle of them. ``timeout`` in seconds.
    """

    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    verify: bool | str = True
    timeout: float = DEFAULT_TIMEOUT
    wait: Wait = field(default_factory=Wait)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be shown: the key, and the values of headers, which may be keys too, `Bearer KEY` among them."""
        values = [part for value in self.headers.values() for part in (value, value.rpartition(" ")[2])]
        return tuple(value for value in (self.api_key, *values) if value)


class JsonServer:
    """One server. ``base_url`` may carry credentials; no message shows them."""

    def __init__(
        self,
        base_url: str,
        name: str,
        transport: httpx.BaseTransport | None = None,
        access: Access | None = None,
    ) -> None:
        self.name = name
        self.access = access or Access()
        self.timeout = self.access.timeout
        self.wait = self.access.wait
        self._waiting = threading.local()  # requests of one server are sent side by side
        if not isinstance(base_url, str):
            raise TypeError(f"{name}: the address must be a string such as http://localhost:8080, not {base_url!r}")
        try:
            url = httpx.URL(base_url)
        except httpx.InvalidURL as error:
            why = "" if "@" in base_url else f": {one_line(str(error))}"  # it may quote a part of the password
            raise EngineError(f"{name}: {brief(without_secrets(base_url), 200)} is no URL{why}") from None
        if url.scheme not in ("http", "https") or not url.host:
            raise EngineError(
                f"{name}: {brief(without_secrets(base_url), 200)} is no URL of a server; it looks like http://localhost:8080"
            )
        self.shown = without_secrets(base_url).rstrip("/")
        headers = dict(self.access.headers)
        if self.access.api_key:
            headers["Authorization"] = f"Bearer {self.access.api_key}"
        _assert_sendable(self.name, self.access)
        # Credentials go with the request, not in its address, which httpx logs. A key takes their place: both are sent as
        # one header.
        auth = (url.username, url.password) if url.userinfo else None
        self._secrets = {*self.access.secrets, *(_basic(*auth) if auth else ())}
        if "authorization" in map(str.lower, headers):
            auth = None
        try:
            make = partial(
                httpx.Client,
                base_url=url.copy_with(username=None, password=None) if url.userinfo else url,
                auth=auth,
                headers=headers,
                verify=_verified(self.access.verify),
                transport=transport,
                timeout=self.timeout,
            )
            self.client = make()
        except EngineError:
            raise
        except Exception as error:  # what the environment asks for: a proxy of an unknown kind, a missing file
            raise EngineError(
                f"{name}: no HTTP client can be made as the environment asks: {one_line(str(error))}"
            ) from None
        self._clients = _Clients(self.client, make if transport is None else None)
        self._urls: dict[str, httpx.URL] = {}
        weakref.finalize(self, self._clients.close)  # an engine that nobody closed leaves no open socket behind

    def get(self, path: str, timeout: float | None = None) -> Reply:
        """Ask for JSON; ``timeout`` (seconds) where the server's own is too long."""
        return self._ask("GET", path, None, timeout)

    def post(self, path: str, body: dict[str, Any]) -> Reply:
        """Send ``body`` as JSON. EngineUnreachable if nobody answers in time, EngineError if the answer is not JSON."""
        return self._ask("POST", path, body)

    def close(self) -> None:
        self._clients.close()

    def _ask(self, method: str, path: str, body: dict[str, Any] | None, timeout: float | None = None) -> Reply:
        started = time.monotonic()
        pause = 0.1
        while True:
            try:
                reply = self._once(method, path, body, timeout)
            except httpx.ConnectError as error:
                if time.monotonic() - started >= self.wait.refused:
                    raise EngineUnreachable(*self._unreachable(error)) from None
            else:
                if reply.status != 503 or "loading" not in reply.message.lower():
                    return reply
                if time.monotonic() - started >= self.wait.loading:
                    raise EngineUnreachable(
                        f"{self.name} at {self.shown} is still loading its model after {self.wait.loading:g} s; "
                        "wait longer with --tokenparity-wait=SECONDS",
                        "wait longer: --tokenparity-wait=SECONDS",
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
                f"if it needs longer{', or http:// if it speaks no TLS' if self.shown.startswith('https') else ''}",
                "set a longer `timeout:` (seconds)",
            ) from None
        except httpx.HTTPError as error:  # it was reached: an error, which no option skips
            raise WrongServer(
                f"{self.name} at {self.shown} broke off while answering {path}: {one_line(str(error) or repr(error))}"
            ) from None
        if 300 <= status < 400:
            raise WrongServer(
                f"{self.name} at {self.shown} redirects {path} elsewhere (status {status}), which is not followed: give "
                "the address that answers"
            )
        secrets = self._echoed(status, content)
        try:
            return Reply(status, _without(secrets, json.loads(content)))
        except (ValueError, RecursionError):
            glimpse = one_line(_without(secrets, content.decode("utf-8", "replace"))[:200], 80)
            if status in (401, 403) or (status == 422 and kind.startswith("text/plain")):
                # Of the key or of the request: TGI, and a proxy before any server, say so without JSON.
                return Reply(status, glimpse or "it says no more")
            what = "an HTML page" if content.lstrip()[:1] == b"<" else f"{kind or 'no content type'}, not JSON"
            raise WrongServer(
                f"{self.name} at {self.shown} answered {path} with status {status} and {what}: {glimpse!r}; "
                "is this the right server and port?"
            ) from None

    def _echoed(self, status: int, content: bytes) -> list[str]:
        """The secrets that an answer may hold, the longest first; what answers well is left alone unless they are long."""
        found = []
        for secret in sorted(self._secrets, key=len, reverse=True):
            if len(secret) >= _LONG_SECRET:
                written = (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
                found += [secret] if status != 200 or any(it.encode() in content for it in written) else []
            elif status != 200 and (len(secret) >= _SHORT_WORD or secret == self.access.api_key):
                found.append(secret)
        return found

    def _exchange(
        self, method: str, path: str, body: dict[str, Any] | None, timeout: float | None
    ) -> tuple[int, bytes, str]:
        limit = min(timeout or self.timeout, self.timeout)
        self._waiting.deadline = deadline = time.monotonic() + limit
        if path not in self._urls:  # joining two addresses takes httpx a fifth of a whole exchange
            self._urls[path] = self.client.build_request(method, path).url
        for attempt in (1, 2):
            answered = False
            try:
                with (
                    self._clients.one() as client,
                    client.stream(
                        method, self._urls[path], json=body, timeout=limit, extensions={"trace": self._watch}
                    ) as response,
                ):
                    answered = True
                    content = bytearray()
                    for chunk in response.iter_bytes():
                        content += chunk
                        if time.monotonic() > deadline:
                            raise httpx.ReadTimeout("the answer came too slowly")
                        if len(content) > MAX_REPLY:
                            raise WrongServer(
                                f"{self.name} at {self.shown} answered {path} with more than "
                                f"{MAX_REPLY // 1024**2} MiB, larger than any prompt"
                            )
                    return response.status_code, bytes(content), response.headers.get("content-type", "")
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                # A server closes an idle connection (llama-server: after 5 s). If no answer had begun, ask once more.
                if answered or attempt == 2:
                    raise
        raise AssertionError("the second attempt returns or raises")

    def _watch(self, event: str, about: Mapping[str, Any]) -> None:
        """Hold what is read from a new connection to the deadline: httpx bounds each read, and not an answer of many."""
        stream: Any = about.get("return_value")
        if not event.endswith(("connect_tcp.complete", "start_tls.complete")) or not hasattr(stream, "read"):
            return
        read = stream.read

        def in_time(max_bytes: int, timeout: float | None = None) -> bytes:
            left = self._waiting.deadline - time.monotonic()
            if left <= 0:
                raise httpx.ReadTimeout("the answer came too slowly")
            got: bytes = read(max_bytes, left if timeout is None else min(timeout, left))
            return got

        with suppress(AttributeError):  # a stream that takes no attribute is bounded by chunks of the body alone
            stream.read = in_time

    def _unreachable(self, error: httpx.ConnectError) -> tuple[str, str]:
        """Why nothing was reached, and what to do."""
        reason = re.sub(r"^\[Errno -?\d+\] ", "", one_line(str(error)))  # the number differs by system
        low = reason.lower()
        if "ssl" in low or "certificate" in low:
            return (
                f"{self.name} at {self.shown}: TLS failed: {reason}",
                "mend its certificate, or name the bundle that it needs with `verify:`",
            )
        if any(word in low for word in ("name or service", "nodename", "getaddrinfo", "name resolution", "no address")):
            where = f"the host of {self.shown} is not known ({reason})"
            return f"{self.name} cannot be reached: {where}", "join the network that knows it"
        waited = f" (waited {self.wait.refused:g} s)" if self.wait.refused else ""
        return f"{self.name} cannot be reached: nothing answers at {self.shown}{waited}: {reason}", "start it"


class _Clients:
    """A client for each exchange that is under way.

    One client must not be shared by threads: a connection that one thread has just taken, and that is answered already, is
    closed by another for one that the server hung up (httpcore 1.0.9, `has_expired`). A ``transport`` that somebody gave is
    shared all the same: its one client is ``first``, and ``make`` is None.
    """

    def __init__(self, first: httpx.Client, make: Callable[[], httpx.Client] | None) -> None:
        self._make = make
        self._all = [first]
        self._free = [first]  # the last that was used first: its connection is the least likely to be closed

    @contextmanager
    def one(self) -> Iterator[httpx.Client]:
        if self._make is None:
            yield self._all[0]
            return
        try:
            client = self._free.pop()
        except IndexError:
            client = self._make()
            self._all.append(client)
        try:
            yield client
        finally:
            self._free.append(client)

    def close(self) -> None:
        for client in self._all:
            client.close()


def _without(secrets: list[str], answer: Any) -> Any:
    """An answer, as read from JSON, in which each of the secrets is ``***``."""
    if not secrets:
        return answer
    if isinstance(answer, dict):
        return {_without(secrets, key): _without(secrets, value) for key, value in answer.items()}
    if isinstance(answer, list):
        return [_without(secrets, entry) for entry in answer]
    if isinstance(answer, str):
        for secret in secrets:
            answer = answer.replace(secret, "***")
    return answer


def _basic(user: str, password: str) -> tuple[str, ...]:
    """What of an address's credentials is secret: the password, and both as they are sent."""
    sent = base64.b64encode(f"{user}:{password}".encode()).decode()
    return tuple(value for value in (password, sent) if value)


def _assert_sendable(name: str, access: Access) -> None:
    """EngineError for a key or a header that no request can carry: what httpx says of it would show it."""
    values = {"the key (`api_key_env:`)": access.api_key or ""}
    values |= {f"the value of {header!r} (`headers:`)": value for header, value in access.headers.items()}
    for what, value in values.items():
        if not _HEADER_VALUE.fullmatch(value):
            raise EngineError(
                f"{name}: {what} cannot be sent: it begins or ends with a space or a line break, or holds a character "
                "that is none of ASCII's printable ones"
            )
    for header in access.headers:
        if not _HEADER_NAME.fullmatch(header):
            raise EngineError(f"{name}: {header!r} (`headers:`) is no name of a header")


def _verified(verify: bool | str) -> ssl.SSLContext:
    """What the clients of one server check certificates with. EngineError if the bundle is not there."""
    if isinstance(verify, bool):
        return httpx.create_ssl_context(verify=verify, trust_env=True)
    import ssl

    try:
        return ssl.create_default_context(cafile=verify)
    except OSError as error:
        raise EngineError(f"`verify: {verify}` cannot be read as certificates: {error.strerror or error}") from None


def without_secrets(url: str) -> str:
    """An address without what stands before its last ``@``, which a password may hold with ``/``, ``?`` and ``#``, and
    without what follows its path."""
    bare = re.sub(r"^((?:(?:[a-z][a-z0-9+.-]*:)?//)?).*@", r"\1", url, flags=re.IGNORECASE | re.DOTALL)
    return re.split(r"[?#]", bare, maxsplit=1)[0]
