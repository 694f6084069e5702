"""The positions of a group: its commits, and the partitions of its members for which it has committed nothing."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, NamedTuple

from kpybroker.machines.console.groups import MemberRow, PositionRow
from kpybroker.machines.console.stuck import TASK
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.groups.group import Group
from kpybroker.machines.groups.offsets.committed import find_committed
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.monitoring.console.lag_history import Spots
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.metrics.lag import PartitionLag, Times, lag_of
from kpybroker.monitoring.metrics.readers import ReaderPosition, Readers, committed_by, name_of

MOST_POSITIONS: Final = 2_000

Spot = tuple[str, int]


class Fetched(NamedTuple):
    """The position at which the members of a group fetch, and the time since they did."""

    offset: int
    ago_s: float


def leader_of(node: NodeParts, topic: str, partition: int) -> PartitionLeader | None:
    """The role of this node as the leader of a partition."""
    try:
        return node.broker.replicas.find(topic, partition).leader
    except KafkaError:
        return None


async def fetched_by(
    node: NodeParts, readers: Readers, name: str, members: Sequence[MemberRow]
) -> Mapping[Spot, Fetched]:
    """The furthest position of the group's members in each partition."""
    now_ms = node.broker.scheduler.monotonic_ms()
    names = {name, *(name_of(each.client_id) for each in members)}
    found: dict[Spot, Fetched] = {}
    async for key, offset in paced(list(readers.furthest.items())):
        if key[0] in names:
            ago_s = max(0.0, now_ms - readers.last_ms.get(key, 0.0)) / 1000
            before = found.get(key[1:])
            latest = Fetched(offset, ago_s)
            if before is not None:
                latest = Fetched(max(offset, before.offset), min(ago_s, before.ago_s))
            found[key[1:]] = latest
    return found


def owners_of(group: Group, members: Sequence[MemberRow]) -> dict[Spot, str]:
    """The client id of the member that has each partition. Tasks of Kafka Streams do not name theirs, and members of a
    share group have no positions."""
    owners: dict[Spot, str] = {}
    for member in members if group.membership.keeps_offsets else ():
        for each in member.assigned:
            topic, _, index = each.rpartition("-")
            if not each.startswith(TASK) and index.isdigit():
                owners[topic, int(index)] = member.client_id
    return owners


async def spots_of(group: Group, owners: Mapping[Spot, str]) -> AsyncIterator[tuple[Spot, int | None]]:
    """The partitions of a group with its commits, then those of its members without one."""
    async for position in paced(committed_by(group)):
        if position is not None:
            yield (position.topic, position.partition), position.offset
    async for spot in paced(sorted(owners)):
        if find_committed(group.offsets, *spot) is None:
            yield spot, None


def lag_at(
    node: NodeParts, where: tuple[str, Spot], committed: int | None, now_ms: int, times: Times
) -> PartitionLag | None:
    """The lag of a group in a partition that this node leads; None where nothing says where it is: a member that has
    committed nothing goes on where its own auto.offset.reset says. An empty log has nothing to read."""
    name, (topic, partition) = where
    leader = leader_of(node, topic, partition)
    if committed is None and leader is not None and leader.log.log_start_offset >= leader.high_watermark.offset:
        committed = leader.high_watermark.offset
    if committed is None:
        return None
    return lag_of(node.broker, ReaderPosition(name, topic, partition, committed), now_ms, times, times)


class Total(NamedTuple):
    """The lag of a group in the partitions that this node leads."""

    records: int | None
    unknown: int


def total_of(lags: Sequence[int | None]) -> Total:
    """The sum of what is known."""
    known = [each for each in lags if each is not None]
    return Total(sum(known) if known else None, len(lags) - len(known))


async def lag_of_group(node: NodeParts, group: Group, members: Sequence[MemberRow]) -> Total:
    """The lag of a group in the partitions that this node leads."""
    lags: list[int | None] = []
    now_ms = node.broker.scheduler.now_ms()
    times: Times = {}
    async for spot, committed in spots_of(group, owners_of(group, members)):
        if leader_of(node, *spot) is not None:
            is_read = len(lags) < MOST_POSITIONS
            lag = lag_at(node, (group.group_id, spot), committed, now_ms, times) if is_read else None
            lags.append(None if lag is None else lag.records)
    return total_of(lags)


class GroupPositions(NamedTuple):
    """The positions of a group in topics that the viewer may see."""

    rows: tuple[PositionRow, ...]
    left_out: int
    """The number of further ones, which are too many."""
    hidden: int
    """The number of those in topics that the viewer may not see."""


async def position_rows(
    node: NodeParts, viewer: Viewer, group: Group, members: Sequence[MemberRow], readers: Readers
) -> GroupPositions:
    """The positions of a group."""
    now_ms = node.broker.scheduler.now_ms()
    times: Times = {}
    rows: list[PositionRow] = []
    left_out = hidden = 0
    owners, fetches = owners_of(group, members), await fetched_by(node, readers, group.group_id, members)
    async for spot, offset in spots_of(group, owners):
        if not viewer.may_see_topic(spot[0]):
            hidden += 1
            continue
        if len(rows) >= MOST_POSITIONS:
            left_out += 1
            continue
        committed, fetched, leader = find_committed(group.offsets, *spot), fetches.get(spot), leader_of(node, *spot)
        lag = lag_at(node, (group.group_id, spot), offset, now_ms, times)
        rows.append(
            PositionRow(
                *spot,
                offset,
                None if committed is None else committed.commit_timestamp_ms,
                "" if committed is None else committed.metadata[:200],
                None if leader is None else leader.high_watermark.offset,
                None if leader is None else leader.last_stable_offset().offset,
                None if lag is None else lag.records,
                None if lag is None else lag.seconds,
                owners.get(spot),
                None if fetched is None else fetched.offset,
                None if fetched is None else fetched.ago_s,
                None if leader is None else leader.log.log_start_offset,
            )
        )
    return GroupPositions(tuple(sorted(rows, key=lambda row: (row.topic, row.partition))), left_out, hidden)


def watched_spots(rows: Sequence[PositionRow]) -> Spots:
    """The positions whose movement tells how fast a group reads: its commits, and fetches where it has none. Members
    fetch more than they have processed."""
    return {
        (each.topic, each.partition): (position, each.end_offset)
        for each in rows
        for position in (each.fetched if each.committed is None else each.committed,)
        if position is not None and each.end_offset is not None
    }
