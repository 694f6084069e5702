"""Apache Kafka's own append path is asked about the same batches: same verdict, same words, same bytes in the log."""

from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

import pytest

from kpybroker.machines.partition.validation import BatchRefused, ValidationConfig, sole_batch, validate
from kpywire import error_codes
from kpywire.batch import (
    ATTRIBUTES_POSITION,
    BATCH_LENGTH,
    CRC_POSITION,
    HEADER_BYTES,
    LENGTH_END,
    BatchHeader,
    check_crc,
    parse_header,
    placed,
)
from kpywire.compression import NAMES, compress
from kpywire.crc import crc32c
from kpywire.record import assemble, encode_record, read_records
from kpywire.varint import encode_varint
from oracle import batches
from oracle import recorded as recorded_kafka

NOW = 1_700_000_000_000
EPOCH = 7
CODECS = range(5)

CONFIGS: dict[str, tuple[dict[str, object], ValidationConfig]] = {
    "default": ({}, ValidationConfig()),
    "append time": (
        {"message_timestamp_type": "LogAppendTime"},
        ValidationConfig(log_append_time=True),
    ),
    "compacted": ({"cleanup_policy": "compact"}, ValidationConfig(compacted=True)),
    "strict": (
        {"message_timestamp_before_max_ms": 1000, "message_timestamp_after_max_ms": 500},
        ValidationConfig(before_max_ms=1000, after_max_ms=500),
    ),
    "unlimited": (
        {"message_timestamp_after_max_ms": (1 << 63) - 1},
        ValidationConfig(after_max_ms=(1 << 63) - 1),
    ),
    "small": ({"max_message_bytes": 300}, ValidationConfig(max_message_bytes=300)),
    "small segment": (
        {"max_message_bytes": 2_000_000, "segment_bytes": 1_048_576},
        ValidationConfig(max_message_bytes=2_000_000, segment_bytes=1_048_576),
    ),
    "uncompressed": ({"compression_type": "uncompressed"}, ValidationConfig(compression_type="uncompressed")),
    "uncompressed, append time": (
        {"compression_type": "uncompressed", "message_timestamp_type": "LogAppendTime"},
        ValidationConfig(compression_type="uncompressed", log_append_time=True),
    ),
    "gzip": (
        {"compression_type": "gzip", "compression_gzip_level": 9},
        ValidationConfig(compression_type="gzip", compression_level=9),
    ),
    "snappy": ({"compression_type": "snappy"}, ValidationConfig(compression_type="snappy")),
    "lz4, compacted": (
        {"compression_type": "lz4", "cleanup_policy": "compact", "compression_lz4_level": 3},
        ValidationConfig(compression_type="lz4", compression_level=3, compacted=True),
    ),
    "zstd, append time, compacted": (
        {"compression_type": "zstd", "message_timestamp_type": "LogAppendTime", "cleanup_policy": "compact"},
        ValidationConfig(compression_type="zstd", log_append_time=True, compacted=True),
    ),
}


class Case(NamedTuple):
    name: str
    batch: bytes
    version: int = 13


def made(section: bytes, count: int, codec: int = 0, **fields: int) -> bytes:
    """A batch of a record section, with header fields overwritten as told; its CRC is right."""
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        partition_leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=NOW,
        max_timestamp=NOW,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    return assemble(header._replace(**fields), compress(codec, section) if codec else section)


def records_of(rng: Random, count: int) -> Iterator[bytes]:
    """Encoded records of one of the shapes that producers make, and some that only a test makes."""
    key = rng.choice([None, b"", b"key", b"k" * 70, "any", "any"])
    value_bytes = rng.choice([None, 0, 5, 40, 100, 200, "any"])
    step = rng.choice([0, 0, 1, 7, -3, 300])
    headers = rng.choice([(), (), (("trace", b"12345678"), ("none", None)), "any"])
    for index in range(count):
        yield encode_record(
            index,
            step * index,
            rng.choice([None, b"a", b"ab"]) if key == "any" else key,
            None if value_bytes is None else bytes(rng.randrange(90) if value_bytes == "any" else value_bytes),
            rng.choice([(), (("h", b"v"),)]) if headers == "any" else headers,
        )


def with_crc(batch: bytes) -> bytes:
    copy = bytearray(batch)
    copy[CRC_POSITION:ATTRIBUTES_POSITION] = crc32c(batch[ATTRIBUTES_POSITION:]).to_bytes(4, "big")
    return bytes(copy)


def body(content: bytes) -> bytes:
    """A record of this content, its length in front."""
    return encode_varint(len(content)) + content


