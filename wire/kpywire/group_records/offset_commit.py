"""OffsetCommit: a record of type 1, key and value."""

from __future__ import annotations

from kpywire.schema import field, i32, i64, message, string, uuid
from kpywire.uuid import ZERO_UUID


@message(key=1, versions="0")
class OffsetCommitKey:
    group: string  # The consumer group id.
    topic: string  # The topic name.
    partition: i32  # The topic partition index.


@message(key=1, versions="0-4", flexible="4+")
class OffsetCommitValue:
    """Version 4 is the first flexible version. KIP-915: bumping the version will no longer make this record backward
    compatible. We suggest to add/remove only tagged fields to maintain backward compatibility.
    """

    offset: i64  # The offset that the consumer wants to store (for this partition).
    leader_epoch: i32 = field("3+", default=-1, ignorable=True)  # The leader epoch of the last consumed record.
    metadata: string  # Any metadata the client wants to keep.
    commit_timestamp: i64  # The time at which the commit was added to the log.
    expire_timestamp: i64 = field("1", default=-1, ignorable=True)  # The time at which the offset will expire.
    topic_id: uuid = field("4+", tag=0, default=ZERO_UUID, ignorable=True)  # The topic id of the committed offset.
