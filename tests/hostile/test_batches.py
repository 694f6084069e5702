"""Produced batches whose headers and records lie, and batches that are small only until they are inflated.

Whatever was sent: an error of Kafka's or an offset, the connection works on, and what is stored can be read.
"""

import struct
import time
import zlib
from random import Random

import pytest
from attacker import Attacker, create_topic, produce
from watched import WatchedBroker

from kpywire import error_codes
from kpywire.batch import ATTRIBUTES_POSITION, HEADER, HEADER_BYTES, batch_headers, check_crc
from kpywire.compression import GZIP, LZ4, NAMES, SNAPPY, ZSTD, compress
from kpywire.crc import crc32c
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.record import Record, build_batch, encode_record, read_records

MIB = 1024 * 1024
TOPIC = "batches"
NOW_MS = int(time.time() * 1000)
CODECS = (GZIP, SNAPPY, LZ4, ZSTD)


@pytest.fixture(scope="module", autouse=True)
def _topic(broker: WatchedBroker) -> None:
    with Attacker(broker.port) as client:
        create_topic(client, TOPIC)


def sealed(header: dict[str, int], section: bytes) -> bytes:
    """A batch with these header fields, true where they are not told, and the CRC that belongs to it."""
    count = header.get("record_count", 1)
    fields = {
        "base_offset": 0, "batch_length": HEADER_BYTES - 12 + len(section), "leader_epoch": -1, "magic": 2, "crc": 0,
        "attributes": 0, "last_offset_delta": max(count - 1, -(2**31)), "base_timestamp": NOW_MS,
        "max_timestamp": NOW_MS, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "record_count": count,
        **header,
    }  # fmt: skip
    batch = bytearray(HEADER.pack(*fields.values()) + section)
    struct.pack_into(">I", batch, ATTRIBUTES_POSITION - 4, crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]))
    return bytes(batch)


def stored(client: Attacker) -> int:
    """Read the whole partition: every batch with its CRC, every record. How many records there are."""
    offset = records = 0
    while True:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=8 * MIB)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=TOPIC, partitions=[partition])])
        answer = client.call(request, 12).responses[0].partitions[0]
        assert answer.error_code == error_codes.NONE
        data = bytes(answer.records or b"")
        if not data:
            return records
        for position, header in batch_headers(data):
            assert check_crc(data, header, position)
            assert header.base_offset >= offset
            offset = header.next_offset
        records += sum(1 for _ in read_records(data))


EXTREMES = {
    "base_offset": (-1, 1, 2**63 - 1, -(2**63)),
    "batch_length": (-1, 0, 14, 48, 49, 2**31 - 1, -(2**31)),
    "magic": (-1, 0, 1, 3, 127),
    "attributes": (5, 6, 7, 8, 0x10, 0x20, 0x30, 0x40, 0x80, -1, 0x7FF8),
    "last_offset_delta": (-1, 1, 2**31 - 1, -(2**31)),
    "record_count": (-1, 0, 2, 2**31 - 1, -(2**31)),
    "base_timestamp": (-1, -2, -(2**63), 2**63 - 1, 0, NOW_MS * 2),
    "max_timestamp": (-1, -(2**63), 2**63 - 1, 0),
    "producer_id": (0, 2**63 - 1, -2, -(2**63)),
    "producer_epoch": (0, -2, 2**15 - 1),
    "base_sequence": (0, -2, 2**31 - 1),
    "leader_epoch": (0, 2**31 - 1, -5),
}
ONE_RECORD = encode_record(0, 0, b"key", b"value", [("header", b"value")])


@pytest.mark.parametrize("codec", [0, *CODECS], ids=NAMES)
def test_a_header_that_lies_is_refused_or_harmless(attacker: Attacker, codec: int) -> None:
    section = compress(codec, ONE_RECORD) if codec else ONE_RECORD
    for field, values in EXTREMES.items():
        for value in values:
            header = {"attributes": codec, field: value if field != "attributes" else value | codec}
            answer = produce(attacker, TOPIC, sealed(header, section))
            if field in ("batch_length", "magic", "record_count", "last_offset_delta", "base_offset"):
                assert answer.error_code != error_codes.NONE, f"{field} {value} was stored"
    assert stored(attacker) >= 0


