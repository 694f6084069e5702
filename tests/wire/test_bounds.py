"""Numbers, lengths and headers of the wire at their bounds: the last one that is read and the first one that is not."""

from typing import Any

import pytest

from kpybroker.machines.groups import record as group_record
from kpywire import uuid
from kpywire.batch import HEADER, HEADER_BYTES, batch_headers, parse_header
from kpywire.errors import Malformed
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.reading import MAX_STRING_BYTES, long_number, long_string_length
from kpywire.record import Record, build_batch, plain_batch_of, read_batch, read_records
from kpywire.varint import encode_varint


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


# Lengths of compact strings and arrays.


@pytest.mark.parametrize("number", [0, 127, 128, 300, 2**14, 2**21 - 1, 2**28, 2**31 - 1])
def test_a_length_is_read_with_all_its_bytes(number: int) -> None:
    data = varint(number) if number > 127 else bytes([number | 0x80, 0])
    assert long_number(data + b"rest", 1, data[0]) == (number, len(data))


@pytest.mark.parametrize("data", [varint(2**31), varint(2**35), b"\xff" * 6])
def test_a_length_of_2_to_the_31_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        long_number(data, 1, data[0])


def test_a_string_has_kafkas_limit() -> None:
    longest = varint(MAX_STRING_BYTES + 1)
    assert long_string_length(longest, 1, longest[0]) == (MAX_STRING_BYTES + 1, len(longest))
    longer = varint(MAX_STRING_BYTES + 2)
    with pytest.raises(Malformed, match=f"a string of {MAX_STRING_BYTES + 1} bytes"):
        long_string_length(longer, 1, longer[0])


# Records.


def section_of(*bodies: bytes, count: int | None = None) -> Any:
    """The records that a batch with this section has; each body is a record behind its length."""
    section = b"".join(encode_varint(len(body)) + body for body in bodies)
    batch = plain_batch_of(section, len(bodies) if count is None else count, 0, 0, 1_000)
    return list(read_batch(batch, parse_header(batch)))


PLAIN = b"\0\0\0\x01\x02v\0"
"""No attributes, no deltas, a null key, the value "v", no headers."""


def test_a_record_is_as_long_as_it_says() -> None:
    assert [(each.key, each.value) for each in section_of(PLAIN)] == [(None, b"v")]
    assert [each.value for each in section_of(PLAIN, b"\0\0\2\x01\x02w\0")] == [b"v", b"w"]
    for body in (PLAIN + b"\0", PLAIN[:-1], b"\0\0\0\x01\x04v\0", b""):
        with pytest.raises(Malformed):
            section_of(body)


def test_a_section_holds_as_many_records_as_its_batch_says() -> None:
    with pytest.raises(Malformed, match="follow the last of 1 records"):
        section_of(PLAIN, PLAIN, count=1)
    with pytest.raises(Malformed):
        section_of(PLAIN, count=2)
    for length in (encode_varint(-1), encode_varint(len(PLAIN) + 1)):
        batch = plain_batch_of(length + PLAIN, 1, 0, 0, 0)
        with pytest.raises(Malformed, match="a record of "):
            list(read_batch(batch, parse_header(batch)))


def test_a_header_of_a_record_has_a_key_and_there_are_as_many_as_it_says() -> None:
    headers = b"\0\0\0\x01\x02v\x02\x02k\x02h"
    (found,) = section_of(headers)
    assert found.headers == (("k", b"h"),)
    (found,) = section_of(b"\0\0\0\x01\x02v\x02\x02k\x01")
    assert found.headers == (("k", None),)
    with pytest.raises(Malformed, match="header without a key"):
        section_of(b"\0\0\0\x01\x02v\x02\x01\x02h")
    with pytest.raises(Malformed, match="headers in"):
        section_of(b"\0\0\0\x01\x02v\x01")
    with pytest.raises(Malformed, match="headers in"):
        section_of(b"\0\0\0\x01\x02v\x0a\x02k\x02h")


def test_a_plain_batch_says_how_many_offsets_it_has() -> None:
    for count in (1, 2, 300):
        header = parse_header(plain_batch_of(b"", count, 7, 3, 1_000))
        assert (header.base_offset, header.last_offset_delta, header.record_count) == (7, count - 1, count)
        assert (header.partition_leader_epoch, header.base_timestamp, header.max_timestamp) == (3, 1_000, 1_000)


# Batches in a row.


def changed(data: bytes, position: int, value: bytes) -> bytes:
    return data[:position] + value + data[position + len(value) :]


BATCH = build_batch([Record(timestamp=1, value=b"v")], base_offset=0)


def test_the_headers_of_whole_batches_are_found() -> None:
    two = BATCH + build_batch([Record(timestamp=1, value=b"w" * 9)], base_offset=1)
    assert [(at, header.base_offset) for at, header in batch_headers(two)] == [(0, 0), (len(BATCH), 1)]
    for cut in (len(BATCH), len(BATCH) + 1, len(BATCH) + HEADER_BYTES - 1, len(BATCH) + HEADER_BYTES, len(two) - 1):
        assert [at for at, _ in batch_headers(two[:cut])] == [0]
    assert list(batch_headers(b"")) == []
    assert HEADER.size == HEADER_BYTES


def test_a_batch_of_another_format_or_smaller_than_its_header_is_malformed() -> None:
    for magic in (0, 1, 3):
        with pytest.raises(Malformed, match=f"magic {magic}"):
            list(batch_headers(changed(BATCH, 16, bytes([magic]))))
    empty = HEADER_BYTES - 12
    assert [at for at, _ in batch_headers(changed(BATCH[:HEADER_BYTES], 8, empty.to_bytes(4, "big")))] == [0]
    with pytest.raises(Malformed, match="smaller than its header"):
        list(batch_headers(changed(BATCH, 8, (empty - 1).to_bytes(4, "big"))))


def test_records_of_several_batches_come_in_a_row() -> None:
    assert [each.value for each in read_records(BATCH + BATCH)] == [b"v", b"v"]


# UUIDs and records of coordinators.


def test_a_uuid_whose_text_begins_like_an_option_is_not_given_out() -> None:
    for first in range(256):
        value = bytes([first]) + b"x" * 15
        assert uuid.usable(value) is not uuid.to_string(value).startswith("-")
    assert not uuid.usable(bytes(16))
    assert not uuid.usable(bytes(15) + b"\1")


def test_the_value_of_a_coordinators_record_has_a_version_that_kafka_has() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    value = OffsetCommitValue(offset=5, leader_epoch=-1, metadata="m", commit_timestamp=7)
    encoded_key, encoded = group_record.GroupRecord(key, value, 3).encoded()
    again = group_record.decode(encoded_key, encoded)
    assert again is not None
    assert (again.key, again.value) == (key, value)
    for version in (-1, 99):
        with pytest.raises(Malformed):
            group_record.decode(encoded_key, version.to_bytes(2, "big", signed=True) + encoded[2:])
    for data in (b"", b"\0"):
        with pytest.raises(Malformed):
            group_record.decode(encoded_key, data)
        with pytest.raises(Malformed):
            group_record.decode(data, encoded)
