"""Produce (0), versions 3-13, advertised from 0: append record batches.

- acks 0: no response. If a partition fails, the connection is closed, so that the client notices.
- acks 1: answered when the leader has appended. acks -1: answered when the high watermark covers the batch.
  NOT_ENOUGH_REPLICAS if too few replicas are in sync before the append, REQUEST_TIMED_OUT after ``timeout_ms``.
- One batch per partition, magic 2; the whole batch is accepted or refused. If a partition is named twice, the last
  batch counts.
- A request that writes into a transaction without a transactional id fails as a whole:
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
- A topic that is a mirror of another cluster's is read-only: POLICY_VIOLATION.
- In a transaction only partitions that its coordinator knows are written (KIP-890). A request with a transactional id
  waits until that is verified. Its batches must have one producer, else INVALID_PRODUCER_ID_MAPPING. From v11 on:
  TRANSACTION_ABORTABLE. From v12 on: the verification adds the partitions to the transaction.
- v5 log_start_offset; v8 record_errors and error_message (KIP-467); v10 current_leader (KIP-951); v13 topic ids.
"""

from collections.abc import Sequence
from typing import Final

from kpybroker.hosts.replicas.commit_wait import CommitWait, UncommittedBatch
from kpybroker.hosts.replicas.replica import HeldTopic
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.validation import Accepted, BatchRefused, LaboriousBatch, NotOneBatch, sole_batch
from kpybroker.machines.transactions.events import Partition
from kpybroker.requests.serving import laborious_batches, leader_hints, unopened_logs, wide_produce
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.laborious_batches import Postponed
from kpybroker.requests.serving.leader_hints import current_leader, node_endpoints
from kpybroker.requests.serving.repeated_partitions import Overruled, Topics, one_of_each
from kpybroker.requests.serving.transaction_verification import (
    Errors,
    Verifying,
    is_known,
    keep_order,
    operation_of,
    refusal_of_a_produce,
    transactional_batches,
)
from kpybroker.requests.serving.transactional_batches import denied_whole, writes_into_transaction
from kpybroker.requests.serving.wide_produce import Piece, Whole
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.close_connection import CloseConnection
from kpybroker.runtime.calls.deferred import Deferred
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import Work
from kpystorage.errors import StorageError
from kpywire import error_codes
from kpywire.messages.produce import NodeEndpoint
from kpywire.produce import Answers, Partitions, Produce, ProduceCodec, Records, TopicKey, codec_for
from kpywire.produce_hints import HintedAnswers

ACKS_ALL: Final = -1
EVERY_CODEC_FROM: Final = 7
AT_ONCE_MS: Final = 4.0
"""The time after which a Produce with many batches goes on in steps."""
MOST_AT_ONCE: Final = 256
"""The topics and partitions of a request that is served in one piece, if their logs are open."""
ADMIN_CLIENT_ID: Final = "__admin_client"
EXPECTED: Final = frozenset(
    {
        error_codes.UNKNOWN_TOPIC_OR_PARTITION,
        error_codes.NOT_LEADER_OR_FOLLOWER,
        error_codes.MESSAGE_TOO_LARGE,
        error_codes.RECORD_LIST_TOO_LARGE,
        error_codes.CORRUPT_MESSAGE,
        error_codes.KAFKA_STORAGE_ERROR,
    }
)
"""Errors that Kafka does not count as failed produce requests (``ReplicaManager.appendToLocalLog``). The other errors
are answered with the log's start offset, by which clients tell lost records from a wrong order."""
BEFORE_THE_LOG: Final = frozenset(
    {error_codes.UNKNOWN_TOPIC_ID, error_codes.INVALID_REQUIRED_ACKS, error_codes.INVALID_TOPIC_EXCEPTION}
)
"""Other errors that are answered without the log's start offset, since they occur before the log is reached."""

PER_LOOK: Final = 3  # the clock is read before every fourth batch
codec = codec_for


def handle(broker: Context, request: Produce, call: Call) -> Answers | Pending | None:
    """Append the batch of each partition, then answer as ``acks`` demands."""
    transactional_id, acks, timeout_ms, topics = request
    if transactional_id is None and writes_into_transaction(topics):
        return denied_whole(call, acks, topics)
    if len(topics) == 1 and len(topics[0][1]) == 1 and transactional_id is None:
        return _append(Appending(broker, acks, call), timeout_ms, topics)
    names_many = len(topics) > unopened_logs.FEW or any(len(parts) > unopened_logs.FEW for _, parts in topics)
    if names_many and (_is_wide(topics) or unopened_logs.opens_many(broker, topics)):
        kept = request._replace(topics=unopened_logs.copied(topics))
        response: Answers | Pending | None = call.peer.share(_serve_in_steps(broker, kept, call))
        return response
    return _serve(broker, request, call)


