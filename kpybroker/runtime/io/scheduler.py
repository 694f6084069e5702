"""Time and deferred work as the broker sees them: a clock, timers, "after this turn", and "in a thread".

Pure packages get ``now_ms`` as an argument; the thin shells around them get a `Scheduler`. The real one sits on an
asyncio loop; tests drive `ManualScheduler` by hand, so nothing has to wait for a clock.
"""

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from kpybroker.runtime.io.loose_threads import LooseThreads

log = logging.getLogger("kpybroker")

T = TypeVar("T")

Submit = Callable[[Callable[[], Any], Callable[[Any, BaseException | None], object]], None]
"""(work, done): run ``work`` in a thread, then ``done(result, None)`` or ``done(None, error)`` on the loop."""

_wall_clock_ns: Final = time_ns
PIECE_NS: Final = 250_000
"""The time that work in pieces takes in one turn of the loop. One long step may exceed it."""

URGENT_THREADS: Final = 2
"""The number of threads for urgent work: a vote, for example, does not wait for the flush of a log."""

WAITING_THREADS: Final = 4
"""The number of threads for work that waits for other machines."""

FLUSH_THREADS: Final = 4
"""The number of threads for flushes of logs, one of which takes minutes where it covers many files on a slow disk."""

UPKEEP_THREADS: Final = 2
"""The number of threads that write checkpoints and remove files of a log directory."""

LEFT_AFTER_S: Final = 10.0
"""The time for which a node that stops waits for the work of a `Scheduler.pool` (Kafka's RemoteLogManager, too)."""


