"""Asks the coordinators of other nodes about transactions, before records of them are taken here (KIP-890).

(Kafka: ``AddPartitionsToTxnManager``.) One request is under way to each node; what is asked meanwhile goes with the
next. There is no retry: the producer has one.

Invariant: ``done`` of every question is called once, unless the node stops.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from kpybroker.hosting.placement import partition_for
from kpybroker.io.scheduler import Scheduler
from kpybroker.metadata.image import MetadataImage
from kpybroker.metadata.topic_name import TRANSACTION_STATE_TOPIC
from kpybroker.network.nodes import Nodes
from kpybroker.network.peer import Unanswered
from kpywire import error_codes
from kpywire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)

log = logging.getLogger("kpybroker.hosting")

Done = Callable[["AddPartitionsToTxnResult | int"], object]
"""Takes what the coordinator says of a transaction, or one error code for all of its partitions."""


class _Question(NamedTuple):
    transaction: AddPartitionsToTxnTransaction
    done: Done


class _Coordinator:
    """One other node: what it is to be asked next, by transactional id."""

    __slots__ = ("is_busy", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[str, _Question] = {}
        self.is_busy = False


class TransactionsElsewhere:
    """The coordinators that are not here."""

    def __init__(self, node_id: int, scheduler: Scheduler, image: Callable[[], MetadataImage], nodes: Nodes) -> None:
        self._node_id = node_id
        self._scheduler = scheduler
        self._image = image
        self._nodes = nodes
        self._coordinators: dict[int, _Coordinator] = {}

    def coordinator(self, transactional_id: str) -> int | None:
        """The other node that coordinates this transaction; -1 for none, None where that is this node's affair."""
        topic = self._image().topics.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        return None if leader == self._node_id else leader

    def ask(self, node_id: int, transaction: AddPartitionsToTxnTransaction, done: Done) -> None:
        """Have partitions added to a transaction or looked up in it by its coordinator, at ``node_id``.

        Error codes besides the coordinator's own: COORDINATOR_NOT_AVAILABLE where there is none, NETWORK_EXCEPTION
        where it cannot be reached, NONE where it is too old to be asked; INVALID_PRODUCER_EPOCH, of two that ask for
        one transaction, for the older.
        """
        if node_id < 0:
            done(error_codes.COORDINATOR_NOT_AVAILABLE)
            return
        coordinator = self._coordinators.get(node_id)
        if coordinator is None:
            coordinator = self._coordinators[node_id] = _Coordinator()
        before = coordinator.waiting.get(transaction.transactional_id)
        if before is not None:
            if before.transaction.producer_epoch > transaction.producer_epoch:
                done(error_codes.INVALID_PRODUCER_EPOCH)
                return
            # Of the same epoch: the client has lost its connection and tries again.
            same = before.transaction.producer_epoch == transaction.producer_epoch
            _tell(before, error_codes.NETWORK_EXCEPTION if same else error_codes.INVALID_PRODUCER_EPOCH)
        coordinator.waiting[transaction.transactional_id] = _Question(transaction, done)
        if not coordinator.is_busy:
            coordinator.is_busy = True
            self._scheduler.call_soon(self._send, node_id)

    def stop(self) -> None:
        """Ask nobody any more; what waits is not answered."""
        self._coordinators.clear()

    def _send(self, node_id: int) -> None:
        coordinator = self._coordinators.get(node_id)
        if coordinator is None:
            return
        asked, coordinator.waiting = coordinator.waiting, {}
        if not asked:
            coordinator.is_busy = False
            return
        request = AddPartitionsToTxnRequest(transactions=[question.transaction for question in asked.values()])

        def answered(answer: AddPartitionsToTxnResponse | Unanswered) -> None:
            try:
                _settle(asked, answer)
            finally:
                self._scheduler.call_soon(self._send, node_id)

        self._nodes.send(node_id, request, answered)


def _settle(asked: dict[str, _Question], answer: AddPartitionsToTxnResponse | Unanswered) -> None:
    if isinstance(answer, Unanswered):
        code = error_codes.NONE if answer.is_refused else error_codes.NETWORK_EXCEPTION
        for question in asked.values():
            _tell(question, code)
        return
    results = {result.transactional_id: result for result in answer.results_by_transaction}
    code = answer.error_code or error_codes.UNKNOWN_SERVER_ERROR
    if code == error_codes.CLUSTER_AUTHORIZATION_FAILED:  # this node's, which the producer can do nothing about
        code = error_codes.INVALID_TXN_STATE
    for transactional_id, question in asked.items():
        _tell(question, results.get(transactional_id, code))


def _tell(question: _Question, answer: AddPartitionsToTxnResult | int) -> None:
    try:
        question.done(answer)
    except Exception:
        log.exception("an answer about transaction %s is lost", question.transaction.transactional_id)
