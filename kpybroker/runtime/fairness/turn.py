"""One turn of the loop that serves many connections: their appends are written together, then all are answered.

Invariant: no reply leaves before everything appended in its turn is written. If a write fails, no client hears that it
worked: all connections that wait for an answer are closed, and their clients try again.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from kpybroker.runtime.fairness.times import LONGEST_NS

T = TypeVar("T")

UNWRITTEN: Final = "what it produced could not be written"


class Writes(Protocol):
    """The logs, as far as a turn knows them."""

    def gather(self) -> None:
        """Keep appends back from now on, to write them together."""

    def settle(self) -> bool:
        """Write what was kept back; whether everything kept back since the last call is written."""

    def stop_gathering(self) -> None:
        """Write each append at once from now on."""


class NoWrites:
    """The logs of a server whose requests append nothing."""

    def gather(self) -> None: ...

    def settle(self) -> bool:
        return True

    def stop_gathering(self) -> None: ...


class ServedConnection(Protocol):
    """A connection whose reply waits for the turn."""

    answered_ns: int
    """The time when the reply was made, in ns of ``perf_counter_ns``."""

    @property
    def closed(self) -> bool:
        """Whether there is nobody left to answer."""

    def answer(self, reply: bytes) -> None:
        """Send a reply that nothing stands before."""

    def give_up(self, reason: str) -> None:
        """Close."""


class Turn:
    """The turn of a server. It is on while many connections are served."""

    __slots__ = ("_until_ns", "_waiting", "_writes", "failed", "is_late", "is_on", "is_shared")

    def __init__(self, writes: Writes) -> None:
        self.is_on = False
        self.is_shared = False
        """Whether other connections are readable beside the one that is served now."""
        self.is_late = False
        """Whether its requests have taken so long that only short ones are still served in it."""
        self.failed = False
        """Whether an append of this turn could not be written."""
        self._writes = writes
        self._waiting: list[tuple[ServedConnection, bytes]] = []
        self._until_ns = 0

    def begin(self, now_ns: int) -> None:
        """Keep appends and replies back from now on."""
        self.is_on = True
        self._until_ns = now_ns + LONGEST_NS
        self._writes.gather()

    def put(self, connection: ServedConnection, reply: bytes) -> None:
        """Send this reply once all appends of the turn are written."""
        self._waiting.append((connection, reply))
        if connection.answered_ns > self._until_ns:
            self._until_ns = connection.answered_ns + LONGEST_NS
            self._answer()

    def outside(self, serve: Callable[[Any, memoryview], T], connection: Any, frame: memoryview) -> T:
        """Serve a request whose reply must not wait for the turn: its appends are written at once."""
        if not self.is_on:
            return serve(connection, frame)
        self._writes.stop_gathering()
        try:
            return serve(connection, frame)
        finally:
            self._writes.gather()

    def settle(self) -> bool:
        """Write all appends of this turn, before a reply leaves some other way; whether that worked."""
        self.failed = not self._writes.settle() or self.failed
        return not self.failed

    def may_answer(self) -> bool:
        """Whether a reply may leave now: everything that it acknowledges is written."""
        return not self.is_on or self.settle()

    def end(self) -> None:
        """Send all replies that wait."""
        self._writes.stop_gathering()
        try:
            self._answer()
        finally:
            self.is_on = self.is_late = self.failed = False

    def _answer(self) -> None:
        written = self.settle()
        waiting, self._waiting = self._waiting, []
        for connection, reply in waiting:
            if connection.closed:
                continue
            if written:
                connection.answer(reply)
            else:
                connection.give_up(UNWRITTEN)
