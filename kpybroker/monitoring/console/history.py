"""The recent past of a node: a sample of its counters every two seconds, for the plots of the pages.

Sampling begins at the first look and ends when nobody has looked for some minutes, so a node that nobody looks at does
not pay for it.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kpybroker.monitoring.metrics.window import quantiles_ms
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpywire import api

if TYPE_CHECKING:
    from kpybroker.monitoring.console.sources import ConsoleSources

EVERY_MS: Final = 2_000
SAMPLES: Final = 300
IDLE_MS: Final = 600_000
"""Sampling ends this long after the last look."""
TIMED: Final = ((api.PRODUCE, "Produce"), (api.FETCH, "Fetch"))
MEDIAN, P99 = 0, 4
"""The places of these quantiles in `metrics.window.QUANTILES`."""

Counters = Mapping[str, float]


class Sample(NamedTuple):
    """The values of one interval, by name."""

    at_ms: float
    values: Mapping[str, float]


class CounterReading(NamedTuple):
    """The counters at one moment. Those of a loop are times in seconds."""

    at_ms: float
    counters: Counters
    buckets: Mapping[str, Sequence[int]]


def sample_between(before: CounterReading, now: CounterReading) -> Sample:
    """The rates and quantiles of the time between two readings. Counters that have fallen count as no change: a topic
    was deleted."""
    passed_s = max(now.at_ms - before.at_ms, 1.0) / 1000
    values = {name: max(0.0, now.counters[name] - before.counters.get(name, 0.0)) / passed_s for name in now.counters}
    for name, buckets in now.buckets.items():
        known = before.buckets.get(name) or (0,) * len(buckets)
        recent = [count - earlier for count, earlier in zip(buckets, known, strict=True)]
        if any(recent):
            found = quantiles_ms(recent)
            values[f"{name} p50"], values[f"{name} p99"] = found[MEDIAN], found[P99]
    return Sample(now.at_ms, values)


class History:
    """Samples the sources."""

    def __init__(self, sources: "ConsoleSources", scheduler: Scheduler) -> None:
        self.samples: deque[Sample] = deque(maxlen=SAMPLES)
        self._sources = sources
        self._scheduler = scheduler
        self._last: CounterReading | None = None
        self._looked_ms = 0.0
        self._timer: Timer | None = None

    def look(self) -> None:
        """Somebody looks: begin sampling, or go on with it."""
        self._looked_ms = self._scheduler.monotonic_ms()
        if self._timer is None:
            self.samples.clear()
            self._last = self._read()
            self._arm()

    def close(self) -> None:
        """Stop sampling."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = self._scheduler.call_later(EVERY_MS, self._sample)

    def _sample(self) -> None:
        if self._scheduler.monotonic_ms() - self._looked_ms > IDLE_MS:
            self._timer = None
            return
        assert self._last is not None
        now = self._read()
        self.samples.append(sample_between(self._last, now))
        self._last = now
        self._arm()

    def _read(self) -> CounterReading:
        watch = self._sources.watch
        bytes_in = bytes_out = records_in = 0
        held = () if self._sources.role.is_controller_role else self._sources.broker.replicas.topics.values()
        for topic in held:
            bytes_in += topic.bytes_in
            bytes_out += topic.bytes_out
            records_in += topic.records_in
        counters: dict[str, float] = {"bytes in": bytes_in, "bytes out": bytes_out, "records in": records_in}
        counters |= {"loop late": watch.late_ns / 1e9, "loop collector": watch.gc_ns / 1e9}
        requests = 0
        buckets: dict[str, tuple[int, ...]] = {}
        for key, each in self._sources.dispatcher.counters.items():
            if each.total:
                requests += sum(each.total)
                counters[f"loop {api.API_KEYS[key].name}"] = each.local_ns / 1e9
        for key, name in TIMED:
            counted = self._sources.dispatcher.counters.get(key)
            if counted is not None and counted.total:
                buckets[name] = tuple(counted.total)
        counters["requests"] = requests
        return CounterReading(self._scheduler.monotonic_ms(), counters, buckets)
