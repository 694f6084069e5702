"""All groups of the cluster with their standing, as one viewer may see them. Each is examined to sort the worst."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from kpybroker.machines.console import stuck
from kpybroker.machines.console.groups import GroupRow, PositionRow
from kpybroker.machines.console.standing import NO_TREND, in_short, standing_of, trend_of
from kpybroker.machines.groups.share.share_group import SHARE
from kpybroker.monitoring.console.answers.examined import (
    Coordinated,
    ExaminedGroup,
    GroupSources,
    coordinated_here,
    examined,
    seen_by,
)
from kpybroker.monitoring.console.answers.groups_elsewhere import (
    GroupElsewhere,
    groups_elsewhere,
    has_members,
    names_in,
)
from kpybroker.monitoring.console.answers.kinds import shares_led
from kpybroker.monitoring.console.answers.lag_times import positions_of_share
from kpybroker.monitoring.console.answers.log_offsets import ends_led_elsewhere
from kpybroker.monitoring.console.answers.members import members_of
from kpybroker.monitoring.console.answers.positions import (
    Fetches,
    PositionSources,
    Total,
    assigned_in,
    committed_spots,
    leader_of,
    records_left,
    spots_in,
    total_of,
    watched_spots,
)
from kpybroker.monitoring.console.answers.share_positions import SharePositions, share_positions
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.lag_history import GroupKey, WatchedGroup
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.overviews import Overview, viewer_key
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.readers import gathered
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.metrics.readers import names_of
from kpywire.messages.list_groups import ListedGroup, ListGroupsRequest

MOST_ENDS: Final = 2_000
"""The partitions of other leaders whose ends are asked for."""
MOST_TOPICS: Final = 3
MOST_SHARING: Final = 200
"""The share groups of this node whose positions are asked for."""


async def overview(node: NodeParts, viewer: Viewer) -> Overview:
    """All groups that a viewer may see. Raises Refused."""
    key = viewer_key(viewer)
    return await node.overviews.of(key, lambda: _made(node, viewer, key))


async def _made(node: NodeParts, viewer: Viewer, key: str) -> Overview:
    """Examine all groups. Raises Refused."""
    answer = await node.ask(viewer, ListGroupsRequest(states_filter=[], types_filter=[]))
    refuse(answer.error_code, "the groups of this node")
    listed: dict[str, ListedGroup] = {each.group_id: each for each in answer.groups}
    away = await groups_elsewhere(node, viewer)
    others = {name: each for of_node in away for name, each in of_node.groups.items() if name not in listed}
    here: dict[str, Coordinated] = {}
    in_groups = {*listed, *names_in(others.values())}
    async for found in paced(coordinated_here(node)):
        in_groups |= names_of(found.group)
        here[found.group.group_id] = found
    readers = await gathered(node)
    ends, silent = await ends_led_elsewhere(node, viewer, _spots(node, here, others), MOST_ENDS)
    may_see = seen_by(viewer)
    sources = GroupSources(PositionSources(may_see, await Fetches.of(node, readers), ends), await shares_led(node))
    sharing = [name for name, each in listed.items() if each.group_type == SHARE][:MOST_SHARING]
    shared = await share_positions(partial(node.ask, viewer), sharing)
    rows: list[GroupRow] = []
    positions: dict[str, Sequence[PositionRow]] = {}
    async for name in paced(listed):
        found_here = here.get(name)
        if found_here is None:
            rows.append(_unknown_row(listed[name], node.broker.node_id))
            continue
        group = await examined(
            node,
            viewer,
            found_here,
            sources,
            partial(_watched, node, (name, key)),
        )
        rows.append(_row(listed[name], group, node.broker.node_id, shared.get(name)))
        is_shared = name in shared
        positions[name] = await positions_of_share(node, shared[name]) if is_shared else group.positions.rows
    async for other in paced(list(others.values())):
        seen = await positions_elsewhere(node, other, ends, may_see)
        watched = _watched(node, (other.listed.group_id, key), total_of([each.lag for each in seen]), seen)
        rows.append(_row_elsewhere(other, seen, watched))
        positions[other.listed.group_id] = seen
    absences = tuple(each.absence for each in away if each.absence)
    return Overview(tuple(rows), positions, absences, silent, readers, in_groups)


def _watched(node: NodeParts, key: GroupKey, lag: Total, rows: Sequence[PositionRow]) -> WatchedGroup:
    return node.overviews.paces.look(key, (lag.records, None), watched_spots(rows))


def _spots(
    node: NodeParts, here: Mapping[str, Coordinated], others: Mapping[str, GroupElsewhere]
) -> Iterator[tuple[str, int]]:
    """The partitions that groups have positions in, then those that their members have."""
    for found in here.values():
        yield from committed_spots(found.group)
    for other in others.values():
        yield from other.positions
    for found in here.values():
        if found.group.membership.keeps_offsets:
            yield from assigned_in(members_of(node, found.group))
    for other in others.values():
        yield from assigned_in(other.members)


def _row(listed: ListedGroup, group: ExaminedGroup, node_id: int, shared: SharePositions | None) -> GroupRow:
    """The row of a group that this node coordinates. ``shared``: all positions of a share group, where they are known;
    its locks are those of the partitions that this node leads."""
    pace, lag, verdict = group.watched.pace, group.lag, group.verdict
    topics = {each.topic for each in group.positions.rows} | {each.topic for each in group.shares}
    if shared is not None and shared.starts:
        topics = {topic for topic, _ in shared.starts}
        lag = Total(sum(shared.left.values()), len(shared.starts) - len(shared.left))
        if lag.records and not group.members:
            verdict = stuck.stuck_by(stuck.without_readers(lag.records))
    return _filled(listed, (node_id, len(group.members)), lag, topics, verdict, pace)


async def positions_elsewhere(
    node: NodeParts,
    group: GroupElsewhere,
    ends: Mapping[tuple[str, int], int],
    may_see: Callable[[str], bool],
) -> list[PositionRow]:
    """The positions of a group that another node coordinates, in topics that the viewer may see: its commits, then
    those of its members without one. An assignment names topics to everybody that may describe the group."""
    owners = {spot: each.client_id for each in group.members for spot in spots_in(each.assigned) if may_see(spot[0])}
    rows: list[PositionRow] = []
    async for spot in paced(sorted(group.positions.keys() | owners.keys())):
        offset, leader = group.positions.get(spot), leader_of(node, *spot)
        end = ends.get(spot) if leader is None else leader.high_watermark.offset
        start = None if leader is None else leader.log.log_start_offset
        left = group.left.get(spot, records_left(offset, start, end))
        rows.append(PositionRow(*spot, offset, None, "", end, None, left, None, owners.get(spot), None, None, start))
    return rows


def _row_elsewhere(group: GroupElsewhere, rows: Sequence[PositionRow], watched: WatchedGroup) -> GroupRow:
    """The row of a group that another node coordinates. Nothing says who fetches for it, or what happened."""
    has_any = has_members(group)
    if not group.is_asked or (has_any and not group.members):
        return _unknown_row(group.listed, group.node)
    total = total_of([each.lag for each in rows])
    verdict = verdict_elsewhere(group, rows, (total, watched))
    topics = {each.topic for each in rows}
    place = group.node, None if has_any is None else len(group.members)
    return _filled(group.listed, place, total, topics, verdict, watched.pace, is_here=False)


def verdict_elsewhere(
    group: GroupElsewhere, rows: Sequence[PositionRow], known: tuple[Total, WatchedGroup]
) -> stuck.GroupVerdict:
    """The verdict on a group that another node coordinates."""
    total, watched = known
    if group.listed.group_type == SHARE:
        left = total.records or 0
        if not group.members and left:
            return stuck.stuck_by(stuck.without_readers(left))
        return stuck.not_stuck(f"Node {group.node} knows more.")
    facts = stuck.ReadingFacts(
        group.listed.group_state, group.members, rows, {}, 0, 0, pace=watched.pace, reads_elsewhere=True
    )
    return stuck.verdict_on(facts)


def _filled(
    listed: ListedGroup,
    place: tuple[int, int | None],
    lag: Total,
    topics: Collection[str],
    verdict: stuck.GroupVerdict,
    pace: stuck.ReadingPace | None,
    *,
    is_here: bool = True,
) -> GroupRow:
    records, unknown = lag
    trend = NO_TREND if records is None else trend_of(pace, records)
    return GroupRow(
        listed.group_id,
        listed.group_type,
        listed.group_state,
        standing_of(verdict, pace, records, unknown),
        in_short(verdict, pace, records),
        records,
        unknown,
        None,
        0,
        *trend,
        tuple(sorted(topics)[:MOST_TOPICS]),
        max(0, len(topics) - MOST_TOPICS),
        place[1],
        place[0],
        is_here,
    )


def _unknown_row(listed: ListedGroup, node_id: int) -> GroupRow:
    """The row of a group of which only the name is known."""
    verdict = stuck.not_stuck(f"Node {node_id} knows more.")
    return _filled(listed, (node_id, None), Total(None, 0), (), verdict, None, is_here=False)
