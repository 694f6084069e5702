"""Offsets and groups that were carried over, and that were deleted at the source: they are deleted here, too.

A group with members here is left alone: its coordinator refuses. A group is deleted as a whole once it has no offsets
left, since those in other topics of this cluster are its own.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kpybroker.client.group_requests import WITH_NAMES
from kpybroker.hosts.mirror.parts import MirrorParts
from kpybroker.hosts.network.peer import NoResponse
from kpybroker.machines.mirror.group_offsets import GroupRemoval
from kpywire import error_codes
from kpywire.messages.delete_groups import DeleteGroupsRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kpywire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

log = logging.getLogger("kpybroker.mirror")

GROUP: Final = 0
GONE: Final = frozenset({error_codes.NONE, error_codes.GROUP_ID_NOT_FOUND})
Removed = Callable[[str, GroupRemoval], object]


class GroupRemovals:
    """The removals of one mirror. ``removed`` is called with each whose offsets are gone here."""

    def __init__(self, parts: MirrorParts, removed: Removed) -> None:
        self._parts = parts
        self._removed = removed

    def begin(self, due: Mapping[str, GroupRemoval]) -> None:
        """Ask the coordinators for these removals. Those that are refused are found again at the next look."""
        if due:
            request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=list(due))
            self._parts.nodes.send(self._parts.node_id, request, partial(self._coordinators, due))

    def _coordinators(self, due: Mapping[str, GroupRemoval], response: Any) -> None:
        if isinstance(response, NoResponse):
            return
        for each in response.coordinators:
            if each.error_code == error_codes.NONE:
                removal = due[each.key]
                answered = partial(self._deleted, each.node_id, each.key, removal)
                self._parts.nodes.send(each.node_id, _deletion(each.key, removal), answered)

    def _deleted(self, node_id: int, group: str, removal: GroupRemoval, response: Any) -> None:
        if isinstance(response, NoResponse):
            return
        codes = [response.error_code, *(each.error_code for topic in response.topics for each in topic.partitions)]
        refused = next((code for code in codes if code not in GONE), None)
        if refused is not None:
            name = error_codes.name(refused)
            log.debug("Offsets of group %s stay, though they were deleted at the source: %s", group, name)
            return
        self._removed(group, removal)
        if removal.is_whole:
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
            self._parts.nodes.send(node_id, request, partial(self._left, node_id, group), newest=WITH_NAMES)

    def _left(self, node_id: int, group: str, response: Any) -> None:
        if isinstance(response, NoResponse):
            return
        (found,) = response.groups
        if found.error_code == error_codes.NONE and not any(topic.partitions for topic in found.topics):
            log.info("Group %s is deleted, as at the source", group)
            self._parts.nodes.send(node_id, DeleteGroupsRequest(groups_names=[group]), lambda _response: None)


def _deletion(group: str, removal: GroupRemoval) -> OffsetDeleteRequest:
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for name, index in sorted(removal.spots):
        topic = topics.setdefault(name, OffsetDeleteRequestTopic(name=name, partitions=[]))
        topic.partitions.append(OffsetDeleteRequestPartition(partition_index=index))
    return OffsetDeleteRequest(group_id=group, topics=list(topics.values()))
