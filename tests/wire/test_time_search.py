"""The search by time finds what a look at every record would find."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpywire.batch import HEADER_BYTES, BatchHeader, parse_header
from kpywire.compression import decompress
from kpywire.record import Record, build_batch, read_records
from kpywire.time_search import ANY_LABOUR, Found, LaboriousSearch, SearchLabour, first_not_older
from kpywire.varint import decode_varint
from kpywire.walk import OversizedRecord

TIMES = st.one_of(
    st.integers(-3, 200), st.integers(10**12, 10**12 + 10**6), st.sampled_from([-(2**63), 2**63 - 1, 2**62, -(2**62)])
)


@given(
    st.lists(st.tuples(TIMES, st.binary(max_size=200)), min_size=1, max_size=40),
    TIMES,
    st.integers(0, 1_050),
    st.integers(0, 4),
    st.booleans(),
)
def test_the_first_record_not_older_is_found(
    contents: list[tuple[int, bytes]], timestamp: int, start_offset: int, codec: int, appended: bool
) -> None:
    records = [Record(timestamp=each, value=value) for each, value in contents]
    batch = bytearray(build_batch(records, base_offset=1_000, codec=codec))
    if appended:
        batch[22] |= 8  # the attribute that says: all have the batch's timestamp
    expected = None
    for record in read_records(batch):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            expected = record.timestamp, record.offset
            break
    assert first_not_older(batch, parse_header(batch), timestamp, start_offset) == expected


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("value_bytes", [0, 50, 60, 70, 200, 9_000], ids=lambda each: f"{each} bytes")
@pytest.mark.parametrize("apart_ms", [1, 30, 5_000], ids=lambda each: f"{each} ms apart")
def test_each_record_is_found_by_its_own_time_whatever_stands_before_it(
    value_bytes: int, apart_ms: int, codec: int
) -> None:
    times = [10**12 + number * apart_ms for number in range(5)]
    batch = build_batch(
        [Record(timestamp=each, value=bytes(value_bytes)) for each in times], base_offset=7, codec=codec
    )
    header = parse_header(batch)
    found = [first_not_older(batch, header, each, 0) for each in times]
    assert found == [(each, 7 + number) for number, each in enumerate(times)]
    assert first_not_older(batch, header, times[0], 10) == (times[3], 10)
    assert first_not_older(batch, header, times[-1] + 1, 0) is None


@given(
    st.lists(st.tuples(TIMES, st.binary(max_size=200)), min_size=1, max_size=40),
    TIMES,
    st.integers(0, 4),
    st.booleans(),
    st.integers(1, 50),
    st.integers(1, 3_000),
)
def test_a_search_with_a_limit_finds_the_same_or_is_given_up(
    contents: list[tuple[int, bytes]], timestamp: int, codec: int, appended: bool, most_records: int, most_bytes: int
) -> None:
    batch = bytearray(build_batch([Record(timestamp=each, value=value) for each, value in contents], codec=codec))
    if appended:
        batch[22] |= 8
    header = parse_header(batch)
    try:
        found = first_not_older(batch, header, timestamp, 0, most=SearchLabour(most_bytes, 1_000, most_records))
    except LaboriousSearch:
        section_bytes = sum(len(value) for _, value in contents)
        assert len(contents) > most_records or section_bytes + 100 * len(contents) > most_bytes
    else:
        assert found == first_not_older(batch, header, timestamp, 0)


@given(
    st.lists(st.tuples(TIMES, st.binary(max_size=200)), min_size=1, max_size=20),
    TIMES,
    st.integers(0, 4),
    st.booleans(),
    st.integers(1, 300),
    st.integers(1, 30),
)
def test_a_search_ends_at_a_compressed_record_of_more_bytes_than_are_allowed(
    contents: list[tuple[int, bytes]], timestamp: int, codec: int, appended: bool, most_bytes: int, most_records: int
) -> None:
    """Kafka's iterator reads one record after the other. Without compression it measures none."""
    batch = bytearray(build_batch([Record(timestamp=each, value=value) for each, value in contents], codec=codec))
    if appended:
        batch[22] |= 8
    header = parse_header(batch)
    outcome: Found | str | None = None
    for size, record in zip(sizes_of(batch, header), read_records(batch), strict=True):
        if codec and size > most_bytes:
            outcome = f"Invalid record size: {size} exceeds the configured maximum record size of {most_bytes}."
            break
        if record.timestamp >= timestamp:
            outcome = record.timestamp, record.offset
            break
    for most in (ANY_LABOUR, SearchLabour(1 << 20, 1_000, most_records)):
        try:
            found: Found | str = first_not_older(batch, header, timestamp, 0, most_bytes, most)
        except OversizedRecord as error:
            found = str(error)
        except LaboriousSearch:
            assert len(contents) > most.records
            continue
        assert found == outcome


def sizes_of(batch: bytearray, header: BatchHeader) -> list[int]:
    """The sizes of a batch's records, as their length fields have them."""
    section = decompress(header.codec, bytes(batch[HEADER_BYTES:]), 1 << 20)
    sizes, position = [], 0
    while position < len(section):
        size, position = decode_varint(section, position)
        sizes.append(size)
        position += size
    return sizes


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("appended", [False, True])
def test_a_search_is_given_up_before_a_bomb_is_inflated(codec: int, appended: bool) -> None:
    batch = bytearray(build_batch([Record(timestamp=5, value=bytes(32 << 20))], codec=codec))
    if appended:
        batch[22] |= 8
    tracemalloc.start()
    try:
        with pytest.raises(LaboriousSearch):
            first_not_older(batch, parse_header(batch), 9, 0, most=SearchLabour(1 << 20, 1_000, 1_000))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 5 << 20
