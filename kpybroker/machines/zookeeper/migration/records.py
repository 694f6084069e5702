"""The metadata of a cluster in ZooKeeper as records of the metadata log (``ZkMigrationClient.readAllMetadata``)."""

from collections.abc import Callable
from typing import Any, NamedTuple

from kpybroker.machines.authorization.resources import PatternType
from kpybroker.machines.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kpybroker.machines.metadata.topic import NO_LEADER
from kpybroker.machines.zookeeper.migration import entities
from kpybroker.machines.zookeeper.migration.broker_passwords import BrokerPasswords
from kpybroker.machines.zookeeper.migration.reading import PATTERNS, MigratedMetadata, Tree
from kpybroker.machines.zookeeper.tree import acls, configs, paths
from kpybroker.machines.zookeeper.tree.acls import ResourcePattern
from kpybroker.machines.zookeeper.tree.as_records import token_record
from kpybroker.machines.zookeeper.tree.cluster import ProducerIdBlock
from kpybroker.machines.zookeeper.tree.configs import ConfigEntity
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode
from kpybroker.machines.zookeeper.tree.tokens import TokenContent
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch, TopicAssignment
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.producer_ids_record import ProducerIdsRecord
from kpywire.metadata_records.topic_record import TopicRecord

NewId = Callable[[], bytes]


class Copying(NamedTuple):
    """The means of a copy, in addition to the znodes."""

    new_id: NewId
    """Makes ids for ACLs, which have none in ZooKeeper."""
    passwords: BrokerPasswords


def records_of(metadata: MigratedMetadata, copying: Copying) -> list[Any]:
    """All records. Raises InvalidZnode for what cannot be copied."""
    tree = metadata.tree
    records: list[Any] = []
    for topic in metadata.topics:
        records += _topic_records(tree, topic)
    records += _broker_configs(tree, copying.passwords)
    records += _quotas(tree)
    block = tree.get(paths.PRODUCER_IDS)
    last = None if block is None else ProducerIdBlock.decode(block.data)
    if last is not None:
        records.append(ProducerIdsRecord(broker_id=last.broker_id, broker_epoch=-1, next_producer_id=last.end))
    records += _acls(tree, copying.new_id)
    for token_id, held in _below(tree, paths.TOKENS):
        records.append(token_record(TokenContent.decode(token_id, held)))
    return records


def _topic_records(tree: Tree, topic: TopicAssignment) -> list[Any]:
    if topic.topic_id is None:
        raise InvalidZnode(
            paths.topic(topic.name), "it has no topic_id; let a controller of Kafka 2.8 or later take over once"
        )
    records: list[Any] = [TopicRecord(name=topic.name, topic_id=topic.topic_id)]
    for number, replicas in topic.replicas.items():
        path = paths.partition_state(topic.name, number)
        held = tree.get(path)
        record = PartitionRecord(
            partition_id=number,
            topic_id=topic.topic_id,
            replicas=list(replicas),
            isr=list(replicas),
            adding_replicas=list(topic.adding.get(number, ())),
            removing_replicas=list(topic.removing.get(number, ())),
            leader=replicas[0] if replicas else NO_LEADER,
            leader_epoch=0,
            partition_epoch=0,
        )
        if held is not None:
            state = LeaderIsrAndControllerEpoch.decode(path, held.data)
            record.isr, record.leader, record.leader_epoch = list(state.isr), state.leader, state.leader_epoch
            record.partition_epoch, record.leader_recovery_state = held.version, state.recovery
        records.append(record)
    path = ConfigEntity(configs.TOPICS, topic.name).path
    if path in tree:
        values = configs.decode_configs(path, tree[path].data)
        records += [
            ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=key, value=value)
            for key, value in values.items()
        ]
    return records


def _broker_configs(tree: Tree, passwords: BrokerPasswords) -> list[Any]:
    records = []
    for name, data in _below(tree, f"{paths.CONFIGS}/{configs.BROKERS}"):
        path = ConfigEntity(configs.BROKERS, name).path
        for key, value in passwords.decoded(path, configs.decode_configs(path, data)).items():
            resource = "" if name == configs.DEFAULT_NAME else name
            records.append(ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=resource, name=key, value=value))
    return records


def _quotas(tree: Tree) -> list[Any]:
    records: list[Any] = []
    for kind in (configs.USERS, configs.CLIENTS, configs.ADDRESSES):
        for name, data in _below(tree, f"{paths.CONFIGS}/{kind}"):
            owners = [(ConfigEntity(kind, name), data)]
            if kind == configs.USERS:
                below = f"{paths.CONFIGS}/{kind}/{name}/{configs.CLIENTS}"
                owners += [(ConfigEntity(kind, name, client), found) for client, found in _below(tree, below)]
            for owner, content in owners:
                records += entities.quota_records(owner, configs.decode_configs(owner.path, content))
    return records


def _acls(tree: Tree, new_id: NewId) -> list[Any]:
    records: list[Any] = []
    for pattern in PATTERNS:
        for resource_type in acls.RESOURCE_TYPES:
            for name, data in _below(tree, f"{acls.store(pattern)}/{resource_type.pascal_name}"):
                resource = ResourcePattern(resource_type, name, PatternType(pattern))
                records += entities.acl_records(resource, acls.decode_acls(resource.path, data), new_id)
    return records


def _below(tree: Tree, parent: str) -> list[tuple[str, bytes | None]]:
    """The names and contents of the children of a znode."""
    above = f"{parent}/"
    return [
        (path[len(above) :], held.data)
        for path, held in tree.items()
        if path.startswith(above) and "/" not in path[len(above) :]
    ]
