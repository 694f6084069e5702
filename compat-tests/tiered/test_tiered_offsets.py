"""ListOffsets, DeleteRecords and DescribeLogDirs of a partition whose beginning is in the store, at each stage."""

from pathlib import Path

import pytest

from kpywire import error_codes
from kpywire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kpywire.record import Record, build_batch
from support.raw_client import RawClient
from support.raw_requests import offset_at
from support.raw_transactions import Transactional, find_coordinator, produce_records
from support.special_timestamps import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    KNOWN_FROM,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from support.waiting import becomes
from tiered.filling import alter, create_tiered, delete_records, fill, time_of
from tiered.store import start_offsets

NOTHING = (0, -1, -1, -1)
UNSUPPORTED = (error_codes.UNSUPPORTED_VERSION, -1, -1, -1)
TIMEOUT_MS = 10_000
Answers = dict[int, tuple[int, int, int, int]]


def at(offset: int, timestamp: int = -1, epoch: int = 0) -> tuple[int, int, int, int]:
    """The answer that names an offset."""
    return 0, timestamp, offset, epoch


def listed(client: RawClient, topic: str, *, isolation: int = 0) -> Answers:
    """The answers for all special timestamps."""
    return {each: offset_at(client, topic, each, isolation=isolation, timeout_ms=TIMEOUT_MS) for each in KNOWN_FROM}


def list_becomes(client: RawClient, topic: str, expected: Answers) -> None:
    becomes(lambda: listed(client, topic), expected)


def answers_for(start: int, end: int, local_start: int, tiered_end: int, newest: tuple[int, int]) -> Answers:
    """The answers while a partition has records from ``start`` to ``end``, on the disk from ``local_start`` and in the
    store up to ``tiered_end``; ``newest`` is the offset and the number of the batch with the last time."""
    return {
        LATEST: at(end),
        EARLIEST: at(start),
        MAX_TIMESTAMP: at(newest[0], time_of(newest[1])),
        EARLIEST_LOCAL: at(local_start),
        LATEST_TIERED: at(tiered_end - 1) if tiered_end else NOTHING,
        EARLIEST_PENDING_UPLOAD: at(tiered_end),
    }


def test_an_empty_log_waits_for_no_upload(client: RawClient, name: str) -> None:
    create_tiered(client, name)
    assert listed(client, name) == {
        LATEST: at(0),
        EARLIEST: at(0),
        MAX_TIMESTAMP: NOTHING,
        EARLIEST_LOCAL: at(0),
        LATEST_TIERED: NOTHING,
        EARLIEST_PENDING_UPLOAD: NOTHING,
    }


def test_the_active_segment_waits_for_its_upload(client: RawClient, name: str) -> None:
    create_tiered(client, name)
    fill(client, name, range(1))
    assert listed(client, name) == answers_for(0, 2, 0, 0, (0, 0))


def test_closed_segments_are_tiered_and_then_leave_the_disk(client: RawClient, name: str) -> None:
    create_tiered(client, name)
    fill(client, name, range(10))
    list_becomes(client, name, answers_for(0, 20, 0, 18, (18, 9)))
    alter(client, name, local_retention_bytes="1")
    list_becomes(client, name, answers_for(0, 20, 18, 18, (18, 9)))


@pytest.mark.parametrize("version", range(1, 12))
def test_each_special_timestamp_has_its_answer_from_the_version_that_knows_it(
    client: RawClient, name: str, version: int
) -> None:
    create_tiered(client, name, only_remote=True)
    fill(client, name, range(3))
    whole = answers_for(0, 6, 4, 4, (4, 2))
    list_becomes(client, name, whole)
    epoch = 0 if version >= 4 else -1
    for each, (error, timestamp, offset, _) in whole.items():
        answer = offset_at(client, name, each, version)
        assert answer == ((error, timestamp, offset, epoch) if version >= KNOWN_FROM[each] else UNSUPPORTED)
    assert offset_at(client, name, time_of(1), version) == (0, time_of(1), 2, epoch)


def test_times_are_found_on_both_sides_of_the_border(client: RawClient, name: str) -> None:
    create_tiered(client, name, only_remote=True)
    fill(client, name, range(6))
    list_becomes(client, name, answers_for(0, 12, 10, 10, (10, 5)))
    found = {
        after: offset_at(client, name, time_of(0) + after, timeout_ms=TIMEOUT_MS)
        for after in (-1, 0, 1, 30_000, 49_999, 50_000, 50_001)
    }
    assert found == {
        -1: at(0, time_of(0)),
        0: at(0, time_of(0)),
        1: at(2, time_of(1)),
        30_000: at(6, time_of(3)),
        49_999: at(10, time_of(5)),
        50_000: at(10, time_of(5)),
        50_001: NOTHING,
    }


