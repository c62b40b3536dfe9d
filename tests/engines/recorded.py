"""A server that answers what a real one answered: each recorded reply, for exactly the body that it was the reply to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpx

from pytest_tokenparity import Request

from ..recorded.record import FOLDER
from ..recorded.shapes import KEY, SHAPES, Json

EXTRAS = {shape.name for shape in SHAPES if shape.body}
"""The shapes whose body holds what only a server reads: no request of ours is sent so."""


@cache
def recording(name: str) -> Any:
    """A recording by its file's name, such as ``vllm-0.33.0-gemma3``."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


@cache
def recorded(name: str, route: str, shape: str) -> Json:
    """The reply of one route to one shape."""
    (found,) = (it for it in recording(name)["replies"] if (it["route"], it["shape"]) == (route, shape))
    reply: Json = found
    return reply


def shapes(name: str, route: str) -> list[str]:
    """The shapes that a request of ours can have, all of which the route was asked."""
    return [it["shape"] for it in recording(name)["replies"] if it["route"] == route and it["shape"] not in EXTRAS]


def request_of(shape: str) -> Request:
    """A shape as our request."""
    (found,) = (it for it in SHAPES if it.name == shape)
    asked = dict(found.request)
    return Request.of(asked.pop("messages"), asked.pop("tools", None), **asked.pop("template_kwargs", {}), **asked)


class Recorded(httpx.BaseTransport):
    """Stands for the server of a recording.

    A body is the recorded one when its keys and values are, and the order of the keys below the first level; any other
    body is an AssertionError. ``instead`` answers at a route in place of the recording.
    """

    def __init__(self, name: str, instead: Mapping[str, httpx.Response] | None = None) -> None:
        self.name = name
        self.instead = dict(instead or {})
        self.asked: list[tuple[str, Any]] = []
        self._replies: dict[tuple[str, str], tuple[int, Any]] = {}
        for it in recording(name)["replies"]:
            ids = {"token_ids" if it["route"].endswith("/render") else "tokens": it.get("ids")}
            content = ids if it["status"] == 200 else it["error"]
            self._replies[it["route"], _canonical(it["body"])] = it["status"], content
        for it in recording(name)["raw"]:
            if it.get("key", KEY) == KEY and "text" not in it:
                self._replies[it["route"], _canonical(it.get("body"))] = it["status"], it["reply"]

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path, content = request.url.path, request.read()
        body = json.loads(content) if content else None
        self.asked.append((f"{request.method} {path}", body))
        if path in self.instead:
            given = self.instead[path]
            return httpx.Response(given.status_code, headers=given.headers, content=given.content)
        if request.headers.get("authorization") != f"Bearer {KEY}" and path not in ("/version", "/health"):
            return self._refused_key()
        found = self._replies.get((path, _canonical(body)))
        assert found is not None, f"no real server was asked {path} with {json.dumps(body, ensure_ascii=False)}"
        status, reply = found
        return httpx.Response(status, json=reply)

    def _refused_key(self) -> httpx.Response:
        answers = [it for it in recording(self.name)["raw"] if it["name"].startswith("wrong key")]
        return httpx.Response(answers[0]["status"], json=answers[0]["reply"])


def _canonical(body: Any) -> str:
    """A body as text: the order of its own keys says nothing, that of the keys of messages and tools does."""
    return json.dumps(dict(sorted(body.items())) if isinstance(body, dict) else body)