def handle_in_steps(broker: Context, request: Produce, call: Call) -> Work:
    """Like `handle`, for a request that was decoded in steps, or is the first one."""
    if _is_wide(request.topics):
        return (yield from _serve_in_steps(broker, request, call))
    return handle(broker, request, call)


def _is_wide(topics: Topics) -> bool:
    """Return whether a request names more topics and partitions than are served in one piece."""
    count = len(topics)
    for _key, parts in topics:
        count += len(parts)
    return count > MOST_AT_ONCE


def _serve_in_steps(broker: Context, request: Produce, call: Call) -> Work:
    """Serve a request to many partitions. Its records lie in a buffer of its own."""
    transactional_id, acks, timeout_ms, _ = request

    def append(piece: Piece, whole: Whole) -> Answers | Pending | None:
        appending = Appending(broker, acks, call)
        appending.overruled = whole.overruled
        appending.bound((piece,))
        if transactional_id is not None:
            batches = transactional_batches(broker, (piece,), call.api_version)
            appending.transactional_id, appending.refused = transactional_id, whole.refused
            appending.transactional = whole.in_transaction
            appending.is_verified = len(batches.producers) == 1 and is_known(
                broker, transactional_id, batches, operation_of(call.api_version)
            )
        return _append(appending, timeout_ms, (piece,))

    return (yield from wide_produce.append(broker, request, call, append))


def _serve(
    broker: Context, request: Produce, call: Call, outcome: Accepted | BatchRefused | None = None
) -> Answers | Pending | None:
    """``outcome``: that of the check of the only batch, if it was made elsewhere."""
    transactional_id, acks, timeout_ms, topics = request
    topics, overruled = one_of_each(topics, call.api_version)
    if transactional_id is not None:
        return _handle_transactional(broker, transactional_id, request._replace(topics=topics), call, outcome)
    appending = Appending(broker, acks, call)
    appending.overruled = overruled
    appending.outcome = outcome
    appending.bound(topics)
    return _append(appending, timeout_ms, topics)


def _append(
    appending: "Appending",
    timeout_ms: int,
    topics: Sequence[tuple[TopicKey, Partitions]],
    answered: Answers | None = None,
) -> Answers | Pending | None:
    """Append the batches, and answer. ``answered``: all are appended already, but for postponed ones."""
    broker, acks = appending.broker, appending.acks
    responses: Answers = answered or [(topic, appending.topic(topic, partitions)) for topic, partitions in topics]
    if appending.postponed:
        return _answer_in_steps(appending, timeout_ms, topics, responses)
    if appending.overruled:
        appending.overrule(responses, topics)
    if acks == 0:
        if appending.failed:
            raise CloseConnection("a produce request without acknowledgement failed")
        return None
    if appending.uncommitted:
        responses = HintedAnswers(responses, appending.node_endpoints)
        refuse = appending.refuse_late
        return CommitWait(broker.scheduler, responses, appending.uncommitted, refuse, timeout_ms).pending
    return HintedAnswers(responses, appending.node_endpoints) if appending.node_endpoints else responses


def _answer_in_steps(
    appending: "Appending", timeout_ms: int, topics: Sequence[tuple[TopicKey, Partitions]], responses: Answers
) -> Answers | Pending | None:
    """Answer for what is appended already, and append what was postponed in steps."""
    broker, acks, call = appending.broker, appending.acks, appending.call
    postponed, appending.postponed = appending.postponed, []

    def serve(each: Postponed, outcome: Accepted | BatchRefused | None) -> Answers | Pending | None:
        part = [(each.key, [(each.partition, each.records)])]
        return _serve(broker, Produce(appending.transactional_id, acks, timeout_ms, part), call, outcome)

    first = _append(appending, timeout_ms, topics, responses)
    work = laborious_batches.append(broker, call, acks, first, postponed, serve)
    response: Answers | Pending | None = call.peer.share(work)
    return response


