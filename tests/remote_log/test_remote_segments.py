"""The cache of remote segments by itself: states, copies of the same offsets, records that do not fit, memory."""

import tracemalloc
from random import Random

import pytest
from remote_log_histories import TOPIC_ID, segment, segment_id, update

from kpybroker.machines.remote_log.cache import RecordVerdict, RemoteSegments
from kpybroker.machines.remote_log.metadata import RecordRefusal, RemoteLogMetadata
from kpybroker.machines.remote_log.packing import packed, unpacked
from kpybroker.machines.remote_log.segments import (
    DELETED,
    DELETING,
    FINISHED,
    STARTED,
    Record,
    RemoteLogSegment,
    RemotePartitionDelete,
    RemotePartitionDeleteState,
)


def cache_of(*finished: RemoteLogSegment) -> RemoteSegments:
    found = RemoteSegments(TOPIC_ID, "t", 0)
    for each in finished:
        found.apply(each)
        found.apply(update(each, FINISHED))
    return found


def test_a_copy_within_a_longer_one_with_the_same_end_never_takes_its_place() -> None:
    inner, outer, gone = segment(1, 32, 40, [(5, 32)]), segment(2, 30, 40, [(5, 30)]), segment(3, 0, 9, [(5, 0)])
    segments = cache_of(gone, inner, outer)
    segments.apply(update(gone, DELETING))  # others are read in its place, if they have it
    assert segments.find(5, 35) == segments.get(outer.id.segment_id)
    assert [each.id for each in segments.superseded(5)] == [inner.id]
    segments.apply(update(outer, DELETING))
    assert segments.find(5, 35) == segments.get(inner.id.segment_id)


def test_a_segment_is_the_same_after_it_was_packed() -> None:
    rng = Random(3)
    for _ in range(500):
        made = segment(
            1,
            rng.randint(-(2**63), 2**63 - 1),
            rng.randint(-(2**63), 2**63 - 1),
            [(rng.randint(-(2**31), 2**31 - 1), rng.randint(0, 2**62)) for _ in range(rng.randint(0, 5))],
            state=rng.choice((STARTED, FINISHED, DELETING)),
            size_bytes=rng.randint(0, 2**31 - 1),
            custom_metadata=rng.choice((None, b"", b"custom")),
            is_transaction_index_empty=rng.random() < 0.5,
        )
        assert unpacked(packed(made), made.id) == made


@pytest.mark.parametrize(
    ("states", "verdict"),
    [
        ((), RecordVerdict.UNKNOWN_SEGMENT),
        ((DELETING, DELETED), RecordVerdict.UNKNOWN_SEGMENT),
        ((DELETING,), RecordVerdict.ILLEGAL_TRANSITION),
    ],
)
def test_a_copy_ends_once(states: tuple[object, ...], verdict: RecordVerdict) -> None:
    found, made = RemoteSegments(TOPIC_ID, "t", 0), segment(1, 0, 9, [(1, 0)])
    if states:
        found.apply(made)
    for state in states:
        assert found.apply(update(made, state)) is RecordVerdict.APPLIES  # type: ignore[arg-type]
    assert found.apply(update(made, FINISHED)) is verdict


def test_a_shorter_copy_hides_no_record_of_a_longer_one() -> None:
    longer, shorter = segment(1, 0, 99, [(1, 0)]), segment(2, 0, 49, [(1, 0)])
    found = cache_of(longer, shorter)
    assert [found.find(1, offset) for offset in (0, 49, 50, 99)] == [
        longer._replace(broker_id=2, state=FINISHED, event_timestamp_ms=1)
    ] * 4
    assert len(found.of_epoch(1)) == 2
    found.apply(update(longer, DELETING))
    read = found.find(1, 49)
    assert read is not None
    assert read.id == shorter.id
    assert found.find(1, 50) is None


def test_an_equal_copy_takes_the_place_of_the_older_one_and_one_within_it_does_not() -> None:
    """An equal copy counts, as in Kafka. One that begins later may be older than a compacted segment: it does not."""
    for start in (0, 50):
        found = cache_of(segment(1, 0, 99, [(1, 0)]), segment(2, start, 99, [(1, start)]))
        read = [found.find(1, offset) for offset in (0, 49, 50, 99)]
        assert [each and each.id.segment_id for each in read] == [segment_id(2 if start == 0 else 1)] * 4
        assert len(found.of_epoch(1)) == 2


