"""The values of the topic: read by hand and by the generated decoders, it is the same."""

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_log_histories import segment

from kpybroker.hosts.remote_log import metadata_values
from kpybroker.hosts.remote_log.metadata_values import read_value, written_value
from kpybroker.machines.remote_log.segments import (
    Record,
    RemoteLogSegment,
    RemoteLogSegmentId,
    RemoteLogSegmentState,
    RemoteLogSegmentUpdate,
    RemotePartitionDelete,
    RemotePartitionDeleteState,
)
from kpywire.errors import Malformed
from kpywire.remote_log_record import encode_value
from kpywire.remote_log_records.remote_log_segment_metadata_snapshot_record import (
    RemoteLogSegmentMetadataSnapshotRecord,
)

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
UUID = st.binary(min_size=16, max_size=16)
NAME = st.text(min_size=1, max_size=12) | st.text(min_size=120, max_size=140)
IDS = st.builds(RemoteLogSegmentId, UUID, NAME, INT, UUID)
CUSTOM = st.none() | st.binary(max_size=8) | st.binary(min_size=120, max_size=140)
EPOCHS = st.dictionaries(INT, LONG, min_size=1, max_size=4).map(lambda each: tuple(sorted(each.items())))
STATES = st.sampled_from(RemoteLogSegmentState)
SEGMENTS = st.builds(RemoteLogSegment, IDS, LONG, LONG, INT, LONG, LONG, EPOCHS, INT, CUSTOM, STATES, st.booleans())
UPDATES = st.builds(RemoteLogSegmentUpdate, IDS, LONG, CUSTOM, STATES, INT)
DELETIONS = st.builds(RemotePartitionDelete, UUID, NAME, INT, st.sampled_from(RemotePartitionDeleteState), LONG, INT)
RECORDS = SEGMENTS | UPDATES | DELETIONS


def read_slowly(value: bytes) -> Record | None:
    with suppress(Malformed):
        return metadata_values._read_slowly(value)
    return None


def read(value: bytes) -> Record | None:
    with suppress(Malformed):
        return read_value(value)
    return None


@given(RECORDS)
def test_a_record_is_the_same_after_it_was_written_and_read(record: Record) -> None:
    value = written_value(record)
    assert read_value(value) == record
    assert type(read_value(value)) is type(record)
    assert read_slowly(value) == record


@given(RECORDS, st.integers(0, 2**32))
def test_damaged_values_are_read_alike_both_ways(record: Record, seed: int) -> None:
    rng, value = Random(seed), bytearray(written_value(record))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(value))
        value[at : at + rng.randint(0, 2)] = rng.randbytes(rng.randint(0, 2))
    assert read(bytes(value)) == read_slowly(bytes(value))


@given(RECORDS, st.integers(0, 200))
def test_values_that_are_cut_off_are_malformed(record: Record, length: int) -> None:
    value = written_value(record)
    if length < len(value):
        with pytest.raises(Malformed):
            read_value(value[:length])


def test_usual_values_are_read_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_value: bytes) -> Record:
        raise AssertionError("decoded by the generated decoder")

    monkeypatch.setattr(metadata_values, "_read_slowly", refuse)
    for made in (
        segment(1, 0, 9, [(1, 0)]),
        segment(1, 0, 9, [(1, 0), (2, 5), (4, 7)], custom_metadata=b"x", is_transaction_index_empty=True),
    ):
        assert read_value(written_value(made)) == made
        ended = made.update(RemoteLogSegmentState.COPY_SEGMENT_FINISHED, 2, 5)
        assert read_value(written_value(ended)) == ended


def test_a_segment_without_epochs_and_a_record_of_a_snapshot_are_refused() -> None:
    with pytest.raises(Malformed, match="without leader epochs"):
        read_value(written_value(segment(1, 0, 9, [])))
    snapshot = RemoteLogSegmentMetadataSnapshotRecord(
        segment_id=bytes(16),
        start_offset=0,
        end_offset=1,
        broker_id=1,
        max_timestamp_ms=0,
        event_timestamp_ms=0,
        segment_leader_epochs=[],
        segment_size_in_bytes=1,
        custom_metadata=None,
        remote_log_segment_state=1,
    )
    with pytest.raises(Malformed, match="does not belong in"):
        read_value(encode_value(snapshot))


def test_epochs_out_of_order_are_sorted_as_kafka_sorts_them() -> None:
    assert read_value(written_value(segment(1, 0, 9, [(4, 7), (1, 0)]))) == segment(1, 0, 9, [(1, 0), (4, 7)])
