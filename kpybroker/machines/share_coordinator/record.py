"""The records of ``__share_group_state``: snapshots of a share partition's state, and updates since the last one.

(Kafka: ``ShareCoordinatorRecordHelpers``, ``ShareGroupOffset``.) A snapshot without a value deletes the state.
"""

from typing import Any, NamedTuple

from kpybroker.machines.share_coordinator.key import SharePartitionKey
from kpybroker.machines.share_coordinator.state_batches import StateBatch
from kpywire.errors import Malformed
from kpywire.share_records import decode_key, decode_value, encode_key, encode_value, record_type, share_snapshot
from kpywire.share_records import share_update as update_messages
from kpywire.share_records.table import MODULES, SHARE_SNAPSHOT

VERSION = 0
_TYPE_BYTES = 2


class ShareSnapshot(NamedTuple):
    """The whole state of a share partition."""

    key: SharePartitionKey
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_timestamp_ms: int
    write_timestamp_ms: int
    batches: tuple[StateBatch, ...]

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Key and value as the log holds them."""
        value = share_snapshot.ShareSnapshotValue(
            snapshot_epoch=self.snapshot_epoch,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            create_timestamp=self.create_timestamp_ms,
            write_timestamp=self.write_timestamp_ms,
            state_batches=_encoded(self.batches, share_snapshot.StateBatch),
        )
        return _snapshot_key(self.key), encode_value(value, VERSION)


class Update(NamedTuple):
    """The changes of a share partition's state. A start offset of -1 changes nothing."""

    key: SharePartitionKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Key and value as the log holds them."""
        key = update_messages.ShareUpdateKey(
            group_id=self.key.group_id, topic_id=self.key.topic_id, partition=self.key.partition
        )
        value = update_messages.ShareUpdateValue(
            snapshot_epoch=self.snapshot_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            state_batches=_encoded(self.batches, update_messages.StateBatch),
        )
        return encode_key(key), encode_value(value, VERSION)


class ShareStateEnd(NamedTuple):
    """The end of a share partition's state."""

    key: SharePartitionKey

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Key and value as the log holds them."""
        return _snapshot_key(self.key), None


Record = ShareSnapshot | Update | ShareStateEnd


def decode(key: bytes, value: bytes | None) -> Record | None:
    """Decode a record of the log; None for a type that Kafka 4.3 does not have. Raises Malformed."""
    if len(key) >= _TYPE_BYTES and int.from_bytes(key[:_TYPE_BYTES], "big") not in MODULES:
        return None
    kind, decoded = record_type(key), decode_key(key)
    of = SharePartitionKey(decoded.group_id, decoded.topic_id, decoded.partition)
    if value is None:
        if kind != SHARE_SNAPSHOT:
            raise Malformed("an update of a share partition without a value")
        return ShareStateEnd(of)
    found = decode_value(kind, value)
    batches = tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_count, each.delivery_state)
        for each in found.state_batches
    )
    start_offset, complete = found.start_offset, found.delivery_complete_count
    if kind != SHARE_SNAPSHOT:
        return Update(of, found.snapshot_epoch, found.leader_epoch, start_offset, complete, batches)
    return ShareSnapshot(
        of,
        found.snapshot_epoch,
        found.state_epoch,
        found.leader_epoch,
        start_offset,
        complete,
        found.create_timestamp,
        found.write_timestamp,
        batches,
    )


def _snapshot_key(key: SharePartitionKey) -> bytes:
    return encode_key(
        share_snapshot.ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    )


def _encoded(batches: tuple[StateBatch, ...], message: Any) -> list[Any]:
    return [
        message(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, count, state in batches
    ]