def _handle_transactional(
    broker: Context, transactional_id: str, request: Produce, call: Call, outcome: Accepted | BatchRefused | None
) -> Answers | Pending | None:
    """Verify the transaction, which mostly takes no time, then append as usual."""
    _, acks, timeout_ms, topics = request
    call.client.in_transactions = True
    batches = transactional_batches(broker, topics, call.api_version)
    appending = Appending(broker, acks, call)
    appending.transactional_id = transactional_id
    appending.outcome = outcome
    appending.bound(topics)
    if not batches.wanted:
        return _append(appending, timeout_ms, topics)
    operation = operation_of(call.api_version)
    if len(batches.producers) == 1 and is_known(broker, transactional_id, batches, operation):
        appending.refused, appending.transactional = {}, True
        appending.is_verified = True
        return _append(appending, timeout_ms, topics)
    answer = Deferred()
    kept: list[Sequence[tuple[TopicKey, Partitions]]] = []

    def verified(errors: Errors) -> None:
        appending.refused = {key: refusal_of_a_produce(errors[key], operation) for key in errors}
        appending.transactional = True
        try:
            answer.deliver(_append(appending, timeout_ms, kept[0] if kept else topics))
        except CloseConnection:
            if not kept:
                raise
            call.peer.close()

    if len(batches.producers) > 1:
        code = error_codes.INVALID_PRODUCER_ID_MAPPING
        verified({(each.topic, each.partition): code for each in batches.wanted})
    else:
        producer_id, producer_epoch = next(iter(batches.producers))
        Verifying(broker, transactional_id, producer_id, producer_epoch, batches.wanted, operation, verified).ask()
    if not answer.is_there:
        # Others will receive into the buffer that the records lie in.
        kept.append(unopened_logs.copied(topics))
    response: Answers | Pending | None = answer.response
    return response


