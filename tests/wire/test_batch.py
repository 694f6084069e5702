"""Batch headers: read without trust, stamped without touching what must stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpywire.batch import (
    CREATE_TIME,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    batch_headers,
    check_crc,
    parse_header,
    stamp_max_timestamp,
    stamp_offset_and_epoch,
    stamp_producer,
)
from kpywire.errors import Malformed
from kpywire.record import Record, build_batch, read_records


def sample(count: int = 3, **options: int) -> bytes:
    return build_batch([Record(timestamp=100 + n, key=b"k", value=b"v%d" % n) for n in range(count)], **options)


def test_a_header_says_what_was_written() -> None:
    batch = sample(
        base_offset=40, partition_leader_epoch=6, producer_id=9, producer_epoch=2, base_sequence=(1 << 31) - 2, codec=3
    )
    header = parse_header(b"junk" + batch, 4)
    assert header.size == len(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (40, 42, 43)
    assert (header.partition_leader_epoch, header.codec, header.record_count) == (6, 3, 3)
    assert (header.base_timestamp, header.max_timestamp, header.timestamp_type) == (100, 102, CREATE_TIME)
    assert (header.producer_id, header.producer_epoch, header.has_producer_id) == (9, 2, True)
    assert header.last_sequence == 0, "sequences wrap from 2**31 - 1 to 0"
    assert not header.is_transactional
    assert not header.is_control
    assert header.delete_horizon_ms is None


def test_a_batch_without_a_producer_has_no_last_sequence() -> None:
    assert parse_header(sample()).last_sequence == -1


def test_attributes_are_named() -> None:
    header = parse_header(sample())
    assert header._replace(attributes=0x10).is_transactional
    assert header._replace(attributes=0x20).is_control
    assert header._replace(attributes=0x08).timestamp_type == LOG_APPEND_TIME
    assert header._replace(attributes=0x40).delete_horizon_ms == 100


@pytest.mark.parametrize("size", [0, 1, 60])
def test_too_few_bytes_are_no_header(size: int) -> None:
    with pytest.raises(Malformed):
        parse_header(sample()[:size])
    with pytest.raises(Malformed):
        parse_header(sample()[:size] + bytes(61 - size), 61 - size + 1)


def test_offset_and_epoch_are_stamped_outside_the_crc() -> None:
    first, second = sample(), sample(base_offset=3)
    log = bytearray(first + second)
    stamp_offset_and_epoch(log, len(first), 1 << 40, 77)
    header = parse_header(log, len(first))
    assert (header.base_offset, header.partition_leader_epoch) == (1 << 40, 77)
    assert check_crc(log, header, len(first))
    assert log[: len(first)] == first
    assert [record.offset for record in read_records(log)][3:] == [1 << 40, (1 << 40) + 1, (1 << 40) + 2]


def test_a_new_largest_timestamp_comes_with_a_new_crc() -> None:
    batch = sample()
    log = bytearray(batch + batch)
    before = parse_header(log, len(batch))
    after = stamp_max_timestamp(memoryview(log), before, 5000, LOG_APPEND_TIME, len(batch))
    assert parse_header(log, len(batch)) == after
    assert (after.max_timestamp, after.timestamp_type) == (5000, LOG_APPEND_TIME)
    assert after.crc != before.crc
    assert check_crc(log, after, len(batch))
    assert log[: len(batch)] == batch
    assert {record.timestamp for record in read_records(log[len(batch) :])} == {5000}


@pytest.mark.parametrize("codec", [0, 3])
@pytest.mark.parametrize("transactional", [False, True])
def test_a_stamped_producer_is_the_one_a_batch_is_built_with(codec: int, transactional: bool) -> None:
    producer = {"producer_id": 1 << 40, "producer_epoch": 7, "base_sequence": (1 << 31) - 1}
    batch = bytearray(sample(codec=codec))
    stamp_producer(batch, *producer.values(), is_transactional=not transactional)
    stamp_producer(batch, *producer.values(), is_transactional=transactional)
    assert bytes(batch) == sample(codec=codec, transactional=transactional, **producer)


def test_unknown_attributes_go_when_the_field_is_written() -> None:
    log = bytearray(sample())
    header = parse_header(log)._replace(attributes=-1 & ~0x67)
    assert stamp_max_timestamp(log, header, 1, CREATE_TIME).attributes == 0x10


def test_every_flipped_bit_behind_the_crc_is_noticed() -> None:
    batch = sample()
    for place in range(17, len(batch)):
        damaged = bytearray(batch)
        damaged[place] ^= 0x10
        assert not check_crc(damaged, parse_header(damaged))


def test_a_length_beyond_the_bytes_has_no_crc() -> None:
    header = parse_header(sample())
    for length in (-1, 0, 48, header.batch_length + 1, (1 << 31) - 1):
        assert not check_crc(sample(), header._replace(batch_length=length))


def test_whole_batches_are_listed_and_the_torn_one_is_left_out() -> None:
    batches = [sample(1), sample(2, codec=2), sample(5)]
    log = b"".join(batches)
    places = [0, len(batches[0]), len(batches[0]) + len(batches[1])]
    for cut in (0, 1, len(batches[2]) - 1):
        found = list(batch_headers(log[: len(log) - cut]))
        expected = places if cut == 0 else places[:2]
        assert [place for place, _ in found] == expected
        assert [header.record_count for _, header in found] == [1, 2, 5][: len(expected)]


@pytest.mark.parametrize(("field", "value"), [("magic", 1), ("magic", 3), ("batch_length", 48), ("batch_length", -5)])
def test_bytes_that_are_no_batch_are_malformed(field: str, value: int) -> None:
    header = parse_header(sample())._replace(**{field: value})
    with pytest.raises(Malformed):
        list(batch_headers(HEADER.pack(*header) + bytes(200)))


@given(st.binary(max_size=400))
def test_any_bytes_are_listed_or_malformed(data: bytes) -> None:
    end = 0
    try:
        for place, header in batch_headers(data):
            assert place == end
            end = place + header.size
            assert end <= len(data)
    except Malformed:
        pass


@given(st.binary(min_size=HEADER_BYTES, max_size=HEADER_BYTES))
def test_a_header_keeps_every_bit(data: bytes) -> None:
    header = parse_header(data)
    assert isinstance(header, BatchHeader)
    assert HEADER.pack(*header) == data
