"""The lag and the pace of groups over time: from the node's history, which has every group that it coordinates, and
from the looks at the page of a group, by viewer: viewers may see other topics.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from kpybroker.machines.console.stuck import WATCHED_S, ReadingPace
from kpybroker.monitoring.history.recorder import HistoryRecorder
from kpybroker.monitoring.history.samples import MISSING, Rings, SampledLag, sample_of
from kpybroker.runtime.io.scheduler import Scheduler

MOST_GROUPS: Final = 50
SAMPLES: Final = 200
LEAST_MS: Final = 1_500
"""Looks that follow each other sooner add no value."""
PACE_MS: Final = 30_000
"""The recent time over which the pace is measured."""

GroupKey = tuple[str, str]
"""A group and a viewer."""
Spots = Mapping[tuple[str, int], tuple[int, int]]
"""The position of a group in each partition, which it has committed or only fetched, and the end of that partition."""


class LagSample(NamedTuple):
    """A lag at one time, with the sums of all positions and ends."""

    at_ms: float
    records: int | None
    seconds: float | None
    read: int
    written: int


class WatchedGroup(NamedTuple):
    """The facts about a group that only repeated looks show."""

    pace: ReadingPace | None
    still_s: Mapping[tuple[str, int], float]
    """How long the position in each partition has been seen without a change."""


class _Group:
    def __init__(self, most_samples: int) -> None:
        self.samples: deque[LagSample] = deque(maxlen=most_samples)
        self.positions: dict[tuple[str, int], tuple[int, float]] = {}
        """Each position, and since when it is known to be there."""
        self.same_since_ms = 0.0
        """The first look at the same partitions as now: sums of others are not comparable."""

    def move(self, now_ms: float, spots: Spots) -> None:
        known = self.positions
        if known.keys() != spots.keys():
            self.same_since_ms = now_ms
        self.positions = {}
        for spot, (position, _) in spots.items():
            before = known.get(spot)
            self.positions[spot] = before if before is not None and before[0] == position else (position, now_ms)

    def pace(self, now_ms: float) -> ReadingPace | None:
        since_ms = max(self.same_since_ms, now_ms - PACE_MS)
        first = next((each for each in self.samples if each.at_ms >= since_ms), None)
        if first is None or self.samples[-1].at_ms - first.at_ms < WATCHED_S * 1000:
            return None
        last = self.samples[-1]
        passed_s = (last.at_ms - first.at_ms) / 1000
        return ReadingPace(
            max(0, last.read - first.read) / passed_s, max(0, last.written - first.written) / passed_s, passed_s
        )


class LagHistory:
    """The lags of all groups that the node keeps, and those that viewers saw of the groups that were looked at last."""

    def __init__(
        self,
        scheduler: Scheduler,
        kept: HistoryRecorder,
        most_groups: int = MOST_GROUPS,
        most_samples: int = SAMPLES,
    ) -> None:
        self._scheduler = scheduler
        self._kept = kept
        self._most_groups = most_groups
        self._most_samples = most_samples
        self._groups: dict[GroupKey, _Group] = {}

    def pace_of(self, group_id: str) -> ReadingPace | None:
        """How fast a group reads all its topics, whether somebody looked before or not; None for the first seconds."""
        pace = None if self._kept.groups is None else self._kept.groups.pace_of(group_id)
        return None if pace is None else ReadingPace(*pace)

    def kept(self, group_id: str) -> Rings | None:
        """The samples that have the lag of a group in all its topics; None if the latest have not."""
        rings = self._kept.rings
        has_it = any(group_id in ring[-1].groups for ring in (rings.fine, rings.coarse) if ring)
        return rings if has_it else None

    def look(self, key: GroupKey, lag: tuple[int | None, float | None], spots: Spots) -> WatchedGroup:
        """Note the lag of a group as a viewer sees it, in records and seconds, and its positions."""
        group = self._groups.pop(key, None)
        if group is None:
            group = _Group(self._most_samples)
            if len(self._groups) >= self._most_groups:
                del self._groups[next(iter(self._groups))]
        self._groups[key] = group
        now_ms = self._scheduler.monotonic_ms()
        group.move(now_ms, spots)
        samples = group.samples
        if not samples or now_ms - samples[-1].at_ms >= LEAST_MS:
            read, written = (sum([each[part] for each in spots.values()]) for part in (0, 1))
            samples.append(LagSample(now_ms, *lag, read, written))
        still_s = {spot: (now_ms - since_ms) / 1000 for spot, (_, since_ms) in group.positions.items()}
        return WatchedGroup(group.pace(now_ms), still_s)

    def add_seconds(self, key: GroupKey, seconds: float | None) -> None:
        """Add the lag in time to the last look at a group."""
        samples = self._groups[key].samples
        samples[-1] = samples[-1]._replace(seconds=seconds)

    def seen(self, key: GroupKey) -> Rings:
        """The lags that a viewer saw of a group, in the form of the node's own samples."""
        rings = Rings()
        began_ms = self._scheduler.now_ms() - self._scheduler.monotonic_ms()
        for each in self._groups[key].samples:
            records = MISSING if each.records is None else float(each.records)
            seconds = MISSING if each.seconds is None else each.seconds
            rings.fine.append(sample_of(round(began_ms + each.at_ms), {}, {key[0]: SampledLag(records, seconds)}))
        return rings
