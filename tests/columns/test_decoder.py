"""Record batches to Arrow: the rows are the records that kpywire reads, whatever the bytes."""

import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies

from kpywire.aborted import Aborted
from kpywire.batch import HEADER_BYTES, LENGTH_END, LOG_APPEND_TIME, batch_headers, parse_header
from kpywire.columns import decoder
from kpywire.columns.decoder import LATEST_MS, DecodedPartition, Decoder
from kpywire.columns.schema import PLAIN, schema_of
from kpywire.compression import compress
from kpywire.control_record import marker_batch
from kpywire.errors import Malformed
from kpywire.record import Record, assemble, build_batch, read_batch

HERE = DecodedPartition("t", 3)
ALL = [*PLAIN, "headers", "leaderEpoch"]

byte_strings = strategies.none() | strategies.binary(max_size=40) | strategies.binary(min_size=120, max_size=300)
header_lists = strategies.lists(
    strategies.tuples(strategies.text(max_size=5), byte_strings), max_size=3
) | strategies.just([("many", b"")] * 20)
records = strategies.builds(
    Record,
    offset=strategies.just(-1),
    sequence=strategies.just(-1),
    timestamp=strategies.integers(-5, 1 << 41) | strategies.sampled_from([-1, (1 << 63) - 1, -(1 << 62)]),
    key=byte_strings,
    value=byte_strings,
    headers=header_lists.map(tuple),
)
alike = strategies.builds(
    lambda value, key, step, count, headers: [
        Record(
            timestamp=n * step,
            key=None if key is None else bytes([n % 7]) * key,
            value=None if value is None else bytes([n % 251]) * value,
            headers=headers,
        )
        for n in range(count)
    ],
    strategies.sampled_from([0, 3, 100, 2_000, None]),
    strategies.sampled_from([None, None, 0, 1, 90]),
    strategies.sampled_from([0, 1, 50, 10**9]),
    strategies.integers(1, 80),
    strategies.sampled_from([(), (), (("h", b"1"),)]),
)
mixed = strategies.lists(alike | strategies.lists(records, max_size=3), min_size=1, max_size=4).map(
    lambda parts: [record for part in parts for record in part] or [Record()]
)
batches = strategies.builds(
    lambda chosen, codec, kind: (chosen, codec, kind),
    strategies.lists(records, min_size=1, max_size=6) | alike | mixed,
    strategies.integers(0, 4),
    strategies.integers(0, 1),
)


def built(chosen: Sequence[tuple[list[Record], int, int]]) -> bytes:
    """A log of these batches, with a gap before each."""
    offset, log = 0, []
    for content, codec, timestamp_type in chosen:
        offset += 5
        log.append(
            build_batch(
                content,
                base_offset=offset,
                partition_leader_epoch=offset % 7,
                codec=codec,
                timestamp_type=timestamp_type,
                log_append_time_ms=77 + offset,
            )
        )
        offset += len(content)
    return b"".join(log)


def expected(data: bytes, columns: Sequence[str] = ALL) -> list[dict[str, Any]]:
    """The rows by the reader of single records. Raises Malformed."""
    rows = []
    for position, header in batch_headers(data):
        if header.next_offset <= 0 or Aborted().skips(data, header, position):
            continue
        for record in read_batch(data, header, position):
            milliseconds = max(-LATEST_MS, min(record.timestamp, LATEST_MS))
            row = {
                "key": record.key,
                "value": record.value,
                "topic": "t",
                "partition": 3,
                "offset": record.offset,
                "timestamp": milliseconds * 1000,
                "timestampType": header.timestamp_type,
                "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
                "leaderEpoch": header.partition_leader_epoch,
            }
            if record.offset >= 0:
                rows.append({name: row[name] for name in columns})
    return rows


def plain(taken: Sequence[pa.RecordBatch], columns: Sequence[str] = ALL) -> list[dict[str, Any]]:
    """Rows with timestamps as numbers, since Python's own have not their range."""
    rows: list[dict[str, Any]] = []
    for batch in taken:
        assert batch.schema == schema_of(columns)
        batch.validate(full=True)
        if "timestamp" in columns:
            place = columns.index("timestamp")
            batch = batch.set_column(place, "timestamp", batch.column(place).view(pa.int64()))
        rows += batch.to_pylist()
    return rows


