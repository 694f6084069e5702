"""Long work on batches, for clients that wait for it: one process does it, and every client gets its turn.

The process is started when there is something to do, and ended when there was nothing for a while.

Invariant: the batches that wait have `MOST_HELD_BYTES` together, and those of a client a quarter of that, or there is
just one; each question gets one answer, unless its client is gone.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from kpybroker.hosts.labour.tasks import Answer, BatchCheck, BatchSearch, Overloaded, TaskDone, TaskFailed
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.fairness.parties import Parties
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpybroker.runtime.io.worker import Worker, WorkerDied

MODULE: Final = "kpybroker.hosts.labour.process"
MOST_HELD_BYTES: Final = 64 << 20
MOST_HELD_OF_ONE_BYTES: Final = MOST_HELD_BYTES // 4
IDLE_MS: Final = 30_000


Charge = Callable[[int], object]
"""Charges a client with CPU time of the process, in ns."""


class _LabourJob:
    __slots__ = ("charge", "is_begun", "is_forgotten", "party", "pending", "size_bytes", "task")

    def __init__(self, party: str, task: BatchCheck | BatchSearch, size_bytes: int, charge: Charge | None) -> None:
        self.charge = charge
        self.party = party
        self.task: BatchCheck | BatchSearch | None = task
        self.size_bytes = size_bytes
        self.pending = Pending()
        self.is_begun = False
        self.is_forgotten = False
        """Whether nobody waits for the answer."""


class Labour:
    """The process of one broker, and the work that waits for it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._parties: Parties[_LabourJob] = Parties()
        self._held_bytes = 0
        self._held_of: Counter[str] = Counter()
        """The bytes of each client, of those that have some."""
        self._is_busy = self._is_stopped = False
        self._worker: Worker | None = None
        self._timer: Timer | None = None

    def ask(self, party: str, task: BatchCheck | BatchSearch, charge: Charge | None = None) -> Pending:
        """Do a task for a client. The answer is an `Answer`; `Overloaded` at once if too much waits. ``charge`` is
        called before it with the CPU time that the task took."""
        size_bytes = len(task[0])
        job = _LabourJob(party, task, size_bytes, charge)
        if not self._has_room(self._held_of.get(party, 0), size_bytes):
            job.pending.resolve(Overloaded())
            return job.pending
        self._hold(party, size_bytes)
        job.pending.when_cancelled(lambda: self._forget(job))
        self._parties.put(party, job)
        self._next()
        return job.pending

    def stop(self) -> None:
        """End the process. Nothing more is begun."""
        self._is_stopped = True
        self._end()

    def _forget(self, job: _LabourJob) -> None:
        job.is_forgotten = True
        if not job.is_begun:
            job.task = None
            self._hold(job.party, -job.size_bytes)

    def _has_room(self, held_of_one: int, size_bytes: int) -> bool:
        if self._held_bytes and self._held_bytes + size_bytes > MOST_HELD_BYTES:
            return False
        return not held_of_one or held_of_one + size_bytes <= MOST_HELD_OF_ONE_BYTES

    def _hold(self, party: str, size_bytes: int) -> None:
        self._held_bytes += size_bytes
        self._held_of[party] += size_bytes
        if not self._held_of[party]:
            del self._held_of[party]

    def _next(self) -> None:
        while not (self._is_busy or self._is_stopped):
            taken = self._parties.take()
            if taken is None:
                self._timer = self._scheduler.call_later(IDLE_MS, self._end)
                return
            party, job = taken
            if job.task is not None:
                self._do(party, job, job.task)

    def _do(self, party: str, job: _LabourJob, task: BatchCheck | BatchSearch) -> None:
        self._is_busy = job.is_begun = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._worker is None:
            self._worker = Worker(self._scheduler, MODULE, lambda _answer: True)
        began_ms = self._scheduler.monotonic_ms()

        def answered(done: TaskDone | Answer | WorkerDied) -> None:
            answer = done.answer if isinstance(done, TaskDone) else done
            if job.charge is not None and isinstance(done, TaskDone):
                job.charge(done.worked_ns)
            self._parties.charge(party, int((self._scheduler.monotonic_ms() - began_ms) * 1_000_000))
            self._hold(party, -job.size_bytes)
            self._is_busy = False
            if not job.is_forgotten:
                job.pending.resolve(TaskFailed(str(answer)) if isinstance(answer, WorkerDied) else answer)
            self._next()

        job.task = None
        self._worker.ask(task, answered)

    def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()
