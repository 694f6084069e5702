"""AbortedTxn."""

from __future__ import annotations

from kpywire.schema import i64, message


@message(versions="0")
class AbortedTxn:
    producer_id: i64  # The producer id associated with the aborted transaction
    first_offset: i64  # The first offset in the aborted transaction
    last_offset: i64  # The last offset in the aborted transaction
    last_stable_offset: i64  # The last stable offset at the time the transaction was aborted
