"""The groups that this node coordinates, those of other nodes as far as the viewer can ask them, and readers without a
group."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kpybroker.authorization.resources import Operation, ResourceType
from kpybroker.console.answers.kinds import share_facts, share_rows, streams_facts
from kpybroker.console.answers.members import members_of, silence_of
from kpybroker.console.answers.transactions import transactional_id_of
from kpybroker.console.asking import refuse
from kpybroker.console.node_parts import NodeParts
from kpybroker.console.pace import paced
from kpybroker.console.query import Query
from kpybroker.console.readers import without_group
from kpybroker.console.viewer import Viewer
from kpybroker.console.views import stuck
from kpybroker.console.views.groups import (
    GroupPage,
    GroupRow,
    Groups,
    MemberRow,
    PositionRow,
    ReaderRow,
    ShareRow,
    story_of,
)
from kpybroker.console.views.stuck_shares import verdict_on_shares
from kpybroker.console.views.stuck_streams import verdict_on_streams
from kpybroker.console.views.topics import PER_PAGE, pages_of
from kpybroker.errors import KafkaError
from kpybroker.groups import stories
from kpybroker.groups.classic.classic_group import ClassicGroup
from kpybroker.groups.consumer.consumer_group import ConsumerGroup
from kpybroker.groups.coordinator import GroupCoordinator
from kpybroker.groups.group import Group
from kpybroker.groups.offsets.committed import find_committed
from kpybroker.groups.share.share_group import SHARE, ShareGroup
from kpybroker.groups.streams.streams_group import StreamsGroup
from kpybroker.metrics.lag import Lag, Times, lag_of
from kpybroker.metrics.readers import Position, Readers, committed_by, groups_of, name_of
from kpybroker.partition.leader import Leader
from kpywire import error_codes
from kpywire.messages.list_groups import ListGroupsRequest

REMOVED: Final = (stories.SILENT, stories.LATE_JOIN, stories.LATE_SYNC, stories.LATE_REVOKE)
MOST_POSITIONS: Final = 2_000


async def groups(node: NodeParts, viewer: Viewer, query: Query) -> Groups:
    """A page of the list."""
    search = query.text("q")[:249]
    answer = await node.ask(viewer, ListGroupsRequest(states_filter=[], types_filter=[]))
    refuse(answer.error_code, "the groups of this node")
    here = node.broker.node_id
    listed = {each.group_id: (each.group_type, each.group_state, here) for each in answer.groups}
    unreachable: list[str] = []
    for other in sorted(node.broker.alive_brokers - {here}):
        try:
            found = await node.elsewhere.ask(viewer, other, ListGroupsRequest(states_filter=[], types_filter=[]))
        except KafkaError as error:
            unreachable.append(f"node {other}: {error.message or error}")
            continue
        listed |= {each.group_id: (each.group_type, each.group_state, other) for each in found.groups}
    names = sorted(name for name in listed if search.lower() in name.lower())
    page, pages = pages_of(len(names), query.number("page", 1, lowest=1))
    known = {group.group_id: group async for group in paced(groups_of(node.broker))}
    rows = []
    for name in names[(page - 1) * PER_PAGE : page * PER_PAGE]:
        kind, state, where = listed[name]
        group = known.get(name)
        lag = None if group is None else await _lag_of_group(node, group)
        rows.append(GroupRow(name, kind, state, None if group is None else len(members_of(node, group)), where, lag))
    readers = await _readers(node, viewer, set(known)) if page == 1 else ()
    return Groups(search, page, pages, len(names), tuple(rows), readers, tuple(unreachable))


async def _lag_of_group(node: NodeParts, group: Group) -> int | None:
    lags: list[int] = []
    now_ms = node.broker.scheduler.now_ms()
    times: Times = {}
    async for position in paced(committed_by(group)):
        if position is not None and len(lags) < MOST_POSITIONS:
            lag = lag_of(node.broker, position, now_ms, times, times)
            if lag is not None:
                lags.append(lag.records)
    return sum(lags) if lags else None


async def _readers(node: NodeParts, viewer: Viewer, in_groups: set[str]) -> tuple[ReaderRow, ...]:
    readers = Readers(node.broker, node.sources.server)
    async for _ in paced(readers.gather()):
        pass
    lags: dict[str, list[Lag | None]] = {}
    verdicts: dict[str, str] = {}
    now_ms = node.broker.scheduler.now_ms()
    times: Times = {}
    async for position in paced(await without_group(node.sources, in_groups)):
        if viewer.may_see_topic(position.topic):
            lag = lag_of(node.broker, position, now_ms, times, times)
            lags.setdefault(position.name, []).append(lag)
            if lag is not None and lag.records and position.name not in verdicts:
                silent_s = (node.broker.scheduler.monotonic_ms() - readers.last_ms.get(position.name, 0.0)) / 1000
                verdicts[position.name] = stuck.verdict_on_reader(
                    f"{position.topic}-{position.partition}", position.offset, _pin(node, viewer, position), silent_s
                )
    return tuple(
        ReaderRow(
            name,
            tuple(sorted(readers.client_ids.get(name, ()))[:20]),
            len(found),
            sum(each.records for each in found if each is not None),
            max((each.seconds for each in found if each is not None and each.seconds is not None), default=None),
            verdicts.get(name, ""),
        )
        for name, found in sorted(lags.items())[:PER_PAGE]
    )


def _pin(node: NodeParts, viewer: Viewer, position: Position) -> stuck.OpenTransaction | None:
    """The transaction that holds back a reader of committed records at this position."""
    leader = _leader(node, position.topic, position.partition)
    if leader is None or position.offset < leader.last_stable_offset().offset:
        return None
    return next(iter(_open_transactions(node, viewer, leader)), None)


def _open_transactions(node: NodeParts, viewer: Viewer, leader: Leader) -> Iterator[stuck.OpenTransaction]:
    for producer_id, first_offset, _ in leader.log.producers.open_transactions()[:1]:
        yield stuck.OpenTransaction(producer_id, transactional_id_of(node.broker, viewer, producer_id), first_offset)


async def group(node: NodeParts, viewer: Viewer, query: Query) -> GroupPage:
    """One group, at its coordinator. Raises Refused."""
    name = query.needed("id")
    coordinator, found = _find(node, viewer, name)
    silent = silence_of(coordinator, found, int(node.broker.scheduler.monotonic_ms()))
    members = tuple(
        [
            replace(each, silent_s=silent.get(each.id), assigned=_seen(viewer, each.assigned))
            async for each in paced(members_of(node, found))
        ]
    )
    assigned = {spot: member.client_id for member in members for spot in member.assigned}
    readers = Readers(node.broker, node.sources.server)
    async for _ in paced(readers.gather()):
        pass
    fetched = _fetched_by(readers, name, [member.client_id for member in members])
    positions = await _positions(node, viewer, found, assigned, fetched)
    events = coordinator.shard.stories.of(name)
    kind, state, generation, protocol = _summary(found)
    shares = await share_rows(node, viewer, name, members) if kind == SHARE else ()
    found_of_kind = _verdict_of_kind(node, viewer, (coordinator, found), members, shares)
    is_stuck, verdict = found_of_kind or stuck.verdict_on(
        await _facts(node, viewer, state, (members, positions), events)
    )
    lag = sum(each.lag or 0 for each in positions) + sum(each.unread for each in shares)
    lag_s = max((each.lag_s for each in positions if each.lag_s is not None), default=None)
    plots = node.lags.look(name, lag, lag_s)
    story = story_of(events)
    return GroupPage(
        name,
        kind,
        state,
        protocol,
        generation,
        node.broker.node_id,
        verdict,
        is_stuck,
        members,
        positions,
        shares,
        lag,
        lag_s,
        story,
        plots,
    )


def _seen(viewer: Viewer, assigned: tuple[str, ...]) -> tuple[str, ...]:
    """The tasks, and the partitions of topics that the viewer may see."""
    return tuple(
        each for each in assigned if each.startswith(stuck.TASK) or viewer.may_see_topic(each.rpartition("-")[0])
    )


def _verdict_of_kind(
    node: NodeParts,
    viewer: Viewer,
    where: tuple[GroupCoordinator, Group],
    members: tuple[MemberRow, ...],
    shares: tuple[ShareRow, ...],
) -> tuple[bool, str] | None:
    """The verdict on a share group, or on the tasks of a streams group; None where positions decide."""
    coordinator, group = where
    membership = group.membership
    if isinstance(membership, ShareGroup):
        return verdict_on_shares(share_facts(node, viewer, membership, members, shares))
    if isinstance(membership, StreamsGroup):
        return verdict_on_streams(streams_facts(coordinator.shard, viewer, membership, members))
    return None


def _find(node: NodeParts, viewer: Viewer, name: str) -> tuple[GroupCoordinator, Group]:
    viewer.must(Operation.DESCRIBE, ResourceType.GROUP, name)
    for shard in list(node.broker.groups.shards.values()):
        machine = shard.machine
        if shard.journal.is_open and isinstance(machine, GroupCoordinator) and name in machine.shard.groups:
            return machine, machine.shard.groups[name]
    refuse(error_codes.GROUP_ID_NOT_FOUND, f"group {name[:249]!r} on this node", "this node coordinates no such group")
    raise AssertionError


def _summary(group: Group) -> tuple[str, str, int | None, str]:
    """(type, state, generation, protocol)."""
    membership = group.membership
    if isinstance(membership, ClassicGroup):
        return "classic", membership.state.value, membership.generation_id, membership.protocol_name or ""
    if isinstance(membership, ConsumerGroup):
        return "consumer", membership.state, membership.epoch, ""
    if isinstance(membership, StreamsGroup):
        return "streams", membership.state, membership.epoch, ""
    if isinstance(membership, ShareGroup):
        return SHARE, membership.state, membership.epoch, ""
    return "offsets only", "Empty", None, ""


def _fetched_by(readers: Readers, name: str, client_ids: Sequence[str]) -> Mapping[tuple[str, int], int]:
    """The furthest position of the group's members in each partition."""
    names = {name, *map(name_of, client_ids)}
    found: dict[tuple[str, int], int] = {}
    for (reader, topic, partition), offset in readers.furthest.items():
        if reader in names:
            found[topic, partition] = max(offset, found.get((topic, partition), -1))
    return found


