"""WriteTxnMarkers: API key 27."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, i64, message, string, struct


@struct
class WritableTxnMarkerTopic:
    name: string  # The topic name.
    partition_indexes: list[i32]  # The indexes of the partitions to write transaction markers for.


@struct
class WritableTxnMarker:
    producer_id: i64  # The current producer ID.
    producer_epoch: i16  # The current epoch associated with the producer ID.
    transaction_result: bool  # The result of the transaction to write to the partitions (false = ABORT, true = COMMIT).
    topics: list[WritableTxnMarkerTopic]  # Each topic that we want to write transaction marker(s) for.
    # Epoch associated with the transaction state partition hosted by this transaction coordinator.
    coordinator_epoch: i32
    # Transaction version of the marker. Ex: 0/1 = legacy (TV0/TV1), 2 = TV2 etc.
    transaction_version: i8 = field("2+", default=0, ignorable=True)


@message(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersRequest:
    """Version 1 enables flexible versions.
    Version 2 adds TransactionVersion field to the WritableTxnMarker (KIP-1228).
    """

    markers: list[WritableTxnMarker]  # The transaction markers to be written.


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: i32  # The partition index.
    error_code: i16  # The error code, or 0 if there was no error.


@struct
class WritableTxnMarkerTopicResult:
    name: string  # The topic name.
    partitions: list[WritableTxnMarkerPartitionResult]  # The results by partition.


@struct
class WritableTxnMarkerResult:
    producer_id: i64  # The current producer ID in use by the transactional ID.
    topics: list[WritableTxnMarkerTopicResult]  # The results by topic.


@message(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse:
    """Version 1 enables flexible versions.
    Version 2 matches WriteTxnMarkersRequest version 2 (KIP-1228).
    """

    markers: list[WritableTxnMarkerResult]  # The results for writing makers.
