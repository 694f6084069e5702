"""The counters of a node at one moment, and the rates and quantiles of the time between two such readings."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kpybroker.monitoring.history import samples
from kpybroker.monitoring.metrics.window import quantiles_ms
from kpywire import api

if TYPE_CHECKING:
    from kpybroker.monitoring.history.node_counters import NodeCounters

MEDIAN, P99 = 0, 4
"""The places of these quantiles in `metrics.window.QUANTILES`."""
LOOP: Final = "loop "
"""The beginning of the names of times that the loop spent, in s; behind it the name of a request."""
TIMES: Final = (
    (samples.PRODUCE_P50, samples.PRODUCE_P99, api.PRODUCE, "total"),
    (samples.FETCH_P50, samples.FETCH_P99, api.FETCH, "local"),
    (samples.WAIT_P50, samples.WAIT_P99, api.FETCH, "remote"),
)
"""Names of a median and a 99th percentile, and the times that they are of: a Fetch waits for records most of its
time, which says nothing about the node, so its work and its wait are two things."""
NS_PER_S: Final = 1e9


class CounterReading(NamedTuple):
    """The counters at one moment."""

    monotonic_ms: float
    counters: Mapping[str, float]
    buckets: Mapping[str, Sequence[int]]
    """Times of requests by the name of their median, and how late the loop was, per half octave of ns."""


def read_counters(node: "NodeCounters", monotonic_ms: float) -> CounterReading:
    """The counters of a node now."""
    bytes_in = bytes_out = records_in = requests = 0
    for topic in node.held_topics():
        bytes_in += topic.bytes_in
        bytes_out += topic.bytes_out
        records_in += topic.records_in
    watch = node.watch
    counters: dict[str, float] = {
        samples.BYTES_IN: bytes_in,
        samples.BYTES_OUT: bytes_out,
        samples.RECORDS_IN: records_in,
        samples.LATE: watch.late_ns / NS_PER_S,
        samples.COLLECTOR: watch.gc_ns / NS_PER_S,
    }
    buckets: dict[str, Sequence[int]] = {samples.LONGEST: tuple(watch.lateness)}
    for key, each in node.dispatcher.counters.items():
        if each.total:
            requests += sum(each.total)
            counters[LOOP + api.API_KEYS[key].name] = each.local_ns / NS_PER_S
    counters[samples.REQUESTS] = requests
    for median, _, key, phase in TIMES:
        counted = node.dispatcher.counters.get(key)
        if counted is not None and counted.total:
            buckets[median] = tuple(getattr(counted, phase))
    return CounterReading(monotonic_ms, counters, buckets)


def between(before: CounterReading, now: CounterReading) -> dict[str, float]:
    """Rates and quantiles. Counters that have fallen count as no change: a topic was deleted."""
    passed_s = max(now.monotonic_ms - before.monotonic_ms, 1.0) / 1000
    values = {name: max(0.0, now.counters[name] - before.counters.get(name, 0.0)) / passed_s for name in now.counters}
    for median, p99, _, _ in TIMES:
        recent = _recent(before, now, median)
        if any(recent):
            found = quantiles_ms(recent)
            values[median], values[p99] = found[MEDIAN], found[P99]
    late = _recent(before, now, samples.LONGEST)
    values[samples.LONGEST] = max((_most_ms(number) for number, count in enumerate(late) if count), default=0.0)
    return values


def _recent(before: CounterReading, now: CounterReading, name: str) -> list[int]:
    buckets = now.buckets.get(name, ())
    known = before.buckets.get(name) or (0,) * len(buckets)
    return [count - earlier for count, earlier in zip(buckets, known, strict=True)]


def _most_ms(bucket: int) -> float:
    """The middle of a bucket of times, in ms."""
    return math.pow(2.0, (bucket - 0.5) / 2) / 1e6 if bucket else 0.0
