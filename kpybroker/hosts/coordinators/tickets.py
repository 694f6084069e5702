"""Requests that wait for a coordinator, and the way of their answers: they are sent in slices.

One decision may answer a thousand members. Each answer is encoded when it is sent, so sending all of them at once would
block the loop.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.io.scheduler import Scheduler

log = logging.getLogger("kpybroker.hosting")

SLICE_MS: Final = 5
"""How long the loop works on one thing before other work gets a turn."""


class AnswerQueue:
    """Sends the answers of all shards."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: deque[tuple[CoordinatorTicket, Any, int]] = deque()
        self._until_ms = 0.0
        self._is_fresh = False
        """True until the slice sends its first answer, for which nobody looks at the clock."""

    def begin_slice(self, now_ms: float) -> None:
        """Begin a slice with an input: its answers are sent at once, until the slice is over. ``now_ms`` is of the
        monotonic clock."""
        self._until_ms = now_ms + SLICE_MS
        self._is_fresh = True

    def put(self, ticket: "CoordinatorTicket", message: Any, error_code: int) -> None:
        """Send an answer, now or soon."""
        if not self._waiting and (self._is_fresh or self._scheduler.monotonic_ms() < self._until_ms):
            self._is_fresh = False
            _deliver(ticket, message, error_code)
            return
        if not self._waiting:
            self._scheduler.call_soon(self._drain)
        self._waiting.append((ticket, message, error_code))

    def _drain(self) -> None:
        self._is_fresh = False
        until_ms = self._scheduler.monotonic_ms() + SLICE_MS
        waiting = self._waiting
        while waiting:
            _deliver(*waiting.popleft())
            if waiting and self._scheduler.monotonic_ms() >= until_ms:
                self._scheduler.call_soon(self._drain)
                return


def _deliver(ticket: "CoordinatorTicket", message: Any, error_code: int) -> None:
    """Send one answer. An error in making it is logged, and does not affect the others."""
    try:
        ticket.deliver(message, error_code)
    except Exception:
        log.exception("The answer of a coordinator could not be sent because of a defect")


class CoordinatorTicket:
    """One request that a machine answers through its journal. If the journal fails, it gets an error."""

    __slots__ = ("_answer", "_answers", "_is_answered", "_refuse", "_response", "pending")

    def __init__(self, answers: AnswerQueue, answer: Callable[[Any], Any] | None, refuse: Callable[[int], Any]) -> None:
        """``answer`` makes the response from the machine's message, ``refuse`` from an error code."""
        self.pending: Pending | None = None
        self._is_answered = False
        self._response: Any = None
        self._answers = answers
        self._answer = answer
        self._refuse: Callable[[int], Any] | None = refuse

    def answer(self, message: Any) -> None:
        self._answers.put(self, message, 0)

    def fail(self, error_code: int) -> None:
        self._answers.put(self, None, error_code)

    def deliver(self, message: Any, error_code: int) -> None:
        """Give the response, unless the client is gone."""
        refuse = self._refuse
        if refuse is None or self._is_answered:
            return
        if error_code:
            response = refuse(error_code)
        else:
            response = message if self._answer is None else self._answer(message)
        self._is_answered = True
        pending, self.pending = self.pending, None
        if pending is None:
            self._response = response
        else:
            pending.resolve(response)

    def response(self) -> Any:
        """The response if it was given already, which it mostly was, or a `Pending` of it. To be called once."""
        if self._is_answered:
            return self._response
        self.pending = Pending()
        self.pending.when_cancelled(self.forget)
        return self.pending

    def forget(self) -> None:
        """Forget the client, which is gone. The request takes effect all the same, and holds nothing of the
        connection."""
        self.pending = self._answer = self._refuse = None