def rows_of(data: bytes, columns: Sequence[str] = ALL, **options: Any) -> list[dict[str, Any]]:
    made = Decoder(HERE, columns, **options)
    return plain([*made.decode(data, Aborted()), *made.take()], columns)


def or_malformed(read: Callable[[bytes], Any], data: bytes) -> Any:
    """The rows that are read; Malformed if the bytes cannot be read."""
    try:
        return read(data)
    except Malformed:
        return Malformed


@given(
    strategies.lists(batches, max_size=4),
    strategies.sampled_from([ALL, ["value"], ["offset", "timestamp"], ["headers", "key"]]),
)
def test_rows_are_the_records_that_are_read_one_by_one(chosen: Any, columns: list[str]) -> None:
    data = built(chosen)
    assert rows_of(data, columns) == expected(data, columns)


@given(strategies.lists(batches, min_size=1, max_size=4), strategies.data())
def test_only_wanted_offsets_are_rows(chosen: Any, draw: strategies.DataObject) -> None:
    data = built(chosen)
    every = expected(data, ["offset"])
    start, end = sorted(draw.draw(strategies.integers(0, every[-1]["offset"] + 2)) for _ in range(2))
    wanted = [row for row in every if start <= row["offset"] < end]
    assert rows_of(data, ["offset"], start_offset=start, end_offset=end) == wanted


@given(strategies.lists(batches, min_size=1, max_size=1), strategies.data())
def test_damaged_bytes_give_the_same_rows_or_are_malformed_in_both_readers(
    chosen: Any, draw: strategies.DataObject
) -> None:
    data = bytearray(built(chosen))
    for _ in range(draw.draw(strategies.integers(1, 4))):
        at = draw.draw(strategies.integers(LENGTH_END, len(data) - 1))
        data[at] = draw.draw(strategies.integers(0, 255))
    found = or_malformed(partial(rows_of, checks_crcs=False), bytes(data))
    assert found == or_malformed(expected, bytes(data))


@given(strategies.binary(max_size=120), strategies.integers(-2, 40))
def test_any_section_gives_the_same_rows_or_is_malformed_in_both_readers(section: bytes, count: int) -> None:
    header = parse_header(build_batch([Record(value=b"v")]))._replace(
        record_count=count, last_offset_delta=max(count, 1) - 1
    )
    data = assemble(header, section)
    assert or_malformed(rows_of, data) == or_malformed(expected, data)