def test_records_that_lie_are_refused_or_readable(attacker: Attacker, rounds: int) -> None:
    rng = Random(41)
    plain = b"".join(encode_record(n, n, b"k%d" % n, b"v" * n, [("h", b"x"), ("", None)]) for n in range(40))
    before = stored(attacker)
    accepted = 0
    for number in range(300 * rounds):
        section = bytearray(plain)
        for _ in range(1 + number % 3):
            section[rng.randrange(len(section))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        codec = rng.choice((0, 0, *CODECS))
        answer = produce(
            attacker,
            TOPIC,
            sealed({"attributes": codec, "record_count": 40}, compress(codec, bytes(section))),
        )
        accepted += 40 if answer.error_code == error_codes.NONE else 0
    assert stored(attacker) == before + accepted


def test_damaged_compressed_sections_are_refused_or_readable(attacker: Attacker, rounds: int) -> None:
    rng = Random(42)
    plain = b"".join(encode_record(n, n, None, bytes([n]) * 50) for n in range(100))
    before = stored(attacker)
    accepted = 0
    for number in range(300 * rounds):
        codec = CODECS[number % len(CODECS)]
        section = bytearray(compress(codec, plain))
        match number % 3:
            case 0:
                del section[rng.randrange(len(section)) :]
            case 1:
                section[rng.randrange(len(section))] ^= 1 << rng.randrange(8)
            case 2:
                section = bytearray(rng.randbytes(rng.randrange(1, 300)))
        answer = produce(attacker, TOPIC, sealed({"attributes": codec, "record_count": 100}, bytes(section)))
        accepted += 100 if answer.error_code == error_codes.NONE else 0
    assert stored(attacker) == before + accepted


def gzip_of_zeros(count: int) -> bytes:
    """The zeros as small as they get, without ever holding them."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [deflater.compress(bytes(MIB)) for _ in range(count // MIB)]
    return b"".join(parts) + deflater.flush()


BOMB_BYTES = 256 * MIB


def bomb(codec: int) -> bytes:
    """A section of at most a megabyte that inflates to far more than anybody should hold."""
    if codec == GZIP:
        return gzip_of_zeros(BOMB_BYTES)
    if codec == SNAPPY:
        # One raw block: its declared length, then copies of the byte before, 64 at a time.
        copies = b"\xfe\x01\x00" * (300_000)
        length = 1 + 64 * 300_000
        return _varint(length) + b"\x00\x00" + copies
    piece = compress(codec, bytes(16 * MIB))
    if codec == LZ4:
        body = piece[7:-4]
        return piece[:7] + body * (BOMB_BYTES // (16 * MIB)) + piece[-4:]
    return piece * (BOMB_BYTES // (16 * MIB))


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(encoded) + bytes([value])


@pytest.mark.parametrize("codec", CODECS, ids=NAMES[1:])
def test_a_bomb_is_refused_before_it_goes_off(target: WatchedBroker, attacker: Attacker, codec: int) -> None:
    section = bomb(codec)
    if len(section) > 900_000:
        section = section[:900_000]
    before = target.memory_bytes()
    target.forget_peak()
    batch = sealed({"attributes": codec, "record_count": 1}, section)
    for _ in range(3):
        assert produce(attacker, TOPIC, batch).error_code != error_codes.NONE
    assert target.peak_memory_bytes() - before < 250 * MIB


LABOURS = {
    "records of one offset": (encode_record(0, 0, None, b"") * 4_000_000, 4_000_000),
    "records with headers": (encode_record(0, 0, None, b"", [("a", b"")]) * 2_000_000, 2_000_000),
    "nothing but headers": (encode_record(0, 0, None, b"", [("", None)] * 3_000_000), 1),
}


@pytest.mark.parametrize("labour", LABOURS.values(), ids=LABOURS.keys())
def test_a_small_batch_of_millions_of_records_is_refused(attacker: Attacker, labour: tuple[bytes, int]) -> None:
    section, count = labour
    batch = sealed({"attributes": ZSTD, "record_count": count}, compress(ZSTD, section))
    assert len(batch) < 10_000
    assert produce(attacker, TOPIC, batch).error_code == error_codes.MESSAGE_TOO_LARGE


def test_batches_side_by_side_cut_off_and_strange_are_refused(attacker: Attacker) -> None:
    batch = build_batch([Record(timestamp=NOW_MS, value=b"x")])
    control = build_batch([Record(timestamp=NOW_MS, key=b"\0\0\0\0", value=b"\0\0\0\0\0\0")], control=True)
    oddities = [batch + batch, batch[:-1], batch[:60], batch[:17], b"", b"\0", bytes(61), control, bytes(1000)]
    for odd in oddities:
        assert produce(attacker, TOPIC, odd).error_code != error_codes.NONE
    assert produce(attacker, TOPIC, batch + b"\0" * 5).error_code in (error_codes.NONE, error_codes.CORRUPT_MESSAGE)
    assert produce(attacker, TOPIC, None).error_code != error_codes.NONE


def test_ten_thousand_bad_timestamps_are_named_and_no_more(attacker: Attacker) -> None:
    section = b"".join(encode_record(n, 0, None, b"") for n in range(100_000))
    header = {"record_count": 100_000, "base_timestamp": NOW_MS + 10**10, "max_timestamp": NOW_MS + 10**10}
    answer = produce(attacker, TOPIC, sealed(header, section))
    assert answer.error_code == error_codes.INVALID_TIMESTAMP
    assert len(answer.record_errors) == 10_000


def test_made_up_producer_ids_cost_little(target: WatchedBroker, attacker: Attacker) -> None:
    before = target.memory_bytes()
    for number in range(2_000):
        header = {"producer_id": 10**15 + number, "producer_epoch": 0, "base_sequence": 0}
        assert produce(attacker, TOPIC, sealed(header, ONE_RECORD)).error_code == error_codes.NONE
    assert target.memory_bytes() - before < 16 * MIB
