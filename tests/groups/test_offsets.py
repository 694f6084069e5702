"""Commits and what is read back, with and without members and transactions."""

import pytest
from group_world import START_MS, GroupWorld
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.groups.record import GroupRecord
from kpywire import error_codes
from kpywire.group_records.legacy_offset_commit import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kpywire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics

T0 = ("t", 0)
TOPIC_ID = b"0123456789abcdef"


def test_committed_offsets_are_read_back() -> None:
    world = GroupWorld()
    assert world.commit({T0: 5, ("t", 1): 6, ("u", 0): 7}) == {error_codes.NONE}
    assert world.fetch({"t": [0, 1], "u": [0]}) == {T0: 5, ("t", 1): 6, ("u", 0): 7}
    assert world.fetch() == {T0: 5, ("t", 1): 6, ("u", 0): 7}


def test_a_partition_without_a_commit_is_no_error() -> None:
    world = GroupWorld()
    world.commit({T0: 5})
    assert world.fetch({"t": [1], "u": [0]}) == {("t", 1): -1, ("u", 0): -1}
    assert world.fetch({"t": [0]}, group_id="other") == {T0: -1}
    assert world.fetch(group_id="other") == {}


def test_a_commit_is_recorded_as_kafka_writes_it() -> None:
    world = GroupWorld()
    topic = OffsetCommitRequestTopic(
        name="t",
        topic_id=TOPIC_ID,
        partitions=[
            OffsetCommitRequestPartition(
                partition_index=3, committed_offset=9, committed_leader_epoch=2, committed_metadata="said"
            )
        ],
    )
    world.send(OffsetCommitRequest(group_id="g", member_id="", topics=[topic]), 10)
    (record,) = world.records
    value = OffsetCommitValue(offset=9, leader_epoch=2, metadata="said", commit_timestamp=START_MS, topic_id=TOPIC_ID)
    assert record == GroupRecord(OffsetCommitKey(group="g", topic="t", partition=3), value, 4)


def test_an_offset_of_another_topic_of_that_name_is_not_read() -> None:
    world = GroupWorld()
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=9, committed_metadata=None)
    topic = OffsetCommitRequestTopic(name="t", topic_id=TOPIC_ID, partitions=[partition])
    world.send(OffsetCommitRequest(group_id="g", member_id="", topics=[topic]), 10)
    for topic_id, offset in ((TOPIC_ID, 9), (b"x" * 16, -1), (bytes(16), 9)):
        topics = [OffsetFetchRequestTopics(name="t", topic_id=topic_id, partition_indexes=[0])]
        response = world.send(OffsetFetchRequestGroup(group_id="g", topics=topics), 10).response
        assert response.topics[0].partitions[0].committed_offset == offset


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"generation_id": 1, "group_id": "other", "version": 9}, error_codes.GROUP_ID_NOT_FOUND),
        ({"generation_id": 1, "group_id": "other", "version": 8}, error_codes.ILLEGAL_GENERATION),
        ({"generation_id": 0}, error_codes.ILLEGAL_GENERATION),
        ({"member_id": "x"}, error_codes.UNKNOWN_MEMBER_ID),
        ({"member_id": "", "generation_id": -1}, error_codes.UNKNOWN_MEMBER_ID),
        ({"instance_id": "i"}, error_codes.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_commit_that_does_not_fit_is_refused(options: dict[str, object], error: int) -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1)
    arguments = {"member_id": member_id, "generation_id": 1, **options}
    assert world.commit({T0: 1}, **arguments) == {error}  # type: ignore[arg-type]
    assert world.fetch() == {}


def test_members_commit_while_others_join_but_not_before_they_know_their_assignment() -> None:
    world = GroupWorld()
    first, second = world.stable_group(2)
    world.join(first)
    assert world.commit({T0: 1}, second, 1) == {error_codes.NONE}
    world.join(second)
    assert world.commit({T0: 2}, second, 2) == {error_codes.REBALANCE_IN_PROGRESS}
    assert world.fetch() == {T0: 1}


