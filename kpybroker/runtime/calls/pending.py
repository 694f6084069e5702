"""Replies that are not ready yet, and requests that wait for something to happen.

A handler that cannot answer at once returns a `Pending` and resolves it later, exactly once, on the loop. The
connection keeps its place in the order of replies.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from kpybroker.runtime.counters import UNCOUNTED, Due
from kpybroker.runtime.io.scheduler import Scheduler

NOBODYS: Due = (UNCOUNTED, 0, 0, 0)


class Pending:
    """One parked reply.

    ``overlaps``: whether the connection may start the next request of the same kind before this one is answered
    (only a Produce whose order is already fixed by its append).
    """

    __slots__ = ("_deliver", "_encode", "_forget", "due", "overlaps", "resolved", "resolved_ns", "response")

    def __init__(self, *, overlaps: bool = False) -> None:
        self.overlaps = overlaps
        self.resolved = False
        self.due: Due = NOBODYS
        """The counters of the request that this reply answers; set by the dispatcher."""
        self.resolved_ns = 0
        self.response: Any = None
        self._encode: Callable[[Any], Any] | None = None
        self._deliver: Callable[[Any], None] | None = None
        self._forget: Callable[[], None] | None = None

    def resolve(self, response: Any) -> None:
        """Set the response. ``None`` ends the request without a reply. A second call is an error of the caller."""
        assert not self.resolved, "a reply was resolved twice"
        self.resolved = True
        self.response = response if self._encode is None else self._encode(response)
        self.resolved_ns = perf_counter_ns()
        deliver, self._deliver, self._forget = self._deliver, None, None
        if deliver is not None:
            deliver(self.response)

    def encode_with(self, encode: Callable[[Any], Any]) -> None:
        """Set the function that encodes the handler's answer as the bytes of a reply."""
        if self.resolved:
            self.response = encode(self.response)
        else:
            self._encode = encode

    def when_resolved(self, deliver: Callable[[Any], None]) -> None:
        """Call ``deliver`` with the reply; at once if the reply is there already."""
        if self.resolved:
            deliver(self.response)
        else:
            self._deliver = deliver

    def when_cancelled(self, forget: Callable[[], None]) -> None:
        """Call ``forget`` if the connection closes before the reply."""
        self._forget = forget

    def cancel(self) -> None:
        """Stop waiting for the reply: a later `resolve` has no effect on the connection."""
        forget, self._forget, self._deliver = self._forget, None, None
        if forget is not None and not self.resolved:
            forget()


class Parked:
    """A request that waits until it is woken and finds enough, or until its time is over.

    ``look`` returns the answer if there is enough by now, or None. ``expire`` returns the answer when the time is over.
    ``forget`` is called once at the end, also if the connection closes: nothing is to wake the request any more.
    """

    __slots__ = ("_expire", "_forget", "_is_due", "_look", "_scheduler", "_timer", "pending")

    def __init__(
        self,
        scheduler: Scheduler,
        wait_ms: float,
        look: Callable[[], Any | None],
        expire: Callable[[], Any],
        forget: Callable[[], object],
    ) -> None:
        self._scheduler = scheduler
        self._look = look
        self._expire = expire
        self._forget = forget
        self._is_due = False
        self.pending = Pending()
        """The answer."""
        self.pending.when_cancelled(self._end)
        self._timer = scheduler.call_later(wait_ms, self._time_is_over)

    def wake(self) -> None:
        """Look again soon, once for all that happens in this turn of the loop."""
        if not self._is_due:
            self._is_due = True
            self._scheduler.call_soon(self.look_again)

    def look_again(self) -> None:
        """Answer if there is enough by now."""
        self._is_due = False
        answer = self._look()
        if answer is not None:
            self._answer(answer)

    def _time_is_over(self) -> None:
        self._answer(self._expire())

    def _answer(self, answer: Any) -> None:
        self._end()
        self.pending.resolve(answer)

    def _end(self) -> None:
        self._timer.cancel()
        forget = self._forget
        self._look = self._expire = self._forget = _nothing  # they refer to the owner, which refers to this
        forget()


def _nothing() -> None:
    """It is over."""
