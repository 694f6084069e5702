"""TransactionLog: a record of type 0, key and value."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, i64, message, string, struct


@message(key=0, versions="0")
class TransactionLogKey:
    transactional_id: string  # The transactional id of the transaction.


@struct
class PartitionsSchema:
    topic: string  # Topic involved in the transaction.
    partition_ids: list[i32]  # Partition ids involved in the transaction.


@message(key=0, versions="0-1", flexible="1+")
class TransactionLogValue:
    """Version 1 is the first flexible version. KIP-915: bumping the version will no longer make this record backward
    compatible. We suggest to add/remove only tagged fields to maintain backward compatibility.
    """

    producer_id: i64  # Producer id in use by the transactional id.
    previous_producer_id: i64 = field("1+", tag=0, default=-1)  # Producer id used by the last committed transaction.
    # Latest producer ID sent to the producer for the given transactional id.
    next_producer_id: i64 = field("1+", tag=1, default=-1)
    producer_epoch: i16  # Epoch associated with the producer id.
    next_producer_epoch: i16 = field("1+", tag=3, default=-1)  # Producer epoch associated with the NextProducerId
    transaction_timeout_ms: i32  # Transaction timeout in milliseconds.
    transaction_status: i8  # TransactionState the transaction is in.
    transaction_partitions: list[PartitionsSchema] | None  # Partitions involved in the transaction.
    transaction_last_update_timestamp_ms: i64  # Time the transaction was last updated.
    transaction_start_timestamp_ms: i64  # Time the transaction was started.
    client_transaction_version: i16 = field("1+", tag=2, default=0)  # The transaction version used by the client.
