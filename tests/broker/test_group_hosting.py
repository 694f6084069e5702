"""Shards are loaded in slices, fed through their logs, and end with the leadership or the disk."""

import logging
from typing import Any

import pytest
from hosting_world import NODE, OTHER_NODE, PERIOD_MS, TOPIC, TOPIC_ID, Count, World, resolved

from kpybroker.hosts.coordinators.hosted_shard import HostedShard
from kpybroker.hosts.coordinators.loading import RECORDS_PER_STEP
from kpybroker.hosts.coordinators.placement import java_hash, partition_for
from kpybroker.hosts.coordinators.tickets import SLICE_MS
from kpybroker.machines.journal import ProducerEpoch
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import at_once
from kpybroker.runtime.io.scheduler import Pieces
from kpywire import error_codes
from kpywire.batch import MAGIC_POSITION, parse_header
from kpywire.control_record import control_batch, end_transaction
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.record import Record, build_batch, read_records

LOADING = ("error", error_codes.COORDINATOR_LOAD_IN_PROGRESS)
NOT_COORDINATOR = ("error", error_codes.NOT_COORDINATOR)
PRODUCER = ProducerEpoch(9, 3)


def write(world: World, *records: Record, index: int = 0, damage: bool = False, **batch: Any) -> None:
    """Put a batch into a log behind the coordinator's back."""
    leader = world.replica(index).led()
    data = bytearray(build_batch(records, **batch))
    if damage:
        data[-1] ^= 1
        base = leader.log.log_end_offset
        data[:8] = base.to_bytes(8, "big")
        leader.log.append((parse_header(data),), data, world.scheduler.now_ms())
    else:
        leader.append(memoryview(data), world.replica(index).topic.validation, world.scheduler.now_ms())


def count(key: str, number: int) -> Record:
    return Record(timestamp=1, key=key.encode(), value=str(number).encode())


def stored(world: World, index: int = 0) -> list[tuple[bytes | None, bytes | None]]:
    """The records of a log."""
    log = world.replica(index).led().log
    found = log.read(0, 1 << 20, log.end, min_one_batch=True)
    return [] if found is None else [(record.key, record.value) for record in read_records(found.read())]


# Loading


def test_a_new_topic_is_served_at_once_and_without_a_file() -> None:
    world = World()
    assert world.ask("get", "k") == NOT_COORDINATOR
    world.create(partitions=50)
    assert world.directory.logs == {}
    assert world.ask("put", "k") == 1
    assert list(world.directory.logs) == [(TOPIC, partition_for("k", 50))]


def test_written_state_is_there_after_a_restart() -> None:
    world = World()
    world.create()
    assert [world.ask("put", key) for key in ("a", "b", "a")] == [1, 1, 2]
    world = world.restart()
    world.create()
    assert world.ask("get", "a") == LOADING
    world.scheduler.run()
    assert [world.ask("get", key) for key in ("a", "b", "c")] == [2, 1, 0]
    assert [what for what, *_ in world.machine.seen] == ["loaded"]


def test_a_log_that_is_empty_on_disk_is_not_opened() -> None:
    world = World()
    world.create(partitions=3)
    for index in range(3):
        world.replica(index).led()
    world = world.restart()
    world.create(partitions=3)
    assert world.ask("get", "k") == 0
    assert not any(log.is_open for log in world.directory.logs.values())


def test_a_long_log_is_loaded_a_slice_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.create()
    for _ in range(500):
        world.ask("put", "k")
    world = world.restart(load_bytes=1_000)
    world.create()
    world.create(name="t", topic_id=bytes(16 * [7]))

    # Every look at the clock takes a millisecond, so a slice is over after a few records.
    passed_ms = 0.0

    def monotonic_ms() -> float:
        nonlocal passed_ms
        passed_ms += 1
        return passed_ms

    monkeypatch.setattr(world.scheduler, "monotonic_ms", monotonic_ms)
    turns, longest = 0, 0
    while world.scheduler._soon:
        before = len(world.machine.counts) and world.machine.counts["k"]
        callback, arguments = world.scheduler._soon.popleft()
        callback(*arguments)
        longest = max(longest, world.machine.counts.get("k", 0) - before)
        turns += 1
        if world.machine.counts.get("k", 0) < 500:
            assert world.ask("get", "k") == LOADING
    assert world.ask("get", "k") == 500
    assert longest <= SLICE_MS * RECORDS_PER_STEP
    assert turns > 500 // longest


