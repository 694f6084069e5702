"""Time and deferral as the broker sees them: a clock, timers, "after this turn", and "in a thread".

Pure packages get ``now_ms`` as an argument; the thin shells around them get a `Scheduler`. The real one sits on an
asyncio loop; tests drive `ManualScheduler` by hand, so nothing has to wait for a clock.
"""

import asyncio
import heapq
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter_ns
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")

PIECE_NS: Final = 250_000
"""What work in pieces takes of a turn of the loop, or one step of it."""

URGENT_THREADS: Final = 2
"""A vote does not wait for the flush of a log."""


class Timer(Protocol):
    """A callback that has been asked for and can still be called off."""

    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """What a shell may ask of the world about time."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch: what goes into files and messages."""

    def monotonic_ms(self) -> float:
        """A clock that never goes back: for waiting."""

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> object:
        """Run after the current callback, in the same loop turn's successor."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *arguments: Any) -> object:
        """`call_soon`, from any thread."""

    def call_later(self, delay_ms: float, callback: Callable[..., object], *arguments: Any) -> Timer: ...

    def submit_blocking(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        """Run ``work`` in a thread, then ``done(result, None)`` or ``done(None, error)`` on the loop."""

    def submit_urgent(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        """`submit_blocking`, of what others wait for with a deadline: it does not wait behind anything else."""

    def in_pieces(self, work: Iterator[object]) -> None:
        """Do work that yields between its steps: a piece now, the rest in the turns to come, one piece a turn."""

    def share_turns(self, join: Callable[[Callable[[], object]], object], piece_ns: Callable[[], int]) -> None:
        """Have ``join`` say when it is the turn of such a piece, and ``piece_ns`` how long it may be."""


class Pieces:
    """Long work of the node itself, which clients do not wait for: a turn of the loop does one piece of it.

    Requests have a line of their own (`kpybroker.server.line`), which shares out the turns where there is one. Several
    works take turns. What a work raises ends it, and comes out of the callback it was raised in.
    """

    def __init__(self, call_soon: Callable[..., object], now_ns: Callable[[], int] = perf_counter_ns) -> None:
        self._call_soon = call_soon
        self._now_ns = now_ns
        self._piece_ns: Callable[[], int] = lambda: PIECE_NS
        self._works: deque[Iterator[object]] = deque()
        self._is_due = self._is_working = False

    def begin(self, work: Iterator[object]) -> None:
        """Do its first piece; what is begun by a piece of another work waits for its turn."""
        if self._is_working or self._is_left(work):
            self._put(work)

    def share_turns(self, join: Callable[[Callable[[], object]], object], piece_ns: Callable[[], int]) -> None:
        """Somebody else says from now on when it is the turn of a piece, and how long one may be."""
        self._call_soon, self._piece_ns = join, piece_ns

    def stop(self) -> None:
        """Do no more of it."""
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
    """The real one. ``threads`` run only calls that release the GIL (fsync, pread, codecs); two more what is urgent."""

    monotonic_ms: Callable[[], float]
    call_soon: Callable[..., object]
    call_soon_threadsafe: Callable[..., object]
    in_pieces: Callable[[Iterator[object]], None]
    share_turns: Callable[[Callable[[Callable[[], object]], object], Callable[[], int]], None]

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = 4) -> None:
        self.loop = loop
        self._working: set[asyncio.Task[Any]] = set()
        self.executor = ThreadPoolExecutor(threads, thread_name_prefix="kpybroker-blocking")
        self._urgent: ThreadPoolExecutor | None = None
        self.monotonic_ms = lambda: loop.time() * 1000.0
        self.call_soon = loop.call_soon
        self._pieces = Pieces(lambda turn: self.call_soon(turn))
        self.in_pieces = self._pieces.begin
        self.share_turns = self._pieces.share_turns
        self.call_soon_threadsafe = loop.call_soon_threadsafe

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, delay_ms: float, callback: Callable[..., object], *arguments: Any) -> Timer:
        return self.loop.call_later(delay_ms / 1000.0, callback, *arguments)

    def submit_blocking(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        self._submit(self.executor, work, done)

    def submit_urgent(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], object]) -> None:
        if self._urgent is None:
            self._urgent = ThreadPoolExecutor(URGENT_THREADS, thread_name_prefix="kpybroker-urgent")
        self._submit(self._urgent, work, done)

    def _submit(
        self,
        executor: ThreadPoolExecutor,
        work: Callable[[], T],
        done: Callable[[T | None, BaseException | None], object],
    ) -> None:
        from aiofiles.os import wrap

        def finished(task: asyncio.Task[T]) -> None:
            self._working.discard(task)
            if not task.cancelled():
                error = task.exception()
                done(None if error is not None else task.result(), error)

        awaitable = wrap(work)(loop=self.loop, executor=executor)
        task: asyncio.Task[T] = asyncio.ensure_future(awaitable, loop=self.loop)
        self._working.add(task)
        task.add_done_callback(finished)

    async def close(self) -> None:
        """Wait for the threads' work and what follows from it, then end them. Work in pieces is left as it is."""
        while self._working:
            await asyncio.wait(self._working)
            await asyncio.sleep(0)
        self._pieces.stop()
        for executor in (self.executor, self._urgent):
            if executor is not None:
                await self.loop.run_in_executor(None, executor.shutdown)


class _ManualTimer:
    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualScheduler:
    """A scheduler that moves only when told to: for tests and for the simulation."""

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

    call_soon_threadsafe = call_soon

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

    def run(self) -> None:
        """Everything that is due now, and what that makes due."""
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
