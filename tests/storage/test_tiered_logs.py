"""A log whose beginning is in a store: what is gone from this disk is not gone for readers (KIP-405)."""

from random import Random
from typing import NamedTuple

import pytest
from log_making import NOW_MS, PATH, TOPIC_ID, append, append_records, make_batch, open_directory

from kpystorage import names, producer_snapshot
from kpystorage.checkpoint import parse_epochs, read_offsets
from kpystorage.cutting import begin_as
from kpystorage.directory import LogDirectory
from kpystorage.errors import CorruptFile, CorruptLog
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.producer_snapshot import SnapshotEntry
from kpystorage.producer_states import ProducerStates
from kpystorage.sim_disk import SimDisk, SimulatedCrash

TIERED = LogConfig(is_tiered=True, file_delete_delay_ms=0)
PLAIN = TIERED._replace(is_tiered=False)
SEGMENT_RECORDS = 10
PRODUCER = 7
EPOCHS = [(0, 0), (1, 10), (2, 20), (3, 30)]


class Tiered(NamedTuple):
    """A directory with one log on a disk."""

    disk: SimDisk
    directory: LogDirectory
    log: Log


def new_disk() -> SimDisk:
    disk = SimDisk(Random(1))
    disk.make_directory(PATH)
    disk.synchronize_directory("/")
    return disk


def fill(log: Log, segments: int) -> None:
    """Segments of ten records, each of its own epoch; the first is of an idempotent producer that writes no more."""
    for number in range(segments):
        if number:
            log.roll(NOW_MS)
        for record in range(SEGMENT_RECORDS):
            producer = {"producer_id": PRODUCER, "base_sequence": record} if number == 0 else {}
            append_records(log, 1, leader_epoch=number, **producer)


def tiered(segments: int = 4, *, local_from: int = 20) -> Tiered:
    """A flushed log from 0 on, whose disk begins at ``local_from``."""
    disk = new_disk()
    directory = open_directory(disk, config=TIERED)
    log = directory.create_log("t", 0, TOPIC_ID, TIERED, NOW_MS)
    fill(log, segments)
    log.flush()
    count = log.base_offsets.index(local_from)
    assert log.delete_oldest(count, NOW_MS) == count
    return Tiered(disk, directory, log)


def starts(log: Log) -> tuple[int, int, int]:
    return log.log_start_offset, log.local_log_start_offset, log.end.offset


def reopened(disk: SimDisk, config: LogConfig = TIERED) -> Log:
    return open_directory(disk, config=config).logs["t", 0].open()


def snapshot_at(offset: int, first_open: int = -1) -> bytes:
    """A snapshot with a producer whose last record lies right before ``offset``."""
    return producer_snapshot.render([SnapshotEntry(PRODUCER, 0, 9, offset - 1, 0, NOW_MS, 0, first_open)])


def test_what_goes_from_the_disk_stays_for_readers() -> None:
    log = tiered().log
    assert starts(log) == (0, 20, 40)
    assert log.epochs.entries() == EPOCHS
    assert PRODUCER in log.producers.producers


@pytest.mark.parametrize("ending", ["clean", "process", "power"])
def test_start_epochs_and_producers_last_however_the_writer_ended(ending: str) -> None:
    disk, directory, log = tiered()
    directory.write_checkpoint(names.LOG_STARTS, directory.render_log_starts())
    if ending == "clean":
        directory.close()
    elif ending == "process":
        disk = disk.after_process_death()
    else:
        log.flush()
        disk = disk.after_power_failure()
    again = reopened(disk)
    assert starts(again) == (0, 20, 40)
    assert again.epochs.entries() == EPOCHS
    assert again.producers.producers[PRODUCER].last_sequence == 9
    append_records(again, 1, leader_epoch=4)
    again.truncate_to(40, NOW_MS)
    assert starts(again) == (0, 20, 40)
    assert PRODUCER in again.producers.producers


def test_a_log_that_the_checkpoint_does_not_name_begins_with_its_first_epoch() -> None:
    disk, directory, log = tiered()
    log.advance_log_start(13)
    log.flush()
    assert reopened(disk.after_process_death()).log_start_offset == 13
    assert ("t", 0) not in read_offsets(disk, f"{PATH}/{names.LOG_STARTS}")
    directory.close()
    assert read_offsets(disk, f"{PATH}/{names.LOG_STARTS}") == {("t", 0): 13}


def test_the_start_of_a_tiered_log_is_always_noted() -> None:
    _, directory, log = tiered(local_from=0)
    assert b"t 0 0\n" in directory.render_log_starts()
    log.configure(PLAIN)
    log.flush()
    assert b"t 0" not in directory.render_log_starts()


@pytest.mark.parametrize("content", [None, b"0\n1\nnonsense\n"])
def test_a_log_whose_epochs_are_lost_is_refused_as_its_store_would_be_emptied(content: bytes | None) -> None:
    disk, directory, _ = tiered()
    directory.close()
    path = f"{PATH}/t-0/{names.LEADER_EPOCHS}"
    disk.unlink(path)
    if content is not None:
        disk.write(path, content, synchronize=True)
    again = open_directory(disk, config=TIERED)
    with pytest.raises(CorruptLog, match="restore the file, or move the directory away"):
        again.logs["t", 0].open()
    again.abandon()
    assert reopened(disk, PLAIN).log_start_offset == 20