def test_everybody_may_commit_for_an_empty_group() -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1)
    world.leave((member_id, None))
    assert world.commit({T0: 1}) == {error_codes.NONE}
    world.restart()
    assert world.commit({T0: 2}, "anybody") == {error_codes.NONE}
    assert world.fetch() == {T0: 2}


def test_metadata_has_a_limit_and_none_is_empty() -> None:
    world = GroupWorld(offset_metadata_max_bytes=3)
    assert world.commit({T0: 1}, metadata="1234") == {error_codes.OFFSET_METADATA_TOO_LARGE}
    assert world.commit({T0: 2}, metadata="123") == {error_codes.NONE}
    assert world.commit({T0: 3}) == {error_codes.NONE}
    assert [record.value.metadata for record in world.records] == ["123", ""]


@given(
    topics=st.lists(
        st.tuples(
            st.sampled_from("tuvw"), st.binary(min_size=16, max_size=16), st.lists(st.integers(0, 40), max_size=20)
        ),
        max_size=4,
    ),
    generation_id=st.sampled_from([-1, 3]),
)
def test_the_response_to_a_commit_names_its_partitions_in_their_order(
    topics: list[tuple[str, bytes, list[int]]], generation_id: int
) -> None:
    world = GroupWorld(offset_metadata_max_bytes=1)
    commit = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=generation_id, member_id="", topics=[
        OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=[
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=index, committed_metadata="long" if index % 7 == 3 else ""
            )
            for index in indexes
        ])
        for name, topic_id, indexes in topics
    ])  # fmt: skip
    codes = {True: error_codes.OFFSET_METADATA_TOO_LARGE, False: error_codes.NONE}
    for _ in range(2):  # a response with few partitions is remembered
        response = world.send(commit, 9).response
        seen = [
            (topic.name, topic.topic_id, [(each.partition_index, each.error_code) for each in topic.partitions])
            for topic in response.topics
        ]
        assert seen == [
            (
                name,
                topic_id,
                [
                    (index, error_codes.GROUP_ID_NOT_FOUND if generation_id > 0 else codes[index % 7 == 3])
                    for index in indexes
                ],
            )
            for name, topic_id, indexes in topics
        ]


def test_commits_of_the_same_partitions_have_the_same_response() -> None:
    world = GroupWorld()
    first, second, other = (world.commit_ticket({("t", index): offset}) for index, offset in ((0, 5), (0, 6), (1, 6)))
    assert first.response is second.response
    assert other.response != first.response
    many = {("t", index): 5 for index in range(100)}
    assert world.commit_ticket(many).response == world.commit_ticket(many).response


def test_metadata_is_measured_as_java_does() -> None:
    world = GroupWorld(offset_metadata_max_bytes=3)
    assert world.commit({T0: 1}, metadata="語語語") == {error_codes.NONE}
    assert world.commit({T0: 1}, metadata="🜁🜁") == {error_codes.OFFSET_METADATA_TOO_LARGE}


def test_metadata_is_read_back_in_any_script() -> None:
    world = GroupWorld()
    world.commit({T0: 1}, metadata="żółć 語 🜁")
    response = world.send(OffsetFetchRequestGroup(group_id="g", topics=None), 9).response
    assert response.topics[0].partitions[0].metadata == "żółć 語 🜁"


def test_a_commit_that_does_not_fit_into_a_batch_fails_as_a_whole() -> None:
    world = GroupWorld()
    world.largest_batch = 100
    assert world.commit({T0: 1, ("t", 1): 2, ("t", 2): 3}) == {error_codes.UNKNOWN_SERVER_ERROR}
    assert world.fetch() == {}


def test_reads_wait_for_the_commit_they_speak_of() -> None:
    world = GroupWorld()
    world.commits_at_once = False
    ticket = world.send(OffsetFetchRequestGroup(group_id="g", topics=None), 9)
    assert ticket.is_answered
    topic = OffsetCommitRequestTopic(
        name="t",
        partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")],
    )
    world.send(OffsetCommitRequest(group_id="g", member_id="", topics=[topic]), 9)
    ticket = world.send(OffsetFetchRequestGroup(group_id="g", topics=None), 9)
    assert not ticket.is_answered
    world.commit_log()
    assert ticket.response.topics[0].partitions[0].committed_offset == 1


