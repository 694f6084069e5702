"""A pool of threads for calls that may hang, such as those to a store on another machine.

The end of the process does not wait for them, as it does for those of `concurrent.futures.ThreadPoolExecutor`. Not
here: deadlines of the calls.

Invariant: work that was begun is never interrupted before the process ends; work that was not is cancelled at the end.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from threading import Thread
from typing import Any


class LooseThreads(Executor):
    """A number of threads, which start with the first calls."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._threads: list[Thread] = []
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Run a call in a thread. To be called from one thread alone."""
        future: Future[Any] = Future()
        self._work.put((future, lambda: call(*arguments, **named)))
        if len(self._threads) < self._most:
            thread = Thread(target=self._run, name=f"{self._name}_{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def end(self) -> None:
        """End the threads that have nothing to do, and the others after their calls."""
        while not self._work.empty():
            waiting = self._work.get_nowait()
            if waiting is not None:
                waiting[0].cancel()
        for _ in self._threads:
            self._work.put(None)

    def _run(self) -> None:
        while (waiting := self._work.get()) is not None:
            future, call = waiting
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
