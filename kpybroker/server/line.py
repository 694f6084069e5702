"""Who is served next: who costs little at once, all others a piece at a time, in turns.

A connection that has cost much, or that is new, owes. When it is readable it takes its place in a line, and so do
requests that are worked on in pieces (`kpybroker.server.slices`). A turn of the loop serves one piece of the line, and
before the next one the poller is asked again: so who owes nothing waits for one piece, however long the line is. Where
those who owe nothing keep the loop for long themselves, the line has a share of the time, and nobody in it starves.
What the node itself has to do in pieces takes every other turn of the line, so that nobody waits for two.
Who asks, waits for the answer and asks again would wait for a piece each time: so after somebody was served, the next
piece waits for a moment without a request, though not for long.

What cannot be cut into pieces (`LONG_NS`) is paid out of an account over all connections. An administrator's request
after request never notices it, since a pause fills it. When a flood has used it up, it fills slowly, and those whose
last request was long wait until there is something in it, or nobody else wants to be served.

Invariant: between two pieces, all who owe nothing are served; while others are served without a pause, what takes
long takes at most `SHARE` of the time beyond `SAVED_NS`, each counted as `LEAST_CHARGE_NS` at least.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from typing import Final, Protocol

from kpybroker.io.scheduler import Scheduler
from kpybroker.server.frames import WHOLE

PIECE_NS: Final = 500_000
"""What may keep the loop at a stretch. What takes longer is owed."""
SLICE_NS: Final = 250_000
"""A piece of what can be cut, and its last step."""
BRIEF_SLICE_NS: Final = 100_000
"""The same where somebody is served between the pieces, who waits for one with each request."""
NOTICED_NS: Final = 10_000_000
"""Since it was last found that there is somebody to be served."""
SHORT_NS: Final = 150_000
"""Pieces that are done in less share a turn."""
MOMENT_NS: Final = 150_000
"""Who owes nothing and was served so lately may be about to ask again: a client that waits for each answer does."""
MOST_MOMENTS_NS: Final = 600_000
"""The line waits no longer for such moments."""
PART_OF_LINE: Final = 8
"""Pieces share a turn too that together take one part in so many of what others took since the last ones."""
PART_OF_NEWCOMERS: Final = 1
"""The same while the next owes no more than a newcomer: where a thousand begin at once, all begin soon."""
LONG_NS: Final = 1_000_000
"""A piece that takes longer could not be cut."""
LONG_WHOLE_NS: Final = 50_000_000
"""The same of a Produce or Fetch, of which those of honest clients may take tens of milliseconds all day."""
CREDIT_NS: Final = PIECE_NS // 8
"""What a short piece pays back of what is owed."""
NEWCOMER_OWES_NS: Final = 2 * CREDIT_NS
"""What a client will cost shows with its first requests."""
MOST_OWED_NS: Final = 16 * CREDIT_NS
"""Who was expensive once is soon served at once again: a moment without the processor looks the same."""
SHARE: Final = 0.02
SAVED_NS: Final = 250_000_000
"""What the account holds when nothing takes long."""
OVERDRAWN_NS: Final = 100_000_000
"""What it is short of at most: the wait of who is next, if nobody goes before."""
LEAST_CHARGE_NS: Final = 5_000_000
"""So that many that are a little too long are as rare as few that are much too long."""
PAUSE_NS: Final = 500_000_000
"""So long after the last long piece the account fills as fast as time passes."""
LOOK_MS: Final = 20.0
QUIET_EVENTS: Final = 3
"""In `LOOK_MS`, so few connections are readable where nobody else wants to be served."""


class Waiting(Protocol):
    """Somebody whose next piece may take long."""

    closed: bool

    def serve_piece(self) -> object:
        """Serve a piece."""


class Account:
    """The time that what takes long may have. Times are those of ``now_ns``."""

    def __init__(self, now_ns: int) -> None:
        self._left_ns = float(SAVED_NS)
        self._at_ns = now_ns
        self._last_ns = now_ns - PAUSE_NS
        """When something took long."""

    def charge(self, now_ns: int, took_ns: int, *, is_waited_for: bool = False) -> None:
        """Something took long."""
        self.left_ns(now_ns, is_waited_for=is_waited_for)
        self._left_ns = max(self._left_ns - max(took_ns, LEAST_CHARGE_NS), -float(OVERDRAWN_NS))
        self._last_ns = now_ns

    def left_ns(self, now_ns: int, *, is_waited_for: bool = False) -> float:
        """What is left of the time, less than 0 if it is overdrawn. It is no pause since the last call where somebody
        has waited."""
        paused_ns = 0 if is_waited_for else max(0, now_ns - max(self._at_ns, self._last_ns + PAUSE_NS))
        busy_ns = now_ns - self._at_ns - paused_ns
        self._left_ns = min(float(SAVED_NS), self._left_ns + paused_ns + busy_ns * SHARE)
        self._at_ns = now_ns
        return self._left_ns


class Line:
    """The line, and those who wait for the account before they take their place in it."""

    def __init__(
        self,
        scheduler: Scheduler,
        events: Callable[[], int],
        now_ns: Callable[[], int] = perf_counter_ns,
        *,
        gives_moments: bool = False,
    ) -> None:
        """``events``: how often a connection was found to be readable or writable, so far. ``gives_moments``: time
        passes while the loop does nothing but look, so that a moment can be waited for."""
        self._scheduler = scheduler
        self._events = events
        self._now_ns = now_ns
        self._queue: deque[tuple[Callable[[], object], int]] = deque()
        """Whose turn it is, with what part of the time is its."""
        self._is_due = False
        self._waits_since_ns = 0
        self._beside: Callable[[], object] | None = None
        """The next piece of what the node itself has to do."""
        self._is_theirs = False
        """Whether that is next."""
        self._gives_moments = gives_moments
        self._is_turn = False
        self.lined_up = 0
        """Of the events, how many were of connections that wait here since."""
        self._served = 0
        self._served_ns = now_ns() - MOMENT_NS
        """When it was last found that somebody was served who does not wait here."""
        self._worked_ns = now_ns() - MOST_MOMENTS_NS
        """When the last piece ended, or the first began to wait."""
        self._noticed = 0
        self._noticed_ns = now_ns() - NOTICED_NS
        self._account = Account(now_ns())
        self._long: deque[Waiting] = deque()
        self._admitted = False
        self._is_timed = False
        self._seen_events = 0

    def join(self, serve_piece: Callable[[], object], owed_ns: int = MOST_OWED_NS) -> None:
        """Have a piece served when it is its turn. It joins again if there is more."""
        self._queue.append((serve_piece, PART_OF_NEWCOMERS if owed_ns <= NEWCOMER_OWES_NS else PART_OF_LINE))
        self._begin()

    def beside(self, work_piece: Callable[[], object]) -> None:
        """Have a piece of the node's own work done in the next turn but one at the latest; one is asked for at a
        time."""
        self._beside = work_piece
        self._begin()

    def _begin(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._waits_since_ns = self._worked_ns = self._now_ns()
            self._scheduler.call_soon(self._turn)

    def slice_ns(self) -> int:
        """How long a piece may be of what can be cut into any: shorter while somebody else is served."""
        now_ns, events = self._now_ns(), self._events()
        if events != self._noticed:
            self._noticed, self._noticed_ns = events, now_ns
        return BRIEF_SLICE_NS if now_ns - self._noticed_ns < NOTICED_NS else SLICE_NS

    def beside_ns(self) -> int:
        """The same of a piece of the node's own work: no more than a step of what begins now, without waiting for its
        turn, while somebody is likely to ask for more."""
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
                work_piece()
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
        """Whether somebody who was served just now is likely to ask for more before a piece would end."""
        now_ns = self._now_ns()
        return self._was_served_just_now(now_ns) and now_ns - self._worked_ns < MOST_MOMENTS_NS

    def _was_served_just_now(self, now_ns: int) -> bool:
        served = self._events() - self.lined_up
        if served != self._served:
            self._served, self._served_ns = served, now_ns
        return now_ns - self._served_ns < MOMENT_NS

    def _serve(self) -> None:
        now_ns, queue = self._now_ns, self._queue
        began_ns = now_ns()
        waited_ns = began_ns - self._waits_since_ns
        try:
            for _ in range(len(queue)):
                serve_piece, part = queue.popleft()
                serve_piece()
                if now_ns() - began_ns > max(SHORT_NS, waited_ns // part):
                    break
        finally:
            self._waits_since_ns = now_ns()

    # What takes long

    def charge(self, took_ns: int) -> None:
        """A piece took long."""
        self._account.charge(self._now_ns(), took_ns, is_waited_for=bool(self._long))

    def join_long(self, waiting: Waiting) -> None:
        """As `join`, for somebody whose next piece is likely to take long: when the account has time for it."""
        self._left_ns()
        self._long.append(waiting)
        self._admit(is_quiet=False)

    def _left_ns(self) -> float:
        return self._account.left_ns(self._now_ns(), is_waited_for=bool(self._long))

    def _admit(self, *, is_quiet: bool) -> None:
        """Let the next into the line, one at a time."""
        while self._long and not self._admitted:
            if not is_quiet and self._left_ns() <= 0:
                self._look_later()
                return
            waiting = self._long.popleft()
            if not waiting.closed:
                self._admitted = True
                self.join(partial(self._serve_long, waiting))

    def _serve_long(self, waiting: Waiting) -> None:
        try:
            waiting.serve_piece()
        finally:
            self._admitted = False
            self._admit(is_quiet=False)

    def _look_later(self) -> None:
        """See soon whether there is something in the account, or nobody else to be served."""
        if not self._is_timed:
            self._is_timed = True
            self._seen_events = self._events()
            self._scheduler.call_later(LOOK_MS, self._look)

    def _look(self) -> None:
        self._is_timed = False
        self._admit(is_quiet=self._events() - self._seen_events <= QUIET_EVENTS)


class Debtor:
    """A client with what it has cost beyond its share. Who owes something is served in the line."""

    __slots__ = ("_line", "is_admitted", "is_long", "owed_ns", "slow_key")

    def __init__(self, line: Line) -> None:
        self._line = line
        self.owed_ns = NEWCOMER_OWES_NS
        self.is_long = False
        """Whether what it asked last took long and could not be cut into pieces."""
        self.is_admitted = False
        """Whether it has waited until there is time for what takes long."""
        self.slow_key = -1
        """The api key of its last request that took longer than a piece should."""

    def settle(self, took_ns: int) -> None:
        """A piece took so much of the processor: the time on the clock is longer where others use it too."""
        if took_ns <= PIECE_NS:
            self.owed_ns = max(0, self.owed_ns - CREDIT_NS)
        else:
            self.costs(took_ns, is_long=took_ns > (LONG_WHOLE_NS if self.slow_key in WHOLE else LONG_NS))

    def costs(self, took_ns: int, *, is_long: bool) -> None:
        """It has kept the others waiting; ``is_long``: with something that cannot be cut into pieces."""
        self.owed_ns = min(self.owed_ns + took_ns, MOST_OWED_NS)
        if is_long:
            self.is_long = True
            self._line.charge(took_ns)
