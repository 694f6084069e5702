"""The workers that compact a log: a process beside the event loop, or a thread if only this process sees the files.

Both take a task, and report every group of segments that is complete and finally how the pass ended. A pass under way
can be stopped. It is over only when its end is reported, since it may still write until then.

Not here: choosing the log, and swapping in the result (:mod:`kpybroker.hosts.replicas.compaction`).
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage.compaction.task import Cleaned, CleanedSegments, CleanerConfig, LogToClean, PassFailed
from kpystorage.disk import Disk
from kpystorage.modes import PRIVATE, Modes

if TYPE_CHECKING:
    from kpybroker.runtime.io.worker import Worker, WorkerDied

MODULE = "kpystorage.compaction"

Cleaning = Generator[CleanedSegments, None, Cleaned]


class Stopped(NamedTuple):
    """The end of a pass that was stopped."""


class CleaningTask(NamedTuple):
    """The input of a pass."""

    log: LogToClean
    config: CleanerConfig
    now_ms: int


Answer = CleanedSegments | Cleaned | PassFailed | Stopped
OnAnswer = Callable[[Answer], object]


class CleanerRun(Protocol):
    """A pass under way."""

    def stop(self) -> None:
        """Stop the pass; its end is reported soon."""


class Cleaners(Protocol):
    """Runs passes, each to its end."""

    def clean(self, task: CleaningTask, on_answer: OnAnswer) -> CleanerRun:
        """Begin a pass; ``on_answer`` is called on the loop with each result, and with the end once and last."""

    def rest(self) -> None:
        """Release what is kept for the next pass, since there was nothing to do for a while."""

    def stop(self) -> None:
        """Stop everything; passes under way are over when the scheduler is closed."""


class Processes:
    """Runs each pass in a process, which is kept for the next one."""

    def __init__(self, scheduler: Scheduler, modes: Modes = PRIVATE) -> None:
        """``modes`` are those of the files that it makes."""
        self._scheduler = scheduler
        self._modes = modes
        self._idle: list[Worker] = []
        self._busy: list[Worker] = []

    def clean(self, task: CleaningTask, on_answer: OnAnswer) -> "ProcessRun":
        from kpybroker.runtime.io.worker import Worker, WorkerDied

        worker = self._idle.pop() if self._idle else Worker(self._scheduler, MODULE, _is_end, map(str, self._modes))
        self._busy.append(worker)

        def answered(answer: "Answer | WorkerDied") -> None:
            if isinstance(answer, WorkerDied):
                self._busy.remove(worker)
                if not worker.is_stopped:
                    worker.stop()
                    answer = PassFailed(f"the cleaner died: {answer}", may_pass=True)
                else:
                    answer = Stopped()
            elif _is_end(answer):
                self._busy.remove(worker)
                if not worker.is_stopped:
                    self._idle.append(worker)
            on_answer(answer)

        worker.ask(tuple(task), answered)
        return ProcessRun(worker)

    def rest(self) -> None:
        while self._idle:
            self._idle.pop().stop()

    def stop(self) -> None:
        for worker in [*self._idle, *self._busy]:
            worker.stop()
            self._scheduler.submit_blocking(worker.join, lambda _result, _error: None)
        self._idle.clear()


class ProcessRun:
    """A pass in a process."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker

    def stop(self) -> None:
        self._worker.stop()


def _is_end(answer: object) -> bool:
    return not isinstance(answer, CleanedSegments)


class Threads:
    """Runs each pass in threads of this process, a group of segments at a time: for disks that no other process
    sees."""

    def __init__(self, scheduler: Scheduler, disk: Disk) -> None:
        self._scheduler = scheduler
        self._disk = disk
        self._running: list[ThreadRun] = []

    def clean(self, task: CleaningTask, on_answer: OnAnswer) -> "ThreadRun":
        from kpystorage.compaction.cleaner import clean

        def ended(answer: Answer) -> None:
            if _is_end(answer):
                self._running.remove(run)
            on_answer(answer)

        run = ThreadRun(self._scheduler, ended)
        self._running.append(run)
        run.start(clean(self._disk, *task, run.check))
        return run

    def rest(self) -> None:
        pass

    def stop(self) -> None:
        for run in self._running:
            run.stop()


class ThreadRun:
    """A pass in threads."""

    def __init__(self, scheduler: Scheduler, on_answer: OnAnswer) -> None:
        self._scheduler = scheduler
        self._on_answer = on_answer
        self._is_stopped = False

    def start(self, cleaning: Cleaning) -> None:
        """Begin the pass."""
        self._cleaning = cleaning
        self._scheduler.submit_blocking(self._next, self._done)

    def check(self, _size_bytes: int) -> None:
        """End the pass if it was stopped. Runs in the pass's thread."""
        if self._is_stopped:
            raise _CalledOff

    def stop(self) -> None:
        self._is_stopped = True

    def _next(self) -> Answer:
        try:
            self.check(0)
            return next(self._cleaning)
        except StopIteration as ended:
            result: Cleaned = ended.value
            return result
        except _CalledOff:
            return Stopped()
        except Exception as error:
            return PassFailed.of(error)
        finally:
            if self._is_stopped:
                self._cleaning.close()

    def _done(self, answer: Answer | None, error: BaseException | None) -> None:
        if answer is None:
            answer = PassFailed(f"the thread of a cleaner ended with {error!r}")
        if isinstance(answer, CleanedSegments):
            self._scheduler.submit_blocking(self._next, self._done)
        self._on_answer(answer)


class _CalledOff(Exception):
    """A pass was stopped and must not continue."""
