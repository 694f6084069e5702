"""The topics of a source and their leaders. Everything here blocks: a thread does it."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kpybroker.client import config_requests
from kpybroker.client.client import Client
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.mirror.mirror import Mirror
from kpybroker.machines.mirror.planning import TopicThere
from kpywire import error_codes
from kpywire.messages.metadata import MetadataRequest, MetadataResponse

SET_ON_TOPIC: Final = 1


class SourceLeader(NamedTuple):
    """The leader of a partition of the source."""

    node_id: int
    epoch: int


class SourceMetadata(NamedTuple):
    """The topics of a mirror at its source, and the leaders of their partitions."""

    topics: list[TopicThere]
    ids: Mapping[str, bytes]
    """The ids of the topics, zero where they have none."""
    leaders: Mapping[tuple[str, int], SourceLeader]
    addresses: Mapping[int, tuple[str, int]]


TopicConfigs = Mapping[str, Mapping[str, str]]
"""The configs that are set on topics, by their names."""


def read_metadata(client: Client, mirror: Mirror, known: TopicConfigs | None) -> SourceMetadata:
    """The metadata of a source. Configs are read for topics that ``known`` does not have; without it, no topics are
    returned, but their leaders. Raises KafkaError and Unreachable."""
    answer: MetadataResponse = client.call(MetadataRequest(topics=None, allow_auto_topic_creation=False))
    found = [
        topic
        for topic in answer.topics
        if topic.error_code == error_codes.NONE and not topic.is_internal and mirror.takes(topic.name or "")
    ]
    configs: dict[str, Mapping[str, str] | None] = dict(known or {})
    if known is not None:
        new = [name for topic in found if (name := topic.name or "") not in known]
        for name, described in config_requests.describe_shown_topics(client, new, ()):
            if isinstance(described, KafkaError):
                if described.code != error_codes.TOPIC_AUTHORIZATION_FAILED:
                    raise described
                configs[name] = None
                continue
            configs[name] = {
                each.name: each.value
                for each in described
                if each.config_source == SET_ON_TOPIC and each.value is not None
            }
    topics = [
        TopicThere(
            topic.name or "",
            topic.topic_id,
            len(topic.partitions),
            max((each.leader_epoch for each in topic.partitions), default=-1),
            configs[topic.name],
        )
        for topic in found
        if topic.name in configs
    ]
    leaders = {
        (topic.name or "", each.partition_index): SourceLeader(each.leader_id, each.leader_epoch)
        for topic in found
        for each in topic.partitions
    }
    ids = {topic.name or "": topic.topic_id for topic in found}
    return SourceMetadata(topics, ids, leaders, {each.node_id: (each.host, each.port) for each in answer.brokers})
