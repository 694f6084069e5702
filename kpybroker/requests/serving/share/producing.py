"""A batch that this node itself produces with ``acks=all`` to the leader of a partition: this node, or another one.

(Kafka sends such requests over the network in both cases.) With an authorizer this node does so too: its principal at
brokers needs WRITE. The connection is one of its own, since the answer may take as long as the followers need.

Invariant: ``done`` is called once with the error code, unless the node stops.
"""

from collections.abc import Callable
from typing import Any, Final

from kpybroker.hosts.network.peer import NoResponse
from kpybroker.hosts.replicas import own_batches
from kpybroker.hosts.replicas.commit_wait import CommitWait, UncommittedBatch
from kpybroker.machines.metadata.topic import Topic
from kpybroker.requests.serving.context import Context
from kpywire import error_codes
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ACKS_ALL: Final = -1
TIMEOUT_MS: Final = 30_000
Done = Callable[[int], object]


def produce(broker: Context, topic: Topic, index: int, batch: bytes, done: Done) -> None:
    """Produce a batch, and report the error code."""
    leader = topic.partitions[index].leader
    if leader == broker.node_id and broker.authorizer is None:
        _append(broker, topic.name, index, batch, done)
        return
    part = TopicProduceData(
        name=topic.name, topic_id=topic.id, partition_data=[PartitionProduceData(index=index, records=batch)]
    )
    request = ProduceRequest(acks=ACKS_ALL, timeout_ms=TIMEOUT_MS, topic_data=[part])

    def answered(response: Any) -> None:
        code = error_codes.NETWORK_EXCEPTION
        if not isinstance(response, NoResponse):
            codes = [each.error_code for topic in response.responses for each in topic.partition_responses]
            code = codes[0] if codes else error_codes.UNKNOWN_SERVER_ERROR
        done(code)

    broker.nodes.ask_once(leader, request, answered)


def _append(broker: Context, name: str, index: int, batch: bytes, done: Done) -> None:
    """Append to a log of this node, and wait until it is committed."""
    appended = own_batches.append(broker.replicas, name, index, batch, broker.scheduler.now_ms())
    if isinstance(appended, int):
        done(appended)
        return
    replica, leader, next_offset = appended
    if next_offset <= leader.high_watermark.offset:
        done(error_codes.NONE)
        return
    codes = [_encoded(error_codes.NONE)]
    waits_for = UncommittedBatch(replica, leader.term, next_offset, index, codes, 0)
    wait = CommitWait(broker.scheduler, [(name, codes)], [waits_for], lambda _each, code: _encoded(code), TIMEOUT_MS)

    def decided(_answers: Any) -> None:
        done(int.from_bytes(codes[0], signed=True))

    wait.pending.when_resolved(decided)


def _encoded(code: int) -> bytes:
    return code.to_bytes(2, signed=True)
