"""One group that this node coordinates."""

from kpybroker.client.client import LATEST_TIMESTAMP, Spot
from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.console.group_story import story_of
from kpybroker.machines.console.groups import MEMBER_KEYS, POSITION_KEYS, SHARE_KEYS, GroupPage
from kpybroker.machines.console.listing import sorted_rows
from kpybroker.machines.console.standing import keeps_up, trend_of
from kpybroker.machines.groups.share.share_group import SHARE
from kpybroker.machines.groups.streams.streams_group import STREAMS
from kpybroker.monitoring.console.answers.examined import (
    Coordinated,
    GroupSources,
    coordinated_here,
    examined,
    seen_by,
)
from kpybroker.monitoring.console.answers.kinds import dead_letters_row, shares_led
from kpybroker.monitoring.console.answers.log_offsets import leader_id, offsets_at
from kpybroker.monitoring.console.answers.positions import (
    MOST_POSITIONS,
    Fetches,
    PositionSources,
    watched_spots,
    with_times,
)
from kpybroker.monitoring.console.answers.topologies import NO_TOPOLOGY, shown_topology
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.history import of_group, plotted_of
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import sorted_in_pieces
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.readers import gathered
from kpybroker.monitoring.console.viewer import Viewer
from kpywire import error_codes


async def group(node: NodeParts, viewer: Viewer, query: Query) -> GroupPage:
    """One group, at its coordinator. Raises Refused."""
    name, sort = query.needed("id"), query.text("sort")
    found = group_here(node, viewer, name)
    readers = await gathered(node)
    ends = await _ends(node, viewer, found)
    of_positions = PositionSources(seen_by(viewer), await Fetches.of(node, readers), ends)
    key = name, str(viewer.principal)
    seen = await examined(
        node,
        viewer,
        found,
        GroupSources(of_positions, await shares_led(node)),
        lambda lag, rows: node.lags.look(key, (lag.records, None), watched_spots(rows)),
    )
    positions = await with_times(node, name, seen.positions.rows)
    lag_s = max((each.lag_s for each in positions if each.lag_s is not None), default=None)
    node.lags.add_seconds(key, lag_s)
    of_members = found.group.membership.facts()
    topology = await shown_topology(node, viewer, name) if seen.kind == STREAMS else NO_TOPOLOGY
    kept = None if seen.positions.hidden else node.lags.kept(name)
    pace, lag = seen.watched.pace, seen.lag.records
    return GroupPage(
        name,
        seen.kind,
        of_members.state,
        of_members.protocol_name,
        of_members.generation,
        node.broker.node_id,
        seen.verdict.line,
        seen.verdict.at,
        seen.verdict.is_stuck,
        tuple(sorted_rows(seen.members, MEMBER_KEYS, sort)),
        tuple(await sorted_in_pieces(positions, POSITION_KEYS, sort)),
        seen.positions.left_out,
        tuple(sorted({each.topic for each in positions if each.committed is not None})),
        tuple(sorted_rows(seen.shares, SHARE_KEYS, sort)),
        *topology,
        await dead_letters_row(node, viewer, name) if seen.kind == SHARE else None,
        lag,
        seen.lag.unknown,
        lag_s,
        None if pace is None else round(pace.read_per_s, 3),
        None if pace is None else round(pace.written_per_s, 3),
        pace is not None and pace.falls_behind and bool(lag) and not keeps_up(pace, lag),
        trend_of(pace, lag).line,
        node.is_writable and viewer.may(AclOperation.READ, ResourceType.GROUP, name),
        node.is_writable and viewer.may(AclOperation.DELETE, ResourceType.GROUP, name),
        story_of(seen.events),
        await plotted_of(node, viewer, query, of_group(name), kept or node.lags.seen(key)),
    )


async def _ends(node: NodeParts, viewer: Viewer, found: Coordinated) -> dict[tuple[str, int], int]:
    """The ends of the partitions that other nodes lead."""
    here = (-1, node.broker.node_id)
    spots = [
        Spot(topic, index)
        for topic, partitions in found.group.offsets.items()
        for index in partitions
        if leader_id(node, (topic, index)) not in here
    ]
    timestamps = dict.fromkeys(spots[:MOST_POSITIONS], LATEST_TIMESTAMP)
    ends = await offsets_at(node, viewer, timestamps)
    return {(spot.topic, spot.partition): end for spot, end in ends.offsets.items()}


def group_here(node: NodeParts, viewer: Viewer, name: str) -> Coordinated:
    """A group that the viewer may see and this node coordinates. Raises Refused."""
    viewer.must(AclOperation.DESCRIBE, ResourceType.GROUP, name)
    for found in coordinated_here(node):
        if found.group.group_id == name:
            return found
    refuse(error_codes.GROUP_ID_NOT_FOUND, f"group {name[:249]!r} on this node", "this node coordinates no such group")
    raise AssertionError