def test_the_smallest_log_is_loaded_first() -> None:
    world = World()
    world.create(partitions=2)
    for _ in range(200):
        world.ask("put", "k")
    large = partition_for("k", 2)
    small_key = next(key for key in "abcdef" if partition_for(key, 2) != large)
    world.ask("put", small_key, key=small_key)
    world = world.restart(load_bytes=500)
    world.create(partitions=2)
    while world.ask("get", small_key, key=small_key) == LOADING:
        assert world.ask("get", "k") == LOADING
        callback, arguments = world.scheduler._soon.popleft()
        callback(*arguments)
    assert world.ask("get", "k") == LOADING


def test_records_of_unknown_types_are_skipped_and_damage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.create()
    write(world, count("k", 1), count("?new", 5), count("!a", 1), count("!b", 1), count("k", 2))
    write(world, count("k", 3), damage=True)
    write(world, count("l", 4))
    world = world.restart()
    world.create()
    with caplog.at_level(logging.ERROR, "kpybroker.hosting"):
        world.scheduler.run()
    assert [world.ask("get", key) for key in ("k", "l")] == [2, 4]
    (line,) = [record.message for record in caplog.records]
    assert line == f"{TOPIC}-0: 3 damaged records were left out, the first is a record at offset 2: a damaged key"
    assert world.ask("put", "k") == 3


