"""EndTxn: API key 26."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string


@message(key=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    """Version 2 adds the support for new error code PRODUCER_FENCED.
    Version 3 enables flexible versions.
    Version 4 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
    Version 5 enables bumping epoch on every transaction (KIP-890 Part 2)
    """

    transactional_id: string  # The ID of the transaction to end.
    producer_id: i64  # The producer ID.
    producer_epoch: i16  # The current epoch associated with the producer.
    committed: bool  # True if the transaction was committed, false if it was aborted.


@message(key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    """Starting in version 1, on quota violation, brokers send out responses before throttling.
    Version 2 adds the support for new error code PRODUCER_FENCED.
    Version 3 enables flexible versions.
    Version 4 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
    Version 5 enables bumping epoch on every transaction (KIP-890 Part 2), so producer ID and epoch are included
    in the response.
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The error code, or 0 if there was no error.
    producer_id: i64 = field("5+", default=-1, ignorable=True)  # The producer ID.
    producer_epoch: i16 = field("5+", default=-1, ignorable=True)  # The current epoch associated with the producer.
