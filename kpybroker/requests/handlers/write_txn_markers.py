"""WriteTxnMarkers (27), versions 1-2: end transactions in partitions that this node leads.

- Sent by a transaction coordinator, or by an administrator to end a hanging transaction (KIP-664).
- v2: the transaction's version. From 2 on, the marker's epoch must be above the producer's (KIP-1228).
- An impossible producer (a negative id or epoch) is UNKNOWN_SERVER_ERROR, as in Kafka.
- A partition that is not on this node is UNKNOWN_TOPIC_OR_PARTITION. INVALID_PRODUCER_EPOCH means that the producer has
  a newer epoch, TRANSACTION_COORDINATOR_FENCED that the coordinator has.
"""

from collections.abc import Generator
from typing import Any

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.leader import Marker
from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.deferred import Deferred
from kpywire import error_codes
from kpywire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def handle(broker: Context, request: WriteTxnMarkersRequest, _call: Call) -> Generator[None, None, Any]:
    """Write each marker to each of its partitions. Answer when all are committed or refused."""
    writing = _Writing(broker)
    for marker in request.markers:
        yield from writing.write(marker)
    writing.all_begun()
    return writing.answer.response


class _Writing:
    """The markers of one request. ``_results`` are kept as Kafka keeps them: by producer, topic and partition."""

    def __init__(self, broker: Context) -> None:
        self.answer = Deferred()
        self._broker = broker
        self._timeout_ms = int(broker.config["request.timeout.ms"])
        self._missing = 1
        self._results: dict[int, dict[str, dict[int, WritableTxnMarkerPartitionResult]]] = {}

    def write(self, wanted: WritableTxnMarker) -> Generator[None, None, None]:
        """Begin to write one marker. Its results are filled in later. A marker without partitions is not answered."""
        marker = Marker(
            wanted.producer_id,
            wanted.producer_epoch,
            wanted.transaction_result,
            wanted.coordinator_epoch,
            wanted.transaction_version,
        )
        each_once = {(topic.name, index): None for topic in wanted.topics for index in topic.partition_indexes}
        for name, index in each_once:
            result = WritableTxnMarkerPartitionResult(partition_index=index, error_code=error_codes.NONE)
            self._results.setdefault(wanted.producer_id, {}).setdefault(name, {})[index] = result
            self._begin(name, result, marker)
            yield

    def _begin(self, topic: str, result: WritableTxnMarkerPartitionResult, marker: Marker) -> None:
        def done(code: int) -> None:
            result.error_code = code
            self._one_is_done()

        self._missing += 1
        if not _is_online(self._broker, topic, result.partition_index):
            done(error_codes.UNKNOWN_TOPIC_OR_PARTITION)
        elif marker.producer_id < 0 or marker.producer_epoch < 0:
            done(error_codes.UNKNOWN_SERVER_ERROR)
        else:
            outcome = self._broker.markers.write(topic, result.partition_index, marker)
            if isinstance(outcome, int):
                done(outcome)
            else:
                outcome.wait(self._timeout_ms, done)

    def all_begun(self) -> None:
        """Note that all markers are begun: the answer is sent when the last one is done."""
        self._one_is_done()

    def _one_is_done(self) -> None:
        self._missing -= 1
        if not self._missing:
            self.answer.deliver(self._response())

    def _response(self) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(name=name, partitions=list(partitions.values()))
                        for name, partitions in topics.items()
                    ],
                )
                for producer_id, topics in self._results.items()
            ]
        )


def _is_online(broker: Context, topic: str, index: int) -> bool:
    """Whether this node has the partition, and its log directory is online."""
    try:
        return not broker.replicas.find(topic, index).offline
    except KafkaError:
        return False
