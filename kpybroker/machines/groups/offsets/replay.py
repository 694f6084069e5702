"""How the records of offsets, and the markers of transactions, change a shard (Kafka: ``OffsetMetadataManager.replay``,
``replayEndTransactionMarker``)."""

from collections.abc import Iterable
from sys import intern
from typing import Final

from kpybroker.machines.groups.group import Group
from kpybroker.machines.groups.offsets.commit_record import CommitRecord
from kpybroker.machines.groups.offsets.committed import NO_TIMESTAMP, find_committed, pack, unpack
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.journal import ProducerEpoch
from kpywire.group_records.legacy_offset_commit import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from kpywire.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kpywire.uuid import ZERO_UUID

NO_POSITIONS: Final[dict[int, bytes]] = {}


def take_commit(
    shard: GroupShard,
    key: OffsetCommitKey | LegacyOffsetCommitKey,
    value: OffsetCommitValue | LegacyOffsetCommitValue | None,
    offset: int,
    producer: ProducerEpoch | None,
) -> None:
    """Apply a commit, or its tombstone. A commit of a transaction is pending until the marker."""
    if value is None:
        _forget(shard, key.group, key.topic, key.partition)
        return
    packed = pack(
        value.offset,
        offset,
        value.commit_timestamp,
        getattr(value, "expire_timestamp", NO_TIMESTAMP),
        getattr(value, "leader_epoch", -1),
        getattr(value, "topic_id", ZERO_UUID),
        value.metadata,
    )
    _take(shard, key.group, key.topic, key.partition, packed, producer)


def take_new_commit(shard: GroupShard, record: CommitRecord, offset: int, producer: ProducerEpoch | None) -> None:
    """`take_commit` for one that was just written."""
    _take(shard, record.group_id, record.topic, record.partition, record.packed(offset), producer)


def take_new_commits(
    shard: GroupShard, records: Iterable[CommitRecord | GroupRecord], offset: int, producer: ProducerEpoch | None
) -> None:
    """`take_new_commit` for many records of one group in a row, with as little work for each as possible."""
    topic, of_topic = None, NO_POSITIONS
    for record_offset, record in enumerate(records, offset):
        if type(record) is CommitRecord and record.topic == topic and producer is None:
            of_topic[record.partition] = record.packed(record_offset)
            continue
        if type(record) is CommitRecord:
            take_new_commit(shard, record, record_offset, producer)
            topic = record.topic
            of_topic = shard.groups[record.group_id].offsets.get(topic, NO_POSITIONS)
        else:
            take_commit(shard, record.key, record.value, record_offset, producer)


def take_marker(shard: GroupShard, producer_id: int, *, commit: bool) -> None:
    """End a transaction. An offset that was committed after the transaction's is kept."""
    for group_id, topic, partition in shard.open_transactions.pop(producer_id, ()):
        group = shard.groups[group_id]
        by_producer = group.pending[topic, partition]
        packed = by_producer.pop(producer_id)
        if not by_producer:
            del group.pending[topic, partition]
        if commit:
            before = find_committed(group.offsets, topic, partition)
            if before is None or before.record_offset < unpack(packed).record_offset:
                group.offsets.setdefault(intern(topic), {})[partition] = packed


def _take(
    shard: GroupShard, group_id: str, topic: str, partition: int, packed: bytes, producer: ProducerEpoch | None
) -> None:
    group = shard.groups.get(group_id)
    if group is None:
        group = shard.groups[group_id] = Group(group_id)
    if producer is not None:
        _take_pending(shard, group, topic, partition, producer.producer_id, packed)
        return
    partitions = group.offsets.get(topic)
    if partitions is None:
        topic = intern(topic)
        partitions = group.offsets[topic] = {}
        shard.topics.add(topic)
    partitions[partition] = packed


def _take_pending(shard: GroupShard, group: Group, topic: str, partition: int, producer_id: int, packed: bytes) -> None:
    group.pending.setdefault((topic, partition), {})[producer_id] = packed
    shard.topics.add(topic)
    shard.open_transactions.setdefault(producer_id, set()).add((group.group_id, topic, partition))


def _forget(shard: GroupShard, group_id: str, topic: str, partition: int) -> None:
    group = shard.groups.get(group_id)
    if group is None:
        return
    partitions = group.offsets.get(topic)
    if partitions is not None and partitions.pop(partition, None) is not None and not partitions:
        del group.offsets[topic]
    for producer_id in group.pending.pop((topic, partition), ()):
        touched = shard.open_transactions[producer_id]
        touched.discard((group_id, topic, partition))
        if not touched:
            del shard.open_transactions[producer_id]