def test_a_log_that_cannot_be_followed_gives_up_its_shard_only(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.create(partitions=2)
    for key in ("a", "b", "a"):
        world.ask("put", key, key=key)
    lost = partition_for("a", 2)
    world = world.restart()
    world.create(partitions=2)
    second_batch = world.replica(lost).led().log.position_of(1).position
    world.disk.file(f"/data/{TOPIC}-{lost}/{0:020d}.log").pwrite(b"\x01", second_batch + MAGIC_POSITION)
    with caplog.at_level(logging.ERROR, "kpybroker.hosting"):
        world.scheduler.run()
    (line,) = [record.message for record in caplog.records]
    assert line.startswith(f"{TOPIC}-{lost} cannot be loaded: no batch can begin")
    assert world.ask("get", "a", key="a") == NOT_COORDINATOR
    assert world.ask("get", "b", key="b") == 1
    assert not world.halted


def test_transactions_in_the_log_count_when_they_are_committed() -> None:
    world = World()
    world.create()
    world.ask("put", "k")
    for producer_id, key, commit in ((1, "yes", True), (2, "no", False), (3, "open", None)):
        leader = world.replica().led()
        batch = build_batch(
            [count(key, 7)],
            base_offset=leader.log.log_end_offset,
            partition_leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        append(world, batch)
        if commit is not None:
            marker = end_transaction(commit=commit, coordinator_epoch=0)
            append(
                world,
                control_batch([marker], leader.log.log_end_offset, 0, 1, producer_id=producer_id, producer_epoch=0),
            )
    world = world.restart()
    world.create()
    world.scheduler.run()
    assert [world.ask("get", key) for key in ("k", "yes", "no", "open")] == [1, 7, 0, 0]
    assert list(world.machine.pending) == [ProducerEpoch(3, 0)]


def append(world: World, batch: bytes) -> None:
    leader = world.replica().led()
    leader.log.append((parse_header(batch),), batch, world.scheduler.now_ms())
    leader.advance_high_watermark()


def test_no_shard_is_loaded_before_the_node_has_started() -> None:
    world = World()
    world.create()
    world.ask("put", "k")
    world = world.restart(start=False)
    world.create()
    world.scheduler.run()
    assert world.ask("get", "k") == LOADING
    world.coordinator.start()
    world.scheduler.run()
    assert world.ask("get", "k") == 1


# Inputs


def test_a_batch_on_behalf_of_a_transaction_is_the_producers() -> None:
    world = World()
    world.create()
    assert world.ask("put", "k", PRODUCER) == ("error", error_codes.INVALID_TXN_STATE)
    leader = world.replica().led()
    verification = leader.verifications.begin(PRODUCER.producer_id, PRODUCER.producer_epoch, -1, 0, bumps_epoch=True)
    assert world.ask("put", "k", PRODUCER) == ("error", error_codes.INVALID_TXN_STATE)
    verification.verified = True
    assert world.ask("put", "k", PRODUCER) == 1
    assert leader.last_stable_offset().offset == 0 < leader.high_watermark.offset
    assert world.ask("get", "k") == 0
    append(
        world,
        control_batch([end_transaction(commit=True, coordinator_epoch=0)], 1, 0, 1, producer_id=9, producer_epoch=3),
    )
    world = world.restart()
    world.create()
    world.scheduler.run()
    assert world.ask("get", "k") == 1


def test_a_batch_that_is_too_large_is_the_machines_to_answer() -> None:
    world = World()
    world.create()
    assert world.ask("put", "k" * (2 << 20)) == "too large"
    assert stored(world) == []


def test_a_defect_hurts_one_request(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.create()
    assert world.ask("break") == ("error", error_codes.UNKNOWN_SERVER_ERROR)
    assert "__consumer_offsets-0 could not decide on a tuple" in caplog.text
    assert world.ask("put", "k") == 1


def test_a_machine_that_cannot_apply_what_it_wrote_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.create()
    world.ask("put", "k")
    parked = world.ask("park")
    world.forgiving = True
    assert world.ask("corrupt", "bad") == NOT_COORDINATOR
    assert resolved(parked) == NOT_COORDINATOR
    assert "__consumer_offsets-0 is loaded from its log again because of a defect" in caplog.text
    assert world.ask("get", "k") == LOADING
    world.scheduler.run()
    assert world.ask("get", "k") == 1
    assert len(world.machines) == 2


def test_a_machine_that_cannot_apply_its_log_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.create()
    world.ask("corrupt", "bad")
    world.scheduler.run()
    assert world.ask("get", "k") == NOT_COORDINATOR
    assert len(world.machines) == 2
    assert "cannot be loaded: ValueError" in caplog.text


def test_an_answer_that_cannot_be_encoded_delays_no_other_answer(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.create()

    def fail(_message: Any) -> None:
        raise ValueError("a defect")

    parked = [world.ask("park", answer=fail), world.ask("park")]
    assert world.ask("release") == 2
    assert not parked[0].resolved
    assert resolved(parked[1]) == "released"
    assert "The answer of a coordinator could not be sent" in caplog.text


def test_answers_wait_for_the_high_watermark() -> None:
    world = World()
    world.create(isr=(NODE, OTHER_NODE))
    pending = world.ask("put", "k", timeout_ms=1_000)
    reading = world.ask("get", "k", writes=False)
    assert isinstance(pending, Pending)
    assert isinstance(reading, Pending)
    replica = world.replica()
    leader = replica.led()
    follower = leader.check_follower(OTHER_NODE, -1, knows_epoch=True)
    assert leader.note_fetch(follower, -1, leader.log.log_end_offset, 0, 0).is_committed
    replica.changed()
    assert (resolved(pending), resolved(reading)) == (1, 1)


def test_a_write_that_is_not_committed_in_time_is_answered_with_an_error() -> None:
    world = World()
    world.create(isr=(NODE, OTHER_NODE))
    pending = world.ask("put", "k", timeout_ms=1_000)
    world.scheduler.advance(999)
    assert not pending.resolved
    world.scheduler.advance(2)
    assert resolved(pending) == ("error", error_codes.REQUEST_TIMED_OUT)


def test_with_too_few_replicas_in_sync_only_reads_are_answered() -> None:
    world = World()
    world.create(isr=(NODE, OTHER_NODE))
    world.replicas.configure(world.replica().topic, {"min.insync.replicas": "2"})
    world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[NODE]))
    assert world.ask("put", "k") == ("error", error_codes.NOT_ENOUGH_REPLICAS)
    assert world.ask("get", "k", writes=False) == 0
    assert stored(world) == []


def test_writes_after_a_load_wait_for_enough_in_sync_replicas() -> None:
    world = World()
    world.create()
    world.ask("put", "k")
    world = world.restart()
    world.create(isr=(NODE, OTHER_NODE))
    world.replicas.configure(world.replica().topic, {"min.insync.replicas": "2"})
    world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[NODE]))
    world.scheduler.advance(5_000)
    assert world.machine.seen == []
    world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[NODE, OTHER_NODE]))
    world.scheduler.advance(5_000)
    assert [what for what, *_ in world.machine.seen] == ["loaded"]


