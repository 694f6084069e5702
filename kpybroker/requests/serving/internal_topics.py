"""Topics that brokers create for themselves, or for a client that only asked for their metadata.

(Kafka: ``DefaultAutoTopicCreationManager``.)
"""

from collections.abc import Callable, Sequence
from typing import Any

from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.metadata.topic_name import GROUP_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.principal import ANONYMOUS
from kpywire import api
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

DEFAULT = -1

# The broker configs that say how an internal topic is made start with these.
_PREFIXES = {
    GROUP_OFFSETS_TOPIC: "offsets.topic.",
    TRANSACTION_STATE_TOPIC: "transaction.state.log.",
    SHARE_GROUP_STATE_TOPIC: "share.coordinator.state.topic.",
}


def _ignore(_response: Any) -> None:
    """Ignore the response: the client asks again, and it does not matter if the topic exists by then."""


def auto_create(
    broker: Context, names: Sequence[str], then: Callable[[Any], object] = _ignore, call: Call | None = None
) -> None:
    """Ask the controller to create topics, with the broker's defaults or with the settings of an internal topic.

    ``then`` gets the response. The creator is the client whose request is ``call``; without one it is this broker. As
    in Kafka, one request asks for all of them; the controller refuses a request for too many partitions.
    """
    if names:
        create(broker, [_creatable(broker.config, name) for name in names], then, call)


def create(
    broker: Context, topics: list[CreatableTopic], then: Callable[[Any], object], call: Call | None = None
) -> None:
    """Ask the controller to create these topics, for the client whose request is ``call``."""
    timeout_ms = int(broker.config["request.timeout.ms"])
    request = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=False)
    is_open = broker.authorizer is None and call is not None and call.principal is ANONYMOUS
    if call is None or is_open or broker.config.is_in_zookeeper_mode:
        broker.controller.send(request, then)
    else:
        asked = Call(
            api.CREATE_TOPICS,
            api.API_KEYS[api.CREATE_TOPICS].max_version,
            call.client_id,
            call.client,
            call.peer,
            call.versions,
        )
        asked.principal, asked.host = call.principal, call.host
        broker.controller.forward(request, asked, then)


def _creatable(config: BrokerConfig, name: str) -> CreatableTopic:
    topic = CreatableTopic(name=name, num_partitions=DEFAULT, replication_factor=DEFAULT, assignments=[], configs=[])
    prefix = _PREFIXES.get(name)
    if prefix is not None:
        topic.num_partitions = int(config[prefix + "num.partitions"])
        topic.replication_factor = int(config[prefix + "replication.factor"])
        topic.configs = [CreatableTopicConfig(name=key, value=value) for key, value in _configs(name, config).items()]
    return topic


def _configs(name: str, config: BrokerConfig) -> dict[str, str]:
    """The configs that Kafka's coordinators set on their topics (their ``…TopicConfigs`` methods)."""
    segment_bytes = str(config[_PREFIXES[name] + "segment.bytes"])
    if name == GROUP_OFFSETS_TOPIC:
        return {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": segment_bytes}
    min_insync_replicas = str(config[_PREFIXES[name] + "min.isr"])
    if name == TRANSACTION_STATE_TOPIC:
        return {
            "unclean.leader.election.enable": "false",
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": min_insync_replicas,
            "segment.bytes": segment_bytes,
        }
    return {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": min_insync_replicas,
        "segment.bytes": segment_bytes,
        "retention.ms": "-1",
    }
