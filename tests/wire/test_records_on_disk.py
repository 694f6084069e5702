"""Records of the metadata log and of coordinators: their framing, and what is Malformed in it."""

from random import Random

import pytest
from all_messages import message_classes
from hypothesis import given
from hypothesis import strategies as st
from message_values import random_message

from kpywire import group_records, metadata_records, share_records, transaction_records
from kpywire.errors import Malformed, UnsupportedVersion
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.table import MODULES
from kpywire.metadata_records.topic_record import TopicRecord

TOPIC = TopicRecord(name="t", topic_id=bytes(16))


def test_every_type_of_record_has_its_class() -> None:
    assert {metadata_records.record_class(kind) for kind in MODULES} == {
        cls for (package, _), cls in message_classes().items() if package == "metadata_records"
    }
    for package in (group_records, transaction_records, share_records):
        for kind in package.table.MODULES:
            key, value = package.classes(kind)
            assert key.__name__.endswith("Key")
            assert value.__name__ == key.__name__.removesuffix("Key") + "Value"


def test_a_metadata_record_is_framed() -> None:
    assert metadata_records.encode_record(TOPIC, 0) == b"\x01\x02\x00" + b"\x02t" + bytes(16) + b"\x00"


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "cut off"),
        (b"\x01\x02", "cut off"),
        (b"\x00\x02\x00", "frame version 0"),
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x63\x00", "record type 99"),
        (b"\x01\x02\x01", "version 1 of TopicRecord"),
        (b"\x01\x02\x00\x02t", "cut off"),
        (b"\x01\x02\x00\x02t" + bytes(18), "1 bytes after"),
    ],
)
def test_a_frame_that_kafka_refuses_is_malformed(frame: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        metadata_records.decode_record(frame)


def test_a_record_that_a_version_cannot_carry_is_refused() -> None:
    record = PartitionRecord(partition_id=1, topic_id=bytes(16), leader=1, leader_epoch=0, partition_epoch=0)
    record.directories = [bytes(15) + b"d"]
    assert metadata_records.decode_record(metadata_records.encode_record(record, 1)) == record
    with pytest.raises(UnsupportedVersion, match="directories"):
        metadata_records.encode_record(record, 0)


def test_a_committed_offset_has_the_key_and_value_that_kafka_has_written_since_0_9() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    value = OffsetCommitValue(offset=5, leader_epoch=-1, metadata="", commit_timestamp=7)
    assert group_records.encode_key(key) == b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x03"
    assert group_records.encode_value(value, 3) == (
        b"\x00\x03" + (5).to_bytes(8, "big") + b"\xff\xff\xff\xff" + b"\x00\x00" + (7).to_bytes(8, "big")
    )
    assert group_records.record_type(group_records.encode_key(key)) == OffsetCommitKey.KEY


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x63", b"\xff\xff", b"\x00\x01\x00\x01g"])
def test_a_key_that_is_none_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        group_records.decode_key(data)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x63", b"\x00\x03\x00"])
def test_a_value_that_is_none_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        group_records.decode_value(OffsetCommitKey.KEY, data)


@given(st.sampled_from(sorted(MODULES)), st.integers(0, 2**32))
def test_metadata_records_survive_their_frame(kind: int, seed: int) -> None:
    cls = metadata_records.record_class(kind)
    version = cls.VERSIONS[-1]
    record = random_message(cls, version, Random(seed))
    assert metadata_records.decode_record(metadata_records.encode_record(record, version)) == record


@given(st.binary(max_size=100))
def test_any_bytes_are_a_record_or_malformed(data: bytes) -> None:
    decoders = (metadata_records.decode_record, group_records.decode_key, transaction_records.decode_key)
    for decode in (*decoders, share_records.decode_key):
        for buffer in (data, b"\x01" + data, b"\x00\x01" + data):
            try:
                decode(buffer)
            except Malformed:
                continue
