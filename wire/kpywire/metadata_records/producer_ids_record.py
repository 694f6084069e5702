"""ProducerIdsRecord: type 15 in the metadata log."""

from __future__ import annotations

from kpywire.schema import field, i32, i64, message


@message(key=15, versions="0", flexible="0+")
class ProducerIdsRecord:
    broker_id: i32  # The ID of the requesting broker
    broker_epoch: i64 = field(default=-1)  # The epoch of the requesting broker
    # The next producerId that will be assigned (i.e. the first producerId in the next assigned block)
    next_producer_id: i64
