"""Sections that are laid out as the one before: the rows are the same as without that."""

from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings, strategies
from test_decoder import HERE, built, expected, or_malformed, rows_of

from kpywire.aborted import Aborted
from kpywire.batch import HEADER_BYTES
from kpywire.columns import decoder
from kpywire.columns.decoder import Decoder
from kpywire.columns.layout import MOST_MISSES, Layouts
from kpywire.record import Record, build_batch

sizes = strategies.none() | strategies.sampled_from([0, 1, 60, 64, 200])
shapes = strategies.lists(strategies.tuples(sizes, sizes), min_size=1, max_size=40)
times = strategies.lists(strategies.sampled_from([0, 3, 63, 64, 9_000]), min_size=40, max_size=40)


@strategies.composite
def logs_of_alike_batches(draw: strategies.DrawFn) -> bytes:
    """Batches with keys and values of the same sizes; their times have the same number of bytes, or have not."""
    shape, few_times = draw(shapes), draw(strategies.lists(times, min_size=1, max_size=2))
    content = []
    for number in range(draw(strategies.integers(2, 6))):
        chosen = few_times[number % len(few_times)]
        content.append(
            [
                Record(
                    timestamp=1_000 + chosen[n],
                    key=None if key is None else bytes([number]) * key,
                    value=None if value is None else bytes([255 - number]) * value,
                )
                for n, (key, value) in enumerate(shape)
            ]
        )
    codec = draw(strategies.sampled_from([0, 0, 4]))
    return built([(records, codec, 0) for records in content])


@settings(max_examples=60, deadline=None)
@given(logs_of_alike_batches(), strategies.sampled_from([["offset"], ["timestamp", "key"], ["value", "headers"]]))
def test_batches_that_are_alike_have_the_rows_of_single_records(log: bytes, columns: list[str]) -> None:
    assert rows_of(log) == expected(log)
    assert rows_of(log, columns) == expected(log, columns)


@settings(max_examples=60, deadline=None)
@given(logs_of_alike_batches(), strategies.data())
def test_a_damaged_batch_among_alike_ones_is_seen(log: bytes, draw: strategies.DataObject) -> None:
    data = bytearray(log)
    at = draw.draw(strategies.integers(len(log) // 2, len(log) - 1))
    data[at] = draw.draw(strategies.sampled_from([data[at] ^ 1, data[at] ^ 0x80, data[at] ^ 2, 0]))
    found = or_malformed(partial(rows_of, checks_crcs=False), bytes(data))
    assert found == or_malformed(expected, bytes(data))


NARROW = ["offset", "partition", "leaderEpoch"]


@settings(max_examples=60, deadline=None)
@given(logs_of_alike_batches(), logs_of_alike_batches(), strategies.data())
def test_columns_that_need_no_bytes_are_the_same_without_them(
    first: bytes, second: bytes, draw: strategies.DataObject
) -> None:
    data = bytearray(first + second + second + first)
    at = draw.draw(strategies.integers(len(first), len(data) - 1))
    data[at] ^= draw.draw(strategies.sampled_from([0, 0, 1, 0x80]))
    with patch.object(decoder, "LARGE_BYTES", draw.draw(strategies.sampled_from([0, 500]))):
        found = or_malformed(partial(rows_of, columns=NARROW, checks_crcs=False), bytes(data))
    assert found == or_malformed(partial(expected, columns=NARROW), bytes(data))


def test_columns_that_need_no_bytes_hold_none() -> None:
    batch = built([([Record(value=bytes(2_000))] * 20, 0, 0)])
    data = batch * (4 * decoder.MOST_BYTES // len(batch))
    made = Decoder(HERE, NARROW)
    assert len([*made.decode(data, Aborted()), *made.take()]) == 1


def section(values: list[bytes], times: list[int]) -> bytes:
    records = [Record(timestamp=time, value=value) for time, value in zip(times, values, strict=True)]
    return build_batch(records)[HEADER_BYTES:]


def of(layouts: Layouts, data: bytes, count: int = 3) -> Any:
    return layouts.of(data, 0, len(data), count)


def test_sections_have_a_layout_from_the_second_alike_one_on() -> None:
    layouts, long = Layouts(), [b"a" * 50] * 3
    assert of(layouts, section(long, [0, 1, 2])) is None
    layout = of(layouts, section(long, [0, 1, 2]))
    assert layout is not None
    assert of(layouts, section([b"b" * 50] * 3, [5, 5, 9])) is layout
    moved = section([b"a" * 51, b"a" * 49, b"a" * 50], [0, 1, 2])
    assert not layout.fits(np.frombuffer(moved, np.uint8))
    assert of(layouts, moved) is None
    going_on = bytearray(section(long, [0, 1, 2]))
    going_on[2] |= 0x80  # the time of the first record takes what follows it
    assert not layout.fits(np.frombuffer(going_on, np.uint8))


def test_sections_of_one_size_by_chance_are_decoded_without_layouts() -> None:
    layouts = Layouts()
    for turn in range(2 * MOST_MISSES + 2):
        of(layouts, section([b"a" * (50 + turn % 9), b"a" * (50 - turn % 9), b"a" * 50], [0, 1, 2]))
    alike = section([b"a" * 50] * 3, [0, 1, 2])
    assert [of(layouts, alike) for _ in range(5)] == [None] * 5
