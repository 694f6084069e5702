"""ControlledShutdown: API key 7."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct


@message(key=7, versions="0-3", flexible="3+")
class ControlledShutdownRequest:
    """Version 0 of ControlledShutdownRequest has a non-standard request header which does not include clientId.
    Version 1 and later use the standard request header.
    Version 2 adds BrokerEpoch.
    """

    broker_id: i32  # The id of the broker for which controlled shutdown has been requested.
    broker_epoch: i64 = field("2+", default=-1, ignorable=True)  # The broker epoch.


@struct
class RemainingPartition:
    topic_name: string  # The name of the topic.
    partition_index: i32  # The index of the partition.


@message(key=7, versions="0-3", flexible="3+")
class ControlledShutdownResponse:
    error_code: i16  # The top-level error code.
    remaining_partitions: list[RemainingPartition]  # The partitions that the broker still leads.
