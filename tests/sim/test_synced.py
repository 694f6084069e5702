"""The remains on disk of a log without batches."""

from random import Random

from kpystorage.directory import LogDirectory
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.sim_disk import SimDisk
from kpywire.batch import parse_header
from kpywire.record import Record, build_batch

from .synced import is_synced

RETENTION_MS = 1_000


def log_of_three_records(flush_messages: int) -> tuple[SimDisk, Log]:
    disk = SimDisk(Random(1))
    disk.make_directory("/data")
    disk.synchronize_directory("/")
    config = LogConfig(flush_messages=flush_messages, retention_ms=RETENTION_MS)
    directory = LogDirectory("/data", disk, Random(7), lambda _line: None, config)
    directory.open(0)
    log = directory.create_log("t", 0, bytes(range(16)), config, 0)
    batch = build_batch([Record(timestamp=1) for _ in range(3)], partition_leader_epoch=0)
    log.append([parse_header(batch)], batch, 1)
    return disk, log


def test_a_log_that_begins_behind_what_was_synced_and_is_too_old_is_synced() -> None:
    disk, log = log_of_three_records(flush_messages=1)
    log.delete_old_segments(2 * RETENTION_MS, 3)
    assert (log.log_start_offset, log.active.size) == (3, 0)
    assert is_synced(disk, log, 3)


def test_a_log_that_begins_behind_what_was_not_synced_is_not() -> None:
    disk, log = log_of_three_records(flush_messages=100)
    log.write_epochs()  # now, since that makes all names durable
    disk.synchronize_directory("/data")
    log.delete_old_segments(2 * RETENTION_MS, 3)
    assert not is_synced(disk, log, 3)


def test_a_log_that_starts_over_behind_a_gap_is_synced_once_it_is_flushed() -> None:
    disk, log = log_of_three_records(flush_messages=1)
    log.configure(LogConfig())
    log.truncate_fully_and_start_at(42, 2)
    assert not is_synced(disk, log, 42)
    log.flush()
    assert is_synced(disk, log, 42)
