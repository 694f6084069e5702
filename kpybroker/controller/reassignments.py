"""Which partitions are moving between brokers (KIP-455; Kafka's ``listPartitionReassignments``). Reads only."""

from collections.abc import Iterable

from kpybroker.controller.state import ControllerRequest, ControllerState, Steps
from kpybroker.metadata.topic import Topic
from kpywire import error_codes
from kpywire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def list_partition_reassignments(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Steps:
    """Those of the partitions asked for that are moving; of all partitions if none is named."""
    message: ListPartitionReassignmentsRequest = request.message
    topics = state.image.topics
    wanted: Iterable[tuple[str, Iterable[int]]] = (
        [(topic.name, topic.partitions) for topic in topics.values()]
        if message.topics is None
        else [(asked.name, asked.partition_indexes) for asked in message.topics]
    )
    found = []
    for name, indexes in wanted:
        yield
        if name in topics:
            found.append(_moving(topics[name], indexes))
    return [], ListPartitionReassignmentsResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        error_message=None,
        topics=[topic for topic in found if topic.partitions],
    )


def _moving(topic: Topic, wanted: Iterable[int]) -> OngoingTopicReassignment:
    return OngoingTopicReassignment(
        name=topic.name,
        partitions=[
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for index in dict.fromkeys(wanted)
            if (partition := topic.partitions.get(index)) is not None
            and (partition.adding_replicas or partition.removing_replicas)
        ],
    )
