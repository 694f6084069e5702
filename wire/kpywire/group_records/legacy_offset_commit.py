"""LegacyOffsetCommit: a record of type 0, key and value."""

from __future__ import annotations

from kpywire.schema import i32, i64, message, string


@message(key=0, versions="0")
class LegacyOffsetCommitKey:
    group: string  # The consumer group id.
    topic: string  # The topic name.
    partition: i32  # The topic partition index.


@message(key=0, versions="0")
class LegacyOffsetCommitValue:
    offset: i64  # The offset that the consumer wants to store (for this partition).
    metadata: string  # Any metadata the client wants to keep.
    commit_timestamp: i64  # The time at which the commit was added to the log.