def test_epochs_that_are_lost_are_read_from_the_batches_where_the_disk_has_them_all() -> None:
    disk, directory, _ = tiered(local_from=0)
    directory.close()
    disk.write(f"{PATH}/t-0/{names.LEADER_EPOCHS}", b"nonsense", synchronize=True)
    disk.unlink(f"{PATH}/{names.LOG_STARTS}")
    log = reopened(disk)
    assert (starts(log), log.epochs.entries()) == ((0, 0, 40), EPOCHS)


def test_a_log_that_is_no_longer_tiered_begins_on_its_disk_and_stays_so() -> None:
    disk, directory, log = tiered()
    log.configure(PLAIN)
    assert starts(log) == (20, 20, 40)
    assert log.epochs.entries() == [(2, 20), (3, 30)]
    log.configure(TIERED)
    assert starts(log) == (20, 20, 40)
    directory.close()
    assert starts(reopened(disk)) == (20, 20, 40)


def test_a_log_opened_before_its_topic_is_known_loses_nothing() -> None:
    disk, directory, _ = tiered()
    directory.close()
    again = open_directory(disk, config=TIERED)
    log = again.logs["t", 0].open()
    log.configure(TIERED._replace(segment_bytes=2000))
    assert starts(log) == (0, 20, 40)


def test_deleted_records_may_reach_into_the_store_and_onto_the_disk() -> None:
    log = tiered().log
    assert log.advance_log_start(15)
    assert starts(log) == (15, 20, 40)
    assert log.epochs.entries() == [(1, 15), (2, 20), (3, 30)]
    assert log.delete_old_segments(NOW_MS, 40) == 0
    log.advance_log_start(33)
    assert starts(log) == (33, 33, 40)
    assert log.delete_old_segments(NOW_MS, 40) == 1
    assert starts(log) == (33, 33, 40)


def test_retention_by_age_and_size_deletes_nothing_of_a_tiered_log() -> None:
    log = tiered(local_from=0).log
    log.configure(TIERED._replace(retention_ms=0, retention_bytes=0))
    assert log.delete_old_segments(NOW_MS + 1_000_000, 40) == 0
    log.configure(PLAIN._replace(retention_ms=0, retention_bytes=0))
    assert log.delete_old_segments(NOW_MS + 1_000_000, 40) == 4


def test_nothing_goes_from_the_disk_before_what_follows_is_durable() -> None:
    disk = new_disk()
    directory = open_directory(disk, config=TIERED)
    log = directory.create_log("t", 0, TOPIC_ID, TIERED, NOW_MS)
    fill(log, 3)
    directory.rolled.clear()
    assert log.delete_oldest(2, NOW_MS) == 0
    assert log in directory.rolled, "a flush is due"
    log.flush()
    log.roll(NOW_MS)
    assert log.delete_oldest(3, NOW_MS) == 2
    log.flush()
    assert log.delete_oldest(2, NOW_MS) == 1, "never the active one"
    assert starts(reopened(disk.after_power_failure())) in [(0, 20, 30), (0, 30, 30)]


def test_truncation_into_the_part_that_the_store_has_keeps_start_and_epochs() -> None:
    disk, directory, log = tiered()
    directory.write_checkpoint(names.LOG_STARTS, directory.render_log_starts())
    assert log.truncate_to(15, NOW_MS)
    assert starts(log) == (0, 15, 15)
    assert log.epochs.entries() == [(0, 0), (1, 10)]
    append_records(log, 5, leader_epoch=4)
    log.flush()
    again = reopened(disk.after_power_failure())
    assert starts(again) == (0, 15, 20)
    assert again.epochs.entries() == [(0, 0), (1, 10), (4, 15)]
    again.advance_log_start(12)
    again.truncate_to(8, NOW_MS)
    assert starts(again) == (8, 8, 8)
    assert again.epochs.entries() == []


def test_truncation_of_a_log_that_is_not_tiered_is_as_before() -> None:
    log = tiered().log
    log.configure(PLAIN)
    log.truncate_to(5, NOW_MS)
    assert starts(log) == (5, 5, 5)
    assert log.epochs.entries() == []


def test_a_transaction_that_began_before_the_disk_holds_readers_at_its_first_record() -> None:
    log = tiered(local_from=0).log
    append(log, make_batch(40, producer_id=9, base_sequence=0, transactional=True, leader_epoch=3))
    log.roll(NOW_MS)
    append_records(log, 1, leader_epoch=3)
    log.flush()
    assert log.last_stable_offset(log.end).offset == 40
    log.delete_oldest(5, NOW_MS)
    assert starts(log) == (0, 41, 42)
    assert log.last_stable_offset(log.end).offset == 41


