"""BrokerRegistrationChangeRecord: type 17 in the metadata log."""

from __future__ import annotations

from kpywire.schema import field, i8, i32, i64, message, uuid


@message(key=17, versions="0-3", flexible="0+")
class BrokerRegistrationChangeRecord:
    broker_id: i32  # The broker id.
    broker_epoch: i64  # The broker epoch assigned by the controller.
    # -1 if the broker has been unfenced, 0 if no change, 1 if the broker has been fenced.
    fenced: i8 = field(tag=0, default=0)
    # 0 if no change, 1 if the broker is in controlled shutdown.
    in_controlled_shutdown: i8 = field("1+", tag=1, default=0)
    # Log directories configured in this broker which are available.
    log_dirs: list[uuid] = field("2+", tag=2, default=[])
    # Log directories that are cordoned or null if no change.
    cordoned_log_dirs: list[uuid] | None = field("3+", tag=3, default=None)
