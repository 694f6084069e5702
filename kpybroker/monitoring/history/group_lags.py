"""The lag and the pace of the groups that a node coordinates, read in one round after the other."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kpybroker.machines.groups.group import Group
from kpybroker.monitoring.history.samples import MISSING, MOST_GROUPS, SampledLag
from kpybroker.monitoring.metrics.lag import PartitionLag, Times, lag_of
from kpybroker.monitoring.metrics.readers import committed_by, groups_of
from kpybroker.requests.broker import Broker

MOST_POSITIONS: Final = 5_000
"""The most positions of a round. Groups behind them have no lag."""
LONGEST_ID: Final = 249
"""Groups with a longer id are left out."""
PER_PIECE: Final = 200
"""The groups that are seen between two places to pause."""
ROUNDS: Final = 7
"""The rounds over which a pace is measured: a minute."""


class Travelled(NamedTuple):
    """The sums of a group's positions, and of the ends of its partitions."""

    partitions: int
    read: int
    written: int


class LagRound(NamedTuple):
    """The groups at one moment of the monotonic clock."""

    monotonic_ms: float
    groups: Mapping[str, Travelled]


class GroupPace(NamedTuple):
    """Records that a group reads each second, and that are written for it, and the time that was measured."""

    read_per_s: float
    written_per_s: float
    over_s: float


class GroupLags:
    """Reads the groups of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._times: Times = {}
        self._rounds: deque[LagRound] = deque(maxlen=ROUNDS)
        self.lags: dict[str, SampledLag] = {}
        """The lag of each group in the last round."""

    def round(self) -> Iterator[None]:
        """Read all groups. Every step is a place to pause."""
        broker = self._broker
        started_ms, now_ms = broker.scheduler.monotonic_ms(), broker.scheduler.now_ms()
        seen: Times = {}
        lags: dict[str, SampledLag] = {}
        travelled: dict[str, Travelled] = {}
        left = MOST_POSITIONS
        chosen: list[Group] = []
        yield from self._choose(chosen)
        for group in chosen:
            yield None
            found: list[PartitionLag] = []
            for position in committed_by(group):
                if position is None:
                    yield None
                elif left > 0:
                    left -= 1
                    lag = lag_of(broker, position, now_ms, self._times, seen)
                    found += [] if lag is None else [lag]
            lags[group.group_id] = _sum_of(found)
            travelled[group.group_id] = Travelled(
                len(found),
                sum(each.position.offset for each in found),
                sum(each.position.offset + each.records for each in found),
            )
        self._times, self.lags = seen, lags
        self._rounds.append(LagRound(started_ms, travelled))

    def _choose(self, chosen: list[Group]) -> Iterator[None]:
        """Add the groups to read: those of the last round, and others while there is room."""
        others: list[Group] = []
        for number, group in enumerate(groups_of(self._broker)):
            if number % PER_PIECE == 0:
                yield None
            if group.offsets and len(group.group_id) <= LONGEST_ID:
                (chosen if group.group_id in self.lags else others).append(group)
        chosen += others[: MOST_GROUPS - len(chosen)]

    def pace_of(self, group_id: str) -> GroupPace | None:
        """How fast a group reads; None until two rounds have seen it with the same number of partitions."""
        if not self._rounds or group_id not in self._rounds[-1].groups:
            return None
        last_ms, last = self._rounds[-1].monotonic_ms, self._rounds[-1].groups[group_id]
        first_ms, first = last_ms, last
        for each in reversed(self._rounds):
            found = each.groups.get(group_id)
            if found is None or found.partitions != last.partitions:
                break
            first_ms, first = each.monotonic_ms, found
        passed_s = (last_ms - first_ms) / 1000
        if passed_s <= 0 or not last.partitions:
            return None
        read, written = max(0, last.read - first.read), max(0, last.written - first.written)
        return GroupPace(read / passed_s, written / passed_s, passed_s)


def _sum_of(found: list[PartitionLag]) -> SampledLag:
    """The records of all partitions, and the longest time."""
    if not found:
        return SampledLag(MISSING, MISSING)
    seconds = max((each.seconds for each in found if each.seconds is not None), default=MISSING)
    return SampledLag(float(sum(each.records for each in found)), seconds)
