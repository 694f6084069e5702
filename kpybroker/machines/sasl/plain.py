"""SASL PLAIN (RFC 4616) as Kafka speaks it: a user and a password in one message."""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Final

from kpybroker.machines.sasl.exchange import AuthenticationFailed

NAME: Final = "PLAIN"
_PARTS: Final = 3


class PlainServer:
    """The server's half (``PlainSaslServer``)."""

    token_authenticated = False
    expires_ms: int | None = None

    def __init__(self, passwords: Callable[[], Mapping[str, str]]) -> None:
        """``passwords`` returns the password of each user."""
        self._passwords = passwords
        self.is_complete = False
        self.authorization_id = ""

    def respond(self, message: bytes) -> bytes:
        try:
            parts = message.decode().split("\0")
        except UnicodeDecodeError:
            raise AuthenticationFailed("Invalid SASL/PLAIN response: it is not UTF-8") from None
        if len(parts) != _PARTS:
            raise AuthenticationFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        known = self._passwords().get(user)
        # An unknown user takes the same way as a wrong password.
        is_right = hmac.compare_digest(_digest(password if known is None else known), _digest(password))
        if known is None or not is_right:
            why = "no such user" if known is None else "wrong password"
            raise AuthenticationFailed(
                "Authentication failed: Invalid username or password", f"user {user[:64]!r}: {why}"
            )
        if authorization_id and authorization_id != user:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username",
                f"user {user[:64]!r} asked to be {authorization_id[:64]!r}",
            )
        self.authorization_id = user
        self.is_complete = True
        return b""


def _digest(password: str) -> bytes:
    """All digests have the same length, so that the time of a comparison does not depend on that of the password."""
    return hashlib.sha256(password.encode()).digest()


class PlainClient:
    """The client's half."""

    def __init__(self, user: str, password: str) -> None:
        self._message = f"\0{user}\0{password}".encode()
        self.is_complete = False

    def first(self) -> bytes:
        self.is_complete = True
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        """PLAIN has no challenge."""
        del challenge
        return None
