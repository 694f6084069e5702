"""AddOffsetsToTxn: API key 25."""

from __future__ import annotations

from kpywire.schema import i16, i32, i64, message, string


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    """Version 2 adds the support for new error code PRODUCER_FENCED.
    Version 3 enables flexible versions.
    Version 4 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
    """

    transactional_id: string  # The transactional id corresponding to the transaction.
    producer_id: i64  # Current producer id in use by the transactional id.
    producer_epoch: i16  # Current epoch associated with the producer id.
    group_id: string  # The unique group identifier.


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    """Starting in version 1, on quota violation brokers send out responses before throttling.
    Version 2 adds the support for new error code PRODUCER_FENCED.
    Version 3 enables flexible versions.
    Version 4 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
    """

    # Duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did
    # not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The response error code, or 0 if there was no error.
