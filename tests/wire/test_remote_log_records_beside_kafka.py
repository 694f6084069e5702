"""Our values of ``__remote_log_metadata`` are those of Kafka's RemoteLogMetadataSerde, and so are their partitions."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from message_values import STRINGS

import oracle
from kpywire.errors import Malformed
from kpywire.remote_log_record import decode_value, encode_value, partition_of
from kpywire.remote_log_records import (
    remote_log_segment_metadata_record,
    remote_log_segment_metadata_snapshot_record,
    remote_log_segment_metadata_update_record,
)
from kpywire.remote_log_records.remote_log_segment_metadata_record import RemoteLogSegmentMetadataRecord
from kpywire.remote_log_records.remote_log_segment_metadata_snapshot_record import (
    RemoteLogSegmentMetadataSnapshotRecord,
)
from kpywire.remote_log_records.remote_log_segment_metadata_update_record import RemoteLogSegmentMetadataUpdateRecord
from kpywire.remote_log_records.remote_partition_delete_metadata_record import (
    RemotePartitionDeleteMetadataRecord,
    TopicIdPartitionEntry,
)

pytestmark = pytest.mark.java
VALUES_PER_KIND = 10_000
INT, LONG = 2**31 - 1, 2**63 - 1


def ask(questions: list[list[object]]) -> list[str]:
    """Kafka's answers, one for each question."""
    classes = oracle.compile_java(Path(oracle.__file__).with_name("RemoteLogRecordOracle.java"))
    stdin = "".join("\t".join(map(str, words)) + "\n" for words in questions)
    finished = oracle.java("RemoteLogRecordOracle", classes=[classes], stdin=stdin, heap="512m")
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()


def number(rng: Random, top: int, least: int = 0) -> int:
    return rng.choice([least, least + 1, 127, 128, 300, top - 1, top, rng.randint(least, top), rng.randint(0, 10**6)])


class Facts:
    """One generated value: the words by which the oracle makes it, and our record."""

    def __init__(self, kind: str, rng: Random) -> None:
        topic, topic_id, partition = rng.choice([*STRINGS[1:6], "t" * 249]), rng.randbytes(16), number(rng, INT)
        segment_id, broker, event = rng.randbytes(16), number(rng, INT, -1), number(rng, LONG, -1)
        state, deleted_state = rng.randrange(4), rng.randrange(3)
        if kind == "update":
            state = rng.randrange(1, 4)  # Kafka's class refuses COPY_SEGMENT_STARTED
        custom = rng.choice([None, b"", rng.randbytes(rng.choice([1, 126, 127, 128, 300]))])
        start = number(rng, LONG)
        end = rng.choice([start, rng.randint(start, LONG), min(start + rng.randrange(10**6), LONG)])
        most_ms, size, empty = number(rng, LONG, -1), number(rng, INT), rng.random() < 0.5
        numbers = sorted({number(rng, INT) for _ in range(rng.choice([1, 1, 2, 5, 130]))})
        epochs = {each: number(rng, LONG) for each in numbers}
        place = [topic, topic_id.hex(), partition]
        about = [broker, event, state, "-" if custom is None else custom.hex()]
        offsets = [start, end, most_ms, size]
        rest = [*offsets, ",".join(f"{epoch}:{offset}" for epoch, offset in epochs.items()), str(empty).lower()]
        common = {
            "broker_id": broker,
            "event_timestamp_ms": event,
            "custom_metadata": custom,
            "remote_log_segment_state": state,
        }
        more = {
            "start_offset": start,
            "end_offset": end,
            "max_timestamp_ms": most_ms,
            "segment_size_in_bytes": size,
            "txn_index_empty": empty,
        }
        self.words: list[object]
        self.record: Any
        match kind:
            case "segment":
                module: Any = remote_log_segment_metadata_record
                named = module.RemoteLogSegmentIdEntry(
                    topic_id_partition=module.TopicIdPartitionEntry(name=topic, id=topic_id, partition=partition),
                    id=segment_id,
                )
                self.words = [kind, *place, segment_id.hex(), *about, *rest]
                self.record = RemoteLogSegmentMetadataRecord(
                    remote_log_segment_id=named, segment_leader_epochs=entries(module, epochs), **common, **more
                )
            case "snapshot":
                module = remote_log_segment_metadata_snapshot_record
                self.words = [kind, segment_id.hex(), *about, *rest]
                self.record = RemoteLogSegmentMetadataSnapshotRecord(
                    segment_id=segment_id, segment_leader_epochs=entries(module, epochs), **common, **more
                )
            case "update":
                module = remote_log_segment_metadata_update_record
                named = module.RemoteLogSegmentIdEntry(
                    topic_id_partition=module.TopicIdPartitionEntry(name=topic, id=topic_id, partition=partition),
                    id=segment_id,
                )
                self.words = [kind, *place, segment_id.hex(), *about]
                self.record = RemoteLogSegmentMetadataUpdateRecord(remote_log_segment_id=named, **common)
            case _:
                self.words = [kind, *place, broker, event, deleted_state]
                self.record = RemotePartitionDeleteMetadataRecord(
                    topic_id_partition=TopicIdPartitionEntry(name=topic, id=topic_id, partition=partition),
                    broker_id=broker,
                    event_timestamp_ms=event,
                    remote_partition_delete_state=deleted_state,
                )


