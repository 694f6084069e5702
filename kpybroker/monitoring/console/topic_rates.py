"""The traffic of topics in the last seconds, by the counters that each topic has.

They are read every few seconds from the first look at the console until some minutes after the last one, in pieces: so
a node that has no viewer does not pay for it.
"""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from kpybroker.machines.console.topics import NO_RATE, TopicRate
from kpybroker.runtime.io.scheduler import Scheduler, Timer

if TYPE_CHECKING:
    from kpybroker.hosts.replicas.replica import HeldTopic
    from kpybroker.monitoring.console.sources import ConsoleSources

EVERY_MS: Final = 5_000
READINGS: Final = 3
"""Rates are measured from the oldest of them until now."""
LEAST_MS: Final = 1_000
"""The shortest time that gives a rate."""
IDLE_MS: Final = 600_000
"""Reading ends this long after the last look."""
PER_SLICE: Final = 100

Counts = tuple[int, int, int]


class _TopicCounts(NamedTuple):
    """The counters of all topics at one time, by topic id."""

    at_ms: float
    counts: dict[bytes, Counts]


class TopicRates:
    """Reads the counters."""

    def __init__(self, sources: "ConsoleSources", scheduler: Scheduler) -> None:
        self._sources = sources
        self._scheduler = scheduler
        self._readings: deque[_TopicCounts] = deque(maxlen=READINGS)
        self._looked_ms = 0.0
        self._timer: Timer | None = None

    def look(self) -> None:
        """Somebody looks: begin reading, or go on with it."""
        self._looked_ms = self._scheduler.monotonic_ms()
        if self._timer is None and not self._sources.role.is_controller_role:
            self._readings.clear()
            self._read()

    def close(self) -> None:
        """Stop reading."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def of(self, topic: str) -> TopicRate:
        """The rates of a topic; None each if this node has no partition of it, or has read too little yet."""
        held = self._sources.broker.replicas.topics.get(topic)
        first = next(iter(self._readings), None)
        passed_ms = 0.0 if first is None else self._scheduler.monotonic_ms() - first.at_ms
        if held is None or first is None or passed_ms < LEAST_MS:
            return NO_RATE
        before = first.counts.get(held.id, (0, 0, 0))
        rates = [max(0, now - earlier) * 1000 / passed_ms for now, earlier in zip(_counts(held), before, strict=True)]
        return TopicRate(*rates)

    def _read(self) -> None:
        self._timer = None
        if self._scheduler.monotonic_ms() - self._looked_ms <= IDLE_MS:
            self._timer = self._scheduler.call_later(EVERY_MS, self._read)
            self._scheduler.in_pieces(self._reading())

    def _reading(self) -> Iterator[None]:
        counts: dict[bytes, Counts] = {}
        at_ms = self._scheduler.monotonic_ms()
        for number, held in enumerate(list(self._sources.broker.replicas.topics.values())):
            counts[held.id] = _counts(held)
            if number % PER_SLICE == PER_SLICE - 1:
                yield
        self._readings.append(_TopicCounts(at_ms, counts))


def _counts(held: "HeldTopic") -> Counts:
    return held.records_in, held.bytes_in, held.bytes_out
