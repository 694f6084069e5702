"""The states of share partitions: begun, changed, fenced, read again after a restart, deleted."""

from typing import NamedTuple

import pytest
from share_coordinator_world import KEY, MONOTONIC_LAG_MS, OTHER, TOPIC, ShareCoordinatorWorld

from kpybroker.machines.coordination.sweeps import PAUSE_MS
from kpybroker.machines.journal import EventTooLarge, ProducerEpoch
from kpybroker.machines.share_coordinator.events import Prune, ShareTimersDue
from kpybroker.machines.share_coordinator.key import SharePartitionKey
from kpybroker.machines.share_coordinator.record import ShareSnapshot, ShareStateEnd, Update
from kpywire import error_codes


def test_a_state_is_read_as_it_was_written(world: ShareCoordinatorWorld) -> None:
    world.initialize(start_offset=10)
    world.write((10, 14, 2, 1), (15, 19, 0, 2), leader_epoch=3)
    found = world.read(leader_epoch=3)
    assert (found.error_code, found.state_epoch, found.start_offset) == (0, 1, 10)
    batches = [(each.first_offset, each.last_offset, each.delivery_state) for each in found.state_batches]
    assert batches == [(10, 14, 2), (15, 19, 0)]


def test_a_state_is_the_same_after_a_restart(world: ShareCoordinatorWorld) -> None:
    world.initialize()
    world.read(leader_epoch=2)
    world.write((0, 3, 2, 1), leader_epoch=2, start_offset=2)
    before = world.states[KEY].current
    world.restart()
    assert world.states[KEY].current == before
    assert world.write(leader_epoch=1).error_code == error_codes.FENCED_LEADER_EPOCH


def test_a_new_leader_fences_the_one_before_it(world: ShareCoordinatorWorld) -> None:
    world.initialize()
    assert world.read(leader_epoch=5).error_code == error_codes.NONE
    assert world.write((0, 3, 2, 1), leader_epoch=4).error_code == error_codes.FENCED_LEADER_EPOCH
    assert world.read(leader_epoch=4).error_code == error_codes.FENCED_LEADER_EPOCH
    assert world.write((0, 3, 2, 1), leader_epoch=5).error_code == error_codes.NONE


def test_a_state_that_began_again_fences_the_writer_of_the_one_before(world: ShareCoordinatorWorld) -> None:
    world.initialize(state_epoch=4)
    world.write((0, 3, 2, 1), state_epoch=4)
    world.initialize(state_epoch=5, start_offset=100)
    assert world.write((4, 5, 2, 1), state_epoch=4).error_code == error_codes.FENCED_STATE_EPOCH
    assert world.initialize(state_epoch=4).error_code == error_codes.FENCED_STATE_EPOCH
    found = world.read(leader_epoch=0)
    assert (found.start_offset, found.state_batches) == (100, [])


def test_after_a_number_of_updates_there_is_a_snapshot() -> None:
    world = ShareCoordinatorWorld(updates_per_snapshot=2)
    world.initialize()
    for offset in range(5):
        world.write((offset, offset, 2, 1))
    assert [type(each) for each in world.records] == [ShareSnapshot, Update, Update, ShareSnapshot, Update, Update]
    assert world.read(leader_epoch=0).state_batches[0].last_offset == 4


def test_the_log_can_be_cut_below_the_oldest_snapshot() -> None:
    world = ShareCoordinatorWorld(updates_per_snapshot=1)
    other = SharePartitionKey("g", OTHER, 1)
    world.initialize()
    assert world.cut() is None
    world.initialize(other)
    world.write((0, 0, 2, 1))
    world.write((1, 1, 2, 1))
    assert world.cut() == 1
    world.delete(other)
    assert world.cut() == 3
    before = world.states[KEY].current
    world.restart()
    assert world.states.keys() == {KEY}
    assert world.states[KEY].current == before


def test_a_cold_share_partition_does_not_hold_back_the_log() -> None:
    world = ShareCoordinatorWorld(cold_snapshot_interval_ms=1_000, updates_per_snapshot=1)
    cold = SharePartitionKey("g", OTHER, 1)
    world.initialize(cold)
    for offset in range(6):
        world.now_ms += 400
        world.initialize() if not offset else world.write((offset, offset, 2, 1))
        world.run_timers()
    assert world.states[cold].current.snapshot_epoch > 0
    assert (world.cut() or 0) > 1
    world.restart()
    assert world.states.keys() == {KEY, cold}


def test_when_all_are_cold_nothing_is_written() -> None:
    world = ShareCoordinatorWorld(cold_snapshot_interval_ms=1_000)
    world.initialize()
    for _ in range(5):
        world.now_ms += 1_000
        world.run_timers()
    assert [type(each) for each in world.records] == [ShareSnapshot, ShareSnapshot]


