"""At every level of metadata.version a controller writes only records, in versions, that nodes of that level can read.

Which level allows what is held against Kafka's own classes by tests/metadata/test_metadata_facts.py.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from controller_requests import change, create, widen
from controller_world import ControllerWorld, directory_of, topic_request

from kpybroker.machines.controller.activation import activation_records
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.image import image_of
from kpybroker.machines.metadata.image_records import image_records, record_version
from kpybroker.machines.metadata.metadata_version import VERSIONS
from kpybroker.machines.metadata.topic import MIGRATING_DIRECTORY
from kpywire import error_codes
from kpywire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kpywire.messages.controller_registration import ControllerRegistrationRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.unregister_broker import UnregisterBrokerRequest
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kpywire.metadata_records import decode_record, encode_record
from kpywire.metadata_records.begin_transaction_record import BeginTransactionRecord
from kpywire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.register_broker_record import RegisterBrokerRecord
from kpywire.metadata_records.register_controller_record import RegisterControllerRecord

LEVELS = [version.level for version in VERSIONS]
TOPIC = 2
SET = 0


def requests(world: ControllerWorld) -> Iterator[Any]:
    """One of everything that writes, after three brokers came; broker 3 has two directories."""
    yield create(topic_request("t", assignments={0: [1, 2], 1: [2, 3]}), topic_request("gone", 1, 1))
    yield change(TOPIC, "t", ("retention.ms", SET, "1000"))
    yield widen(("t", 3, [[3, 1]]))
    moved = ReassignablePartition(partition_index=0, replicas=[1, 3])
    yield AlterPartitionReassignmentsRequest(timeout_ms=1_000, topics=[ReassignableTopic(name="t", partitions=[moved])])
    yield DeleteTopicsRequest(timeout_ms=1_000, topics=[DeleteTopicState(name="gone", topic_id=bytes(16))])
    yield AllocateProducerIdsRequest(broker_id=1, broker_epoch=world.image.brokers[1].epoch)
    yield ControllerRegistrationRequest(
        controller_id=1, incarnation_id=b"c" * 16, zk_migration_ready=False, listeners=[], features=[]
    )
    yield world.registration(2, incarnation_id=b"n" * 16)


def lived_at(level: int) -> ControllerWorld:
    """A controller of this level that was asked for everything; its log."""
    world = ControllerWorld(level)
    world.start_brokers(1, 2)
    world.start_brokers(3, log_dirs=[directory_of(3), directory_of(3, 1)])
    for request in requests(world):
        world.send(request)
        world.pass_time(20_000, 1, 3)
    world.heartbeat(3, offline_log_dirs=[directory_of(3, 1)])
    world.heartbeat(3, cordoned_log_dirs=[directory_of(3)])
    world.heartbeat(1, want_shut_down=True)
    world.send(UnregisterBrokerRequest(broker_id=2))
    return world


def through_bytes(records: Iterable[Any], level: int) -> list[Any]:
    return [decode_record(encode_record(record, record_version(record, level))) for record in records]


@pytest.mark.parametrize("level", LEVELS)
def test_records_have_only_fields_of_their_version(level: int) -> None:
    world = lived_at(level)
    assert through_bytes(world.log, level) == world.log
    snapshot = list(image_records(world.image))
    assert through_bytes(snapshot, level) == snapshot
    again, _ = image_of(snapshot, world.image.cluster_id, world.image.next_offset)
    assert again.state() == world.image.state()


@pytest.mark.parametrize("level", LEVELS)
def test_records_and_fields_appear_with_the_level_that_brings_them(level: int) -> None:
    log = lived_at(level).log
    kinds = {type(record) for record in log}
    assert {RegisterBrokerRecord, PartitionRecord, PartitionChangeRecord, BrokerRegistrationChangeRecord} <= kinds
    assert (RegisterControllerRecord in kinds) == (level >= metadata_version.CONTROLLER_REGISTRATION)
    with_directories = {bool(record.directories) for record in log if type(record) is PartitionRecord}
    assert with_directories == {level >= metadata_version.DIRECTORY_ASSIGNMENT}
    registered = {bool(record.log_dirs) for record in log if type(record) is RegisterBrokerRecord}
    assert registered == {level >= metadata_version.DIRECTORY_ASSIGNMENT}
    changes = [record for record in log if type(record) is BrokerRegistrationChangeRecord]
    versions = {record_version(record, level) for record in changes}
    allowed = {2: metadata_version.DIRECTORY_ASSIGNMENT, 3: metadata_version.CORDONED_LOG_DIRS}
    assert versions == {0, 1, *(version for version, lowest in allowed.items() if level >= lowest)}


@pytest.mark.parametrize("level", LEVELS)
def test_bootstrap_records_are_a_transaction_where_there_are_such(level: int) -> None:
    world = ControllerWorld(level)
    world.image.metadata_version = None
    records = activation_records(world.state, [FeatureLevelRecord(name="metadata.version", feature_level=level)])
    assert (type(records[0]) is BeginTransactionRecord) == (level >= metadata_version.TRANSACTIONS)


@pytest.mark.parametrize("level", LEVELS)
def test_records_written_before_an_upgrade_are_read_after_it(level: int) -> None:
    world = lived_at(level)
    update = FeatureUpdateKey(feature="metadata.version", max_version_level=metadata_version.LATEST)
    assert world.send(UpdateFeaturesRequest(timeout_ms=1, feature_updates=[update])).error_code == error_codes.NONE
    snapshot = list(image_records(world.image))
    assert through_bytes(snapshot, metadata_version.LATEST) == snapshot
    for partition in world.image.topics["t"].partitions.values():
        known = set(partition.directories) != {MIGRATING_DIRECTORY}
        assert known == (level >= metadata_version.DIRECTORY_ASSIGNMENT)
    world.register(3)  # as the incarnation does that finds itself registered without directories
    assert world.image.brokers[3].directories == (directory_of(3),)
