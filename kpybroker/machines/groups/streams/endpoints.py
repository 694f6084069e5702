"""The endpoints of members for interactive queries, and the partitions that each has.

(Kafka: ``EndpointToPartitionsManager``.)
"""

from collections.abc import Collection, Mapping

from kpybroker.machines.groups.epochs.refused import RequestRefused
from kpybroker.machines.groups.streams.configured import ConfiguredSubtopology
from kpybroker.machines.groups.streams.member import StreamsMember
from kpybroker.machines.groups.streams.streams_group import StreamsGroup
from kpybroker.machines.groups.streams.tasks import Tasks
from kpybroker.machines.metadata.topic_view import TopicView
from kpywire import error_codes
from kpywire.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    StreamsGroupHeartbeatResponseEndpoint,
    TopicPartition,
)


def endpoints_of(
    group: StreamsGroup, updated: StreamsMember, replaced: StreamsMember | None, topics: TopicView
) -> list[EndpointToPartitions]:
    """The endpoints of all members, with ``updated`` as it is now, in the place of ``replaced``. Raises Refused if the
    topology has no tasks."""
    others = {updated.member_id, updated.member_id if replaced is None else replaced.member_id}
    members = [group.members[each] for each in group.ordered_members() if each not in others]
    found = []
    for member in (*members, updated):
        if member.user_endpoint is None:
            continue
        known = group.endpoint_cache.get(member.member_id)
        if known is None:
            known = group.endpoint_cache[member.member_id] = _endpoint(group, member, topics)
        found.append(known)
    return found


def _endpoint(group: StreamsGroup, member: StreamsMember, topics: TopicView) -> EndpointToPartitions:
    address = member.user_endpoint
    subtopologies = None if group.configured is None else group.configured.subtopologies
    if subtopologies is None or address is None:
        raise RequestRefused(error_codes.UNKNOWN_SERVER_ERROR, "No value present")
    return EndpointToPartitions(
        user_endpoint=StreamsGroupHeartbeatResponseEndpoint(host=address.host, port=address.port),
        active_partitions=_partitions(member.assigned.active, subtopologies, topics),
        standby_partitions=_partitions(_both(member.assigned.standby, member.assigned.warmup), subtopologies, topics),
    )


def _both(standby: Tasks, warmup: Tasks) -> Tasks:
    if not warmup:
        return standby
    return {name: standby.get(name, frozenset()) | warmup.get(name, frozenset()) for name in {**standby, **warmup}}


def _partitions(
    tasks: Mapping[str, Collection[int]], subtopologies: Mapping[str, ConfiguredSubtopology], topics: TopicView
) -> list[TopicPartition]:
    found = []
    for subtopology, partitions in tasks.items():
        known = subtopologies.get(subtopology)
        if known is None:
            raise RequestRefused(error_codes.UNKNOWN_SERVER_ERROR, f"Subtopology {subtopology} is not configured.")
        for name in sorted(known.inputs):
            topic = topics.by_name.get(name)
            if topic is None:
                raise RequestRefused(error_codes.UNKNOWN_SERVER_ERROR, f"Topic {name} not found in metadata image")
            existing = sorted(each for each in partitions if each < len(topic.partitions))
            if existing:
                found.append(TopicPartition(topic=name, partitions=existing))
    return found
