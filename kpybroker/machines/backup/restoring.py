"""The metadata and the group records of a directory that is restored: one node, which is controller and broker.

Partitions have no leader yet. The node gets all of them when it registers, as after any stop, in a leader epoch above
those of the batches.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from kpybroker.machines.backup.manifest import RunManifest, partitions_of
from kpybroker.machines.groups.offsets.commit_record import CommitRecord
from kpybroker.machines.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kpybroker.machines.metadata.metadata_version import FEATURE_NAME
from kpybroker.machines.metadata.topic_name import GROUP_OFFSETS_TOPIC
from kpybroker.machines.mirror.group_offsets import GroupOffset, clamped
from kpybroker.machines.mirror.planning import carried
from kpywire import uuid
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.producer_ids_record import ProducerIdsRecord
from kpywire.metadata_records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from kpywire.metadata_records.topic_record import TopicRecord

BROKER_EPOCH: Final = 1
"""The broker epoch of the registration, and of the clean shutdown file."""
NO_LEADER: Final = -1
FIRST_LEADER_EPOCH: Final = 0
PLAINTEXT_PROTOCOL: Final = 0
PORT: Final = 9092
OFFSETS_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": "104857600",
}


class RestoredNode(NamedTuple):
    """The node of a restored directory."""

    node_id: int
    directory_id: bytes
    incarnation_id: bytes
    offsets_topic_id: bytes
    """The id of ``__consumer_offsets``."""


def metadata_records(manifest: RunManifest, node: RestoredNode, levels: list[FeatureLevelRecord]) -> Iterator[Any]:
    """The records of the metadata snapshot."""
    yield from levels
    yield ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name="min.insync.replicas", value="1")
    yield _registration(node, levels)
    for topic in manifest.topics:
        epochs = [part.leader_epoch for part in topic.partitions]
        yield from _topic(topic.name, uuid.from_string(topic.topic_id), carried(topic.configs), epochs, node)
    epochs = [FIRST_LEADER_EPOCH] * manifest.offsets_partitions
    yield from _topic(GROUP_OFFSETS_TOPIC, node.offsets_topic_id, OFFSETS_CONFIGS, epochs, node)
    yield ProducerIdsRecord(
        broker_id=node.node_id, broker_epoch=BROKER_EPOCH, next_producer_id=next_producer_id(manifest)
    )


def next_producer_id(manifest: RunManifest) -> int:
    """The first producer id above all that are in the backup."""
    return 1 + max(
        (piece.max_producer_id for _, _, part in partitions_of(manifest) for piece in part.pieces), default=-1
    )


def _registration(node: RestoredNode, levels: list[FeatureLevelRecord]) -> RegisterBrokerRecord:
    endpoint = BrokerEndpoint(name="PLAINTEXT", host="localhost", port=PORT, security_protocol=PLAINTEXT_PROTOCOL)
    return RegisterBrokerRecord(
        broker_id=node.node_id,
        incarnation_id=node.incarnation_id,
        broker_epoch=BROKER_EPOCH,
        end_points=[endpoint],
        features=[
            BrokerFeature(
                name=each.name,
                min_supported_version=each.feature_level if each.name == FEATURE_NAME else 0,
                max_supported_version=each.feature_level,
            )
            for each in levels
        ],
        rack=None,
        fenced=True,
        log_dirs=[node.directory_id],
    )


def _topic(
    name: str, topic_id: bytes, configs: dict[str, str], leader_epochs: list[int], node: RestoredNode
) -> Iterator[Any]:
    yield TopicRecord(name=name, topic_id=topic_id)
    for index, leader_epoch in enumerate(leader_epochs):
        yield PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=[node.node_id],
            isr=[node.node_id],
            removing_replicas=[],
            adding_replicas=[],
            leader=NO_LEADER,
            leader_epoch=max(leader_epoch, FIRST_LEADER_EPOCH),
            partition_epoch=0,
            directories=[node.directory_id],
        )
    for key, value in sorted(configs.items()):
        yield ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=name, name=key, value=value)


def commit_records(manifest: RunManifest, now_ms: int) -> Iterator[CommitRecord]:
    """The commits of all groups. Their time is that of the restore: the retention of offsets begins then."""
    ids = {topic.name: uuid.from_string(topic.topic_id) for topic in manifest.topics}
    ends = {(topic.name, index): part.end_offset for topic, index, part in partitions_of(manifest)}
    for group, positions in sorted(manifest.groups.items()):
        held = {(each.topic, each.partition): GroupOffset(*each[2:]) for each in positions}
        for (topic, partition), commit in clamped(held, ends).items():
            yield CommitRecord(
                group,
                topic,
                partition,
                commit.offset,
                commit.leader_epoch,
                commit.metadata,
                now_ms,
                ids[topic],
            )


def runs_around(cuts: Mapping[str, int], time_ms: int) -> tuple[str | None, str | None]:
    """The last run whose cut is not after a time, and the first one whose cut is, out of runs with the times of their
    cuts. None where there is none."""
    ordered = sorted(cuts, key=lambda run: cuts[run])
    before = [run for run in ordered if cuts[run] <= time_ms]
    after = ordered[len(before) :]
    return before[-1] if before else None, after[0] if after else None