def test_a_copy_that_is_announced_again_belongs_to_its_new_epochs_alone() -> None:
    found = RemoteSegments(TOPIC_ID, "t", 0)
    found.apply(segment(1, 0, 9, [(1, 0), (2, 5)]))
    again = segment(1, 0, 9, [(2, 0), (3, 5)])
    found.apply(again)
    assert [found.of_epoch(epoch) for epoch in (1, 2, 3)] == [[], [again], [again]]
    assert (len(found), found.unfinished) == (1, 1)


def test_the_highest_offset_stays_after_a_deletion() -> None:
    made = segment(1, 0, 99, [(1, 0), (2, 60)])
    found = cache_of(made)
    found.apply(update(made, DELETING))
    found.apply(update(made, DELETED))
    assert [found.highest_offset(epoch) for epoch in (1, 2, 3)] == [59, 99, -1]
    assert len(found) == 0
    assert found.epochs() == []


def test_a_million_segments_take_little_memory() -> None:
    tracemalloc.start()
    partitions = []
    for _ in range(20):
        found = RemoteSegments(TOPIC_ID, "t", 0)
        for number in range(100):
            made = segment(number, number * 1_000, number * 1_000 + 999, [(3, number * 1_000)])
            found.apply(made)
            found.apply(update(made, FINISHED))
        partitions.append(found)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size / (20 * 100) < 400, "bytes for each segment"


# The content of the topic


def write(metadata: RemoteLogMetadata, record: Record) -> object:
    refusal = metadata.refusal(record)
    if refusal is None:
        metadata.apply(record)
    return refusal


def deletion(state: int) -> RemotePartitionDelete:
    return RemotePartitionDelete(TOPIC_ID, "t", 0, RemotePartitionDeleteState(state), 0, 1)


def test_a_record_that_does_not_apply_is_not_written() -> None:
    metadata, made = RemoteLogMetadata(), segment(1, 0, 9, [(1, 0)])
    assert write(metadata, update(made, FINISHED)) is RecordVerdict.UNKNOWN_SEGMENT
    assert write(metadata, made) is None
    assert write(metadata, update(made, DELETED)) is RecordVerdict.ILLEGAL_TRANSITION
    assert write(metadata, update(made, STARTED)) is RecordVerdict.NOT_AN_UPDATE
    assert write(metadata, made._replace(state=FINISHED)) is RecordVerdict.NOT_A_BEGINNING


def test_a_deleted_partition_goes_through_its_states_and_takes_no_new_copy() -> None:
    metadata, made = RemoteLogMetadata(), segment(1, 0, 9, [(1, 0)])
    write(metadata, made)
    assert write(metadata, deletion(1)) is RecordRefusal.ILLEGAL_DELETION
    assert [write(metadata, deletion(state)) for state in (0, 0, 1)] == [None] * 3
    assert write(metadata, segment(2, 0, 9, [(1, 0)])) is RecordRefusal.PARTITION_IS_DELETED
    assert write(metadata, update(made, DELETING)) is None
    assert list(metadata.unfinished_deletions()) == [deletion(1)]
    assert write(metadata, deletion(2)) is None
    assert list(metadata.unfinished_deletions()) == []
    segments = metadata.segments_of(TOPIC_ID, 0)
    assert segments is not None
    assert segments.state(segment_id(1)) is None
    assert list(metadata.partitions()) == []


def test_a_copy_that_is_announced_after_the_end_of_its_partition_is_no_segment() -> None:
    """Its writer had not read the end yet. What it uploads is an orphan, which the sweep deletes."""
    metadata, late = RemoteLogMetadata(), segment(1, 0, 9, [(1, 0)])
    for state in (0, 1, 2):
        metadata.apply(deletion(state))
    metadata.apply(late)
    metadata.apply(update(late, FINISHED))
    assert list(metadata.partitions()) == []
    segments = metadata.segments_of(TOPIC_ID, 0)
    assert segments is not None
    assert segments.state(segment_id(1)) is None