def header_cases(codec: int) -> Iterable[Case]:
    """One batch of three records, with a lie or an oddity in its header."""
    three = b"".join(encode_record(index, index, b"k", b"v") for index in range(3))
    oddities: dict[str, dict[str, int]] = {
        "sound": {},
        "base offset": {"base_offset": 5},
        "leader epoch": {"partition_leader_epoch": 99},
        "magic 1": {"magic": 1},
        "magic 0": {"magic": 0},
        "magic 3": {"magic": 3},
        "magic -1": {"magic": -1},
        "count 0": {"record_count": 0, "last_offset_delta": -1},
        "count -1": {"record_count": -1, "last_offset_delta": -2},
        "count 2": {"record_count": 2, "last_offset_delta": 1},
        "count 4": {"record_count": 4, "last_offset_delta": 3},
        "count of billions": {"record_count": (1 << 31) - 1, "last_offset_delta": (1 << 31) - 2},
        "last offset beyond count": {"last_offset_delta": 5},
        "count beyond last offset": {"record_count": 5},
        "negative last offset": {"last_offset_delta": -3},
        "control": {"attributes": codec | 0x20},
        "transactional": {"attributes": codec | 0x10, "producer_id": 9, "producer_epoch": 0, "base_sequence": 0},
        "transactional without producer": {"attributes": codec | 0x10},
        "delete horizon": {"attributes": codec | 0x40},
        "unknown attributes": {"attributes": codec | 0x7F80},
        "unknown attributes and maximum": {"attributes": codec | -0x80, "max_timestamp": 12},
        "append time": {"attributes": codec | 8},
        "append time -1": {"attributes": codec | 8, "max_timestamp": -1},
        "append time in the future": {"attributes": codec | 8, "max_timestamp": NOW * 2},
        "append time long ago": {"attributes": codec | 8, "max_timestamp": 5},
        "maximum in the future": {"max_timestamp": NOW * 2},
        "maximum long ago": {"max_timestamp": 0},
        "records without a time": {"base_timestamp": -1, "max_timestamp": -1},
        "records before 1970": {"base_timestamp": -5, "max_timestamp": -3},
        "records at the end of time": {"base_timestamp": (1 << 63) - 2},
        "records at the beginning of time": {"base_timestamp": -(1 << 63)},
        "records in the future": {"base_timestamp": NOW + 3_600_000 - 1},
        "records a little early": {"base_timestamp": NOW - 1001},
        "idempotent": {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0},
        "idempotent, last sequence": {"producer_id": 9, "producer_epoch": 0, "base_sequence": (1 << 31) - 1},
        "idempotent without sequence": {"producer_id": 9, "producer_epoch": 0},
        "idempotent, sequence -2": {"producer_id": 9, "producer_epoch": 0, "base_sequence": -2},
        "producer -2": {"producer_id": -2},
        "sequence without producer": {"base_sequence": 4},
    }
    for name, fields in oddities.items():
        yield Case(f"{NAMES[codec]}: {name}", made(three, 3, codec, **fields))


def record_cases(codec: int) -> Iterable[Case]:
    """Records that are odd or wrong in themselves."""
    first, second, third = (encode_record(index, 0, b"k", b"v") for index in range(3))
    odd = {
        "no key": encode_record(0, 0, None, b"v") + second,
        "no value": encode_record(0, 0, b"k", None) + second,
        "first delta not 0": encode_record(0, -9, b"k", b"v") + second,
        "a record too many": first + second + third,
        "a byte too many": first + second + b"\0",
        "a byte too few": first + second[:-1],
        "nothing": b"",
        "null header key": body(b"\0\0\0\x02k\x02v\x02\x01\x01") + second,
        "header": body(b"\0\0\0\x02k\x02v\x02\x02h\x01") + second,
        "negative header count": body(b"\0\0\0\x02k\x02v\x01") + second,
        "header count beyond the record": body(b"\0\0\0\x02k\x02v\x64\x01") + second,
        "value beyond the record": body(b"\0\0\0\x02k\x40v\0") + second,
        "key of 2 GB": body(b"\0\0\0\xfe\xff\xff\xff\x0fk\x02v\0") + second,
        "key of length -2": body(b"\0\0\0\x03\x02v\0") + second,
        "overlong integers": body(b"\0\x80\x00\x80\x80\x00\x82\x00k\x02v\x80\x00") + second,
        "timestamp of eleven bytes": body(b"\0" + b"\x80" * 10 + b"\x01\0\x01\x01\0") + second,
        "timestamp of ten bytes": body(b"\0" + b"\xff" * 9 + b"\x01\0\x01\x01\0") + second,
        "offset of six bytes": body(b"\0\0" + b"\x80" * 5 + b"\x01\x01\x01\0") + second,
        "record attributes": body(b"\x07\0\0\x02k\x02v\0") + second,
    }
    for name, section in odd.items():
        yield Case(f"{NAMES[codec]}: {name}", made(section, 2, codec))
    if not codec:
        for deltas in ([0, 0], [1, 0], [5, 9], [-1, 0]):
            section = b"".join(encode_record(delta, 0, b"k", b"v") for delta in deltas)
            yield Case(f"offset deltas {deltas}", made(section, 2))


