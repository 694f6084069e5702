"""UnfenceBrokerRecord: type 8 in the metadata log."""

from __future__ import annotations

from kpywire.schema import i32, i64, message


@message(key=8, versions="0", flexible="0+")
class UnfenceBrokerRecord:
    id: i32  # The broker ID to unfence.
    epoch: i64  # The epoch of the broker to unfence.
