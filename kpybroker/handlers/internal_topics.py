"""Topics that brokers create for themselves or for a client that only asked about them.

(Kafka: ``DefaultAutoTopicCreationManager``.)
"""

from typing import Any

from kpybroker.handlers.context import Context
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

GROUP_OFFSETS_TOPIC = "__consumer_offsets"
DEFAULT = -1


def create_group_offsets_topic(broker: Context) -> None:
    """Ask the controller for the topic that keeps groups' state, with Kafka's settings for it; do not wait."""
    config = broker.config
    _create(
        broker,
        GROUP_OFFSETS_TOPIC,
        int(config["offsets.topic.num.partitions"]),
        int(config["offsets.topic.replication.factor"]),
        {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config["offsets.topic.segment.bytes"]),
        },
    )


def auto_create(broker: Context, name: str) -> None:
    """Ask the controller for a topic with the broker's defaults (``auto.create.topics.enable``); do not wait."""
    if name == GROUP_OFFSETS_TOPIC:
        create_group_offsets_topic(broker)
    else:
        _create(broker, name, DEFAULT, DEFAULT, {})


def _create(broker: Context, name: str, partitions: int, replication_factor: int, configs: dict[str, str]) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    timeout_ms = int(broker.config["request.timeout.ms"])
    broker.controller.send(CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms, validate_only=False), _ignore)


def _ignore(_response: Any) -> None:
    """Whoever asked for the topic asks again; a topic that exists by then is fine."""