def test_the_states_of_a_deleted_topic_go_with_it(world: ShareCoordinatorWorld) -> None:
    kept = SharePartitionKey("g", OTHER, 0)
    for key in (KEY, SharePartitionKey("h", TOPIC, 1), kept):
        world.initialize(key)
    world.delete_topics(TOPIC)
    assert world.states.keys() == {kept}
    assert sum(isinstance(each, ShareStateEnd) for each in world.records) == 2


def test_a_deletion_and_a_cold_snapshot_at_once_leave_nothing() -> None:
    world = ShareCoordinatorWorld(cold_snapshot_interval_ms=1_000)
    world.initialize()
    world.now_ms += 2_000
    world.delete_topics(TOPIC)
    assert not world.states
    assert isinstance(world.records[-1], ShareStateEnd)


def test_many_states_are_deleted_in_more_than_one_batch() -> None:
    world = ShareCoordinatorWorld(max_batch_bytes=2_000)
    for number in range(50):
        world.initialize(SharePartitionKey(f"g{number}", TOPIC, 0))
    world.delete_topics(TOPIC)
    assert not world.states


def test_a_write_that_does_not_fit_into_the_log_is_refused() -> None:
    world = ShareCoordinatorWorld(max_batch_bytes=500)
    world.initialize()
    batches = [(offset, offset, 2, 1) for offset in range(0, 100, 2)]
    assert world.write(*batches).error_code == error_codes.UNKNOWN_SERVER_ERROR
    assert not world.coordinator.decide(EventTooLarge(Prune(0)), 0).replies
    assert world.write(batches[0]).error_code == error_codes.NONE


def test_a_share_partition_without_a_state(world: ShareCoordinatorWorld) -> None:
    assert world.write().error_code == error_codes.INVALID_REQUEST
    assert world.read().error_code == error_codes.INVALID_REQUEST
    assert world.delete().error_code == error_codes.NONE
    summary = world.read_summary()
    assert (summary.error_code, summary.start_offset, summary.delivery_complete_count) == (0, -1, -1)
    assert not world.log


def test_an_update_whose_snapshot_was_cut_off_the_log_begins_a_state(world: ShareCoordinatorWorld) -> None:
    world.initialize(state_epoch=3, start_offset=7)
    world.read(leader_epoch=2)
    world.write((7, 9, 2, 1), state_epoch=3, leader_epoch=2, start_offset=7, delivery_complete_count=3)
    world.log_start = 1
    world.restart()
    found = world.states[KEY].current
    assert (found.state_epoch, found.leader_epoch, found.start_offset) == (0, 2, 7)
    assert (found.delivery_complete_count, found.create_timestamp_ms, found.write_timestamp_ms) == (3, 0, 0)
    assert world.read(leader_epoch=1).error_code == error_codes.FENCED_LEADER_EPOCH


def test_a_state_that_is_written_during_the_search_for_cold_ones_is_not_written_again() -> None:
    world = ShareCoordinatorWorld(cold_snapshot_interval_ms=1_000, max_batch_bytes=2_000)
    keys = [SharePartitionKey(f"g{number}", TOPIC, 0) for number in range(12)]
    for key in keys:
        world.initialize(key)
    before = len(world.log)
    world.now_ms += 1_000
    due_ms = world.coordinator.next_deadline_ms()
    assert due_ms is not None
    decided = world.coordinator.decide(ShareTimersDue(world.now_ms), due_ms)
    in_a_slice = len(decided.records)
    assert [each.key for each in decided.records] == keys[:in_a_slice] != keys
    assert world.coordinator.next_deadline_ms() == due_ms + PAUSE_MS, "the rest of it comes in a moment"
    world.initialize(keys[-1], state_epoch=2)
    world.run_timers()
    written = world.records[before:]
    assert [each.key for each in written] == [keys[-1], *keys[in_a_slice:-1]]


def test_cold_states_are_searched_once_in_each_interval() -> None:
    world = ShareCoordinatorWorld(cold_snapshot_interval_ms=1_000)
    first_ms = world.coordinator.next_deadline_ms()
    assert first_ms == world.now_ms - MONOTONIC_LAG_MS + 1_000
    world.initialize()
    world.now_ms += 900
    world.run_timers()
    assert len(world.log) == 1
    world.now_ms += 100
    world.run_timers()
    assert len(world.log) == 2
    assert world.coordinator.next_deadline_ms() == first_ms + 1_000


class Unknown(NamedTuple):
    timestamp_ms: int = 0


def test_an_input_that_is_none_of_the_coordinators_is_a_defect(world: ShareCoordinatorWorld) -> None:
    with pytest.raises(TypeError, match="Unknown"):
        world.coordinator.decide(Unknown(), 0)
    with pytest.raises(ValueError, match="producer 7 at offset 3"):
        world.coordinator.apply_marker(ProducerEpoch(7, 0), 3, commit=True)
