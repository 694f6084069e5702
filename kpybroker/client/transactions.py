"""The requests of a transaction: begin, add partitions, commit offsets in it, end it. Raises KafkaError, Unreachable.

The requests are those of the first version of transactions. Every Kafka serves them, also one whose
``transaction.version`` is 2: it treats this client as an older one. No request adds a partition implicitly, so
processes that share an identity add their own partitions.

Invariant: `begin` ends the transaction that an earlier producer of the transactional id left, and fences that producer
and every process that still writes under its epoch.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kpybroker.client.client import Client, Spot, raise_for
from kpybroker.client.group_requests import Commit
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kpywire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kpywire.messages.end_txn import EndTxnRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

ADD_BY_CLIENTS: Final = 3
"""The newest AddPartitionsToTxn for clients; later ones are for brokers."""
END_WITHOUT_BUMP: Final = 4
"""The newest EndTxn that leaves the epoch as it is."""
OFFSETS_ADDED: Final = 4
"""The newest TxnOffsetCommit for groups that were added to the transaction by a request."""
FENCED: Final = frozenset(
    (error_codes.PRODUCER_FENCED, error_codes.INVALID_PRODUCER_EPOCH, error_codes.INVALID_PRODUCER_ID_MAPPING)
)
NO_TIMEOUT_MS: Final = 0x7FFF_FFFF


class ProducerIdentity(NamedTuple):
    """The identity under which batches are written. Without a transactional id they belong to no transaction."""

    producer_id: int
    epoch: int
    transactional_id: str | None = None


def begin(client: Client, transactional_id: str | None, timeout_ms: int = NO_TIMEOUT_MS) -> ProducerIdentity:
    """A new identity. With a transactional id: abort what is open under it, and fence its earlier producers."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)

    def attempt() -> ProducerIdentity:
        if transactional_id is None:
            answer = client.call(request)
        else:
            answer = client.call_transaction_coordinator(transactional_id, request)
        if answer.error_code == error_codes.INVALID_TRANSACTION_TIMEOUT:
            reason = f"{timeout_ms} ms is more than the broker's transaction.max.timeout.ms"
            raise KafkaError(answer.error_code, f"transactional id {transactional_id}: {reason}")
        _raise_for(answer.error_code, transactional_id)
        return ProducerIdentity(answer.producer_id, answer.producer_epoch, transactional_id)

    return client.retrying(attempt)


def add_partitions(client: Client, identity: ProducerIdentity, spots: Iterable[Spot]) -> None:
    """Add partitions to the transaction, which this begins if it is not open yet."""
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for spot in sorted(spots):
        topics.setdefault(spot.topic, AddPartitionsToTxnTopic(name=spot.topic, partitions=[])).partitions.append(
            spot.partition
        )
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=_id_of(identity),
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=list(topics.values()),
    )

    def attempt() -> None:
        answer = _ask(client, identity, request, ADD_BY_CLIENTS)
        refused = [
            (part.partition_error_code, Spot(topic.name, part.partition_index))
            for topic in answer.results_by_topic_v3_and_below
            for part in topic.results_by_partition
            if part.partition_error_code
        ]
        # Partitions that are fine are refused with those that are not.
        for code, spot in sorted(refused, key=lambda each: each[0] == error_codes.OPERATION_NOT_ATTEMPTED):
            _raise_for(code, identity.transactional_id, f"partition {spot}")

    client.retrying(attempt)


def commit_offsets(client: Client, identity: ProducerIdentity, group: str, offsets: Mapping[Spot, Commit]) -> None:
    """Commit offsets of a group that has no members, together with the transaction."""
    adding = AddOffsetsToTxnRequest(
        transactional_id=_id_of(identity),
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        group_id=group,
    )
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for spot, commit in sorted(offsets.items()):
        topic = topics.setdefault(spot.topic, TxnOffsetCommitRequestTopic(name=spot.topic, partitions=[]))
        topic.partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=spot.partition,
                committed_offset=commit.offset,
                committed_leader_epoch=commit.leader_epoch,
                committed_metadata=commit.metadata,
            )
        )
    committing = TxnOffsetCommitRequest(
        transactional_id=_id_of(identity),
        group_id=group,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        topics=list(topics.values()),
    )

    def add() -> None:
        answer = _ask(client, identity, adding)
        _raise_for(answer.error_code, identity.transactional_id, f"group {group}")

    def commit_all() -> None:
        answer = client.call_coordinator(group, committing, newest=OFFSETS_ADDED)
        for topic in answer.topics:
            for part in topic.partitions:
                _raise_for(part.error_code, identity.transactional_id, f"group {group}")

    client.retrying(add)
    client.retrying(commit_all)


def end(client: Client, identity: ProducerIdentity, *, commits: bool) -> None:
    """Commit or abort the transaction. The outcome is unknown if this raises Unreachable or a retriable KafkaError."""
    request = EndTxnRequest(
        transactional_id=_id_of(identity),
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=commits,
    )

    def attempt() -> None:
        _raise_for(_ask(client, identity, request, END_WITHOUT_BUMP).error_code, identity.transactional_id)

    client.retrying(attempt)


def _ask(client: Client, identity: ProducerIdentity, request: Any, newest: int | None = None) -> Any:
    return client.call_transaction_coordinator(_id_of(identity), request, newest)


def _id_of(identity: ProducerIdentity) -> str:
    assert identity.transactional_id is not None
    return identity.transactional_id


def _raise_for(code: int, transactional_id: str | None, what: str = "") -> None:
    """Raise KafkaError if ``code`` is an error, in words that name the transactional id."""
    name = f"transactional id {transactional_id}" if transactional_id is not None else "producer id"
    if code in FENCED:
        reason = "another producer has taken it over, or its transaction was open longer than transaction.timeout.ms"
        raise KafkaError(code, f"{name}: {reason}")
    raise_for(code, f"{name}, {what}" if what else name)
