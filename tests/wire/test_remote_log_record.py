"""The values of ``__remote_log_metadata``: what is Malformed in them, and how the partition of one is chosen."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from message_values import random_message

from kpywire.errors import Malformed, OfNewerVersion
from kpywire.remote_log_record import decode_value, encode_value, partition_of, record_class
from kpywire.remote_log_records.remote_partition_delete_metadata_record import (
    RemotePartitionDeleteMetadataRecord,
    TopicIdPartitionEntry,
)
from kpywire.remote_log_records.table import MODULES, REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD

DELETED = RemotePartitionDeleteMetadataRecord(
    topic_id_partition=TopicIdPartitionEntry(name="t", id=bytes(15) + b"i", partition=3),
    broker_id=1,
    event_timestamp_ms=5,
    remote_partition_delete_state=2,
)


def test_a_value_is_framed() -> None:
    body = b"\x02t" + bytes(15) + b"i\0\0\0\x03\0" + b"\0\0\0\x01" + (5).to_bytes(8, "big") + b"\x02\0"
    assert encode_value(DELETED) == b"\x01\x02\x00" + body


@given(st.sampled_from(sorted(MODULES)), st.integers(0, 2**32))
def test_records_survive_their_frame(kind: int, seed: int) -> None:
    record = random_message(record_class(kind), 0, Random(seed))
    assert decode_value(encode_value(record)) == record


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "cut off"),
        (b"\x01\x02", "cut off"),
        (b"\x00\x02\x00", "frame version 0"),
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x02\x00\x02t", "cut off"),
        (encode_value(DELETED) + b"!", "1 bytes after"),
        (b"\x01\xff\xff\xff\xff\xff\x01\x00", "longer than"),
    ],
)
def test_a_value_that_kafka_refuses_is_malformed(value: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        decode_value(value)


@pytest.mark.parametrize(
    ("value", "named"), [(b"\x01\x04\x00", "record type 4"), (b"\x01\x02\x01", "version 1 of Rem")]
)
def test_unknown_types_and_versions_are_those_of_a_newer_kafka(value: bytes, named: str) -> None:
    with pytest.raises(OfNewerVersion, match=f"{named}.*in __remote_log_metadata is of a newer version"):
        decode_value(value)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_malformed(data: bytes) -> None:
    for kind in MODULES:
        for value in (data, b"\x01" + data, bytes((1, kind, 0)) + data):
            try:
                decode_value(value)
            except Malformed:
                continue


def test_a_count_or_length_beyond_the_bytes_is_malformed() -> None:
    value = encode_value(record_class(REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD)())
    epochs, metadata = 3 + 16 + 8 + 8 + 4 + 8 + 8, 3 + 16 + 8 + 8 + 4 + 8 + 8 + 1 + 4
    for at in (epochs, metadata):
        for lie in (b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\x7f", b"\x7f"):
            with pytest.raises(Malformed):
                decode_value(value[:at] + lie + value[at + 1 :])


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**31 - 1), st.integers(1, 500))
def test_a_partition_is_one_of_those_that_exist(topic_id: bytes, partition: int, partitions: int) -> None:
    assert 0 <= partition_of(topic_id, partition, partitions) < partitions


@pytest.mark.parametrize(
    ("topic_id", "partition", "partitions", "expected"),
    [
        (bytes(16), 0, 50, 6),
        (b"\xff" * 16, 3, 50, 46),
        (bytes(range(16)), 7, 50, 45),
        (b"\x80" + bytes(15), 2**31 - 1, 50, 20),
        (bytes(range(240, 256)), 1, 3, 2),
    ],
)
def test_the_partition_is_that_of_kafkas_partitioner(
    topic_id: bytes, partition: int, partitions: int, expected: int
) -> None:
    assert partition_of(topic_id, partition, partitions) == expected


def test_an_id_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes, not 3"):
        partition_of(b"abc", 0, 50)
