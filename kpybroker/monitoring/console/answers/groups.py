"""The groups that this node coordinates, those of other nodes as far as the viewer can ask them, and readers without a
group."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.console import stuck
from kpybroker.machines.console.groups import GroupPage, GroupRow, Groups, MemberRow, PositionRow, ReaderRow, story_of
from kpybroker.machines.console.listing import PER_PAGE, pages_of
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.groups import stories
from kpybroker.machines.groups.coordinator import GroupCoordinator
from kpybroker.machines.groups.group import Group
from kpybroker.machines.groups.share.share_group import SHARE
from kpybroker.machines.groups.streams.streams_group import STREAMS
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.monitoring.console.answers.kinds import VERDICTS, dead_letters_row, share_rows
from kpybroker.monitoring.console.answers.members import members_of, silence_of
from kpybroker.monitoring.console.answers.positions import (
    lag_of_group,
    leader_of,
    position_rows,
    total_of,
    watched_spots,
)
from kpybroker.monitoring.console.answers.topologies import NO_TOPOLOGY, shown_topology
from kpybroker.monitoring.console.answers.transactions import transactional_id_of
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.history import of_group, plotted_of
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.readers import gathered, may_see_readers, without_group
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.metrics.lag import PartitionLag, Times, lag_of
from kpybroker.monitoring.metrics.readers import ReaderPosition, groups_of, names_of
from kpybroker.requests.serving.preferred_replica import RACK_AWARE
from kpywire import error_codes
from kpywire.messages.list_groups import ListGroupsRequest

REMOVED: Final = (stories.SILENT, stories.LATE_JOIN, stories.LATE_SYNC, stories.LATE_REVOKE)
ASSIGNED: Final = (stories.JOINED, stories.GENERATION, stories.ASSIGNED)
MOST_CLIENT_IDS: Final = 20
OFFSETS_ONLY: Final = "offsets only"


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
        if group is None:
            rows.append(GroupRow(name, kind, state, None, where, None, 0))
        else:
            members = members_of(node, group)
            lag = await lag_of_group(node, group, members)
            rows.append(GroupRow(name, kind, state, len(members), where, *lag))
    is_shown = page == 1 and may_see_readers(viewer)
    in_groups = set(listed)
    async for each in paced(list(known.values()) if is_shown else ()):
        in_groups |= names_of(each)
    readers, left_out = await _readers(node, viewer, in_groups) if is_shown else ((), 0)
    hidden = not may_see_readers(viewer)
    return Groups(search, page, pages, len(names), tuple(rows), readers, left_out, hidden, tuple(unreachable))


async def _readers(node: NodeParts, viewer: Viewer, in_groups: set[str]) -> tuple[tuple[ReaderRow, ...], int]:
    """The readers without a group, and the number of those that are left out."""
    readers = await gathered(node)
    lags: dict[str, list[PartitionLag | None]] = {}
    verdicts: dict[str, str] = {}
    now_ms, passed_ms = node.broker.scheduler.now_ms(), node.broker.scheduler.monotonic_ms()
    times: Times = {}
    async for position in paced(await without_group(node, viewer, readers, in_groups)):
        if viewer.may_see_topic(position.topic):
            lag = lag_of(node.broker, position, now_ms, times, times)
            lags.setdefault(position.name, []).append(lag)
            if lag is not None and lag.records and not verdicts.get(position.name):
                silent_s = (passed_ms - readers.last_ms.get(position[:3], 0.0)) / 1000
                verdicts[position.name] = stuck.verdict_on_reader(
                    f"{position.topic}-{position.partition}", position.offset, _pin(node, viewer, position), silent_s
                )
    rows = tuple(
        ReaderRow(
            name,
            tuple(sorted(readers.client_ids.get(name, ()))[:MOST_CLIENT_IDS]),
            max(0, len(readers.client_ids.get(name, ())) - MOST_CLIENT_IDS),
            len(found),
            total_of([None if each is None else each.records for each in found]).records,
            max((each.seconds for each in found if each is not None and each.seconds is not None), default=None),
            verdicts.get(name, ""),
        )
        for name, found in sorted(lags.items())[:PER_PAGE]
    )
    return rows, max(0, len(lags) - PER_PAGE)


def _pin(node: NodeParts, viewer: Viewer, position: ReaderPosition) -> stuck.OpenTransaction | None:
    """The transaction that holds back a reader of committed records at this position."""
    leader = leader_of(node, position.topic, position.partition)
    if leader is None or position.offset < leader.last_stable_offset().offset:
        return None
    return next(iter(_open_transactions(node, viewer, leader)), None)


def _open_transactions(node: NodeParts, viewer: Viewer, leader: PartitionLeader) -> Iterator[stuck.OpenTransaction]:
    for producer_id, first_offset, _ in leader.log.producers.open_transactions()[:1]:
        yield stuck.OpenTransaction(producer_id, transactional_id_of(node, viewer, producer_id), first_offset)


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
    positions, left_out, hidden = await position_rows(node, viewer, found, members, await gathered(node))
    events = coordinator.shard.stories.of(name)
    of_members = found.membership.facts()
    state, generation = of_members.state, of_members.generation
    kind = OFFSETS_ONLY if generation is None else of_members.kind
    shares = await share_rows(node, viewer, name, members) if kind == SHARE else ()
    led = total_of([each.lag for each in positions if each.end_offset is not None])
    lag = led.records if kind != SHARE else sum(each.unread for each in shares) if shares else None
    lag_s = max((each.lag_s for each in positions if each.lag_s is not None), default=None)
    look = name, str(viewer.principal)
    watched = node.lags.look(look, (lag, lag_s), watched_spots(positions))
    kept = None if hidden else node.lags.kept(name)
    pace = watched.pace or (None if hidden else node.lags.pace_of(name))
    verdict_of = VERDICTS.get(kind)
    found_of_kind = verdict_of and verdict_of(node, viewer, coordinator.shard, found.membership, members, shares)
    if found_of_kind is None:
        facts = await _facts(node, viewer, state, (members, positions), events)
        facts = replace(facts, still_s=watched.still_s, pace=pace, is_partial=bool(left_out or hidden))
        found_of_kind = stuck.verdict_on(facts)
    topology = await shown_topology(node, viewer, name) if kind == STREAMS else NO_TOPOLOGY
    is_stuck, verdict = found_of_kind
    return GroupPage(
        name,
        kind,
        state,
        of_members.protocol_name,
        generation,
        node.broker.node_id,
        verdict,
        is_stuck,
        members,
        positions,
        left_out,
        shares,
        *topology,
        await dead_letters_row(node, viewer, name) if kind == SHARE else None,
        lag,
        led.unknown + left_out,
        lag_s,
        None if pace is None else round(pace.read_per_s, 3),
        None if pace is None else round(pace.written_per_s, 3),
        pace is not None and pace.falls_behind and bool(lag),
        story_of(events),
        await plotted_of(node, viewer, query, of_group(name), kept or node.lags.seen(look)),
    )


def _seen(viewer: Viewer, assigned: tuple[str, ...]) -> tuple[str, ...]:
    """The tasks, and the partitions of topics that the viewer may see."""
    return tuple(
        each for each in assigned if each.startswith(stuck.TASK) or viewer.may_see_topic(each.rpartition("-")[0])
    )


def _find(node: NodeParts, viewer: Viewer, name: str) -> tuple[GroupCoordinator, Group]:
    viewer.must(AclOperation.DESCRIBE, ResourceType.GROUP, name)
    for shard in list(node.broker.groups.shards.values()):
        machine = shard.machine
        if shard.journal.is_open and isinstance(machine, GroupCoordinator) and name in machine.shard.groups:
            return machine, machine.shard.groups[name]
    refuse(error_codes.GROUP_ID_NOT_FOUND, f"group {name[:249]!r} on this node", "this node coordinates no such group")
    raise AssertionError


async def _facts(
    node: NodeParts,
    viewer: Viewer,
    state: str,
    rows: tuple[tuple[MemberRow, ...], tuple[PositionRow, ...]],
    events: Sequence[stories.Event],
) -> stuck.ReadingFacts:
    members, positions = rows
    pins: dict[tuple[str, int], stuck.OpenTransaction] = {}
    async for each in paced(positions):
        spot = each.topic, each.partition
        leader = leader_of(node, *spot)
        if leader is not None:
            pins.update((spot, pin) for pin in _open_transactions(node, viewer, leader))
    moved_ms = max((each.commit_ms or 0 for each in positions), default=0)
    lost = sum(event.what in REMOVED and event.timestamp_ms > moved_ms for event in events)
    return stuck.ReadingFacts(
        state,
        members,
        positions,
        pins,
        lost,
        node.broker.scheduler.now_ms(),
        max((event.timestamp_ms for event in events if event.what in ASSIGNED), default=None),
        reads_elsewhere=node.broker.config["replica.selector.class"] == RACK_AWARE,
    )
