"""Brokers, controllers and directories as their records describe them, at each level of ``metadata.version``."""

from typing import Any

import pytest

from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.broker import BrokerRegistration, ControllerRegistration, FeatureRange
from kpybroker.machines.metadata.topic import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    RESERVED_DIRECTORIES,
    UNASSIGNED_DIRECTORY,
    Partition,
    Topic,
    directory_is_online,
    directory_is_reserved,
)
from kpywire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kpywire.metadata_records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from kpywire.metadata_records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)

ONE, TWO = b"1" * 16, b"2" * 16


def registration(**fields: Any) -> RegisterBrokerRecord:
    known: dict[str, Any] = {
        "broker_id": 3, "is_migrating_zk_broker": True, "incarnation_id": b"i" * 16, "broker_epoch": 9,
        "end_points": [BrokerEndpoint(name="A", host="a", port=1, security_protocol=2)],
        "features": [BrokerFeature(name="f", min_supported_version=1, max_supported_version=4)],
        "rack": "r", "fenced": True, "in_controlled_shutdown": True, "log_dirs": [ONE, TWO],
        "cordoned_log_dirs": [ONE],
    }  # fmt: skip
    return RegisterBrokerRecord(**known | fields)


@pytest.mark.parametrize(
    ("level", "log_dirs", "cordoned"),
    [(16, [], None), (17, [ONE, TWO], None), (29, [ONE, TWO], None), (30, [ONE, TWO], [ONE])],
)
def test_a_broker_is_written_as_it_registered_as_far_as_the_level_goes(
    level: int, log_dirs: list[bytes], cordoned: list[bytes] | None
) -> None:
    expected = registration(log_dirs=log_dirs, cordoned_log_dirs=cordoned)
    assert BrokerRegistration(registration(), 5).to_record(level) == expected


def test_a_controller_is_written_as_it_registered() -> None:
    record = RegisterControllerRecord(
        controller_id=3, incarnation_id=b"i" * 16, zk_migration_ready=True,
        end_points=[ControllerEndpoint(name="C", host="c", port=1, security_protocol=2)],
        features=[ControllerFeature(name="f", min_supported_version=1, max_supported_version=4)],
    )  # fmt: skip
    assert ControllerRegistration.from_record(record).to_record() == record


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ({"fenced": -1}, {"fenced": False}),
        ({"fenced": 1}, {}),
        ({"in_controlled_shutdown": 1}, {}),
        ({"log_dirs": [TWO]}, {"log_dirs": [TWO]}),
        ({"log_dirs": []}, {}),
        ({"cordoned_log_dirs": []}, {"cordoned_log_dirs": []}),
    ],
)
def test_a_change_record_of_a_broker_alters_only_its_own_fields(
    change: dict[str, Any], changed: dict[str, Any]
) -> None:
    broker = BrokerRegistration(registration(), 5)
    merged = broker.merge(BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=9, **change))
    assert merged.to_record(33) == registration(**changed)
    assert merged.registered_offset == 5
    assert broker.to_record(33) == registration()
    assert (merged == broker) is not bool(changed)


def test_brokers_are_equal_whatever_the_offset_of_their_registration() -> None:
    broker = BrokerRegistration(registration(), 5)
    assert broker == BrokerRegistration(registration(), 6)
    assert broker != BrokerRegistration(registration(rack="other"), 5)
    assert broker != "a broker"
    assert Topic("t", ONE) != Topic("u", ONE)
    assert Topic("t", ONE) != "a topic"
    assert Partition([1], [1], 1) != "a partition"


@pytest.mark.parametrize(("fenced", "leaving", "is_active"), [(False, False, True), (True, False, False),
                                                              (False, True, False), (True, True, False)])  # fmt: skip
def test_a_broker_may_lead_unless_it_is_fenced_or_leaves(fenced: bool, leaving: bool, is_active: bool) -> None:
    broker = BrokerRegistration(registration(fenced=fenced, in_controlled_shutdown=leaving), 5)
    assert broker.is_active is is_active


@pytest.mark.parametrize(
    ("log_dirs", "cordoned", "has_room"),
    [([], [ONE], True), ([ONE], None, True), ([ONE], [ONE], False), ([ONE, TWO], [ONE], True), ([ONE], [], True)],
)
def test_new_replicas_go_where_a_directory_is_not_cordoned(
    log_dirs: list[bytes], cordoned: list[bytes] | None, has_room: bool
) -> None:
    broker = BrokerRegistration(registration(log_dirs=log_dirs, cordoned_log_dirs=cordoned), 5)
    assert broker.has_uncordoned_directory is has_room


def test_a_replica_is_usable_in_a_directory_that_works_and_in_one_that_is_not_known_yet() -> None:
    assert [directory_is_online(each, [ONE]) for each in (ONE, TWO)] == [True, False]
    assert [directory_is_online(each, []) for each in (ONE, TWO)] == [True, True]
    assert [directory_is_online(each, [ONE]) for each in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)] == [True, True]
    assert [directory_is_online(LOST_DIRECTORY, known) for known in ([], [ONE], [LOST_DIRECTORY])] == [False] * 3
    broker = BrokerRegistration(registration(log_dirs=[ONE]), 5)
    assert (broker.can_use(ONE), broker.can_use(TWO)) == (True, False)


def test_the_first_hundred_ids_of_directories_name_none() -> None:
    numbers = (0, RESERVED_DIRECTORIES - 1, RESERVED_DIRECTORIES)
    assert [directory_is_reserved(each.to_bytes(16, "big")) for each in numbers] == [True, True, False]


def test_partitions_without_one_known_directory_are_migrating() -> None:
    known = [MIGRATING_DIRECTORY, ONE]
    for given, kept in (([], [MIGRATING_DIRECTORY] * 2), ([MIGRATING_DIRECTORY], [MIGRATING_DIRECTORY] * 2),
                        (known, known)):  # fmt: skip
        assert Partition([1, 2], [1], 1, directories=given).directories == tuple(kept)
    with pytest.raises(ValueError, match="do not match"):
        Partition([1, 2, 3], [1], 1, directories=known)


def test_the_directory_of_a_replica_is_that_of_its_broker() -> None:
    partition = Partition([4, 5], [4], 4, directories=[ONE, TWO])
    assert [partition.directory_of(each) for each in (4, 5)] == [ONE, TWO]
    with pytest.raises(ValueError, match="not in tuple"):
        partition.directory_of(6)


def test_a_range_of_levels_has_both_its_ends() -> None:
    assert [each in FeatureRange(1, 3) for each in (0, 1, 3, 4, "1")] == [False, True, True, False, False]


def test_levels_have_names_from_the_first_to_the_last() -> None:
    names = {level: metadata_version.name_of(level) for level in range(7, metadata_version.LATEST + 1)}
    assert (names[7], names[29], names[33]) == ("3.3-IV3", "4.2-IV1", "4.4-IV2")
    for level in (6, metadata_version.LATEST + 1):
        with pytest.raises(KeyError):
            metadata_version.name_of(level)


@pytest.mark.parametrize(("level", "version"), [(7, 1), (8, 2), (16, 2), (17, 3), (29, 3), (30, 4), (33, 4)])
def test_registrations_are_written_in_the_version_of_their_level(level: int, version: int) -> None:
    assert metadata_version.register_broker_record_version(level) == version
