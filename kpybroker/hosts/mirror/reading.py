"""The topics, leaders and group offsets of a source. Everything here blocks: a thread does it."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kpybroker.client import config_requests, group_requests
from kpybroker.client.client import Client
from kpybroker.client.group_listing import list_groups
from kpybroker.client.share_group_requests import SHARE
from kpybroker.machines.mirror.group_offsets import Commits, GroupOffset
from kpybroker.machines.mirror.mirror import Mirror
from kpybroker.machines.mirror.planning import SourceTopic
from kpywire import error_codes
from kpywire.messages.metadata import MetadataRequest, MetadataResponse

SET_ON_TOPIC: Final = 1


class SourceMetadata(NamedTuple):
    """The topics of a mirror at its source, and the leaders of their partitions."""

    topics: list[SourceTopic]
    leaders: Mapping[tuple[bytes, int], int]
    addresses: Mapping[int, tuple[str, int]]


def read_metadata(client: Client, mirror: Mirror, *, with_configs: bool) -> SourceMetadata:
    """The metadata of a source. Raises KafkaError and Unreachable."""
    answer: MetadataResponse = client.call(MetadataRequest(topics=None, allow_auto_topic_creation=False))
    found = [
        topic
        for topic in answer.topics
        if topic.error_code == error_codes.NONE and not topic.is_internal and mirror.takes(topic.name or "")
    ]
    configs: dict[str, dict[str, str]] = {}
    if with_configs:
        for name, described in config_requests.describe_topics(client, [topic.name or "" for topic in found], ()):
            configs[name] = {
                each.name: each.value
                for each in described
                if each.config_source == SET_ON_TOPIC and each.value is not None
            }
    topics = [
        SourceTopic(
            topic.name or "",
            topic.topic_id,
            len(topic.partitions),
            max((each.leader_epoch for each in topic.partitions), default=-1),
            configs.get(topic.name or "", {}),
        )
        for topic in found
        if not with_configs or topic.name in configs
    ]
    leaders = {(topic.topic_id, each.partition_index): each.leader_id for topic in found for each in topic.partitions}
    return SourceMetadata(topics, leaders, {each.node_id: (each.host, each.port) for each in answer.brokers})


def read_groups(client: Client, mirror: Mirror) -> dict[str, Commits]:
    """The offsets that groups of a source have committed in topics of a mirror. Raises KafkaError and Unreachable."""
    found = {}
    for group in list_groups(client):
        if group.group_type.lower() == SHARE:
            continue
        commits = group_requests.committed(client, group.group_id)
        wanted = {spot: GroupOffset(*commit) for spot, commit in commits.items() if mirror.takes(spot.topic)}
        if wanted:
            found[group.group_id] = wanted
    return found
