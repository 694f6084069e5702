"""A group that this node coordinates, examined: its members, its positions, its locks, and the verdict on it.

The list of groups and the page of one group see the same.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from kpybroker.machines.console import stuck
from kpybroker.machines.console.groups import MemberRow, PositionRow, ShareRow
from kpybroker.machines.groups import stories
from kpybroker.machines.groups.coordinator import GroupCoordinator
from kpybroker.machines.groups.group import Group
from kpybroker.machines.groups.share.share_group import SHARE
from kpybroker.machines.groups.stories import Event
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.monitoring.console.answers.kinds import VERDICTS, SharesLed, share_rows
from kpybroker.monitoring.console.answers.members import members_of, silence_of
from kpybroker.monitoring.console.answers.positions import (
    GroupPositions,
    PositionSources,
    Total,
    leader_of,
    position_rows,
    total_of,
)
from kpybroker.monitoring.console.answers.transactions import transactional_id_of
from kpybroker.monitoring.console.lag_history import WatchedGroup
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import give_way, paced, parts
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.requests.serving.preferred_replica import RACK_AWARE

REMOVED: Final = (stories.SILENT, stories.LATE_JOIN, stories.LATE_SYNC, stories.LATE_REVOKE)
ASSIGNED: Final = (stories.JOINED, stories.GENERATION, stories.ASSIGNED)
OFFSETS_ONLY: Final = "offsets only"


class Coordinated(NamedTuple):
    """A group and its coordinator."""

    coordinator: GroupCoordinator
    group: Group


class GroupSources(NamedTuple):
    """The facts that all groups share: the sources of their positions, and the locks of share groups."""

    positions: PositionSources
    shares: SharesLed


class ExaminedGroup(NamedTuple):
    """The facts about a group, and the verdict on it."""

    kind: str
    members: tuple[MemberRow, ...]
    positions: GroupPositions
    shares: tuple[ShareRow, ...]
    events: Sequence[Event]
    lag: Total
    watched: WatchedGroup
    verdict: stuck.GroupVerdict


Watch = Callable[[Total, Sequence[PositionRow]], WatchedGroup]
"""Notes the lag and the positions of a group. Returns what earlier looks add."""


def coordinated_here(node: NodeParts) -> Iterator[Coordinated]:
    """The loaded groups that this node coordinates."""
    for shard in list(node.broker.groups.shards.values()):
        machine = shard.machine
        if shard.journal.is_open and isinstance(machine, GroupCoordinator):
            for group in list(machine.shard.groups.values()):
                yield Coordinated(machine, group)


async def examined(
    node: NodeParts, viewer: Viewer, found: Coordinated, sources: GroupSources, watch: Watch
) -> ExaminedGroup:
    """Examine a group for a viewer. The lag in time is left out."""
    coordinator, group = found
    may_see = sources.positions.may_see
    of_members = group.membership.facts()
    members: tuple[MemberRow, ...] = ()
    if of_members.members:
        silent = silence_of(coordinator, group, int(node.broker.scheduler.monotonic_ms()))
        members = tuple(
            [
                replace(each, silent_s=silent.get(each.id), assigned=visible_parts(may_see, each.assigned))
                async for each in paced(members_of(node, group))
            ]
        )
    kind = OFFSETS_ONLY if of_members.generation is None else of_members.kind
    positions = await position_rows(node, group, members, sources.positions)
    shares = await share_rows(sources.shares.get(group.group_id, ()), may_see, members) if kind == SHARE else ()
    lag = lag_of(kind, positions, shares)
    watched = watch(lag, positions.rows)
    if watched.pace is None and not positions.hidden:
        watched = watched._replace(pace=node.lags.pace_of(group.group_id))
    events = coordinator.shard.stories.of(group.group_id)
    verdict_of = VERDICTS.get(kind)
    verdict = verdict_of and verdict_of(node, viewer, coordinator.shard, group.membership, members, shares)
    if verdict is None:
        facts = await _facts(node, viewer, of_members.state, (members, positions), events, watched)
        verdict = stuck.verdict_on(facts)
    return ExaminedGroup(kind, members, positions, shares, events, lag, watched, verdict)


def lag_of(kind: str, positions: GroupPositions, shares: Sequence[ShareRow]) -> Total:
    """The lag of a group."""
    if kind == SHARE:
        return Total(sum(each.unread for each in shares) if shares else None, 0)
    known = total_of([each.lag for each in positions.rows])
    return Total(known.records, known.unknown + positions.left_out)


def visible_parts(may_see: Callable[[str], bool], assigned: tuple[str, ...]) -> tuple[str, ...]:
    """The tasks, and the partitions of topics that the viewer may see."""
    return tuple(each for each in assigned if each.startswith(stuck.TASK) or may_see(each.rpartition("-")[0]))


async def _facts(
    node: NodeParts,
    viewer: Viewer,
    state: str,
    rows: tuple[tuple[MemberRow, ...], GroupPositions],
    events: Sequence[Event],
    watched: WatchedGroup,
) -> stuck.ReadingFacts:
    members, positions = rows
    pins: dict[tuple[str, int], stuck.OpenTransaction] = {}
    elsewhere: set[tuple[str, int]] = set()
    moved_ms = 0
    for some in parts(positions.rows):
        await give_way()
        for each in some:
            if each.commit_ms is not None and each.commit_ms > moved_ms:
                moved_ms = each.commit_ms
            if each.start_offset is None:
                elsewhere.add((each.topic, each.partition))
            elif each.stable_offset != each.end_offset:
                leader = leader_of(node, each.topic, each.partition)
                if leader is not None:
                    pins.update(((each.topic, each.partition), pin) for pin in open_transactions(node, viewer, leader))
    lost = sum(event.what in REMOVED and event.timestamp_ms > moved_ms for event in events)
    return stuck.ReadingFacts(
        state,
        members,
        positions.rows,
        pins,
        lost,
        node.broker.scheduler.now_ms(),
        max((event.timestamp_ms for event in events if event.what in ASSIGNED), default=None),
        watched.still_s,
        watched.pace,
        is_partial=bool(positions.left_out or positions.hidden),
        reads_elsewhere=node.broker.config["replica.selector.class"] == RACK_AWARE,
        led_elsewhere=elsewhere,
    )


def open_transactions(node: NodeParts, viewer: Viewer, leader: PartitionLeader) -> Iterator[stuck.OpenTransaction]:
    """The first open transaction in a partition."""
    for producer_id, first_offset, _ in leader.log.producers.open_transactions()[:1]:
        yield stuck.OpenTransaction(producer_id, transactional_id_of(node, viewer, producer_id), first_offset)


def seen_by(viewer: Viewer) -> Callable[[str], bool]:
    """Whether the viewer may see a topic. Each is asked for once."""
    known: dict[str, bool] = {}

    def may_see(topic: str) -> bool:
        if topic not in known:
            known[topic] = viewer.may_see_topic(topic)
        return known[topic]

    return may_see
