"""The skim of a record section: looks and the walk must agree on every section, and both with the record reader."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpywire.batch import BatchHeader
from kpywire.errors import Malformed
from kpywire.record import assemble, encode_record, read_batch
from kpywire.skim import Skim, skim
from kpywire.varint import encode_varint
from kpywire.walk import InvalidRecord, frames, walk

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


def outcome(section: bytes, count: int) -> Skim | None:
    try:
        return skim(header_of(count), section)
    except InvalidRecord:
        return None


def outcome_of_walk(section: bytes, count: int) -> Skim | None:
    try:
        lowest, highest, in_order, keyed, end = walk(section, 0, 0, count)
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


@pytest.mark.parametrize("field", range(9))
def test_one_wrong_byte_in_one_field_of_one_record_is_found(field: int) -> None:
    for value_bytes in (100, 30):
        records = [encode_record(index, index // 9, b"key", bytes(value_bytes)) for index in range(300)]
        for index in (1, 63, 64, 65, 200, 299):
            for flip in (1, 2, 0x80):
                damaged = bytearray(records[index])
                damaged[field if field < 8 else -1] ^= flip
                section = b"".join([*records[:index], bytes(damaged), *records[index + 1 :]])
                assert outcome(section, 300) == outcome_of_walk(section, 300)


@given(sections, st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), max_size=2))
def test_what_passes_can_be_read_and_what_cannot_be_read_does_not_pass(
    made: tuple[bytes, int], changes: list[tuple[int, int]]
) -> None:
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
    "body",
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
def test_a_record_that_contradicts_itself_is_refused(body: bytes) -> None:
    assert outcome(encode_varint(len(body)) + body, 1) is None


def test_overlong_integers_and_any_negative_length_are_read_as_kafka_reads_them() -> None:
    overlong = b"\0\x80\x00\x80\x80\x00\x82\x00k\x02v\x80\x00"
    assert outcome(encode_varint(len(overlong)) + overlong, 1) == Skim(BASE, BASE, True, True)
    minus_two = b"\0\0\0\x03\x02v\0"
    assert outcome(encode_varint(len(minus_two)) + minus_two, 1) == Skim(BASE, BASE, True, False)


def test_frames_name_the_sizes_of_each_record() -> None:
    section = encode_record(0, 5, None, b"abc", (("h", b"x"),)) + encode_record(1, -5, b"k", None)
    assert [tuple(frame) for frame in frames(section, 2)] == [(5, 0, -1, 3), (-5, 1, 1, -1)]
