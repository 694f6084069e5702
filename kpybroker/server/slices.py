"""Work on a request with many elements in pieces, so that nobody else waits for the whole of it.

Work is a generator: it yields between pieces, or yields a `Pending` to go on with what that resolves to, and returns
the response. What does not end with its first piece goes on by turns with all who wait (`kpybroker.server.line`).

Work holds a request and what was made of it, so what large requests are worked on at the same time is bounded by their
size; the others wait for their beginning, the smallest first.

Invariant: a turn spends one piece on a request, or one step of it; the bytes of large requests under work are at most
`WORK_BYTES`, or one request.
"""

from collections.abc import Callable, Generator, Iterable
from heapq import heappop, heappush
from time import perf_counter_ns, thread_time_ns
from typing import Any, Final, Protocol, TypeVar

from kpybroker.server.line import LONG_NS, Line
from kpybroker.server.pending import Pending

CROWDED_NS: Final = 50_000
"""The first piece of it where many connections are served in this turn: each of them waits for all the others'."""
WORK_BYTES: Final = 4 << 20
NO_KIND: Final = -1

T = TypeVar("T")
E = TypeVar("E")
Work = Generator[Pending | None, Any, Any]


class Client(Protocol):
    """Whose request is worked on: a connection."""

    closed: bool
    is_admitted: bool
    """Whether it has waited until there is time for what takes long."""

    def wait_for_time(self) -> None:
        """Wait, and have its large request begin then."""

    def costs(self, took_ns: int, *, is_long: bool) -> None:
        """A piece of its work took more than it should."""

    def end_with(self, error: Exception) -> None:
        """Its work failed."""

    def resume_soon(self) -> None:
        """Its large request may begin."""


def each(elements: Iterable[E], work: Callable[[E], T], at_once: int = 1) -> Generator[None, None, list[T]]:
    """What ``work`` makes of each element: for ``yield from`` in a handler. ``at_once``: how many make a step."""
    results: list[T] = []
    left = list(elements)
    for start in range(0, len(left), at_once):
        results += [work(element) for element in left[start : start + at_once]]
        yield
    return results


class _Job:
    """A request that is worked on: its work, its place among the connection's replies, whose it is."""

    __slots__ = ("cancelled", "client", "held_bytes", "kind", "paid_ns", "pending", "was_long", "work")

    def __init__(self, work: Work, client: Client, held_bytes: int, kind: int, paid_ns: int) -> None:
        self.work = work
        self.client = client
        self.held_bytes = held_bytes
        self.kind = kind
        self.was_long = False
        self.paid_ns = paid_ns
        self.pending = Pending()
        self.cancelled = False


class Slices:
    """The requests that are worked on now."""

    def __init__(
        self,
        line: Line,
        now_ns: Callable[[], int] = perf_counter_ns,
        worked_ns: Callable[[], int] = thread_time_ns,
        *,
        is_crowded: Callable[[], bool] = bool,
    ) -> None:
        """``worked_ns`` is the time that this thread has computed for; ``is_crowded`` says if many are served now."""
        self._line = line
        self._is_crowded = is_crowded
        self._now_ns = now_ns
        self._worked_ns = worked_ns
        self.long_kinds: dict[int, int] = {}
        """Kinds of large requests (api keys) of which the last had a step that took long, and how long. Who is let in
        with another pays that before, since nobody else may be let in on the same time."""
        self._held_bytes = 0
        self._waiting: list[tuple[int, int, Client]] = []
        self._order = 0

    def may_begin(self, client: Client, size_bytes: int, kind: int = NO_KIND) -> bool:
        """Whether a large request may be worked on now: there is room, and time if this kind is likely to take long.
        If not, its client is resumed when it should ask again."""
        if kind in self.long_kinds and not client.is_admitted:
            client.wait_for_time()
            return False
        if not self._has_room(size_bytes):
            self._order += 1
            heappush(self._waiting, (size_bytes, self._order, client))
            return False
        if client.is_admitted:
            client.is_admitted = False
            self._line.charge(self.long_kinds.get(kind, 0))
        return True

    def _has_room(self, size_bytes: int) -> bool:
        return not self._held_bytes or self._held_bytes + size_bytes <= WORK_BYTES

    def _release(self, job: _Job) -> None:
        if job.held_bytes:
            self._held_bytes -= job.held_bytes
            job.held_bytes = 0
            self._wake()

    def _wake(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            client = heappop(self._waiting)[2]
            if not client.closed:
                client.resume_soon()
                self._line.join(self._wake)  # once that one has begun, there may be room for another
                return

    def begin(self, work: Work, client: Client, size_bytes: int = 0, kind: int = NO_KIND) -> Any:
        """The response, if the work ends with its first piece or fails; else a `Pending` that resolves to it.

        ``size_bytes`` of a large request of this kind are counted until its work has ended, or waits for another's.
        """
        paid_ns = self.long_kinds.get(kind, 0)
        try:
            waits_for = self._advance(work, None, CROWDED_NS if self._is_crowded() else self._line.slice_ns())
        except StopIteration as end:
            self.long_kinds.pop(kind, None)
            return end.value
        job = _Job(work, client, size_bytes, kind, paid_ns)
        self._held_bytes += size_bytes
        self._later(job, waits_for)
        return job.pending

    def _advance(self, work: Work, value: Any, slice_ns: int) -> Pending | None:
        """A piece; a `Pending` if it cannot go on before that. StopIteration at the end, and what the work raises."""
        now_ns = self._now_ns
        until_ns = now_ns() + slice_ns
        waits_for = work.send(value)
        while waits_for is None:
            if now_ns() >= until_ns:
                return None
            waits_for = next(work)
        return waits_for

    def _later(self, job: _Job, waits_for: Pending | None) -> None:
        def cancel() -> None:
            job.cancelled = True
            self._release(job)
            if waits_for is not None:
                waits_for.cancel()

        job.pending.when_cancelled(cancel)
        if waits_for is None:
            self._line.join(lambda: self._go_on(job, None))
        else:
            self._release(job)
            waits_for.when_resolved(lambda value: self._line.join(lambda: self._go_on(job, value)))

    def _go_on(self, job: _Job, value: Any) -> None:
        if job.cancelled:
            return
        began_ns = self._worked_ns()
        try:
            waits_for = self._advance(job.work, value, self._line.slice_ns())
        except StopIteration as end:
            self._release(job)
            if not job.was_long:
                self.long_kinds.pop(job.kind, None)
            _answer(job.pending, end.value)
        except Exception as error:
            self._release(job)
            job.client.end_with(error)
        else:
            self._later(job, waits_for)
        took_ns = self._worked_ns() - began_ns
        if took_ns > LONG_NS:
            self._took_long(job, took_ns)

    def _took_long(self, job: _Job, took_ns: int) -> None:
        job.was_long = True
        if took_ns > 2 * job.paid_ns:
            job.client.costs(took_ns, is_long=True)
        job.paid_ns = 0
        if job.kind != NO_KIND:
            self.long_kinds[job.kind] = took_ns


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
