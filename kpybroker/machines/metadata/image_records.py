"""An image written as the records that build it again: the body of a metadata snapshot (Kafka's
``MetadataImage.write``).

The order is Kafka's: features first, since they determine how the rest is read, then cluster, topics, configs, quotas,
producer ids, ACLs, SCRAM credentials and tokens. Replaying the records gives an equal image.
"""

from collections.abc import Iterator
from typing import Any

from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.image import NO_MIGRATION, MetadataImage
from kpywire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kpywire.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.producer_ids_record import ProducerIdsRecord
from kpywire.metadata_records.register_broker_record import RegisterBrokerRecord
from kpywire.metadata_records.zk_migration_state_record import ZkMigrationStateRecord


def record_version(record: Any, level: int) -> int:
    """The version in which a controller at a level of ``metadata.version`` writes this record."""
    kind = type(record)
    if kind is PartitionRecord or kind is PartitionChangeRecord:
        return metadata_version.partition_record_version(level)
    if kind is RegisterBrokerRecord:
        return metadata_version.register_broker_record_version(level)
    if kind is BrokerRegistrationChangeRecord:
        return _registration_change_version(record)
    return 0


def _registration_change_version(record: BrokerRegistrationChangeRecord) -> int:
    """The lowest version that can hold the fields of this record; Kafka's controller chooses it by the kind of
    change."""
    if record.cordoned_log_dirs is not None:
        return 3
    if record.log_dirs:
        return 2
    return 1 if record.in_controlled_shutdown else 0


def image_records(image: MetadataImage) -> Iterator[Any]:
    """All records of a snapshot of this image, in Kafka's order."""
    level = image.level
    yield FeatureLevelRecord(name=metadata_version.FEATURE_NAME, feature_level=level)
    for name, feature_level in image.features.items():
        yield FeatureLevelRecord(name=name, feature_level=feature_level)
    if image.zk_migration_state != NO_MIGRATION:
        yield ZkMigrationStateRecord(zk_migration_state=image.zk_migration_state)
    for broker in image.brokers.values():
        yield broker.to_record(level)
    if level >= metadata_version.CONTROLLER_REGISTRATION:
        for controller in image.controllers.values():
            yield controller.to_record()
    for topic in image.topics_by_id.values():
        yield topic.to_record()
        for partition_id, partition in topic.partitions.items():
            yield partition.to_record(topic.id, partition_id, level, elr_enabled=image.elr_enabled)
    for (resource_type, resource_name), configs in image.configs.items():
        for name, value in configs.items():
            yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
    yield from _kept_records(image, level)


def _kept_records(image: MetadataImage, level: int) -> Iterator[Any]:
    for entity, quotas in image.client_quotas.items():
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        for key, limit in quotas.items():
            yield ClientQuotaRecord(entity=parts, key=key, value=limit, remove=False)
    if image.next_producer_id >= 0:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from image.acls.values()
    if level >= metadata_version.SCRAM:
        yield from image.scram_credentials.values()
    if level >= metadata_version.DELEGATION_TOKENS:
        yield from image.delegation_tokens.values()
