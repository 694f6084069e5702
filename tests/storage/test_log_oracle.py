"""The same batches into Apache Kafka's own log and into ours: the same answers, and files equal byte for byte."""

import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from log_making import NOW_MS, TOPIC_ID, append, headers_of, headers_of_whole, make_batch, make_marker, open_directory

from kpystorage.directory import LogDirectory
from kpystorage.errors import InvalidProducerEpoch, InvalidTxnState, OffsetOutOfRange, OutOfOrderSequence
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
from kpywire.batch import parse_header, stamp_offset_and_epoch
from oracle.jars import KAFKA_LOG, compile_java, jvm

pytestmark = pytest.mark.java

CONFIGS = {
    "size": LogConfig(segment_bytes=4000, index_interval_bytes=500, segment_index_bytes=1200),
    "index": LogConfig(segment_bytes=100_000, index_interval_bytes=200, segment_index_bytes=100),
    "time": LogConfig(segment_bytes=100_000, index_interval_bytes=300, segment_index_bytes=1200, segment_ms=3000),
    "preallocate": LogConfig(segment_bytes=4000, index_interval_bytes=500, segment_index_bytes=1200, preallocate=True),
    "retention": LogConfig(segment_bytes=3000, index_interval_bytes=500, retention_bytes=9000, retention_ms=20_000),
}


