"""Replicas whose logs begin in the middle: followers of a leader that has the beginning in the store, and leaders that
lost their disks."""

import logging
from typing import Any

import pytest
from tiered_replicas import TieredReplicas

from kpybroker.machines.errors import KafkaError
from kpybroker.requests.handlers import describe_log_dirs
from kpybroker.runtime.calls.steps import at_once
from kpystorage.errors import NotMade
from kpystorage.remote.indexes import IndexType
from kpywire import error_codes
from kpywire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kpywire.messages.fetch import FetchResponse
from kpywire.messages.list_offsets import ListOffsetsRequest
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from tests.replication.replica_world import TOPIC, TOPIC_ID

QUICK_MS = 100


def three_segments(world: TieredReplicas, node_id: int = 1, index: int = 0) -> int:
    """Write three closed segments and an open one; the end of the log."""
    node, end = world.nodes[node_id], 0
    for sequence in range(3):
        node.produce(5, index, producer_id=7, producer_epoch=0, base_sequence=sequence * 5)
        node.produce(5, index)
        world.roll(node_id, index)
    end = node.produce(3, index)
    world.run(QUICK_MS)
    return end


def tiered(world: TieredReplicas, *, gone: int = 2, index: int = 0) -> int:
    """Have the leader's oldest segments in the store alone; the end of its log."""
    end = three_segments(world, index=index)
    world.copy(1, index)
    world.leave_disk(1, gone, index)
    return end


def with_new_replica(world: TieredReplicas) -> None:
    """Have node 2 come back without its disk."""
    world.lose_disk(2)
    world.tell_isr(1)
    world.nodes[2].start()


def assert_same(world: TieredReplicas, index: int = 0) -> None:
    """Both nodes have the same records from the follower's local start on, and the same state."""
    leader, follower = world.nodes[1].log(index), world.nodes[2].log(index)
    assert follower.end.offset == leader.end.offset
    assert follower.log_start_offset == leader.log_start_offset
    assert follower.epochs.entries() == leader.epochs.entries()
    assert sorted(follower.producers.snapshot()) == sorted(leader.producers.snapshot())
    assert world.contents(1, index).endswith(world.contents(2, index))
    assert world.nodes[2].high_watermark(index) == world.nodes[1].high_watermark(index)


def test_a_new_replica_begins_where_its_leaders_disk_begins() -> None:
    world = TieredReplicas()
    tiered(world)
    with_new_replica(world)
    world.settle()
    log = world.nodes[2].log()
    assert (log.log_start_offset, log.local_log_start_offset, log.end.offset) == (0, 20, 33)
    assert_same(world)
    assert world.figures.of(TOPIC).aux_states == 1
    assert world.figures.of(TOPIC).aux_state_errors == 0


def test_it_joins_the_in_sync_set_and_leads_with_its_part() -> None:
    world = TieredReplicas()
    end = tiered(world, gone=3)
    with_new_replica(world)
    world.settle()
    assert sorted(world.nodes[1].replica().partition.isr) == [1, 2]
    world.lead(2)
    world.run(QUICK_MS)
    assert world.nodes[2].produce(1) == end + 1
    world.settle()
    assert_same(world)
    repeated = world.nodes[2].produce(5, producer_id=7, producer_epoch=0, base_sequence=10)
    assert repeated == 25, "the batch is known from the producers of the store"


def test_a_replica_that_was_away_too_long_drops_its_part() -> None:
    world = TieredReplicas()
    world.nodes[1].produce(4)
    world.settle()
    world.nodes[2].stop()
    world.tell_isr(1)
    tiered(world)
    world.nodes[2].start()
    world.settle()
    assert world.nodes[2].log().local_log_start_offset == 24
    assert_same(world)


@pytest.mark.parametrize("power_fails", [False, True])
def test_a_log_that_began_in_the_middle_outlives_its_node(power_fails: bool) -> None:
    world = TieredReplicas()
    tiered(world)
    with_new_replica(world)
    world.settle()
    world.nodes[2].kill(power_fails=power_fails)
    world.nodes[2].start()
    world.settle()
    assert_same(world)
    assert world.nodes[2].log().log_start_offset == 0


