"""Threads of a simulated process, of which one runs at a time: each waits at every sync of the disk until it is
resumed, so that any step of the loop may come in between.

A real thread stands behind each, since the code under test knows nothing of this; which of them runs is handed over.

Invariant: the same resumptions are the same history.
"""

import threading
from collections.abc import Callable
from typing import Any

from kpystorage.sim_disk import SimDisk, SimulatedCrash


class Worker:
    """Work in a thread. ``is_over`` once it has returned or raised."""

    def __init__(self, threads: "Threads", work: Callable[[], Any], over: "Callable[[Worker], object]") -> None:
        """``over`` is called once it is over, by what resumed it last."""
        self.over = over
        self.is_over = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._threads = threads
        self._work = work
        self._mine, self._others = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        self._mine.acquire()
        try:
            self.result = self._work()
        except BaseException as error:
            self.error = error
        self.is_over = True
        self._others.release()

    def resume(self) -> None:
        """Let it go on to its next sync, or to its end."""
        before, self._threads.running = self._threads.running, self
        self._mine.release()
        self._others.acquire()
        self._threads.running = before

    def wait(self) -> None:
        """Wait to be resumed. Called in its thread."""
        self._others.release()
        self._mine.acquire()
        if self._threads.is_dead:
            raise SimulatedCrash


class Threads:
    """The threads of one process on a simulated disk."""

    def __init__(self, disk: SimDisk, waits: Callable[[Worker], object] = lambda _worker: None) -> None:
        """``waits`` is called for each worker that begins to wait: somebody has to resume it."""
        self.running: Worker | None = None
        self.is_dead = False
        self.waiting: dict[Worker, None] = {}
        self._waits = waits
        disk.before_sync = self.before_sync
        disk.lock_of = lambda: TurnLock(self)

    def begin(self, work: Callable[[], Any], over: Callable[[Worker], object] = lambda _worker: None) -> Worker:
        """A thread that does this, up to its first sync."""
        worker = Worker(self, work, over)
        self.go_on(worker)
        return worker

    def go_on(self, worker: Worker) -> None:
        """Resume one."""
        if worker.is_over:
            return
        self.waiting.pop(worker, None)
        worker.resume()
        if worker.is_over:
            worker.over(worker)
        else:
            self.waiting[worker] = None
            self._waits(worker)

    def go_on_all(self) -> None:
        """Resume each once."""
        for worker in list(self.waiting):
            self.go_on(worker)

    def before_sync(self) -> None:
        """Called by the disk."""
        if self.running is not None:
            self.running.wait()

    def die(self) -> None:
        """The process is over: none of them changes anything any more."""
        self.is_dead = True
        for worker in list(self.waiting):
            worker.resume()
        self.waiting.clear()


class TurnLock:
    """A lock between these threads and the loop, which makes them go on while it waits."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._is_held = False

    def __enter__(self) -> None:
        while self._is_held:
            running = self._threads.running
            if running is not None:
                running.wait()
            else:
                self._threads.go_on_all()
        self._is_held = True

    def __exit__(self, *_error: object) -> None:
        self._is_held = False