hostile_sections = strategies.builds(
    lambda pieces, least: b"".join(piece * (-(-least // (len(piece) * len(pieces)))) for piece in pieces),
    strategies.lists(strategies.binary(min_size=1, max_size=24), min_size=1, max_size=3),
    strategies.sampled_from([300, 20_000, 200_000]),
)


@settings(max_examples=60, deadline=None)
@given(hostile_sections, strategies.integers(1, (1 << 31) - 1) | strategies.integers(1, 200_000), strategies.booleans())
@example(bytes(200_000), 200_000, True)
@example(b"\x0c\0\0\0\1\1\0" * 30_000, 30_000, True)
@example(b"\xfe\xff\7" + b"\0\0\0\1\1\x80\x80\4" + bytes(65_528), 1, False)
def test_hostile_sections_take_memory_in_proportion_to_their_bytes(section: bytes, count: int, is_packed: bool) -> None:
    header = parse_header(build_batch([Record(value=b"v")], codec=4 if is_packed else 0))
    header = header._replace(record_count=count, last_offset_delta=count - 1)
    data = assemble(header, compress(4, section) if is_packed else section)
    pool = pa.system_memory_pool()
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    held = pool.bytes_allocated()
    tracemalloc.start()
    try:
        made = Decoder(HERE, ALL)
        rows = sum(batch.num_rows for batch in [*made.decode(data, Aborted()), *made.take()])
        assert rows == count
    except Malformed:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert peak < 64 * len(section) + (1 << 20)
    assert pool.bytes_allocated() - held < 64 * len(section) + (1 << 20)


@pytest.mark.parametrize("size", [1, 63, 64, 65, 127, 128, 8191, 8192, 8193, 1 << 20])
@pytest.mark.parametrize("part", ["key", "value", "header key", "header value", "timestamp"])
def test_numbers_of_every_width_are_decoded(part: str, size: int) -> None:
    """Among records whose numbers have one byte each, alone and as the first of others that are alike."""
    odd = Record(
        timestamp=1_000 + (size if part == "timestamp" else 0),
        key=b"k" * size if part == "key" else b"k",
        value=b"v" * size if part == "value" else b"v",
        headers=(("n" * size if part == "header key" else "n", b"c" * size if part == "header value" else b"c"),)
        if part.startswith("header")
        else (),
    )
    plain_one = Record(timestamp=1_000, key=b"k", value=b"v")
    for records in ([plain_one, odd, plain_one], [plain_one] + [odd] * (40 if size < 9_000 else 2)):
        data = built([(records, 0, 0)])
        assert rows_of(data) == expected(data)


def test_one_record_of_another_size_between_equal_ones_is_decoded() -> None:
    alike_ones = [Record(timestamp=n, value=b"%03d" % n) for n in range(500)]
    alike_ones[250] = Record(timestamp=250, value=b"another", headers=(("h", None),))
    data = built([(alike_ones, 0, 0)])
    assert rows_of(data) == expected(data)


def test_rows_that_wait_for_others_do_not_need_the_buffer_that_they_came_in() -> None:
    buffer = bytearray(built([([Record(value=b"first"), Record(value=b"second")], 0, 0)]))
    wanted = expected(bytes(buffer))
    made = Decoder(HERE, ALL)
    assert list(made.decode(buffer, Aborted())) == []
    buffer[:] = bytes(len(buffer))
    assert plain([*made.take()]) == wanted


def test_many_rows_come_in_several_record_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "MOST_ROWS", 100)
    data = built([([Record(value=b"%d" % n) for n in range(450)], 0, 0), ([Record(value=b"end")], 0, 0)])
    made = Decoder(HERE, ALL)
    taken = [*made.decode(data, Aborted()), *made.take()]
    assert max(batch.num_rows for batch in taken) <= 200
    assert plain(taken) == expected(data)


def test_a_record_with_very_many_headers_is_read() -> None:
    content = [
        Record(headers=tuple((f"h{n}", b"%d" % n if n % 3 else None) for n in range(count))) for count in (0, 500, 1)
    ]
    data = built([(content, 0, 0)])
    assert rows_of(data) == expected(data)


def test_header_keys_that_are_no_utf_8_are_replaced() -> None:
    batch = build_batch([Record(headers=(("ab", b"1"),))])
    data = assemble(parse_header(batch), batch[HEADER_BYTES:].replace(b"ab", b"\xff\xfe"))
    (row,) = rows_of(data, ["headers"])
    assert row == {"headers": [{"key": "\ufffd\ufffd", "value": b"1"}]}


def test_aborted_transactions_and_control_batches_have_no_rows() -> None:
    def of(producer_id: int, offset: int) -> bytes:
        records, producer = [Record(value=b"v")], {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
        return build_batch(records, base_offset=offset, **producer, transactional=True)

    abort = bytes(marker_batch(2, 0, 5, commit=False, coordinator_epoch=0, producer_id=7, producer_epoch=0))
    data = of(7, 0) + of(8, 1) + abort + of(7, 3)
    made = Decoder(HERE, ["offset"])
    taken = [*made.decode(data, Aborted([(0, 7)])), *made.take()]
    assert plain(taken, ["offset"]) == [{"offset": 1}, {"offset": 3}]
    assert made.next_offset == 4


def test_batches_that_are_not_admitted_have_no_rows_and_are_not_inflated() -> None:
    data = built([([Record(value=b"a")], 1, 0), ([Record(value=b"b")], 1, LOG_APPEND_TIME)])
    damaged = bytearray(data)
    damaged[HEADER_BYTES] ^= 0xFF
    kept = rows_of(
        bytes(damaged), ["value"], checks_crcs=False, admits=lambda header: header.timestamp_type == LOG_APPEND_TIME
    )
    assert kept == [{"value": b"b"}]


def test_a_batch_that_inflates_too_far_is_malformed() -> None:
    data = built([([Record(value=bytes(100_000))], 4, 0)])
    with pytest.raises(Malformed, match="inflates to more than 1000 bytes"):
        rows_of(data, max_inflated_bytes=1_000)


def test_a_damaged_batch_is_malformed() -> None:
    batch = bytearray(build_batch([Record(value=b"v" * 50)]))
    batch[-7] ^= 1
    with pytest.raises(Malformed, match="offset 0 has a wrong CRC"):
        rows_of(bytes(batch))
