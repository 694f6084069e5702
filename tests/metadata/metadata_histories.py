"""Random histories of metadata records, each record possible after those before it."""

from typing import Any

from hypothesis import strategies as st

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import BROKER_RESOURCE, KRAFT_VERSION, TOPIC_RESOURCE, MetadataImage
from kpywire.metadata_records.abort_transaction_record import AbortTransactionRecord
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord
from kpywire.metadata_records.begin_transaction_record import BeginTransactionRecord
from kpywire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kpywire.metadata_records.clear_elr_record import ClearElrRecord
from kpywire.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.delegation_token_record import DelegationTokenRecord
from kpywire.metadata_records.end_transaction_record import EndTransactionRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.fence_broker_record import FenceBrokerRecord
from kpywire.metadata_records.no_op_record import NoOpRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.producer_ids_record import ProducerIdsRecord
from kpywire.metadata_records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from kpywire.metadata_records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
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

UUIDS = st.binary(min_size=16, max_size=16)
NAMES = st.sampled_from(["a", "b.c", "b_c", "__consumer_offsets", "orders"])
IDS = st.integers(0, 4)
REPLICAS = st.lists(IDS, min_size=1, max_size=4, unique=True)
SOME = st.none() | st.lists(IDS, max_size=3, unique=True)
TEXTS = st.text("xyz", max_size=3)


def apply_all(records: list[Any], cluster_id: str = "cluster") -> MetadataImage:
    """The image after a history that begins at offset 0."""
    image = MetadataImage(cluster_id)
    for offset, record in enumerate(records):
        image.apply(record, offset, MetadataDelta())
    return image


@st.composite
def histories(draw: st.DrawFn, level: int = 33, max_size: int = 30) -> list[Any]:
    """Records from an empty log on; the first one sets ``metadata.version``."""
    image = MetadataImage("cluster")
    records: list[Any] = []

    def add(record: Any) -> None:
        image.apply(record, len(records), MetadataDelta())
        records.append(record)

    add(FeatureLevelRecord(name="metadata.version", feature_level=level))
    for _ in range(draw(st.integers(0, max_size))):
        record = draw(_next_record(image, level))
        if record is not None:
            add(record)
    if image.transaction_offset >= 0:
        add(draw(st.sampled_from([EndTransactionRecord(), AbortTransactionRecord(reason="r")])))
    return records


def _next_record(image: MetadataImage, level: int) -> st.SearchStrategy[Any]:
    choices = [_topics(image, level), _brokers(image, level), _small(image)]
    if level >= 15:
        choices.append(_controllers())
    if level >= 33 and image.controllers:
        choices.append(st.builds(UnregisterControllerRecord, controller_id=st.sampled_from(sorted(image.controllers))))
    choices.append(_kept(image, level))
    if image.transaction_offset >= 0:
        # What is held back has not changed the image: only records that need nothing of it may follow.
        choices = [_small(image), st.just(EndTransactionRecord()), st.just(AbortTransactionRecord())]
    return st.one_of(choices)


@st.composite
def _topics(draw: st.DrawFn, image: MetadataImage, level: int) -> Any:
    topics = list(image.topics.values())
    free = [name for name in ("a", "b.c", "b_c", "__consumer_offsets", "orders") if name not in image.topics]
    if free and (not topics or draw(st.booleans())):
        return TopicRecord(
            name=draw(st.sampled_from(free)), topic_id=draw(UUIDS.filter(lambda one: one not in image.topics_by_id))
        )
    topic = draw(st.sampled_from(topics))
    if draw(st.integers(0, 9)) == 0:
        return RemoveTopicRecord(topic_id=topic.id)
    if not topic.partitions or draw(st.booleans()):
        return draw(_partitions(topic.id, len(topic.partitions), level))
    if level >= 23 and draw(st.integers(0, 9)) == 0:
        return ClearElrRecord(topic_name=draw(st.sampled_from(["", topic.name])))
    return draw(_partition_changes(topic.id, draw(st.sampled_from(sorted(topic.partitions))), level, image))


@st.composite
def _partitions(draw: st.DrawFn, topic_id: bytes, partition_id: int, level: int) -> PartitionRecord:
    replicas = draw(REPLICAS)
    directories = draw(st.lists(UUIDS, min_size=len(replicas), max_size=len(replicas)))
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=replicas,
        isr=draw(st.just(replicas) | st.lists(st.sampled_from(replicas), min_size=1, unique=True)),
        removing_replicas=draw(st.lists(IDS, max_size=2, unique=True)),
        adding_replicas=draw(st.lists(IDS, max_size=2, unique=True)),
        leader=draw(st.sampled_from([*replicas, -1])),
        leader_recovery_state=draw(st.integers(0, 1)),
        leader_epoch=draw(st.integers(0, 100)),
        partition_epoch=draw(st.integers(0, 100)),
        directories=directories if level >= 17 else [],
        eligible_leader_replicas=draw(SOME) if level >= 23 else None,
        last_known_elr=draw(SOME) if level >= 23 else None,
    )


