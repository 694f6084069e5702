"""The positions of a group: its commits, and the partitions of its members for which it has committed nothing."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Self

from kpybroker.machines.console.groups import MemberRow, PositionRow
from kpybroker.machines.console.stuck import TASK
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.groups.group import Group
from kpybroker.machines.groups.offsets.committed import CommittedOffset, unpack
from kpybroker.machines.lag import lag_in_records
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.monitoring.console.lag_history import Spots
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import PER_PART, give_way, paced
from kpybroker.monitoring.metrics.readers import Readers, name_of
from kpystorage.errors import DiskFailure

MOST_POSITIONS: Final = 2_000

Spot = tuple[str, int]


class Fetched(NamedTuple):
    """The position at which the members of a group fetch, and the time since they did."""

    offset: int
    ago_s: float


def leader_of(node: NodeParts, topic: str, partition: int) -> PartitionLeader | None:
    """The role of this node as the leader of a partition, taken up at the first need."""
    try:
        return node.broker.replicas.find(topic, partition).led()
    except KafkaError:
        return None
    except DiskFailure as failure:
        node.broker.replicas.directory_failed(failure)
        return None


class Fetches:
    """The furthest position of each reader in each partition, by the name of the reader."""

    def __init__(self, now_ms: float) -> None:
        self._now_ms = now_ms
        self._by_name: dict[str, dict[Spot, Fetched]] = {}

    @classmethod
    async def of(cls, node: NodeParts, readers: Readers) -> Self:
        """The positions of everything that fetches from this node."""
        made = cls(node.broker.scheduler.monotonic_ms())
        async for (name, topic, partition), offset in paced(list(readers.furthest.items())):
            ago_s = max(0.0, made._now_ms - readers.last_ms.get((name, topic, partition), 0.0)) / 1000
            made._by_name.setdefault(name, {})[topic, partition] = Fetched(offset, ago_s)
        return made

    def by(self, names: Iterable[str]) -> Mapping[Spot, Fetched]:
        """The furthest position of several readers in each partition."""
        found: dict[Spot, Fetched] = {}
        for name in names:
            for spot, fetched in self._by_name.get(name, {}).items():
                before = found.get(spot, fetched)
                found[spot] = Fetched(max(fetched.offset, before.offset), min(fetched.ago_s, before.ago_s))
        return found


def spots_in(assigned: Iterable[str]) -> list[Spot]:
    """The partitions in an assignment. Tasks of Kafka Streams do not name theirs."""
    parts = (each.rpartition("-") for each in assigned if not each.startswith(TASK))
    return [(topic, int(index)) for topic, _, index in parts if index.isdigit()]


def committed_spots(group: Group) -> Iterator[Spot]:
    """The partitions in which a group has committed."""
    for topic, partitions in list(group.offsets.items()):
        yield from [(topic, index) for index in partitions]


def assigned_in(members: Iterable[MemberRow]) -> Iterator[Spot]:
    """The partitions that members have."""
    for each in members:
        yield from spots_in(each.assigned)


def owners_of(group: Group, members: Sequence[MemberRow]) -> dict[Spot, str]:
    """The client id of the member that has each partition. Members of a share group have no positions."""
    if not group.membership.keeps_offsets:
        return {}
    return {spot: member.client_id for member in members for spot in spots_in(member.assigned)}


def _topics_of(group: Group, owners: Mapping[Spot, str]) -> list[tuple[str, list[int]]]:
    """The partitions of a group: those with its commits, and those of its members. Several entries of one topic are
    possible, each with few enough partitions for one step."""
    topics = {topic: set(partitions) for topic, partitions in group.offsets.items()}
    for topic, partition in owners:
        topics.setdefault(topic, set()).add(partition)
    return [
        (topic, indexes[start : start + PER_PART])
        for topic, found in sorted(topics.items())
        for indexes in (sorted(found),)
        for start in range(0, len(indexes), PER_PART)
    ]


class Total(NamedTuple):
    """The lag of a group in the partitions that this node leads."""

    records: int | None
    unknown: int


def total_of(lags: Sequence[int | None]) -> Total:
    """The sum of what is known."""
    known = [each for each in lags if each is not None]
    return Total(sum(known) if known else None, len(lags) - len(known))


class GroupPositions(NamedTuple):
    """The positions of a group in topics that the viewer may see."""

    rows: tuple[PositionRow, ...]
    left_out: int
    """The number of further ones, which are too many."""
    hidden: int
    """The number of those in topics that the viewer may not see."""


class PositionSources(NamedTuple):
    """The sources of positions: the topics that the viewer may see, all fetches from this node, and the ends of the
    partitions that other nodes lead, as far as they are known."""

    may_see: Callable[[str], bool]
    fetches: Fetches
    ends: Mapping[Spot, int]


async def position_rows(
    node: NodeParts, group: Group, members: Sequence[MemberRow], sources: PositionSources
) -> GroupPositions:
    """The positions of a group, by partition, without the lag in time, which is read from files."""
    rows: list[PositionRow] = []
    left_out = hidden = 0
    owners = owners_of(group, members)
    fetches = sources.fetches.by({group.group_id, *(name_of(each.client_id) for each in members)})
    topics = node.broker.replicas.topics
    for topic, indexes in _topics_of(group, owners):
        await give_way()
        if not sources.may_see(topic):
            hidden += len(indexes)
            continue
        room = MOST_POSITIONS - len(rows)
        left_out += max(0, len(indexes) - room)
        held = topics.get(topic)
        committed = group.offsets.get(topic, {})
        for index in indexes[:room]:
            spot = topic, index
            replica = None if held is None else held.replicas.get(index)
            leader = None if replica is None else replica.leader
            if replica is not None and (leader is None or replica.offline):
                leader = leader_of(node, topic, index)
            packed = committed.get(index)
            reader = owners.get(spot), fetches.get(spot)
            rows.append(_row(spot, None if packed is None else unpack(packed), leader, reader, sources))
    return GroupPositions(tuple(rows), left_out, hidden)


def records_left(committed: int | None, start: int | None, end: int | None) -> int | None:
    """The lag at a position. Without a commit it is not known, since a member goes on where its own auto.offset.reset
    says; an empty log has nothing to read, and one that ends at 0 is empty."""
    if end is None:
        return None
    if committed is None:
        return 0 if end == 0 or (start is not None and start >= end) else None
    return lag_in_records(end, committed)


def _row(
    spot: Spot,
    committed: CommittedOffset | None,
    leader: PartitionLeader | None,
    reader: tuple[str | None, Fetched | None],
    sources: PositionSources,
) -> PositionRow:
    """A position."""
    owner, fetched = reader
    start = stable = None
    if leader is None:
        end = sources.ends.get(spot)
    else:
        start, end = leader.log.log_start_offset, leader.high_watermark.offset
        stable = leader.last_stable_offset().offset
    offset = None if committed is None else committed.offset
    return PositionRow(
        *spot,
        offset,
        None if committed is None else committed.commit_timestamp_ms,
        "" if committed is None else committed.metadata[:200],
        end,
        stable,
        records_left(offset, start, end),
        None,
        owner,
        None if fetched is None else fetched.offset,
        None if fetched is None else fetched.ago_s,
        start,
    )


def watched_spots(rows: Sequence[PositionRow]) -> Spots:
    """The positions whose movement tells how fast a group reads: its commits, and fetches where it has none. Members
    fetch more than they have processed."""
    return {
        (each.topic, each.partition): (position, each.end_offset)
        for each in rows
        for position in (each.fetched if each.committed is None else each.committed,)
        if position is not None and each.end_offset is not None
    }
