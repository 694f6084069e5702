"""The fast ways through a log of commits read what the slow ways read, and whatever the bytes, nothing else happens."""

from contextlib import suppress
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.groups.record import FORMAT, GroupRecord, decode
from kpywire.batch import HEADER_BYTES
from kpywire.errors import Malformed
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.record import Record, build_batch, plain_records

TOPIC_ID = bytes(range(16))


@given(
    st.lists(
        st.tuples(st.binary(max_size=200), st.none() | st.binary(max_size=20_000), st.integers(-(1 << 40), 1 << 40)),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.integers(1, 70), min_size=5, max_size=5),
)
def test_records_are_read_as_the_slow_way_reads_them(
    content: list[tuple[bytes, bytes | None, int]], gaps: list[int]
) -> None:
    offsets = list(accumulate(gaps))
    records = [
        Record(offset=offset, timestamp=timestamp, key=key, value=value, headers=(("h", b"v"),) * (offset % 3))
        for (key, value, timestamp), offset in zip(content, offsets, strict=False)
    ]
    batch = build_batch(records)
    found = list(plain_records(batch[HEADER_BYTES:], len(records), 100))
    assert found == [(100 + each.offset, each.key, each.value) for each in records]


@given(st.binary(max_size=60), st.integers(0, 5))
def test_any_bytes_are_records_or_malformed(section: bytes, number: int) -> None:
    with suppress(Malformed):
        for _, key, value in plain_records(section, number, 0):
            assert len(key) + len(value or b"") <= len(section)


COMMIT_KEYS = st.builds(
    OffsetCommitKey, group=st.text(max_size=9), topic=st.text(max_size=9), partition=st.integers(0, 9)
)


@given(
    COMMIT_KEYS,
    st.none()
    | st.builds(
        OffsetCommitValue,
        offset=st.integers(-1, 1 << 62),
        leader_epoch=st.integers(-1, 9),
        metadata=st.text(max_size=200),
        commit_timestamp=st.integers(0, 1 << 50),
        topic_id=st.sampled_from((bytes(16), TOPIC_ID)),
    ),
    st.sampled_from((3, 4)),
)
def test_commits_are_decoded_as_the_slow_way_decodes_them(
    key: OffsetCommitKey, value: OffsetCommitValue | None, version: int
) -> None:
    encoded = GroupRecord(key, value, version).encoded()
    found = decode(*encoded)
    assert found is not None
    assert found.encoded() == encoded
    assert found.key == FORMAT.decode_key(encoded[0])
    if encoded[1] is not None:
        assert (found.value, found.value_version) == (FORMAT.decode_value(1, encoded[1]), version)


@given(st.binary(max_size=40), st.none() | st.binary(max_size=40), st.booleans())
def test_any_bytes_are_a_record_of_a_group_or_malformed(key: bytes, value: bytes | None, commit: bool) -> None:
    with suppress(Malformed):
        decode(b"\0\1" + key if commit else key, value)
