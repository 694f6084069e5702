"""The requests of ``kpybroker groups`` and ``offsets`` to group coordinators: one function each, errors as KafkaError.

Groups of the classic, the consumer (KIP-848) and the streams protocol (KIP-1071) and share groups (KIP-932) are read
into the same form.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kpybroker.client.client import Client, Spot, raise_for
from kpybroker.client.consumer_protocol import assigned_spots
from kpybroker.client.group_listing import CLASSIC, CONSUMER
from kpybroker.client.share_group_requests import SHARE
from kpybroker.client.streams_applications import Application, ApplicationTasks, application_of, inputs_of, tasks_of
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kpywire.messages.delete_groups import DeleteGroupsRequest
from kpywire.messages.describe_groups import DescribeGroupsRequest
from kpywire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kpywire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kpywire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kpywire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kpywire.messages.share_group_describe import ShareGroupDescribeRequest
from kpywire.messages.streams_group_describe import StreamsGroupDescribeRequest

STREAMS = "streams"
CLASSIC_MEMBER = 0
"""The type of a member of a consumer group that speaks the classic protocol (KIP-1099)."""
DEAD = "Dead"
EMPTY = "Empty"
WITH_NAMES = 9
"""The last versions of OffsetFetch and OffsetCommit that name topics; later ones have their ids."""


class MemberDescription(NamedTuple):
    """A member of a group; ``assigned`` is None where the protocol's bytes are not a consumer's."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: tuple[Spot, ...] | None
    protocol: str = CLASSIC
    """The protocol that it speaks; members of a consumer group may speak either."""
    epoch: int | None = None
    target: tuple[Spot, ...] | None = None
    """The partitions that it is to have, if the coordinator assigns them (KIP-848)."""

    tasks: ApplicationTasks | None = None
    """In a streams group: its tasks."""


class GroupDescription(NamedTuple):
    """A group as its coordinator describes it. ``kind`` is classic, consumer, streams or share, ``protocol`` the
    assignor. Groups of other kinds than classic have epochs."""

    name: str
    kind: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: int
    members: tuple[MemberDescription, ...]
    epoch: int | None = None
    target_epoch: int | None = None
    application: Application | None = None
    """For a streams group: its topology."""


class Commit(NamedTuple):
    """A committed offset, with what its committer added."""

    offset: int
    leader_epoch: int
    metadata: str


def describe(client: Client, name: str) -> GroupDescription:
    """A group and its members. GROUP_ID_NOT_FOUND if there is none."""
    return client.retrying(lambda: _describe(client, name))


def _describe(client: Client, name: str) -> GroupDescription:
    coordinator = client.coordinator(name)
    for request_class, read in _MODERN:
        found = _described(client, name, coordinator, request_class)
        if found is not None:
            return read(found, coordinator)
    (found,) = client.call_node(coordinator, DescribeGroupsRequest(groups=[name])).groups
    if found.error_code == error_codes.GROUP_ID_NOT_FOUND or found.group_state == DEAD:
        raise KafkaError(error_codes.GROUP_ID_NOT_FOUND, f"group {name} does not exist")
    raise_for(found.error_code, f"group {name}")
    members = tuple(
        MemberDescription(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            assigned_spots(each.member_assignment) if found.protocol_type == CONSUMER else None,
        )
        for each in found.members
    )
    return GroupDescription(
        name, CLASSIC, found.group_state, found.protocol_type, found.protocol_data, coordinator, members
    )


def _described(client: Client, name: str, coordinator: int, request_class: Any) -> Any | None:
    """The group as its coordinator describes it; None if it is of another kind, or the broker knows no such groups."""
    try:
        request = request_class(group_ids=[name], include_authorized_operations=False)
        (found,) = client.call_node(coordinator, request).groups
    except KafkaError as error:
        if error.code != error_codes.UNSUPPORTED_VERSION:
            raise
        return None
    if found.error_code in (error_codes.GROUP_ID_NOT_FOUND, error_codes.UNSUPPORTED_VERSION):
        return None
    raise_for(found.error_code, f"group {name}", found.error_message)
    return found


def _of_consumer_protocol(found: Any, coordinator: int) -> GroupDescription:
    members = tuple(
        MemberDescription(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            _spots(each.assignment),
            CLASSIC if each.member_type == CLASSIC_MEMBER else CONSUMER,
            each.member_epoch,
            _spots(each.target_assignment),
        )
        for each in found.members
    )
    return GroupDescription(
        found.group_id,
        CONSUMER,
        found.group_state,
        CONSUMER,
        found.assignor_name,
        coordinator,
        members,
        found.group_epoch,
        found.assignment_epoch,
    )


def _of_streams_protocol(found: Any, coordinator: int) -> GroupDescription:
    members = tuple(
        MemberDescription(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            inputs_of(found.topology, each.assignment),
            STREAMS,
            each.member_epoch,
            inputs_of(found.topology, each.target_assignment),
            tasks_of(each),
        )
        for each in found.members
    )
    return GroupDescription(
        found.group_id,
        STREAMS,
        found.group_state,
        STREAMS,
        "",
        coordinator,
        members,
        found.group_epoch,
        found.assignment_epoch,
        application_of(found),
    )


