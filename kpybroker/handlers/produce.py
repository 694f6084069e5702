"""Produce (0), versions 3-13, advertised from 0.

- acks 0: no response; when a partition failed the connection is closed, so that the client notices.
- acks 1: answered when the leader has appended; acks -1: when the high watermark covers the batch, NOT_ENOUGH_REPLICAS
  when too few replicas are in sync before the append, REQUEST_TIMED_OUT after ``timeout_ms``.
- One batch per partition, magic 2; the whole batch is accepted or refused. Of a partition named twice the last counts.
- v5 log_start_offset; v8 record_errors and error_message (KIP-467); v10 current_leader (KIP-951); v13 topic ids.
"""

from collections.abc import Sequence

from kpybroker.errors import KafkaError
from kpybroker.handlers.context import Call, Context
from kpybroker.partition.validation import sole_batch
from kpybroker.replicas.commit_wait import CommitWait, Uncommitted
from kpybroker.replicas.replica import HeldTopic
from kpybroker.server.connection import CloseConnection
from kpybroker.server.pending import Pending
from kpystorage.errors import DiskFailure, StorageError
from kpywire import error_codes
from kpywire.produce import Answers, Partitions, Produce, ProduceCodec, TopicKey, codec_for

ACKS_ALL = -1
EVERY_CODEC_FROM = 7
ADMIN_CLIENT_ID = "__admin_client"
REFUSED_BY_THE_LOG = frozenset(
    {
        error_codes.INVALID_TIMESTAMP,
        error_codes.OUT_OF_ORDER_SEQUENCE_NUMBER,
        error_codes.INVALID_PRODUCER_EPOCH,
        error_codes.INVALID_TXN_STATE,
        error_codes.NOT_ENOUGH_REPLICAS,
    }
)
"""Errors that come with the log's start offset, which clients look at to tell lost records from lost order."""

EXPECTED = frozenset(
    {
        error_codes.UNKNOWN_TOPIC_OR_PARTITION,
        error_codes.NOT_LEADER_OR_FOLLOWER,
        error_codes.MESSAGE_TOO_LARGE,
        error_codes.RECORD_LIST_TOO_LARGE,
        error_codes.CORRUPT_MESSAGE,
        error_codes.KAFKA_STORAGE_ERROR,
    }
)
"""Errors that Kafka does not count among its failed produce requests (``ReplicaManager.appendToLocalLog``)."""

codec = codec_for


def handle(broker: Context, request: Produce, call: Call) -> Answers | Pending | None:
    """Append every partition's batch, then answer as ``acks`` asks."""
    _, acks, timeout_ms, topics = request
    if len(topics) != 1 or len(topics[0][1]) != 1:
        topics = _last_of_each(topics)
    appending = Appending(broker, acks, call)
    responses = [(topic, appending.topic(topic, partitions)) for topic, partitions in topics]
    if acks == 0:
        if appending.failed:
            raise CloseConnection("a produce request without acknowledgement failed")
        return None
    if appending.uncommitted:
        refusal = appending.codec.refusal
        return CommitWait(broker.scheduler, responses, appending.uncommitted, refusal, timeout_ms).pending
    return responses


def _last_of_each(topics: Sequence[tuple[TopicKey, Partitions]]) -> Sequence[tuple[TopicKey, Partitions]]:
    """Of a partition that comes twice the last batch counts; a topic without partitions is not answered."""
    if len(topics) == 1 and len(dict(topics[0][1])) == len(topics[0][1]) > 0:
        return topics
    by_topic: dict[TopicKey, dict[int, memoryview | None]] = {}
    for key, partitions in topics:
        if partitions:
            by_topic.setdefault(key, {}).update(partitions)
    return [(key, list(of_topic.items())) for key, of_topic in by_topic.items()]


