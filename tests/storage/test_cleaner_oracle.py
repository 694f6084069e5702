"""The same logs compacted by Apache Kafka's cleaner and by ours: what is left is equal byte for byte.

Where a codec is in between, compressed bytes may differ, so headers and inflated records are compared. A history that
differs is run again with ``--cleaner-seed``.

Two things that Kafka does lose records, so they are kept out: it maps what lies behind the last stable offset in the
segment that this is in, though it may be aborted yet; and where a pass begins amid a segment it takes transactions that
were aborted before for open ones, so that it forgets what the same producer committed since (its LocalLog collects the
aborted transactions from the log start on). A tombstone that it forgets goes in time, and what it deleted comes back.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from compaction_history import DELETE_RETENTION_MS, History, Shape
from log_making import headers_of

from kpybroker.testing.unsynced_disk import UnsyncedDisk
from kpystorage import names
from kpystorage.compaction.task import Cleaned, LogToClean
from kpystorage.errors import CorruptRecord
from kpystorage.real_file import Descriptors
from kpywire.batch import HEADER_BYTES
from kpywire.compression import decompress
from oracle import java
from oracle.cleaner import KafkaCleaned, KafkaCleaner

pytestmark = pytest.mark.java

SHAPES = {
    "plain": Shape(transactions=0, idempotent=0, append_time=0),
    "producers": Shape(transactions=0, idempotent=0.7),
    "transactions": Shape(transactions=0.6),
    "late followers": Shape(transactions=0.6, is_followed_late=True),
    "few keys, late followers": Shape(keys=3, transactions=0, idempotent=0, is_followed_late=True),
    "few keys": Shape(keys=3, transactions=0.5),
    "many keys": Shape(keys=400),
    "small map": Shape(keys=60, map_keys=12),
    "tiny map": Shape(keys=60, map_keys=2, transactions=0.4),
    "large segments": Shape(segment_bytes=9000, segment_index_bytes=200),
    "compressed": Shape(codecs=(0, 1, 2, 3, 4)),
    "compressed, small map": Shape(codecs=(0, 1, 2, 3, 4), map_keys=12, transactions=0.5),
}
ROUNDS = 3


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCleaner]:
    with KafkaCleaner() as made:
        yield made


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> range:
    first, count = (int(request.config.getoption(name)) for name in ("--cleaner-seed", "--cleaner-histories"))
    return range(first, first + count)


@pytest.mark.parametrize("name", SHAPES)
def test_a_log_is_compacted_to_what_kafka_leaves_of_it(
    kafka: KafkaCleaner, tmp_path: Path, name: str, seeds: range
) -> None:
    for seed in seeds:
        path = tmp_path / f"{seed}"
        path.mkdir()
        history = History(UnsyncedDisk(Descriptors(16)), path, seed, SHAPES[name])
        for number in range(ROUNDS):
            history.grow(40)
            if number == 1:
                history.end_transactions()
            for _ in range(6):
                if not compare_pass(kafka, history, tmp_path / "kafka" / "t-0", f"{name}, seed {seed}"):
                    break
            history.now_ms += history.rng.choice([0, DELETE_RETENTION_MS // 2, DELETE_RETENTION_MS * 2])
        history.close()
        shutil.rmtree(path)


@pytest.mark.parametrize("most_bytes", [12, 40, 4000])
def test_a_pass_fails_by_the_size_of_an_inflated_record_where_kafkas_does(
    kafka: KafkaCleaner, tmp_path: Path, most_bytes: int, seeds: range
) -> None:
    for seed in seeds:
        path = tmp_path / f"{seed}"
        path.mkdir()
        history = History(UnsyncedDisk(Descriptors(16)), path, seed, SHAPES["compressed"]._replace(transactions=0))
        history.grow(40)
        history.config = history.config._replace(max_decompressed_message_bytes=most_bytes)
        try:
            compare_pass(kafka, history, tmp_path / "kafka" / "t-0", f"seed {seed}")
        except RuntimeError as error:
            (text,) = re.findall(r"InvalidRecordException (Invalid record size: .* record size of \d+\.)", str(error))
            history.open()
            with pytest.raises(CorruptRecord, match=re.escape(text)):
                history.compact()
            assert most_bytes < 4000
        else:
            assert most_bytes > 12
        shutil.rmtree(path)


def test_kafkas_tool_finds_nothing_wrong_with_compacted_files(tmp_path: Path) -> None:
    history = History(UnsyncedDisk(Descriptors(16)), tmp_path, 3, SHAPES["compressed"]._replace(transactions=0.5))
    for _ in range(3):
        history.grow(40)
        history.compact()
        history.now_ms += DELETE_RETENTION_MS
    history.close()
    paths = sorted(each for each in (tmp_path / "t-0").iterdir() if each.suffix in (".log", *names.INDEXES))
    files = ",".join(map(str, paths))
    for options in ((), ("--index-sanity-check",), ("--verify-index-only",)):
        done = java("org.apache.kafka.tools.DumpLogSegments", *options, "--files", files)
        printed = (done.stdout + done.stderr).lower()
        assert done.returncode == 0, printed
        assert not [word for word in ("out of order", "isvalid: false", "exception") if word in printed]
        # It takes the timestamp of a batch from its records, and knows none where it was emptied.
        wrong = [line for line in printed.splitlines() if "mismatch" in line and "timestamp mismatch" not in line]
        wrong += [line for line in printed.splitlines() if "log timestamp" in line and not line.endswith(": -1")]
        assert not wrong
    assert any(each.suffix == names.TRANSACTION_INDEX for each in paths)


def compare_pass(kafka: KafkaCleaner, history: History, copy: Path, where: str) -> bool:
    """One pass of both over the same; whether something is left for another one."""
    task = history.task()
    if not task.base_offsets or task.first_uncleanable_offset <= task.first_dirty_offset:
        return False
    if is_misjudged(history, task):
        ended = history.compact().end_offset
        return ended < task.first_uncleanable_offset
    history.close()
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(task.path, copy)
    theirs, producers = kafka.compact(
        copy,
        kafka_config(history),
        first_dirty_offset=task.first_dirty_offset,
        first_uncleanable_offset=task.first_uncleanable_offset,
        high_watermark=task.high_watermark,
        now_ms=history.now_ms,
        map_bytes=history.cleaner.dedupe_buffer_bytes,
        load_factor=history.cleaner.load_factor,
        buffer_bytes=history.shape.buffer_bytes,
    )
    history.open()
    assert producers == " ".join(
        f"{producer_id}:{-1 if last.last_data_offset is None else last.last_data_offset}:{last.producer_epoch}"
        for producer_id, last in sorted(task.last_records.items())
    ), where
    ours = history.compact(task)
    assert notified(ours) == notified(theirs), where
    compare_files(Path(task.path), copy, exact=set(history.shape.codecs) == {0}, where=where)
    return ours.end_offset < task.first_uncleanable_offset


def is_misjudged(history: History, task: LogToClean) -> bool:
    """Whether Kafka would take a transaction for open that ended before the first dirty offset."""
    before = [segment for segment in history.log.segments if segment.base_offset <= task.first_dirty_offset]
    return any(
        aborted.last_offset < task.first_dirty_offset
        for segment in before[-1:]
        for aborted in segment.transaction_index.entries()
    )


def kafka_config(history: History) -> dict[str, object]:
    config = history.config
    return {
        "cleanup.policy": "compact",
        "internal.segment.bytes": config.segment_bytes,
        "segment.index.bytes": config.segment_index_bytes,
        "index.interval.bytes": config.index_interval_bytes,
        "delete.retention.ms": config.delete_retention_ms,
        "max.decompressed.message.bytes": config.max_decompressed_message_bytes,
    }


def notified(cleaned: Cleaned | KafkaCleaned) -> dict[str, int]:
    """The figures that both give of a pass."""
    stats = cleaned.stats if isinstance(cleaned, Cleaned) else cleaned
    return {
        "end": cleaned.end_offset,
        "mapped": stats.map_messages_read,
        "read": stats.messages_read,
        "bytes read": stats.bytes_read,
        "written": stats.messages_written,
        "invalid": stats.invalid_messages_read,
    }


def compare_files(ours: Path, theirs: Path, *, exact: bool, where: str) -> None:
    """Segments and their indexes."""
    names = [
        sorted(each.name for each in path.iterdir() if each.suffix in (".log", ".index", ".timeindex", ".txnindex"))
        for path in (ours, theirs)
    ]
    assert names[0] == names[1], where
    for name in names[0]:
        mine, kafkas = (ours / name).read_bytes(), (theirs / name).read_bytes()
        if name.endswith(".log"):
            assert readable(mine) == readable(kafkas), f"{where}: {name}"
            assert int((ours / name).stat().st_mtime * 1000) == int((theirs / name).stat().st_mtime * 1000)
        if exact or name.endswith(".txnindex"):
            assert mine == kafkas, f"{where}: {name}"


def readable(data: bytes) -> list[tuple[object, ...]]:
    """Headers, without what depends on compressed bytes, and inflated records."""
    found: list[tuple[object, ...]] = []
    position = 0
    for header in headers_of(data):
        section = data[position + HEADER_BYTES : position + header.size]
        records = decompress(header.codec, section, 1 << 20) if header.record_count else section
        found.append((header._replace(batch_length=0, crc=0), records))
        position += header.size
    return found
