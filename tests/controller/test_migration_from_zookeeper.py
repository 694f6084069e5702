"""The controller during a migration from ZooKeeper (KIP-866): who may register, what waits, and how it ends."""

from typing import Any

import pytest
from controller_world import ControllerWorld, topic_request

from kpybroker.machines.controller.activation import activation_records
from kpybroker.machines.controller.migration import left_behind
from kpybroker.machines.metadata.image import MIGRATION, NO_MIGRATION, POST_MIGRATION, PRE_MIGRATION
from kpywire import error_codes
from kpywire.messages.create_topics import CreateTopicsRequest
from kpywire.metadata_records.zk_migration_state_record import ZkMigrationStateRecord

LEVEL = 21


def world(migration_state: int, *, migrates: bool = True) -> ControllerWorld:
    made = ControllerWorld(LEVEL, migrates_from_zookeeper=migrates)
    made.write([ZkMigrationStateRecord(zk_migration_state=migration_state)])
    return made


@pytest.mark.parametrize(
    ("migration_state", "migrates", "in_zookeeper_mode", "in_kraft_mode"),
    [
        (NO_MIGRATION, False, False, True),
        (PRE_MIGRATION, True, True, False),
        (PRE_MIGRATION, False, False, False),
        (MIGRATION, True, True, True),
        (MIGRATION, False, False, True),
        (POST_MIGRATION, True, False, True),
    ],
)
def test_brokers_of_each_mode_register_only_when_they_may(
    migration_state: int, migrates: bool, in_zookeeper_mode: bool, in_kraft_mode: bool
) -> None:
    made = world(migration_state, migrates=migrates)
    for is_migrating, is_admitted in ((True, in_zookeeper_mode), (False, in_kraft_mode)):
        answer: Any = made.send(made.registration(5 + is_migrating, is_migrating_zk_broker=is_migrating))
        assert (answer.error_code == error_codes.NONE) is is_admitted, (is_migrating, answer)
        if not is_admitted:
            assert answer.error_code == error_codes.BROKER_ID_NOT_REGISTERED


def test_changes_of_the_metadata_wait_for_the_copy() -> None:
    request = CreateTopicsRequest(topics=[topic_request("t", 1, 1)], timeout_ms=1_000, validate_only=False)
    answer: Any = world(PRE_MIGRATION).send(request)
    assert answer.topics[0].error_code == error_codes.NOT_CONTROLLER


def test_a_controller_that_is_not_configured_for_it_ends_the_migration() -> None:
    assert activation_records(world(MIGRATION).state, []) == []
    (record,) = activation_records(world(MIGRATION, migrates=False).state, [])
    assert record == ZkMigrationStateRecord(zk_migration_state=POST_MIGRATION)
    assert activation_records(world(PRE_MIGRATION, migrates=False).state, []) == []


def test_brokers_in_zookeeper_mode_that_are_alive_would_be_left_behind() -> None:
    made = world(MIGRATION)
    made.register(7, is_migrating_zk_broker=True)
    assert left_behind(made.state.image) == [], "it is fenced yet"
    made.state.image.brokers[7] = made.state.image.brokers[7].changed(fenced=False)
    assert left_behind(made.state.image) == [7]
    made.state.image.zk_migration_state = POST_MIGRATION
    assert left_behind(made.state.image) == []
