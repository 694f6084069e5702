"""Requests of members of groups and of those who look after them, and members that a test moves by hand."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kpywire import api, error_codes
from kpywire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kpywire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from kpywire.messages.delete_groups import DeleteGroupsRequest
from kpywire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kpywire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kpywire.messages.list_groups import ListedGroup, ListGroupsRequest
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kpywire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kpywire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kpywire.messages.streams_group_describe import StreamsGroupDescribeRequest
from kpywire.messages.streams_group_heartbeat import Topology
from kpywire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from support.raw_client import RawClient, UpTo
from support.raw_requests import UNKNOWN_ID
from support.streams_requests import describing, source_of, streaming
from support.waiting import becomes

SESSION_MS = 10_000
REBALANCE_MS = 3_000

Partitions = Sequence[int]
Committed = tuple[int, int, str | None]
"""Partition, offset, metadata."""


def coordinator_ready(raw: RawClient, group: str = "g", within_s: float = 60) -> None:
    """Wait until the topic of the coordinators is there, and loaded."""

    def errors() -> tuple[int, int, int]:
        (found,) = raw.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4).coordinators
        listed = raw.call(ListGroupsRequest(), 4).error_code
        asked = raw.call(fetching((group, None)), 8).groups[0].error_code
        return found.error_code, listed, asked

    becomes(errors, (error_codes.NONE,) * 3, within_s)


# Members


class Protocol(NamedTuple):
    """A way of assigning that a member offers."""

    name: str
    metadata: bytes = b""


RANGE = Protocol("range", b"r")


def joining(
    group: str,
    member_id: str = "",
    version: int = 9,
    *,
    protocols: Iterable[Protocol] = (RANGE,),
    protocol_type: str = "consumer",
    session_ms: int = SESSION_MS,
    rebalance_ms: int = REBALANCE_MS,
    instance_id: str | None = None,
) -> JoinGroupRequest:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        member_id=member_id,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=each.name, metadata=each.metadata) for each in protocols],
    )
    if version >= 1:
        request.rebalance_timeout_ms = rebalance_ms
    if version >= 5:
        request.group_instance_id = instance_id
    return request


def syncing(
    group: str,
    member_id: str,
    generation: int,
    assignments: Mapping[str, bytes] | None = None,
    version: int = 5,
    *,
    instance_id: str | None = None,
    protocol: tuple[str | None, str | None] = ("consumer", "range"),
) -> SyncGroupRequest:
    request = SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        assignments=[
            SyncGroupRequestAssignment(member_id=member, assignment=assignment)
            for member, assignment in (assignments or {}).items()
        ],
    )
    if version >= 3:
        request.group_instance_id = instance_id
    if version >= 5:
        request.protocol_type, request.protocol_name = protocol
    return request


class Member:
    """A member on a connection of its own; what it sends, and when it waits, is the test's to say."""

    def __init__(self, raw: RawClient, group: str, instance_id: str | None = None, **join: Any) -> None:
        self.raw = raw
        self.group = group
        self.instance_id = instance_id
        self.id = ""
        self.generation = -1
        self.join_options = join

    def join(self, version: int = 9, **options: Any) -> JoinGroupResponse:
        """Join, with an id if one is demanded; waits for the end of the round."""
        self.begin_join(version, **options)
        return self.end_join(version)

    def begin_join(self, version: int = 9, **options: Any) -> None:
        """Send the join that will wait for others."""
        options = {**self.join_options, "instance_id": self.instance_id, **options}
        if not self.id and version >= 4 and self.instance_id is None:
            answer = self.raw.call(joining(self.group, "", version, **options), version)
            assert answer.error_code == error_codes.MEMBER_ID_REQUIRED, answer
            self.id = answer.member_id
        self.raw.send(joining(self.group, self.id, version, **options), version)

    def end_join(self, version: int = 9) -> JoinGroupResponse:
        answer: JoinGroupResponse = self.raw.receive(api.JOIN_GROUP, version)
        if answer.error_code == error_codes.NONE:
            self.id, self.generation = answer.member_id, answer.generation_id
        return answer

    def begin_sync(self, assignments: Mapping[str, bytes] | None = None, version: int = 5, **options: Any) -> None:
        options = {"instance_id": self.instance_id, **options}
        self.raw.send(syncing(self.group, self.id, self.generation, assignments, version, **options), version)

    def end_sync(self, version: int = 5) -> SyncGroupResponse:
        answer: SyncGroupResponse = self.raw.receive(api.SYNC_GROUP, version)
        return answer

    def sync(
        self, assignments: Mapping[str, bytes] | None = None, version: int = 5, **options: Any
    ) -> SyncGroupResponse:
        self.begin_sync(assignments, version, **options)
        return self.end_sync(version)

    def heartbeat(self, version: int = 4, generation: int | None = None) -> int:
        """The error code."""
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.id,
        )
        if version >= 3:
            request.group_instance_id = self.instance_id
        return int(self.raw.call(request, version).error_code)

    def leave(self) -> int:
        (answer,) = leave(self.raw, self.group, (self.id, self.instance_id)).members
        return int(answer.error_code)

    def commit(self, topic: str, *committed: Committed, version: int = 9) -> dict[int, int]:
        """The error code of each partition."""
        request = committing(
            self.group,
            {topic: committed},
            version,
            member_id=self.id,
            generation=self.generation,
            instance_id=self.instance_id,
        )
        (answer,) = self.raw.call(request, version).topics
        return {each.partition_index: each.error_code for each in answer.partitions}


