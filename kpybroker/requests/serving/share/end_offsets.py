"""The ends of partitions, led here or elsewhere, for the lag of share groups (Kafka: ``PartitionMetadataClient``)."""

from collections.abc import Collection
from typing import Any, NamedTuple

from kpybroker.hosts.network.peer import NoResponse
from kpybroker.machines.partition.role import READ_UNCOMMITTED
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.led_partitions import ask_leader
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import STEP_ELEMENTS, Work
from kpywire import error_codes
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST = -1
CONSUMER = -1

NamedPartition = tuple[str, int]


class EndOffset(NamedTuple):
    """The high watermark of a partition, or the error why it is not known."""

    offset: int
    error_code: int = error_codes.NONE


def end_offsets(broker: Context, partitions: Collection[NamedPartition]) -> Work:
    """Return the ends of all these partitions, in steps."""
    found: dict[NamedPartition, EndOffset] = {}
    elsewhere: dict[int, list[NamedPartition]] = {}
    for nth, partition in enumerate(partitions, 1):
        if nth % STEP_ELEMENTS == 0:
            yield None
        leader = _leader(broker, partition)
        if leader == broker.node_id:
            found[partition] = ask_leader(
                broker,
                *partition,
                lambda _replica, role: EndOffset(role.high_watermark.offset),
                lambda code, _text: EndOffset(-1, code),
            )
        elif leader < 0:
            found[partition] = EndOffset(-1, error_codes.LEADER_NOT_AVAILABLE)
        else:
            elsewhere.setdefault(leader, []).append(partition)
    asked = [_ask(broker, node_id, some) for node_id, some in elsewhere.items()]
    for answer in asked:
        found.update(answer.response if answer.resolved else (yield answer))
    return found


def _leader(broker: Context, partition: NamedPartition) -> int:
    topic = broker.image.topics.get(partition[0])
    known = None if topic is None else topic.partitions.get(partition[1])
    return -1 if known is None else known.leader


def _ask(broker: Context, node_id: int, some: list[NamedPartition]) -> Pending:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for name, index in some:
        topics.setdefault(name, []).append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
    request = ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=READ_UNCOMMITTED,
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
    pending = Pending()

    def answered(response: Any) -> None:
        found = dict.fromkeys(some, EndOffset(-1, error_codes.NETWORK_EXCEPTION))
        if not isinstance(response, NoResponse):
            for topic in response.topics:
                for each in topic.partitions:
                    found[topic.name, each.partition_index] = EndOffset(each.offset, each.error_code)
        pending.resolve(found)

    broker.nodes.send(node_id, request, answered)
    return pending