class Timer(Protocol):
    """A scheduled callback that can still be cancelled."""

    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """The interface to time and deferred work."""

    def now_ms(self) -> int:
        """The wall clock in milliseconds since the epoch, for files and messages."""

    def monotonic_ms(self) -> float:
        """A clock that never goes back, for waiting."""

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> object:
        """Run a callback after the current one, in the next turn of the loop."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *arguments: Any) -> object:
        """Like `call_soon`, from any thread."""

    def call_later(self, delay_ms: float, callback: Callable[..., object], *arguments: Any) -> Timer: ...

    def submit_blocking(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        """Run ``work`` in a thread, then ``done(result, None)`` or ``done(None, error)`` on the loop."""

    def submit_urgent(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        """Like `submit_blocking`, for work with a deadline. It does not queue behind other work."""

    def submit_waiting(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        """Like `submit_blocking`, for work that waits for another machine, and so perhaps for long."""

    def submit_flush(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        """Like `submit_blocking`, for the flush of a log. Nothing but another flush queues behind it."""

    def submit_upkeep(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        """Like `submit_blocking`, for checkpoints and removals in a log directory. They do not queue behind reads of
        clients."""

    def pool(self, name: str, threads: int) -> Submit:
        """A further pool of threads, for work that must not queue behind any other, and that may hang on another
        machine: the end of a node does not wait for it for long. Its threads start when they are needed."""

    def in_pieces(self, work: Iterator[object]) -> None:
        """Do work that yields between its steps: one piece now, the rest in later turns, one piece a turn."""

    def share_turns(self, join: Callable[[Callable[[], object]], object], piece_ns: Callable[[], int]) -> None:
        """Let ``join`` decide when such a piece is done, and ``piece_ns`` how long it may take."""


class Pieces:
    """Long work of the node itself, which clients do not wait for. A turn of the loop does one piece of it.

    Requests have a queue of their own (`kpybroker.runtime.fairness.line`). If there is one, it decides about the turns.
    Several works alternate. An exception ends the work that raised it, and is raised by the loop's callback.
    """

    def __init__(self, call_soon: Callable[..., object], now_ns: Callable[[], int] = perf_counter_ns) -> None:
        self._call_soon = call_soon
        self._now_ns = now_ns
        self._piece_ns: Callable[[], int] = lambda: PIECE_NS
        self._works: deque[Iterator[object]] = deque()
        self._is_due = self._is_working = False

    def begin(self, work: Iterator[object]) -> None:
        """Do the first piece of a work. Work that is begun within a piece of another one waits for its turn."""
        if self._is_working or self._is_left(work):
            self._put(work)

    def share_turns(self, join: Callable[[Callable[[], object]], object], piece_ns: Callable[[], int]) -> None:
        """From now on ``join`` decides when a piece is done, and ``piece_ns`` how long it may take."""
        self._call_soon, self._piece_ns = join, piece_ns

    def stop(self) -> None:
        """Drop all work."""
        self._works.clear()

    def _put(self, work: Iterator[object]) -> None:
        self._works.append(work)
        if not self._is_due:
            self._is_due = True
            self._call_soon(self._turn)

    def _is_left(self, work: Iterator[object]) -> bool:
        until_ns = self._now_ns() + self._piece_ns()
        self._is_working = True
        try:
            return any(self._now_ns() >= until_ns for _ in work)
        finally:
            self._is_working = False

    def _turn(self) -> None:
        self._is_due = False
        if not self._works:
            return  # somebody said to stop
        work = self._works.popleft()
        is_left = False
        try:
            is_left = self._is_left(work)
        finally:
            if is_left:
                self._put(work)
            elif self._works and not self._is_due:
                self._is_due = True
                self._call_soon(self._turn)


class LoopScheduler:
    """The scheduler on an asyncio loop. Its ``threads`` run only calls that release the GIL (fsync, pread, codecs); two
    more threads do urgent work, others flush logs, others keep log directories, and others wait for other machines."""

    monotonic_ms: Callable[[], float]
    call_soon: Callable[..., object]
    call_soon_threadsafe: Callable[..., object]
    in_pieces: Callable[[Iterator[object]], None]
    share_turns: Callable[[Callable[[Callable[[], object]], object], Callable[[], int]], None]

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = 4) -> None:
        self.loop = loop
        self._working: set[asyncio.Task[Any]] = set()
        self._outside: set[asyncio.Task[Any]] = set()
        """The work of further pools, which may hang on another machine."""
        self.executor = ThreadPoolExecutor(threads, thread_name_prefix="kpybroker-blocking")
        self._urgent: ThreadPoolExecutor | None = None
        self._waiting: ThreadPoolExecutor | None = None
        self._flushes: ThreadPoolExecutor | None = None
        self._upkeep: ThreadPoolExecutor | None = None
        self._pools: list[LooseThreads] = []
        time_s = loop.time
        self.monotonic_ms = lambda: time_s() * 1000.0
        self.call_soon = loop.call_soon
        self._pieces = Pieces(lambda turn: self.call_soon(turn))
        self.in_pieces = self._pieces.begin
        self.share_turns = self._pieces.share_turns
        self.call_soon_threadsafe = loop.call_soon_threadsafe

    def now_ms(self) -> int:
        return _wall_clock_ns() // 1_000_000

    def call_later(self, delay_ms: float, callback: Callable[..., object], *arguments: Any) -> Timer:
        return self.loop.call_later(delay_ms / 1000.0, callback, *arguments)

    def submit_blocking(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        self._submit(self.executor, work, done)

    def submit_urgent(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        if self._urgent is None:
            self._urgent = ThreadPoolExecutor(URGENT_THREADS, thread_name_prefix="kpybroker-urgent")
        self._submit(self._urgent, work, done)

    def submit_waiting(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        if self._waiting is None:
            self._waiting = ThreadPoolExecutor(WAITING_THREADS, thread_name_prefix="kpybroker-waiting")
        self._submit(self._waiting, work, done)

    def submit_flush(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        if self._flushes is None:
            self._flushes = ThreadPoolExecutor(FLUSH_THREADS, thread_name_prefix="kpybroker-flush")
        self._submit(self._flushes, work, done)

    def submit_upkeep(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        if self._upkeep is None:
            self._upkeep = ThreadPoolExecutor(UPKEEP_THREADS, thread_name_prefix="kpybroker-upkeep")
        self._submit(self._upkeep, work, done)

    def pool(self, name: str, threads: int) -> Submit:
        from kpybroker.runtime.io.loose_threads import LooseThreads  # not of a plain start

        executor = LooseThreads(threads, f"kpybroker-{name}")
        self._pools.append(executor)
        return lambda work, done: self._submit(executor, work, done, self._outside)

    def _submit(
        self,
        executor: Executor,
        work: Callable[[], T],
        done: Callable[[T | None, BaseException | None], object],
        among: set[asyncio.Task[Any]] | None = None,
    ) -> None:
        tasks = self._working if among is None else among

        def finished(task: asyncio.Task[T]) -> None:
            tasks.discard(task)
            if not task.cancelled():
                error = task.exception()
                done(None if error is not None else task.result(), error)

        async def worked() -> T:
            return await self.loop.run_in_executor(executor, work)

        task = self.loop.create_task(worked())
        tasks.add(task)
        task.add_done_callback(finished)

    async def close(self) -> None:
        """Wait for the threads' work and its callbacks, then end the threads. Work in pieces is dropped unfinished, and
        so is that of a further pool after `LEFT_AFTER_S`."""
        left_at_s = self.loop.time() + LEFT_AFTER_S
        while self._working or self._outside:
            left_s = max(left_at_s - self.loop.time(), 0.0)
            await asyncio.wait(self._working or self._outside, timeout=None if self._working else left_s)
            await asyncio.sleep(0)
            if not left_s and not self._working:
                break
        if self._outside:
            log.warning(
                "%d calls to the store have not ended after %.0f s, and are left", len(self._outside), LEFT_AFTER_S
            )
            for task in list(self._outside):
                task.cancel()
            await asyncio.sleep(0)
        self._pieces.stop()
        for pool in self._pools:
            pool.end()
        for executor in (self.executor, self._urgent, self._waiting, self._flushes, self._upkeep):
            if executor is not None:
                await self.loop.run_in_executor(None, executor.shutdown)


class _ManualTimer:
    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualScheduler:
    """A scheduler whose time moves only when a test moves it, for tests and for the simulation."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._start_ms = now_ms
        self._order = 0
        self._soon: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._timers: list[tuple[int, int, _ManualTimer, Callable[..., object], tuple[Any, ...]]] = []
        pieces = Pieces(self.call_soon, lambda: self._now_ms * 1_000_000)
        self.in_pieces, self.share_turns = pieces.begin, pieces.share_turns

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> float:
        return float(self._now_ms - self._start_ms)

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        self._soon.append((callback, arguments))

    def call_soon_threadsafe(self, callback: Callable[..., object], *arguments: Any) -> None:
        self.call_soon(callback, *arguments)

    def call_later(self, delay_ms: float, callback: Callable[..., object], *arguments: Any) -> Timer:
        timer = _ManualTimer()
        self._order += 1
        heapq.heappush(self._timers, (self._now_ms + int(delay_ms), self._order, timer, callback, arguments))
        return timer

    def submit_blocking(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        try:
            result = work()
        except Exception as error:
            self.call_soon(done, None, error)
        else:
            self.call_soon(done, result, None)

    def submit_urgent(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        self.submit_blocking(work, done)

    def submit_waiting(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        self.submit_blocking(work, done)

    def submit_flush(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        self.submit_blocking(work, done)

    def submit_upkeep(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        self.submit_blocking(work, done)

    def pool(self, name: str, threads: int) -> Submit:  # noqa: ARG002
        return self.submit_blocking

    def run(self) -> None:
        """Run everything that is due now, and everything that becomes due by it."""
        while self._soon:
            callback, arguments = self._soon.popleft()
            callback(*arguments)

    def advance(self, delay_ms: int) -> None:
        """Let ``delay_ms`` pass, firing timers in their order."""
        until_ms = self._now_ms + delay_ms
        self.run()
        while self._timers and self._timers[0][0] <= until_ms:
            due_ms, _, timer, callback, arguments = heapq.heappop(self._timers)
            self._now_ms = max(self._now_ms, due_ms)
            if not timer.cancelled:
                callback(*arguments)
            self.run()
        self._now_ms = until_ms
