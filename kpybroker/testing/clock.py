"""A clock that a test moves: the real one, some milliseconds ahead, and timers that become due when it is moved.

Only the broker uses it: for its wall clock, its timeouts, and its retention. Clients keep their own clocks.

Invariant: the clock never goes back, and timers fire in the order in which they are due.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kpybroker.runtime.io.scheduler import LoopScheduler, Timer

T = TypeVar("T")

MOST_STEPS: Final = 500
"""The most steps of one `ControlledScheduler.advance`: a timer that repeats faster fires once in each step."""
MOST_TURNS: Final = 200
"""The most loop turns to wait for what a step has set off."""


class ShiftedTimer:
    """A callback that is due at a time of the shifted clock, whether that is reached by waiting or by moving the
    clock."""

    __slots__ = ("_arguments", "_callback", "_handle", "_timers", "due_ms")

    def __init__(
        self, timers: "dict[ShiftedTimer, None]", due_ms: float, callback: Callable[..., object], arguments: Any
    ) -> None:
        self.due_ms = due_ms
        self._timers = timers
        self._callback = callback
        self._arguments = arguments
        self._handle: asyncio.TimerHandle | None = None
        timers[self] = None

    def wait(self, loop: asyncio.AbstractEventLoop, delay_ms: float) -> None:
        """Make it due by the real clock, after the delay."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle = loop.call_later(max(delay_ms, 0.0) / 1000.0, self.fire)

    def cancel(self) -> None:
        self._timers.pop(self, None)
        if self._handle is not None:
            self._handle.cancel()

    def fire(self) -> None:
        """Call the callback, unless it was cancelled."""
        if self in self._timers:
            self.cancel()
            self._callback(*self._arguments)


class ControlledScheduler(LoopScheduler):
    """The scheduler of a broker in a test. ``ahead_ms``: how far it is ahead of the real clock.

    Blocking work runs on the loop: the disks of tests (in memory, or without ``fsync``) never block it for long, and no
    thread is started.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, ahead_ms: float = 0.0) -> None:
        super().__init__(loop)
        self.ahead_ms = ahead_ms
        self._timers: dict[ShiftedTimer, None] = {}
        self._set_off = 0
        self.monotonic_ms = lambda: loop.time() * 1000.0 + self.ahead_ms
        self.call_soon = self._call_soon

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + int(self.ahead_ms)

    def _call_soon(self, callback: Callable[..., object], *arguments: Any) -> object:
        self._set_off += 1
        return self.loop.call_soon(callback, *arguments)

    def call_later(self, delay_ms: float, callback: Callable[..., object], *arguments: Any) -> Timer:
        timer = ShiftedTimer(self._timers, self.monotonic_ms() + delay_ms, callback, arguments)
        timer.wait(self.loop, delay_ms)
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

    async def advance(self, delta_ms: float) -> None:
        """Let ``delta_ms`` pass at once, with everything that becomes due in it, and its consequences.

        This takes at most 500 steps, so a timer may fire late by a 500th of the whole. A timer that repeats faster
        fires less often.
        """
        end_ms = self.ahead_ms + delta_ms
        shortest_ms = delta_ms / MOST_STEPS
        await self.settle()
        while (left_ms := end_ms - self.ahead_ms) > 0:
            first_ms = min((timer.due_ms for timer in self._timers), default=float("inf"))
            self.ahead_ms += min(left_ms, max(first_ms - self.monotonic_ms(), shortest_ms))
            self._fire_due()
            await self.settle()
        now_ms = self.monotonic_ms()
        for timer in self._timers:
            timer.wait(self.loop, timer.due_ms - now_ms)

    def _fire_due(self) -> None:
        now_ms = self.monotonic_ms()
        for timer in sorted((timer for timer in self._timers if timer.due_ms <= now_ms), key=lambda one: one.due_ms):
            timer.fire()

    async def settle(self) -> None:
        """Wait until the broker has nothing left to do at once. The wait for a busy broker has a limit."""
        for _nth in range(MOST_TURNS):
            before = self._set_off
            await asyncio.sleep(0)
            if self._set_off == before:
                return

    async def close(self) -> None:
        """Leave nothing in the loop, since it belongs to the test. Results of work done on the loop are delivered
        first."""
        await self.settle()
        self.executor.shutdown()
        for timer in list(self._timers):
            timer.cancel()
