"""Requests of open transactions wait a moment for requests that end one.

Until a transaction ends, its producer waits, and so does every reader of committed records. So an EndTxn is served as
soon as it is seen. Other requests of transactions that came with it are put aside; between two of these, and between
two steps of work for transactions that have ended, the poller is asked for another EndTxn (`look`).

Not here: which requests are put aside, and how they are served (`kpybroker.requests.server.connection`).

Invariant: at most one request of a connection is put aside, and nothing behind it is served before it; together they
hold at most `ASIDE_BYTES`. Between two looks one waiting request is served, and a look serves few: nobody starves.
"""

from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import Protocol

from kpybroker.runtime.fairness.times import ASIDE_BYTES, ASIDE_PIECE_NS, ASIDE_REQUEST_BYTES, LOOK_EVERY_NS
from kpybroker.runtime.fairness.turn import Turn


class AsideConnection(Protocol):
    """A connection, which serves nothing else meanwhile."""

    def serve_aside(self, frame: memoryview) -> None:
        """Serve the request that was put aside, if there is still somebody to answer."""


class Aside:
    """The requests that were put aside, in the order of their coming."""

    def __init__(self, turn: Turn, call_soon: Callable[..., object], look: Callable[[], object]) -> None:
        """``look`` serves the connections that are readable now."""
        self._turn = turn
        self._call_soon = call_soon
        self._look = look
        self._looked_ns = 0
        self._waiting: deque[tuple[AsideConnection, bytearray]] = deque()
        self._held_bytes = 0
        self._is_due = False

    def takes(self, waiting: AsideConnection, frame: memoryview) -> bool:
        """Put a request aside, if there is room for it."""
        size_bytes = len(frame)
        if size_bytes > ASIDE_REQUEST_BYTES or self._held_bytes + size_bytes > ASIDE_BYTES:
            return False
        self._waiting.append((waiting, bytearray(frame)))
        self._held_bytes += size_bytes
        if not self._is_due:
            self._is_due = True
            self._call_soon(self._go_on)
        return True

    def look(self) -> None:
        """Serve, or put aside, what has become readable meanwhile: to be called between two steps of longer work."""
        if perf_counter_ns() - self._looked_ns >= LOOK_EVERY_NS:
            self._look()
            self._looked_ns = perf_counter_ns()

    def _go_on(self) -> None:
        self._looked_ns = began_ns = perf_counter_ns()
        turn, waiting = self._turn, self._waiting
        is_turn = len(waiting) > 1
        if is_turn:
            turn.begin(began_ns)
        try:
            while waiting and perf_counter_ns() - began_ns < ASIDE_PIECE_NS:
                each, frame = waiting.popleft()
                self._held_bytes -= len(frame)
                each.serve_aside(memoryview(frame))
                self.look()
        finally:
            if is_turn:
                turn.end()
            self._is_due = bool(waiting)
            if waiting:
                self._call_soon(self._go_on)
