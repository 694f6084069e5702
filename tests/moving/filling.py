"""Writes something of every kind into a cluster of one node: a little more with every call."""

import time

from contents import COMPACTED, wait_for_leaders

from kpywire import error_codes
from kpywire.compression import NAMES
from kpywire.messages.create_topics import CreateTopicsRequest
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kpywire.record import Record, build_batch
from support.group_requests import commit, coordinator_ready, stable_member
from support.raw_client import RawClient
from support.raw_requests import BROKER, SET, TOPIC, changed, incremental_alteration, produce, topic_named
from support.raw_transactions import Transactional, find_coordinator

CODECS, TRANSACTIONS, DELETED, PLAIN = "codecs", "transactions", "deleted-from", "plain"
IDEMPOTENT_ID = 1_000_000
SMALL_SEGMENTS = {"segment.ms": "30", "index.interval.bytes": "512"}
TOPICS = {
    CODECS: (2, SMALL_SEGMENTS),
    TRANSACTIONS: (1, SMALL_SEGMENTS),
    DELETED: (1, SMALL_SEGMENTS),
    COMPACTED: (
        1,
        {**SMALL_SEGMENTS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    ),
    PLAIN: (3, {"retention.ms": "987654321", "max.message.bytes": "2000000"}),
}


def create_topics(port: int) -> None:
    """Create the topics that every later call writes into."""
    with RawClient(port) as raw:
        wanted = [topic_named(name, count, configs=dict(configs)) for name, (count, configs) in TOPICS.items()]
        for answer in raw.call(CreateTopicsRequest(topics=wanted, timeout_ms=30_000), 7).topics:
            assert answer.error_code == error_codes.NONE, answer
        wait_for_leaders(raw, *((name, index) for name, (count, _) in TOPICS.items() for index in range(count)))
        coordinator_ready(raw)
        find_coordinator(raw, "open")


def fill(port: int, turn: int) -> None:
    """Records in every codec, transactions of every outcome, keys, deletions, offsets, configs, for the nth time."""
    with RawClient(port) as raw:
        wait_for_leaders(raw, *((name, index) for name, (count, _) in TOPICS.items() for index in range(count)))
        _records(raw, turn)
        _keys(raw, turn)
        _transactions(raw, turn)
        _groups(raw, turn)
        _configs(raw, turn)


def write(raw: RawClient, topic: str, data: bytes, partition: int = 0) -> int:
    """Append one batch, which must succeed; its base offset."""
    answer = produce(raw, topic, data, partition=partition)
    assert answer.error_code == error_codes.NONE, answer
    return int(answer.base_offset)


def numbered(turn: int, *, sequence: int | None = None, count: int = 3) -> bytes:
    """A batch of an idempotent producer that has been there since the first turn."""
    records = [Record(timestamp=time.time_ns() // 1_000_000, value=b"%d" % number) for number in range(count)]
    first = turn * count if sequence is None else sequence
    return build_batch(records, producer_id=IDEMPOTENT_ID, producer_epoch=0, base_sequence=first)


def _records(raw: RawClient, turn: int) -> None:
    now_ms = time.time_ns() // 1_000_000
    for codec in range(len(NAMES)):
        for partition in range(2):
            records = [
                Record(
                    timestamp=now_ms + 3 * number + 20 * codec,
                    key=b"%d" % number,
                    value=bytes(200),
                    headers=(("h", b"%d" % turn),),
                )
                for number in range(20)
            ]
            write(raw, CODECS, build_batch(records, codec=codec), partition)
    end = 0
    for number in range(10):
        end = write(raw, DELETED, build_batch([Record(timestamp=now_ms + 20 * number, value=bytes(700))] * 2)) + 2
        write(raw, PLAIN, build_batch([Record(timestamp=now_ms, value=b"%d" % number)]), number % 2)
    write(raw, PLAIN, numbered(turn), 2)
    before = [DeleteRecordsPartition(partition_index=0, offset=end - 3)]
    topics = [DeleteRecordsTopic(name=DELETED, partitions=before)]
    (deleted,) = raw.call(DeleteRecordsRequest(topics=topics, timeout_ms=10_000), 2).topics
    assert deleted.partitions[0].error_code == error_codes.NONE


def _keys(raw: RawClient, turn: int) -> None:
    now_ms = time.time_ns() // 1_000_000
    for number in range(40):
        at = now_ms - 1000 + 20 * number  # time rolls the segments
        value = None if number % 7 == turn % 7 else b"%d" % turn + bytes(150)
        write(raw, COMPACTED, build_batch([Record(timestamp=at, key=b"%d" % (number % 11), value=value)]))


def _transactions(raw: RawClient, turn: int) -> None:
    for outcome in (True, False):
        producer = Transactional(raw, f"ends-{outcome}")
        assert producer.init(4).error_code == error_codes.NONE
        assert producer.add((TRANSACTIONS, 0)) == {error_codes.NONE}
        for _ in range(2):
            assert producer.produce(TRANSACTIONS, bytes(300), bytes(300), version=9).error_code == error_codes.NONE
        assert producer.add_offsets(f"in-transactions-{outcome}") == error_codes.NONE
        assert producer.commit_offsets(f"in-transactions-{outcome}", TRANSACTIONS, turn, version=3) == error_codes.NONE
        assert producer.end(outcome, 4).error_code == error_codes.NONE
    # The last one stays open over the move; its successor of the next turn ends it.
    left_open = Transactional(raw, "open")
    assert left_open.init(4).error_code == error_codes.NONE
    assert left_open.add((TRANSACTIONS, 0)) == {error_codes.NONE}
    assert left_open.produce(TRANSACTIONS, b"open", version=9).error_code == error_codes.NONE


def _groups(raw: RawClient, turn: int) -> None:
    coordinator_ready(raw)
    assert set(commit(raw, "positions", CODECS, (0, turn + 1, "ünïcode"), (1, turn, None)).values()) == {0}
    assert set(commit(raw, f"of-turn-{turn}", PLAIN, (0, 1, "")).values()) == {0}
    member = stable_member(raw, "members")
    assert set(member.commit(CODECS, (0, 10 + turn, "of a member")).values()) == {0}
    assert member.leave() == error_codes.NONE


def _configs(raw: RawClient, turn: int) -> None:
    wanted = (
        (TOPIC, PLAIN, [("retention.bytes", SET, str(10**9 + turn))]),
        (BROKER, "", [("message.max.bytes", SET, str(2 * 10**6 + turn))]),
        (BROKER, "1", [("log.cleaner.threads", SET, "1")]),
    )
    for name, found in changed(raw, incremental_alteration(*wanted), 1).items():
        assert found[0] == error_codes.NONE, (name, found)
