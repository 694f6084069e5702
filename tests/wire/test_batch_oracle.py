"""Apache Kafka's own classes write the batches we write, read those we write, and inflate what we compress."""

from random import Random

import pytest

from kpywire.batch import LOG_APPEND_TIME, check_crc, parse_header
from kpywire.compression import GZIP, LZ4, NAMES, NONE, SNAPPY, ZSTD, compress, decompress
from kpywire.control_record import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    ControlRecord,
    control_batch,
    end_transaction,
    read_control_record,
)
from kpywire.messages import voters_record
from kpywire.messages.kraft_version_record import KRaftVersionRecord
from kpywire.messages.leader_change_message import LeaderChangeMessage
from kpywire.messages.leader_change_message import Voter as ElectionVoter
from kpywire.messages.snapshot_footer_record import SnapshotFooterRecord
from kpywire.messages.snapshot_header_record import SnapshotHeaderRecord
from kpywire.record import Record, build_batch, read_records
from oracle import batches

pytestmark = pytest.mark.java

CODECS = [GZIP, SNAPPY, LZ4, ZSTD]


def some_records(rng: Random) -> list[Record]:
    now = 1_700_000_000_000
    texts = [None, b"", b"x", b"key", bytes(70), bytes(20_000)]
    headers = [(), (("h", b"v"),), (("grüße", None), ("h", b""), ("h", bytes(100)))]
    return [
        Record(
            timestamp=rng.choice([-1, 0, 5, now, now + rng.randrange(-100_000, 10_000_000)]),
            key=rng.choice(texts),
            value=rng.choice(texts),
            headers=rng.choice(headers),
        )
        for _ in range(rng.choice([1, 1, 2, 3, 70, 200]))
    ]


def as_kafka_sees(records: list[Record]) -> list[batches.Seen]:
    return [batches.Seen(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records]


def test_batches_are_built_byte_for_byte_as_kafka_builds_them() -> None:
    rng = Random(5)
    questions, ours = [], []
    for number in range(200):
        records = some_records(rng)
        append_time_ms = 1_800_000_000_000 if number % 7 == 0 else -1
        base_offset, epoch = rng.choice([0, 5, 1 << 40]), rng.choice([-1, 0, 9])
        producer = (rng.randrange(1 << 40), rng.randrange(100), rng.randrange(1 << 31)) if number % 3 else (-1, -1, -1)
        transactional = number % 3 == 2
        questions.append(
            batches.build(
                [(r.timestamp, r.key, r.value, r.headers) for r in records],
                base_offset=base_offset,
                leader_epoch=epoch,
                producer_id=producer[0],
                producer_epoch=producer[1],
                sequence=producer[2],
                transactional=transactional,
                append_time_ms=append_time_ms,
            )
        )
        ours.append(
            build_batch(
                records,
                base_offset=base_offset,
                partition_leader_epoch=epoch,
                timestamp_type=LOG_APPEND_TIME if append_time_ms >= 0 else 0,
                log_append_time_ms=append_time_ms,
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=producer[2],
                transactional=transactional,
            )
        )
    for answer, batch in zip(batches.ask(questions), ours, strict=True):
        assert batches.data(answer) == batch


def test_kafka_reads_what_we_write_in_every_codec() -> None:
    rng = Random(6)
    cases = []
    for number in range(100):
        batch = build_batch(some_records(rng), base_offset=number, codec=number % 5)
        assert check_crc(batch, parse_header(batch))
        cases.append(batch + build_batch([Record(value=b"next")], base_offset=number + 500))
    for answer, case in zip(batches.ask([batches.read(case) for case in cases]), cases, strict=True):
        assert batches.seen(answer) == as_kafka_sees(list(read_records(case)))


def test_codecs_read_each_other_at_every_level() -> None:
    rng = Random(7)
    texts = [b"x", b"abc" * 50_000, rng.randbytes(100_000), b"".join(b'{"n":%d}' % (n * 7919) for n in range(20_000))]
    levels = {GZIP: [-1, 1, 9], SNAPPY: [0], LZ4: [1, 9, 17], ZSTD: [-7, 1, 3, 19]}
    cases = [(codec, level, text) for codec in CODECS for level in levels[codec] for text in texts]
    questions = [batches.deflate(NAMES[codec], level, text) for codec, level, text in cases]
    questions += [batches.inflate(NAMES[codec], compress(codec, text, level)) for codec, level, text in cases]
    answers = [batches.data(answer) for answer in batches.ask(questions)]
    for (codec, _, text), theirs in zip(cases, answers[: len(cases)], strict=True):
        assert theirs is not None
        assert decompress(codec, theirs, len(text)) == text
    for (_, _, text), inflated in zip(cases, answers[len(cases) :], strict=True):
        assert inflated == text


def test_damaged_sections_are_refused_where_kafka_refuses_them() -> None:
    rng = Random(8)
    text = b"".join(b'{"n":%d}' % (n * 7919) for n in range(500))
    cases = []
    for number in range(1200):
        codec = CODECS[number % 4]
        packed = bytearray(compress(codec, text))
        if rng.random() < 0.3:
            del packed[rng.randrange(len(packed)) :]
        else:
            packed[rng.choice([rng.randrange(len(packed)), rng.randrange(20)])] ^= 1 << rng.randrange(8)
        cases.append((codec, bytes(packed)))
    answers = batches.ask([batches.inflate(NAMES[codec], packed) for codec, packed in cases])
    refused = 0
    for (codec, packed), answer in zip(cases, answers, strict=True):
        kafka = batches.data(answer)
        try:
            ours = decompress(codec, packed, 1 << 24)
        except ValueError:
            ours = None
        assert ours == kafka, f"{NAMES[codec]} {packed.hex()}"
        refused += ours is None
    assert refused > len(cases) // 2


def test_control_batches_are_kafkas_byte_for_byte() -> None:
    voter = voters_record.Voter(voter_id=3)
    change = LeaderChangeMessage(
        leader_id=3,
        voters=[ElectionVoter(voter_id=3), ElectionVoter(voter_id=4)],
        granting_voters=[ElectionVoter(voter_id=4)],
    )
    records = [
        ControlRecord(LEADER_CHANGE, change),
        ControlRecord(SNAPSHOT_HEADER, SnapshotHeaderRecord(last_contained_log_timestamp=10)),
        ControlRecord(SNAPSHOT_FOOTER, SnapshotFooterRecord()),
        ControlRecord(KRAFT_VERSION, KRaftVersionRecord(kraft_version=1)),
        ControlRecord(KRAFT_VOTERS, voters_record.VotersRecord(voters=[voter])),
    ]
    ours = [
        control_batch(
            [end_transaction(commit=commit, coordinator_epoch=12)], 7, 9, 8, producer_id=10, producer_epoch=11
        )
        for commit in (False, True)
    ]
    ours += [control_batch([record], 7, 9, 8) for record in records]
    (answer,) = batches.ask([batches.CONTROL])
    assert [bytes.fromhex(word) for word in answer.split(" ")[1:]] == ours
    read = [read_control_record(record) for batch in ours for record in read_records(batch)]
    assert read[2:] == records
    assert parse_header(ours[0]).codec == NONE
