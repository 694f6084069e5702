"""SnapshotHeaderRecord."""

from __future__ import annotations

from kpywire.schema import i16, i64, message


@message(versions="0", flexible="0+")
class SnapshotHeaderRecord:
    version: i16  # The version of the snapshot header record.
    last_contained_log_timestamp: i64  # The append time of the last record from the log contained in this snapshot.