def test_other_partitions_are_fetched_while_one_waits_for_the_store() -> None:
    world = TieredReplicas(partitions=2)
    tiered(world)
    world.store.fails = "the store is away"
    with_new_replica(world)
    world.settle(10_000)
    world.nodes[1].produce(2, 1)
    world.run(600)
    assert world.nodes[2].log(1).end.offset == 2
    assert world.nodes[2].log().end.offset == 0
    assert 5 < world.figures.of(TOPIC).aux_state_errors < 25, "it is tried again after longer and longer pauses"
    world.store.fails = ""
    world.settle()
    assert_same(world)


def test_nothing_is_dropped_while_the_store_is_away(caplog: pytest.LogCaptureFixture) -> None:
    world = TieredReplicas()
    world.nodes[1].produce(4)
    world.settle()
    world.nodes[2].stop()
    world.tell_isr(1)
    tiered(world)
    world.store.fails = "the store is away"
    with caplog.at_level(logging.WARNING, "kpybroker.replication"):
        world.nodes[2].start()
        world.settle()
    assert world.nodes[2].log().end.offset == 4
    assert caplog.messages.count("t-0 cannot begin in the middle yet, this is tried again: the store is away") == 1


def test_a_damaged_index_is_not_believed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kpybroker.replication")
    world = TieredReplicas()
    tiered(world)
    whole = dict(world.store.indexes)
    world.store.indexes = {
        key: each[:-1] if key[1] is IndexType.PRODUCER_SNAPSHOT else each for key, each in whole.items()
    }
    with_new_replica(world)
    world.settle()
    assert world.nodes[2].log().end.offset == 0
    assert any("damaged: the producer snapshot of the segment at offset 10 of t-0" in each for each in caplog.messages)
    world.store.indexes = {
        key: b"0\n1\n-4 0\n" if key[1] is IndexType.LEADER_EPOCH else each for key, each in whole.items()
    }
    world.settle()
    assert world.nodes[2].log().end.offset == 0
    world.store.indexes = {}
    world.settle()
    assert any("there is no leaderEpoch" in each for each in caplog.messages)
    world.store.indexes = whole
    world.settle()
    assert_same(world)


def test_metadata_that_are_not_read_are_waited_for() -> None:
    world = TieredReplicas()
    tiered(world)
    with_new_replica(world)
    world.are_metadata_read = False
    world.settle()
    assert world.nodes[2].log().end.offset == 0
    world.are_metadata_read = True
    world.settle()
    assert_same(world)


def test_an_answer_for_a_role_that_ended_changes_nothing() -> None:
    """The leadership changes at each millisecond of the attempt."""
    for after_ms in range(1, 30):
        world = TieredReplicas()
        tiered(world)
        with_new_replica(world)
        world.run(after_ms)
        world.lead(1)  # the next epoch
        world.nodes[1].produce(1)
        world.settle()
        assert_same(world)


def test_an_answer_of_the_store_for_a_follower_does_not_touch_the_log_of_a_leader() -> None:
    world = TieredReplicas()
    tiered(world)
    with_new_replica(world)
    world.held = []
    world.settle()
    (late,), world.held = world.held, None
    world.lead(2)  # which is not in sync
    world.settle()
    assert world.nodes[2].produce(5) == 35
    late()
    world.settle()
    assert world.nodes[2].log().end.offset == 35


def test_a_lost_connection_ends_the_attempt_and_the_next_one_succeeds() -> None:
    for after_ms in range(1, 30):
        world = TieredReplicas()
        tiered(world)
        with_new_replica(world)
        world.run(after_ms)
        for way in list(world.ways):
            way.lose()
        world.settle()
        assert_same(world)


def test_a_node_dies_at_each_step_of_the_attempt() -> None:
    for after_ms in range(1, 30):
        world = TieredReplicas()
        tiered(world)
        with_new_replica(world)
        world.run(after_ms)
        world.nodes[2].kill(power_fails=after_ms % 2 == 0)
        world.nodes[2].start()
        world.settle()
        assert_same(world)


