"""The lateness of the event loop, and its cause.

A timer measures its own lateness: for as long as it is late, no client was served. The longest request that the
dispatcher served in that time, the longest piece of a request that is worked on in pieces or of the node's own work,
and the pauses of the garbage collector are kept beside it, so that a warning can name the cause.

Invariant: watching costs a few wake-ups a second, whether the numbers are read or not.
"""

import asyncio
import gc
import logging
from collections.abc import Sequence
from time import perf_counter_ns, thread_time_ns
from typing import Any, Final

from kpybroker.requests.dispatching.dispatcher import SLOW_NS, Dispatcher
from kpybroker.requests.server.complaints import Complaints
from kpybroker.runtime.counters import BUCKETS
from kpybroker.runtime.fairness.line import Line
from kpywire.api import API_KEYS

log = logging.getLogger("kpybroker.loop")

EVERY_MS: Final = 100
IDLE_SLICES: Final = 600
"""The number of `EVERY_MS` in the minute over which idleness is measured."""
NS_PER_MS: Final = 1_000_000


class LoopWatch:
    """Watches a loop, by the real clock. ``warn_ms``: the lateness from which on a warning is logged; 0 for never."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        complaints: Complaints,
        dispatchers: Sequence[Dispatcher],
        line: Line,
        warn_ms: int,
    ) -> None:
        self.loop = loop
        self.line = line
        self.dispatchers = dispatchers
        self.warn_ms = warn_ms
        self.lateness = [0] * BUCKETS
        """The number of late wake-ups by lateness, per half octave of ns."""
        self.late_ns = 0
        """The sum of all lateness."""
        self.gc_pauses = [0] * BUCKETS
        self.gc_ns = 0
        self.busy_share = 0.0
        """The part of the last minute that this thread spent working."""
        self._gc_began_ns = 0
        self._longest_gc_ns = 0
        self._due_ns = 0
        self._seen_ns = self._worked_ns = 0
        self._complaints = complaints
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin watching. On the loop's own thread."""
        gc.callbacks.append(self._on_collection)
        self._seen_ns, self._worked_ns = perf_counter_ns(), thread_time_ns()
        self._arm()

    def stop(self) -> None:
        """Stop watching. Safe to call twice."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)

    def _arm(self) -> None:
        self._due_ns = perf_counter_ns() + EVERY_MS * NS_PER_MS
        self._timer = self.loop.call_later(EVERY_MS / 1000, self._on_time)

    def _on_time(self) -> None:
        now_ns = perf_counter_ns()
        late_ns = max(0, now_ns - self._due_ns)
        self.lateness[(late_ns * late_ns).bit_length()] += 1
        self.late_ns += late_ns
        if 0 < self.warn_ms * NS_PER_MS <= late_ns:
            self._complaints.say(log, logging.WARNING, "the event loop stood still", "%s", self._reason(late_ns))
        self._forget_culprits()
        self._note_work(now_ns)
        self._arm()

    def _reason(self, late_ns: int) -> str:
        parts = [f"the event loop stood still for {late_ns // NS_PER_MS} ms"]
        slow = [
            (each.slow_ns, f"{API_KEYS[each.slowest[0]].name} of {each.slowest[1]}")
            for each in self.dispatchers
            if each.slowest is not None
        ]
        if self.line.slow_ns >= SLOW_NS:
            slow.append((self.line.slow_ns, self._served_for(self.line.slowest)))
        if slow:
            took_ns, cause = max(slow, key=lambda each: each[0])
            parts.append(f"{cause} took {took_ns // NS_PER_MS} ms of it")
        if self._longest_gc_ns >= NS_PER_MS:
            parts.append(f"the garbage collector {self._longest_gc_ns // NS_PER_MS} ms")
        return ", ".join(parts) if len(parts) > 1 else f"{parts[0]}, not for a request"

    def _served_for(self, connection: Any) -> str:
        """The request that a connection sent last, or the node's own work."""
        if connection is None:
            return "work of the node itself"
        for each in self.dispatchers:
            for key, counters in each.counters.items():
                if counters is connection.counters:
                    return f"{API_KEYS[key].name} of {connection}"
        return f"a login of {connection}"

    def _forget_culprits(self) -> None:
        self._longest_gc_ns = 0
        self.line.slow_ns, self.line.slowest = 0, None
        for each in self.dispatchers:
            each.slow_ns, each.slowest = SLOW_NS, None

    def _note_work(self, now_ns: int) -> None:
        """Update `busy_share`: an exponential mean over a minute, like Kafka's one minute rate."""
        worked_ns, passed_ns = thread_time_ns(), now_ns - self._seen_ns
        if passed_ns > 0:
            share = min(1.0, (worked_ns - self._worked_ns) / passed_ns)
            weight = min(1.0, passed_ns / (IDLE_SLICES * EVERY_MS * NS_PER_MS))
            self.busy_share += (share - self.busy_share) * weight
        self._seen_ns, self._worked_ns = now_ns, worked_ns

    def _on_collection(self, phase: str, _info: dict[str, Any]) -> None:
        if phase == "start":
            self._gc_began_ns = perf_counter_ns()
        elif self._gc_began_ns:
            pause_ns = perf_counter_ns() - self._gc_began_ns
            self._gc_began_ns = 0
            self.gc_pauses[(pause_ns * pause_ns).bit_length()] += 1
            self.gc_ns += pause_ns
            self._longest_gc_ns = max(self._longest_gc_ns, pause_ns)
