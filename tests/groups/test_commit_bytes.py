"""The short way of writing commits, beside the general encoder, and how they are read back."""

from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.groups.commit_bytes import LONGEST_METADATA_BYTES, VALUE_VERSION, encode_key, encode_value
from kpybroker.machines.groups.offsets.commit_record import CommitRecord
from kpybroker.machines.groups.record import FORMAT, GroupRecord, decode
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.uuid import ZERO_UUID

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
NAMES = st.text() | st.text(min_size=1, max_size=1).map(lambda character: character * 300)
KEYS = st.builds(OffsetCommitKey, group=NAMES, topic=NAMES, partition=INT32)
VALUES = st.builds(
    OffsetCommitValue,
    offset=INT64,
    leader_epoch=INT32,
    metadata=st.text() | (st.integers(100, 200) | st.integers(0x3FF0, 0x4010)).map("x".__mul__),
    commit_timestamp=INT64,
    topic_id=st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16),
)


@given(key=KEYS, value=VALUES)
def test_a_commit_has_the_bytes_of_the_general_encoder(key: OffsetCommitKey, value: OffsetCommitValue) -> None:
    general = FORMAT.encode_key(key), FORMAT.encode_value(value, VALUE_VERSION)
    for _ in range(2):  # names are remembered
        assert encode_key(key.group, key.topic, key.partition) == general[0]
    short = encode_value(value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.topic_id)
    assert short == (None if len(value.metadata.encode()) > LONGEST_METADATA_BYTES else general[1])
    record = CommitRecord(
        key.group,
        key.topic,
        key.partition,
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.topic_id,
    )
    assert record.encoded() == general
    assert record.messages() == GroupRecord(key, value, VALUE_VERSION) == decode(*general)


def test_names_that_no_key_can_hold_are_left_to_the_general_encoder() -> None:
    assert encode_key("g" * 0x8000, "t", 0) is None
    assert encode_key("g", "t" * 0x8000, 0) is None


def test_names_too_long_to_be_remembered_are_written_and_read_like_others() -> None:
    key = OffsetCommitKey(group="g" * 0x7FFF, topic="t" * 0x7FFF, partition=3)
    encoded = encode_key(key.group, key.topic, key.partition)
    assert encoded == FORMAT.encode_key(key)
    assert decode(encoded, None) == GroupRecord(key, None, 0)
