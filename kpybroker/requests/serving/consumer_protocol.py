"""Whether the group protocols of Kafka 4 are finalised, and so served (Kafka: ``isConsumerGroupProtocolEnabled``)."""

from typing import Final

from kpybroker.machines.metadata.features import GROUP_VERSION, STREAMS_VERSION
from kpybroker.requests.serving.context import Context

CONSUMER: Final = "consumer"
STREAMS: Final = "streams"


def serves_consumer_groups(broker: Context) -> bool:
    """Whether ``group.version`` is at level 1 and the broker's config does not exclude the protocol."""
    if broker.image.features.get(GROUP_VERSION, 0) < 1:
        return False
    return CONSUMER in broker.config["group.coordinator.rebalance.protocols"]


def serves_streams_groups(broker: Context) -> bool:
    """Whether ``streams.version`` is at level 1 and the broker's config does not exclude the protocol."""
    if broker.image.features.get(STREAMS_VERSION, 0) < 1:
        return False
    return STREAMS in broker.config["group.coordinator.rebalance.protocols"]
