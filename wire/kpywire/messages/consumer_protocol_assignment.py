"""ConsumerProtocolAssignment."""

from __future__ import annotations

from kpywire.schema import field, i32, message, string, struct


@struct
class TopicPartition:
    topic: string  # The topic name.
    partitions: list[i32]  # The list of partitions assigned to this consumer.


@message(versions="0-3")
class ConsumerProtocolAssignment:
    """Assignment part of the Consumer Protocol.
    The current implementation assumes that future versions will not break compatibility. When it encounters a
    newer version, it parses it using the current format. This basically means that new versions cannot remove or
    reorder any of the existing fields.
    Version 2 is to support a new field "GenerationId" in ConsumerProtocolSubscription.
    Version 3 adds rack id to ConsumerProtocolSubscription.
    """

    assigned_partitions: list[TopicPartition]  # The list of topics and partitions assigned to this consumer.
    user_data: bytes | None = field(default=None)  # User data.