def test_a_fetch_below_the_leaders_disk_is_answered_as_kafka_does() -> None:
    world = TieredReplicas()
    tiered(world)
    world.nodes[1].log().advance_log_start(7)
    with_new_replica(world)
    leader, answers = world.nodes[1], []
    handle = leader.handle

    def noted(request: Any, call: Any) -> Any:
        answer = handle(request, call)
        if isinstance(answer, FetchResponse):
            answers.extend(each for topic in answer.responses for each in topic.partitions)
        return answer

    leader.handle = noted  # type: ignore[method-assign]
    world.settle()
    below, moved = answers[:2]
    assert below.error_code == error_codes.OFFSET_OUT_OF_RANGE
    assert below.high_watermark == -1
    assert moved.error_code == error_codes.OFFSET_MOVED_TO_TIERED_STORAGE
    assert (moved.high_watermark, moved.last_stable_offset, moved.log_start_offset) == (33, -1, 7)
    assert moved.records == b""
    assert all(each.error_code == 0 for each in answers[2:])


def test_the_position_of_a_replica_below_the_leaders_disk_is_not_noted() -> None:
    world = TieredReplicas()
    tiered(world)
    world.store.fails = "the store is away"
    with_new_replica(world)
    world.nodes[1].stop()
    world.nodes[1].start()
    world.settle()
    leader = world.nodes[1].replica().led()
    assert leader.in_sync.follower(2, knows_epoch=True).log_end.offset < 0
    assert leader.high_watermark.offset == 33


def test_below_the_log_start_a_replica_begins_at_the_log_start_first() -> None:
    world = TieredReplicas()
    tiered(world)
    world.nodes[1].log().advance_log_start(12)
    with_new_replica(world)
    world.settle()
    assert world.nodes[2].log().log_start_offset == 12
    assert world.nodes[2].log().local_log_start_offset == 20
    assert_same(world)


@pytest.mark.parametrize("log_start", [0, 5])
def test_an_empty_replica_asks_for_the_offset_to_be_copied_next(log_start: int) -> None:
    """follower.fetch.last.tiered.offset.enable, as the leader's records are gone from its disk, or from the log."""
    world = TieredReplicas(overrides={"follower.fetch.last.tiered.offset.enable": "true"})
    tiered(world)
    world.nodes[1].log().advance_log_start(log_start)
    with_new_replica(world)
    world.requests.clear()
    world.settle()
    asked = [
        request.topics[0].partitions[0].timestamp
        for asks, _, request in world.requests
        if asks == 2 and isinstance(request, ListOffsetsRequest)
    ]
    assert asked == [-1, -2, -6]
    log = world.nodes[2].log()
    assert (log.log_start_offset, log.local_log_start_offset, log.end.offset) == (log_start, 30, 33)
    assert_same(world)


# Leaders without records.


def without_disk(world: TieredReplicas) -> None:
    """Have node 1, the only one in sync, come back without its disk; it leads in the next epoch."""
    world.tell_isr(1)
    world.lose_disk(1)
    world.lead(1)
    world.nodes[1].start()


def refusal(world: TieredReplicas, index: int = 0) -> int | None:
    try:
        world.nodes[1].replica(index).led()
    except KafkaError as error:
        return error.code
    return None


def test_a_leader_that_lost_its_disk_begins_behind_the_store(caplog: pytest.LogCaptureFixture) -> None:
    world = TieredReplicas(1)
    tiered(world)
    before = world.nodes[1].log().epochs.entries()
    without_disk(world)
    world.run(QUICK_MS)
    log = world.nodes[1].log()
    assert (log.log_start_offset, log.local_log_start_offset, log.end.offset) == (0, 30, 30)
    assert world.nodes[1].high_watermark() == 30
    assert log.epochs.entries() == [*before, (1, 30)]
    assert [each.producer_id for each in log.producers.snapshot()] == [7]
    (line,) = caplog.messages
    assert line.startswith("1 logs were empty though the store has their partitions, and begin behind it now.")
    assert world.nodes[1].produce(1) == 31


