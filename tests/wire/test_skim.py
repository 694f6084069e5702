"""The skim of a record section: looks and the walk must agree on every section, and both with the record reader."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpywire.batch import BatchHeader
from kpywire.errors import Malformed
from kpywire.record import assemble, encode_record, read_batch
from kpywire.skim import Skim, skim, skim_section
from kpywire.varint import encode_varint
from kpywire.walk import MOST_STEPS, InvalidRecord, TooLaborious, frames, walk

BASE = 1_000_000


def header_of(count: int, base_timestamp: int = BASE) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        batch_length=49,
        partition_leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=base_timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )


def body(content: bytes) -> bytes:
    """A record of this content, its length in front."""
    return encode_varint(len(content)) + content


def outcome(section: bytes, count: int) -> Skim | None:
    try:
        return skim(header_of(count), section)
    except InvalidRecord:
        return None


def outcome_of_walk(section: bytes, count: int) -> Skim | None:
    try:
        lowest, highest, in_order, keyed, end, _ = walk(section, 0, 0, count)
    except InvalidRecord:
        return None
    return Skim(BASE + lowest, BASE + highest, in_order, keyed) if end == len(section) else None


KEYS = {
    "none": lambda _, __: None,
    "fixed": lambda _, index: b"key-%06d" % index,
    "long": lambda _, __: b"k" * 70,
    "growing": lambda _, index: b"k%d" % index,
    "some": lambda rng, _: rng.choice([None, b"", b"k"]),
}
VALUES = {
    "equal": lambda _, __: bytes(40),
    "equal and long": lambda _, __: bytes(9000),
    "small": lambda rng, _: rng.randbytes(rng.randrange(40)),
    "large": lambda rng, _: bytes(rng.randrange(70, 300)),
    "larger": lambda rng, _: bytes(rng.randrange(8000, 8400)),
    "mixed": lambda rng, _: bytes(rng.randrange(50, 75)),
    "nulls": lambda _, __: None,
    "some null": lambda rng, _: rng.choice([None, b"", bytes(40)]),
    "one odd": lambda _, index: bytes(41 if index == 300 else 40),
}
TIMESTAMPS = {
    "one": lambda _, __: 0,
    "same delta": lambda _, __: 77,
    "rising": lambda _, index: index // 3,
    "rising fast": lambda _, index: index * 31,
    "one byte": lambda rng, _: rng.randrange(-64, 64),
    "two bytes": lambda rng, _: rng.randrange(64, 8192),
    "two bytes, signed": lambda rng, _: rng.choice([1, -1]) * rng.randrange(70, 8192),
    "three bytes": lambda rng, _: rng.randrange(8192, 1 << 20),
    "six bytes": lambda rng, _: -(1 << 40) - rng.randrange(1 << 30),
    "nine bytes": lambda rng, _: (1 << 60) + rng.randrange(100),
    "one or two": lambda rng, _: rng.randrange(40, 90),
}
HEADERS = {
    "none": lambda _, __: (),
    "alike": lambda _, index: (("trace", b"%08d" % index), ("nothing", None)),
    "some": lambda rng, _: (("h", b"x"),) * rng.choice([0, 0, 0, 1, 3]),
}


def section_of(seed: int, count: int, key: str, value: str, timestamp: str, headers: str) -> bytes:
    rng = Random(seed)
    return b"".join(
        encode_record(
            index,
            TIMESTAMPS[timestamp](rng, index),
            KEYS[key](rng, index),
            VALUES[value](rng, index),
            HEADERS[headers](rng, index),
        )
        for index in range(count)
    )


sections = st.builds(
    lambda count, *kinds: (section_of(count, count, *kinds), count),
    st.one_of(st.integers(0, 40), st.integers(60, 70), st.sampled_from([130, 200, 330, 700])),
    st.sampled_from(sorted(KEYS)),
    st.sampled_from([kind for kind in sorted(VALUES) if kind not in ("larger", "equal and long")]),
    st.sampled_from(sorted(TIMESTAMPS)),
    st.sampled_from(sorted(HEADERS)),
)


@pytest.mark.parametrize("headers", HEADERS)
@pytest.mark.parametrize("timestamp", TIMESTAMPS)
@pytest.mark.parametrize("value", VALUES)
def test_a_look_and_the_walk_agree_on_sound_sections(value: str, timestamp: str, headers: str) -> None:
    for seed, key in enumerate(KEYS):
        section = section_of(seed, 400, key, value, timestamp, headers)
        seen = outcome(section, 400)
        assert seen is not None
        assert seen == outcome_of_walk(section, 400)
        assert seen.in_order


@pytest.mark.parametrize("count", [8191, 8192, 8193, 9000, 17000])
def test_offset_deltas_of_two_and_three_bytes_are_in_order(count: int) -> None:
    section = b"".join(encode_record(index, 0, None, b"v") for index in range(count))
    assert outcome(section, count) == Skim(BASE, BASE, True, False)
    wrong = section.replace(encode_record(8190, 0, None, b"v"), encode_record(8189, 0, None, b"v"))
    assert outcome(wrong, count) == Skim(BASE, BASE, False, False)


@given(sections, st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), max_size=3), st.integers(-2, 2))
def test_a_look_and_the_walk_agree_on_damaged_sections(
    made: tuple[bytes, int], changes: list[tuple[int, int]], miscount: int
) -> None:
    section, count = bytearray(made[0]), max(made[1] + miscount, 0)
    for place, byte in changes:
        if section:
            section[place % len(section)] = byte
    assert outcome(bytes(section), count) == outcome_of_walk(bytes(section), count)


@given(sections, st.integers(0, 1 << 30), st.one_of(st.binary(max_size=3), st.integers(1, 30)))
def test_a_look_and_the_walk_agree_where_bytes_are_missing_or_too_many(
    made: tuple[bytes, int], place: int, change: bytes | int
) -> None:
    section, count = made
    place %= len(section) + 1
    if isinstance(change, int):
        section = section[:place] + section[place + change :]
    else:
        section = section[:place] + change + section[place:]
    assert outcome(section, count) == outcome_of_walk(section, count)


def assert_damage_is_found(records: list[bytes], index: int, damaged: bytes) -> None:
    section = b"".join([*records[:index], damaged, *records[index + 1 :]])
    assert outcome(section, len(records)) == outcome_of_walk(section, len(records))


PLACES = (1, 63, 64, 65, 200, 299)


@pytest.mark.parametrize("sizes", [(100, 100), (30, 30), (100, 140), (20, 40)])
def test_a_wrong_byte_in_a_record_is_found(sizes: tuple[int, int]) -> None:
    rng = Random(3)
    records = [encode_record(index, index // 9, b"key", bytes(rng.randint(*sizes))) for index in range(300)]
    for index in PLACES:
        for place in [*range(16), -1]:
            for flip in (1, 2, 0x80):
                damaged = bytearray(records[index])
                damaged[place] ^= flip
                assert_damage_is_found(records, index, bytes(damaged))


@pytest.mark.parametrize("sizes", [(100, 100), (100, 140)])
def test_a_length_that_only_adds_up_when_misread_is_found(sizes: tuple[int, int]) -> None:
    rng = Random(4)
    records = [encode_record(index, 0, None, bytes(rng.randint(*sizes))) for index in range(300)]
    for index in PLACES:
        length, value = 0, 7 if index > 63 else 6
        record = records[index]
        one_byte_that_seems_two = bytearray(record)
        one_byte_that_seems_two[value] &= 0x7F
        one_byte_that_seems_two[value + 1] += 1
        assert_damage_is_found(records, index, bytes(one_byte_that_seems_two))
        short_length = bytearray(record)
        short_length[length] &= 0x7F
        short_length[length + 1] += 1
        assert_damage_is_found(records, index, bytes(short_length))
        both_negative = bytearray(record)
        both_negative[length] |= 1
        both_negative[value] |= 1
        assert_damage_is_found(records, index, bytes(both_negative))
        assert outcome(b"".join([*records[:index], bytes(both_negative), *records[index + 1 :]]), 300) is None


def test_header_keys_that_are_null_in_every_record_are_refused() -> None:
    records = [body(b"\0\0" + encode_varint(index) + b"\x01\x02v\x02\x01\x01") for index in range(60)]
    assert outcome(b"".join(records), 60) is None


def test_overlong_offset_deltas_in_every_record_are_read() -> None:
    records = [body(b"\0\0" + bytes([2 * index | 0x80, 0]) + b"\x01\x02v\0") for index in range(60)]
    assert outcome(b"".join(records), 60) == Skim(BASE, BASE, True, False)


@pytest.mark.parametrize("value", ["equal", "large", "mixed"])
def test_each_part_of_a_section_is_checked(value: str) -> None:
    rng = Random(5)
    values = [VALUES[value](rng, index) for index in range(700)]
    for odd in (0, 30, 100, 690):
        keys = [None if index == odd else b"key" for index in range(700)]
        unkeyed = b"".join(encode_record(n, 0, key, v) for n, (key, v) in enumerate(zip(keys, values, strict=True)))
        assert outcome(unkeyed, 700) == Skim(BASE, BASE, True, False)
        deltas = [n + 1 if n == odd else n for n in range(700)]
        unordered = b"".join(encode_record(n, 0, b"key", v) for n, v in zip(deltas, values, strict=True))
        assert outcome(unordered, 700) == Skim(BASE, BASE, False, True)
        times = [-9 if n == odd else 9 if n == 699 - odd else 0 for n in range(700)]
        spread = b"".join(encode_record(n, t, b"key", v) for n, (t, v) in enumerate(zip(times, values, strict=True)))
        assert outcome(spread, 700) == Skim(BASE - 9, BASE + 9, True, True)


@given(sections, st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), max_size=2))
def test_skim_accepts_exactly_the_readable_sections(made: tuple[bytes, int], changes: list[tuple[int, int]]) -> None:
    section, count = bytearray(made[0]), made[1]
    for place, byte in changes:
        if section:
            section[place % len(section)] = byte
    header = header_of(count)
    batch = assemble(header, section)
    header = header._replace(batch_length=len(batch) - 12)
    seen = outcome(bytes(section), count)
    try:
        records = list(read_batch(batch, header))
    except Malformed:
        assert seen is None
        return
    assert seen is not None
    assert seen.min_timestamp == min([record.timestamp for record in records], default=BASE)
    assert seen.max_timestamp == max([record.timestamp for record in records], default=BASE)
    assert seen.keyed == all(record.key is not None for record in records)
    assert seen.in_order == ([record.offset for record in records] == list(range(count)))


@given(st.binary(max_size=300), st.integers(0, 60))
def test_any_bytes_are_taken_or_refused(section: bytes, count: int) -> None:
    assert outcome(section, count) == outcome_of_walk(section, count)


def test_timestamps_that_overflow_wrap_as_in_java() -> None:
    section = encode_record(0, 1 << 62, None, b"") + encode_record(1, 0, None, b"")
    base = (1 << 62) + (1 << 61)
    assert skim(header_of(2, base), section) == Skim(base + (1 << 62) - (1 << 64), base, True, False)


def test_a_view_is_as_good_as_bytes() -> None:
    section = section_of(1, 100, "fixed", "equal", "rising", "none")
    assert skim(header_of(100), memoryview(bytearray(section))) == outcome(section, 100)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\0\0\0\x02k\x02v\x01", id="negative header count"),
        pytest.param(b"\0\0\0\x02k\x02v\x02\x01\x01", id="null header key"),
        pytest.param(b"\0\0\0\x02k\x02v\x64\x01", id="more headers than bytes"),
        pytest.param(b"\0\0\0\x02k\x40v\0", id="value beyond the record"),
        pytest.param(b"\0\0\0\xfe\xff\xff\xff\x0fk\x02v\0", id="key of 2 GB"),
        pytest.param(b"\0\0\0\x02k\x02v\0\0", id="byte too many"),
        pytest.param(b"\0\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\0\x01\x01\0", id="timestamp of eleven bytes"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(content: bytes) -> None:
    assert outcome(body(content), 1) is None


def test_overlong_integers_and_any_negative_length_are_read_as_kafka_reads_them() -> None:
    overlong = b"\0\x80\x00\x80\x80\x00\x82\x00k\x02v\x80\x00"
    assert outcome(body(overlong), 1) == Skim(BASE, BASE, True, True)
    minus_two = b"\0\0\0\x03\x02v\0"
    assert outcome(body(minus_two), 1) == Skim(BASE, BASE, True, False)


def test_frames_name_the_sizes_of_each_record() -> None:
    section = encode_record(0, 5, None, b"abc", (("h", b"x"),)) + encode_record(1, -5, b"k", None)
    assert [tuple(frame) for frame in frames(section, 2)] == [(5, 0, -1, 3), (-5, 1, 1, -1)]


def with_headers(alike: bool) -> bytes:
    """26 records with more headers in all than are walked."""
    headers = [("h", b"")] * (MOST_STEPS // 26 + 1)
    return b"".join(encode_record(index, 0, None, b"v" * (1 if alike else index), headers) for index in range(26))


@pytest.mark.parametrize("walked", [25, 1 << 12], ids=["pure", "compiled"])
def test_headers_of_records_that_are_alike_are_no_labour(monkeypatch: pytest.MonkeyPatch, walked: int) -> None:
    monkeypatch.setattr("kpywire.skim._WALKED", walked)
    assert skim(header_of(26), with_headers(alike=True)) == Skim(BASE, BASE, True, False)
    with pytest.raises(TooLaborious):
        skim(header_of(26), with_headers(alike=False))


MANY = 20_000
ODD = b"".join(encode_record(index, index % 3 * 1000, b"k" * (index % 3), b"v" * (index % 5)) for index in range(MANY))
EQUAL = b"".join(encode_record(index, 0, b"", b"") for index in range(MANY))
UNEVEN = b"".join(encode_record(index, 0, None, b"v" * (index % 7)) for index in range(MANY))
OF_HEADERS = encode_record(0, 0, b"", b"", [("", b"")] * MANY)
OVERFLOWING = b"".join(encode_record(index, (1 << 63) - 1 - index, b"", b"") for index in range(MANY))


@pytest.mark.parametrize(
    ("section", "count", "enough"),
    [(ODD, MANY, MANY), (EQUAL, MANY, 1_000), (UNEVEN, MANY, 6_000), (OF_HEADERS, 1, 20_001)],
)
def test_a_skim_with_a_limit_says_the_same_or_is_given_up(section: bytes, count: int, enough: int) -> None:
    """``enough`` steps suffice, and a part of them does not."""
    assert skim_section(section, count, BASE, 0, enough) == skim_section(section, count, BASE)
    for few in (1, 100, enough // 8):
        if count > few:
            with pytest.raises(TooLaborious):
                skim_section(section, count, BASE, 0, few)


EDGES = (1, 62, 63, 64, 65, 127, 128, 8190, 8191, 8192, 8193, 1 << 20)
"""Numbers around those from which on a varint has one byte more."""


def record_with(part: str, size: int, index: int) -> bytes:
    """A record in which one number is of this size: a length, a number of headers, or the timestamp."""
    key = b"k" * size if part == "key" else b"key"
    value = b"v" * size if part == "value" else b"value"
    name, content = "n" * size if part == "header key" else "n", b"c" * size if part == "header value" else b"c"
    headers = [(name, content)] * (size if part == "headers" else part.startswith("header"))
    return encode_record(index, size if part == "timestamp" else 0, key, value, headers)


@pytest.mark.parametrize("size", EDGES)
@pytest.mark.parametrize("part", ["key", "value", "header key", "header value", "headers", "timestamp"])
def test_numbers_of_every_width_are_read(part: str, size: int) -> None:
    if part == "headers":
        size = min(size, 1000)
    section = record_with(part, size, 0) + record_with(part, size, 1)
    time = BASE + size if part == "timestamp" else BASE
    assert outcome(section, 2) == Skim(time, time, True, True)
    assert outcome(section[:-1], 2) is None
    keys = [frame.key_bytes for frame in frames(section, 2)]
    values = [frame.value_bytes for frame in frames(section, 2)]
    assert keys == [size if part == "key" else 3] * 2
    assert values == [size if part == "value" else 5] * 2
    whole = list(read_batch(assemble(header_of(2), section), header_of(2)._replace(batch_length=49 + len(section))))
    assert [(each.key, each.value, each.timestamp) for each in whole] == [
        (b"k" * size if part == "key" else b"key", b"v" * size if part == "value" else b"value", time)
    ] * 2


def labour(section: bytes, count: int) -> int:
    """The fewest steps that a skim needs."""
    low, high = 0, MOST_STEPS - 1
    while low < high:
        middle = (low + high) // 2
        try:
            skim_section(section, count, BASE, 0, middle)
        except TooLaborious:
            low = middle + 1
        else:
            high = middle
    return low


COUNTS = (24, 25, 26, 64, 90, 91, 200, 700)
LABOUR = {
    ("none", "equal", "one", "none"): (0, 0, 1, 1, 2, 2, 4, 11),
    ("fixed", "equal", "rising", "none"): (0, 0, 1, 1, 2, 2, 12, 19),
    ("fixed", "equal", "rising fast", "none"): (0, 0, 26, 64, 65, 65, 67, 81),
    ("none", "small", "one", "none"): (0, 0, 26, 64, 90, 91, 103, 222),
    ("fixed", "large", "rising", "none"): (0, 0, 26, 64, 90, 91, 104, 222),
    ("fixed", "larger", "same delta", "none"): (0, 0, 26, 64, 90, 91, 200, 700),
    ("fixed", "mixed", "two bytes", "none"): (0, 0, 26, 64, 90, 91, 200, 700),
    ("growing", "small", "one", "none"): (0, 0, 26, 64, 90, 91, 196, 245),
    ("some", "equal", "one", "none"): (0, 0, 26, 64, 90, 91, 200, 700),
    ("none", "nulls", "one", "none"): (0, 0, 1, 1, 2, 2, 4, 11),
    ("long", "some null", "one byte", "none"): (0, 0, 26, 64, 90, 91, 200, 700),
    ("none", "one odd", "rising", "none"): (0, 0, 1, 1, 2, 2, 12, 56),
    ("fixed", "equal", "three bytes", "none"): (0, 0, 1, 1, 2, 2, 4, 11),
    ("fixed", "equal", "nine bytes", "none"): (0, 0, 26, 64, 90, 91, 200, 700),
    ("fixed", "large", "six bytes", "none"): (0, 0, 26, 64, 90, 91, 103, 222),
    ("fixed", "large", "one or two", "none"): (0, 0, 26, 64, 90, 91, 200, 700),
    ("fixed", "equal", "one", "alike"): (48, 50, 25, 25, 50, 50, 52, 59),
    ("none", "large", "one", "alike"): (48, 50, 78, 192, 270, 273, 600, 2100),
    ("none", "equal", "one", "some"): (20, 20, 46, 106, 159, 161, 353, 1272),
    ("none", "equal and long", "two bytes, signed", "none"): (0, 0, 1, 1, 2, 2, 4, 11),
}
"""The steps for sections with these numbers of records, by their keys, values, timestamps and headers."""
LARGE_COUNTS = (5_000, 8_300, 17_000)
LARGE_LABOUR = {
    ("none", "equal", "one", "none"): (79, 130, 266),
    ("none", "small", "one", "none"): (1297, 2203, 4295),
    ("fixed", "large", "rising", "none"): (1297, 2203, 4295),
    ("none", "one odd", "rising", "none"): (259, 409, 545),
    ("fixed", "equal", "rising", "none"): (155, 255, 391),
}


@pytest.mark.parametrize("kinds", LABOUR)
def test_records_that_are_alike_are_compared_and_few_are_walked(
    monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, str, str, str]
) -> None:
    """To compare a record takes a part of a step."""
    monkeypatch.setattr("kpywire.skim._WALKED", 25)
    assert tuple(labour(section_of(9, count, *kinds), count) for count in COUNTS) == LABOUR[kinds]


@pytest.mark.parametrize("kinds", LARGE_LABOUR)
def test_many_records_that_are_alike_are_compared_in_large_runs(kinds: tuple[str, str, str, str]) -> None:
    assert tuple(labour(section_of(9, count, *kinds), count) for count in LARGE_COUNTS) == LARGE_LABOUR[kinds]


def test_overflowing_timestamps_are_not_looked_at_beyond_the_limit() -> None:
    assert skim_section(OVERFLOWING, MANY, BASE)[0] < 0
    with pytest.raises(TooLaborious):
        skim_section(OVERFLOWING, MANY, BASE, 0, 10_000)
