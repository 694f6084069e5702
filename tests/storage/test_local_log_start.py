"""The start that clients see and the first offset on this disk are two things, although they are equal today."""

import pytest
from log_making import NOW_MS, append_records, make_log

from kpystorage.errors import OffsetOutOfRange
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.retention import expendable


def log_of_segments(count: int = 3) -> Log:
    """A log with segments that begin at 0, 5, 10 and so on."""
    log = make_log(LogConfig())
    for number in range(count):
        if number:
            log.roll(NOW_MS)
        for _ in range(5):
            append_records(log, 1)
    return log


def log_with_a_part_elsewhere() -> Log:
    """A log whose segments from 0 to 9 are kept elsewhere, as a tiered one would leave it."""
    log = log_of_segments()
    log.advance_log_start(10)
    assert log.delete_old_segments(NOW_MS, 15) == 2
    log.log_start_offset = 0
    return log


def test_local_and_log_start_are_equal_without_remote_segments() -> None:
    log = log_of_segments()
    for start in (0, 3, 5, 12, 15):
        log.advance_log_start(start)
        log.delete_old_segments(NOW_MS, 15)
        assert log.local_log_start_offset == log.log_start_offset == start
    log.truncate_fully_and_start_at(100, NOW_MS, log_start_offset=103)
    assert log.local_log_start_offset == log.log_start_offset == 103


def test_reads_of_this_disk_begin_at_its_own_start() -> None:
    log = log_with_a_part_elsewhere()
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 10)
    for offset in (0, 9):
        with pytest.raises(OffsetOutOfRange, match=f"offset {offset} of t-0 is not in 10 to 15"):
            log.read(offset, 1000, log.end, min_one_batch=True)
        with pytest.raises(OffsetOutOfRange):
            log.position_of(offset)
    found = log.read(10, 1000, log.end, min_one_batch=True)
    assert found is not None
    assert log.offset_for_timestamp(0) is not None


def test_local_segments_are_deleted_by_the_local_log_start() -> None:
    log = log_of_segments()
    assert expendable(log.segments, 15, 0, 15, log.config, NOW_MS) == 0
    assert expendable(log.segments, 15, 10, 15, log.config, NOW_MS) == 2
