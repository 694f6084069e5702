"""Records: what was built is read, what kafka-python builds is read, and nothing else comes out of damaged bytes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from kpywire.batch import HEADER_BYTES, LOG_APPEND_TIME, check_crc, parse_header
from kpywire.errors import Malformed
from kpywire.record import Record, assemble, build_batch, encode_record, plain_records, read_batch, read_records
from kpywire.varint import encode_varint

texts = st.one_of(st.none(), st.binary(max_size=200))
headers = st.lists(st.tuples(st.text(max_size=10), texts), max_size=3).map(tuple)
records = st.builds(
    Record,
    timestamp=st.integers(-1, (1 << 62) - 1),
    key=texts,
    value=texts,
    headers=headers,
    offset=st.just(-1),
    sequence=st.just(-1),
)
codecs = st.sampled_from([0, 1, 2, 3, 4])


@given(st.lists(records, min_size=1, max_size=20), codecs, st.integers(0, 1 << 50))
def test_built_records_are_read_back(given_records: list[Record], codec: int, base_offset: int) -> None:
    batch = build_batch(
        given_records, base_offset=base_offset, codec=codec, producer_id=5, producer_epoch=0, base_sequence=7
    )
    header = parse_header(batch)
    assert check_crc(batch, header)
    assert header.max_timestamp == max(record.timestamp for record in given_records)
    found = list(read_records(batch + batch[:-1]))
    assert [record.offset for record in found] == list(range(base_offset, base_offset + len(given_records)))
    assert [record.sequence for record in found] == list(range(7, 7 + len(given_records)))
    assert [record._replace(offset=-1, sequence=-1) for record in found] == given_records


@given(st.lists(records, min_size=1, max_size=10), codecs)
def test_kafka_python_reads_what_was_built(given_records: list[Record], codec: int) -> None:
    theirs = list(DefaultRecordBatch(build_batch(given_records, base_offset=9, codec=codec)))
    assert [(r.offset, r.timestamp, r.key, r.value) for r in theirs] == [
        (9 + index, r.timestamp, r.key, r.value) for index, r in enumerate(given_records)
    ]
    assert [tuple(r.headers) for r in theirs] == [r.headers for r in given_records]


@pytest.mark.parametrize("codec", range(5))
def test_records_built_by_kafka_python_are_read(codec: int) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=False, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=1 << 20,
    )  # fmt: skip
    for index in range(300):
        builder.append(index, timestamp=1000 + index, key=b"k%d" % index, value=b"v" * index, headers=[("h", b"x")])
    found = list(read_records(bytes(builder.build())))
    assert [record.value for record in found] == [b"v" * index for index in range(300)]
    assert found[7] == Record(7, 1007, b"k7", b"v" * 7, (("h", b"x"),), -1)


def test_offsets_may_have_gaps_but_must_rise() -> None:
    batch = build_batch([Record(offset=12), Record(offset=15), Record()], base_offset=10)
    assert [record.offset for record in read_records(batch)] == [12, 15, 16]
    assert parse_header(batch).last_offset == 16
    for offset in (15, 3, 9):
        with pytest.raises(ValueError, match="does not rise"):
            build_batch([Record(offset=15), Record(offset=offset)], base_offset=10)


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])


def test_append_time_is_the_time_of_every_record() -> None:
    batch = build_batch(
        [Record(timestamp=5), Record(timestamp=9)], timestamp_type=LOG_APPEND_TIME, log_append_time_ms=77
    )
    assert [record.timestamp for record in read_records(batch)] == [77, 77]


def test_header_keys_that_are_no_utf_8_are_shown_as_java_shows_them() -> None:
    section = bytearray(encode_record(0, 0, None, b"v", (("ab", b"x"),)))
    section[section.index(b"ab")] = 0xFF
    header = parse_header(build_batch([Record(value=b"v")]))
    (record,) = read_batch(assemble(header, section), header._replace(batch_length=49 + len(section)))
    assert record.headers == (("\N{REPLACEMENT CHARACTER}b", b"x"),)


def test_a_batch_that_inflates_too_far_is_malformed() -> None:
    batch = build_batch([Record(value=bytes(100_000))], codec=4)
    assert len(list(read_records(batch, 200_000))) == 1
    with pytest.raises(Malformed):
        list(read_records(batch, 100_000))


@pytest.mark.parametrize("count", [0, 2, 4, (1 << 31) - 1])
def test_a_wrong_count_is_malformed(count: int) -> None:
    batch = build_batch([Record(value=b"v")] * 3)
    wrong = assemble(parse_header(batch)._replace(record_count=count), batch[HEADER_BYTES:])
    with pytest.raises(Malformed):
        list(read_records(wrong))


@given(st.lists(records, min_size=1, max_size=5), codecs, st.data())
def test_damaged_batches_are_read_or_malformed(given_records: list[Record], codec: int, data: st.DataObject) -> None:
    batch = bytearray(build_batch(given_records, codec=codec))
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = list(read_records(batch, 1 << 16))
    except Malformed:
        return
    assert len(found) <= 1 << 16


@given(
    st.lists(records, min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), max_size=2),
    st.integers(-1, 1),
)
def test_keys_and_values_are_read_alone_as_whole_records_are(
    given_records: list[Record], changes: list[tuple[int, int]], more: int
) -> None:
    batch = build_batch(given_records, base_offset=40)
    section = bytearray(batch[HEADER_BYTES:])
    for place, byte in changes:
        section[place % len(section)] = byte
    count = len(given_records) + more
    damaged = assemble(parse_header(batch)._replace(record_count=count), section)
    try:
        whole = list(read_batch(damaged, parse_header(damaged)))
    except Malformed:
        with suppress(Malformed):
            for _, key, value in plain_records(bytes(section), count, 40):
                assert len(key) + len(value or b"") < len(section)
        return
    alone = list(plain_records(bytes(section), count, 40))
    assert alone == [(each.offset, each.key or b"", each.value) for each in whole]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\0\0\0\x02k\x0av\0", id="a value beyond the record"),
        pytest.param(b"\0\0\0\x0ak\x02v\0", id="a key beyond the record"),
        pytest.param(b"\0\0\0\x02k\x02v", id="no headers"),
        pytest.param(b"\0\xff", id="a time without an end"),
    ],
)
def test_keys_and_values_that_are_not_in_their_record_are_malformed(content: bytes) -> None:
    section = encode_varint(len(content)) + content
    following = encode_record(1, 0, b"key", b"value" * 3)
    for behind, count in ((following, 2), (b"", 1)):
        with pytest.raises(Malformed):
            list(plain_records(section + behind, count, 0))
    with pytest.raises(Malformed):
        list(plain_records(following + following[:-1], 2, 0))
    with pytest.raises(Malformed):
        list(plain_records(following + b"\0", 1, 0))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_malformed(data: bytes) -> None:
    try:
        list(read_records(data, 1 << 16))
    except Malformed:
        return
