"""Asks the coordinators of other nodes about transactions, before records of them are accepted here (KIP-890).

(Kafka: ``AddPartitionsToTxnManager``.) One request at a time is under way to each node; questions that come meanwhile
go into the next request. There is no retry: the producer retries.

Invariant: ``done`` of every question is called once, unless the node stops.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from kpybroker.hosts.coordinators.placement import partition_for
from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.network.peer import NoResponse
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.topic_name import TRANSACTION_STATE_TOPIC
from kpybroker.runtime.io.scheduler import Scheduler
from kpywire import error_codes
from kpywire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)

log = logging.getLogger("kpybroker.hosting")

Done = Callable[["AddPartitionsToTxnResult | int"], object]
"""A callback for the coordinator's answer about a transaction, or for one error code for all of its partitions."""


class _TransactionQuestion(NamedTuple):
    transaction: AddPartitionsToTxnTransaction
    done: Done


class _Coordinator:
    """One other node, and the questions for the next request to it, by transactional id."""

    __slots__ = ("is_busy", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[str, _TransactionQuestion] = {}
        self.is_busy = False


class TransactionsElsewhere:
    """The questions for all other coordinators."""

    def __init__(self, node_id: int, scheduler: Scheduler, image: Callable[[], MetadataImage], nodes: Nodes) -> None:
        self._node_id = node_id
        self._scheduler = scheduler
        self._image = image
        self._nodes = nodes
        self._coordinators: dict[int, _Coordinator] = {}

    def coordinator(self, transactional_id: str) -> int | None:
        """The other node that coordinates this transaction; -1 if there is none, None if this node has to answer."""
        topic = self._image().topics.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        return None if leader == self._node_id else leader

    def ask(self, node_id: int, transaction: AddPartitionsToTxnTransaction, done: Done) -> None:
        """Ask the coordinator at ``node_id`` to add partitions to a transaction, or to verify them.

        Error codes in addition to the coordinator's own: COORDINATOR_NOT_AVAILABLE if there is no coordinator,
        NETWORK_EXCEPTION if it cannot be reached, NONE if it is too old to be asked. Of two queued questions about one
        transaction, the one with the lower epoch gets INVALID_PRODUCER_EPOCH; with equal epochs the earlier one gets
        NETWORK_EXCEPTION.
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
        coordinator.waiting[transaction.transactional_id] = _TransactionQuestion(transaction, done)
        if not coordinator.is_busy:
            coordinator.is_busy = True
            self._scheduler.call_soon(self._send, node_id)

    def stop(self) -> None:
        """Stop asking. Queued questions are not answered."""
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

        def answered(answer: AddPartitionsToTxnResponse | NoResponse) -> None:
            try:
                _settle(asked, answer)
            finally:
                self._scheduler.call_soon(self._send, node_id)

        self._nodes.send(node_id, request, answered)


def _settle(asked: dict[str, _TransactionQuestion], answer: AddPartitionsToTxnResponse | NoResponse) -> None:
    if isinstance(answer, NoResponse):
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


def _tell(question: _TransactionQuestion, answer: AddPartitionsToTxnResult | int) -> None:
    try:
        question.done(answer)
    except Exception:
        log.exception(
            "The answer about transaction %s could not be handled because of a defect",
            question.transaction.transactional_id,
        )