def _of_share_protocol(found: Any, coordinator: int) -> GroupDescription:
    members = tuple(
        MemberDescription(
            each.member_id,
            None,
            each.client_id,
            each.client_host,
            _spots(each.assignment),
            SHARE,
            each.member_epoch,
            _spots(each.assignment),
        )
        for each in found.members
    )
    return GroupDescription(
        found.group_id,
        SHARE,
        found.group_state,
        SHARE,
        found.assignor_name,
        coordinator,
        members,
        found.group_epoch,
        found.assignment_epoch,
    )


_MODERN: Final[Sequence[tuple[Any, Callable[[Any, int], GroupDescription]]]] = (
    (ConsumerGroupDescribeRequest, _of_consumer_protocol),
    (StreamsGroupDescribeRequest, _of_streams_protocol),
    (ShareGroupDescribeRequest, _of_share_protocol),
)
"""The requests that describe groups whose coordinator assigns partitions, and how each answer is read."""


def _spots(assignment: Any) -> tuple[Spot, ...]:
    return tuple(Spot(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions)


def committed(client: Client, name: str, spots: Iterable[Spot] | None = None) -> dict[Spot, Commit]:
    """The offsets a group has committed, all or those of ``spots``; partitions without one are left out."""
    topics = None if spots is None else _by_topic(spots)
    wanted = None
    if topics is not None:
        wanted = [OffsetFetchRequestTopics(name=topic, partition_indexes=found) for topic, found in topics.items()]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=wanted)], require_stable=True)
    return client.retrying(lambda: _committed(client, name, request))


def _committed(client: Client, name: str, request: OffsetFetchRequest) -> dict[Spot, Commit]:
    (group,) = client.call_coordinator(name, request, newest=WITH_NAMES).groups
    raise_for(group.error_code, f"group {name}")
    commits = {}
    for topic in group.topics:
        for each in topic.partitions:
            spot = Spot(topic.name, each.partition_index)
            raise_for(each.error_code, f"offset of {spot}")
            if each.committed_offset >= 0:
                commits[spot] = Commit(each.committed_offset, each.committed_leader_epoch, each.metadata or "")
    return dict(sorted(commits.items()))


def commit(
    client: Client,
    name: str,
    offsets: Mapping[Spot, int],
    *,
    member_id: str = "",
    generation: int = -1,
    instance_id: str | None = None,
) -> None:
    """Commit offsets, as a member of the group or, without one, for a group that is empty. Raises KafkaError."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offsets[Spot(topic, index)], committed_metadata=""
                )
                for index in indexes
            ],
        )
        for topic, indexes in _by_topic(offsets).items()
    ]
    request = OffsetCommitRequest(
        group_id=name,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=topics,
    )
    client.retrying(lambda: _commit(client, name, request))


def _commit(client: Client, name: str, request: OffsetCommitRequest) -> None:
    for topic in client.call_coordinator(name, request, newest=WITH_NAMES).topics:
        for each in topic.partitions:
            raise_for(each.error_code, f"offset of {Spot(topic.name, each.partition_index)}")


def delete_offsets(client: Client, name: str, spots: Iterable[Spot]) -> dict[Spot, int]:
    """Delete committed offsets. Return the error code of each partition. Raises KafkaError if the group refuses as a
    whole."""
    topics = [
        OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for topic, indexes in _by_topic(spots).items()
    ]
    request = OffsetDeleteRequest(group_id=name, topics=topics)

    def attempt() -> dict[Spot, int]:
        answer = client.call_coordinator(name, request)
        raise_for(answer.error_code, f"group {name}")
        return {
            Spot(topic.name, each.partition_index): each.error_code
            for topic in answer.topics
            for each in topic.partitions
        }

    return client.retrying(attempt)


def delete(client: Client, name: str) -> None:
    """Delete a group and its offsets. Raises KafkaError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""

    def attempt() -> None:
        for result in client.call_coordinator(name, DeleteGroupsRequest(groups_names=[name])).results:
            raise_for(result.error_code, f"group {name}")

    client.retrying(attempt)


def remove_members(client: Client, name: str, members: Iterable[MemberIdentity]) -> list[tuple[str, int]]:
    """Remove members (KIP-345). Return the name and error code of each. Raises KafkaError."""
    request = LeaveGroupRequest(group_id=name, members=list(members))

    def attempt() -> list[tuple[str, int]]:
        answer = client.call_coordinator(name, request)
        raise_for(answer.error_code, f"group {name}")
        return [(each.group_instance_id or each.member_id, each.error_code) for each in answer.members]

    return client.retrying(attempt)


def _by_topic(spots: Iterable[Spot]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for spot in sorted(spots):
        topics.setdefault(spot.topic, []).append(spot.partition)
    return topics
