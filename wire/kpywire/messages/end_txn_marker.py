"""EndTxnMarker."""

from __future__ import annotations

from kpywire.schema import i32, message


@message(versions="0")
class EndTxnMarker:
    coordinator_epoch: i32  # The coordinator epoch when appending the record
