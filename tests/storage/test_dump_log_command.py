"""``kpybroker dump-log`` prints what Kafka's DumpLogSegments prints, line by line, and says what is damaged."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from log_making import NOW_MS, TOPIC_ID, append, make_batch, make_marker, open_directory

from kpybroker.cli import main
from kpystorage import snapshot
from kpystorage.directory import METADATA_TOPIC
from kpystorage.log_config import LogConfig
from kpystorage.real_disk import RealDisk
from kpystorage.snapshot import SnapshotId
from kpywire import group_records, transaction_records
from kpywire.compression import NAMES
from kpywire.control_record import LEADER_CHANGE, SNAPSHOT_FOOTER, SNAPSHOT_HEADER, ControlRecord, control_batch
from kpywire.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.messages.leader_change_message import LeaderChangeMessage
from kpywire.messages.snapshot_footer_record import SnapshotFooterRecord
from kpywire.messages.snapshot_header_record import SnapshotHeaderRecord
from kpywire.metadata_records import encode_record
from kpywire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kpywire.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.topic_record import TopicRecord
from kpywire.record import Record, build_batch
from kpywire.transaction_records.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from kpywire.uuid import ONE_UUID
from oracle import java

SUBSCRIPTION = bytes.fromhex("0001 00000001 0001 74 ffffffff 00000000".replace(" ", ""))
ASSIGNMENT = bytes.fromhex("0000 00000001 0001 74 00000002 00000000 00000001 ffffffff".replace(" ", ""))


def printed(*words: object, code: int = 0) -> list[str]:
    result = CliRunner().invoke(main, ["dump-log", *map(str, words)])
    assert result.exit_code == code, result.output
    return result.output.splitlines()


def of_kafka(*options: str, files: list[Path]) -> list[str]:
    """The output of Kafka's tool, but for its words on segments that do not begin at offset 0, and blank lines."""
    done = java("org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, files)))
    assert done.returncode == 0, done.stdout + done.stderr
    return [
        line
        for line in done.stdout.splitlines()
        if line and "onsecutive" not in line and " is followed by " not in line
    ]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs with every kind of file: users' records in all codecs, transactions, groups, metadata with a snapshot."""
    path = tmp_path_factory.mktemp("data")
    made = open_directory(RealDisk(), str(path))
    log = made.create_log("t", 0, TOPIC_ID, LogConfig(segment_bytes=3000, index_interval_bytes=500), NOW_MS)
    sequence = 0
    for number in range(20):
        if number % 10 == 9:
            append(log, make_marker(log.end.offset, 5, commit=number > 10, timestamp=NOW_MS + number))
            continue
        data = make_batch(
            log.end.offset, 3, timestamp=NOW_MS + number, producer_id=5, base_sequence=sequence, transactional=True
        )
        append(log, data)
        sequence += 3
    for codec in range(len(NAMES)):
        record = Record(timestamp=NOW_MS, key="ключ".encode(), value=b'{"a": 1}', headers=(("h", b"1"), ("i", None)))
        append(log, build_batch([record, Record(timestamp=NOW_MS)], base_offset=log.end.offset, codec=codec))
    _groups(made.create_log("__consumer_offsets", 0, TOPIC_ID, LogConfig(), NOW_MS))
    _transactions(made.create_log("__transaction_state", 0, TOPIC_ID, LogConfig(), NOW_MS))
    metadata = made.create_log(METADATA_TOPIC, 0, ONE_UUID, LogConfig(), NOW_MS)
    values = [Record(timestamp=NOW_MS, value=value) for value in _metadata_values()]
    elected = ControlRecord(LEADER_CHANGE, LeaderChangeMessage(leader_id=1))
    append(metadata, control_batch([elected], 0, 1, NOW_MS))
    append(metadata, build_batch(values, base_offset=1, partition_leader_epoch=1))
    header = ControlRecord(SNAPSHOT_HEADER, SnapshotHeaderRecord(last_contained_log_timestamp=NOW_MS))
    batches = [
        control_batch([header], 0, 1, NOW_MS),
        build_batch(values, base_offset=1, partition_leader_epoch=1),
        control_batch([ControlRecord(SNAPSHOT_FOOTER, SnapshotFooterRecord())], 1 + len(values), 1, NOW_MS),
    ]
    snapshot.write(made.disk, metadata.path, SnapshotId(2 + len(values), 1), batches)
    made.close()
    return path


def _metadata_values() -> list[bytes]:
    entity = EntityData(entity_type="user", entity_name=None)
    return [
        encode_record(FeatureLevelRecord(name="metadata.version", feature_level=30), 0),
        encode_record(TopicRecord(name="t", topic_id=TOPIC_ID), 0),
        encode_record(
            PartitionRecord(
                partition_id=0,
                topic_id=TOPIC_ID,
                replicas=[1],
                isr=[1],
                leader=1,
                directories=[ONE_UUID],
                eligible_leader_replicas=[2],
            ),
            2,
        ),
        encode_record(ClientQuotaRecord(entity=[entity], key="producer_byte_rate", value=1.5, remove=False), 0),
        encode_record(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=-1), 0),
    ]


