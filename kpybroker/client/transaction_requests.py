"""The requests of ``kpybroker transactions``: list, describe, abort, find the hanging ones (KIP-664).

A transaction hangs in a partition if its producer has a transaction open there and no coordinator knows of it: then no
marker will ever end it, and ``read_committed`` consumers wait before it. Raises KafkaError, Unreachable.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from kpybroker.client.client import TRANSACTION, Client, Spot, raise_for
from kpybroker.client.config_requests import ConfigResource, ConfigResourceType
from kpybroker.client.config_requests import describe as describe_configs
from kpybroker.client.producer_requests import RememberedProducer, producers
from kpybroker.client.transactions import begin
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.names_nearby import nearby
from kpywire import error_codes
from kpywire.messages.describe_transactions import DescribeTransactionsRequest
from kpywire.messages.list_transactions import ListTransactionsRequest
from kpywire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

ONGOING: Final = "Ongoing"
STATES: Final = (
    "Empty",
    ONGOING,
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
OPEN: Final = frozenset((ONGOING, "PrepareCommit", "PrepareAbort", "PrepareEpochFence"))
LONGEST: Final = "transaction.max.timeout.ms"


class ListedTransaction(NamedTuple):
    """A transactional id with its state, and the broker that coordinates it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class TransactionFilter(NamedTuple):
    """The transactions to list. The default is all."""

    states: Sequence[str] = ()
    producer_ids: Sequence[int] = ()
    older_than_ms: int | None = None
    """Only open ones that began longer ago (KIP-994)."""
    id_pattern: str | None = None
    """A regular expression of transactional ids (KIP-1152)."""


class DescribedTransaction(NamedTuple):
    """The last transaction of a transactional id. ``started_ms`` is None where none is open."""

    transactional_id: str
    coordinator: int
    producer_id: int
    epoch: int
    state: str
    timeout_ms: int
    started_ms: int | None
    spots: tuple[Spot, ...]
    """The partitions that still wait for their markers."""


class HangingTransaction(NamedTuple):
    """An open transaction that no coordinator will end, and the reason in words."""

    producer: RememberedProducer
    reason: str


def transactions(client: Client, wanted: TransactionFilter | None = None) -> list[ListedTransaction]:
    """The transactions of all coordinators, by transactional id. Raises KafkaError."""
    chosen = wanted or TransactionFilter()
    request = ListTransactionsRequest(
        state_filters=list(chosen.states),
        producer_id_filters=list(chosen.producer_ids),
        duration_filter=-1 if chosen.older_than_ms is None else chosen.older_than_ms,
        transactional_id_pattern=chosen.id_pattern,
    )

    def of_node(node_id: int) -> list[ListedTransaction]:
        answer = client.call_node(node_id, request)
        raise_for(answer.error_code, "transactions")
        for state in answer.unknown_state_filters:
            text = f"there is no state {state} of a transaction{nearby(STATES, state)}"
            raise KafkaError(error_codes.INVALID_REQUEST, text)
        return [
            ListedTransaction(each.transactional_id, node_id, each.producer_id, each.transaction_state)
            for each in answer.transaction_states
            if chosen.older_than_ms is None or each.transaction_state in OPEN  # Kafka also lists ended ones
        ]

    nodes = [node.node_id for node in client.nodes()]
    return sorted(each for node_id in nodes for each in client.retrying(partial(of_node, node_id)))


def describe(client: Client, transactional_id: str) -> DescribedTransaction:
    """The transaction of a transactional id. TRANSACTIONAL_ID_NOT_FOUND if its coordinator knows none."""

    def attempt() -> DescribedTransaction:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        (found,) = client.call_transaction_coordinator(transactional_id, request).transaction_states
        if found.error_code == error_codes.TRANSACTIONAL_ID_NOT_FOUND:
            raise KafkaError(found.error_code, f"transactional id {transactional_id} does not exist")
        raise_for(found.error_code, f"transactional id {transactional_id}")
        started_ms = found.transaction_start_time_ms
        return DescribedTransaction(
            transactional_id,
            client.coordinator(transactional_id, TRANSACTION),
            found.producer_id,
            found.producer_epoch,
            found.transaction_state,
            found.transaction_timeout_ms,
            started_ms if started_ms >= 0 else None,
            tuple(sorted(Spot(topic.topic, index) for topic in found.topics for index in topic.partitions)),
        )

    return client.retrying(attempt)


