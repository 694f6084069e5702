"""Offsets that are forgotten: by age, by deletion, and with their topic."""

import pytest
from group_world import GroupWorld, subscription

from kpybroker.machines.groups.record import GroupRecord
from kpywire import error_codes
from kpywire.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue

DAY_MS = 24 * 3_600_000
RETENTION_MS = 7 * DAY_MS
T0, U0 = ("t", 0), ("u", 0)


def keep_alive(world: GroupWorld, member_id: str, milliseconds: int, session_ms: int = 1_800_000) -> None:
    for _ in range(milliseconds // (session_ms // 2)):
        world.advance(session_ms // 2)
        assert world.heartbeat(member_id, 1) == error_codes.NONE


def test_offsets_of_a_group_without_members_expire_after_their_commit() -> None:
    world = GroupWorld()
    world.commit({T0: 1})
    world.advance(DAY_MS)
    world.commit({U0: 2})
    world.advance(RETENTION_MS - DAY_MS - 1)
    world.expire()
    assert world.fetch() == {T0: 1, U0: 2}
    world.advance(1)
    world.expire()
    assert world.fetch() == {U0: 2}
    world.advance(DAY_MS)
    world.expire()
    assert world.listed() == {}
    assert [record.value for record in world.records[-3:]] == [None, None, None]


def test_offsets_of_an_empty_group_expire_after_its_last_member() -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1, session_ms=1_800_000)
    world.commit({T0: 1}, member_id, 1)
    keep_alive(world, member_id, DAY_MS)
    world.leave((member_id, None))
    world.advance(RETENTION_MS - 1)
    world.expire()
    assert world.fetch() == {T0: 1}
    world.restart()
    world.advance(1)
    world.expire()
    assert world.listed() == {}


def test_offsets_of_unsubscribed_topics_expire_while_members_are_active() -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1, session_ms=1_800_000, protocols={"range": subscription("t")})
    world.commit({T0: 1, U0: 2}, member_id, 1)
    keep_alive(world, member_id, RETENTION_MS)
    world.expire()
    assert world.fetch() == {T0: 1}


@pytest.mark.parametrize(
    "options", [{"protocol_type": "connect"}, {"protocols": {"range": b""}}, {"protocols": {"range": b"\xff\xff"}}]
)
def test_offsets_stay_while_it_is_not_known_what_the_members_read(options: dict[str, object]) -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1, session_ms=1_800_000, **options)
    world.commit({T0: 1}, member_id, 1)
    keep_alive(world, member_id, RETENTION_MS)
    world.expire()
    assert world.fetch() == {T0: 1}


def test_an_empty_group_of_an_old_broker_that_does_not_say_since_when_goes_by_its_commits() -> None:
    world = GroupWorld()
    key = GroupMetadataKey(group="g")
    value = GroupMetadataValue(protocol_type="consumer", generation=3, protocol=None, leader=None, members=[])
    world.load(GroupRecord(key, value, 1))
    world.commit({T0: 1})
    world.advance(RETENTION_MS - 1)
    world.expire()
    assert world.fetch() == {T0: 1}
    world.advance(1)
    world.expire()
    assert world.listed() == {}


def test_looking_for_what_expires_wakes_no_empty_group() -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1)
    world.commit({T0: 1}, member_id, 1)
    world.leave((member_id, None))
    world.restart()
    world.expire()
    assert world.awake("g") is None


def test_a_client_may_say_when_its_offsets_expire() -> None:
    world = GroupWorld()
    world.commit({T0: 1}, retention_ms=5_000, version=4)
    assert world.records[-1].value_version == 1
    world.restart()
    world.advance(4_999)
    world.expire()
    assert world.fetch() == {T0: 1}
    world.advance(1)
    world.expire()
    assert world.fetch() == {}


def test_offsets_pending_in_a_transaction_do_not_expire() -> None:
    world = GroupWorld()
    world.commit({T0: 1})
    world.advance(RETENTION_MS)
    world.commit_in_transaction(7, {T0: 2})
    world.expire()
    assert world.fetch() == {T0: 1}
    world.end_transaction(7, commit=False)
    world.expire()
    assert world.listed() == {}


def test_an_empty_group_without_offsets_is_forgotten_but_not_one_that_somebody_is_about_to_join() -> None:
    world = GroupWorld()
    member_id = world.join().response.member_id
    world.expire()
    assert not world.join(member_id).is_answered
    world.advance(3_000)
    world.leave((member_id, None))
    world.expire()
    assert world.listed() == {}
    assert world.records[-1].value is None


def test_many_offsets_expire_in_batches_that_fit() -> None:
    world = GroupWorld()
    world.largest_batch = 10_000_000
    world.commit({("t", partition): 1 for partition in range(2_000)})
    world.largest_batch = 100_000
    world.advance(RETENTION_MS)
    world.expire()
    assert world.listed() == {}


