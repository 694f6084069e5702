"""A request that came with a level of ``metadata.version`` is served from that level on, and not one below it."""

from collections.abc import Callable

import pytest
from controller_world import ControllerWorld, directory_of
from test_controller import empty_state, version_record
from test_delegation_tokens import TokenWorld
from test_scram_credentials import alter, deletion, upsertion

from kpybroker.machines.controller import controller as deciding
from kpybroker.machines.controller.activation import activation_records
from kpybroker.machines.metadata import metadata_version
from kpywire import error_codes
from kpywire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from kpywire.messages.controller_registration import ControllerRegistrationRequest
from kpywire.metadata_records.begin_transaction_record import BeginTransactionRecord


def scram(level: int) -> int:
    return alter(ControllerWorld(level=level), upsertion("alice"))["alice"][0]


def delegation_token(level: int) -> int:
    return int(TokenWorld(level=level).create().error_code)


def controller(level: int) -> int:
    request = ControllerRegistrationRequest(
        controller_id=5, incarnation_id=bytes(16), zk_migration_ready=False, listeners=[], features=[]
    )
    return int(ControllerWorld(level=level).send(request).error_code)


def directories(level: int) -> int:
    world = ControllerWorld(level=level).start_brokers(1)
    epoch = world.image.brokers[1].epoch
    request = AssignReplicasToDirsRequest(broker_id=1, broker_epoch=epoch, directories=[])
    return int(world.send(request).error_code)


@pytest.mark.parametrize(
    ("ask", "level"),
    [
        (scram, metadata_version.SCRAM),
        (delegation_token, metadata_version.DELEGATION_TOKENS),
        (controller, metadata_version.CONTROLLER_REGISTRATION),
        (directories, metadata_version.DIRECTORY_ASSIGNMENT),
    ],
)
def test_a_request_is_served_from_its_level_on(ask: Callable[[int], int], level: int) -> None:
    assert ask(level) == error_codes.NONE
    assert ask(level - 1) == error_codes.UNSUPPORTED_VERSION


@pytest.mark.parametrize("below", [False, True])
def test_directories_are_registered_and_checked_from_their_level_on(*, below: bool) -> None:
    world = ControllerWorld(level=metadata_version.DIRECTORY_ASSIGNMENT - below).start_brokers(1)
    assert bool(world.image.brokers[1].directories) is not below
    answer = world.send(world.registration(2, log_dirs=[directory_of(1)]))
    assert answer.error_code == (error_codes.NONE if below else error_codes.INVALID_REGISTRATION)


@pytest.mark.parametrize("below", [False, True])
def test_directories_are_cordoned_from_their_level_on(*, below: bool) -> None:
    world = ControllerWorld(level=metadata_version.CORDONED_LOG_DIRS - below).start_brokers(1)
    before = len(world.log)
    world.heartbeat(1, cordoned_log_dirs=[directory_of(1)])
    assert len(world.log) - before == (0 if below else 1)
    if not below:
        world.heartbeat(1, cordoned_log_dirs=[directory_of(1)])
        assert len(world.log) - before == 1, "it is no news"
        assert world.image.brokers[1].cordoned_directories == (directory_of(1),)


@pytest.mark.parametrize(("level", "records"), [(13, 3), (12, 1)])
def test_an_empty_log_begins_with_a_transaction_from_its_level_on(level: int, records: int) -> None:
    assert len(activation_records(empty_state(), [version_record(level)])) == records


@pytest.mark.parametrize(("level", "is_wrapped"), [(13, True), (12, False)])
@pytest.mark.parametrize(("most", "is_large"), [(1, True), (2, False)])
def test_more_records_than_a_batch_holds_are_a_transaction(
    monkeypatch: pytest.MonkeyPatch, level: int, most: int, *, is_wrapped: bool, is_large: bool
) -> None:
    monkeypatch.setattr(deciding, "RECORDS_IN_PLAIN_BATCH", most)
    world = ControllerWorld(level=level)
    before = len(world.log)
    alter(world, upsertion("a"), upsertion("b"))
    written = world.log[before:]
    assert isinstance(written[0], BeginTransactionRecord) is (is_wrapped and is_large)
    assert len(written) == (4 if is_wrapped and is_large else 2)
    assert set(world.image.scram_credentials) == {(1, "a"), (1, "b")}


def test_changes_after_a_user_that_is_named_twice_are_applied() -> None:
    world = ControllerWorld()
    found = alter(world, deletion("a"), upsertion("a"), upsertion("a", 2), upsertion("b"), upsertion("c", 2))
    assert {name: code for name, (code, _) in found.items()} == {
        "a": error_codes.RESOURCE_NOT_FOUND,
        "b": error_codes.NONE,
        "c": error_codes.NONE,
    }
