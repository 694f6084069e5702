"""Replies that are not ready yet.

A handler that cannot answer at once returns a `Pending` and resolves it later, exactly once, on the loop. The
connection keeps its place in the order of replies.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from kpybroker.runtime.counters import UNCOUNTED, Due

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