class Oracle:
    """The Java program; one process for all tests."""

    def __init__(self) -> None:
        log = compile_java(KAFKA_LOG)
        classes = compile_java(Path(__file__).with_name("LogOracle.java"), log)
        self.process = subprocess.Popen(
            [*jvm(classes, log), "LogOracle"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, *words: object) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def tell(self, *words: object) -> None:
        assert self.ask(*words) == "ok"

    def open(self, path: Path, config: LogConfig, *, clean: bool = True, start: int = 0, recovery: int = 0) -> None:
        self.tell("open", path, str(clean).lower(), start, recovery, as_kafka_says(config))

    def configure(self, config: LogConfig) -> None:
        self.tell("config", as_kafka_says(config))


def as_kafka_says(config: LogConfig) -> str:
    """``key=value,...``; a comma in a value is a plus."""
    policies = [
        name for name, is_on in (("compact", config.cleanup_compact), ("delete", config.cleanup_delete)) if is_on
    ]
    settings = {
        "internal.segment.bytes": config.segment_bytes,
        "segment.ms": config.segment_ms,
        "segment.index.bytes": config.segment_index_bytes,
        "index.interval.bytes": config.index_interval_bytes,
        "retention.bytes": config.retention_bytes,
        "retention.ms": config.retention_ms,
        "cleanup.policy": "+".join(policies),
        "file.delete.delay.ms": config.file_delete_delay_ms,
        "preallocate": str(config.preallocate).lower(),
    }
    return ",".join(f"{key}={value}" for key, value in settings.items())


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    made = Oracle()
    yield made
    assert made.process.stdin is not None
    made.process.stdin.close()
    assert made.process.wait(30) == 0


class Pair:
    """Two logs that are given the same to do."""

    def __init__(self, oracle: Oracle, tmp_path: Path, config: LogConfig, seed: int) -> None:
        self.oracle = oracle
        self.rng = Random(seed)
        self.config = config
        self.now_ms = NOW_MS
        self.kafka_path = tmp_path / "kafka" / "t-0"
        self.our_path = tmp_path / "ours"
        self.our_path.mkdir(parents=True)
        self.kafka_path.mkdir(parents=True)
        oracle.tell("now", self.now_ms)
        oracle.open(self.kafka_path, config)
        self.directory = open_directory(RealDisk(Descriptors(8)), str(self.our_path))
        self.log: Log = self.directory.create_log("t", 0, TOPIC_ID, config, self.now_ms)
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.in_transaction: set[int] = set()

    def step(self) -> None:
        """Time goes on, and a few batches come in one append."""
        self.now_ms += self.rng.randint(0, 400)
        self.oracle.tell("now", self.now_ms)
        batches: list[bytes] = []
        offset = self.log.end.offset
        for _ in range(self.rng.choice([1, 1, 1, 2, 4]) if self.config is not CONFIGS["index"] else 1):
            batches.append(self.batch(offset))
            offset = headers_of(batches[-1])[-1].next_offset
        self.oracle.tell("append", self.epoch, b64encode(b"".join(batches)).decode())
        append(self.log, *batches, now_ms=self.now_ms)

    def batch(self, offset: int) -> bytes:
        producer = self.rng.choice([-1, 1, 2, 3])
        common: dict[str, Any] = {"leader_epoch": self.epoch, "timestamp": self.now_ms - self.rng.randint(0, 300)}
        if producer in self.in_transaction and self.rng.random() < 0.5:
            self.in_transaction.discard(producer)
            return make_marker(offset, producer, commit=self.rng.random() < 0.4, **common)
        count = self.rng.randint(1, 5)
        sequence = self.sequences.get(producer, 0)
        self.sequences[producer] = sequence + count
        if producer > 1:
            self.in_transaction.add(producer)
        return make_batch(
            offset,
            count,
            value_bytes=self.rng.randint(5, 150),
            producer_id=producer,
            base_sequence=sequence,
            transactional=producer > 1,
            **common,
        )

    def check_state(self) -> None:
        """Offsets, segments, epochs and the first unstable offset."""
        log = self.log
        segments = " ".join(f"{segment.base_offset}:{segment.size}" for segment in log.segments)
        epochs = " ".join(f"{epoch}:{start}" for epoch, start in log.epochs.entries())
        ours = f"{log.log_start_offset} {log.end.offset} | {segments} | {epochs} | {self.first_unstable_offset()}"
        assert ours == self.oracle.ask("state")

    def first_unstable_offset(self) -> int:
        """Below the log start Kafka names the first offset of the batch that the log starts in."""
        unstable = self.log.producers.first_unstable
        start = self.log.log_start_offset
        if unstable is None or unstable.offset >= start:
            return unstable.offset if unstable else -1
        first = self.log.read(start, 100_000, self.log.end, min_one_batch=True)
        return headers_of_whole(first.read())[0].base_offset if first else start

    def check_sizes(self) -> None:
        """Check the sizes of the ``.log`` files, with the room that is taken beforehand."""
        kafka, ours = (
            {each.name: each.stat().st_size for each in path.glob("*.log")}
            for path in (self.kafka_path, self.our_path / "t-0")
        )
        assert ours == kafka

    def check_reads(self) -> None:
        """Reading, looking up times and aborted transactions, at many places."""
        log = self.log
        for _ in range(60):
            offset = self.rng.randint(0, log.end.offset)
            size = self.rng.choice([10, 200, 1000, 100_000])
            whole = self.rng.random() < 0.5
            answer = self.oracle.ask("read", offset, size, str(whole).lower())
            try:
                found = log.read(offset, size, log.end, min_one_batch=whole)
            except OffsetOutOfRange:
                assert answer.startswith("error OffsetOutOfRangeException")
                continue
            if found is None:
                assert answer.endswith(" 0")
            else:
                base = log.position_of(offset).segment_base_offset
                assert f"{base} {found.position} {len(found)}" == answer
        for timestamp in (NOW_MS - 1000, self.now_ms + 1, *(self.rng.randint(NOW_MS, self.now_ms) for _ in range(30))):
            hit = log.offset_for_timestamp(timestamp)
            ours = f"{hit.timestamp} {hit.offset} {hit.leader_epoch}" if hit else "none"
            assert ours == self.oracle.ask("time", timestamp)
        maximum = log.max_timestamp_offset()
        assert maximum is not None
        assert f"{maximum.timestamp} {maximum.offset} {maximum.leader_epoch}" == self.oracle.ask("time", -3)
        for _ in range(20):
            start = self.rng.randint(log.log_start_offset, log.end.offset)
            end = self.rng.randint(start, log.end.offset)
            ours = [":".join(map(str, transaction)) for transaction in log.aborted_transactions(start, end)]
            # Kafka's method, other than its fetch, also names those that ended before the start.
            kafkas = self.oracle.ask("aborted", start, end).split()
            assert ours == [each for each in kafkas if int(each.split(":")[2]) >= start]

    def replicate(self) -> None:
        """The high watermark reaches the end."""
        self.log.producers.replicated_to(self.log.end.offset)
        self.oracle.tell("high", self.log.end.offset)

    def close(self) -> None:
        self.oracle.tell("close")
        self.directory.close()

    def check_files(self) -> None:
        """Every file of both directories."""
        kafka, ours = contents(self.kafka_path), contents(self.our_path / "t-0")
        assert sorted(ours) == sorted(kafka)
        for name, data in kafka.items():
            assert ours[name] == data, name


def contents(path: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in path.iterdir() if not entry.name.endswith(".deleted")}


def reopened(path: Path, config: LogConfig) -> LogDirectory:
    return open_directory(RealDisk(), str(path), config=config)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_files_of_a_log_are_kafkas(oracle: Oracle, tmp_path: Path, name: str) -> None:
    pair = Pair(oracle, tmp_path, CONFIGS[name], seed=len(name))
    for number in range(120):
        pair.step()
        if number % 20 == 19:
            pair.check_state()
            pair.check_sizes()
            pair.check_reads()
        if name == "retention" and number % 30 == 29:
            pair.replicate()
            assert str(pair.log.delete_old_segments(pair.now_ms, pair.log.end.offset)) == oracle.ask("delete")
            pair.check_state()
    pair.close()
    pair.check_files()


def test_a_log_opened_again_after_a_clean_stop_goes_on_as_kafkas(oracle: Oracle, tmp_path: Path) -> None:
    pair = Pair(oracle, tmp_path, CONFIGS["size"], seed=11)
    for _ in range(4):
        for _ in range(15):
            pair.step()
        pair.close()
        pair.check_files()
        oracle.open(pair.kafka_path, pair.config, recovery=pair.log.topic.count("t"))
        pair.directory = reopened(pair.our_path, pair.config)
        pair.log = pair.directory.logs["t", 0].open()
        pair.check_state()
        pair.check_reads()
    pair.close()
    pair.check_files()


def test_truncation_and_deleted_records_leave_what_kafka_leaves(oracle: Oracle, tmp_path: Path) -> None:
    pair = Pair(oracle, tmp_path, CONFIGS["size"], seed=12)
    for _ in range(6):
        for _ in range(12):
            pair.step()
        pair.replicate()
        bases = [
            header.base_offset for segment in pair.log.segments for header in headers_of(segment.log.pread(1 << 20, 0))
        ]
        target = pair.rng.choice([base for base in bases if base > pair.log.log_start_offset])
        oracle.tell("truncate", target)
        pair.log.truncate_to(target, pair.now_ms)
        pair.epoch += 1
        pair.sequences = {}
        pair.in_transaction = set()
        start = pair.rng.randint(pair.log.log_start_offset, pair.log.end.offset)
        oracle.tell("start", start)
        pair.log.advance_log_start(start)
        assert str(pair.log.delete_old_segments(pair.now_ms, pair.log.end.offset)) == oracle.ask("delete")
        pair.check_state()
        pair.check_reads()
    pair.step()
    pair.check_state()
    pair.close()
    pair.check_files()


@pytest.mark.parametrize("damage", ["torn", "flipped", "no index", "bad index", "preallocated", "none"])
def test_recovery_after_a_crash_makes_of_a_directory_what_kafka_makes(
    oracle: Oracle, tmp_path: Path, damage: str
) -> None:
    pair = Pair(oracle, tmp_path, CONFIGS["preallocate" if damage == "preallocated" else "size"], seed=13)
    for _ in range(40):
        pair.step()
    pair.log.active.seal()
    left = pair.our_path / "t-0"
    last = left / f"{pair.log.active.base_offset:020d}.log"
    first_base = pair.log.segments[1].base_offset
    if damage == "torn":
        last.write_bytes(last.read_bytes()[:-7])
    elif damage == "flipped":
        data = bytearray(last.read_bytes())
        data[len(data) // 2] ^= 0x10
        last.write_bytes(data)
    elif damage == "no index":
        (left / f"{first_base:020d}.index").unlink()
    elif damage == "bad index":
        (left / f"{first_base:020d}.index").write_bytes(b"\xff" * 40)
    shutil.rmtree(pair.kafka_path)
    shutil.copytree(left, pair.kafka_path)
    pair.directory.abandon()
    (pair.our_path / ".kpybroker_session").unlink()
    oracle.open(pair.kafka_path, pair.config, clean=False)
    pair.directory = reopened(pair.our_path, pair.config)
    pair.log = pair.directory.logs["t", 0].open()
    pair.replicate()
    pair.check_state()
    pair.check_reads()
    pair.close()
    pair.check_files()


class Producers:
    """Idempotent producers that mostly behave, and what both logs say to each of their batches."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.rng = pair.rng
        self.sent: list[tuple[int, int, int, int]] = []
        self.answers: set[str] = set()

    def produce(self, producer: int, epoch: int, sequence: int, count: int, *, transactional: bool = False) -> None:
        pair, log = self.pair, self.pair.log
        batch = bytearray(
            make_batch(
                0,
                count,
                timestamp=pair.now_ms,
                producer_id=producer,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=transactional,
            )
        )
        kafkas = pair.oracle.ask("produce", 0, b64encode(batch).decode())
        stamp_offset_and_epoch(batch, 0, log.end.offset, 0)
        header = parse_header(batch)
        refusal = None
        known = None
        try:
            known = log.producers.check(header)
        except (OutOfOrderSequence, InvalidProducerEpoch, InvalidTxnState) as error:
            refusal = type(error).__name__
        if refusal is not None:
            assert kafkas.startswith(f"error {refusal}Exception")
            self.answers.add(refusal)
            return
        if known is not None:
            assert kafkas == f"{known.first_offset} {known.last_offset} {known.timestamp}"
            self.answers.add("duplicate")
            return
        log.append([header], batch, pair.now_ms)
        assert kafkas == f"{header.base_offset} {header.last_offset} -1"
        self.answers.add("new")
        self.sent.append((producer, epoch, sequence, count))

    def step(self) -> None:
        rng = self.rng
        self.pair.now_ms += rng.randint(0, 5)
        self.pair.oracle.tell("now", self.pair.now_ms)
        last: dict[int, tuple[int, int]] = {}
        for producer, epoch, sequence, count in self.sent:
            last[producer] = (epoch, (sequence + count) % (1 << 31))
        producer = rng.randint(1, 4)
        epoch, sequence = last.get(producer, (0, rng.choice([0, 7, (1 << 31) - 3])))
        choice = rng.random()
        if choice < 0.25 and self.sent:
            self.produce(*rng.choice(self.sent[-12:]))
        elif choice < 0.32:
            self.produce(producer, epoch + 1, rng.choice([0, 0, sequence]), rng.randint(1, 3))
        elif choice < 0.38:
            self.produce(producer, max(epoch - 1, 0), sequence, 1)
        elif choice < 0.46:
            self.produce(producer, epoch, (sequence + rng.randint(-3, 3)) % (1 << 31), rng.randint(1, 3))
        else:
            self.produce(producer, epoch, sequence, rng.randint(1, 4), transactional=producer == 4 and choice < 0.9)


def test_every_batch_of_idempotent_producers_is_judged_as_kafka_judges_it(oracle: Oracle, tmp_path: Path) -> None:
    # In one segment: Kafka may roll before it finds that it will not append.
    pair = Pair(oracle, tmp_path, LogConfig(index_interval_bytes=500), seed=14)
    producers = Producers(pair)
    for _ in range(600):
        producers.step()
    wanted = {"new", "duplicate", "OutOfOrderSequence", "InvalidProducerEpoch", "InvalidTxnState"}
    assert producers.answers == wanted
    pair.check_state()
    pair.now_ms += 86_400_000
    oracle.tell("now", pair.now_ms)
    pair.log.producers.expire(pair.now_ms, 86_400_000)
    assert str(len(pair.log.producers.producers)) == oracle.ask("expire")
    pair.close()
    pair.check_files()