def test_it_serves_nothing_before_the_metadata_are_read() -> None:
    world = TieredReplicas(1)
    tiered(world)
    world.are_metadata_read = False
    without_disk(world)
    world.settle()
    assert refusal(world) == error_codes.NOT_LEADER_OR_FOLLOWER
    world.are_metadata_read = True
    world.run(200)
    assert world.nodes[1].replica().leader is not None, "its role begins though there is no request"
    assert world.nodes[1].produce(1) == 31


def test_it_waits_for_a_store_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    world = TieredReplicas(1)
    tiered(world)
    world.store.fails = "the store is away"
    without_disk(world)
    world.settle(60_000)
    assert refusal(world) == error_codes.NOT_LEADER_OR_FOLLOWER
    assert world.store.asked < 30, "it is asked after longer and longer pauses"
    line = "t-0 is not led yet, its log is empty and the store has it: the store is away"
    assert caplog.messages.count(line) == 1
    world.store.fails = ""
    world.settle(11_000)
    assert world.nodes[1].produce(1) == 31


def test_a_new_topic_is_led_at_once_where_the_metadata_are_read() -> None:
    world = TieredReplicas(1)
    assert world.nodes[1].produce(1) == 1
    assert world.store.asked == 0


def test_a_log_with_records_is_led_at_once() -> None:
    world = TieredReplicas(1)
    end = tiered(world)
    world.nodes[1].stop()
    world.are_metadata_read = False
    world.lead(1)
    world.nodes[1].start()
    assert world.nodes[1].produce(1) == end + 1


def test_a_change_of_epoch_begins_the_step_again() -> None:
    for after_ms in range(5):
        world = TieredReplicas(1)
        tiered(world)
        world.are_metadata_read = False
        without_disk(world)
        world.run(after_ms)
        world.are_metadata_read = True
        world.lead(1)
        world.settle()
        assert world.nodes[1].produce(1) == 31
        assert world.nodes[1].log().epochs.latest == 2


def test_a_follower_goes_on_behind_a_leader_that_lost_its_disk() -> None:
    world = TieredReplicas()
    tiered(world)
    without_disk(world)
    world.settle()
    assert world.nodes[2].log().end.offset == 30, "what was not copied is lost with the leader's disk"
    world.nodes[1].produce(4)
    world.settle()
    assert_same_offsets(world)


def assert_same_offsets(world: TieredReplicas) -> None:
    one, other = world.nodes[1].log(), world.nodes[2].log()
    assert (one.end.offset, one.log_start_offset) == (other.end.offset, other.log_start_offset) == (34, 0)
    assert one.epochs.entries() == other.epochs.entries()


def test_an_empty_disk_serves_many_partitions_soon() -> None:
    world = TieredReplicas(1, partitions=300)
    for index in range(300):
        world.nodes[1].produce(2, index)
        world.roll(1, index)
        world.copy(1, index)
    without_disk(world)
    world.settle()
    assert [world.nodes[1].produce(1, index) for index in range(300)] == [3] * 300
    assert world.store.asked == 600


def files_of(world: TieredReplicas, index: int = 0) -> list[str]:
    """The names of a partition's directories on the disk of node 1."""
    names = world.nodes[1].disk.list_directory("/data")
    return [name for name in names if name.partition(".")[0] == f"t-{index}"]


def test_its_log_has_no_files_while_others_begin() -> None:
    world = TieredReplicas(1, partitions=300)
    for index in range(300):
        world.nodes[1].produce(2, index)
        world.roll(1, index)
        world.copy(1, index)
    without_disk(world)
    node = world.nodes[1]
    while any(node.replica(index).role is None for index in range(300)):
        world.run(1)
        begun = [index for index in range(300) if node.replica(index).role is not None]
        assert not any(files_of(world, index) for index in begun)
    assert {node.log(index).end.offset for index in range(300)} == {2}
    world.settle()
    assert all(files_of(world, index) == [f"t-{index}"] for index in range(300))


