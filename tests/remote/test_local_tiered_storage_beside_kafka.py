"""The layout of LocalTieredStorage, beside the class itself: it reads our files, and we find those that it wrote.

The class comes from the jar of Kafka 4.3.1's tests, since that of 4.4.0 was not published.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from java_programs import JavaProgram

from kpybroker.hosts.remote_log.directory_store import DirectoryStore
from kpybroker.hosts.remote_log.local_tiered_storage import LocalTieredStorage
from kpybroker.hosts.remote_log.remote_storage import ClosedSegmentFiles, CopyLimits, ObjectMissing
from kpybroker.machines.remote_log.segments import STARTED, RemoteLogSegment, RemoteLogSegmentId
from kpystorage.log_slice import LogSlice
from kpystorage.real_disk import RealDisk
from kpystorage.remote.indexes import IndexType
from kpystorage.remote.local_tiered_storage import OPTIONAL, LocalFile, directory, missing, parse_path, path
from kpystorage.remote.segment_name import RemoteSegmentName
from kpywire.uuid import to_string
from oracle.remote import TEST_JAR_RELEASE

pytestmark = pytest.mark.java
SOURCES = {
    LocalFile.SEGMENT: "log",
    LocalFile.OFFSET_INDEX: "index",
    LocalFile.TIME_INDEX: "timeindex",
    LocalFile.TRANSACTION_INDEX: "txnindex",
    LocalFile.LEADER_EPOCH_CHECKPOINT: "epochs",
    LocalFile.PRODUCER_SNAPSHOT: "snapshot",
}
TYPES = {
    LocalFile.OFFSET_INDEX: "OFFSET",
    LocalFile.TIME_INDEX: "TIMESTAMP",
    LocalFile.TRANSACTION_INDEX: "TRANSACTION",
    LocalFile.LEADER_EPOCH_CHECKPOINT: "LEADER_EPOCH",
    LocalFile.PRODUCER_SNAPSHOT: "PRODUCER_SNAPSHOT",
}


@pytest.fixture
def java(tmp_path: Path) -> Iterator[JavaProgram]:
    program = JavaProgram("LocalTieredStorageOracle", tmp_path, release=TEST_JAR_RELEASE)
    yield program
    program.close()


def segments() -> Iterator[tuple[RemoteSegmentName, dict[LocalFile, bytes]]]:
    rng = Random(11)
    for topic in ("t", "a-1", "my-to.pic_3-4", "x" * 150):
        for start_offset in (0, 1234, 2**40):
            files = {each: rng.randbytes(rng.randrange(1, 300)) for each in LocalFile}
            if rng.random() < 0.5:
                del files[LocalFile.TRANSACTION_INDEX]
            yield RemoteSegmentName(topic, rng.randbytes(16), rng.randrange(9), start_offset, rng.randbytes(16)), files


def words(name: RemoteSegmentName) -> tuple[object, ...]:
    return name.topic, to_string(name.topic_id), name.partition, name.start_offset, to_string(name.segment_id)


def test_kafka_reads_and_deletes_our_files(java: JavaProgram, tmp_path: Path) -> None:
    for name, files in segments():
        for each, file in files.items():
            place = tmp_path / path(name, each)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file)
        segment = files[LocalFile.SEGMENT]
        for start in (0, len(segment) // 2):
            assert java.ask("fetch", *words(name), start) == segment[start:].hex()
        for each, kind in TYPES.items():
            kafkas = java.ask("index", *words(name), kind)
            assert kafkas == (files[each].hex() if each in files else "none")
        assert java.ask("delete", *words(name)) == "ok"
        assert not any((tmp_path / path(name, each)).exists() for each in files)


def test_we_find_the_files_of_kafka(java: JavaProgram, tmp_path: Path) -> None:
    for number, (name, files) in enumerate(segments()):
        source = tmp_path / f"source{number}"
        source.mkdir()
        for each, file in files.items():
            (source / SOURCES[each]).write_bytes(file)
        assert java.ask("copy", *words(name), source) == "ok"
        folder = directory(name.topic, name.topic_id, name.partition)
        found = {str(each.relative_to(tmp_path)): each.read_bytes() for each in (tmp_path / folder).iterdir()}
        assert found == {path(name, each): file for each, file in files.items()}
        there = [parsed for each in found if (parsed := parse_path(each)) is not None]
        assert {segment for segment, _ in there} == {name}
        assert missing(file for _, file in there) == []
        assert {file for _, file in there} | OPTIONAL == set(LocalFile)


def test_segments_that_we_store_are_read_by_kafka_and_those_of_kafka_by_us(java: JavaProgram, tmp_path: Path) -> None:
    storage = LocalTieredStorage(DirectoryStore(str(tmp_path)))
    limits = CopyLimits(lambda: False, lambda _size: None)
    for number, (name, files) in enumerate(segments()):
        segment = files[LocalFile.SEGMENT]
        of = RemoteLogSegmentId(name.topic_id, name.topic, name.partition, name.segment_id)
        start = name.start_offset
        it = RemoteLogSegment(of, start, start, 1, 0, 0, ((0, start),), len(segment), None, STARTED, False)
        if number % 2:
            lying = tmp_path / "log"
            lying.write_bytes(segment)
            log = RealDisk().file(str(lying)).descriptor()
            held = ClosedSegmentFiles(
                LogSlice(log, 0, len(segment)),
                files[LocalFile.OFFSET_INDEX],
                files[LocalFile.TIME_INDEX],
                files.get(LocalFile.TRANSACTION_INDEX),
                files[LocalFile.PRODUCER_SNAPSHOT],
                files[LocalFile.LEADER_EPOCH_CHECKPOINT],
            )
            assert storage.copy(it, held, limits) is None
        else:
            source = tmp_path / f"source{number}"
            source.mkdir()
            for each, file in files.items():
                (source / SOURCES[each]).write_bytes(file)
            assert java.ask("copy", *words(name), source) == "ok"
        assert java.ask("fetch", *words(name), 0) == storage.read(it, 0, len(segment)).hex() == segment.hex()
        for each, kind in TYPES.items():
            ours = storage.index(it, IndexType[kind])
            assert ours == files.get(each)
            assert java.ask("index", *words(name), kind) == ("none" if ours is None else ours.hex())
        if number % 3:
            storage.delete(it)
            assert java.ask("fetch", *words(name), 0) == "none"
        else:
            assert java.ask("delete", *words(name)) == "ok"
            with pytest.raises(ObjectMissing):
                storage.read(it, 0, 1)
