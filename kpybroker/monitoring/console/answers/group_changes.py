"""Changes of one group that this node coordinates: its members are removed, its positions in a topic deleted, or the
group itself. Each is a request of the viewer, as Kafka's Admin sends it."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from kpybroker.machines.console.content import visible
from kpybroker.monitoring.console.answers.examined import coordinated_here
from kpybroker.monitoring.console.answers.group import group_here
from kpybroker.monitoring.console.answers.group_elsewhere import path_of
from kpybroker.monitoring.console.answers.topics import known_topic
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.query import Query, bad
from kpybroker.monitoring.console.viewer import Viewer
from kpywire import error_codes
from kpywire.messages.delete_groups import DeleteGroupsRequest
from kpywire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kpywire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic

log = logging.getLogger("kpybroker.console")

REASON: Final = "removed in the console"
MOST_NAMED: Final = 3
"""The parts of a change that its line in the log or the page names."""


async def remove_members(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Remove a member of a group, or all of them. Returns the page of the group. Raises Refused."""
    name, member_id = query.needed("id"), query.text("member")
    found = await group_here(node, viewer, name)
    members = [
        MemberIdentity(member_id=each.member_id, group_instance_id=each.instance_id, reason=REASON)
        for each in found.group.membership.member_facts()
        if not member_id or each.member_id == member_id
    ]
    if not members:
        refuse(error_codes.UNKNOWN_MEMBER_ID, f"group {name[:249]}")
    answer = await node.ask(viewer, LeaveGroupRequest(group_id=name, members=members))
    refuse(answer.error_code, f"group {name[:249]}")
    settle(viewer, f"removed members of group {name!a}", {each.member_id: each.error_code for each in answer.members})
    return page_of_group(node, name)


async def delete(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Delete a group without members, and its positions. Returns the list of groups. Raises Refused."""
    name = query.needed("id")
    if query.text("typed") not in (name, visible(name)):
        raise bad(f"nothing is deleted: type the id of the group, {visible(name[:249])}, to confirm")
    await group_here(node, viewer, name)
    answer: Any = await node.ask(viewer, DeleteGroupsRequest(groups_names=[name]))
    (result,) = answer.results
    refuse(result.error_code, f"group {name[:249]}", result.error_message)
    log.info("%s deleted group %a", viewer.identity, name)
    node.overviews.forget()
    return "/groups"


async def delete_positions(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Delete the positions of a group in a topic. Returns the page of the group. Raises Refused."""
    name = query.needed("id")
    found = await group_here(node, viewer, name)
    topic = query.needed("topic")
    known_topic(node, viewer, topic)
    indexes = sorted(found.group.offsets.get(topic, ()))
    if not indexes:
        raise bad(f"group {visible(name[:249])} has no position in {topic[:249]}")
    spots = [OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
    request = OffsetDeleteRequest(group_id=name, topics=[OffsetDeleteRequestTopic(name=topic, partitions=spots)])
    answer = await node.ask(viewer, request)
    refuse(answer.error_code, f"group {name[:249]}")
    codes = {f"{topic}-{each.partition_index}": each.error_code for found in answer.topics for each in found.partitions}
    settle(viewer, f"deleted positions of group {name!a}", codes)
    return page_of_group(node, name)


def settle(viewer: Viewer, change: str, codes: Mapping[str, int]) -> None:
    """Log the parts of a change that were made, and raise Refused for the first that was refused."""
    made = [part for part, code in codes.items() if not code]
    if made:
        named = visible(", ".join(made[:MOST_NAMED]))
        more = f" and {len(made) - MOST_NAMED} more" if len(made) > MOST_NAMED else ""
        log.info("%s %s: %s%s", viewer.identity, change, named.replace("\n", "<U+000A>"), more)
    for part, code in codes.items():
        refuse(code, visible(part[:249]))


def page_of_group(node: NodeParts, name: str) -> str:
    """The page of a group that was changed; the list if it is gone with its last position."""
    node.overviews.forget()
    is_here = any(each.group.group_id == name for each in coordinated_here(node))
    return path_of(name) if is_here else "/groups"
