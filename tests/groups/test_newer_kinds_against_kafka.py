"""A classic client hears of groups of other kinds what Apache Kafka answers."""

import pytest
from group_world import GroupWorld
from kafka_shard import KafkaShard, Outcome, canonical, normal, started, wrapped
from test_newer_kinds import CONSUMER, MEMBER, OFFSET, SHARE, SHARE_STATE, STREAMS

from kpybroker.machines.groups.classic.describe import DescribeGroup
from kpybroker.machines.groups.events import DeleteGroup, ListGroups
from kpywire import api, error_codes
from kpywire.codec import decode, encode
from kpywire.messages.delete_groups import DeleteGroupsRequest
from kpywire.messages.describe_groups import DescribeGroupsRequest
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kpywire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kpywire.messages.list_groups import ListGroupsRequest
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kpywire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kpywire.messages.sync_group import SyncGroupRequest
from oracle.recorded import Play

PART = OffsetFetchRequestGroup(group_id="g", topics=None)
COMMIT = OffsetCommitRequestTopic(
    name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")]
)


def join(member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="zone", metadata=b"")],
    )


REQUESTS = (
    (api.SYNC_GROUP, 5, SyncGroupRequest(group_id="g", generation_id=1, member_id="x", assignments=[]), None),
    (api.HEARTBEAT, 4, HeartbeatRequest(group_id="g", generation_id=1, member_id="x"), None),
    (api.LEAVE_GROUP, 5, LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="x")]), None),
    (api.DESCRIBE_GROUPS, 6, DescribeGroupsRequest(groups=["g"]), DescribeGroup("g")),
    (api.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=["g"]), DescribeGroup("g")),
    (api.LIST_GROUPS, 5, ListGroupsRequest(types_filter=["share", "Streams", "CONSUMER"]), None),
    (api.OFFSET_COMMIT, 9, OffsetCommitRequest(group_id="g", member_id="", topics=[COMMIT]), None),
    (api.OFFSET_FETCH, 9, OffsetFetchRequest(groups=[PART]), PART),
    (api.JOIN_GROUP, 9, join("x"), None),
    (api.JOIN_GROUP, 9, join(""), None),
    (api.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=["g"]), DeleteGroup("g")),
)
GROUPS = {
    "a consumer group": (CONSUMER, MEMBER, OFFSET),
    "an empty consumer group": (OFFSET, CONSUMER),
    "a share group": (SHARE, SHARE_STATE),
    "an empty streams group": (STREAMS, OFFSET),
}


@pytest.mark.java
@pytest.mark.parametrize("kind", GROUPS)
@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_the_answer_is_that_of_kafka(kafka: KafkaShard, kind: str, number: int) -> None:
    compare(kafka, kind, number)


@pytest.mark.parametrize("kind", GROUPS)
def test_the_answers_are_those_that_kafka_gave(recorded: Play, kind: str) -> None:
    kafka = KafkaShard(recorded(started))
    for number in range(len(REQUESTS)):
        compare(kafka, kind, number)


def compare(kafka: KafkaShard, kind: str, number: int) -> None:
    key, version, message, part = REQUESTS[number]
    kafka.ask("reset", 3_000, 100, "group.consumer.migration.policy=disabled")
    world = GroupWorld(consumer_migration_policy="disabled")
    world.load(*GROUPS[kind])
    for record in GROUPS[kind]:
        key_bytes, value_bytes = record.encoded()
        kafka.ask("load", key_bytes.hex(), value_bytes.hex() if value_bytes else "-")
    kafka.ask("restart")
    known = len(world.records)
    theirs = Outcome(kafka.ask("do", key, version, 0, encode(message, version).hex()))
    if key == api.LIST_GROUPS:
        part = ListGroups([], message.types_filter)
    ours = world.send(part or message, version).response
    response = normal(decode(api.response_class(key), version, wrapped(ours, key, version)))
    expected = normal(decode(api.response_class(key), version, theirs.answers[0]))
    if key == api.LIST_GROUPS:
        for each in (*response.groups, *expected.groups):
            each.group_state = ""  # which of several states with members, only its own coordinator knows
    elif expected.__class__ is JoinGroupResponse and expected.error_code == error_codes.MEMBER_ID_REQUIRED:
        response.member_id = expected.member_id = ""  # each makes its own
    assert response == expected
    written = canonical([record.encoded() for record in world.records[known:]])
    assert set(written) <= set(canonical(theirs.records))  # Kafka also forgets what was not there
    assert bool(written) == bool(theirs.records)
