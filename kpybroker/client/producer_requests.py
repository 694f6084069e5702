"""The requests of ``kpybroker producers``: the producers that a partition's leader remembers (KIP-664)."""

from collections.abc import Iterable
from typing import NamedTuple

from kpybroker.client.client import Client, Spot, raise_for
from kpywire.messages.describe_producers import DescribeProducersRequest, TopicRequest


class RememberedProducer(NamedTuple):
    """An idempotent producer in a partition; None for values that the broker does not know."""

    spot: Spot
    producer_id: int
    epoch: int
    last_sequence: int | None
    last_write_ms: int | None
    coordinator_epoch: int | None
    open_since_offset: int | None
    """The first offset of its open transaction; None if none is open."""


def producers(client: Client, spots: Iterable[Spot], broker: int | None = None) -> list[RememberedProducer]:
    """The producers of partitions, as the leaders know them, or one broker that has replicas. Raises KafkaError."""
    wanted = sorted(spots)

    def attempt() -> list[RememberedProducer]:
        asked = client.by_leader(wanted) if broker is None else {client.live_node(broker): wanted}
        return sorted(each for node_id, part in asked.items() for each in _of_node(client, node_id, part))

    return client.retrying(attempt)


def _of_node(client: Client, node_id: int, spots: Iterable[Spot]) -> list[RememberedProducer]:
    topics: dict[str, TopicRequest] = {}
    for spot in spots:
        topic = topics.setdefault(spot.topic, TopicRequest(name=spot.topic, partition_indexes=[]))
        topic.partition_indexes.append(spot.partition)
    found = []
    for answered in client.call_node(node_id, DescribeProducersRequest(topics=list(topics.values()))).topics:
        for part in answered.partitions:
            spot = Spot(answered.name, part.partition_index)
            raise_for(part.error_code, f"partition {spot}", part.error_message)
            found += [
                RememberedProducer(
                    spot,
                    each.producer_id,
                    each.producer_epoch,
                    _known(each.last_sequence),
                    _known(each.last_timestamp),
                    _known(each.coordinator_epoch),
                    _known(each.current_txn_start_offset),
                )
                for each in part.active_producers
            ]
    return found


def _known(value: int) -> int | None:
    return None if value < 0 else value