class Appending:
    """One request's way through its partitions."""

    __slots__ = (
        "acks",
        "appends",
        "broker",
        "bytes_in",
        "call",
        "codec",
        "failed",
        "now_ms",
        "records_in",
        "uncommitted",
    )

    def __init__(self, broker: Context, acks: int, call: Call) -> None:
        self.broker = broker
        self.acks = acks
        self.call = call
        self.codec: ProduceCodec = codec_for(call.api_version)
        self.now_ms = broker.scheduler.now_ms()
        self.failed = False
        self.records_in = self.bytes_in = self.appends = 0
        self.uncommitted: list[Uncommitted] = []
        """What the high watermark does not cover yet."""

    def topic(self, key: TopicKey, partitions: Partitions) -> list[bytes]:
        """Append to partitions of one topic; the answer of each."""
        replicas = self.broker.replicas
        held = replicas.by_id.get(key) if isinstance(key, bytes) else replicas.topics.get(key)
        answers: list[bytes] = []
        for index, records in partitions:
            try:
                if held is None or held.is_internal or not -2 < self.acks < 2:
                    held = self._checked(held, index, records)
                answers.append(self._partition(held, index, records, answers))
            except KafkaError as error:
                answers.append(self._refusal(held, index, error, error.code))
            except StorageError as error:
                if isinstance(error, DiskFailure):
                    replicas.directory_failed(error)
                answers.append(self._refusal(held, index, error, error.error_code))
        if held is not None:
            held.records_in += self.records_in
            held.bytes_in += self.bytes_in
            held.produces += self.appends
            self.records_in = self.bytes_in = self.appends = 0
        return answers

    def _refusal(self, held: HeldTopic | None, index: int, error: KafkaError | StorageError, code: int) -> bytes:
        """An error as Kafka tells it: with the log's start where the log itself refused (``appendToLocalLog``)."""
        self.failed = True
        self.call.counters.count_error(code)
        if held is not None and code not in EXPECTED:
            held.failed_produces += 1
        message: str | None = None
        record_errors: Sequence[tuple[int, str]] = ()
        if isinstance(error, KafkaError):
            message, record_errors = error.message, error.record_errors
        log_start_offset = -1
        replica = None if held is None else held.replicas.get(index)
        if (record_errors or code in REFUSED_BY_THE_LOG) and replica is not None and replica.leader is not None:
            log_start_offset = replica.leader.log.log_start_offset
        return self.codec.refusal(index, code, message, record_errors, log_start_offset)

    def _checked(self, held: HeldTopic | None, index: int, records: memoryview | None) -> HeldTopic:
        """The topic, if something can be produced to it at all."""
        if held is None:
            by_id = self.codec.by_id
            raise KafkaError(error_codes.UNKNOWN_TOPIC_ID if by_id else error_codes.UNKNOWN_TOPIC_OR_PARTITION)
        if self.acks not in (-1, 0, 1):
            held.replica(index)
            if records is not None:
                sole_batch(records, self.call.api_version)
            raise KafkaError(error_codes.INVALID_REQUIRED_ACKS)
        if held.is_internal and self.call.client_id != ADMIN_CLIENT_ID:
            raise KafkaError(error_codes.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {held.name}")
        return held

    def _partition(self, held: HeldTopic, index: int, records: memoryview | None, answers: list[bytes]) -> bytes:
        replica = held.replicas.get(index) or held.replica(index)
        leader = replica.leader
        if leader is None or replica.offline:
            leader = replica.led()
        acks_all = self.acks == ACKS_ALL
        if acks_all and not leader.has_enough_in_sync(held.config.min_insync_replicas):
            raise KafkaError(error_codes.NOT_ENOUGH_REPLICAS)
        if records is None:
            raise KafkaError(error_codes.INVALID_RECORD, "Produce requests must have exactly one record batch")
        if self.call.api_version < EVERY_CODEC_FROM:
            sole_batch(records, self.call.api_version)
        self.appends += 1
        base_offset, next_offset, append_time_ms = leader.append(records, held.validation, self.now_ms)
        self.records_in += next_offset - base_offset
        self.bytes_in += len(records)
        if replica.watchers or replica.commit_waits:
            replica.changed()
        if acks_all and next_offset > leader.high_watermark.offset:
            self.uncommitted.append(Uncommitted(replica, leader.epoch, next_offset, index, answers, len(answers)))
        return self.codec.success(index, base_offset, append_time_ms, leader.log.log_start_offset)
