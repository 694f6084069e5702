"""The hand-written frames of groups, and the reading of their answers, held against kpywire."""

import struct

from framing import answer, body

from benchmarks.raw import grouping
from kpywire.codec import decode
from kpywire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kpywire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kpywire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kpywire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def test_a_member_joins_with_its_subscription() -> None:
    subscription = grouping.subscription("a-topic", 3)
    request = body(grouping.join_group("g", "m-1", subscription), JoinGroupRequest)
    assert (request.group_id, request.member_id, request.protocol_type) == ("g", "m-1", "consumer")
    assert [(each.name, bytes(each.metadata)) for each in request.protocols] == [("range", subscription)]
    read = decode(ConsumerProtocolSubscription, 0, memoryview(subscription), 2)
    assert (read.topics, bytes(read.user_data)) == (["a-topic"], b"\0\0\0\3")


def test_a_join_response_is_parsed() -> None:
    response = JoinGroupResponse(
        throttle_time_ms=0,
        error_code=0,
        generation_id=5,
        protocol_name="range",
        leader="m-2",
        member_id="m-1",
        members=[JoinGroupResponseMember(member_id="m-1", metadata=b"x")],
    )
    seen = grouping.joined(answer(response, 11, grouping.JOIN_GROUP_VERSION))
    assert seen == grouping.Joined(0, 5, "m-2", "m-1")


def test_the_leader_syncs_with_assignments() -> None:
    request = body(grouping.sync_group("g", 5, "m-1", {"m-1": b"a", "m-2": b""}), SyncGroupRequest)
    assert (request.group_id, request.generation_id, request.member_id) == ("g", 5, "m-1")
    assert [(each.member_id, bytes(each.assignment)) for each in request.assignments] == [("m-1", b"a"), ("m-2", b"")]


def test_coordinators_and_heartbeats_are_asked_for() -> None:
    assert body(grouping.find_coordinator("g"), FindCoordinatorRequest).key == "g"
    request = body(grouping.heartbeat("g", 5, "m-1"), HeartbeatRequest)
    assert (request.group_id, request.generation_id, request.member_id) == ("g", 5, "m-1")


def test_error_codes_are_read_where_they_stand() -> None:
    found = FindCoordinatorResponse(throttle_time_ms=0, error_code=15, node_id=-1, host="", port=-1)
    assert grouping.error_of(answer(found, 10, grouping.FIND_COORDINATOR_VERSION)) == 15
    assert grouping.error_of(answer(HeartbeatResponse(error_code=27), 12, grouping.HEARTBEAT_VERSION)) == 27
    synced = SyncGroupResponse(throttle_time_ms=0, error_code=25, assignment=b"")
    assert grouping.error_of(answer(synced, 14, grouping.SYNC_GROUP_VERSION)) == 25


def test_a_commit_carries_one_offset_and_knows_where_its_error_will_stand() -> None:
    commit = grouping.offset_commit("g", "a-topic", 3, 77)
    request = body(commit.frame, OffsetCommitRequest)
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("g", -1, "")
    (partition,) = request.topics[0].partitions
    assert (request.topics[0].name, partition.partition_index, partition.committed_offset) == ("a-topic", 3, 77)
    partitions = [OffsetCommitResponsePartition(partition_index=3, error_code=1234)]
    response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="a-topic", partitions=partitions)])
    (error_at,) = commit.error_offsets
    answered = answer(response, 8, grouping.OFFSET_COMMIT_VERSION)
    assert struct.unpack_from(">h", answered, error_at) == (1234,)
