"""Metadata of ZooKeeper mode as records of the metadata log, which an image can apply (as KIP-866 translates them).

A broker in ZooKeeper mode has no metadata log. Its image is changed by the same records all the same, so that all parts
of a broker follow one kind of metadata. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.topic import Partition
from kpywire.messages.leader_and_isr import LeaderAndIsrPartitionState
from kpywire.messages.update_metadata import UpdateMetadataBroker, UpdateMetadataPartitionState
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from kpywire.metadata_records.topic_record import TopicRecord
from kpywire.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from kpywire.uuid import ZERO_UUID

UNKNOWN_EPOCH: Final = -1
"""The epoch of other brokers: in ZooKeeper mode only the controller knows it."""

Record = (
    TopicRecord | PartitionRecord | RemoveTopicRecord | RegisterBrokerRecord | UnregisterBrokerRecord | ConfigRecord
)


def brokers(image: MetadataImage, live: Iterable[UpdateMetadataBroker]) -> list[Record]:
    """The records that make the brokers of the image those that are alive."""
    records: list[Record] = []
    seen = set()
    for broker in live:
        seen.add(broker.id)
        record = RegisterBrokerRecord(
            broker_id=broker.id,
            broker_epoch=UNKNOWN_EPOCH,
            incarnation_id=ZERO_UUID,
            features=[],
            end_points=[
                BrokerEndpoint(
                    name=each.listener, host=each.host, port=each.port, security_protocol=each.security_protocol
                )
                for each in broker.endpoints
            ],
            rack=broker.rack,
            fenced=False,
        )
        known = image.brokers.get(broker.id)
        points = {
            each.listener: (each.listener, each.host, each.port, each.security_protocol) for each in broker.endpoints
        }
        if known is None or known.rack != broker.rack or dict(known.listeners) != points:
            records.append(record)
    records += [
        UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=UNKNOWN_EPOCH)
        for broker_id in image.brokers
        if broker_id not in seen
    ]
    return records


def topic(image: MetadataImage, name: str, topic_id: bytes) -> list[Record]:
    """The records that make a topic have this id. A topic of this name with another id is gone."""
    known = image.topics.get(name)
    if known is not None and known.id == topic_id:
        return []
    records: list[Record] = [] if known is None else [RemoveTopicRecord(topic_id=known.id)]
    return [*records, TopicRecord(name=name, topic_id=topic_id)]


def ordered_partition(topic_id: bytes, state: LeaderAndIsrPartitionState) -> PartitionRecord:
    """A partition as LeaderAndIsr has it."""
    return PartitionRecord(
        partition_id=state.partition_index,
        topic_id=topic_id,
        replicas=list(state.replicas),
        isr=list(state.isr),
        adding_replicas=list(state.adding_replicas or ()),
        removing_replicas=list(state.removing_replicas or ()),
        leader=state.leader,
        leader_recovery_state=state.leader_recovery_state,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
    )


def known_partition(
    topic_id: bytes, state: UpdateMetadataPartitionState, before: Partition | None
) -> PartitionRecord | None:
    """A partition as UpdateMetadata has it, which knows nothing of reassignments; None if the image has newer facts or
    the same."""
    if before is not None:
        epochs = before.leader_epoch, before.partition_epoch
        received = state.leader_epoch, state.zk_version
        if received < epochs:
            return None
        same = (
            before.leader == state.leader and list(before.isr) == state.isr and list(before.replicas) == state.replicas
        )
        if received == epochs and same:
            return None
    is_reassigning = before is not None and set(before.replicas) == set(state.replicas)
    return PartitionRecord(
        partition_id=state.partition_index,
        topic_id=topic_id,
        replicas=list(state.replicas),
        isr=list(state.isr),
        adding_replicas=list(before.adding_replicas) if before is not None and is_reassigning else [],
        removing_replicas=list(before.removing_replicas) if before is not None and is_reassigning else [],
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.zk_version,
    )


def stopped_partition(
    topic_id: bytes, index: int, before: Partition, node_id: int, *, deleted: bool
) -> PartitionRecord:
    """A partition that this broker is to stop: without a leader, and if its log is deleted, without this replica."""
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=[each for each in before.replicas if not deleted or each != node_id],
        isr=[each for each in before.isr if each != node_id],
        adding_replicas=[],
        removing_replicas=[],
        leader=-1,
        leader_epoch=before.leader_epoch,
        partition_epoch=before.partition_epoch,
    )


def configs(image: MetadataImage, resource_type: int, name: str, wanted: Mapping[str, str]) -> list[Record]:
    """The records that make the configs of a resource those of its znode."""
    present = image.configs_of(resource_type, name)
    changed = {key: value for key, value in wanted.items() if present.get(key) != value}
    gone = dict.fromkeys(key for key in present if key not in wanted)
    return [
        ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
        for key, value in {**changed, **gone}.items()
    ]


def removed(topic_id: bytes) -> Record:
    """The record that removes a topic."""
    return RemoveTopicRecord(topic_id=topic_id)
