"""ShareSnapshot: a record of type 0, key and value."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, i64, message, string, struct, uuid


@message(key=0, versions="0")
class ShareSnapshotKey:
    group_id: string  # The group id.
    topic_id: uuid  # The topic id.
    partition: i32  # The partition index.


@struct
class StateBatch:
    first_offset: i64  # The first offset of this state batch.
    last_offset: i64  # The last offset of this state batch.
    delivery_state: i8  # The delivery state - 0:Available,2:Acked,4:Archived.
    delivery_count: i16  # The delivery count.


@message(key=0, versions="0", flexible="0+")
class ShareSnapshotValue:
    snapshot_epoch: i32  # The snapshot epoch.
    state_epoch: i32  # The state epoch for this share-partition.
    leader_epoch: i32  # The leader epoch of the share-partition.
    start_offset: i64  # The share-partition start offset.
    # The number of offsets greater than or equal to share-partition start offset for which delivery has been completed.
    # DeliveryCompleteCount was added in Apache Kafka 4.2 (KIP-1226).
    delivery_complete_count: i32 = field(tag=0, default=-1)
    create_timestamp: i64  # The time at which the state was created.
    write_timestamp: i64  # The time at which the state was written or rewritten.
    state_batches: list[StateBatch]  # The state batches.
