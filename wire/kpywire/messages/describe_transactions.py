"""DescribeTransactions: API key 65."""

from __future__ import annotations

from kpywire.schema import i16, i32, i64, message, string, struct


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    # Array of transactionalIds to include in describe results. If empty, then no results will be returned.
    transactional_ids: list[string]


@struct
class TopicData:
    topic: string  # The topic name.
    partitions: list[i32]  # The partition ids included in the current transaction.


@struct
class TransactionState:
    error_code: i16  # The error code.
    transactional_id: string  # The transactional id.
    transaction_state: string  # The current transaction state of the producer.
    transaction_timeout_ms: i32  # The timeout in milliseconds for the transaction.
    transaction_start_time_ms: i64  # The start time of the transaction in milliseconds.
    producer_id: i64  # The current producer id associated with the transaction.
    producer_epoch: i16  # The current epoch associated with the producer id.
    # The set of partitions included in the current transaction (if active). When a transaction is preparing to commit
    # or abort, this will include only partitions which do not have markers.
    topics: list[TopicData]


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    transaction_states: list[TransactionState]  # The current state of the transaction.
