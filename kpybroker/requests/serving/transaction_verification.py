"""The check that a transaction's coordinator knows of a partition, before the partition is written to (KIP-890).

The leader of a partition asks once for each transaction. Older clients have added the partition before, so it is only
looked up; for clients with version 2 of the protocol this question adds it. Partitions in which the transaction is
already open are not asked about again. Not a handler. (Kafka: ``AddPartitionsToTxnManager``,
``ReplicaManager.maybeSendPartitionsToTransactionCoordinator``.)
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.machines.partition.validation import sole_batch
from kpybroker.machines.partition.verification import Verification
from kpybroker.machines.transactions.coordinator import TransactionCoordinator
from kpybroker.machines.transactions.events import Partition
from kpybroker.machines.transactions.transaction import TransactionState
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import coordinator_error
from kpybroker.requests.serving.transaction_requests import transaction_request
from kpybroker.runtime.calls.pending import Pending
from kpystorage.errors import StorageError
from kpywire import error_codes
from kpywire.batch import HEADER_BYTES, LENGTH_END, MAGIC, TRANSACTIONAL_MASK, parse_header
from kpywire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kpywire.produce import Partitions, TopicKey

_new: Final = tuple.__new__
ABORTABLE_PRODUCE_FROM: Final = 11
ADDING_PRODUCE_FROM: Final = 12
API_VERSION: Final = 5
"""The version of AddPartitionsToTxn, the request that a broker of a cluster would send."""

ONLY_LOOKS: Final = 0
KNOWS_ABORTABLE: Final = 1
ADDS: Final = 2
"""The operations, which follow from the version of Produce: look up, look up with TRANSACTION_ABORTABLE, and add."""

Errors = dict[Partition, int]
"""The error codes of partitions that may not be written to."""

_NOT_TO_BE_ASKED_NOW: Final = frozenset(
    {
        error_codes.NETWORK_EXCEPTION,
        error_codes.COORDINATOR_LOAD_IN_PROGRESS,
        error_codes.COORDINATOR_NOT_AVAILABLE,
        error_codes.NOT_COORDINATOR,
    }
)


class PartitionToVerify(NamedTuple):
    """A partition that is to be written to, its leader, and the sequence of the batch."""

    leader: PartitionLeader
    topic: str
    partition: int
    sequence: int = -1


class Batches(NamedTuple):
    """The transactional batches of a Produce: their partitions, and their producers as (producer id, epoch)."""

    wanted: list[PartitionToVerify]
    producers: set[tuple[int, int]]


def operation_of(produce_version: int) -> int:
    """The operation for a Produce of this version."""
    if produce_version >= ADDING_PRODUCE_FROM:
        return ADDS
    return KNOWS_ABORTABLE if produce_version >= ABORTABLE_PRODUCE_FROM else ONLY_LOOKS


def transactional_batches(
    broker: Context, topics: Sequence[tuple[TopicKey, Partitions]], produce_version: int
) -> Batches:
    """The batches of a request that leaders on this node could append. The append reports what is wrong with others."""
    wanted: list[PartitionToVerify] = []
    producers: set[tuple[int, int]] = set()
    replicas = broker.replicas
    for key, partitions in topics:
        held = replicas.topic(key)
        if held is None:
            continue
        for index, records in partitions:
            if records is None or len(records) < HEADER_BYTES:
                continue
            header = parse_header(records)
            if not header.attributes & TRANSACTIONAL_MASK or header.producer_id < 0:
                continue
            try:
                if header.batch_length + LENGTH_END != len(records) or header.magic != MAGIC:
                    sole_batch(records, produce_version)
                leader = held.replica(index).led()
            except (KafkaError, StorageError):
                continue
            wanted.append(_new(PartitionToVerify, (leader, held.name, index, header.base_sequence)))
            producers.add((header.producer_id, header.producer_epoch))
    return Batches(wanted, producers)


def is_known(broker: Context, transactional_id: str, batches: Batches, operation: int) -> bool:
    """Whether this node already knows that these batches of one producer belong to its transaction. No node is asked.

    If it does not know, `Verifying` finds out.
    """
    coordinator: TransactionCoordinator | None = broker.transactions.settled(transactional_id)
    transaction = None if coordinator is None else coordinator.shard.transactions.get(transactional_id)
    if transaction is None or transaction.state is not TransactionState.ONGOING:
        return False
    producer_id, partitions = transaction.producer_id, transaction.partitions
    if (producer_id, transaction.producer_epoch) not in batches.producers:
        return False
    for leader, topic, index, sequence in batches.wanted:
        if (topic, index) not in partitions or producer_id in leader.verifications.of_producers:
            return False
        if operation == ADDS and sequence > 0 and producer_id not in leader.log.producers.producers:
            return False
    return True


def keep_order(broker: Context, refused: tuple[TopicKey, Partitions], produce_version: int, now_ms: int) -> None:
    """Begin a verification for a batch that was refused though its transaction is known: until it comes again, no later
    batch of its producer opens the transaction in this partition."""
    batches = transactional_batches(broker, (refused,), produce_version)
    adds = operation_of(produce_version) == ADDS
    for leader, _, _, sequence in batches.wanted:
        for producer_id, epoch in batches.producers:
            if not leader.log.producers.has_open_transaction(producer_id, epoch):
                leader.verifications.begin(producer_id, epoch, sequence, now_ms, bumps_epoch=adds)


class Verifying:
    """One question about the partitions of one producer, until it is answered."""

    __slots__ = (
        "_began_ms",
        "_broker",
        "_done",
        "_epoch",
        "_fenced",
        "_guards",
        "_id",
        "_operation",
        "_producer_id",
        "_wanted",
    )

    def __init__(
        self,
        broker: Context,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        wanted: Sequence[PartitionToVerify],
        operation: int,
        done: Callable[[Errors], object],
    ) -> None:
        """``done`` gets the errors, at once or later. They are not yet Kafka's errors for produce requests."""
        self._broker = broker
        self._id = transactional_id
        self._producer_id = producer_id
        self._epoch = producer_epoch
        self._wanted = wanted
        self._operation = operation
        self._done = done
        self._began_ms = broker.scheduler.monotonic_ms()
        self._guards: dict[Partition, Verification] = {}
        self._fenced: Errors = {}

    def ask(self) -> None:
        """Ask about the partitions in which the transaction is not open yet. A producer whose successor has already
        written is fenced without a question."""
        broker, adds = self._broker, self._operation == ADDS
        guards = self._guards = {}
        fenced = self._fenced = {}
        by_topic: dict[str, list[int]] = {}
        now_ms = 0
        for leader, topic, index, sequence in self._wanted:
            producers = leader.log.producers
            state = producers.producers.get(self._producer_id)
            if state is not None and state.epoch > self._epoch:
                fenced[topic, index] = error_codes.INVALID_PRODUCER_EPOCH
                continue
            if producers.has_open_transaction(self._producer_id, self._epoch):
                continue
            now_ms = now_ms or broker.scheduler.now_ms()
            guards[topic, index] = leader.verifications.begin(
                self._producer_id, self._epoch, sequence, now_ms, bumps_epoch=adds
            )
            by_topic.setdefault(topic, []).append(index)
        if not guards:
            self._done(fenced)
        elif not adds and not broker.config["transaction.partition.verification.enable"]:
            for guard in guards.values():
                guard.verified = True
            self._done(fenced)
        else:
            message = AddPartitionsToTxnTransaction(
                transactional_id=self._id,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                verify_only=not adds,
                topics=[AddPartitionsToTxnTopic(name=topic, partitions=part) for topic, part in by_topic.items()],
            )
            self._ask_coordinator(message)

    def _ask_coordinator(self, message: AddPartitionsToTxnTransaction) -> None:
        """Ask the transaction's coordinator, on this node or another."""
        broker = self._broker
        elsewhere = broker.transactions_elsewhere.coordinator(self._id)
        if elsewhere is not None:
            broker.transactions_elsewhere.ask(elsewhere, message, self._answered_elsewhere)
            return
        answer = broker.transactions.submit(
            self._id,
            transaction_request(broker, message, API_VERSION),
            lambda code: refused(message, coordinator_error(code)),
            writes=not message.verify_only,
        )
        if isinstance(answer, Pending):
            answer.when_resolved(self._answered)
        else:
            self._answered(answer)

    def _answered_elsewhere(self, answer: AddPartitionsToTxnResult | int) -> None:
        if isinstance(answer, int):
            self._settle(dict.fromkeys(self._guards, answer))
        else:
            self._answered(answer)

    def _answered(self, result: AddPartitionsToTxnResult) -> None:
        self._settle(
            {
                (topic.name, each.partition_index): each.partition_error_code
                for topic in result.topic_results
                for each in topic.results_by_partition
            }
        )

    def _settle(self, codes: Errors) -> None:
        if self._operation == ADDS and error_codes.CONCURRENT_TRANSACTIONS in codes.values() and self._may_ask_again():
            backoff_ms = self._broker.config["add.partitions.to.txn.retry.backoff.ms"]
            self._broker.scheduler.call_later(backoff_ms, self.ask)
            return
        errors = self._fenced
        for partition, guard in self._guards.items():
            code = self._as_the_client_knows_it(codes.get(partition, error_codes.UNKNOWN_SERVER_ERROR))
            if code:
                errors[partition] = code
            else:
                guard.verified = True
        self._done(errors)

    def _may_ask_again(self) -> bool:
        config = self._broker.config
        longest_ms = min(config["add.partitions.to.txn.retry.backoff.max.ms"], config["request.timeout.ms"])
        return bool(self._broker.scheduler.monotonic_ms() - self._began_ms < longest_ms)

    def _as_the_client_knows_it(self, code: int) -> int:
        if code == error_codes.PRODUCER_FENCED:
            return error_codes.INVALID_PRODUCER_EPOCH
        if code == error_codes.TRANSACTION_ABORTABLE and self._operation == ONLY_LOOKS:
            return error_codes.INVALID_TXN_STATE
        return code


def refused(transaction: AddPartitionsToTxnTransaction, code: int) -> AddPartitionsToTxnResult:
    """One error for every partition of a transaction."""
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                    for index in topic.partitions
                ],
            )
            for topic in transaction.topics
        ],
    )


def refusal_of_a_produce(code: int, operation: int) -> KafkaError:
    """The error for the producer. Codes that older producers might not retry become an error that all of them retry."""
    if code == error_codes.INVALID_TXN_STATE:
        return KafkaError(code, "Partition was not added to the transaction")
    may_wait = code == error_codes.CONCURRENT_TRANSACTIONS and operation != ADDS
    if code in _NOT_TO_BE_ASKED_NOW or may_wait:
        return KafkaError(
            error_codes.NOT_ENOUGH_REPLICAS,
            "Unable to verify the partition has been added to the transaction. Underlying error: "
            f"{error_codes.name(code)}",
        )
    return KafkaError(code)