def _groups(log: object) -> None:
    def record(key: object, value: object | None, version: int = 0) -> Record:
        encoded = None if value is None else group_records.encode_value(value, version)
        return Record(timestamp=NOW_MS, key=group_records.encode_key(key), value=encoded)

    member = MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout=1,
        subscription=SUBSCRIPTION,
        assignment=ASSIGNMENT,
    )
    group = GroupMetadataValue(protocol_type="consumer", generation=1, protocol="range", leader="m", members=[member])
    offset = OffsetCommitValue(offset=7, leader_epoch=1, metadata="мета", commit_timestamp=NOW_MS)
    records = [
        record(GroupMetadataKey(group="g"), group, 3),
        record(OffsetCommitKey(group="g", topic="t", partition=0), offset, 3),
        record(OffsetCommitKey(group="g", topic="t", partition=0), None),
        record(GroupMetadataKey(group="g"), None),
    ]
    append(log, build_batch(records, base_offset=0))  # type: ignore[arg-type]


def _transactions(log: object) -> None:
    partitions = PartitionsSchema(topic="t", partition_ids=[0, 1])
    value = TransactionLogValue(
        producer_id=5,
        producer_epoch=0,
        transaction_timeout_ms=1,
        transaction_status=1,
        transaction_partitions=[partitions],
        transaction_last_update_timestamp_ms=NOW_MS,
        transaction_start_timestamp_ms=NOW_MS,
    )
    key = transaction_records.encode_key(TransactionLogKey(transactional_id="x"))
    records = [
        Record(timestamp=NOW_MS, key=key, value=transaction_records.encode_value(value, 0)),
        Record(timestamp=NOW_MS, key=key),
    ]
    append(log, build_batch(records, base_offset=0))  # type: ignore[arg-type]


@pytest.mark.java
def test_dump_log_prints_what_kafkas_tool_prints(directory: Path) -> None:
    wanted = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    files = sorted(path for path in (directory / "t-0").iterdir() if path.suffix in wanted)
    assert {path.suffix for path in files} == wanted
    assert printed("--print-data-log", *files) == of_kafka("--print-data-log", files=files)


@pytest.mark.java
@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("__consumer_offsets-0", "--offsets-decoder"),
        ("__transaction_state-0", "--transaction-log-decoder"),
        (f"{METADATA_TOPIC}-0", "--cluster-metadata-decoder"),
    ],
)
def test_kafkas_own_records_are_decoded_as_by_its_tool(directory: Path, name: str, option: str) -> None:
    (file,) = (directory / name).glob("*.log")
    assert printed(option, file) == of_kafka(option, files=[file])
    assert printed("--print-data-log", file) == printed(option, file)