def abort(client: Client, transactional_id: str) -> None:
    """Abort the open transaction of a transactional id, and fence its producer. INVALID_TXN_STATE if none is open."""
    found = describe(client, transactional_id)
    if found.state != ONGOING:
        text = f"transactional id {transactional_id} has no open transaction, its state is {found.state}"
        raise KafkaError(error_codes.INVALID_TXN_STATE, text)
    begin(client, transactional_id, found.timeout_ms)


def open_at(client: Client, spot: Spot, start_offset: int) -> RememberedProducer:
    """The producer whose transaction in a partition begins at this offset. INVALID_TXN_STATE if there is none."""
    found = [each for each in producers(client, [spot]) if each.open_since_offset is not None]
    for each in found:
        if each.open_since_offset == start_offset:
            return each
    others = ", ".join(str(each.open_since_offset) for each in found)
    known = f"those that are open begin at {others}" if others else "none is open"
    text = f"partition {spot} has no open transaction that begins at offset {start_offset}; {known}"
    raise KafkaError(error_codes.INVALID_TXN_STATE, text)


def abort_in(client: Client, spot: Spot, producer_id: int, epoch: int, coordinator_epoch: int | None) -> None:
    """Write the marker that aborts a producer's transaction in one partition: no coordinator takes part."""
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=spot.topic, partition_indexes=[spot.partition])],
        coordinator_epoch=coordinator_epoch or 0,  # none has ended a transaction of this producer there
    )

    def attempt() -> None:
        answer = client.call_node(client.leader(spot), WriteTxnMarkersRequest(markers=[marker]))
        for each in answer.markers:
            for topic in each.topics:
                for part in topic.partitions:
                    raise_for(part.error_code, f"partition {spot}, producer id {producer_id}")

    client.retrying(attempt)


def longest_timeout_ms(client: Client) -> int:
    """The longest transaction that any broker allows. Raises KafkaError."""
    found = [
        int(each.value)
        for node in client.nodes()
        for each in describe_configs(client, ConfigResource(ConfigResourceType.BROKER, str(node.node_id)), [LONGEST])
        if each.value
    ]
    return max(found)


def hanging(client: Client, spots: Iterable[Spot], older_than_ms: int, now_ms: int) -> list[HangingTransaction]:
    """The hanging transactions of partitions that were written to last this long ago. Raises KafkaError."""
    wanted = list(spots)
    old = [each for each in producers(client, wanted) if _is_old(each, now_ms - older_than_ms)]
    if not old:
        return []
    of_producers = {
        each.producer_id: each.transactional_id
        for each in transactions(client, TransactionFilter(producer_ids=sorted({each.producer_id for each in old})))
    }
    known = {each: _described(client, each) for each in sorted(set(of_producers.values()))}
    # A transaction that has ended meanwhile is open no more.
    still = {each[:3] + each[-1:] for each in producers(client, {each.spot for each in old})}
    reasons = ((each, _reason(each, of_producers, known)) for each in old if each[:3] + each[-1:] in still)
    return [HangingTransaction(each, reason) for each, reason in reasons if reason is not None]


def _is_old(producer: RememberedProducer, before_ms: int) -> bool:
    return producer.open_since_offset is not None and (producer.last_write_ms or 0) <= before_ms


def _described(client: Client, transactional_id: str) -> DescribedTransaction | None:
    try:
        return describe(client, transactional_id)
    except KafkaError as error:
        if error.code != error_codes.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        return None


def _reason(
    producer: RememberedProducer,
    of_producers: Mapping[int, str],
    known: Mapping[str, DescribedTransaction | None],
) -> str | None:
    """The reason why no coordinator will end this transaction; None if one will."""
    transactional_id = of_producers.get(producer.producer_id)
    if transactional_id is None:
        return "no transactional id has this producer id"
    found = known[transactional_id]
    if found is None:
        return f"transactional id {transactional_id} is gone"
    if producer.spot in found.spots:
        return None
    return f"the transaction of {transactional_id} is {found.state}, without this partition"
