"""Requests of transactions that go on wait a moment for those that end one.

Until a transaction ends, its producer waits, and so does everybody who reads only what is committed. So an EndTxn is
served and answered as soon as it is seen: before the other requests of transactions that came with it, which are put
aside, before those who wait in the line whatever its producer owes (`is_end`), and between two of these, or two steps
of what the node does for transactions that have ended (`look`).

Not here: who is put aside, and how it is served (`kpybroker.server.connection`).

Invariant: of a connection one request is here at most, and nothing behind it is served before it; together they hold at
most `MOST_BYTES`. Between two looks somebody who waits is served, and a look serves few: so nobody starves.
"""

import socket
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import Final, Protocol

from kpybroker.server.frames import END_TXN, SIZE, SMALLEST_FRAME_BYTES, api_key_at
from kpybroker.server.turn import Turn

PEEKED_BYTES: Final = 512
"""More than an EndTxn has, unless its transactional id is very long."""
LARGEST_BYTES: Final = 16 * 1024
"""Larger requests are served when they come: copying them would cost as much as many small ones."""
MOST_BYTES: Final = 1024 * 1024
PIECE_NS: Final = 1_000_000
"""For so long those who were put aside are served before everybody else gets a turn of the loop."""
LOOK_EVERY_NS: Final = 50_000
"""What an EndTxn may wait for: a look costs about a microsecond where there is nothing to see."""


class Waiting(Protocol):
    """A connection, which serves nothing else meanwhile."""

    def serve_aside(self, frame: memoryview) -> None:
        """Serve what was put aside, if there is still somebody to answer."""


class Aside:
    """Who was put aside, in the order of their coming."""

    def __init__(self, turn: Turn, call_soon: Callable[..., object], look: Callable[[], object]) -> None:
        """``look`` serves who is readable now."""
        self._turn = turn
        self._call_soon = call_soon
        self._look = look
        self._looked_ns = 0
        self._peeked = memoryview(bytearray(PEEKED_BYTES))
        self._waiting: deque[tuple[Waiting, bytearray]] = deque()
        self._held_bytes = 0
        self._is_due = False

    def is_end(self, sock: socket.socket) -> bool:
        """Whether one EndTxn is all there is to be read; nothing is read."""
        try:
            count = sock.recv_into(self._peeked, 0, socket.MSG_PEEK)
        except OSError:
            return False
        if not SMALLEST_FRAME_BYTES < count < PEEKED_BYTES or SIZE.unpack_from(self._peeked)[0] != count - SIZE.size:
            return False
        return api_key_at(self._peeked, SIZE.size) == END_TXN

    def takes(self, waiting: Waiting, frame: memoryview) -> bool:
        """Put a request aside, if there is room for it."""
        size_bytes = len(frame)
        if size_bytes > LARGEST_BYTES or self._held_bytes + size_bytes > MOST_BYTES:
            return False
        self._waiting.append((waiting, bytearray(frame)))
        self._held_bytes += size_bytes
        if not self._is_due:
            self._is_due = True
            self._call_soon(self._go_on)
        return True

    def look(self) -> None:
        """Between two steps of what takes longer: who has become readable meanwhile is served, or put aside."""
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
            while waiting and perf_counter_ns() - began_ns < PIECE_NS:
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
