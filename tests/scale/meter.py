"""CPU time by its cause, and a scheduler whose virtual time passes with the CPU time of controllers.

What brokers do in the same process is counted under one name and takes no virtual time. A step is everything that a
controller does without a return to the loop.

Invariant: each nanosecond counts for one cause, that of the innermost measure.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time_ns
from typing import Any

from kpybroker.runtime.io.scheduler import ManualScheduler, Pieces

BROKERS = "brokers"


class Meter:
    """The counters of one process."""

    def __init__(self) -> None:
        self.cpu_ns: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.longest_ns: Counter[str] = Counter()
        """The longest step that began with each cause."""
        self._causes: list[str] = []
        self._since_ns = thread_time_ns()
        self._step_ns = 0

    @contextmanager
    def measure(self, cause: str) -> Iterator[None]:
        """Count what happens inside for this cause."""
        self._charge()
        begins_step = cause != BROKERS and (not self._causes or self._causes[-1] == BROKERS)
        before_ns = self._step_ns
        if begins_step:
            self._step_ns = 0
        self._causes.append(cause)
        self.calls[cause] += 1
        try:
            yield
        finally:
            self._charge()
            self._causes.pop()
            if begins_step:
                self.longest_ns[cause] = max(self.longest_ns[cause], self._step_ns)
                self._step_ns = before_ns

    def brokers(self, callback: Callable[..., object]) -> Callable[..., None]:
        """A callback of a broker, counted as such."""

        def called(*arguments: Any) -> None:
            with self.measure(BROKERS):
                callback(*arguments)

        return called

    @property
    def cause(self) -> str | None:
        """The cause that counts now."""
        return self._causes[-1] if self._causes else None

    @property
    def controllers_ns(self) -> int:
        """The CPU time of all controllers so far."""
        return self.cpu_ns.total() - self.cpu_ns[BROKERS]

    def reset(self) -> None:
        """Begin to count again."""
        self._charge()
        for counter in (self.cpu_ns, self.calls, self.longest_ns):
            counter.clear()

    def _charge(self) -> None:
        now_ns = thread_time_ns()
        if self._causes:
            spent_ns = now_ns - self._since_ns
            self.cpu_ns[self._causes[-1]] += spent_ns
            if self._causes[-1] != BROKERS:
                self._step_ns += spent_ns
        self._since_ns = now_ns


class MeteredScheduler(ManualScheduler):
    """Virtual time for all nodes."""

    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self.meter = meter
        self._pieces = Pieces(self.call_soon, thread_time_ns)
        self.share_turns = self._pieces.share_turns
        self._counted_ns = self._owed_ns = 0
        self.in_pieces = self._begin

    def _begin(self, work: Iterator[object]) -> None:
        self._pieces.begin(self._measured(work))

    def _measured(self, work: Iterator[object]) -> Iterator[None]:
        cause = work.gi_code.co_qualname  # type: ignore[attr-defined]
        if cause == "Decisions._work" and self.meter.cause not in (None, BROKERS):
            cause = self.meter.cause  # a request that did not have to wait
        while True:
            with self.meter.measure(cause):
                if next(work, self) is self:
                    return
            yield

    def run(self) -> None:
        while self._soon:
            callback, arguments = self._soon.popleft()
            self._call(callback, arguments)

    def advance(self, delay_ms: int) -> None:
        until_ms = self._now_ms + delay_ms
        self.run()
        while self._timers and self._timers[0][0] <= until_ms:
            due_ms, _, timer, callback, arguments = heapq.heappop(self._timers)
            self._now_ms = max(self._now_ms, due_ms)
            if not timer.cancelled:
                self._call(callback, arguments)
            self.run()
        self._now_ms = max(self._now_ms, until_ms)

    def stand_still(self, duration_ms: int) -> None:
        """Let time pass in which nothing happens, as when the machine is suspended."""
        self._now_ms += duration_ms

    def _call(self, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        cause = getattr(callback, "__qualname__", type(callback).__name__)
        if cause.startswith("Meter."):
            callback(*arguments)
        else:
            with self.meter.measure(cause):
                callback(*arguments)
        self._pay()

    def _pay(self) -> None:
        """Let as much time pass as controllers have worked since the last call."""
        worked_ns = self.meter.controllers_ns - self._counted_ns
        if worked_ns < 0:  # the meter was reset
            worked_ns = self.meter.controllers_ns
        self._counted_ns = self.meter.controllers_ns
        self._owed_ns += worked_ns
        passed_ms, self._owed_ns = divmod(self._owed_ns, 1_000_000)
        self._now_ms += passed_ms
