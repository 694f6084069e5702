"""The samples of a node, kept in two rings: ten seconds apart for two hours, and a minute apart for a day. Pure.

Times are those of the wall clock, in ms since 1970, and multiples of the interval: a sample that is missing leaves a
gap. With most groups a sample takes about 1.2 KiB, so both rings take less than 3 MiB.
"""

import math
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

FINE_MS: Final = 10_000
COARSE_MS: Final = 60_000
FINE_SAMPLES: Final = 720
COARSE_SAMPLES: Final = 1_440
MOST_GROUPS: Final = 128
"""The most groups whose lag is kept."""
MOST_EVENTS: Final = 500
MISSING: Final = math.nan

BYTES_IN, BYTES_OUT, RECORDS_IN, REQUESTS = "bytes in", "bytes out", "records in", "requests"
PRODUCE_P50, PRODUCE_P99 = "Produce p50", "Produce p99"
FETCH_P50, FETCH_P99 = "Fetch p50", "Fetch p99"
WAIT_P50, WAIT_P99 = "Fetch waits p50", "Fetch waits p99"
LATE, LONGEST, COLLECTOR = "late", "longest delay", "loop collector"
UNDER_REPLICATED, WITHOUT_LEADER = "under-replicated", "without leader"
MEASURES: Final = (
    *(BYTES_IN, BYTES_OUT, RECORDS_IN, REQUESTS),
    *(PRODUCE_P50, PRODUCE_P99, FETCH_P50, FETCH_P99, WAIT_P50, WAIT_P99),
    *(LATE, LONGEST, COLLECTOR, UNDER_REPLICATED, WITHOUT_LEADER),
)
"""The values of a sample, in their order. Rates are per second, times in ms."""
IS_WORST: Final = tuple(
    name in (PRODUCE_P99, FETCH_P99, WAIT_P99, LONGEST, UNDER_REPLICATED, WITHOUT_LEADER) for name in MEASURES
)
"""Whether the largest of several values stands for all of them; of others it is the mean."""


class SampledLag(NamedTuple):
    """The lag of a group; `MISSING` where it is not known."""

    records: float
    seconds: float


class KeptSample(NamedTuple):
    """The values of one interval, which ends at ``at_ms``."""

    at_ms: int
    values: Sequence[float]
    """One for each of `MEASURES`."""
    groups: tuple[str, ...] = ()
    lags: Sequence[float] = ()
    """The lag of each group in records and in seconds, one after the other."""

    def value(self, measure: str) -> float:
        """One of its values."""
        return self.values[MEASURES.index(measure)]

    def lag_of(self, group: str) -> SampledLag | None:
        """The lag of a group, if it has one."""
        if group not in self.groups:
            return None
        number = 2 * self.groups.index(group)
        return SampledLag(self.lags[number], self.lags[number + 1])


class HistoryEvent(NamedTuple):
    """A change of the cluster, as this node learned of it."""

    at_ms: int
    what: str
    subject: str
    """The node, partition or resource that changed; of several partitions the first."""
    number: int = 1
    """How many partitions or configs."""
    detail: str = ""


def sample_of(
    at_ms: int, values: Mapping[str, float], lags: Mapping[str, SampledLag], before: "KeptSample | None" = None
) -> KeptSample:
    """A sample. It shares the names of groups with the one ``before`` if they are the same."""
    groups = tuple(lags)
    if before is not None and before.groups == groups:
        groups = before.groups
    numbers = array("f", [values.get(name, MISSING) for name in MEASURES])
    return KeptSample(at_ms, numbers, groups, array("f", [part for lag in lags.values() for part in lag]))


def merged(at_ms: int, samples: Sequence[KeptSample], before: KeptSample | None = None) -> KeptSample:
    """One sample in place of several: means of rates, and the worst of what should be small."""
    values = {
        name: together([each.values[number] for each in samples], is_worst=IS_WORST[number])
        for number, name in enumerate(MEASURES)
    }
    lags: dict[str, SampledLag] = {}
    for names, stretch in groupby(samples, lambda each: each.groups):
        found = list(stretch)
        for number, name in enumerate(names):
            known = lags.get(name, (MISSING, MISSING))
            worst = [
                together([*(each.lags[2 * number + part] for each in found), known[part]], is_worst=True)
                for part in (0, 1)
            ]
            lags[name] = SampledLag(*worst)
    return sample_of(at_ms, values, lags, before)


def together(values: Iterable[float], *, is_worst: bool) -> float:
    """The largest or the mean of several values; `MISSING` if all of them are."""
    known = [value for value in values if value == value]
    if not known:
        return MISSING
    return max(known) if is_worst else sum(known) / len(known)


class Rings:
    """Fine and coarse samples, and events, each with a bound."""

    def __init__(self) -> None:
        self.fine: deque[KeptSample] = deque(maxlen=FINE_SAMPLES)
        self.coarse: deque[KeptSample] = deque(maxlen=COARSE_SAMPLES)
        self.events: deque[HistoryEvent] = deque(maxlen=MOST_EVENTS)

    def add(self, sample: KeptSample) -> KeptSample | None:
        """Add a fine sample. Return the coarse one of the minute that it is the first behind, if it is."""
        minute = self._last_minute(sample.at_ms)
        finished = None
        if minute:
            before = self.coarse[-1] if self.coarse else None
            finished = merged(_minute_of(minute[-1].at_ms) * COARSE_MS, minute, before)
            put(self.coarse, finished)
        put(self.fine, sample)
        return finished

    def note(self, event: HistoryEvent) -> None:
        """Add an event."""
        self.events.append(event)

    @property
    def begins_ms(self) -> int | None:
        """The time of the oldest sample."""
        return min((ring[0].at_ms for ring in (self.fine, self.coarse) if ring), default=None)

    def since(self, since_ms: int, every_ms: int) -> Iterator[KeptSample]:
        """The samples after this time, the oldest first, for values so far apart. The newest of a coarse ring are
        fine: their minute is not over."""
        ring = self.fine
        if every_ms >= COARSE_MS:
            yield from (each for each in list(self.coarse) if each.at_ms > since_ms)
            since_ms = max(since_ms, self.coarse[-1].at_ms if self.coarse else since_ms)
        yield from (each for each in list(ring) if each.at_ms > since_ms)

    def _last_minute(self, now_ms: int) -> list[KeptSample]:
        """The samples of the last minute that has some, if it is over and has no coarse sample yet."""
        last = _minute_of(self.fine[-1].at_ms) if self.fine else 0
        if last >= _minute_of(now_ms) or (self.coarse and _minute_of(self.coarse[-1].at_ms) >= last):
            return []
        return [each for each in list(self.fine)[-COARSE_MS // FINE_MS :] if _minute_of(each.at_ms) == last]


def put(ring: deque[KeptSample], sample: KeptSample) -> None:
    """Add a sample to a ring. Those that are not older go: the clock went back."""
    while ring and ring[-1].at_ms >= sample.at_ms:
        ring.pop()
    ring.append(sample)


def _minute_of(at_ms: int) -> int:
    """The number of the minute that a sample ends in."""
    return -(-at_ms // COARSE_MS)
