"""The short way of writing commits, beside the general encoder, and how they are read back."""

from hypothesis import given
from hypothesis import strategies as st

from kpybroker.groups.commit_bytes import LONGEST_METADATA_BYTES, VALUE_VERSION, encode_commit
from kpybroker.groups.record import FORMAT, Record, decode
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.uuid import ZERO_UUID

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
KEYS = st.builds(OffsetCommitKey, group=st.text(), topic=st.text(), partition=INT32)
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
    short = encode_commit(key, value)
    assert short == (None if len(value.metadata.encode()) > LONGEST_METADATA_BYTES else general)
    assert Record(key, value, VALUE_VERSION).encoded() == general
    assert decode(*general) == Record(key, value, VALUE_VERSION)