def test_an_open_transaction_holds_back_all_copies_from_its_first_record_on(client: RawClient, name: str) -> None:
    create_tiered(client, name)
    fill(client, name, range(3))
    producer = Transactional(client, name)
    find_coordinator(client, name)
    producer.init()
    producer.add((name, 0))
    record = build_batch(
        [Record(timestamp=time_of(3), value=b"x")],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
    )
    assert produce_records(client, name, record, name).base_offset == 6
    fill(client, name, range(4, 8))
    list_becomes(client, name, answers_for(0, 15, 0, 6, (13, 7)))
    assert listed(client, name, isolation=1) == {
        LATEST: at(6),
        EARLIEST: at(0),
        MAX_TIMESTAMP: NOTHING,
        EARLIEST_LOCAL: at(0),
        LATEST_TIERED: at(5),
        EARLIEST_PENDING_UPLOAD: NOTHING,
    }
    assert producer.end(True).error_code == error_codes.NONE
    becomes(lambda: listed(client, name)[LATEST_TIERED], at(14))
    assert listed(client, name)[EARLIEST_PENDING_UPLOAD] == at(15)


def test_records_in_the_store_are_deleted_below_any_offset(client: RawClient, name: str) -> None:
    create_tiered(client, name, only_remote=True)
    fill(client, name, range(10))
    list_becomes(client, name, answers_for(0, 20, 18, 18, (18, 9)))
    assert delete_records(client, name, 5) == (0, 5)
    assert listed(client, name) == answers_for(5, 20, 18, 18, (18, 9))
    found = {number: offset_at(client, name, time_of(number), timeout_ms=TIMEOUT_MS) for number in (0, 2, 3)}
    assert found == {0: at(5, time_of(2)), 2: at(5, time_of(2)), 3: at(6, time_of(3))}
    assert delete_records(client, name, 3) == (0, 5)
    assert delete_records(client, name, 21) == (error_codes.OFFSET_OUT_OF_RANGE, -1)


def test_the_latest_tiered_offset_stays_after_all_records_are_deleted(client: RawClient, name: str) -> None:
    create_tiered(client, name, only_remote=True)
    fill(client, name, range(10))
    list_becomes(client, name, answers_for(0, 20, 18, 18, (18, 9)))
    assert delete_records(client, name, -1) == (0, 20)
    list_becomes(
        client,
        name,
        {
            LATEST: at(20),
            EARLIEST: at(20),
            MAX_TIMESTAMP: at(18, time_of(9)),
            EARLIEST_LOCAL: at(20),
            LATEST_TIERED: at(17, epoch=-1),
            EARLIEST_PENDING_UPLOAD: NOTHING,
        },
    )


def test_old_records_expire_in_the_store_and_in_the_active_segment(client: RawClient, name: str) -> None:
    create_tiered(client, name)
    fill(client, name, range(6))
    becomes(lambda: listed(client, name)[LATEST_TIERED], at(9))
    alter(client, name, retention_ms="1000", local_retention_ms="1000")
    list_becomes(
        client,
        name,
        {
            LATEST: at(12),
            EARLIEST: at(12),
            MAX_TIMESTAMP: NOTHING,
            EARLIEST_LOCAL: at(12),
            LATEST_TIERED: at(11, epoch=-1),
            EARLIEST_PENDING_UPLOAD: NOTHING,
        },
    )


def test_retention_bytes_deletes_the_oldest_segments_and_no_others(client: RawClient, name: str, store: Path) -> None:
    create_tiered(client, name)
    fill(client, name, range(6))
    list_becomes(client, name, answers_for(0, 12, 0, 10, (10, 5)))
    alter(client, name, retention_bytes="300", local_retention_bytes="1")
    becomes(lambda: start_offsets(store, name), [4, 6, 8])
    list_becomes(client, name, answers_for(4, 12, 10, 10, (10, 5)))


def test_the_size_of_a_partition_is_that_on_the_disk(client: RawClient, name: str) -> None:
    create_tiered(client, name)
    fill(client, name, range(6))
    becomes(lambda: listed(client, name)[LATEST_TIERED], at(9))
    before = size_on_disk(client, name)
    alter(client, name, local_retention_bytes="1")
    becomes(lambda: listed(client, name)[EARLIEST_LOCAL], at(10))
    assert 0 < size_on_disk(client, name) < before / 4


def size_on_disk(client: RawClient, topic: str) -> int:
    """The size that DescribeLogDirs answers."""
    request = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=topic, partitions=[0])])
    (result,) = client.call(request, 4).results
    (partition,) = result.topics[0].partitions
    return int(partition.partition_size)
