"""ListTransactions: API key 66."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct


@message(key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest:
    """Version 1: adds DurationFilter to list transactions older than specified duration
    Version 2: adds TransactionalIdPattern to list transactions with the same pattern(KIP-1152)
    """

    # The transaction states to filter by: if empty, all transactions are returned; if non-empty, then only transactions
    # matching one of the filtered states will be returned.
    state_filters: list[string]
    # The producerIds to filter by: if empty, all transactions will be returned; if non-empty, only transactions which
    # match one of the filtered producerIds will be returned.
    producer_id_filters: list[i64]
    # Duration (in millis) to filter by: if < 0, all transactions will be returned; otherwise, only transactions running
    # longer than this duration will be returned.
    duration_filter: i64 = field("1+", default=-1)
    # The transactional ID regular expression pattern to filter by: if it is empty or null, all transactions are
    # returned; Otherwise then only the transactions matching the given regular expression will be returned.
    transactional_id_pattern: string | None = field("2+", default=None)


@struct
class TransactionState:
    transactional_id: string  # The transactional id.
    producer_id: i64  # The producer id.
    transaction_state: string  # The current transaction state of the producer.


@message(key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse:
    """Version 1 is the same as version 0 (KIP-994). This API can return InvalidRegularExpression (KIP-1152)."""

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The error code, or 0 if there was no error.
    # Set of state filters provided in the request which were unknown to the transaction coordinator.
    unknown_state_filters: list[string]
    transaction_states: list[TransactionState]  # The current state of the transaction for the transactional id.
