"""UnregisterBrokerRecord: type 1 in the metadata log."""

from __future__ import annotations

from kpywire.schema import i32, i64, message


@message(key=1, versions="0", flexible="0+")
class UnregisterBrokerRecord:
    broker_id: i32  # The broker id.
    broker_epoch: i64  # The broker epoch.
