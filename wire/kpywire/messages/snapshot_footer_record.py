"""SnapshotFooterRecord."""

from __future__ import annotations

from kpywire.schema import i16, message


@message(versions="0", flexible="0+")
class SnapshotFooterRecord:
    version: i16  # The version of the snapshot footer record.