class Appending:
    """The appends of one request, partition by partition."""

    __slots__ = (
        "acks",
        "appends",
        "broker",
        "bytes_in",
        "call",
        "codec",
        "failed",
        "is_verified",
        "node_endpoints",
        "now_ms",
        "outcome",
        "overruled",
        "postponed",
        "records_in",
        "refused",
        "transactional",
        "transactional_id",
        "uncommitted",
        "until_ms",
    )

    def __init__(self, broker: Context, acks: int, call: Call) -> None:
        self.refused: dict[Partition, KafkaError] | None = None
        """The partitions that the transaction may not write to; None without a transaction."""
        self.transactional = False
        self.transactional_id: str | None = None
        self.until_ms = 0.0
        """The time after which further batches are postponed; 0 if there is just one."""
        self.postponed: list[Postponed] = []
        self.outcome: Accepted | BatchRefused | None = None
        """The outcome of the check of the only batch, if it was made elsewhere."""
        self.is_verified = False
        """Whether the transaction is already verified, without a question to its coordinator."""
        self.broker = broker
        self.acks = acks
        self.call = call
        self.codec: ProduceCodec = codec_for(call.api_version)
        self.now_ms = broker.scheduler.now_ms()
        self.failed = False
        self.records_in = self.bytes_in = self.appends = 0
        self.overruled: Overruled = {}
        self.node_endpoints: list[NodeEndpoint] = []
        """The addresses of the leaders that the answers name as hints (KIP-951)."""
        self.uncommitted: list[UncommittedBatch] = []
        """The appends that the high watermark does not cover yet."""

    def bound(self, topics: Sequence[tuple[TopicKey, Partitions]]) -> None:
        """Postpone batches after a while, if there are several."""
        if len(topics) != 1 or len(topics[0][1]) > 1:
            self.until_ms = self.broker.scheduler.monotonic_ms() + AT_ONCE_MS

    def topic(self, key: TopicKey, partitions: Partitions) -> list[bytes]:
        """Append to the partitions of one topic. Return the answer of each."""
        replicas = self.broker.replicas
        # `Replicas.topic`, written out for the request with one batch.
        held = replicas.by_id.get(key) if isinstance(key, bytes) else replicas.topics.get(key)
        answers: list[bytes] = []
        until_ms, is_late = self.until_ms, False
        for nth, (index, records) in enumerate(partitions):
            if until_ms and not (is_late or nth & PER_LOOK):
                is_late = self.broker.scheduler.monotonic_ms() > until_ms
            if is_late:
                self.postponed.append(Postponed(key, index, records, None, "", answers, len(answers)))
                answers.append(b"")
                continue
            try:
                if held is None or held.is_guarded or not -2 < self.acks < 2:
                    held = self._checked(key, held, index, records)
                if self.refused and (held.name, index) in self.refused:
                    answers.append(self._refused_before(held, index))
                    continue
                answers.append(self._partition(key, held, index, records, answers))
            except LaboriousBatch:
                assert held is not None
                self.appends -= 1
                name = f"{held.name}-{index}"
                self.postponed.append(Postponed(key, index, records, held.validation, name, answers, len(answers)))
                answers.append(b"")
            except (KafkaError, StorageError) as error:
                answers.append(self._refusal(key, held, index, error, replicas.code_of(error)))
                if self.is_verified:
                    keep_order(self.broker, (key, [(index, records)]), self.call.api_version, self.now_ms)
        if held is not None:
            held.records_in += self.records_in
            held.bytes_in += self.bytes_in
            held.produces += self.appends
            self.records_in = self.bytes_in = self.appends = 0
        return answers

    def overrule(self, responses: Answers, topics: Topics) -> None:
        """Replace the answer for a partition by the refusal of another of its batches."""
        for (key, answers), (_, partitions) in zip(responses, topics, strict=True):
            for place, (index, _) in enumerate(partitions):
                error = self.overruled.get((key, index))
                if error is not None:
                    assert isinstance(answers, list)
                    answers[place] = self._refusal(key, None, index, error, error.code)

    def refuse_late(self, each: UncommittedBatch, code: int) -> bytes:
        """The answer for a batch that was appended but not committed."""
        if code in leader_hints.AFTER_PRODUCE:
            topic = each.replica.topic
            leader = self._hint(topic.id if self.codec.by_id else topic.name, each.partition)
            return self.codec.refusal(each.partition, code, None, leader=leader)
        return self.codec.refusal(each.partition, code, None)

    def _hint(self, key: TopicKey, index: int) -> tuple[int, int] | None:
        """The leader's id and epoch, if the client's version has fields for them. Adds its address to the answers."""
        if self.codec.version < leader_hints.PRODUCE_FROM:
            return None
        leader = current_leader(self.broker, key, index, self.call.listener_name)
        if leader.node is not None and all(known.node_id != leader.leader_id for known in self.node_endpoints):
            self.node_endpoints += node_endpoints({leader.leader_id: leader.node}, NodeEndpoint)
        return leader.leader_id, leader.leader_epoch

    def _refusal(
        self, key: TopicKey, held: HeldTopic | None, index: int, error: KafkaError | StorageError, code: int
    ) -> bytes:
        """The answer with an error. It has the log's start offset if the log itself refused (``appendToLocalLog``)."""
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
        came_to_log = not isinstance(error, NotOneBatch) and code not in EXPECTED | BEFORE_THE_LOG
        if came_to_log and replica is not None and replica.leader is not None:
            log_start_offset = replica.leader.log.log_start_offset
        leader = self._hint(key, index) if code in leader_hints.AFTER_PRODUCE else None
        return self.codec.refusal(index, code, message, record_errors, log_start_offset, leader)

    def _refused_before(self, held: HeldTopic, index: int) -> bytes:
        """The answer with an error of the verification. It has no start offset of the log."""
        assert self.refused is not None
        error = self.refused[held.name, index]
        self.failed = True
        self.call.counters.count_error(error.code)
        return self.codec.refusal(index, error.code, error.message, (), -1)

    def _checked(self, key: TopicKey, held: HeldTopic | None, index: int, records: Records | None) -> HeldTopic:
        """The topic, if this request can produce to it at all."""
        if held is None:
            held = self.broker.replicas.find(key, index).topic
        if self.acks not in (-1, 0, 1):
            self.broker.replicas.find(key, index)
            if records is not None:
                sole_batch(records, self.call.api_version)
            raise KafkaError(error_codes.INVALID_REQUIRED_ACKS)
        if held.is_internal and self.call.client_id != ADMIN_CLIENT_ID:
            raise KafkaError(error_codes.INVALID_TOPIC_EXCEPTION)
        if held.config.is_mirror:
            message = f"Topic {held.name} is a mirror: only its source writes to it"
            raise KafkaError(error_codes.POLICY_VIOLATION, message)
        return held

    def _partition(
        self, key: TopicKey, held: HeldTopic, index: int, records: Records | None, answers: list[bytes]
    ) -> bytes:
        replica = held.replicas.get(index) or self.broker.replicas.find(key, index)
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
        outcome = self.outcome
        if outcome is None:
            base_offset, next_offset, append_time_ms = leader.append(
                records,
                held.validation,
                self.now_ms,
                transactional=self.transactional,
                is_verified=self.is_verified,
                at_once=True,
            )
        elif isinstance(outcome, BatchRefused):
            raise outcome
        else:
            base_offset, next_offset, append_time_ms = leader.append_checked(
                outcome, self.now_ms, transactional=self.transactional, is_verified=self.is_verified
            )
        self.records_in += next_offset - base_offset
        self.bytes_in += len(records)
        if replica.following:
            replica.appended()
        elif replica.watchers or replica.commit_waits:
            replica.changed()
        if acks_all and next_offset > leader.high_watermark.offset:
            self.uncommitted.append(UncommittedBatch(replica, leader.term, next_offset, index, answers, len(answers)))
        return self.codec.success(index, base_offset, append_time_ms, leader.log.log_start_offset)
