"""The znodes that an image stands for: those that the KRaft controller keeps in ZooKeeper (``KRaftMigrationZkWriter``).

These are topics and the states of their partitions, configs, quotas, users, ACLs, tokens and the producer id block; not
the registrations of brokers.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from kpybroker.machines.metadata.delta import ConfigResource, MetadataDelta
from kpybroker.machines.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage, QuotaEntity
from kpybroker.machines.metadata.topic import Partition, Topic
from kpybroker.machines.quotas.client_quotas import USER
from kpybroker.machines.zookeeper.migration import entities
from kpybroker.machines.zookeeper.tree import configs, paths
from kpybroker.machines.zookeeper.tree.acls import ResourcePattern, encode_acls
from kpybroker.machines.zookeeper.tree.as_records import token_of
from kpybroker.machines.zookeeper.tree.client_quotas import config_entity
from kpybroker.machines.zookeeper.tree.cluster import ProducerIdBlock
from kpybroker.machines.zookeeper.tree.configs import ConfigEntity, encode_configs
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch, TopicAssignment

PRODUCER_BLOCK_SIZE: Final = 1_000
NO_BROKER: Final = -1


class WantedZnode(NamedTuple):
    """The content that a znode is to have. ``version`` is the data version that it is to have; None if any will do."""

    data: bytes | None
    version: int | None = None


Changes = dict[str, WantedZnode | None]
"""By path; None where the znode is to go."""
Encoded = Callable[[str, Mapping[str, str]], dict[str, str]]
"""Encrypts the passwords among the configs of a broker, whose path is given."""


def of_image(image: MetadataImage, controller_epoch: int, encoded: Encoded) -> Changes:
    """All znodes. ``controller_epoch`` is that of ZooKeeper."""
    found: Changes = {}
    for topic in image.topics.values():
        _add_topic(found, image, topic, topic.partitions, controller_epoch)
    for resource in image.configs:
        _add_config(found, image, resource, encoded)
    names = dict.fromkeys(image.client_quotas)
    names |= {((USER, user),): None for _, user in image.scram_credentials}
    for entity in names:
        _add_quotas(found, image, entity)
    for resource_of, entries in entities.acls_by_resource(image.acls.values()).items():
        found[resource_of.path] = WantedZnode(encode_acls(entries))
    for record in image.delegation_tokens.values():
        token = token_of(record)
        found[token.path] = WantedZnode(token.encode())
    _add_producer_ids(found, image)
    return found


def of_delta(image: MetadataImage, delta: MetadataDelta, controller_epoch: int, encoded: Encoded) -> Changes:
    """The znodes that a change of the image concerns."""
    found: Changes = {}
    for topic in delta.deleted_topics.values():
        _remove_topic(found, topic)
    for topic_id, partitions in delta.partitions.items():
        known = image.topics_by_id.get(topic_id)
        if known is not None:
            _add_topic(found, image, known, partitions, controller_epoch)
    for resource in delta.configs:
        _add_config(found, image, resource, encoded)
    for entity in delta.kept.get("client_quotas", ()):
        _add_quotas(found, image, entity)  # type: ignore[arg-type]
    for credential in delta.kept.get("scram_credentials", ()):
        _add_quotas(found, image, ((USER, credential[1]),))  # type: ignore[index]
    for token_id in delta.kept.get("delegation_tokens", ()):
        record = image.delegation_tokens.get(str(token_id))
        content = None if record is None else WantedZnode(token_of(record).encode())
        found[paths.token(str(token_id))] = content
    if delta.producer_ids:
        _add_producer_ids(found, image)
    return found


def of_acls(image: MetadataImage, resources: Iterable[ResourcePattern]) -> Changes:
    """The ACLs of these resources. A delta names ACLs by ids alone, so its receiver remembers their resources."""
    wanted = dict.fromkeys(resources)
    records = (record for record in image.acls.values() if entities.resource_of(record) in wanted)
    present = entities.acls_by_resource(records)
    return {each.path: WantedZnode(encode_acls(present[each])) if each in present else None for each in wanted}


def _add_topic(
    found: Changes, image: MetadataImage, topic: Topic, partitions: Iterable[int], controller_epoch: int
) -> None:
    every = topic.partitions
    assignment = TopicAssignment(
        name=topic.name,
        replicas={number: each.replicas for number, each in sorted(every.items())},
        topic_id=topic.id,
        adding={number: each.adding_replicas for number, each in sorted(every.items()) if each.adding_replicas},
        removing={number: each.removing_replicas for number, each in sorted(every.items()) if each.removing_replicas},
    )
    _add_topic_config(found, image, topic.name)
    found[paths.topic(topic.name)] = WantedZnode(assignment.encode())
    found[f"{paths.topic(topic.name)}/partitions"] = WantedZnode(None)
    for number in partitions:
        found[f"{paths.topic(topic.name)}/partitions/{number}"] = WantedZnode(None)
        found[paths.partition_state(topic.name, number)] = _state(every[number], controller_epoch)


def _state(partition: Partition, controller_epoch: int) -> WantedZnode:
    """The state of a partition. Its ``controller_epoch`` is ZooKeeper's, not the epoch of the quorum that Kafka writes:
    a controller in ZooKeeper mode refuses to change a state whose epoch is larger than its own (KAFKA-20488)."""
    state = LeaderIsrAndControllerEpoch(
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        controller_epoch=controller_epoch,
        recovery=partition.leader_recovery_state,
    )
    return WantedZnode(state.encode(), partition.partition_epoch)


def _remove_topic(found: Changes, topic: Topic) -> None:
    for number in topic.partitions:
        found[paths.partition_state(topic.name, number)] = None
        found[f"{paths.topic(topic.name)}/partitions/{number}"] = None
    found[f"{paths.topic(topic.name)}/partitions"] = None
    found[paths.topic(topic.name)] = None
    found[ConfigEntity(configs.TOPICS, topic.name).path] = None


def _add_config(found: Changes, image: MetadataImage, resource: ConfigResource, encoded: Encoded) -> None:
    kind, name = resource
    if kind == TOPIC_RESOURCE:
        _add_topic_config(found, image, name)
    elif kind == BROKER_RESOURCE:
        path = ConfigEntity(configs.BROKERS, name or configs.DEFAULT_NAME).path
        values = encoded(path, image.configs_of(kind, name))
        found[path] = WantedZnode(encode_configs(values)) if values else None


def _add_topic_config(found: Changes, image: MetadataImage, topic: str) -> None:
    values = dict(image.configs_of(TOPIC_RESOURCE, topic))
    path = ConfigEntity(configs.TOPICS, topic).path
    found[path] = WantedZnode(encode_configs(values)) if topic in image.topics else None


def _add_quotas(found: Changes, image: MetadataImage, entity: QuotaEntity) -> None:
    owner = config_entity(dict(entity))
    if owner is None:
        return
    values = entities.quota_values(image, entity)
    found[owner.path] = WantedZnode(encode_configs(values)) if values else None
    if values and owner.client_id is not None:
        above = ConfigEntity(owner.kind, owner.name)
        user = next(part for part in entity if part[0] == USER)
        found[above.path] = WantedZnode(encode_configs(entities.quota_values(image, (user,))))
        found[f"{above.path}/{configs.CLIENTS}"] = WantedZnode(None)


def _add_producer_ids(found: Changes, image: MetadataImage) -> None:
    last = image.next_producer_id
    if last > 0:
        block = ProducerIdBlock(NO_BROKER, max(last - PRODUCER_BLOCK_SIZE, 0), last)
        found[paths.PRODUCER_IDS] = WantedZnode(block.encode())
