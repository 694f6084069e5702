"""AddPartitionsToTxn: API key 24."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct


@struct
class AddPartitionsToTxnTopic:
    name: string  # The name of the topic.
    partitions: list[i32]  # The partition indexes to add to the transaction.


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: string  # The transactional id corresponding to the transaction.
    producer_id: i64  # Current producer id in use by the transactional id.
    producer_epoch: i16  # Current epoch associated with the producer id.
    # Boolean to signify if we want to check if the partition is in the transaction rather than add it.
    verify_only: bool = field(default=False)
    topics: list[AddPartitionsToTxnTopic]  # The partitions to add to the transaction.


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    """Version 2 adds the support for new error code PRODUCER_FENCED.
    Version 3 enables flexible versions.
    Version 4 adds VerifyOnly field to check if partitions are already in transaction and adds support to batch
    multiple transactions.
    Version 5 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
    Versions 3 and below will be exclusively used by clients and versions 4 and above will be used by brokers.
    """

    # List of transactions to add partitions to.
    transactions: list[AddPartitionsToTxnTransaction] = field("4+", default=[])
    # The transactional id corresponding to the transaction.
    v3_and_below_transactional_id: string = field("0-3", default="")
    v3_and_below_producer_id: i64 = field("0-3", default=0)  # Current producer id in use by the transactional id.
    v3_and_below_producer_epoch: i16 = field("0-3", default=0)  # Current epoch associated with the producer id.
    # The partitions to add to the transaction.
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3", default=[])


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: i32  # The partition indexes.
    partition_error_code: i16  # The response error code.


@struct
class AddPartitionsToTxnTopicResult:
    name: string  # The topic name.
    results_by_partition: list[AddPartitionsToTxnPartitionResult]  # The results for each partition.


@struct
class AddPartitionsToTxnResult:
    transactional_id: string  # The transactional id corresponding to the transaction.
    topic_results: list[AddPartitionsToTxnTopicResult]  # The results for each topic.


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    """Starting in version 1, on quota violation brokers send out responses before throttling.
    Version 2 adds the support for new error code PRODUCER_FENCED.
    Version 3 enables flexible versions.
    Version 4 adds support to batch multiple transactions and a top level error code.
    Version 5 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
    """

    # Duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did
    # not violate any quota.
    throttle_time_ms: i32
    error_code: i16 = field("4+", default=0, ignorable=True)  # The response top level error code.
    # Results categorized by transactional ID.
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+", default=[])
    # The results for each topic.
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3", default=[])
