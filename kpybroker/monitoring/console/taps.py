"""A live view of one connection: its last requests and answers, kept as bytes and decoded when somebody looks.

A tap stands before the dispatcher of its connection alone, so other connections do not notice. It goes when nobody has
looked for some seconds. Passwords, keys and records are never shown.
"""

from collections import deque
from time import perf_counter_ns, time
from typing import TYPE_CHECKING, Final

from kpybroker.monitoring.console.query import bad
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.fairness.trait import Trait
from kpybroker.runtime.io.scheduler import Timer

if TYPE_CHECKING:
    from kpybroker.requests.server.connection import Connection
    from kpybroker.requests.server.frames import Dispatch
    from kpybroker.requests.server.listener import Server
    from kpybroker.requests.server.outbox import Item, Reply

MOST_TAPS: Final = 4
MOST_EXCHANGES: Final = 100
MOST_BYTES: Final = 8 * 1024
"""The bytes that are kept of a request or an answer; longer ones are not decoded."""
IDLE_MS: Final = 30_000
_IN_MEMORY: Final = (bytes, bytearray, memoryview)


class TappedExchange:
    """A request and its answer."""

    __slots__ = ("answer", "answer_bytes", "answered_ms", "at_ms", "began_ns", "request", "request_bytes")

    def __init__(self, frame: memoryview) -> None:
        self.at_ms = int(time() * 1000)
        self.began_ns = perf_counter_ns()
        self.request = bytes(frame[:MOST_BYTES])
        self.request_bytes = len(frame)
        self.answer: bytes | None = None
        """The answer, as far as it is in memory; None before it is there, and for one that is too long."""
        self.answer_bytes: int | None = None
        self.answered_ms: float | None = None

    def answered(self, reply: "Reply | None") -> None:
        """Note the answer."""
        self.answered_ms = (perf_counter_ns() - self.began_ns) / 1e6
        if reply is None:
            return
        pieces: list[Item] = [reply] if isinstance(reply, bytes) else reply
        in_memory = [piece for piece in pieces if isinstance(piece, _IN_MEMORY)]
        self.answer_bytes = sum(len(piece) for piece in in_memory)
        if len(in_memory) == len(pieces):
            self.answer = b"".join(in_memory) if self.answer_bytes <= MOST_BYTES else None
        else:
            self.answer_bytes += sum(piece.length for piece in pieces if not isinstance(piece, _IN_MEMORY))


class Tap:
    """Stands before the dispatcher of one connection."""

    def __init__(self, dispatch: "Dispatch") -> None:
        self.exchanges: deque[TappedExchange] = deque(maxlen=MOST_EXCHANGES)
        self.looked_ms = 0.0
        self.dispatch = dispatch

    def __call__(self, connection: "Connection", frame: memoryview) -> "Reply | Pending | None":
        """Pass a frame on, and note it with its answer."""
        exchange = TappedExchange(frame)
        self.exchanges.append(exchange)
        reply = self.dispatch(connection, frame)
        if isinstance(reply, Pending):
            return _noted(reply, exchange)
        exchange.answered(reply)
        return reply

    def trait_at(self, view: memoryview, position: int) -> Trait:
        """The trait that the dispatcher knows."""
        return self.dispatch.trait_at(view, position)


def _noted(pending: Pending, exchange: TappedExchange) -> Pending:
    """A reply that is noted when it comes."""
    outer = Pending(overlaps=pending.overlaps)
    outer.due = pending.due
    outer.when_cancelled(pending.cancel)

    def came(reply: "Reply | None") -> None:
        exchange.answered(reply)
        outer.due = pending.due
        outer.resolve(reply)

    pending.when_resolved(came)
    return outer


class Taps:
    """The taps of a node."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._taps: dict[Connection, Tap] = {}
        self._timer: Timer | None = None

    def look(self, connection: "Connection") -> Tap:
        """The tap of a connection, from now on if there was none. Raises Refused if there are too many."""
        self.expire()
        tap = self._taps.get(connection)
        if tap is None:
            if len(self._taps) >= MOST_TAPS:
                raise bad(f"{MOST_TAPS} connections are being watched; close one of their pages and wait half a minute")
            tap = self._taps[connection] = Tap(connection.dispatch)
        if connection.dispatch is not tap:  # or it has logged in meanwhile
            tap.dispatch = connection.dispatch
            connection.dispatch = tap
        if self._timer is None:
            self._timer = self._server.scheduler.call_later(IDLE_MS, self._look_again)
        tap.looked_ms = self._server.scheduler.monotonic_ms()
        return tap

    def expire(self) -> None:
        """Remove the taps that nobody looks at, and those of connections that are gone."""
        since_ms = self._server.scheduler.monotonic_ms() - IDLE_MS
        for connection, tap in list(self._taps.items()):
            if connection.closed or tap.looked_ms < since_ms:
                self._remove(connection)

    def _look_again(self) -> None:
        self.expire()
        again = self._server.scheduler.call_later(IDLE_MS, self._look_again) if self._taps else None
        self._timer = again

    def _remove(self, connection: "Connection") -> None:
        tap = self._taps.pop(connection)
        if connection.dispatch is tap:
            connection.dispatch = tap.dispatch

    def close(self) -> None:
        """Remove all."""
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._taps):
            self._remove(connection)