def stable_member(raw: RawClient, group: str, assignment: bytes = b"a", **options: Any) -> Member:
    """The only member of a group that is stable."""
    member = Member(raw, group, **options)
    joined = member.join()
    assert joined.error_code == error_codes.NONE, joined
    synced = member.sync({member.id: assignment}, protocol=(joined.protocol_type, joined.protocol_name))
    assert (synced.error_code, synced.assignment) == (error_codes.NONE, assignment)
    return member


def leave(
    raw: RawClient, group: str, *members: tuple[str, str | None], version: int = 5, reason: str | None = None
) -> LeaveGroupResponse:
    identities = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in members]
    if version >= 5:
        for identity in identities:
            identity.reason = reason
    answer: LeaveGroupResponse = raw.call(LeaveGroupRequest(group_id=group, members=identities), version)
    return answer


# Groups


def describe(raw: RawClient, group: str, version: int = UpTo(6)) -> DescribedGroup:
    (answer,) = raw.call(DescribeGroupsRequest(groups=[group]), version).groups
    described: DescribedGroup = answer
    return described


def listed(
    raw: RawClient, version: int = 5, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[ListedGroup]:
    request = ListGroupsRequest()
    if states:
        request.states_filter = list(states)
    if types:
        request.types_filter = list(types)
    answer = raw.call(request, version)
    assert answer.error_code == error_codes.NONE
    groups: list[ListedGroup] = answer.groups
    return groups


def delete_groups(raw: RawClient, *groups: str, version: int = 2) -> dict[str, int]:
    """The error code of each."""
    results = raw.call(DeleteGroupsRequest(groups_names=list(groups)), version).results
    assert len({each.group_id for each in results}) == len(results)
    return {each.group_id: each.error_code for each in results}


# Offsets


def committing(
    group: str,
    committed: Mapping[str | bytes, Sequence[Committed]] | Mapping[str, Sequence[Committed]],
    version: int = 9,
    *,
    member_id: str = "",
    generation: int = -1,
    instance_id: str | None = None,
    leader_epoch: int = 0,
) -> OffsetCommitRequest:
    """Topics are named up to version 9, and identified from 10 on."""
    topics = []
    for topic, partitions in committed.items():
        asked = OffsetCommitRequestTopic(
            partitions=[
                OffsetCommitRequestPartition(partition_index=index, committed_offset=at, committed_metadata=metadata)
                for index, at, metadata in partitions
            ]
        )
        if isinstance(topic, bytes):
            asked.topic_id = topic
        else:
            asked.name = topic
        if version >= 6:
            for each in asked.partitions:
                each.committed_leader_epoch = leader_epoch
        topics.append(asked)
    request = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=generation, member_id=member_id, topics=topics
    )
    if version >= 7:
        request.group_instance_id = instance_id
    return request


def commit(raw: RawClient, group: str, topic: str | bytes, *committed: Committed, version: int = 9) -> dict[int, int]:
    """Commit without being a member; the error code of each partition."""
    (answer,) = raw.call(committing(group, {topic: committed}, version), version).topics
    assert topic == (answer.topic_id if isinstance(topic, bytes) else answer.name)
    return {each.partition_index: each.error_code for each in answer.partitions}


def fetching(
    *groups: tuple[str, Mapping[str, Partitions] | Mapping[bytes, Partitions] | None], require_stable: bool = False
) -> OffsetFetchRequest:
    """Offsets of several groups, of version 8 and later; topics by their names or ids, None is all."""
    wanted = []
    for group, topics in groups:
        asked = None
        if topics is not None:
            asked = []
            for topic, partitions in topics.items():
                one = OffsetFetchRequestTopics(partition_indexes=list(partitions))
                if isinstance(topic, bytes):
                    one.topic_id = topic
                else:
                    one.name = topic
                asked.append(one)
        wanted.append(OffsetFetchRequestGroup(group_id=group, topics=asked))
    return OffsetFetchRequest(groups=wanted, require_stable=require_stable)