def begun_without_files(world: TieredReplicas) -> None:
    """Run until node 1, whose disk was lost, leads again."""
    without_disk(world)
    while world.nodes[1].replica().role is None:
        world.run(1)
    assert files_of(world) == []


def test_a_producer_that_comes_first_has_the_files_made() -> None:
    world = TieredReplicas(1)
    tiered(world)
    begun_without_files(world)
    with pytest.raises(NotMade) as refused:
        world.nodes[1].produce(1)
    assert refused.value.error_code == error_codes.NOT_LEADER_OR_FOLLOWER
    world.run(10)
    assert files_of(world) == ["t-0"]
    assert world.nodes[1].produce(1) == 31
    assert [each.producer_id for each in world.nodes[1].log().producers.snapshot()] == [7]


def test_a_log_start_moves_when_the_files_are_made() -> None:
    world = TieredReplicas(1)
    tiered(world)
    begun_without_files(world)
    moved: list[bool] = []
    world.nodes[1].replicas.move_log_start(world.nodes[1].replica(), 12, lambda: moved.append(True))
    assert (moved, world.nodes[1].log().log_start_offset) == ([], 0)
    world.settle()
    assert (moved, world.nodes[1].log().log_start_offset) == ([True], 12)


def test_files_of_a_role_that_has_ended_become_no_log() -> None:
    world = TieredReplicas(1)
    tiered(world)
    begun_without_files(world)
    with pytest.raises(NotMade):
        world.nodes[1].produce(1)
    world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=-1))
    world.settle()
    assert files_of(world) == []
    world.lead(1)
    world.settle()
    assert world.nodes[1].produce(1) == 31


def test_its_directory_lists_it_while_it_has_no_files() -> None:
    world = TieredReplicas(1)
    tiered(world)
    begun_without_files(world)
    node = world.nodes[1]
    request = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="t", partitions=[0])])
    response = at_once(describe_log_dirs.handle(node, request, None))  # type: ignore[arg-type]
    found = {each.log_dir: [part for topic in each.topics for part in topic.partitions] for each in response.results}
    assert [(part.partition_index, part.partition_size) for part in found["/data"]] == [(0, 0)]


def test_it_moves_to_another_directory_once_its_files_are_made() -> None:
    world = TieredReplicas(1, directories=2)
    tiered(world)
    begun_without_files(world)
    node = world.nodes[1]
    with pytest.raises(KafkaError) as refused:
        node.moves.move(node.replicas, "t", 0, "/more")
    assert refused.value.code == error_codes.REPLICA_NOT_AVAILABLE
    world.settle()
    node.moves.move(node.replicas, "t", 0, "/more")
    world.settle()
    assert node.log().directory.path == "/more"
    assert node.produce(1) == 31


def test_a_deleted_topic_leaves_no_files() -> None:
    world = TieredReplicas(1)
    tiered(world)
    begun_without_files(world)
    with pytest.raises(NotMade):
        world.nodes[1].produce(1)
    world.tell(RemoveTopicRecord(topic_id=TOPIC_ID))
    world.settle()
    assert files_of(world) == []


def test_a_stop_before_the_files_are_made_leaves_none() -> None:
    world = TieredReplicas(1)
    tiered(world)
    begun_without_files(world)
    world.nodes[1].stop()
    assert files_of(world) == []
    world.nodes[1].start()
    world.settle()
    assert world.nodes[1].produce(1) == 31


def test_a_disk_that_fails_meanwhile_takes_the_partition_offline() -> None:
    world = TieredReplicas(1)
    tiered(world)
    begun_without_files(world)
    world.nodes[1].disk.fail_at = world.nodes[1].disk.calls + 2
    with pytest.raises(NotMade):
        world.nodes[1].produce(1)
    world.run(QUICK_MS)
    assert world.nodes[1].replica().offline


def test_the_topic_of_the_world_is_tiered() -> None:
    world = TieredReplicas()
    assert world.nodes[1].replicas.by_id[TOPIC_ID].config.tier is not None
