"""Topics with tiered storage, and records that make a segment of each batch.

A segment ends by time: batches that are further apart than ``SEGMENT_MS`` never share one. So tests choose where each
segment begins, and need not write megabytes.
"""

from typing import Final

from kpywire import error_codes
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kpywire.record import Record, build_batch
from support.raw_client import RawClient
from support.raw_requests import SET, TOPIC, configs_set, create, incremental_alteration, now_ms, produce
from support.raw_transactions import Transactional, find_coordinator, produce_records
from support.waiting import eventually

BASE_MS: Final = 1_700_000_000_000
SEGMENT_MS: Final = 1_000
STEP_MS: Final = 10_000
LARGE: Final = 1_000
"""The size of a value from which on its batch is not compressed, since it would be small."""
TIERED: Final = {
    "remote.storage.enable": "true",
    "segment.ms": str(SEGMENT_MS),
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "file.delete.delay.ms": "100",
}
"""A topic of which all but the last segment is copied, and nothing is deleted."""
ONLY_REMOTE: Final = {"local.retention.bytes": "1"}
"""In addition: copied segments are deleted from the disk at once."""


def create_tiered(
    raw: RawClient, name: str, partitions: int = 1, *, only_remote: bool = False, **configs: str
) -> bytes:
    """Create a topic with tiered storage (``_`` for ``.``); its id."""
    tier = {**TIERED, **(ONLY_REMOTE if only_remote else {})}
    return create(raw, name, partitions, **{key.replace(".", "_"): value for key, value in tier.items()}, **configs)


def time_of(number: int) -> int:
    """The time of the records of a batch by its number."""
    return BASE_MS + number * STEP_MS


def batch(number: int, records: int = 2, *, size: int = 10, codec: int = 0) -> bytes:
    """The batch of a number: records of one time, each of which says its number."""
    value = b"%d:" % number
    return build_batch(
        [Record(timestamp=time_of(number), value=value.ljust(size, b"."), key=b"%d" % each) for each in range(records)],
        codec=codec,
    )


def fill(raw: RawClient, topic: str, numbers: range, partition: int = 0, records: int = 2, size: int = 10) -> None:
    """Append batches, each of which begins a segment."""
    for number in numbers:
        codec = number % 5 if size < LARGE else 0
        append(raw, topic, batch(number, records, size=size, codec=codec), partition)


def append(raw: RawClient, topic: str, records: bytes, partition: int = 0) -> None:
    """Append a batch as soon as the node leads."""

    def is_appended() -> bool:
        answer = produce(raw, topic, records, partition=partition)
        assert answer.error_code in (error_codes.NONE, error_codes.NOT_LEADER_OR_FOLLOWER), answer
        return answer.error_code == error_codes.NONE

    eventually(is_appended, f"a leader of {topic}-{partition} that takes records")


def alter(raw: RawClient, topic: str, **configs: str) -> None:
    """Set configs of a topic (``_`` for ``.``), and wait until the broker has them."""
    named = {key.replace("_", "."): value for key, value in configs.items()}
    change = incremental_alteration((TOPIC, topic, [(key, SET, value) for key, value in named.items()]))
    (answer,) = raw.call(change, 1).responses
    assert answer.error_code == error_codes.NONE, answer
    eventually(lambda: configs_set(raw, TOPIC, topic).items() >= named.items(), f"{named} of {topic}")


def fill_transactions(raw: RawClient, topic: str, numbers: range, partition: int = 0) -> None:
    """Commit transactions and abort every third one. Each has two batches in segments of their own; its marker lies in
    the second of these, and the next one may begin there."""
    producer = Transactional(raw, f"{topic}-{partition}-{numbers.start}")
    find_coordinator(raw, producer.id)
    assert producer.init().error_code == error_codes.NONE
    start_ms = now_ms()
    for number in numbers:
        assert producer.add((topic, partition)) == {error_codes.NONE}
        for half in range(2):
            sequence = 2 * (number - numbers.start) + half
            records = build_batch(
                [Record(timestamp=start_ms + sequence * STEP_MS, value=b"%d:%d" % (number, half))],
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=sequence,
                transactional=True,
            )
            answer = produce_records(raw, topic, records, producer.id, partition=partition)
            assert answer.error_code == error_codes.NONE, answer
        assert producer.end(number % 3 != 1).error_code == error_codes.NONE


def delete_records(raw: RawClient, topic: str, offset: int, partition: int = 0) -> tuple[int, int]:
    """DeleteRecords below an offset: error code, and the log start that it reached."""
    wanted = DeleteRecordsTopic(
        name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)]
    )
    answer = raw.call(DeleteRecordsRequest(topics=[wanted], timeout_ms=10_000), 2).topics[0].partitions[0]
    return answer.error_code, answer.low_watermark
