"""The requests of ``kpybroker topics reassign``: replicas spread over brokers, and how far they are."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kpybroker.client.client import Client, Spot, raise_for
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


class MovingPartition(NamedTuple):
    """A partition whose replicas move: all that it has now, those of them that come, and those that go."""

    spot: Spot
    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]


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


def reassign(client: Client, wanted: Mapping[str, Mapping[int, Sequence[int] | None]]) -> None:
    """Ask for these replicas; the controller moves them from now on. None cancels the move of a partition.

    Raises KafkaError for the first refusal.
    """
    topics = [
        ReassignableTopic(
            name=name,
            partitions=[
                ReassignablePartition(partition_index=index, replicas=None if brokers is None else list(brokers))
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
    return len(moving(client, {Spot(name, index) for name, assignment in wanted.items() for index in assignment}))


def moving(client: Client, spots: Iterable[Spot] | None = None) -> list[MovingPartition]:
    """The partitions that move, of some or of all. Raises KafkaError."""
    topics: dict[str, ListPartitionReassignmentsTopics] = {}
    for spot in sorted(spots or ()):
        asked = topics.setdefault(spot.topic, ListPartitionReassignmentsTopics(name=spot.topic, partition_indexes=[]))
        asked.partition_indexes.append(spot.partition)
    request = ListPartitionReassignmentsRequest(topics=None if spots is None else list(topics.values()))
    answer = client.call(request, wait_s=WAIT_S)
    raise_for(answer.error_code, "cannot list reassignments", answer.error_message)
    return sorted(
        MovingPartition(
            Spot(topic.name, each.partition_index), each.replicas, each.adding_replicas, each.removing_replicas
        )
        for topic in answer.topics
        for each in topic.partitions
    )
