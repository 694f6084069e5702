"""The queue of expensive work: cheap connections are served at once, everything else one piece at a time.

A connection that is new, or that has used more than its share of the loop, owes time (`fairness.debtor`). When it
becomes readable it joins the line. Requests that are worked on in slices (`fairness.slices`) join it too. One turn of
the loop serves one piece of the line, and the poller is asked again before the next one. So a cheap connection waits
for one piece at most, however long the line is.

Three rules keep this fair to everybody:

- Where cheap connections fill the loop, the line still gets a part of the time, so nobody in it starves.
- The node's own long work takes every other turn of the line, so nobody waits for two pieces.
- A client that waits for each answer before it asks again would wait for one piece each time. So the line pauses for
  a moment after each cheap request, though not for long.

Work that cannot be cut is paid from an account (`fairness.account`). A connection whose last request was of that kind
waits until the account has time for it, or the broker is idle.

Invariant: between two pieces all cheap connections that are readable are served.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from typing import Protocol

from kpybroker.runtime.fairness.account import Account
from kpybroker.runtime.fairness.times import (
    BRIEF_SLICE_NS,
    LOOK_MS,
    MOMENT_NS,
    MOST_MOMENTS_NS,
    MOST_OWED_NS,
    NEWCOMER_OWES_NS,
    NOTICED_NS,
    PART_OF_LINE,
    PART_OF_NEWCOMERS,
    QUIET_EVENTS,
    SHORT_NS,
    SLICE_NS,
)
from kpybroker.runtime.io.scheduler import Scheduler


class WaitingConnection(Protocol):
    """A connection whose next piece may take long."""

    @property
    def closed(self) -> bool:
        """Whether there is nobody left to serve."""

    def serve_piece(self) -> object:
        """Serve its next piece."""


class Line:
    """The line, and the connections that wait for the account before they may join it."""

    def __init__(
        self,
        scheduler: Scheduler,
        events: Callable[[], int],
        served_ns: Callable[[], int],
        now_ns: Callable[[], int] = perf_counter_ns,
        *,
        gives_moments: bool = False,
    ) -> None:
        """``events`` counts how often a connection was readable or writable, and ``served_ns`` is the time when one was
        last served at once. ``gives_moments``: time passes while the loop only polls (not so in a simulation), so the
        line can wait for a moment."""
        self._scheduler = scheduler
        self._events = events
        self._served_ns = served_ns
        self._now_ns = now_ns
        self._queue: deque[tuple[Callable[[], object], int]] = deque()
        """The pieces in their order, each with its part of the time (1 in ...)."""
        self._is_due = False
        self._waits_since_ns = 0
        self._beside: Callable[[], object] | None = None
        """The next piece of the node's own work."""
        self._is_theirs = False
        """Whether the node's own work is next."""
        self._gives_moments = gives_moments
        self._is_turn = False
        self._worked_ns = now_ns() - MOST_MOMENTS_NS
        """The time when the last piece ended, or the first one joined."""
        self._noticed = 0
        self._noticed_ns = now_ns() - NOTICED_NS
        self._account = Account(now_ns())
        self._long: deque[WaitingConnection] = deque()
        self._admitted = False
        self._is_timed = False
        self._seen_events = 0
        self.slow_ns = 0
        """The time of the piece that took longest recently. Whatever reads it resets it."""
        self.slowest: object | None = None
        """The connection that it was for; None if it was the node's own work."""

    def join(self, serve_piece: Callable[[], object], owed_ns: int = MOST_OWED_NS) -> None:
        """Serve a piece when its turn comes. The piece joins again if there is more to do."""
        self._queue.append((serve_piece, PART_OF_NEWCOMERS if owed_ns <= NEWCOMER_OWES_NS else PART_OF_LINE))
        self._begin()

    def is_free(self) -> bool:
        """Whether nothing waits, and a piece that joins now would be served at once."""
        return not (self._is_due or (self._gives_moments and self._was_served_just_now(self._now_ns())))

    def beside(self, work_piece: Callable[[], object]) -> None:
        """Do a piece of the node's own work, at the latest in the turn after the next. One can be due at a time."""
        self._beside = work_piece
        self._begin()

    def _begin(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._waits_since_ns = self._worked_ns = self._now_ns()
            self._scheduler.call_soon(self._turn)

    def slice_ns(self) -> int:
        """The length of the next slice: shorter while cheap connections are being served."""
        now_ns, events = self._now_ns(), self._events()
        if events != self._noticed:
            self._noticed, self._noticed_ns = events, now_ns
        return BRIEF_SLICE_NS if now_ns - self._noticed_ns < NOTICED_NS else SLICE_NS

    def beside_ns(self) -> int:
        """The length of the next piece of the node's own work. 0, a single step, for work that begins outside its turn
        while a cheap client is likely to ask again."""
        if self._gives_moments and not self._is_turn and self._was_served_just_now(self._now_ns()):
            return 0
        return self.slice_ns()

    def _turn(self) -> None:
        if self._gives_moments and self._is_moment():
            self._scheduler.call_soon(self._turn)
            return
        self._is_turn = True
        try:
            if self._beside is not None and (self._is_theirs or not self._queue):
                work_piece, self._beside, self._is_theirs = self._beside, None, False
                began_ns = self._now_ns()
                work_piece()
                self.took(self._now_ns() - began_ns, None)
            else:
                self._is_theirs = True
                self._serve()
        finally:
            self._is_turn = False
            self._is_due = bool(self._queue) or self._beside is not None
            if self._is_due:
                self._worked_ns = self._now_ns()
                self._scheduler.call_soon(self._turn)

    def _is_moment(self) -> bool:
        """Whether a client that was served just now is likely to ask again before a piece would end."""
        now_ns = self._now_ns()
        return self._was_served_just_now(now_ns) and now_ns - self._worked_ns < MOST_MOMENTS_NS

    def _was_served_just_now(self, now_ns: int) -> bool:
        return now_ns - self._served_ns() < MOMENT_NS

    def _serve(self) -> None:
        now_ns, queue = self._now_ns, self._queue
        began_ns = now_ns()
        waited_ns = began_ns - self._waits_since_ns
        try:
            for _nth in range(len(queue)):
                serve_piece, part = queue.popleft()
                serve_piece()
                if now_ns() - began_ns > max(SHORT_NS, waited_ns // part):
                    break
        finally:
            self._waits_since_ns = now_ns()

    # What takes long

    def took(self, took_ns: int, client: object | None) -> None:
        """Remember a piece if it took longer than others."""
        if took_ns > self.slow_ns:
            self.slow_ns, self.slowest = took_ns, client

    def charge(self, took_ns: int) -> None:
        """Charge a long piece to the account."""
        self._account.charge(self._now_ns(), took_ns, is_waited_for=bool(self._long))

    def join_long(self, waiting: WaitingConnection) -> None:
        """Like `join`, for a connection whose next piece is likely to take long: once the account has time for it."""
        self._left_ns()
        self._long.append(waiting)
        self._admit(is_quiet=False)

    def _left_ns(self) -> float:
        return self._account.left_ns(self._now_ns(), is_waited_for=bool(self._long))

    def _admit(self, *, is_quiet: bool) -> None:
        """Let the next connection into the line, one at a time."""
        while self._long and not self._admitted:
            if not is_quiet and self._left_ns() <= 0:
                self._look_later()
                return
            waiting = self._long.popleft()
            if not waiting.closed:
                self._admitted = True
                self.join(partial(self._serve_long, waiting))

    def _serve_long(self, waiting: WaitingConnection) -> None:
        try:
            waiting.serve_piece()
        finally:
            self._admitted = False
            self._admit(is_quiet=False)

    def _look_later(self) -> None:
        """Look again soon whether the account holds something, or the broker is idle."""
        if not self._is_timed:
            self._is_timed = True
            self._seen_events = self._events()
            self._scheduler.call_later(LOOK_MS, self._look)

    def _look(self) -> None:
        self._is_timed = False
        self._admit(is_quiet=self._events() - self._seen_events <= QUIET_EVENTS)
