"""Transaction markers for partitions that other nodes lead: WriteTxnMarkers, many in one request. Nothing is retried.

(Kafka: ``TransactionMarkerChannelManager``, ``TransactionMarkerRequestCompletionHandler``.) One request at a time is
under way to each node; markers that come meanwhile go into the next request.

Invariant: ``done`` of every marker is called once, and not before `write` has returned, unless the node stops.
"""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.network.peer import NoResponse
from kpybroker.machines.partition.leader import Marker
from kpybroker.machines.transactions.events import Partition
from kpybroker.runtime.io.scheduler import Scheduler
from kpywire import error_codes
from kpywire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

log = logging.getLogger("kpybroker.hosting")

Done = Callable[[int], object]
"""A callback for the error code of one partition."""


class _WaitingMarker(NamedTuple):
    partition: Partition
    marker: Marker
    done: Done


class _Leader:
    """One other node, and the markers for the next request to it."""

    __slots__ = ("is_busy", "waiting")

    def __init__(self) -> None:
        self.waiting: list[_WaitingMarker] = []
        self.is_busy = False


class MarkersElsewhere:
    """The markers for all other nodes."""

    def __init__(self, scheduler: Scheduler, nodes: Nodes) -> None:
        self._scheduler = scheduler
        self._nodes = nodes
        self._leaders: dict[int, _Leader] = {}

    def write(self, node_id: int, partition: Partition, marker: Marker, done: Done) -> None:
        """Ask a node to end a transaction in a partition it leads.

        ``done`` gets the node's error code, or NETWORK_EXCEPTION if there is no answer.
        """
        leader = self._leaders.get(node_id)
        if leader is None:
            leader = self._leaders[node_id] = _Leader()
        leader.waiting.append(_WaitingMarker(partition, marker, done))
        if not leader.is_busy:
            leader.is_busy = True
            self._scheduler.call_soon(self._send, node_id)

    def stop(self) -> None:
        """Stop asking. Queued markers are not answered."""
        self._leaders.clear()

    def _send(self, node_id: int) -> None:
        leader = self._leaders.get(node_id)
        if leader is None:
            return
        asked, leader.waiting = leader.waiting, []
        if not asked:
            leader.is_busy = False
            return

        def answered(answer: WriteTxnMarkersResponse | NoResponse) -> None:
            try:
                _settle(asked, answer)
            finally:
                self._scheduler.call_soon(self._send, node_id)

        self._nodes.send(node_id, _request(asked), answered)


_NOT_ANSWERED = error_codes.UNKNOWN_SERVER_ERROR


def _settle(asked: Sequence[_WaitingMarker], answer: WriteTxnMarkersResponse | NoResponse) -> None:
    codes = {} if isinstance(answer, NoResponse) else _codes(answer)
    missing = error_codes.NETWORK_EXCEPTION if isinstance(answer, NoResponse) else _NOT_ANSWERED
    for each in asked:
        try:
            each.done(codes.get((each.marker.producer_id, each.partition), missing))
        except Exception:
            log.exception(
                "The answer to the marker for %s-%d could not be handled because of a defect", *each.partition
            )


def _request(asked: Sequence[_WaitingMarker]) -> WriteTxnMarkersRequest:
    by_marker: dict[Marker, dict[str, list[int]]] = {}
    for (topic, index), marker, _ in asked:
        by_marker.setdefault(marker, {}).setdefault(topic, []).append(index)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.commit,
                topics=[WritableTxnMarkerTopic(name=name, partition_indexes=part) for name, part in topics.items()],
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
            for marker, topics in by_marker.items()
        ]
    )


def _codes(answer: WriteTxnMarkersResponse) -> dict[tuple[int, Partition], int]:
    return {
        (result.producer_id, (topic.name, each.partition_index)): each.error_code
        for result in answer.markers
        for topic in result.topics
        for each in topic.partitions
    }
