"""One group that another node coordinates: what that node tells any client, and the link to its console."""

from dataclasses import replace
from itertools import chain
from typing import Final

from kpybroker.machines.console.groups import MEMBER_KEYS, POSITION_KEYS, GroupPage
from kpybroker.machines.console.listing import sorted_rows
from kpybroker.machines.console.standing import falls_behind, trend_of
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic_name import GROUP_OFFSETS_TOPIC
from kpybroker.monitoring.console.answers.examined import seen_by, visible_parts
from kpybroker.monitoring.console.answers.groups_elsewhere import GroupElsewhere, ask_more
from kpybroker.monitoring.console.answers.lag_times import lag_in_time, lag_times, silence, with_times
from kpybroker.monitoring.console.answers.log_offsets import ends_led_elsewhere
from kpybroker.monitoring.console.answers.overview import positions_elsewhere, verdict_elsewhere
from kpybroker.monitoring.console.answers.peers import consoles_of
from kpybroker.monitoring.console.answers.positions import MOST_POSITIONS, assigned_in, total_of, watched_spots
from kpybroker.monitoring.console.asking import OtherNodeNeeded, refuse, refused_by_kafka
from kpybroker.monitoring.console.history import of_group, plotted_of
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import sorted_in_pieces
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.rendering import quoted
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.http.request import HttpRefused
from kpywire import error_codes
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.list_groups import ListGroupsRequest

GROUP: Final = 0
"""The key type of groups."""


async def group_elsewhere(node: NodeParts, viewer: Viewer, query: Query) -> GroupPage:
    """A group that the viewer may describe and this node does not coordinate. Raises Refused."""
    name, sort = query.needed("id"), query.text("sort")
    other = await coordinator_of(node, viewer, name)
    group = await _asked(node, viewer, other, name)
    may_see = seen_by(viewer)
    spots = chain(group.positions, assigned_in(group.members))
    ends, silent = await ends_led_elsewhere(node, viewer, spots, MOST_POSITIONS)
    found = await positions_elsewhere(node, group, ends, may_see)
    rows = found[:MOST_POSITIONS]
    lag = total_of([each.lag for each in rows])
    key = name, str(viewer.principal)
    watched = node.lags.look(key, (lag.records, None), watched_spots(rows))
    verdict = verdict_elsewhere(group, rows, (lag, watched))
    times = await lag_times(node, viewer, rows)
    late = await lag_in_time(node, name, rows, times.known)
    node.lags.add_seconds(key, late.longest_s)
    members = [replace(each, assigned=visible_parts(may_see, each.assigned)) for each in group.members]
    pace = watched.pace
    return GroupPage(
        id=name,
        type=group.listed.group_type,
        state=group.listed.group_state,
        protocol="",
        generation=None,
        node=other,
        is_here=False,
        console=(await consoles_of(node, viewer, {other})).get(other),
        verdict=verdict.line,
        verdict_at=verdict.at,
        is_stuck=verdict.is_stuck,
        members=tuple(sorted_rows(members, MEMBER_KEYS, sort)),
        positions=tuple(await sorted_in_pieces(await with_times(rows, late), POSITION_KEYS, sort)),
        positions_left_out=len(found) - len(rows),
        committed_topics=(),
        shares=(),
        topology=(),
        topology_absence=f"node {other} shows it",
        topology_left_out=0,
        dead_letters=None,
        lag=lag.records,
        unknown=lag.unknown,
        lag_s=late.longest_s,
        untimed=late.untimed,
        silent_nodes=silence(silent, times.silent),
        read_per_s=None if pace is None else round(pace.read_per_s, 3),
        written_per_s=None if pace is None else round(pace.written_per_s, 3),
        falls_behind=falls_behind(pace, lag.records),
        trend=trend_of(pace, lag.records).line,
        may_reset=False,
        may_delete=False,
        story=(),
        history=await plotted_of(node, viewer, query, of_group(name), node.lags.seen(key)),
        unplotted=0,
    )


def path_of(name: str) -> str:
    """The page of a group."""
    return f"/group?id={quoted(name)}"


def unknown_group(name: str) -> HttpRefused:
    """The refusal where this node would coordinate a group, and has none of this name."""
    what = f"group {name[:249]!r} on this node"
    return refused_by_kafka(error_codes.GROUP_ID_NOT_FOUND, what, "this node coordinates no such group")


async def coordinator_of(node: NodeParts, viewer: Viewer, name: str) -> int:
    """The other node that coordinates a group. Raises Refused if it is this one."""
    if GROUP_OFFSETS_TOPIC not in node.broker.image.topics:  # the request would create it
        raise unknown_group(name)
    answer = await node.ask(viewer, FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[name]))
    (found,) = answer.coordinators
    refuse(found.error_code, f"the coordinator of group {name[:249]!r}", found.error_message)
    other: int = found.node_id
    if other == node.broker.node_id:
        raise unknown_group(name)
    return other


async def _asked(node: NodeParts, viewer: Viewer, other: int, name: str) -> GroupElsewhere:
    """The group as its coordinator describes it. Raises Refused."""
    try:
        listed = await node.elsewhere.ask(viewer, other, ListGroupsRequest(states_filter=[], types_filter=[]))
        found = {
            each.group_id: GroupElsewhere(each, other, [], {}, {}, is_asked=True)
            for each in listed.groups
            if each.group_id == name
        }
        if name not in found:
            refuse(
                error_codes.GROUP_ID_NOT_FOUND, f"group {name[:249]!r} on node {other}", "it coordinates no such group"
            )
        await ask_more(node, viewer, other, [found[name].listed], found)
    except KafkaError as error:
        line = f"node {other} coordinates this group and cannot be asked: {error.message or error}"
        raise OtherNodeNeeded(line, other, path_of(name)) from None
    return found[name]