def fetching_one(group: str, topics: Mapping[str, Partitions] | None) -> OffsetFetchRequest:
    """The same as versions before 8 ask it."""
    wanted = None
    if topics is not None:
        wanted = [
            OffsetFetchRequestTopic(name=topic, partition_indexes=list(partitions))
            for topic, partitions in topics.items()
        ]
    return OffsetFetchRequest(group_id=group, topics=wanted)


Found = dict[str, dict[int, tuple[int, int, str | None, int]]]
"""By topic and partition: offset, leader epoch, metadata, error code."""


def offsets_in(topics: Sequence[Any]) -> Found:
    """The topics of an answer to OffsetFetch, by name or, where there is none, by id."""
    return {
        topic.name or topic.topic_id: {
            each.partition_index: (
                each.committed_offset,
                each.committed_leader_epoch,
                each.metadata,
                each.error_code,
            )
            for each in topic.partitions
        }
        for topic in topics
    }


def offsets(raw: RawClient, group: str, topics: Mapping[str, Partitions] | None = None) -> Found:
    """The offsets that a group has committed."""
    (answer,) = raw.call(fetching((group, topics)), 9).groups
    assert answer.error_code == error_codes.NONE, answer
    return offsets_in(answer.topics)


def delete_offsets(raw: RawClient, group: str, topics: Mapping[str, Partitions]) -> OffsetDeleteResponse:
    wanted = [
        OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
        )
        for topic, partitions in topics.items()
    ]
    answer: OffsetDeleteResponse = raw.call(OffsetDeleteRequest(group_id=group, topics=wanted), 0)
    return answer


def beating(
    group: str,
    member_id: Any,
    epoch: Any,
    *,
    topics: list[str] | None = None,
    owned: Mapping[bytes, Partitions] | None = None,
    **fields: Any,
) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat of the consumer protocol. One that joins has all that Kafka demands of it."""
    if epoch == 0:
        fields = {"rebalance_timeout_ms": REBALANCE_MS, **fields}
        owned = {} if owned is None else owned
    if owned is not None:
        fields["topic_partitions"] = [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=list(indexes))
            for topic_id, indexes in owned.items()
        ]
    return ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member_id, member_epoch=epoch, subscribed_topic_names=topics, **fields
    )


def plausible_group(version: int, topic: str) -> dict[int, Any]:
    """An ordinary request of each API of groups, for the suites that send one of everything."""
    by_id: dict[bytes, Sequence[int]] = {UNKNOWN_ID: [0]}
    wanted = fetching_one("g", {topic: [0]})
    if version >= 8:
        wanted = fetching(("g", {topic: [0]} if version < 10 else by_id))
    committed: Sequence[Committed] = [(0, 1, "m")]
    leaving = LeaveGroupRequest(group_id="g", member_id="m")
    if version >= 3:
        leaving = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")])
    forgotten = OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    return {
        api.OFFSET_COMMIT: committing("g", {topic if version < 10 else UNKNOWN_ID: committed}, version),
        api.OFFSET_FETCH: wanted,
        api.JOIN_GROUP: joining("g", "m", version),
        api.HEARTBEAT: HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
        api.LEAVE_GROUP: leaving,
        api.SYNC_GROUP: syncing("g", "m", 1, version=version),
        api.DESCRIBE_GROUPS: DescribeGroupsRequest(groups=["g"]),
        api.LIST_GROUPS: ListGroupsRequest(),
        api.DELETE_GROUPS: DeleteGroupsRequest(groups_names=["g"]),
        api.OFFSET_DELETE: OffsetDeleteRequest(group_id="g", topics=[forgotten]),
        api.CONSUMER_GROUP_HEARTBEAT: beating("plausible", "m", 0, topics=[topic]),
        api.CONSUMER_GROUP_DESCRIBE: ConsumerGroupDescribeRequest(
            group_ids=["plausible"], include_authorized_operations=False
        ),
        api.STREAMS_GROUP_HEARTBEAT: streaming(
            "plausible-streams", "m", 0, topology=Topology(epoch=0, subtopologies=[source_of("0", topic)])
        ),
        api.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: describing("plausible-streams", "m"),
        api.STREAMS_GROUP_DESCRIBE: StreamsGroupDescribeRequest(
            group_ids=["plausible-streams"], include_authorized_operations=False
        ),
    }