def entries(module: Any, epochs: dict[int, int]) -> list[Any]:
    return [module.SegmentLeaderEpochEntry(leader_epoch=epoch, offset=offset) for epoch, offset in epochs.items()]


@pytest.mark.parametrize("kind", ["segment", "update", "delete", "snapshot"])
def test_values_are_kafkas_in_both_directions(kind: str) -> None:
    rng = Random(f"values of {kind}")
    values = [Facts(kind, rng) for _ in range(VALUES_PER_KIND)]
    ours = [encode_value(each.record) for each in values]
    written = ask([["write", *each.words] for each in values])
    assert len(written) == VALUES_PER_KIND
    for each, value, kafkas in zip(values, ours, written, strict=True):
        assert kafkas == value.hex(), each.words
        assert decode_value(bytes.fromhex(kafkas)) == each.record
    read = ask([["read", value.hex()] for value in ours])
    for each, kafkas in zip(values, read, strict=True):
        assert kafkas == "\t".join(map(str, each.words))


def test_kafka_refuses_the_frames_that_we_refuse() -> None:
    rng = Random(9)
    questions: list[list[object]] = []
    refused = []
    for _ in range(2000):
        value = bytearray(encode_value(Facts("delete", rng).record))
        match rng.randrange(4):
            case 0:
                value[rng.randrange(3)] = rng.randrange(256)
            case 1:
                del value[rng.randrange(len(value)) :]
            case 2:
                value += rng.randbytes(rng.randrange(1, 3))
            case _:
                value.insert(rng.randrange(3), rng.choice([0, 1, 2, 0x80, 0xFF]))
        questions.append(["read", value.hex()])
        try:
            decode_value(bytes(value))
            refused.append(False)
        except Malformed:
            refused.append(True)
    for asked, is_refused, kafkas in zip(questions, refused, ask(questions), strict=True):
        assert kafkas.startswith("!") == is_refused, (asked, kafkas)


def test_partitions_are_kafkas() -> None:
    rng = Random(50)
    asked = [(rng.randbytes(16), number(rng, INT), rng.choice([1, 3, 50, 50, 1000])) for _ in range(VALUES_PER_KIND)]
    asked += [(topic_id, 0, 50) for topic_id in (bytes(16), b"\xff" * 16, bytes(15) + b"\1", b"\x80" + bytes(15))]
    answers = ask([["partition", topic_id.hex(), partition, count] for topic_id, partition, count in asked])
    assert [partition_of(*each) for each in asked] == [int(answer) for answer in answers]
