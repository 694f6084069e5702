"""A turn of the loop that serves many connections: their appends are written together, then they are answered.

Invariant: no reply leaves before whatever was appended in its turn is written. Where that fails nobody is told that it
worked: all who wait for an answer lose their connection, and try again.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

MANY: Final = 4
"""From so many readable connections on appends are gathered."""
LONGEST_NS: Final = 1_000_000
"""After so long those who were served are answered, although others are still to be served."""

T = TypeVar("T")

UNWRITTEN: Final = "what it produced could not be written"


class Writes(Protocol):
    """What is appended to, as far as a turn knows it."""

    def gather(self) -> None:
        """Let appends wait for each other from now on."""

    def settle(self) -> bool:
        """Write what waits; whether all that waited since the last call is written."""

    def stop_gathering(self) -> None:
        """Write at once from now on."""


class NoWrites:
    """For a server whose requests append nothing."""

    def gather(self) -> None: ...

    def settle(self) -> bool:
        return True

    def stop_gathering(self) -> None: ...


class Served(Protocol):
    """A connection whose reply waits for the turn."""

    answered_ns: int
    """When the reply was made, in ns of ``perf_counter_ns``."""
    closed: bool

    def answer(self, reply: bytes) -> None:
        """Send a reply that nothing stands before."""

    def give_up(self, reason: str) -> None:
        """Close."""


class Turn:
    """The one of a server; on while it serves many."""

    __slots__ = ("_until_ns", "_waiting", "_writes", "failed", "is_on", "is_shared")

    def __init__(self, writes: Writes) -> None:
        self.is_on = False
        self.is_shared = False
        """Whether others are to be served beside the one that is served now."""
        self.failed = False
        """Whether something of this turn could not be written."""
        self._writes = writes
        self._waiting: list[tuple[Served, bytes]] = []
        self._until_ns = 0

    def begin(self, now_ns: int) -> None:
        """From now on appends and replies wait."""
        self.is_on = True
        self._until_ns = now_ns + LONGEST_NS
        self._writes.gather()

    def put(self, connection: Served, reply: bytes) -> None:
        """Send this reply once all appends are written."""
        self._waiting.append((connection, reply))
        if connection.answered_ns > self._until_ns:
            self._until_ns = connection.answered_ns + LONGEST_NS
            self._answer()

    def outside(self, serve: Callable[[Any, memoryview], T], connection: Any, frame: memoryview) -> T:
        """Serve a request whose reply does not wait for the turn: what it appends is written at once."""
        if not self.is_on:
            return serve(connection, frame)
        self._writes.stop_gathering()
        try:
            return serve(connection, frame)
        finally:
            self._writes.gather()

    def settle(self) -> bool:
        """Before a reply leaves by another way: whether everything that was appended in this turn is written."""
        self.failed = not self._writes.settle() or self.failed
        return not self.failed

    def end(self) -> None:
        """Answer those who still wait."""
        self._writes.stop_gathering()
        try:
            self._answer()
        finally:
            self.is_on = self.failed = False

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