def test_a_log_begins_in_the_middle_with_the_epochs_and_producers_of_the_store() -> None:
    disk, directory, log = tiered()
    log.begin_in_middle(100, 13, [*EPOCHS, (5, 60), (9, 100)], snapshot_at(100), NOW_MS)
    assert starts(log) == (13, 100, 100)
    assert log.epochs.entries() == [(1, 13), (2, 20), (3, 30), (5, 60)]
    assert log.producers.producers[PRODUCER].last_sequence == 9
    again = reopened(disk.after_power_failure())
    assert starts(again) == (13, 100, 100)
    assert again.epochs.entries() == log.epochs.entries()
    assert again.producers.producers[PRODUCER].last_sequence == 9
    append_records(log, 3, leader_epoch=9)
    log.truncate_to(101, NOW_MS)
    assert starts(log) == (13, 100, 100)
    assert PRODUCER in log.producers.producers
    directory.close()
    assert starts(reopened(disk)) == (13, 100, 100)


def test_a_log_begins_in_the_middle_without_producers_and_below_its_own_end() -> None:
    disk, _, log = tiered()
    log.begin_in_middle(30, 30, [], None, NOW_MS)
    assert starts(log) == (30, 30, 30)
    assert log.producers.producers == {}
    again = reopened(disk.after_process_death())
    assert (starts(again), again.epochs.entries(), again.producers.producers) == ((30, 30, 30), [], {})


def test_a_damaged_snapshot_changes_nothing() -> None:
    disk, _, log = tiered()
    before = sorted(disk.list_directory(log.path))
    with pytest.raises(CorruptFile):
        log.begin_in_middle(100, 0, EPOCHS, snapshot_at(100)[:-1], NOW_MS)
    assert starts(log) == (0, 20, 40)
    assert sorted(disk.list_directory(log.path)) == before
    append_records(log, 1, leader_epoch=3)


@pytest.mark.parametrize("is_power", [True, False])
@pytest.mark.parametrize(("offset", "start"), [(100, 13), (100, 0), (30, 5), (100, 60)])
def test_a_crash_while_a_log_begins_in_the_middle_leaves_the_old_the_new_or_an_empty_one(
    offset: int, start: int, *, is_power: bool
) -> None:
    seen = set()
    epochs = [*EPOCHS, (5, 60)]
    for call in range(1, 200):
        disk, directory, log = tiered()
        directory.write_checkpoint(names.LOG_STARTS, directory.render_log_starts())
        directory.write_checkpoint(names.RECOVERY_POINTS, directory.render_recovery_points())
        directory.noted()
        log.flush()
        disk.crash_at = disk.calls + call
        try:
            log.begin_in_middle(offset, start, epochs, snapshot_at(offset), NOW_MS)
        except SimulatedCrash:
            left = disk.after_power_failure() if is_power else disk.after_process_death()
            seen.add(_check_left(left, offset, start))
        else:
            break
    assert seen == {"old", "empty", "new"}


def _check_left(disk: SimDisk, offset: int, start: int) -> str:
    directory = open_directory(disk, config=TIERED)
    log = directory.logs["t", 0].open()
    assert directory.loss_of(log) is None
    assert log.log_start_offset in (0, start)
    assert all(first <= log.end.offset for _, first in log.epochs.entries())
    kind = "new" if log.base_offsets == [offset] and log.log_start_offset == start else "old"
    if log.active.size == 0 and log.end.offset in (0, start):
        kind = "empty"
    elif kind == "new":
        assert log.end.offset == offset
        assert log.producers.producers[PRODUCER].last_sequence == 9
        assert log.epochs.epoch_for(offset - 1) == (5 if offset > 60 else 2)
        assert log.epochs.earliest == (1 if start in range(10, 20) else 5 if start == 60 else 0, start)
    else:
        assert log.log_start_offset <= log.local_log_start_offset <= log.end.offset
        for base in range(log.end.offset - log.end.offset % 10, log.base_offsets[0] - 1, -10):
            assert base == log.end.offset or log.epochs.epoch_for(base) == base // 10
    append_records(log, 1, leader_epoch=9)
    directory.close()
    assert open_directory(disk, config=TIERED).logs["t", 0].open().end.offset == log.end.offset
    return kind


def test_a_copy_of_a_tiered_log_begins_where_the_log_does() -> None:
    disk, directory, log = tiered()
    other = open_directory(disk, "/other", config=TIERED) if _made(disk, "/other") else directory
    copy = other.create_future_log(log, TOPIC_ID, TIERED, NOW_MS)
    assert starts(copy) == (0, 20, 20)
    assert copy.epochs.entries() == [(0, 0), (1, 10)]
    assert copy.producers.snapshot() == _producers_at_20(log).snapshot()
    begin_as(copy, log, NOW_MS)
    assert starts(copy) == (0, 20, 20)
    assert parse_epochs(disk.read(f"{copy.path}/{names.LEADER_EPOCHS}"), "") == [(0, 0), (1, 10)]


def _made(disk: SimDisk, path: str) -> bool:
    disk.make_directory(path)
    return True


def _producers_at_20(log: Log) -> ProducerStates:
    producers = ProducerStates("t-0")
    producers.load(log.snapshots.read(20), 20)
    return producers
