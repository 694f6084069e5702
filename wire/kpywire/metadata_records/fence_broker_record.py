"""FenceBrokerRecord: type 7 in the metadata log."""

from __future__ import annotations

from kpywire.schema import i32, i64, message


@message(key=7, versions="0", flexible="0+")
class FenceBrokerRecord:
    id: i32  # The broker ID to fence. It will be removed from all ISRs.
    epoch: i64  # The epoch of the broker to fence.
