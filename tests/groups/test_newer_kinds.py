"""Groups of newer kinds in a log that Apache Kafka wrote, and the answers to classic clients."""

import pytest
from group_world import GroupWorld

from kpybroker.machines.groups.record import GroupRecord
from kpywire import error_codes
from kpywire.group_records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from kpywire.group_records.consumer_group_metadata import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.group_records.share_group_metadata import ShareGroupMetadataKey, ShareGroupMetadataValue
from kpywire.group_records.share_group_state_partition_metadata import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)
from kpywire.group_records.streams_group_metadata import StreamsGroupMetadataKey, StreamsGroupMetadataValue

SESSION_TIMEOUT_MS = 45_000
"""Kafka's default of groups of the newer kinds."""

CONSUMER = GroupRecord(ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=1), 0)
MEMBER = GroupRecord(
    ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
    ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="/127.0.0.1",
        subscribed_topic_names=["t"],
        subscribed_topic_regex=None,
        rebalance_timeout_ms=1,
        server_assignor=None,
        classic_member_metadata=None,
    ),
    0,
)
SHARE = GroupRecord(ShareGroupMetadataKey(group_id="g"), ShareGroupMetadataValue(epoch=1), 0)
SHARE_STATE = GroupRecord(
    ShareGroupStatePartitionMetadataKey(group_id="g"),
    ShareGroupStatePartitionMetadataValue(initializing_topics=[], initialized_topics=[], deleting_topics=[]),
    0,
)
STREAMS = GroupRecord(StreamsGroupMetadataKey(group_id="g"), StreamsGroupMetadataValue(epoch=1), 0)
OFFSET = GroupRecord(
    OffsetCommitKey(group="g", topic="t", partition=0), OffsetCommitValue(offset=5, metadata="", commit_timestamp=1), 4
)


def loaded(*records: GroupRecord) -> GroupWorld:
    world = GroupWorld(consumer_migration_policy="disabled")
    world.load(*records)
    return world


def test_a_consumer_group_is_shown_as_such() -> None:
    world = loaded(CONSUMER, MEMBER, OFFSET)
    assert world.listed() == {"g": ("consumer", "Reconciling", "consumer")}
    described = world.describe()
    assert described.error_code == error_codes.GROUP_ID_NOT_FOUND
    assert described.error_message == "Group g is not a classic group."


@pytest.mark.parametrize("order", [(OFFSET, MEMBER, CONSUMER), (MEMBER, CONSUMER, OFFSET)])
def test_the_kind_of_a_group_is_known_from_any_first_record(order: tuple[GroupRecord, ...]) -> None:
    world = loaded(*order)
    assert world.listed() == {"g": ("consumer", "Reconciling", "consumer")}
    assert world.fetch() == {("t", 0): 5}


def test_classic_members_are_refused_while_it_has_members_of_its_own() -> None:
    world = loaded(CONSUMER, MEMBER)
    assert world.join().error == error_codes.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync("m", 1).error == error_codes.UNKNOWN_MEMBER_ID
    assert world.heartbeat("m", 1) == error_codes.UNKNOWN_MEMBER_ID
    assert world.commit({("t", 0): 1}, "m", 1) == {error_codes.STALE_MEMBER_EPOCH}
    assert world.commit({("t", 0): 1}) == {error_codes.UNKNOWN_MEMBER_ID}
    assert world.delete() == error_codes.NON_EMPTY_GROUP
    (topic,) = world.delete_offsets({"t": [0]}).topics
    assert topic.partitions[0].error_code == error_codes.GROUP_SUBSCRIBED_TO_TOPIC
    assert world.leave(("m", None)) == [error_codes.NONE]  # an administrator may remove any member
    assert world.delete() == error_codes.NONE


def test_a_classic_member_takes_over_when_its_members_have_gone() -> None:
    world = loaded(CONSUMER, MEMBER, OFFSET)
    world.advance(SESSION_TIMEOUT_MS + 1_000)
    member_id, ticket = world.new_member()
    world.advance(3_000)
    assert ticket.response.generation_id == 1
    world.sync(member_id, 1, {})
    world.restart()
    assert world.listed() == {"g": ("classic", "Stable", "consumer")}
    assert world.fetch() == {("t", 0): 5}


def test_a_group_gives_way_only_with_its_tombstones_in_the_log() -> None:
    world = loaded(CONSUMER, OFFSET)
    world.refuses_appends = True
    assert world.join("").response == error_codes.KAFKA_STORAGE_ERROR
    assert world.listed() == {"g": ("consumer", "Empty", "consumer")}
    assert world.join("stranger").error == error_codes.UNKNOWN_MEMBER_ID
    world.refuses_appends = False
    member_id, _ = world.new_member()
    assert world.listed()["g"][0] == "classic"
    assert member_id in world.classic("g").members
    assert world.fetch() == {("t", 0): 5}
    world.restart()
    assert world.listed() == {"g": ("classic", "Empty", "")}


@pytest.mark.parametrize("record", [CONSUMER, STREAMS])
def test_an_empty_group_takes_commits_by_hand_and_is_deleted(record: GroupRecord) -> None:
    world = loaded(record)
    assert world.commit({("t", 0): 1}) == {error_codes.NONE}
    assert world.fetch() == {("t", 0): 1}
    assert world.delete() == error_codes.NONE
    world.restart()
    assert world.groups == {}


def test_a_share_group_keeps_its_name_and_no_offsets() -> None:
    world = loaded(SHARE, SHARE_STATE)
    assert world.listed() == {"g": ("share", "Empty", "share")}
    assert world.join().error == error_codes.INCONSISTENT_GROUP_PROTOCOL
    assert world.commit({("t", 0): 1}) == {error_codes.GROUP_ID_NOT_FOUND}
    assert world.fetch({"t": [0]}) == {("t", 0): -1}
    world.expire()
    assert world.delete() == error_codes.NONE
    assert world.groups == {}


def test_a_group_that_was_turned_into_a_classic_one_is_one() -> None:
    world = loaded(CONSUMER, MEMBER, GroupRecord(MEMBER.key), GroupRecord(CONSUMER.key))
    assert world.listed() == {}
    assert world.join().error == error_codes.MEMBER_ID_REQUIRED


def test_offsets_of_a_group_that_has_gone_expire() -> None:
    world = loaded(CONSUMER, MEMBER, OFFSET)
    world.expire()
    assert world.fetch() == {("t", 0): 5}
    world.advance(7 * 24 * 3_600_000)
    world.expire()
    assert world.groups == {}