def test_a_group_is_deleted_with_its_offsets() -> None:
    world = GroupWorld()
    world.commit({T0: 1, U0: 2})
    world.commit_in_transaction(7, {("v", 0): 3})
    assert world.delete() == error_codes.NONE
    assert world.listed() == {}
    assert world.fetch() == {}
    world.end_transaction(7, commit=True)
    world.restart()
    assert world.listed() == {}


def test_only_an_empty_group_is_deleted() -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1)
    assert world.delete() == error_codes.NON_EMPTY_GROUP
    world.leave((member_id, None))
    assert world.delete() == error_codes.NONE
    assert world.delete() == error_codes.GROUP_ID_NOT_FOUND


def test_a_group_with_too_many_offsets_for_a_batch_is_not_deleted_in_part() -> None:
    world = GroupWorld()
    world.commit({T0: 1, U0: 2})
    world.largest_batch = 10
    assert world.delete() == error_codes.UNKNOWN_SERVER_ERROR
    assert world.fetch() == {T0: 1, U0: 2}


def test_offsets_of_topics_that_are_read_are_not_deleted() -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1, protocols={"range": subscription("t")})
    world.commit({T0: 1, U0: 2}, member_id, 1)
    response = world.delete_offsets({"t": [0], "u": [0, 1]})
    errors = {topic.name: {each.error_code for each in topic.partitions} for topic in response.topics}
    assert errors == {"t": {error_codes.GROUP_SUBSCRIBED_TO_TOPIC}, "u": {error_codes.NONE}}
    assert world.fetch() == {T0: 1}


def test_offsets_of_members_that_are_no_consumers_are_not_deleted() -> None:
    world = GroupWorld()
    (member_id,) = world.stable_group(1, protocol_type="connect")
    world.commit({T0: 1}, member_id, 1)
    assert world.delete_offsets({"t": [0]}).error_code == error_codes.NON_EMPTY_GROUP
    world.leave((member_id, None))
    assert world.delete_offsets({"t": [0]}).error_code == error_codes.NONE
    assert world.fetch() == {}


@pytest.mark.parametrize(
    ("group_id", "error"), [("", error_codes.INVALID_GROUP_ID), ("other", error_codes.GROUP_ID_NOT_FOUND)]
)
def test_offsets_of_a_group_that_is_not_there_are_not_deleted(group_id: str, error: int) -> None:
    assert GroupWorld().delete_offsets({"t": [0]}, group_id).error_code == error


def test_offsets_go_with_their_topic() -> None:
    world = GroupWorld()
    for group_id in ("g", "h"):
        world.commit({T0: 1, ("t", 1): 1, U0: 2}, group_id=group_id)
    world.commit_in_transaction(7, {("t", 2): 3})
    world.delete_partitions({"t": range(3)})
    assert world.fetch(group_id="g") == world.fetch(group_id="h") == {U0: 2}
    world.end_transaction(7, commit=True)
    assert world.fetch() == {U0: 2}


def test_topics_that_come_and_go_quickly_are_forgotten_together() -> None:
    world = GroupWorld()
    for group_id in ("g", "h"):
        world.commit({T0: 1, ("t", 1): 1, U0: 2}, group_id=group_id)
    sweeps = world.coordinator.shard.sweeps.waiting
    for number in range(50):
        world.submit(world.deleted({"t": [0]}))
        world.submit(world.deleted({"u": [0]}))
        world.commit({("t", 1): number}, group_id="came later")
        world.submit(world.deleted({"t": [1]}))
        assert len(sweeps) <= 2, "the one that may have begun, and the next"
    world.commit({U0: 3}, group_id="h")
    world.finish_sweeps()
    assert world.fetch(group_id="g") == world.fetch(group_id="came later") == {}
    assert world.fetch(group_id="h") == {U0: 3}


def test_deleting_a_topic_without_offsets_writes_nothing() -> None:
    world = GroupWorld()
    world.commit({T0: 1})
    world.submit(world.deleted({"u": range(10_000)}))
    assert not world.coordinator.shard.sweeps.waiting
    world.delete_partitions({"t": [0]})
    world.commit_in_transaction(7, {U0: 3})
    world.delete_partitions({"u": [0]})
    world.end_transaction(7, commit=True)
    assert world.fetch() == {}


def test_offsets_of_a_topic_that_came_back_meanwhile_stay() -> None:
    world = GroupWorld()
    world.commit({T0: 1}, group_id="a")
    world.commit({T0: 1}, group_id="b")
    world.submit(world.deleted({"t": [0]}))
    world.commit({T0: 9}, group_id="b")
    world.finish_sweeps()
    assert world.fetch(group_id="a") == {}
    assert world.fetch(group_id="b") == {T0: 9}
