"""Produce: API key 0."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, record_batches, string, struct, uuid
from kpywire.uuid import ZERO_UUID


@struct
class PartitionProduceData:
    index: i32  # The partition index.
    records: record_batches | None  # The record data to be produced.


@struct
class TopicProduceData:
    name: string = field("0-12", default="", ignorable=True)  # The topic name.
    topic_id: uuid = field("13+", default=ZERO_UUID, ignorable=True)  # The unique topic ID
    partition_data: list[PartitionProduceData]  # Each partition to produce to.


@message(key=0, versions="3-13", flexible="9+")
class ProduceRequest:
    """Versions 0-2 were removed in Apache Kafka 4.0, version 3 is the new baseline. Due to a bug in librdkafka,
    these versions have to be included in the api versions response (see KAFKA-18659), but are rejected otherwise.
    See `ApiKeys.PRODUCE_API_VERSIONS_RESPONSE_MIN_VERSION` for more details.
    Version 3 adds the transactional ID, which is used for authorization when attempting to write transactional
    data. Version 3 also adds support for Kafka Message Format v2.
    Version 4 is the same as version 3, but the requester must be prepared to handle a KAFKA_STORAGE_ERROR.
    Starting in version 7, records can be produced using ZStandard compression. See KIP-110.
    Starting in Version 8, response has RecordErrors and ErrorMessage. See KIP-467.
    Version 9 enables flexible versions.
    Version 10 is the same as version 9 (KIP-951).
    Version 11 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
    Version 12 is the same as version 11 (KIP-890). Note when produce requests are used in transaction, if
    transaction V2 (KIP_890 part 2) is enabled, the produce request will also include the function for a
    AddPartitionsToTxn call. If V2 is disabled, the client can't use produce request version higher than 11 within
    a transaction.
    Version 13 replaces topic names with topic IDs (KIP-516). May return UNKNOWN_TOPIC_ID error code.
    """

    # The transactional ID, or null if the producer is not transactional.
    transactional_id: string | None = field(default=None)
    # The number of acknowledgments the producer requires the leader to have received before considering a request
    # complete. Allowed values: 0 for no acknowledgments, 1 for only the leader and -1 for the full ISR.
    acks: i16
    timeout_ms: i32  # The timeout to await a response in milliseconds.
    topic_data: list[TopicProduceData]  # Each topic to produce to.


@struct
class BatchIndexAndErrorMessage:
    batch_index: i32  # The batch index of the record that caused the batch to be dropped.
    # The error message of the record that caused the batch to be dropped.
    batch_index_error_message: string | None = field(default=None)


@struct
class LeaderIdAndEpoch:
    leader_id: i32 = field(default=-1)  # The ID of the current leader or -1 if the leader is unknown.
    leader_epoch: i32 = field(default=-1)  # The latest known leader epoch.


@struct
class PartitionProduceResponse:
    index: i32  # The partition index.
    error_code: i16  # The error code, or 0 if there was no error.
    base_offset: i64  # The base offset.
    # The timestamp returned by broker after appending the messages. If CreateTime is used for the topic, the timestamp
    # will be -1. If LogAppendTime is used for the topic, the timestamp will be the broker local time when the messages
    # are appended.
    log_append_time_ms: i64 = field(default=-1)
    log_start_offset: i64 = field("5+", default=-1, ignorable=True)  # The log start offset.
    # The batch indices of records that caused the batch to be dropped.
    record_errors: list[BatchIndexAndErrorMessage] = field("8+", default=[], ignorable=True)
    # The global error message summarizing the common root cause of the records that caused the batch to be dropped.
    error_message: string | None = field("8+", default=None, ignorable=True)
    # The leader broker that the producer should use for future requests.
    current_leader: LeaderIdAndEpoch = field("10+", tag=0, default=LeaderIdAndEpoch)


@struct
class TopicProduceResponse:
    name: string = field("0-12", default="", ignorable=True)  # The topic name.
    topic_id: uuid = field("13+", default=ZERO_UUID, ignorable=True)  # The unique topic ID
    partition_responses: list[PartitionProduceResponse]  # Each partition that we produced to within the topic.


@struct
class NodeEndpoint:
    node_id: i32  # The ID of the associated node.
    host: string  # The node's hostname.
    port: i32  # The node's port.
    rack: string | None = field(default=None)  # The rack of the node, or null if it has not been assigned to a rack.


@message(key=0, versions="3-13", flexible="9+")
class ProduceResponse:
    """Versions 0-2 were removed in Apache Kafka 4.0, version 3 is the new baseline. Due to a bug in librdkafka,
    these versions have to be included in the api versions response (see KAFKA-18659), but are rejected otherwise.
    See `ApiKeys.PRODUCE_API_VERSIONS_RESPONSE_MIN_VERSION` for more details.
    Version 1 added the throttle time.
    Version 2 added the log append time.
    Version 4 added KAFKA_STORAGE_ERROR as a possible error code.
    Version 5 added LogStartOffset to filter out spurious OutOfOrderSequenceExceptions on the client.
    Version 8 added RecordErrors and ErrorMessage to include information about records that cause the whole batch
    to be dropped. See KIP-467 for details.
    Version 9 enables flexible versions.
    Version 10 adds 'CurrentLeader' and 'NodeEndpoints' as tagged fields (KIP-951)
    Version 11 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
    Version 12 is the same as version 10 (KIP-890).
    Version 13 replaces topic names with topic IDs (KIP-516). May return UNKNOWN_TOPIC_ID error code.
    """

    responses: list[TopicProduceResponse]  # Each produce response.
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32 = field(default=0)
    # Endpoints for all current-leaders enumerated in PartitionProduceResponses, with errors NOT_LEADER_OR_FOLLOWER.
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0, default=[])
