"""The readers of topics: groups by their commits or their members, and readers without a group by their fetches.

A member of a group is known by its client id. This node knows the members of the groups that it coordinates; the other
nodes are asked for theirs, as a client would ask, where somebody fetches here whose group is not known yet.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

from kpybroker.machines.authorization.resources import CLUSTER_NAME, AclOperation, ResourceType
from kpybroker.machines.console.topics import ReaderLag, TopicReader
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.groups.group import Group
from kpybroker.machines.groups.offsets.committed import find_committed
from kpybroker.machines.lag import lag_in_records
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.metrics.lag import Times, lag_of
from kpybroker.monitoring.metrics.readers import ReaderPosition, Readers, committed_by, groups_of, name_of, names_of
from kpywire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kpywire.messages.describe_groups import DescribeGroupsRequest
from kpywire.messages.list_groups import ListGroupsRequest
from kpywire.messages.share_group_describe import ShareGroupDescribeRequest
from kpywire.messages.streams_group_describe import StreamsGroupDescribeRequest

MOST_READERS: Final = 200
MOST_ASKED: Final = 1_000
"""The groups of another node whose members are asked for."""
EMPTY: Final = ("Empty", "Dead")


async def gathered(node: NodeParts) -> Readers:
    """Everything that fetches from this node."""
    readers = Readers(node.broker, node.sources.server)
    async for _ in paced(readers.gather()):
        pass
    return readers


def may_see_readers(viewer: Viewer) -> bool:
    """Whether the viewer may see who reads without a group: that is known from connections and their client ids."""
    return viewer.may(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)


async def readers_of(node: NodeParts, viewer: Viewer, topic: str) -> tuple[tuple[TopicReader, ...], int]:
    """The readers of a topic that the viewer may see, those with the largest lag first, and how many are left out."""
    readers = await gathered(node)
    fetched = await _fetched_of(readers, topic)
    positions: list[ReaderPosition] = []
    uncommitted: dict[str, set[int]] = {}
    groups: set[str] = set()
    in_groups: set[str] = set()
    async for group in paced(groups_of(node.broker)):
        names = names_of(group)
        in_groups |= names
        if not viewer.may(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id):
            continue
        groups.add(group.group_id)
        committed: Collection[int] = ()
        if topic in group.offsets:
            found = [each async for each in paced(committed_by(group)) if each is not None]
            positions += [each for each in found if each.topic == topic]
            committed = group.offsets[topic]
        reads = {spot for name in names & fetched.keys() for spot in fetched[name]} - set(committed)
        if reads:
            uncommitted[group.group_id] = reads
    if may_see_readers(viewer):
        positions += [each for each in await without_group(node, viewer, readers, in_groups) if each.topic == topic]
    lags: dict[str, list[tuple[int, float | None]]] = {}
    now_ms = node.broker.scheduler.now_ms()
    times: Times = {}
    async for position in paced(positions):
        lag = lag_of(node.broker, position, now_ms, times, times)
        if lag is not None:
            lags.setdefault(position.name, []).append((lag.records, lag.seconds))
    rows = []
    async for name in paced(lags.keys() | uncommitted.keys()):
        found_lags, unknown = lags.get(name, []), len(uncommitted.get(name, ()))
        behind = sum([records for records, _ in found_lags]) if found_lags else None
        lag_s = max([seconds for _, seconds in found_lags if seconds is not None], default=None)
        rows.append(TopicReader(name, name in groups, len(found_lags) + unknown, behind, unknown, lag_s))
    rows.sort(key=lambda row: (-(row.lag or 0), row.name))
    return tuple(rows[:MOST_READERS]), max(0, len(rows) - MOST_READERS)


async def worst_lags(node: NodeParts, viewer: Viewer, topics: Collection[str]) -> dict[str, ReaderLag]:
    """The reader that is furthest behind in each of these topics, by the partitions that this node leads: of the groups
    that it coordinates and of the readers without one, if the viewer may see them."""
    lags: dict[tuple[str, str, bool], int] = {}

    def add(position: ReaderPosition, *, is_group: bool) -> None:
        held = node.broker.replicas.topics.get(position.topic)
        replica = None if held is None else held.replicas.get(position.partition)
        leader = None if replica is None else replica.leader
        if leader is not None:
            key = position.topic, position.name, is_group
            lags[key] = lags.get(key, 0) + lag_in_records(leader.high_watermark.offset, position.offset)

    in_groups: set[str] = set()
    async for group in paced(groups_of(node.broker)):
        in_groups |= names_of(group)
        if viewer.may(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id):
            async for position in paced(_committed_in(group, topics)):
                add(position, is_group=True)
    if may_see_readers(viewer):
        async for position in paced(await without_group(node, viewer, await gathered(node), in_groups)):
            if position.topic in topics:
                add(position, is_group=False)
    worst: dict[str, ReaderLag] = {}
    async for (topic, name, is_group), lag in paced(lags.items()):
        before = worst.get(topic)
        if before is None or (-lag, name) < (-before.lag, before.name):
            worst[topic] = ReaderLag(lag, name, is_group)
    return worst


def _committed_in(group: Group, topics: Collection[str]) -> Iterator[ReaderPosition]:
    """The positions that a group has committed in these topics."""
    for topic in [each for each in group.offsets if each in topics]:
        for partition in list(group.offsets[topic]):
            committed = find_committed(group.offsets, topic, partition)
            if committed is not None:
                yield ReaderPosition(group.group_id, topic, partition, committed.offset)


async def _fetched_of(readers: Readers, topic: str) -> dict[str, set[int]]:
    """The partitions of a topic that each reader fetches."""
    found: dict[str, set[int]] = {}
    async for name, read, partition in paced(list(readers.furthest)):
        if read == topic:
            found.setdefault(name, set()).add(partition)
    return found


async def without_group(node: NodeParts, viewer: Viewer, readers: Readers, in_groups: set[str]) -> list[ReaderPosition]:
    """The positions of the readers that are in no group that is known here or elsewhere."""
    alone = {name for name, _, _ in readers.furthest} - in_groups
    if alone:
        for other in sorted(node.broker.alive_brokers - {node.broker.node_id}):
            alone -= await names_at(node, viewer, other)
    return [ReaderPosition(*key, offset) for key, offset in readers.furthest.items() if key[0] in alone]


async def names_at(node: NodeParts, viewer: Viewer, other: int) -> set[str]:
    """The names of the groups that another node coordinates, and of their members; none if it cannot be asked."""
    try:
        listed = await node.elsewhere.ask(viewer, other, ListGroupsRequest(states_filter=[], types_filter=[]))
        names = {each.group_id for each in listed.groups}
        for request in describing(listed.groups[:MOST_ASKED]):
            answer = await node.elsewhere.ask(viewer, other, request)
            described: Sequence[Any] = answer.groups
            names |= {name_of(member.client_id) for each in described for member in each.members}
    except KafkaError:
        return set()
    return names


def describing(listed: Sequence[Any]) -> list[Any]:
    """The requests that describe groups with members, by their type."""
    kinds: dict[str, list[str]] = {}
    for each in listed:
        if each.group_state not in EMPTY:
            kinds.setdefault(each.group_type, []).append(each.group_id)
    made: dict[str, Callable[[list[str]], Any]] = {
        "classic": lambda ids: DescribeGroupsRequest(groups=ids, include_authorized_operations=False),
        "consumer": lambda ids: ConsumerGroupDescribeRequest(group_ids=ids, include_authorized_operations=False),
        "share": lambda ids: ShareGroupDescribeRequest(group_ids=ids, include_authorized_operations=False),
        "streams": lambda ids: StreamsGroupDescribeRequest(group_ids=ids, include_authorized_operations=False),
    }
    return [made[kind](ids) for kind, ids in kinds.items() if kind in made]