def length_cases() -> Iterable[Case]:
    """Requests that are not one whole batch."""
    batch = made(encode_record(0, 0, b"k", b"v"), 1)
    yield Case("nothing", b"")
    for size in (1, 11, 12, 16, 17, 30, 60, 61, len(batch) - 1):
        yield Case(f"the first {size} bytes", batch[:size])
    for extra in (b"\0", batch[:11], batch[:12], batch[:17], batch[:-1], bytes(12), bytes(17), b"\xff" * 17, batch):
        yield Case(f"followed by {extra.hex()}", batch + extra)
    yield Case("followed by another format", batch + batch[:16] + b"\x05" + batch[17:])
    yield Case("followed by an older format", batch + batch[:16] + b"\x00" + batch[17:])
    for length in (-(1 << 31), -1, 0, 13, 15, 26, 27, 48, 49, 1 << 30):
        short = batch[:8] + length.to_bytes(4, "big", signed=True) + batch[12:]
        yield Case(f"length {length}", short)
        yield Case(f"length {length}, ending there", short[: max(length, 0) + 12])
    yield Case("wrong CRC", batch[:-1] + b"\x01")
    for codec in (5, 6, 7):
        unknown = with_crc(batch[:22] + bytes([codec]) + batch[23:])
        yield Case(f"codec {codec}", unknown)
        yield Case(f"codec {codec} in version 3", unknown, 3)
    for version in (3, 6, 7):
        yield Case(f"zstd in version {version}", made(encode_record(0, 0, b"k", b"v"), 1, 4), version)
    yield Case("large", made(encode_record(0, 0, b"k", bytes(1_100_000)), 1))
    yield Case("large when inflated", made(encode_record(0, 0, b"k", bytes(1_900_000)), 1, 4))


def shapes() -> Iterable[Case]:
    """Sound batches of many shapes in every codec."""
    rng = Random(11)
    for number in range(60):
        count = rng.choice([1, 2, 10, 30, 65, 150, 400])
        section = b"".join(records_of(rng, count))
        codec = rng.choice(CODECS)
        yield Case(f"shape {number} of {count} in {NAMES[codec]}", made(section, count, codec))


def mutations(count: int, seed: int) -> Iterable[Case]:
    """Batches with a few bytes changed, whose CRC is right."""
    rng = Random(seed)
    for number in range(count):
        records = rng.choice([1, 2, 5, 40, 140])
        section = bytearray(b"".join(records_of(rng, records)))
        codec = rng.choice([0, 0, 0, rng.choice(CODECS)])
        for _ in range(rng.choice([0, 1, 1, 2])):
            place = rng.randrange(len(section)) if rng.random() < 0.7 else rng.randrange(min(len(section), 14))
            section[place] = rng.choice([0, 1, 2, section[place] ^ 1, section[place] ^ 0x80, rng.randrange(256)])
        batch = bytearray(made(bytes(section), records, codec))
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            batch[rng.randrange(CRC_POSITION + 4, HEADER_BYTES)] = rng.choice([0, 1, 0xFF, rng.randrange(256)])
        yield Case(f"mutation {number} of seed {seed}", with_crc(bytes(batch)))


def our_verdict(case: Case, config: ValidationConfig, base_offset: int) -> batches.Verdict:
    found = verdict_of(case, memoryview(bytearray(case.batch)), config, base_offset)
    assert verdict_of(case, case.batch, config, base_offset) == found, case.name
    return found


def verdict_of(case: Case, records: bytes | memoryview, config: ValidationConfig, base_offset: int) -> batches.Verdict:
    try:
        sole_batch(records, case.version)
        fields, buffer, log_append_time_ms = validate(records, config, NOW, EPOCH, base_offset, "t-0")
    except BatchRefused as refused:
        return batches.Verdict(
            error_code=refused.code, message=refused.message, record_errors=tuple(refused.record_errors)
        )
    assert placed(fields, base_offset, EPOCH) == parse_header(buffer)
    assert fields[BATCH_LENGTH] + LENGTH_END == len(buffer)
    return batches.Verdict(base_offset, log_append_time_ms, bytes(buffer))


