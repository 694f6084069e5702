"""The requests of ``kpybroker users``: SCRAM credentials of users (KIP-554). Raises KafkaError.

The password never leaves this process: it is salted and hashed here, and the cluster stores keys that follow from that.
"""

import os
from typing import Final, NamedTuple

from kpybroker.client.client import Client, raise_for
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.sasl.scram import BY_CODE, ScramMechanism
from kpywire import error_codes
from kpywire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kpywire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

SALT_BYTES: Final = 20


class UserCredential(NamedTuple):
    """A mechanism by which a user can log in."""

    user: str
    mechanism: str
    iterations: int


def credentials(client: Client, *users: str) -> list[UserCredential]:
    """The credentials of these users, of all by default. Raises KafkaError if one has none."""
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=each) for each in users] or None)

    def attempt() -> list[UserCredential]:
        answer = client.call(request)
        raise_for(answer.error_code, "users", answer.error_message)
        found = []
        for result in answer.results:
            if result.error_code == error_codes.RESOURCE_NOT_FOUND:
                raise KafkaError(result.error_code, f"user {result.user} has no SCRAM credential")
            raise_for(result.error_code, f"user {result.user}", result.error_message)
            for info in result.credential_infos:
                known = BY_CODE.get(info.mechanism)
                name = f"mechanism {info.mechanism}" if known is None else known.name
                found.append(UserCredential(result.user, name, info.iterations))
        return sorted(found)

    return client.retrying(attempt)


def set_password(client: Client, user: str, password: str, mechanism: ScramMechanism, iterations: int) -> None:
    """Let a user log in by a mechanism with this password, and with no other one. Raises KafkaError."""
    salt = os.urandom(SALT_BYTES)
    salted = mechanism.salted_password(password, salt, iterations)
    upsertion = ScramCredentialUpsertion(
        name=user, mechanism=mechanism.code, iterations=iterations, salt=salt, salted_password=salted
    )
    _alter(client, AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))


def remove(client: Client, user: str, mechanism: ScramMechanism) -> None:
    """Let a user log in by a mechanism no longer. Raises KafkaError."""
    deletion = ScramCredentialDeletion(name=user, mechanism=mechanism.code)
    _alter(client, AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))


def _alter(client: Client, request: AlterUserScramCredentialsRequest) -> None:
    def attempt() -> None:
        for result in client.call(request).results:
            raise_for(result.error_code, f"user {result.user}", result.error_message)

    client.retrying(attempt)
