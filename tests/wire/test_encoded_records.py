"""Records and batches that are written by short ways are those that the general way writes, at every length."""

import pytest

from kpywire.batch import check_crc, parse_header
from kpywire.record import (
    Header,
    Record,
    build_batch,
    encode_record,
    one_record_batch,
    plain_batch,
    read_batch,
    transactional_batch_of,
)
from kpywire.varint import encode_varint, encode_varlong
from kpywire.walk import first_oversized

LENGTHS = (*range(4), *range(60, 68), *range(125, 131), *range(500, 516), *range(1000, 1032), 8190, 8191, 8192, 8193)


def sized(part: bytes | None) -> bytes:
    return encode_varint(-1) if part is None else encode_varint(len(part)) + part


def spelled(offset: int, time: int, key: bytes | None, value: bytes | None, headers: tuple[Header, ...] = ()) -> bytes:
    """A record field by field, as the format says."""
    fields = [b"\0", encode_varlong(time), encode_varint(offset), sized(key), sized(value), encode_varint(len(headers))]
    fields += [sized(each) for name, content in headers for each in (name.encode(), content)]
    return sized(b"".join(fields))


@pytest.mark.parametrize(
    "key", [None, b"", b"k", b"k" * 64, b"k" * 600], ids=lambda key: "null" if key is None else len(key)
)
def test_a_record_of_any_length_is_spelled_as_the_format_says(key: bytes | None) -> None:
    for length in LENGTHS:
        for offset, time in ((0, 0), (1, 0), (0, -1), (200, 5)):
            assert encode_record(offset, time, key, b"v" * length) == spelled(offset, time, key, b"v" * length), length
    assert encode_record(0, 0, key, None) == spelled(0, 0, key, None)


@pytest.mark.parametrize("headers", [(("", b""),), (("a", None), ("ü" * 40, b"x" * 70)), (("h", b"x"),) * 70])
def test_headers_are_spelled_as_the_format_says(headers: tuple[Header, ...]) -> None:
    assert encode_record(0, 0, b"k", b"v", headers) == spelled(0, 0, b"k", b"v", headers)
    assert encode_record(3, 9, None, b"v", headers) == spelled(3, 9, None, b"v", headers)


def test_a_plain_batch_is_the_one_that_is_built_of_its_records() -> None:
    pairs = [(b"a", b"x"), (b"b", None), (b"", b"y" * 300)]
    built = build_batch(
        [Record(timestamp=7, key=key, value=value) for key, value in pairs], base_offset=40, partition_leader_epoch=3
    )
    assert plain_batch(pairs, 40, 3, 7) == built


def test_a_batch_of_one_record_is_the_one_that_is_built_of_it() -> None:
    record = encode_record(0, 0, b"k", b"v")
    header = parse_header(one_record_batch(record, 0x10, 7, 1_000, 3))
    assert check_crc(one_record_batch(record, 0x10, 7, 1_000, 3), header)
    assert header == parse_header(
        build_batch([Record(timestamp=7, key=b"k", value=b"v")], partition_leader_epoch=0, producer_id=1_000,
                    producer_epoch=3, transactional=True)
    )._replace(crc=header.crc)  # fmt: skip
    (found,) = read_batch(one_record_batch(record, 0x10, 7, 1_000, 3), header)
    assert (found.offset, found.timestamp, found.key, found.value) == (0, 7, b"k", b"v")


def test_a_batch_in_a_transaction_has_its_producer_and_no_sequence() -> None:
    section = encode_record(0, 0, b"a", b"x") + encode_record(1, 0, b"b", b"y")
    batch = transactional_batch_of(section, 2, 50, 4, 7, (1_000, 3))
    header = parse_header(batch)
    assert check_crc(batch, header)
    assert (header.is_transactional, header.is_control, header.codec) == (True, False, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1_000, 3, -1)
    assert (header.base_timestamp, header.max_timestamp, header.partition_leader_epoch) == (7, 7, 4)
    assert [(each.offset, each.key) for each in read_batch(batch, header)] == [(50, b"a"), (51, b"b")]


@pytest.mark.parametrize(
    ("sizes", "most_bytes", "most_records", "found"),
    [
        ([], 10, 9, (0, 0)),
        ([10, 10, 10], 10, 9, (3, 0)),
        ([10, 11, 12], 10, 9, (1, 11)),
        ([10, 10, 11], 10, 2, (2, 0)),
        ([10, 10, 11], 10, 3, (2, 11)),
        ([200, 300], 250, 9, (1, 300)),
    ],
)
def test_the_first_record_above_a_size_is_found(
    sizes: list[int], most_bytes: int, most_records: int, found: tuple[int, int]
) -> None:
    section = b"".join(encode_varint(size) + bytes(size) for size in sizes)
    assert first_oversized(section, most_bytes, most_records) == found


def test_the_search_for_a_size_ends_where_the_records_are_broken() -> None:
    assert first_oversized(encode_varint(4) + bytes(4) + encode_varint(-1) + encode_varint(90), 10, 9) == (2, 0)
    assert first_oversized(encode_varint(4) + bytes(4) + b"\x80", 10, 9) == (1, 0)
