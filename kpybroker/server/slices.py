"""Work on a request with many elements, a millisecond at a time, so that nobody else waits for the whole of it.

A handler that is a generator yields between its elements and returns the response. What does not end within one slice
goes on in later turns of the loop, all such requests taking turns, one slice a turn.

Invariant: however many requests are worked on, a turn of the loop spends at most one slice on them, or one element.
"""

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

from kpybroker.io.scheduler import Scheduler
from kpybroker.server.pending import Pending

log = logging.getLogger("kpybroker.server")

SLICE_MS = 1.0
REST = 2
"""So many times what a turn took beyond its slice, such as to write a long answer, the others wait for the next."""

T = TypeVar("T")
E = TypeVar("E")
Work = Generator[None, None, Any]


def each(elements: Iterable[E], work: Callable[[E], T]) -> Generator[None, None, list[T]]:
    """What ``work`` makes of each element: for ``yield from`` in a handler."""
    results = []
    for element in elements:
        results.append(work(element))
        yield
    return results


class _Job:
    """A request that is worked on: its work, its place among the connection's replies, what ends the connection."""

    __slots__ = ("cancelled", "fail", "pending", "work")

    def __init__(self, work: Work, pending: Pending, fail: Callable[[], object]) -> None:
        self.work = work
        self.pending = pending
        self.fail = fail
        self.cancelled = False
        pending.when_cancelled(self._cancel)

    def _cancel(self) -> None:
        self.cancelled = True


class Slices:
    """The requests that are worked on now."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._jobs: deque[_Job] = deque()
        self._is_due = False

    def begin(self, work: Work, fail: Callable[[], object]) -> Any:
        """The response, if the work ends within a slice or fails; else a `Pending` that resolves to it.

        ``fail`` ends the connection, if the work raises later on.
        """
        try:
            self._advance(work)
        except StopIteration as end:
            return end.value
        pending = Pending()
        self._jobs.append(_Job(work, pending, fail))
        self._turn_soon()
        return pending

    def _advance(self, work: Work) -> None:
        """Raises StopIteration at the end, and whatever the work raises."""
        clock = self._scheduler.monotonic_ms
        until_ms = clock() + SLICE_MS
        next(work)
        while clock() < until_ms:
            next(work)

    def _turn_soon(self, rest_ms: float = 0.0) -> None:
        if self._jobs and not self._is_due:
            self._is_due = True
            if rest_ms:
                self._scheduler.call_later(rest_ms, self._turn)
            else:
                self._scheduler.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_due = False
        job = self._jobs.popleft()
        began_ms = self._scheduler.monotonic_ms()
        try:
            if not job.cancelled:
                self._go_on(job)
        finally:
            over_ms = self._scheduler.monotonic_ms() - began_ms - 2 * SLICE_MS
            self._turn_soon(max(0.0, over_ms) * REST)

    def _go_on(self, job: _Job) -> None:
        try:
            self._advance(job.work)
        except StopIteration as end:
            _answer(job.pending, end.value)
        except Exception:
            log.exception("a request of many elements failed")
            job.fail()
        else:
            self._jobs.append(job)


def _answer(pending: Pending, value: Any) -> None:
    """Resolve, now, or when what the work has come to resolves."""
    if isinstance(value, Pending):
        pending.when_cancelled(value.cancel)
        value.when_resolved(pending.resolve)
    else:
        pending.resolve(value)


def at_once(work: Work) -> Any:
    """The response of work that need not share a loop with anybody."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value
