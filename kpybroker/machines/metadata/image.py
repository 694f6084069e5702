"""The whole metadata of a cluster, built from the records of ``__cluster_metadata`` and changed by nothing else.

``apply(record, offset)`` is the only mutator. Records between a BeginTransactionRecord and its EndTransactionRecord are
held back and take effect together, or never (KIP-868). Metadata that no part of the broker reads yet (ACLs, quotas,
SCRAM credentials, delegation tokens) are kept all the same, so that a snapshot loses nothing.

Brokers use this class to apply committed records, and the active controller uses it to apply what it has just appended.
Readers must not change anything in an image.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.broker import BrokerRegistration, ControllerRegistration
from kpybroker.machines.metadata.delta import Changes, ConfigResource, MetadataDelta
from kpybroker.machines.metadata.topic import Partition, Topic
from kpybroker.machines.metadata.units import NewPartitions, Unit
from kpywire.metadata_records.abort_transaction_record import AbortTransactionRecord
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord
from kpywire.metadata_records.begin_transaction_record import BeginTransactionRecord
from kpywire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kpywire.metadata_records.clear_elr_record import ClearElrRecord
from kpywire.metadata_records.client_quota_record import ClientQuotaRecord
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.delegation_token_record import DelegationTokenRecord
from kpywire.metadata_records.end_transaction_record import EndTransactionRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.fence_broker_record import FenceBrokerRecord
from kpywire.metadata_records.no_op_record import NoOpRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.producer_ids_record import ProducerIdsRecord
from kpywire.metadata_records.register_broker_record import RegisterBrokerRecord
from kpywire.metadata_records.register_controller_record import RegisterControllerRecord
from kpywire.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kpywire.metadata_records.remove_delegation_token_record import RemoveDelegationTokenRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from kpywire.metadata_records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kpywire.metadata_records.topic_record import TopicRecord
from kpywire.metadata_records.unfence_broker_record import UnfenceBrokerRecord
from kpywire.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from kpywire.metadata_records.unregister_controller_record import UnregisterControllerRecord
from kpywire.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from kpywire.metadata_records.zk_migration_state_record import ZkMigrationStateRecord

KRAFT_VERSION: Final = "kraft.version"
ELR_VERSION = "eligible.leader.replicas.version"
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
CLIENT_METRICS_RESOURCE: Final = 16

ZK_MIGRATION = "zk.migration.state"
"""The name under which deltas report a change of the state of the migration from ZooKeeper."""
NO_MIGRATION, MIGRATION, PRE_MIGRATION, POST_MIGRATION = 0, 1, 2, 3
"""The states of ZkMigrationStateRecord: the cluster never had ZooKeeper, it has everything and writes to both, it waits
for brokers, ZooKeeper is no longer needed."""

QuotaEntity = tuple[tuple[str, str | None], ...]


class InvalidMetadata(Exception):
    """A record that cannot follow what the log held before it; a node that reads one cannot go on."""


class MetadataImage:
    """The complete metadata of the log, up to ``next_offset``."""

    __slots__ = (
        "_held_back",
        "acls",
        "brokers",
        "client_quotas",
        "cluster_id",
        "configs",
        "controllers",
        "delegation_tokens",
        "epoch",
        "features",
        "metadata_version",
        "next_offset",
        "next_producer_id",
        "scram_credentials",
        "topics",
        "topics_by_id",
        "transaction_offset",
        "zk_migration_state",
    )

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.next_offset = 0
        """One past the last record applied; clients see ``next_offset - 1`` as the epoch of the finalised features."""
        self.epoch = 0
        """The leader epoch of the last record applied."""
        self.metadata_version: int | None = None
        """The finalised level of ``metadata.version``; None before the log contains it."""
        self.features: dict[str, int] = {}
        """The finalised levels of all other features; one at level 0 is not listed."""
        self.brokers: dict[int, BrokerRegistration] = {}
        self.controllers: dict[int, ControllerRegistration] = {}
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        """The configs that were set explicitly, per (resource type, resource name); no entry is empty."""
        self.next_producer_id = -1
        """The first producer id of the next block to hand out; -1 before the first."""
        self.acls: dict[bytes, AccessControlEntryRecord] = {}
        self.client_quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.scram_credentials: dict[tuple[int, str], UserScramCredentialRecord] = {}
        self.delegation_tokens: dict[str, DelegationTokenRecord] = {}
        self.zk_migration_state = NO_MIGRATION
        """The progress of the cluster's migration from ZooKeeper (KIP-866)."""
        self.transaction_offset = -1
        """The offset where the open transaction began; -1 if none is open."""
        self._held_back: list[tuple[Any, int]] = []

    def apply(self, record: Any, offset: int, changes: Changes) -> None:
        """Apply one record; raises InvalidMetadata when it does not fit what was applied before."""
        apply = _APPLY.get(type(record))
        if apply is None:
            raise InvalidMetadata(f"No node can apply {type(record).__name__}")
        if self.transaction_offset >= 0 and type(record) not in _TRANSACTION_RECORDS:
            self._held_back.append((record, offset))
        else:
            apply(self, record, offset, changes)
        self.next_offset = offset + 1

    def apply_unit(self, unit: Unit, offset: int, changes: Changes) -> None:
        """Apply all records of a unit; the first one is at ``offset``."""
        for part in unit.parts:
            self.apply(part, offset, changes)
        self.next_offset = offset + unit.records

    def configs_of(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """The configs that were set explicitly for one resource."""
        return self.configs.get((resource_type, resource_name), {})

    @property
    def level(self) -> int:
        """The finalised level of ``metadata.version``. Raises InvalidMetadata before the log contains it."""
        if self.metadata_version is None:
            raise InvalidMetadata("The metadata log has not said its metadata.version yet")
        return self.metadata_version

    @property
    def elr_enabled(self) -> bool:
        """Whether partitions keep eligible leader replicas (KIP-966)."""
        return self.features.get(ELR_VERSION, 0) >= 1

    @property
    def finalized_features(self) -> dict[str, int]:
        """The levels of all finalised features, ``metadata.version`` too, but not the quorum's ``kraft.version``."""
        known = {} if self.metadata_version is None else {metadata_version.FEATURE_NAME: self.metadata_version}
        return {**known, **self.features}

    def copy(self) -> "MetadataImage":
        """Return an independent copy of the image. Immutable parts are shared, and so are the partitions of a topic
        until one of both changes."""
        copy = MetadataImage.__new__(MetadataImage)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(copy, name, value.copy() if isinstance(value, dict | list) else value)
        copy.topics_by_id = {topic_id: topic.copy() for topic_id, topic in self.topics_by_id.items()}
        copy.topics = {topic.name: topic for topic in copy.topics_by_id.values()}
        copy.configs = {resource: dict(configs) for resource, configs in self.configs.items()}
        copy.client_quotas = {entity: dict(quotas) for entity, quotas in self.client_quotas.items()}
        return copy

    def state(self) -> tuple[object, ...]:
        """Everything durable except offsets, for comparing two images."""
        offsets = {"next_offset", "epoch", "_held_back", "transaction_offset"}
        return tuple(getattr(self, name) for name in self.__slots__ if name not in offsets)

    def _topic(self, topic_id: bytes, record: object) -> Topic:
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            raise InvalidMetadata(f"{type(record).__name__} names the topic id {topic_id.hex()}, which is not there")
        return topic

    def _broker(self, broker_id: int, epoch: int, record: object) -> BrokerRegistration:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise InvalidMetadata(
                f"{type(record).__name__} names broker {broker_id} in epoch {epoch}, which is not there"
            )
        return broker

    def _apply_topic(self, record: TopicRecord, _offset: int, changes: Changes) -> None:
        if record.name in self.topics or record.topic_id in self.topics_by_id:
            raise InvalidMetadata(f"A second TopicRecord for {record.name!r}")
        topic = Topic(record.name, record.topic_id)
        self.topics[record.name] = self.topics_by_id[record.topic_id] = topic
        changes.topic_created(topic)

    def _apply_partition(self, record: PartitionRecord, _offset: int, changes: Changes) -> None:
        topic = self._topic(record.topic_id, record)
        before = topic.partitions.get(record.partition_id)
        topic.own()[record.partition_id] = Partition.from_record(record)
        changes.partition_changed(topic, record.partition_id, before)

    def _apply_new_partitions(self, new: NewPartitions, _offset: int, changes: Changes) -> None:
        topic = self._topic(new.topic_id, new)
        known = topic.own()
        changed = {index: known[index] for index in new.partitions if index in known} if known else {}
        known.update(new.partitions)
        for index, before in changed.items():
            changes.partition_changed(topic, index, before)
        added = [index for index in new.partitions if index not in changed] if changed else new.partitions
        if added:
            changes.partitions_added(topic, added)

    def _apply_partition_change(self, record: PartitionChangeRecord, _offset: int, changes: Changes) -> None:
        topic = self._topic(record.topic_id, record)
        before = topic.partitions.get(record.partition_id)
        if before is None:
            raise InvalidMetadata(f"PartitionChangeRecord for {topic.name}-{record.partition_id}, which is not there")
        topic.own()[record.partition_id] = before.merge(record)
        changes.partition_changed(topic, record.partition_id, before)

    def _apply_remove_topic(self, record: RemoveTopicRecord, _offset: int, changes: Changes) -> None:
        topic = self._topic(record.topic_id, record)
        del self.topics_by_id[topic.id], self.topics[topic.name]
        for name in self.configs.pop((TOPIC_RESOURCE, topic.name), ()):
            changes.config_changed((TOPIC_RESOURCE, topic.name), name)
        changes.topic_deleted(topic)

    def _apply_clear_elr(self, record: ClearElrRecord, _offset: int, changes: Changes) -> None:
        if record.topic_name and record.topic_name not in self.topics:
            raise InvalidMetadata(f"ClearElrRecord for {record.topic_name!r}, which is not there")
        topics = [self.topics[record.topic_name]] if record.topic_name else self.topics.values()
        for topic in topics:
            for partition_id, before in list(topic.partitions.items()):
                if before.elr or before.last_known_elr:
                    topic.own()[partition_id] = before.without_elr()
                    changes.partition_changed(topic, partition_id, before)

    def _apply_register_broker(self, record: RegisterBrokerRecord, offset: int, changes: Changes) -> None:
        before = self.brokers.get(record.broker_id)
        self.brokers[record.broker_id] = BrokerRegistration(record, offset)
        changes.broker_changed(record.broker_id, before)

    def _apply_unregister_broker(self, record: UnregisterBrokerRecord, _offset: int, changes: Changes) -> None:
        before = self._broker(record.broker_id, record.broker_epoch, record)
        del self.brokers[record.broker_id]
        changes.broker_changed(record.broker_id, before)

    def _apply_fence_broker(
        self, record: FenceBrokerRecord | UnfenceBrokerRecord, _offset: int, changes: Changes
    ) -> None:
        before = self._broker(record.id, record.epoch, record)
        self.brokers[record.id] = before.changed(fenced=isinstance(record, FenceBrokerRecord))
        changes.broker_changed(record.id, before)

    def _apply_broker_change(self, record: BrokerRegistrationChangeRecord, _offset: int, changes: Changes) -> None:
        before = self._broker(record.broker_id, record.broker_epoch, record)
        if record.fenced not in (-1, 0, 1) or record.in_controlled_shutdown not in (0, 1):
            raise InvalidMetadata(f"BrokerRegistrationChangeRecord for broker {record.broker_id} with unknown values")
        self.brokers[record.broker_id] = before.merge(record)
        changes.broker_changed(record.broker_id, before)

    def _apply_register_controller(self, record: RegisterControllerRecord, _offset: int, changes: Changes) -> None:
        self.controllers[record.controller_id] = ControllerRegistration.from_record(record)
        changes.controller_changed(record.controller_id)

    def _apply_unregister_controller(self, record: UnregisterControllerRecord, _offset: int, changes: Changes) -> None:
        if self.controllers.pop(record.controller_id, None) is None:
            raise InvalidMetadata(
                f"UnregisterControllerRecord names controller {record.controller_id}, which is not there"
            )
        changes.controller_changed(record.controller_id)

    def _apply_config(self, record: ConfigRecord, _offset: int, changes: Changes) -> None:
        resource = (record.resource_type, record.resource_name)
        configs = self.configs.setdefault(resource, {})
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value
        if not configs:
            del self.configs[resource]
        changes.config_changed(resource, record.name)

    def _apply_feature_level(self, record: FeatureLevelRecord, _offset: int, changes: Changes) -> None:
        if record.name == KRAFT_VERSION:
            return  # the quorum keeps that one in control records (KAFKA-18979)
        if record.name == metadata_version.FEATURE_NAME:
            self.metadata_version = record.feature_level
        elif record.feature_level:
            self.features[record.name] = record.feature_level
        else:
            self.features.pop(record.name, None)
        changes.feature_changed(record.name)

    def _apply_producer_ids(self, record: ProducerIdsRecord, _offset: int, changes: Changes) -> None:
        if record.next_producer_id <= self.next_producer_id:
            raise InvalidMetadata(
                f"Producer ids would go back from {self.next_producer_id} to {record.next_producer_id}"
            )
        self.next_producer_id = record.next_producer_id
        changes.producer_ids_changed()

    def _apply_acl(self, record: AccessControlEntryRecord, _offset: int, changes: Changes) -> None:
        self.acls[record.id] = record
        changes.kept_changed("acls", record.id)

    def _apply_remove_acl(self, record: RemoveAccessControlEntryRecord, _offset: int, changes: Changes) -> None:
        if self.acls.pop(record.id, None) is None:
            raise InvalidMetadata(f"RemoveAccessControlEntryRecord for {record.id.hex()}, which is not there")
        changes.kept_changed("acls", record.id)

    def _apply_client_quota(self, record: ClientQuotaRecord, _offset: int, changes: Changes) -> None:
        entity = tuple(
            sorted(((part.entity_type, part.entity_name) for part in record.entity), key=lambda part: part[0])
        )
        quotas = self.client_quotas.setdefault(entity, {})
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        if not quotas:
            del self.client_quotas[entity]
        changes.kept_changed("client_quotas", entity)

    def _apply_scram(self, record: UserScramCredentialRecord, _offset: int, changes: Changes) -> None:
        self.scram_credentials[record.mechanism, record.name] = record
        changes.kept_changed("scram_credentials", (record.mechanism, record.name))

    def _apply_remove_scram(self, record: RemoveUserScramCredentialRecord, _offset: int, changes: Changes) -> None:
        self.scram_credentials.pop((record.mechanism, record.name), None)
        changes.kept_changed("scram_credentials", (record.mechanism, record.name))

    def _apply_token(self, record: DelegationTokenRecord, _offset: int, changes: Changes) -> None:
        self.delegation_tokens[record.token_id] = record
        changes.kept_changed("delegation_tokens", record.token_id)

    def _apply_remove_token(self, record: RemoveDelegationTokenRecord, _offset: int, changes: Changes) -> None:
        self.delegation_tokens.pop(record.token_id, None)
        changes.kept_changed("delegation_tokens", record.token_id)

    def _apply_migration_state(self, record: ZkMigrationStateRecord, _offset: int, changes: Changes) -> None:
        self.zk_migration_state = record.zk_migration_state
        changes.feature_changed(ZK_MIGRATION)  # it is a part of Kafka's FeaturesImage

    def _apply_nothing(self, _record: object, _offset: int, _changes: Changes) -> None:
        """Ignore a NoOpRecord."""

    def _begin_transaction(self, _record: BeginTransactionRecord, offset: int, _changes: Changes) -> None:
        if self.transaction_offset >= 0:
            raise InvalidMetadata(
                f"A transaction begins at {offset} within the one that began at {self.transaction_offset}"
            )
        self.transaction_offset = offset

    def _end_transaction(self, _record: EndTransactionRecord, offset: int, changes: Changes) -> None:
        for held_record, held_offset in self._close_transaction(offset):
            _APPLY[type(held_record)](self, held_record, held_offset, changes)

    def _abort_transaction(self, _record: AbortTransactionRecord, offset: int, _changes: Changes) -> None:
        self._close_transaction(offset)

    def _close_transaction(self, offset: int) -> list[tuple[Any, int]]:
        if self.transaction_offset < 0:
            raise InvalidMetadata(f"A transaction ends at {offset} that never began")
        held_back, self._held_back = self._held_back, []
        self.transaction_offset = -1
        return held_back


_TRANSACTION_RECORDS = frozenset((BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord))

_APPLY: dict[type, Callable[[MetadataImage, Any, int, Changes], None]] = {
    RegisterBrokerRecord: MetadataImage._apply_register_broker,
    UnregisterBrokerRecord: MetadataImage._apply_unregister_broker,
    TopicRecord: MetadataImage._apply_topic,
    PartitionRecord: MetadataImage._apply_partition,
    NewPartitions: MetadataImage._apply_new_partitions,
    ConfigRecord: MetadataImage._apply_config,
    PartitionChangeRecord: MetadataImage._apply_partition_change,
    FenceBrokerRecord: MetadataImage._apply_fence_broker,
    UnfenceBrokerRecord: MetadataImage._apply_fence_broker,
    RemoveTopicRecord: MetadataImage._apply_remove_topic,
    DelegationTokenRecord: MetadataImage._apply_token,
    UserScramCredentialRecord: MetadataImage._apply_scram,
    FeatureLevelRecord: MetadataImage._apply_feature_level,
    ClientQuotaRecord: MetadataImage._apply_client_quota,
    ProducerIdsRecord: MetadataImage._apply_producer_ids,
    BrokerRegistrationChangeRecord: MetadataImage._apply_broker_change,
    AccessControlEntryRecord: MetadataImage._apply_acl,
    RemoveAccessControlEntryRecord: MetadataImage._apply_remove_acl,
    NoOpRecord: MetadataImage._apply_nothing,
    ZkMigrationStateRecord: MetadataImage._apply_migration_state,
    RemoveUserScramCredentialRecord: MetadataImage._apply_remove_scram,
    BeginTransactionRecord: MetadataImage._begin_transaction,
    EndTransactionRecord: MetadataImage._end_transaction,
    AbortTransactionRecord: MetadataImage._abort_transaction,
    RemoveDelegationTokenRecord: MetadataImage._apply_remove_token,
    RegisterControllerRecord: MetadataImage._apply_register_controller,
    UnregisterControllerRecord: MetadataImage._apply_unregister_controller,
    ClearElrRecord: MetadataImage._apply_clear_elr,
}


def image_of(records: "list[Any]", cluster_id: str, next_offset: int) -> tuple[MetadataImage, MetadataDelta]:
    """Build the image that the records of a snapshot describe, and a delta that covers all of it. Raises
    InvalidMetadata."""
    image = MetadataImage(cluster_id)
    delta = MetadataDelta(from_snapshot=True)
    for record in records:
        image.apply(record, next_offset - 1, delta)
    delta.next_offset = image.next_offset = next_offset
    return image, delta