@pytest.mark.java
def test_a_snapshot_is_read_as_by_kafkas_tool(directory: Path) -> None:
    (file,) = (directory / f"{METADATA_TOPIC}-0").glob("*.checkpoint")
    expected = of_kafka("--cluster-metadata-decoder", files=[file])
    ours = printed("--print-data-log", file)
    assert ours == [line for line in expected if not line.startswith("Snapshot end offset")]


def test_json_says_the_same_in_stable_keys(directory: Path) -> None:
    lines = [json.loads(line) for line in printed("--print-data-log", "--json", directory / "__consumer_offsets-0")]
    batch, group, offset, *_ = (line for line in lines if line["kind"] in ("batch", "record"))
    assert (batch["base_offset"], batch["count"], batch["valid"]) == (0, 4, True)
    assert group["payload"]["data"]["members"][0]["subscription"]["topics"] == ["t"]
    assert offset["key"] == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 0}}
    assert "partition.metadata" in {line["kind"] for line in lines}


def test_the_state_of_a_transaction_has_its_name(directory: Path) -> None:
    (line, *_) = (
        each for each in printed("--print-data-log", directory / "__transaction_state-0") if "payload" in each
    )
    assert '"transactionStatus":"Ongoing"' in line


def test_a_whole_log_directory_is_in_order(directory: Path) -> None:
    for path in [directory, *(each for each in directory.iterdir() if each.is_dir())]:
        printed("--deep-iteration", path)


@pytest.mark.parametrize("position", [100, 30])
def test_a_flipped_byte_is_found_and_the_rest_is_still_shown(directory: Path, tmp_path: Path, position: int) -> None:
    source = min((directory / "t-0").glob("*.log"))
    copy = tmp_path / source.name
    data = bytearray(source.read_bytes())
    data[position] ^= 0xFF
    copy.write_bytes(data)
    lines = printed("--deep-iteration", copy, code=4)
    assert f"{copy}: the batch at position 0 has a wrong CRC" in lines
    assert sum("isvalid: true" in line for line in lines) > 3


def test_a_torn_end_is_found(directory: Path, tmp_path: Path) -> None:
    source = min((directory / "t-0").glob("*.log"))
    copy = tmp_path / source.name
    copy.write_bytes(source.read_bytes()[:-5])
    assert any("invalid bytes at the end" in line for line in printed(copy, code=4))


def test_an_index_that_does_not_fit_its_segment_is_found(directory: Path, tmp_path: Path) -> None:
    shutil.copytree(directory / "t-0", tmp_path / "t-0")
    index = min((tmp_path / "t-0").glob("*.index"))
    assert printed("--verify-index-only", index) == [f"Dumping {index}"]
    data = bytearray(index.read_bytes())
    data[3] += 1
    index.write_bytes(data)
    assert any("where the log has" in line for line in printed("--verify-index-only", index, code=4))


def test_the_room_that_kafka_leaves_behind_index_entries_is_not_shown(directory: Path, tmp_path: Path) -> None:
    shutil.copytree(directory / "t-0", tmp_path / "t-0")
    index = min((tmp_path / "t-0").glob("*.index"))
    before = printed(index)
    index.write_bytes(index.read_bytes() + bytes(8 * 1000))
    assert printed(index) == before


@pytest.mark.parametrize("name", ["unknown.txt", "notanumber.log"])
def test_a_file_that_is_none_of_kafkas_is_wrong_usage(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    printed(tmp_path / name, code=2)


def test_damaged_producer_snapshots_and_checkpoints_are_reported(tmp_path: Path) -> None:
    for name in ("00000000000000000005.snapshot", "leader-epoch-checkpoint", "quorum-state", "meta.properties"):
        (tmp_path / name).write_bytes(b"\xff\x00nonsense")
        assert len(printed(tmp_path / name, code=4)) == 2
