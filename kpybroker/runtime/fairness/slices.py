"""Requests that are worked on in slices, so that nobody waits for the whole of a large one.

Work is a generator (`kpybroker.runtime.calls.steps`). A request that does not end with its first slice goes on in the
line (`kpybroker.runtime.fairness.line`), slice by slice.

Work holds a request and everything made of it. So large requests under work at the same time are bounded by their
size; the others wait to begin, the smallest first.

Invariant: a turn spends one slice on a request, or one step of it; the bytes of large requests under work are at most
`WORK_BYTES`, or one request.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from time import perf_counter_ns, thread_time_ns
from typing import Any, Protocol

from kpybroker.runtime.calls.deferred import pass_on
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import GivenUp, Work
from kpybroker.runtime.fairness.line import Line
from kpybroker.runtime.fairness.times import CROWDED_NS, LONG_NS, WORK_BYTES
from kpybroker.runtime.fairness.trait import ORDINARY, Trait


class SlicedConnection(Protocol):
    """A connection, whose request is worked on."""

    @property
    def closed(self) -> bool:
        """Whether there is nobody left to answer."""

    is_admitted: bool
    """Whether the account has let it in."""

    def wait_for_time(self) -> None:
        """Wait for the account, and begin the large request then."""

    def costs(self, took_ns: int, *, is_long: bool) -> None:
        """Add to its debt: a slice of its work took too long."""

    def end_with(self, error: Exception) -> None:
        """Close it: its work failed."""

    def resume_soon(self) -> None:
        """Ask again: its large request may begin now."""


class _Job:
    """One request that is worked on."""

    __slots__ = ("cancelled", "client", "held_bytes", "kind", "paid_ns", "pending", "was_long", "work")

    def __init__(self, work: Work, client: SlicedConnection, held_bytes: int, kind: Trait, paid_ns: int) -> None:
        self.work = work
        self.client = client
        self.held_bytes = held_bytes
        self.kind = kind
        self.was_long = False
        self.paid_ns = paid_ns
        self.pending = Pending()
        self.cancelled = False


class Slices:
    """All requests that are worked on now."""

    def __init__(
        self,
        line: Line,
        now_ns: Callable[[], int] = perf_counter_ns,
        worked_ns: Callable[[], int] = thread_time_ns,
        *,
        is_crowded: Callable[[], bool] = bool,
    ) -> None:
        """``worked_ns``: the CPU time of this thread; ``is_crowded``: whether this turn serves many connections."""
        self._line = line
        self._is_crowded = is_crowded
        self._now_ns = now_ns
        self._worked_ns = worked_ns
        self.long_kinds: dict[Trait, int] = {}
        """Kinds of large requests whose last one had a step that took long, and how long it took. The next one of that
        kind pays this in advance, so that the same time is not promised twice."""
        self._held_bytes = 0
        self._waiting: list[tuple[int, int, SlicedConnection]] = []
        self._order = 0

    def may_begin(self, client: SlicedConnection, size_bytes: int, kind: Trait = ORDINARY) -> bool:
        """Whether a large request may begin now: there is room, and time if this kind is likely to take long.

        If not, the client is resumed when it should ask again.
        """
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

    def begin(self, work: Work, client: SlicedConnection, size_bytes: int = 0, kind: Trait = ORDINARY) -> Any:
        """The response if the work ends with its first slice, else a `Pending`. Raises what the first slice raises.

        ``size_bytes`` of a large request are counted until its work ends, or waits for something else.
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
        """Do one slice; a `Pending` if the work waits for it. StopIteration at the end, or what the work raises."""
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
            if waits_for is not None and not waits_for.resolved:
                waits_for.cancel()
                self._line.join(lambda: self._give_up(job.work))

        job.pending.when_cancelled(cancel)
        if waits_for is None:
            self._line.join(lambda: self._go_on(job, None))
        else:
            self._release(job)
            waits_for.when_resolved(lambda value: self._line.join(lambda: self._go_on(job, value)))

    def _go_on(self, job: _Job, value: Any) -> None:
        if job.cancelled:
            self._give_up(job.work)
            return
        began_ns = self._worked_ns()
        try:
            waits_for = self._advance(job.work, value, self._line.slice_ns())
        except StopIteration as end:
            self._release(job)
            if not job.was_long:
                self.long_kinds.pop(job.kind, None)
            pass_on(end.value, job.pending)
        except Exception as error:
            self._release(job)
            job.client.end_with(error)
            if not job.client.closed:
                pass_on(None, job.pending)  # it waits for the answers to its requests before it closes
        else:
            self._later(job, waits_for)
        took_ns = self._worked_ns() - began_ns
        if took_ns > LONG_NS:
            self._took_long(job, took_ns)

    def _give_up(self, work: Work) -> None:
        try:
            work.throw(GivenUp())
        except (GivenUp, StopIteration):
            return
        self._line.join(lambda: self._free(work))

    def _free(self, work: Work) -> None:
        """Let work that was given up free more of what it holds."""
        try:
            self._advance(work, None, self._line.slice_ns())
        except (GivenUp, StopIteration):
            return
        self._line.join(lambda: self._free(work))

    def _took_long(self, job: _Job, took_ns: int) -> None:
        job.was_long = True
        self._line.took(took_ns, job.client)
        if took_ns > 2 * job.paid_ns:
            job.client.costs(took_ns, is_long=True)
        job.paid_ns = 0
        if job.kind is not ORDINARY:
            self.long_kinds[job.kind] = took_ns