def test_the_answers_of_one_decision_leave_a_slice_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.create()
    parked = [world.ask("park") for _ in range(50)]
    passed_ms = 0.0

    def monotonic_ms() -> float:
        nonlocal passed_ms
        passed_ms += 1
        return passed_ms

    monkeypatch.setattr(world.scheduler, "monotonic_ms", monotonic_ms)
    releasing = world.ask("release")
    most = done = 0
    while world.scheduler._soon:
        callback, arguments = world.scheduler._soon.popleft()
        callback(*arguments)
        now_done = sum(pending.resolved for pending in parked)
        most, done = max(most, now_done - done), now_done
    assert done == 50
    assert most <= SLICE_MS
    assert resolved(releasing) == 50


def test_a_client_that_has_left_is_forgotten_and_its_request_happens() -> None:
    world = World()
    world.create()
    parked = world.ask("park")
    ticket = world.machine.parked[0]
    parked.cancel()
    assert ticket.pending is None
    assert world.ask("release") == 1
    assert not parked.resolved
    assert not world.coordinator.shards[0].journal._open_tickets


# Time


def test_a_machine_is_woken_when_it_wants_to_be() -> None:
    world = World()
    world.create()
    world.ask("wake", 5_000)
    world.scheduler.advance(4_999)
    assert [what for what, *_ in world.machine.seen] == ["loaded"]
    world.scheduler.advance(1)
    assert [what for what, *_ in world.machine.seen] == ["loaded", "timers"]


def test_a_deadline_that_moves_is_met_where_it_is_then() -> None:
    world = World()
    world.create()
    for delay_ms in (5_000, 9_000):
        world.ask("wake", delay_ms)
    world.scheduler.advance(8_999)
    assert [what for what, *_ in world.machine.seen] == ["loaded"]
    world.ask("wake", 100)
    world.scheduler.advance(100)
    assert [what for what, *_ in world.machine.seen] == ["loaded", "timers"]


def test_every_shard_gets_the_end_of_the_period() -> None:
    world = World()
    world.create(partitions=3)
    world.scheduler.advance(2 * PERIOD_MS)
    assert [[what for what, *_ in each.seen] for each in world.machines] == [["loaded", "periodic", "periodic"]] * 3


# The end of leaderships, topics and directories


def test_a_lost_leadership_fails_what_waits() -> None:
    world = World()
    world.create()
    parked = world.ask("park")
    world.ask("wake", 1_000)
    world.lead(OTHER_NODE)
    assert resolved(parked) == NOT_COORDINATOR
    assert world.ask("get", "k") == NOT_COORDINATOR
    assert world.replica().commit_waits == {}
    world.scheduler.advance(5_000)
    assert [what for what, *_ in world.machine.seen] == ["loaded"]


def test_a_new_leadership_starts_from_the_log() -> None:
    world = World()
    world.create()
    world.ask("put", "k")
    parked = world.ask("park")
    world.lead(NODE)
    assert resolved(parked) == NOT_COORDINATOR
    assert world.ask("get", "k") == LOADING
    world.scheduler.run()
    assert world.ask("get", "k") == 1
    assert len(world.machines) == 2
    assert world.machine.parked == []


