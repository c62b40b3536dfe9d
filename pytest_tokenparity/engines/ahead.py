"""Requests of one server sent side by side, before the items that need them run: what comes back does not depend on it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread

from ..request import Request
from .base import Engine, Rendering

_WINDOW = 4  # requests for each connection that are sent or wait for it: a run that stops early has asked for little


class Ahead:
    """Renders planned requests ahead of their time, ``concurrency`` at once, in the order of the plan."""

    def __init__(self, engine: Engine, plan: Sequence[Request], concurrency: int) -> None:
        self.engine = engine
        self._order = {id(request): number for number, request in enumerate(plan)}
        self._plan = plan  # keeps the requests, and so their identities
        self._waiting = deque(enumerate(plan))
        self._sent: dict[int, Future[Rendering]] = {}
        self._answers = False
        self._window = concurrency * _WINDOW
        self._jobs: SimpleQueue[tuple[Future[Rendering], Request] | None] = SimpleQueue()
        self._idle = concurrency

    def render(self, request: Request) -> Rendering:
        """The rendering of a request; one that is not in the plan, or is asked for again, is rendered now."""
        number = self._order.get(id(request))
        if number is None:
            return self.engine.render(request)
        self._leave_out(number)
        if not self._answers:  # the first alone: a server that is not there, or still loads, is not asked by many
            if self._waiting and self._waiting[0][0] == number:
                self._waiting.popleft()
            rendering = self.engine.render(request)
            self._answers = True
            return rendering
        self._send()
        future = self._sent.pop(number, None)
        return self.engine.render(request) if future is None else future.result()

    def close(self) -> None:
        for future in self._sent.values():
            future.cancel()
        self._waiting.clear()
        for _ in range(self._window):
            self._jobs.put(None)

    def _leave_out(self, number: int) -> None:
        """Forget what stands before a request in the plan: its item ended without asking."""
        while self._waiting and self._waiting[0][0] < number:
            self._waiting.popleft()
        for earlier in [it for it in self._sent if it < number]:
            self._sent.pop(earlier).cancel()

    def _send(self) -> None:
        while self._waiting and len(self._sent) < self._window:
            number, request = self._waiting.popleft()
            self._sent[number] = future = Future[Rendering]()
            self._jobs.put((future, request))
            if self._idle:
                self._idle -= 1
                # A daemon: Ctrl-C does not wait for what a slow server still owes.
                Thread(target=self._work, name=f"tokenparity {self.engine.name}", daemon=True).start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, request = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(self.engine.render(request))
            except BaseException as error:
                future.set_exception(error)