class Asked(NamedTuple):
    """A case, and what Kafka makes of it: its verdict, and whether a consumer could read the batch as produced."""

    case: Case
    kafka: batches.Verdict
    is_readable: bool


ODD = "headers and records that are odd or wrong"
MUTATED = "mutations"


def cases_of(kind: str, config_name: str) -> list[Case]:
    if kind == MUTATED:
        return list(mutations(1500, seed=len(config_name)))
    odd = [case for codec in CODECS for case in (*header_cases(codec), *record_cases(codec))]
    return [*odd, *length_cases(), *shapes()]


GROUPS = [(ODD, name) for name in CONFIGS]
RECORDED = [(ODD, name) for name in ("default", "append time", "compacted", "strict", "small", "uncompressed", "gzip")]
RECORDED += [(MUTATED, name) for name in ("default", "compacted", "append time")]
MOST_RECORDED = 250
GROUPS += [(MUTATED, name) for name in ("default", "compacted", "strict", "append time", "gzip", "uncompressed")]


class Kafka:
    """A JVM that is asked all questions at once."""

    def ask_for_line(self, *words: object) -> str:
        return "\n".join(batches.ask([str(each) for each in words]))

    def close(self) -> None:
        """It has ended."""


@pytest.fixture(scope="module")
def asked() -> dict[tuple[str, str], list[Asked]]:
    """Kafka's answers to all cases of all groups, from one JVM."""
    return answered(Kafka(), {group: cases_of(*group) for group in GROUPS})


def answered(
    kafka: recorded_kafka.Asked, cases: dict[tuple[str, str], list[Case]]
) -> dict[tuple[str, str], list[Asked]]:
    questions = []
    for group in cases:
        questions.append(batches.topic(**CONFIGS[group[1]][0]))
        for case in cases[group]:
            questions.append(batches.append(case.batch, NOW, version=case.version, leader_epoch=EPOCH))
            questions.append(batches.read(case.batch if is_compressed(case.batch) else b""))
    answers = iter(kafka.ask_for_line(*questions).split("\n"))
    found: dict[tuple[str, str], list[Asked]] = {}
    for group in cases:
        next(answers)
        found[group] = [
            Asked(case, batches.verdict(next(answers)), batches.seen(next(answers)) is not None)
            for case in cases[group]
        ]
    return found


@pytest.mark.java
@pytest.mark.parametrize(("kind", "config_name"), GROUPS)
def test_the_verdict_is_kafkas(asked: dict[tuple[str, str], list[Asked]], kind: str, config_name: str) -> None:
    compare(asked[kind, config_name], config_name)


@pytest.mark.parametrize(("kind", "config_name"), RECORDED)
def test_the_verdict_is_the_one_that_kafka_gave(recorded: recorded_kafka.Play, kind: str, config_name: str) -> None:
    """Without compressed batches, whose bytes are those of one version of a codec's library."""
    cases = [each for each in cases_of(kind, config_name) if not is_compressed(each.batch) and len(each.batch) < 2_000]
    group = kind, config_name
    compare(answered(recorded(Kafka), {group: cases[:MOST_RECORDED]})[group], config_name)


def compare(asked: list[Asked], config_name: str) -> None:
    for case, kafka, is_readable in asked:
        ours = our_verdict(case, CONFIGS[config_name][1], kafka.base_offset)
        where = f"{case.name} on a topic with {config_name}: Kafka {kafka!r:.400}, we {ours!r:.400}"
        if ours.error_code == error_codes.INVALID_RECORD and is_compressed(case.batch) and not is_readable:
            # Kafka ignores the lengths of records in compressed batches, and stores what no consumer can read.
            continue
        assert error_codes.name(ours.error_code) == error_codes.name(kafka.error_code), where
        assert ours.record_errors == kafka.record_errors, where
        assert ours.message == (kafka.message if kafka.record_errors else None), where
        if not kafka.error_code:
            assert ours.log_append_time_ms == kafka.log_append_time_ms, where
            assert_same_batch(case, ours.batch, kafka.batch, where)


def is_compressed(batch: bytes) -> bool:
    return len(batch) >= HEADER_BYTES and parse_header(batch).codec != 0


def assert_same_batch(case: Case, ours: bytes, kafka: bytes, where: str) -> None:
    """The same bytes; of a batch that was compressed again, the same header and records."""
    header, expected = parse_header(ours), parse_header(kafka)
    if parse_header(case.batch).codec == expected.codec:
        assert ours == kafka, where
        return
    assert check_crc(ours, header), where
    assert header._replace(batch_length=0, crc=0) == expected._replace(batch_length=0, crc=0), where
    assert list(read_records(ours)) == list(read_records(kafka)), where
