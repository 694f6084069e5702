"""The secret of delegation tokens (KIP-48). Every node has it, and a token's HMAC follows from it and the token's id.

So the metadata hold no HMAC: a copy of the log lets nobody log in.
"""

import hmac
from base64 import b64encode
from typing import Final

SALT_BYTES: Final = 20


class TokenSecret:
    """``delegation.token.secret.key``, which is the same on all nodes."""

    __slots__ = ("_key", "_key_of_salts")

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._key_of_salts = hmac.digest(self._key, b"salts of SCRAM", "sha512")

    def hmac_of(self, token_id: str) -> bytes:
        """The proof that somebody owns this token."""
        return hmac.digest(self._key, token_id.encode(), "sha512")

    def password_of(self, token_id: str) -> str:
        """The password of somebody who logs in by this token: its HMAC in base64."""
        return b64encode(self.hmac_of(token_id)).decode()

    def salt_of(self, mechanism: str, token_id: str) -> bytes:
        """The salt for logins by a token, the same on all nodes, whether or not there is such a token."""
        return hmac.digest(self._key_of_salts, f"{mechanism} {token_id}".encode(), "sha512")[:SALT_BYTES]

    def __repr__(self) -> str:
        return "TokenSecret([hidden])"
