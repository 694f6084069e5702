"""Logins by delegation token: SCRAM with the token's id for a user, and its HMAC in base64 for a password (KIP-48).

A credential is derived at the first login by a token and a mechanism, which takes a millisecond or two, and is kept
while there is room. Kafka derives those of all tokens as soon as it reads them.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from kpybroker.machines.sasl.delegation_token import TokenSecret
from kpybroker.machines.sasl.scram import MECHANISMS, MIN_ITERATIONS, ScramCredential, ScramMechanism
from kpybroker.machines.sasl.scram_server import ScramLogin

MOST_KEPT: Final = 2_048
_OWNERS: Final = "User:"


class StoredToken(Protocol):
    """A DelegationTokenRecord."""

    owner: str
    max_timestamp: int
    expiration_timestamp: int


class TokenLogins:
    """The logins of one node."""

    def __init__(self, secret: TokenSecret, token_of: Callable[[str], StoredToken | None]) -> None:
        """``token_of`` finds a token by its id."""
        self._secret = secret
        self._token_of = token_of
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        """By mechanism and id of the token; the ones used last are at the end."""

    def find(self, mechanism: ScramMechanism, token_id: str) -> ScramLogin | None:
        """The login of a token's owner; None if there is no such token, or if its owner is no user."""
        token = self._token_of(token_id)
        if token is None or not token.owner.startswith(_OWNERS):
            return None
        key = mechanism.name, token_id
        credential = self._credentials.pop(key, None) or self._derived(mechanism, token_id)
        if len(self._credentials) >= MOST_KEPT:
            del self._credentials[next(iter(self._credentials))]
        self._credentials[key] = credential
        return ScramLogin(
            credential,
            token.owner.removeprefix(_OWNERS),
            token_authenticated=True,
            expires_ms=min(token.expiration_timestamp, token.max_timestamp),
        )

    def made_up(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        """The credential of a token that does not exist. No password fits it."""
        salt = self._secret.salt_of(mechanism.name, token_id)
        return ScramCredential(salt, salt, salt, MIN_ITERATIONS)

    def forget(self, token_ids: Iterable[str]) -> None:
        """These tokens are gone."""
        for token_id in token_ids:
            for name in MECHANISMS:
                self._credentials.pop((name, token_id), None)

    def _derived(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        salt = self._secret.salt_of(mechanism.name, token_id)
        salted = mechanism.salted_password(self._secret.password_of(token_id), salt, MIN_ITERATIONS)
        return mechanism.credential(salted, salt, MIN_ITERATIONS)