def test_a_leadership_lost_while_loading_ends_the_load() -> None:
    world = World()
    world.create()
    for _ in range(50):
        world.ask("put", "k")
    world = world.restart(load_bytes=200)
    world.create()
    for _ in range(4):
        callback, arguments = world.scheduler._soon.popleft()
        callback(*arguments)
    world.lead(OTHER_NODE)
    world.scheduler.run()
    assert world.ask("get", "k") == NOT_COORDINATOR
    world.lead(NODE)
    world.scheduler.run()
    assert world.ask("get", "k") == 50


def test_a_change_within_a_leadership_does_not_reload_the_shard() -> None:
    world = World()
    world.create()
    parked = world.ask("park")
    world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[NODE]))
    assert not parked.resolved
    assert world.ask("release") == 1


def test_a_deleted_topic_takes_its_shards_with_it() -> None:
    world = World()
    world.create(partitions=2)
    parked = world.ask("park")
    world.delete()
    assert resolved(parked) == NOT_COORDINATOR
    assert world.coordinator.shards == {}
    world.create(partitions=4, topic_id=bytes(16 * [5]))
    assert sorted(world.coordinator.shards) == [0, 1, 2, 3]


def test_a_failed_directory_ends_its_shards() -> None:
    world = World()
    world.create()
    assert world.ask("put", "k") == 1
    parked = world.ask("park")
    world.fail_directory()
    assert world.ask("put", "k") in (NOT_COORDINATOR, ("error", error_codes.KAFKA_STORAGE_ERROR))
    world.scheduler.run()
    assert resolved(parked) == NOT_COORDINATOR
    assert world.coordinator.shards == {}
    assert world.ask("get", "k") == NOT_COORDINATOR


def test_shards_that_wake_at_the_same_time_take_turns() -> None:
    """A sweep over all groups is many short decisions of every shard, which would come together in one turn."""
    world = World()
    world.create(partitions=5)
    world.scheduler.run()
    now_ns = iter(range(0, 1 << 60, 1_000_000))
    world.scheduler.in_pieces = Pieces(world.scheduler.call_soon, lambda: next(now_ns)).begin
    ran: list[HostedShard] = []

    class Watched(HostedShard):
        def run_timers(self) -> None:
            ran.append(self)

    shards = list(world.coordinator.shards.values())
    for shard in shards:
        shard.__class__ = Watched
        shard._due()
    assert ran == shards[:1], "a piece at once"
    turns = 0
    while len(ran) < len(shards):
        due, world.scheduler._soon = list(world.scheduler._soon), type(world.scheduler._soon)()
        before = len(ran)
        for callback, arguments in due:
            callback(*arguments)
        assert len(ran) - before <= 1
        turns += 1
        assert turns <= len(shards)
    assert ran == shards


def test_a_node_that_stops_answers_everybody() -> None:
    world = World()
    world.create()
    parked = world.ask("park")
    world.coordinator.stop()
    assert resolved(parked) == ("error", error_codes.COORDINATOR_NOT_AVAILABLE)
    world.scheduler.advance(3 * PERIOD_MS)
    assert [what for what, *_ in world.machine.seen] == ["loaded"]


def test_all_shards_can_be_asked_together() -> None:
    world = World()
    world.create(partitions=3)
    steps = world.coordinator.submit_to_all(lambda ticket: ("get", ticket, "k"), lambda code: ("error", code))
    assert at_once(steps) == [0, 0, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("group", 98629247), ("ä", 228), ("🙂", 1772965), ("polygenelubricants", 0)],
)
def test_keys_are_placed_by_javas_hash(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_records_are_what_the_machine_writes() -> None:
    world = World()
    world.create()
    world.ask("put", "k")
    world.ask("put", "k")
    assert stored(world) == [Count("k", 1).encoded(), Count("k", 2).encoded()]