async def _positions(
    node: NodeParts,
    viewer: Viewer,
    group: Group,
    assigned: Mapping[str, str],
    fetched: Mapping[tuple[str, int], int],
) -> tuple[PositionRow, ...]:
    now_ms = node.broker.scheduler.now_ms()
    times: Times = {}
    rows: list[PositionRow] = []
    async for position in paced(committed_by(group)):
        if position is None or not viewer.may_see_topic(position.topic) or len(rows) >= MOST_POSITIONS:
            continue
        spot = position.topic, position.partition
        committed = find_committed(group, *spot)
        lag = lag_of(node.broker, position, now_ms, times, times)
        leader = _leader(node, *spot)
        rows.append(
            PositionRow(
                *spot,
                position.offset,
                None if committed is None else committed.commit_timestamp_ms,
                "" if committed is None else committed.metadata[:200],
                None if leader is None else leader.high_watermark.offset,
                None if leader is None else leader.last_stable_offset().offset,
                None if lag is None else lag.records,
                None if lag is None else lag.seconds,
                assigned.get(f"{position.topic}-{position.partition}"),
                fetched.get(spot),
            )
        )
    return tuple(sorted(rows, key=lambda row: (row.topic, row.partition)))


def _leader(node: NodeParts, topic: str, partition: int) -> Leader | None:
    try:
        return node.broker.replicas.find(topic, partition).leader
    except KafkaError:
        return None


async def _facts(
    node: NodeParts,
    viewer: Viewer,
    state: str,
    rows: tuple[tuple[MemberRow, ...], tuple[PositionRow, ...]],
    events: Sequence[stories.Event],
) -> stuck.Facts:
    members, positions = rows
    starts: dict[tuple[str, int], int] = {}
    pins: dict[tuple[str, int], stuck.OpenTransaction] = {}
    async for each in paced(positions):
        spot = each.topic, each.partition
        leader = _leader(node, *spot)
        if leader is None:
            continue
        starts[spot] = leader.log.log_start_offset
        pins.update((spot, pin) for pin in _open_transactions(node, viewer, leader))
    moved_ms = max((each.commit_ms or 0 for each in positions), default=0)
    lost = sum(event.what in REMOVED and event.timestamp_ms > moved_ms for event in events)
    return stuck.Facts(state, members, positions, starts, pins, lost, node.broker.scheduler.now_ms())
