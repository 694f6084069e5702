"""AlterUserScramCredentials: users fail one by one, one change each; only keys are stored, and nothing shows them."""

from typing import Any

import pytest
from controller_world import ControllerWorld

from kpybroker.machines.controller.error_responses import plain_error_response
from kpybroker.machines.sasl.scram import SCRAM_SHA_256, SCRAM_SHA_512
from kpywire import error_codes
from kpywire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

TWICE = "A user credential cannot be altered twice in the same request"
SALT = b"a salt of some bytes"
SALTED = SCRAM_SHA_256.salted_password("correct horse", SALT, 4096)


def upsertion(
    name: str, mechanism: int = 1, iterations: int = 4096, salted: bytes = SALTED
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=salted
    )


def deletion(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(world: ControllerWorld, *changes: Any) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    return {each.user: (each.error_code, each.error_message) for each in world.send(request).results}


def users(world: ControllerWorld) -> set[tuple[int, str]]:
    return set(world.image.scram_credentials)


def test_the_keys_of_a_password_are_stored_and_not_the_password() -> None:
    world = ControllerWorld()
    assert alter(world, upsertion("alice"), upsertion("bob", mechanism=2, iterations=16384)) == {
        "alice": (0, None),
        "bob": (0, None),
    }
    record = world.image.scram_credentials[1, "alice"]
    expected = SCRAM_SHA_256.credential(SALTED, SALT, 4096)
    assert (record.stored_key, record.server_key, record.salt) == (expected.stored_key, expected.server_key, SALT)
    assert world.image.scram_credentials[2, "bob"].stored_key == SCRAM_SHA_512.credential(SALTED, SALT, 1).stored_key
    assert alter(world, deletion("alice")) == {"alice": (0, None)}
    assert users(world) == {(2, "bob")}


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        (upsertion("a", iterations=4095), error_codes.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsertion("a", iterations=16385), error_codes.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (
            upsertion("a", salted=b""),
            error_codes.UNACCEPTABLE_CREDENTIAL,
            "Salted password must not be empty",
        ),
        (upsertion(""), error_codes.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (deletion("", 7), error_codes.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsertion("a", mechanism=0), error_codes.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (deletion("a", mechanism=3), error_codes.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (
            deletion("a"),
            error_codes.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
    ],
)
def test_a_wrong_change_fails_alone(change: Any, code: int, text: str) -> None:
    world = ControllerWorld()
    assert alter(world, change, upsertion("good")) == {change.name: (code, text), "good": (0, None)}
    assert users(world) == {(1, "good")}


def test_a_user_is_changed_once_in_a_request() -> None:
    world = ControllerWorld()
    alter(world, upsertion("a"))
    twice = (error_codes.DUPLICATE_RESOURCE, TWICE)
    assert alter(world, upsertion("b", 1), upsertion("b", 2), upsertion("c")) == {"b": twice, "c": (0, None)}
    assert alter(world, deletion("a"), upsertion("a", 2)) == {"a": twice}
    assert alter(world, deletion("a"), deletion("a"), upsertion("a")) == {"a": twice}
    missing = error_codes.RESOURCE_NOT_FOUND
    assert alter(world, deletion("d"), upsertion("d"))["d"][0] == missing, "the first error counts"
    assert users(world) == {(1, "a"), (1, "c")}


def test_metadata_older_than_scram_take_no_credentials() -> None:
    world = ControllerWorld(level=10)
    text = "The current metadata.version does not support SCRAM"
    assert alter(world, upsertion("a")) == {"a": (error_codes.UNSUPPORTED_VERSION, text)}
    assert not users(world)


def test_a_refused_request_names_each_user_once() -> None:
    request = AlterUserScramCredentialsRequest(deletions=[deletion("a")], upsertions=[upsertion("a"), upsertion("b")])
    refused = plain_error_response(request, 0, error_codes.NOT_CONTROLLER)
    assert [(each.user, each.error_code) for each in refused.results] == [("a", 41), ("b", 41)]


def test_neither_requests_nor_records_show_secrets() -> None:
    world = ControllerWorld()
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion("alice")])
    world.send(request)
    record = world.image.scram_credentials[1, "alice"]
    for shown in (repr(request), repr(record)):
        assert "alice" in shown
        for secret in (SALTED, record.stored_key, record.server_key):
            assert repr(secret)[2:-1] not in shown
