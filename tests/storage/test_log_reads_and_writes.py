"""One log: records are read back at the right offsets, whatever their sizes and the slices that are still held."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_making import (
    NOW_MS,
    TOPIC_ID,
    all_bytes,
    append,
    append_records,
    headers_of,
    headers_of_whole,
    make_batch,
    make_log,
    make_marker,
    open_directory,
)

from kpystorage import real_disk
from kpystorage.errors import CorruptRecord, OffsetOutOfRange, RecordBatchTooLarge, UnexpectedAppendOffset
from kpystorage.log_config import LogConfig
from kpystorage.log_offset import LogOffset
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
from kpywire.errors import Malformed

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=300, retention_ms=-1)


def test_a_new_log_is_empty_and_answers_nothing_at_its_end() -> None:
    log = make_log()
    assert log.end == LogOffset(0, 0, 0)
    assert log.read(0, 1000, log.end, min_one_batch=True) is None
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp_offset() is None
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 1000, log.end, min_one_batch=True)


@given(
    sizes=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 300)), min_size=1, max_size=40),
    offset=st.integers(0, 200),
    max_bytes=st.integers(1, 5000),
)
@settings(max_examples=60, deadline=None)
def test_a_read_begins_with_the_batch_that_holds_the_offset(
    sizes: list[tuple[int, int]], offset: int, max_bytes: int
) -> None:
    log = make_log(SMALL)
    batches = []
    for count, value_bytes in sizes:
        batches.append(make_batch(log.end.offset, count, value_bytes=value_bytes))
        append(log, batches[-1])
    assert all_bytes(log) == b"".join(batches)
    offset %= log.end.offset
    found = log.read(offset, max_bytes, log.end, min_one_batch=True)
    assert found is not None
    holding = next(batch for batch in batches if headers_of(batch)[0].last_offset >= offset)
    assert found.read()[: len(holding)] == holding[: len(found)]
    assert len(holding) <= len(found) <= max(max_bytes, len(holding))
    without = log.read(offset, max_bytes, log.end, min_one_batch=False)
    assert (without is None) == (len(holding) > max_bytes)


def test_a_read_stops_at_the_bound_it_is_given() -> None:
    log = make_log()
    ends = []
    for _ in range(5):
        append_records(log, 2)
        ends.append(log.end)
    found = log.read(2, 100_000, ends[2], min_one_batch=True)
    assert found is not None
    assert [header.base_offset for header in headers_of(found.read())] == [2, 4]
    assert log.read(6, 100_000, ends[2], min_one_batch=True) is None
    assert log.read(7, 100_000, ends[2], min_one_batch=True) is None
    only_offset = log.read(0, 100_000, LogOffset(4), min_one_batch=True)
    assert only_offset is not None
    assert [header.base_offset for header in headers_of(only_offset.read())] == [0, 2]


def test_offsets_between_batches_and_beyond_the_end() -> None:
    log = make_log()
    append(log, make_batch(0, 2), make_batch(10, 2))
    assert log.position_of(5).offset == 5
    found = log.read(5, 1000, log.end, min_one_batch=True)
    assert found is not None
    assert headers_of(found.read())[0].base_offset == 10
    assert log.position_of(12) == log.end
    for offset in (-1, 13):
        with pytest.raises(OffsetOutOfRange):
            log.position_of(offset)


def test_a_reader_at_the_tail_costs_no_system_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_directory(RealDisk(), str(tmp_path)).create_log("t", 0, TOPIC_ID, LogConfig(), NOW_MS)
    append_records(log, 1)
    assert log.read(1, 1 << 20, log.end, min_one_batch=True) is None

    def refuse(*arguments: object) -> bytes:
        raise AssertionError(f"a system call: {arguments}")

    with monkeypatch.context() as patched:
        for name in ("pread", "open", "fstat", "stat"):
            patched.setattr(real_disk.os, name, refuse)
        for _ in range(200):
            offset = log.end.offset
            append_records(log, 3)
            found = log.read(offset, 1 << 20, log.end, min_one_batch=True)
            assert found is not None
            assert found.position + len(found) == log.end.position


def test_a_slice_stays_valid_while_its_file_is_dropped_renamed_or_removed(tmp_path: Path) -> None:
    directory = open_directory(RealDisk(Descriptors(2)), str(tmp_path))
    log = directory.create_log("t", 0, TOPIC_ID, SMALL, NOW_MS)
    for _ in range(30):
        append_records(log, 2)
    expected = all_bytes(log)
    slices = []
    offset = 0
    while offset < log.end.offset:
        part = log.read(offset, 600, log.end, min_one_batch=True)
        assert part is not None
        slices.append(part)
        offset = headers_of_whole(part.read())[-1].next_offset
    log.advance_log_start(log.end.offset)
    assert log.delete_old_segments(NOW_MS, log.end.offset) > 2
    for name in directory.remove(directory.mark(log)):
        assert not os.path.exists(name)
    whole = b"".join(data[: sum(h.size for h in headers_of_whole(data))] for data in (each.read() for each in slices))
    assert whole == expected
    assert os.pread(slices[0].fileno(), len(slices[0]), slices[0].position) == slices[0].read()


def test_an_append_that_does_not_fit_or_does_not_follow_changes_nothing() -> None:
    log = make_log(SMALL)
    append_records(log, 2)
    before = (log.end, all_bytes(log))
    with pytest.raises(UnexpectedAppendOffset) as unexpected:
        append(log, make_batch(1, 1))
    assert unexpected.value.first_offset == 1
    with pytest.raises(RecordBatchTooLarge):
        append(log, make_batch(2, 1, value_bytes=3000))
    assert (log.end, all_bytes(log)) == before


def test_a_marker_that_cannot_be_read_is_refused_and_leaves_nothing() -> None:
    log = make_log()
    append(log, make_batch(0, 2, producer_id=1, transactional=True))
    marker = make_marker(2, 1, commit=True)
    broken = marker[:-12] + bytes(12)
    before = (log.end, all_bytes(log), log.producers.snapshot())
    with pytest.raises(Malformed):
        append(log, broken)
    assert (log.end, all_bytes(log), log.producers.snapshot()) == before
    append(log, marker)
    assert log.end.offset == 3


def test_a_segment_ends_before_its_offsets_no_longer_fit() -> None:
    log = make_log()
    append(log, make_batch(0))
    append(log, make_batch((1 << 31) - 1))
    assert len(log.segments) == 1
    append(log, make_batch(1 << 31))
    assert [segment.base_offset for segment in log.segments] == [0, 1 << 31]


def test_time_rolls_a_segment_by_its_records_or_by_the_clock_where_they_have_none() -> None:
    log = make_log(LogConfig(segment_ms=1000))
    append(log, make_batch(0, timestamp=NOW_MS))
    append(log, make_batch(1, timestamp=NOW_MS + 1000), now_ms=NOW_MS + 90_000)
    assert len(log.segments) == 1
    append(log, make_batch(2, timestamp=NOW_MS + 1001), now_ms=NOW_MS)
    assert len(log.segments) == 2
    untimed = make_log(LogConfig(segment_ms=1000))
    append(untimed, make_batch(0, timestamp=-1), now_ms=NOW_MS + 500)
    append(untimed, make_batch(1, timestamp=-1), now_ms=NOW_MS + 1000)
    assert len(untimed.segments) == 1
    append(untimed, make_batch(2, timestamp=-1), now_ms=NOW_MS + 1001)
    assert len(untimed.segments) == 2


def test_jitter_only_brings_a_roll_forward() -> None:
    directory = open_directory()
    config = LogConfig(segment_ms=1000, segment_jitter_ms=400)
    drawn = {directory.draw_jitter_ms(config) for _ in range(200)}
    assert len(drawn) > 50
    assert min(drawn) >= 0
    assert max(drawn) < 400
    assert directory.draw_jitter_ms(LogConfig()) == 0


def test_another_configuration_counts_from_the_next_append() -> None:
    log = make_log()
    for _ in range(5):
        append_records(log, 1)
    log.configure(SMALL._replace(segment_bytes=200))
    append_records(log, 1)
    assert len(log.segments) == 2


def test_the_last_stable_offset_waits_for_open_and_for_unreplicated_transactions() -> None:
    log = make_log()
    append_records(log, 1)
    append(log, make_batch(1, 2, producer_id=1, transactional=True))
    append(log, make_batch(3, 1, producer_id=2, transactional=True))
    assert log.last_stable_offset(log.end).offset == 1
    append(log, make_marker(4, 1, commit=True))
    assert log.last_stable_offset(log.end).offset == 1
    log.producers.replicated_to(4)
    assert log.last_stable_offset(log.end).offset == 1
    log.producers.replicated_to(5)
    stable = log.last_stable_offset(log.end)
    assert stable.offset == 3
    found = log.read(0, 10_000, stable, min_one_batch=True)
    assert found is not None
    assert headers_of(found.read())[-1].last_offset == 2
    append(log, make_marker(5, 2, commit=False))
    log.producers.replicated_to(6)
    assert log.last_stable_offset(log.end) == log.end
    assert [each.producer_id for each in log.aborted_transactions(0, 6)] == [2]


def test_a_look_up_by_time_in_records_that_cannot_be_read_says_so() -> None:
    log = make_log()
    batch = bytearray(make_batch(0, 3))
    batch[61:] = b"\xff" * (len(batch) - 61)
    append(log, bytes(batch))
    for look_up in (lambda: log.offset_for_timestamp(NOW_MS + 1), log.max_timestamp_offset):
        with pytest.raises(CorruptRecord) as refused:
            look_up()
        assert refused.value.error_code == 2
    assert log.directory.failure is None


def test_a_log_is_flushed_when_so_many_records_have_gathered() -> None:
    log = make_log(LogConfig(flush_messages=5))
    for count, recovery_point in ((2, 0), (2, 0), (2, 6), (4, 6), (1, 11), (9, 20)):
        append_records(log, count)
        assert log.recovery_point == recovery_point
    log.configure(LogConfig(flush_messages=1))
    append_records(log, 1)
    assert (log.recovery_point, log.unflushed_bytes) == (21, 0)
