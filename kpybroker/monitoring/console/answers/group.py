"""One group."""

from collections.abc import Sequence
from functools import partial
from itertools import chain

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.console.group_story import story_of
from kpybroker.machines.console.groups import MEMBER_KEYS, POSITION_KEYS, SHARE_KEYS, GroupPage, PositionRow
from kpybroker.machines.console.listing import sorted_rows
from kpybroker.machines.console.standing import falls_behind, trend_of
from kpybroker.machines.groups.share.share_group import SHARE
from kpybroker.machines.groups.streams.streams_group import STREAMS
from kpybroker.monitoring.console.answers.examined import (
    Coordinated,
    ExaminedGroup,
    GroupSources,
    coordinated_here,
    examined,
    seen_by,
)
from kpybroker.monitoring.console.answers.group_elsewhere import coordinator_of, group_elsewhere, path_of
from kpybroker.monitoring.console.answers.kinds import dead_letters_row, shares_led
from kpybroker.monitoring.console.answers.lag_times import (
    LagInTime,
    lag_in_time,
    lag_times,
    positions_of_share,
    silence,
    with_times,
)
from kpybroker.monitoring.console.answers.log_offsets import ends_led_elsewhere
from kpybroker.monitoring.console.answers.members import members_of
from kpybroker.monitoring.console.answers.positions import (
    MOST_POSITIONS,
    Fetches,
    PositionSources,
    assigned_in,
    committed_spots,
    watched_spots,
)
from kpybroker.monitoring.console.answers.share_positions import share_positions
from kpybroker.monitoring.console.answers.topologies import NO_TOPOLOGY, shown_topology
from kpybroker.monitoring.console.asking import OtherNodeNeeded
from kpybroker.monitoring.console.history import of_group, plotted_of
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import sorted_in_pieces
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.readers import gathered
from kpybroker.monitoring.console.viewer import Viewer


async def group(node: NodeParts, viewer: Viewer, query: Query) -> GroupPage:
    """One group: as its coordinator knows it, or as another node can ask about it. Raises Refused."""
    name, sort = query.needed("id"), query.text("sort")
    viewer.must(AclOperation.DESCRIBE, ResourceType.GROUP, name)
    found = _coordinated(node, name)
    if found is None:
        return await group_elsewhere(node, viewer, query)
    readers = await gathered(node)
    spots = chain(committed_spots(found.group), assigned_in(members_of(node, found.group)))
    ends, silent = await ends_led_elsewhere(node, viewer, spots, MOST_POSITIONS)
    of_positions = PositionSources(seen_by(viewer), await Fetches.of(node, readers), ends)
    key = name, str(viewer.principal)
    seen = await examined(
        node,
        viewer,
        found,
        GroupSources(of_positions, await shares_led(node)),
        lambda lag, rows: node.lags.look(key, (lag.records, None), watched_spots(rows)),
    )
    positions, late, untold = await _timed(node, viewer, name, seen)
    node.lags.add_seconds(key, late.longest_s)
    of_members = found.group.membership.facts()
    topology = await shown_topology(node, viewer, name) if seen.kind == STREAMS else NO_TOPOLOGY
    led_elsewhere = [each for each in positions if each.start_offset is None]
    is_kept = not seen.positions.hidden and (not positions or len(led_elsewhere) < len(positions))
    kept = node.lags.kept(name) if is_kept else None
    pace, lag = seen.watched.pace, seen.lag.records
    return GroupPage(
        id=name,
        type=seen.kind,
        state=of_members.state,
        protocol=of_members.protocol_name,
        generation=of_members.generation,
        node=node.broker.node_id,
        is_here=True,
        console=None,
        verdict=seen.verdict.line,
        verdict_at=seen.verdict.at,
        is_stuck=seen.verdict.is_stuck,
        members=tuple(sorted_rows(seen.members, MEMBER_KEYS, sort)),
        positions=tuple(await sorted_in_pieces(positions, POSITION_KEYS, sort)),
        positions_left_out=seen.positions.left_out,
        committed_topics=tuple(sorted({each.topic for each in positions if each.committed is not None})),
        shares=tuple(sorted_rows(seen.shares, SHARE_KEYS, sort)),
        topology=topology.nodes,
        topology_absence=topology.absence,
        topology_left_out=topology.left_out,
        dead_letters=await dead_letters_row(node, viewer, name) if seen.kind == SHARE else None,
        lag=lag,
        unknown=seen.lag.unknown,
        lag_s=late.longest_s,
        untimed=late.untimed,
        silent_nodes=silence(silent, untold),
        read_per_s=None if pace is None else round(pace.read_per_s, 3),
        written_per_s=None if pace is None else round(pace.written_per_s, 3),
        falls_behind=falls_behind(pace, lag),
        trend=trend_of(pace, lag).line,
        may_reset=node.is_writable and viewer.may(AclOperation.READ, ResourceType.GROUP, name),
        may_delete=node.is_writable and viewer.may(AclOperation.DELETE, ResourceType.GROUP, name),
        story=story_of(seen.events),
        history=await plotted_of(node, viewer, query, of_group(name), kept or node.lags.seen(key)),
        unplotted=0 if kept is None else sum([each.lag is not None for each in led_elsewhere]),
    )


async def _timed(
    node: NodeParts, viewer: Viewer, name: str, seen: ExaminedGroup
) -> tuple[Sequence[PositionRow], LagInTime, tuple[str, ...]]:
    """The positions of a group with their lag in time, that of the group, and a line for each leader that does not tell
    it. A share group shows its locks in place of positions."""
    rows: Sequence[PositionRow] = seen.positions.rows
    if seen.kind == SHARE:
        shared = await share_positions(partial(node.ask, viewer), [name])
        rows = await positions_of_share(node, shared[name]) if name in shared else ()
    times = await lag_times(node, viewer, rows)
    late = await lag_in_time(node, name, rows, times.known)
    return await with_times(rows, late) if seen.kind != SHARE else (), late, times.silent


def _coordinated(node: NodeParts, name: str) -> Coordinated | None:
    return next((found for found in coordinated_here(node) if found.group.group_id == name), None)


async def group_here(node: NodeParts, viewer: Viewer, name: str) -> Coordinated:
    """A group that the viewer may see and this node coordinates. Raises Refused, which names another node that does."""
    viewer.must(AclOperation.DESCRIBE, ResourceType.GROUP, name)
    found = _coordinated(node, name)
    if found is None:
        other = await coordinator_of(node, viewer, name)
        line = f"node {other} coordinates it; change it on the console of node {other}"
        raise OtherNodeNeeded(f"group {name[:249]!r}: NOT_COORDINATOR: {line}", other, path_of(name))
    return found
