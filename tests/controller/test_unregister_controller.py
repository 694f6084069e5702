"""UnregisterController: who may go, at which level, and that the record says so (KIP-1312)."""

import pytest
from controller_world import ControllerWorld

from kpywire import error_codes
from kpywire.messages.unregister_controller import UnregisterControllerRequest
from kpywire.metadata_records.register_controller_record import RegisterControllerRecord
from kpywire.metadata_records.unregister_controller_record import UnregisterControllerRecord

ACTIVE = 1


def world_with(*controllers: int, level: int = 33) -> ControllerWorld:
    world = ControllerWorld(level)
    world.write(
        [
            RegisterControllerRecord(
                controller_id=each, incarnation_id=bytes(16), zk_migration_ready=False, end_points=[], features=[]
            )
            for each in controllers
        ]
    )
    assert world.state.settings.node_id == ACTIVE
    return world


def test_a_controller_is_forgotten_and_the_log_says_so() -> None:
    world = world_with(ACTIVE, 7)
    answer = world.send(UnregisterControllerRequest(controller_id=7))
    assert (answer.error_code, answer.error_message) == (error_codes.NONE, "")
    assert world.log[-1] == UnregisterControllerRecord(controller_id=7)
    assert list(world.image.controllers) == [ACTIVE]


@pytest.mark.parametrize(
    ("level", "controller", "code", "text"),
    [
        (33, 8, error_codes.CONTROLLER_ID_NOT_REGISTERED, "Controller ID 8 is not currently registered."),
        (33, -1, error_codes.CONTROLLER_ID_NOT_REGISTERED, "Controller ID -1 is not currently registered."),
        (33, ACTIVE, error_codes.INVALID_REQUEST, "Controller cannot unregister itself while it is active."),
        (32, ACTIVE, error_codes.INVALID_REQUEST, "Controller cannot unregister itself while it is active."),
        (
            32,
            7,
            error_codes.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller unregistration.",
        ),
    ],
)
def test_the_refusals_are_kafkas(level: int, controller: int, code: int, text: str) -> None:
    world = world_with(ACTIVE, 7, level=level)
    before = list(world.log)
    answer = world.send(UnregisterControllerRequest(controller_id=controller))
    assert (answer.error_code, answer.error_message) == (code, text)
    assert world.log == before
