"""Requests that wait for a coordinator, and the way their answers leave: not more at once than others can bear.

One decision may answer a thousand members. Each answer is encoded and sent when it leaves, so they leave in slices.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from kpybroker.io.scheduler import Scheduler
from kpybroker.server.pending import Pending

log = logging.getLogger("kpybroker.hosting")

SLICE_MS = 5
"""For how long the loop works on one thing before everybody else gets a turn."""


class Outlet:
    """Where the answers of all shards leave."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: deque[tuple[Ticket, Any, int]] = deque()
        self._until_ms = 0.0

    def begin_slice(self) -> None:
        """An input begins: what it answers leaves at once, unless it takes long."""
        self._until_ms = self._scheduler.monotonic_ms() + SLICE_MS

    def put(self, ticket: "Ticket", message: Any, error_code: int) -> None:
        """Let an answer out, now or soon."""
        if not self._waiting and self._scheduler.monotonic_ms() < self._until_ms:
            _deliver(ticket, message, error_code)
            return
        if not self._waiting:
            self._scheduler.call_soon(self._drain)
        self._waiting.append((ticket, message, error_code))

    def _drain(self) -> None:
        until_ms = self._scheduler.monotonic_ms() + SLICE_MS
        waiting = self._waiting
        while waiting:
            _deliver(*waiting.popleft())
            if waiting and self._scheduler.monotonic_ms() >= until_ms:
                self._scheduler.call_soon(self._drain)
                return


def _deliver(ticket: "Ticket", message: Any, error_code: int) -> None:
    """Let one answer out; if it cannot be made, that is nobody else's trouble."""
    try:
        ticket.deliver(message, error_code)
    except Exception:
        log.exception("an answer of a coordinator cannot be given")


class Ticket:
    """One request that a machine answers, through its journal, or the journal fails."""

    __slots__ = ("_answer", "_outlet", "_refuse", "pending")

    def __init__(self, outlet: Outlet, answer: Callable[[Any], Any] | None, refuse: Callable[[int], Any]) -> None:
        """``answer`` makes the response of the machine's message, ``refuse`` that of an error code."""
        self.pending: Pending | None = Pending()
        self.pending.when_cancelled(self.forget)
        self._outlet = outlet
        self._answer = answer
        self._refuse: Callable[[int], Any] | None = refuse

    def answer(self, message: Any) -> None:
        self._outlet.put(self, message, 0)

    def fail(self, error_code: int) -> None:
        self._outlet.put(self, None, error_code)

    def deliver(self, message: Any, error_code: int) -> None:
        """Let the response out, if there is still somebody to have it."""
        pending, refuse = self.pending, self._refuse
        if pending is None or refuse is None:
            return
        if error_code:
            response = refuse(error_code)
        else:
            response = message if self._answer is None else self._answer(message)
        self.pending = None
        pending.resolve(response)

    def forget(self) -> None:
        """The client is gone. What it asked for happens all the same; nothing of its connection is kept for that."""
        self.pending = self._answer = self._refuse = None
