"""The requests of ``kpybroker topics reassign``: replicas spread over brokers, and how far they are."""

from collections.abc import Iterable, Mapping, Sequence

from kpybroker.client.client import Client, raise_for
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kpywire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kpywire.messages.metadata import MetadataResponseTopic

WAIT_S = 60.0
Assignment = Mapping[int, Sequence[int]]
"""The replicas of each partition; the first is the preferred leader."""


def spread(
    topics: Iterable[MetadataResponseTopic], brokers: Sequence[int], replicas: int | None
) -> dict[str, dict[int, list[int]]]:
    """Each partition begins with the broker after that of the partition before, so leaders are spread evenly.

    Without ``replicas`` every partition keeps its number of them. There may not be more than brokers.
    """
    found: dict[str, dict[int, list[int]]] = {}
    first = 0
    for topic in topics:
        assignment = found[topic.name or ""] = {}
        for partition in topic.partitions:
            count = replicas or len(partition.replica_nodes)
            assignment[partition.partition_index] = [brokers[(first + n) % len(brokers)] for n in range(count)]
            first += 1
    return found


def reassign(client: Client, wanted: Mapping[str, Assignment]) -> None:
    """Ask for these replicas; the controller moves them from now on. Raises KafkaError for the first refusal."""
    topics = [
        ReassignableTopic(
            name=name,
            partitions=[
                ReassignablePartition(partition_index=index, replicas=list(brokers))
                for index, brokers in assignment.items()
            ],
        )
        for name, assignment in wanted.items()
    ]
    answer = client.call(AlterPartitionReassignmentsRequest(topics=topics), wait_s=WAIT_S)
    raise_for(answer.error_code, "cannot reassign", answer.error_message)
    for topic in answer.responses:
        for each in topic.partitions:
            raise_for(each.error_code, f"partition {topic.name}-{each.partition_index}", each.error_message)


def unfinished(client: Client, wanted: Mapping[str, Assignment]) -> int:
    """The number of these partitions that still move. Raises KafkaError."""
    asked = [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=list(assignment))
        for name, assignment in wanted.items()
    ]
    answer = client.call(ListPartitionReassignmentsRequest(topics=asked), wait_s=WAIT_S)
    raise_for(answer.error_code, "cannot list reassignments", answer.error_message)
    return sum(len(topic.partitions) for topic in answer.topics)
