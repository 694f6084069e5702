"""The lag in time of groups: the age of the oldest record that is not read, at each of their positions.

Where this node leads, the time of that record is read from its files, or from the store of a tiered topic. Other
leaders are asked, for a bounded number of positions; what they have told is kept for a while: the time at a position
changes only when its record is deleted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from kpybroker.machines.console.groups import PositionRow
from kpybroker.machines.console.wording import counted
from kpybroker.machines.lag import NO_TIME, lag_in_ms
from kpybroker.monitoring.console.answers.fetched_times import NOTHING_FETCHED, Position, fetched_times
from kpybroker.monitoring.console.answers.positions import leader_of
from kpybroker.monitoring.console.answers.record_places import may_read
from kpybroker.monitoring.console.answers.share_positions import SharePositions
from kpybroker.monitoring.console.asking import until_known
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.overviews import viewer_key
from kpybroker.monitoring.console.pace import give_way, paced, parts
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.metrics.lag import Times, is_stored_alone, lag_of, stored_time
from kpybroker.monitoring.metrics.readers import ReaderPosition

MOST_ASKED: Final = 2_000
"""The positions of one page that other leaders are asked for. The next look asks for the next ones."""
MOST_STORED: Final = 100
"""The positions that are waited for, of those that only a store has."""
STORE_LOOKS: Final = 50


class LagTimes(NamedTuple):
    """The times of records that other leaders have told, and a line for each that has not told all of them."""

    known: Times
    silent: tuple[str, ...]


class LagInTime(NamedTuple):
    """The lag in time at each position of a group, the longest one, and the number of positions with records left whose
    times are not known."""

    each_s: list[float | None]
    longest_s: float | None
    untimed: int


async def lag_times(node: NodeParts, viewer: Viewer, rows: Iterable[PositionRow]) -> LagTimes:
    """The times at these positions that this node cannot read from its files: those of other leaders are asked for, and
    those in a store are waited for, a second at most."""
    known = node.overviews.fetched_times(viewer_key(viewer))
    wanted: dict[Position, tuple[bytes, int, int]] = {}
    stored: list[PositionRow] = []
    readable: dict[str, bool] = {}
    async for row in paced(rows):
        if not row.lag or row.committed is None:
            continue
        if row.start_offset is not None:
            if _stored_time_is_missing(node, row):
                stored.append(row)
            continue
        key = _key(node, row)
        if row.topic not in readable:
            readable[row.topic] = may_read(viewer, row.topic)
        if key is not None and readable[row.topic] and known.get(key, NO_TIME) == NO_TIME:
            wanted[row.topic, row.partition, row.committed] = key
    some = list(islice(wanted, MOST_ASKED))
    found = await fetched_times(node, viewer, some) if some else NOTHING_FETCHED
    async for position, time_ms in paced(found.times.items()):
        known[wanted[position]] = time_ms
    left = stored[:MOST_STORED]

    def is_known() -> bool:
        left[:] = [row for row in left if _stored_time_is_missing(node, row)]
        return not left

    await until_known(is_known, STORE_LOOKS)
    lines = [found.silent[leader] for leader in sorted(found.silent)]
    hidden = sorted(topic for topic, is_readable in readable.items() if not is_readable)
    if hidden:
        more = f" and {counted(len(hidden) - 1, 'other topic')}" if len(hidden) > 1 else ""
        lines.append(f"{viewer.principal} lacks READ on topic {hidden[0]}{more}")
    if len(wanted) > MOST_ASKED:
        lines.append(f"the next look asks for {counted(len(wanted) - MOST_ASKED, 'more position')}")
    if left:
        lines.append("the store of tiered topics has not answered")
    return LagTimes(known, tuple(lines))


def _key(node: NodeParts, row: PositionRow) -> tuple[bytes, int, int] | None:
    """The key of a position among times that are known; None for a topic that is gone."""
    topic = node.broker.image.topics.get(row.topic)
    return None if topic is None or row.committed is None else (topic.id, row.partition, row.committed)


def _stored_time_is_missing(node: NodeParts, row: PositionRow) -> bool:
    """Whether the record at a position is in the store alone, and its time is not known yet. Asks for it."""
    leader = leader_of(node, row.topic, row.partition)
    if leader is None or row.committed is None or not is_stored_alone(leader, row.committed):
        return False
    replica = node.broker.replicas.find(row.topic, row.partition)
    return stored_time(node.broker, replica, leader, row.committed) is None


async def positions_of_share(node: NodeParts, shared: SharePositions) -> list[PositionRow]:
    """The first records that a share group is not done with, as positions."""
    rows = []
    async for (topic, partition), offset in paced(shared.starts.items()):
        leader, left = leader_of(node, topic, partition), shared.left.get((topic, partition))
        start = None if leader is None else leader.log.log_start_offset
        rows.append(PositionRow(topic, partition, offset, None, "", None, None, left, None, None, None, None, start))
    return rows


async def lag_in_time(node: NodeParts, name: str, rows: Sequence[PositionRow], elsewhere: Times) -> LagInTime:
    """The lag in time of a group. ``elsewhere``: the times that other leaders have told."""
    now_ms = node.broker.scheduler.now_ms()
    each_s: list[float | None] = []
    untimed = 0
    for some in parts(rows):
        for row in some:
            lag_s, is_known = _lag_s(node, name, row, now_ms, elsewhere)
            untimed += not is_known
            each_s.append(lag_s)
        await give_way()
    return LagInTime(each_s, max([each for each in each_s if each is not None], default=None), untimed)


async def with_times(rows: Sequence[PositionRow], lag: LagInTime) -> list[PositionRow]:
    """The positions with their lag in time."""
    return [replace(row, lag_s=lag_s) async for row, lag_s in paced(zip(rows, lag.each_s, strict=True))]


def _lag_s(node: NodeParts, name: str, row: PositionRow, now_ms: int, elsewhere: Times) -> tuple[float | None, bool]:
    """The lag in time at a position, and whether all is known about it that there is to know."""
    if not row.lag or row.committed is None:
        return 0.0 if row.lag == 0 else None, True
    if row.start_offset is None:
        key = _key(node, row)
        time_ms = None if key is None else elsewhere.get(key)
        late_ms = lag_in_ms(row.lag, time_ms, now_ms)
        return None if late_ms is None else late_ms / 1000, time_ms is not None
    position = ReaderPosition(name, row.topic, row.partition, row.committed)
    times = node.overviews.times
    lag = lag_of(node.broker, position, now_ms, times, times)
    return (None, False) if lag is None or lag.is_least else (lag.seconds, True)


def silence(*lines: tuple[str, ...]) -> tuple[str, ...]:
    """Lines about leaders that do not answer, each once."""
    return tuple(dict.fromkeys(line for some in lines for line in some))
