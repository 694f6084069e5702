"""Appending a batch to a partition of ``__remote_log_metadata`` with ``acks=all``: here, or at its leader.

Kafka's brokers produce to it, too (``ProducerManager``), so a batch is checked like that of any client. ``done`` gets
the error code: NONE says only that the leader has appended the batch; that it is committed is seen by reading it.
"""

from collections.abc import Callable
from typing import Final

from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.network.peer import NoResponse
from kpybroker.hosts.replicas import own_batches
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.metadata.topic import Topic
from kpybroker.runtime.io.scheduler import Scheduler
from kpywire import error_codes
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

ACKS_ALL: Final = -1
TIMEOUT_MS: Final = 30_000
Done = Callable[[int], object]


class MetadataAppends:
    """The ways to append of one node."""

    def __init__(self, node_id: int, scheduler: Scheduler, replicas: Replicas, nodes: Nodes) -> None:
        """Nothing else is asked over these ``nodes``: an answer waits for the followers."""
        self._node_id = node_id
        self._scheduler = scheduler
        self._replicas = replicas
        self._nodes = nodes

    def append(self, topic: Topic, index: int, batch: bytes, done: Done) -> None:
        """Append a batch at the leader that the metadata name."""
        leader = topic.partitions[index].leader
        if leader == self._node_id:
            appended = own_batches.append(self._replicas, topic.id, index, batch, self._scheduler.now_ms())
            done(appended if isinstance(appended, int) else error_codes.NONE)
        elif leader < 0:
            done(error_codes.LEADER_NOT_AVAILABLE)
        else:
            self._nodes.send(leader, _request(topic, index, batch), lambda response: done(_code(response)))


def _request(topic: Topic, index: int, batch: bytes) -> ProduceRequest:
    partition = PartitionProduceData(index=index, records=batch)
    data = TopicProduceData(name=topic.name, topic_id=topic.id, partition_data=[partition])
    return ProduceRequest(acks=ACKS_ALL, timeout_ms=TIMEOUT_MS, topic_data=[data])


def _code(response: ProduceResponse | NoResponse) -> int:
    if isinstance(response, NoResponse):
        return error_codes.NETWORK_EXCEPTION
    codes = [each.error_code for topic in response.responses for each in topic.partition_responses]
    return codes[0] if codes else error_codes.UNKNOWN_SERVER_ERROR
