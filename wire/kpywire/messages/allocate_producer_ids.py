"""AllocateProducerIds: API key 67."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message


@message(key=67, versions="0", flexible="0+")
class AllocateProducerIdsRequest:
    broker_id: i32  # The ID of the requesting broker.
    broker_epoch: i64 = field(default=-1)  # The epoch of the requesting broker.


@message(key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse:
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The top level response error code.
    producer_id_start: i64  # The first producer ID in this range, inclusive.
    producer_id_len: i32  # The number of producer IDs in this range.