def test_offsets_of_a_transaction_apply_when_it_ends() -> None:
    world = GroupWorld()
    world.commit({T0: 1})
    assert world.commit_in_transaction(7, {T0: 2}) == {error_codes.NONE}
    assert world.fetch() == {T0: 1}
    assert world.fetch({"t": [0]}, require_stable=True) == {T0: -error_codes.UNSTABLE_OFFSET_COMMIT}
    assert world.fetch(require_stable=True) == {T0: -error_codes.UNSTABLE_OFFSET_COMMIT}
    world.end_transaction(7, commit=True)
    assert world.fetch(require_stable=True) == {T0: 2}


def test_offsets_of_an_aborted_transaction_are_dropped() -> None:
    world = GroupWorld()
    world.commit_in_transaction(7, {T0: 2})
    assert world.fetch({"t": [0]}, require_stable=True) == {T0: -error_codes.UNSTABLE_OFFSET_COMMIT}
    world.end_transaction(7, commit=False)
    assert world.fetch({"t": [0]}, require_stable=True) == {T0: -1}


def test_a_commit_after_that_of_a_transaction_stands() -> None:
    world = GroupWorld()
    world.commit_in_transaction(7, {T0: 2})
    world.commit({T0: 3})
    world.end_transaction(7, commit=True)
    assert world.fetch() == {T0: 3}


def test_transactions_of_several_producers_do_not_touch_each_other() -> None:
    world = GroupWorld()
    world.commit_in_transaction(7, {T0: 2})
    world.commit_in_transaction(8, {T0: 3, ("t", 1): 4})
    world.end_transaction(8, commit=False)
    assert world.fetch({"t": [0, 1]}, require_stable=True) == {
        T0: -error_codes.UNSTABLE_OFFSET_COMMIT,
        ("t", 1): -1,
    }
    world.end_transaction(7, commit=True)
    assert world.fetch() == {T0: 2}
    assert world.coordinator.shard.open_transactions == {}


def test_pending_offsets_survive_a_restart() -> None:
    world = GroupWorld()
    world.commit_in_transaction(7, {T0: 2})
    world.restart()
    assert world.fetch({"t": [0]}, require_stable=True) == {T0: -error_codes.UNSTABLE_OFFSET_COMMIT}
    world.end_transaction(7, commit=True)
    world.restart()
    assert world.fetch() == {T0: 2}


def test_a_marker_of_a_transaction_that_committed_no_offsets_does_nothing() -> None:
    world = GroupWorld()
    world.end_transaction(7, commit=True)
    assert world.fetch() == {}


@pytest.mark.parametrize(
    ("member", "generation_id", "error"),
    [
        (True, 1, error_codes.NONE),
        (True, 0, error_codes.ILLEGAL_GENERATION),
        (False, 1, error_codes.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_transaction_of_a_member_is_checked(member: bool, generation_id: int, error: int) -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1)
    identity = member_id if member else "x"
    assert world.commit_in_transaction(7, {T0: 2}, identity, generation_id) == {error}


def test_a_transaction_that_names_no_member_is_not_checked() -> None:
    world = GroupWorld()
    world.stable_group(1)
    assert world.commit_in_transaction(7, {T0: 2}) == {error_codes.NONE}
    assert world.commit_in_transaction(7, {T0: 2}, generation_id=3, group_id="other") == {
        error_codes.ILLEGAL_GENERATION
    }
    assert world.commit_in_transaction(7, {T0: 2}, group_id="") == {error_codes.INVALID_GROUP_ID}


def test_offsets_of_the_oldest_brokers_are_read() -> None:
    world = GroupWorld()
    world.load(
        GroupRecord(
            LegacyOffsetCommitKey(group="g", topic="t", partition=0),
            LegacyOffsetCommitValue(offset=4, metadata="old", commit_timestamp=1),
            0,
        )
    )
    response = world.send(OffsetFetchRequestGroup(group_id="g", topics=None), 9).response
    (position,) = response.topics[0].partitions
    assert (position.committed_offset, position.committed_leader_epoch, position.metadata) == (4, -1, "old")
