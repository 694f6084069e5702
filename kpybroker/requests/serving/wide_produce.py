"""Produce requests to many partitions: everything about them is done for a few partitions at a time. Not a handler.

The pieces are decided in order, and each reads everything about its partitions again. A transaction is verified first,
for all partitions; what was verified is kept by the leaders of the partitions until they append
(`kpybroker.machines.partition.verification`), so a transaction that ends meanwhile gets no more records.

Invariant: the answer is that of the same request served at once.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, NamedTuple

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.transactions.events import Partition
from kpybroker.requests.serving import unopened_logs
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.repeated_partitions import Overruled, one_of_each_in_steps
from kpybroker.requests.serving.transaction_verification import (
    Batches,
    Errors,
    PartitionToVerify,
    Verifying,
    is_known,
    operation_of,
    refusal_of_a_produce,
    transactional_batches,
)
from kpybroker.requests.serving.transactional_batches import denied_whole, writes_into_transaction
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.close_connection import CloseConnection
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import STEP_ELEMENTS, Work, all_there
from kpywire import error_codes
from kpywire.produce import Answers, Partitions, Produce, TopicKey
from kpywire.produce_hints import HintedAnswers

VERIFIED_AT_ONCE: Final = 256
"""The partitions that one question to the coordinator of a transaction names."""

Piece = tuple[TopicKey, Partitions]


class Whole(NamedTuple):
    """The facts about the whole request that each piece needs."""

    overruled: Overruled
    refused: dict[Partition, KafkaError] | None
    """The partitions that the transaction may not write to; None without a transaction."""
    in_transaction: bool
    """Whether a batch of the request writes into a transaction."""


Append = Callable[[Piece, Whole], Answers | Pending | None]


def append(broker: Context, request: Produce, call: Call, append_piece: Append) -> Work:
    """Append to a few partitions at a time. Return the answer to the request; None if there is none.

    The records must lie in a buffer that nobody else receives into.
    """
    topics, overruled = yield from one_of_each_in_steps(request.topics, call.api_version)
    pieces = yield from _pieces(topics)
    if request.transactional_id is None and (yield from _any_in_transaction(pieces)):
        return (yield from _denied(call, request.acks, pieces))
    turned = Pending()
    broker.scheduler.call_soon(turned.resolve, None)
    yield turned  # the turn that it came in writes its appends together, and this one takes several
    whole = Whole(overruled, None, in_transaction=False)
    if request.transactional_id is not None:
        refused = yield from _verified(broker, request.transactional_id, call, pieces)
        whole = Whole(overruled, refused, in_transaction=refused is not None)
    answers: list[Answers | Pending | None] = []
    why_closed: CloseConnection | None = None
    for piece in pieces:
        try:
            answers.append(append_piece(piece, whole))
        except CloseConnection as why:
            why_closed = why_closed or why
        yield None
    if why_closed is not None:
        call.peer.give_up(str(why_closed))
        return None
    if request.acks == 0:
        return None
    return (yield from _merged((yield from all_there(answers))))


def _pieces(topics: Sequence[tuple[TopicKey, Partitions]]) -> Generator[None, None, list[Piece]]:
    pieces: list[Piece] = []
    for key, parts in topics:
        for first in range(0, len(parts), unopened_logs.FEW):
            pieces.append((key, parts[first : first + unopened_logs.FEW]))
            if len(pieces) % STEP_ELEMENTS == 0:
                yield
    return pieces


def _any_in_transaction(pieces: Sequence[Piece]) -> Generator[None, None, bool]:
    for piece in pieces:
        yield
        if writes_into_transaction((piece,)):
            return True
    return False


def _denied(call: Call, acks: int, pieces: Sequence[Piece]) -> Generator[None, None, Answers]:
    denied: list[Answers] = []
    for piece in pieces:
        denied.append(denied_whole(call, acks, (piece,)))
        yield
    return (yield from _merged(denied))


def _verified(
    broker: Context, transactional_id: str, call: Call, pieces: Sequence[Piece]
) -> Generator[Pending | None, Any, dict[Partition, KafkaError] | None]:
    """Verify that the partitions belong to the transaction, and return the refusals of those that do not; None if no
    batch writes into it."""
    wanted: list[PartitionToVerify] = []
    producers: set[tuple[int, int]] = set()
    for piece in pieces:
        found = transactional_batches(broker, (piece,), call.api_version)
        wanted += found.wanted
        producers |= found.producers
        yield None
    operation = operation_of(call.api_version)
    refused: dict[Partition, KafkaError] = {}
    for start in range(0, len(wanted), VERIFIED_AT_ONCE):
        some = wanted[start : start + VERIFIED_AT_ONCE]
        errors: Errors = {}
        if len(producers) > 1:
            errors = {(each.topic, each.partition): error_codes.INVALID_PRODUCER_ID_MAPPING for each in some}
        elif not is_known(broker, transactional_id, Batches(some, producers), operation):
            pending = Pending()
            producer_id, producer_epoch = next(iter(producers))
            Verifying(broker, transactional_id, producer_id, producer_epoch, some, operation, pending.resolve).ask()
            errors = pending.response if pending.resolved else (yield pending)
        for key in errors:
            refused[key] = refusal_of_a_produce(errors[key], operation)
        yield None
    return refused if wanted else None


def _merged(pieces: Sequence[Answers]) -> Generator[None, None, Answers]:
    """The answers of all pieces, merged into one."""
    merged: dict[TopicKey, list[bytes]] = {}
    nodes: dict[int, Any] = {}
    for nth, piece in enumerate(pieces, 1):
        if nth % STEP_ELEMENTS == 0:
            yield
        for key, answers in piece:
            merged.setdefault(key, []).extend(answers)
        if isinstance(piece, HintedAnswers):
            nodes.update({node.node_id: node for node in piece.node_endpoints})
    return HintedAnswers(list(merged.items()), list(nodes.values()))