@st.composite
def _partition_changes(
    draw: st.DrawFn, topic_id: bytes, partition_id: int, level: int, image: MetadataImage
) -> PartitionChangeRecord:
    count = len(image.topics_by_id[topic_id].partitions[partition_id].replicas)
    directories = draw(st.none() | st.lists(UUIDS, min_size=count, max_size=count))
    return PartitionChangeRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        isr=draw(SOME),
        leader=draw(st.integers(-2, 4)),
        removing_replicas=draw(SOME),
        adding_replicas=draw(SOME),
        leader_recovery_state=draw(st.integers(-1, 1)),
        directories=directories if level >= 17 else None,
        eligible_leader_replicas=draw(SOME) if level >= 23 else None,
        last_known_elr=draw(SOME) if level >= 23 else None,
    )


@st.composite
def _brokers(draw: st.DrawFn, image: MetadataImage, level: int) -> Any:
    brokers = list(image.brokers.values())
    if not brokers or draw(st.booleans()):
        return RegisterBrokerRecord(
            broker_id=draw(IDS),
            incarnation_id=draw(UUIDS),
            broker_epoch=draw(st.integers(0, 100)),
            end_points=[
                BrokerEndpoint(name=name, host=draw(TEXTS), port=draw(st.integers(0, 65535)), security_protocol=0)
                for name in draw(st.lists(st.sampled_from(["A", "B"]), unique=True))
            ],
            features=[
                BrokerFeature(name=name, min_supported_version=0, max_supported_version=draw(IDS))
                for name in draw(st.lists(st.sampled_from(["f", "g"]), unique=True))
            ],
            rack=draw(st.none() | TEXTS),
            fenced=draw(st.booleans()),
            in_controlled_shutdown=draw(st.booleans()),
            log_dirs=draw(st.lists(UUIDS, max_size=2)) if level >= 17 else [],
            cordoned_log_dirs=draw(st.none() | st.lists(UUIDS, max_size=2)) if level >= 30 else None,
        )
    broker = draw(st.sampled_from(brokers))
    identity = {"broker_id": broker.id, "broker_epoch": broker.epoch}
    return draw(
        st.sampled_from(
            [
                UnregisterBrokerRecord(**identity),
                FenceBrokerRecord(id=broker.id, epoch=broker.epoch),
                UnfenceBrokerRecord(id=broker.id, epoch=broker.epoch),
                BrokerRegistrationChangeRecord(**identity, fenced=draw(st.integers(-1, 1))),
                BrokerRegistrationChangeRecord(**identity, in_controlled_shutdown=draw(st.integers(0, 1))),
                BrokerRegistrationChangeRecord(
                    **identity,
                    log_dirs=draw(st.lists(UUIDS, max_size=2)) if level >= 17 else [],
                    cordoned_log_dirs=draw(st.none() | st.lists(UUIDS, max_size=2)) if level >= 30 else None,
                ),
            ]
        )
    )


@st.composite
def _controllers(draw: st.DrawFn) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=draw(IDS),
        incarnation_id=draw(UUIDS),
        zk_migration_ready=draw(st.booleans()),
        end_points=[ControllerEndpoint(name="C", host=draw(TEXTS), port=9093, security_protocol=0)],
        features=[ControllerFeature(name="f", min_supported_version=0, max_supported_version=1)],
    )


@st.composite
def _small(draw: st.DrawFn, image: MetadataImage) -> Any:
    return draw(
        st.sampled_from(
            [
                ConfigRecord(
                    resource_type=draw(st.sampled_from([TOPIC_RESOURCE, BROKER_RESOURCE])),
                    resource_name=draw(st.sampled_from(["", "a", "1"])),
                    name=draw(st.sampled_from(["retention.ms", "segment.ms"])),
                    value=draw(st.none() | TEXTS),
                ),
                FeatureLevelRecord(name=draw(st.sampled_from(["x", "y", KRAFT_VERSION])), feature_level=draw(IDS)),
                NoOpRecord(),
                ZkMigrationStateRecord(zk_migration_state=draw(st.integers(0, 3))),
                ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=10**9 + draw(st.integers(0, 10**9)))
                if image.next_producer_id < 0 and image.transaction_offset < 0
                else NoOpRecord(),
                BeginTransactionRecord(name="t") if image.transaction_offset < 0 else NoOpRecord(),
            ]
        )
    )


@st.composite
def _kept(draw: st.DrawFn, image: MetadataImage, level: int) -> Any:
    entity = [EntityData(entity_type="user", entity_name=draw(st.none() | st.just("u")))]
    choices: list[Any] = [
        AccessControlEntryRecord(
            id=draw(UUIDS),
            resource_type=2,
            resource_name=draw(TEXTS),
            pattern_type=3,
            principal="User:u",
            host="*",
            operation=3,
            permission_type=3,
        ),
        ClientQuotaRecord(entity=entity, key="k", value=float(draw(IDS)), remove=draw(st.booleans())),
    ]
    if image.acls:
        choices.append(RemoveAccessControlEntryRecord(id=draw(st.sampled_from(sorted(image.acls)))))
    if level >= 11:
        name, mechanism = draw(TEXTS), draw(st.integers(1, 2))
        choices.append(
            UserScramCredentialRecord(
                name=name, mechanism=mechanism, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
            )
        )
        choices.append(RemoveUserScramCredentialRecord(name=name, mechanism=mechanism))
    if level >= 14:
        choices.append(
            DelegationTokenRecord(
                owner="User:o",
                requester="User:r",
                renewers=["User:n"],
                issue_timestamp=1,
                max_timestamp=3,
                expiration_timestamp=2,
                token_id=draw(TEXTS),
            )
        )
        choices.append(RemoveDelegationTokenRecord(token_id=draw(TEXTS)))
    return draw(st.sampled_from(choices))
