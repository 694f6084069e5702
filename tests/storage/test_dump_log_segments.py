"""Kafka's DumpLogSegments reads what storage writes, and finds nothing to complain about."""

from pathlib import Path

import pytest
from log_making import NOW_MS, TOPIC_ID, append, make_batch, make_marker, open_directory

from kpystorage import snapshot
from kpystorage.directory import METADATA_TOPIC
from kpystorage.log_config import LogConfig
from kpystorage.real_disk import RealDisk
from kpystorage.snapshot import SnapshotId
from kpywire.control_record import LEADER_CHANGE, SNAPSHOT_FOOTER, SNAPSHOT_HEADER, ControlRecord, control_batch
from kpywire.messages.leader_change_message import LeaderChangeMessage
from kpywire.messages.snapshot_footer_record import SnapshotFooterRecord
from kpywire.messages.snapshot_header_record import SnapshotHeaderRecord
from kpywire.metadata_records import encode_record
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.topic_record import TopicRecord
from kpywire.record import Record, build_batch
from kpywire.uuid import ONE_UUID
from oracle import java

pytestmark = pytest.mark.java

COMPLAINTS = ("mismatch", "out of order", "invalid", "isvalid: false", "error", "exception", "corrupt")


def dump(paths: list[Path], *options: str) -> str:
    """The output of the tool about these files; it must not complain."""
    done = java("org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, sorted(paths))))
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    lines = printed.splitlines()
    assert not [line for line in lines if any(word in line.lower() for word in COMPLAINTS)]
    # Of every segment that does not begin at offset 0 it says that -1 is followed by its base offset.
    bases = {str(int(path.stem)) for path in paths if path.suffix == ".log"}
    gaps = [line.split(" is followed by ") for line in lines if " is followed by " in line]
    assert all(before.strip() == "-1" and after in bases for before, after in gaps)
    return printed


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with segments of every kind of file, and a metadata log with a snapshot."""
    path = tmp_path_factory.mktemp("data")
    made = open_directory(RealDisk(), str(path))
    config = LogConfig(segment_bytes=6000, index_interval_bytes=500)
    log = made.create_log("t", 0, TOPIC_ID, config, NOW_MS)
    sequence = 0
    for number in range(60):
        if number % 10 == 9:
            append(log, make_marker(log.end.offset, 5, commit=number % 20 == 9, timestamp=NOW_MS + number))
        else:
            data = make_batch(
                log.end.offset,
                3,
                timestamp=NOW_MS + number,
                producer_id=5,
                base_sequence=sequence,
                transactional=True,
            )
            append(log, data)
            sequence += 3
    metadata = made.create_log(METADATA_TOPIC, 0, ONE_UUID, LogConfig(), NOW_MS)
    records = [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        TopicRecord(name="t", topic_id=TOPIC_ID),
    ]
    values = [Record(timestamp=NOW_MS, value=encode_record(record, 0)) for record in records]
    elected = ControlRecord(LEADER_CHANGE, LeaderChangeMessage(leader_id=1))
    append(metadata, control_batch([elected], 0, 1, NOW_MS))
    append(metadata, build_batch(values, base_offset=1, partition_leader_epoch=1))
    header = ControlRecord(SNAPSHOT_HEADER, SnapshotHeaderRecord(last_contained_log_timestamp=NOW_MS))
    batches = [
        control_batch([header], 0, 1, NOW_MS),
        build_batch(values, base_offset=1, partition_leader_epoch=1),
        control_batch([ControlRecord(SNAPSHOT_FOOTER, SnapshotFooterRecord())], 3, 1, NOW_MS),
    ]
    snapshot.write(made.disk, metadata.path, SnapshotId(3, 1), batches)
    made.close()
    return path


def test_dump_log_reads_segments_indexes_and_producer_snapshots(directory: Path) -> None:
    wanted = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    paths = [path for path in (directory / "t-0").iterdir() if path.suffix in wanted]
    assert {path.suffix for path in paths} == wanted
    assert len([path for path in paths if path.suffix == ".log"]) > 2
    printed = dump(paths, "--deep-iteration")
    assert printed.count("| offset:") == 54 * 3 + 6
    assert printed.count("endTxnMarker: ABORT") == 3
    assert printed.count("lastStableOffset") == 3
    assert "producerId: 5 producerEpoch: 0 coordinatorEpoch: 0 currentTxnFirstOffset: OptionalLong.empty" in printed


def test_the_indexes_pass_its_sanity_check(directory: Path) -> None:
    paths = [path for path in (directory / "t-0").iterdir() if path.suffix in (".index", ".timeindex")]
    printed = dump(paths, "--index-sanity-check")
    assert printed.count("passed sanity check.") == len(paths) > 4


def test_dump_log_decodes_the_metadata_log_and_its_snapshot(directory: Path) -> None:
    path = directory / f"{METADATA_TOPIC}-0"
    printed = dump([*path.glob("*.log"), *path.glob("*.checkpoint")], "--cluster-metadata-decoder")
    assert printed.count('"type":"TOPIC_RECORD"') == 2
    assert "LeaderChange" in printed
    assert "SnapshotHeader" in printed
    assert "SnapshotFooter" in printed
