"""The groups that other nodes coordinate, asked of them as a client asks: with the viewer's own login, in a bounded
number of requests. Their members and positions are known so, not who fetches and what happened."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from kpybroker.client.consumer_protocol import assigned_spots
from kpybroker.machines.console.groups import MemberRow
from kpybroker.machines.console.stuck import TASK
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.groups.share.share_group import SHARE
from kpybroker.monitoring.console.answers.share_positions import PER_REQUEST, share_positions
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.readers import EMPTY, describing
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.metrics.readers import name_of
from kpywire.messages.list_groups import ListedGroup, ListGroupsRequest
from kpywire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

MOST_ASKED: Final = 200
"""The groups of one node that are asked for more than their names."""

Spot = tuple[str, int]


class GroupElsewhere(NamedTuple):
    """A group of another node. ``positions`` are its commits, or the first offsets that a share group is not done
    with; ``left`` are the records that a share group has left in each partition."""

    listed: ListedGroup
    node: int
    members: list[MemberRow]
    positions: dict[Spot, int]
    left: dict[Spot, int]
    is_asked: bool


class GroupsOfNode(NamedTuple):
    """The groups of another node, by id, and the reason why they are missing."""

    groups: dict[str, GroupElsewhere]
    absence: str = ""


async def groups_elsewhere(node: NodeParts, viewer: Viewer) -> list[GroupsOfNode]:
    """The groups of all other nodes that are alive. The nodes are asked at the same time."""
    others = sorted(node.broker.alive_brokers - {node.broker.node_id})
    return list(await asyncio.gather(*(groups_of_node(node, viewer, other) for other in others)))


def names_in(found: Iterable[GroupElsewhere]) -> set[str]:
    """The names of these groups and of their members."""
    return {
        name for each in found for name in (each.listed.group_id, *(name_of(one.client_id) for one in each.members))
    }


async def groups_of_node(node: NodeParts, viewer: Viewer, other: int) -> GroupsOfNode:
    """The groups of one other node."""
    try:
        answer = await node.elsewhere.ask(viewer, other, ListGroupsRequest(states_filter=[], types_filter=[]))
    except KafkaError as error:
        return GroupsOfNode({}, f"node {other}: {error.message or error}")
    asked = {each.group_id for each in answer.groups[:MOST_ASKED]}
    found = {
        each.group_id: GroupElsewhere(each, other, [], {}, {}, each.group_id in asked)
        async for each in paced(answer.groups)
    }
    try:
        for start in range(0, len(asked), PER_REQUEST):
            await ask_more(node, viewer, other, answer.groups[:MOST_ASKED][start : start + PER_REQUEST], found)
    except KafkaError as error:
        return GroupsOfNode(found, f"node {other}: {error.message or error}")
    return GroupsOfNode(found)


async def ask_more(
    node: NodeParts, viewer: Viewer, other: int, some: Sequence[ListedGroup], found: dict[str, GroupElsewhere]
) -> None:
    """Ask for the members and positions of some groups."""
    for request in describing(some):
        described: Sequence[Any] = (await node.elsewhere.ask(viewer, other, request)).groups
        async for each in paced(described):
            if each.group_id in found:
                found[each.group_id].members.extend(map(_member, each.members))
    sharing = [each.group_id for each in some if each.group_type == SHARE]
    reading = [each.group_id for each in some if each.group_type != SHARE]
    if reading:
        wanted = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in reading]
        answer = await node.elsewhere.ask(viewer, other, OffsetFetchRequest(groups=wanted, require_stable=False))
        async for each in paced(answer.groups):
            if each.group_id in found:
                _add_commits(node, found[each.group_id], each)
    for name, each in (await share_positions(partial(node.elsewhere.ask, viewer, other), sharing)).items():
        if name in found:
            found[name].positions.update(each.starts)
            found[name].left.update(each.left)


def _add_commits(node: NodeParts, group: GroupElsewhere, answer: Any) -> None:
    topics = node.broker.image.topics_by_id
    for topic in answer.topics:
        name = topic.name or (topics[topic.topic_id].name if topic.topic_id in topics else "")
        for each in topic.partitions:
            if name and not each.error_code and each.committed_offset >= 0:
                group.positions[name, each.partition_index] = each.committed_offset


def _member(found: Any) -> MemberRow:
    """A member as any of the four requests describes it."""
    assigned: tuple[str, ...] = ()
    if hasattr(found, "member_assignment"):
        assigned = tuple(map(str, assigned_spots(found.member_assignment) or ()))
    elif hasattr(found.assignment, "topic_partitions"):
        topics = found.assignment.topic_partitions
        assigned = tuple(f"{each.topic_name}-{index}" for each in topics for index in each.partitions)
    else:
        tasks = found.assignment.active_tasks
        assigned = tuple(f"{TASK}{each.subtopology_id}_{index}" for each in tasks for index in each.partitions)
    instance = getattr(found, "group_instance_id", None) or getattr(found, "instance_id", None)
    host = found.client_host.removeprefix("/")
    return MemberRow(found.member_id, instance, found.client_id, host, assigned, "")


def has_members(group: GroupElsewhere) -> bool | None:
    """Whether it has members; None where that was not asked."""
    return False if group.listed.group_state in EMPTY else bool(group.members) if group.is_asked else None
