"""The request of ``kpybroker cluster elect``: new leaders for partitions (KIP-183, KIP-460)."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from kpybroker.client.client import Client, Spot, raise_for
from kpywire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

TYPES: Final = {"preferred": 0, "unclean": 1}
"""Preferred: the first replica, if it is in sync. Unclean: any replica, also one that lacks records."""
TIMEOUT_MS: Final = 30_000


class Elected(NamedTuple):
    """The result for one partition; error 0 means that it has a new leader."""

    spot: Spot
    error_code: int
    message: str | None


def elect(client: Client, election_type: int, spots: Iterable[Spot] | None) -> list[Elected]:
    """Elect leaders of partitions; with None of all that need it. Raises KafkaError."""
    topics: dict[str, TopicPartitions] = {}
    for spot in sorted(spots or ()):
        topics.setdefault(spot.topic, TopicPartitions(topic=spot.topic, partitions=[])).partitions.append(
            spot.partition
        )
    request = ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=None if spots is None else list(topics.values()),
        timeout_ms=TIMEOUT_MS,
    )
    answer: ElectLeadersResponse = client.call(request, wait_s=TIMEOUT_MS / 1000)
    raise_for(answer.error_code, "elections")
    return sorted(
        Elected(Spot(topic.topic, part.partition_id), part.error_code, part.error_message)
        for topic in answer.replica_election_results
        for part in topic.partition_result
    )
