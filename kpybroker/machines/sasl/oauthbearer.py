"""SASL OAUTHBEARER (RFC 7628) as Kafka speaks it: a token in one message, in either direction.

A token that is not accepted is refused in a challenge, as JSON. The client acknowledges it with one byte, and only then
the login fails. Many clients leave without that byte. How tokens are checked is elsewhere.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kpybroker.machines.sasl.exchange import (
    AuthenticationFailed,
    CredentialRefused,
    InvalidCredentials,
    RefusalAcknowledged,
)

NAME: Final = "OAUTHBEARER"
INVALID_TOKEN: Final = "invalid_token"
INSUFFICIENT_SCOPE: Final = "insufficient_scope"
AUTH_KEY: Final = "auth"
LONGEST_MS: Final = (2**63 - 1) // 1_000_000
"""The longest life of a token, 292 years: Kafka counts nanoseconds, and closes the connection where it is longer."""
_ACKNOWLEDGEMENT: Final = b"\x01"
_KEY: Final = r"[A-Za-z]+"
_VALUE: Final = r"[\x21-\x7e \t\r\n]+"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization_id>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01(?P<pairs>(?:{_KEY}={_VALUE}\x01)*)\x01"
)
_AUTH: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_EXTENSION: Final = re.compile(rf"(?P<key>{_KEY})={_VALUE}")
_SHOWN_CHARS: Final = 200
_LOGGED_CHARS: Final = 1_000
"""A name of this length is said to the client as it is: its whole text must fit into a response."""


class ValidToken(NamedTuple):
    """The principal of a valid token, and its end."""

    principal: str
    expires_ms: int
    """The time at which it expires, in ms since the epoch."""


class TokenRefused(Exception):
    """A token that is not accepted. ``reason`` is for the log of this node, and never holds the token. ``status`` and
    ``scope`` are for the client."""

    def __init__(self, reason: str, status: str = INVALID_TOKEN, scope: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.scope = scope


Validate = Callable[[str], ValidToken]
"""Checks a token. Raises TokenRefused."""


class BearerClientFirst(NamedTuple):
    """``n,a=authorization id,^Aauth=Bearer token^Akey=value^A^A``."""

    token: str
    authorization_id: str = ""
    extensions: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"ClientFirst([hidden], {self.authorization_id!r}, {self.extensions!r})"

    def encode(self) -> bytes:
        pairs = [(AUTH_KEY, f"Bearer {self.token}"), *self.extensions]
        authorization_field = f"a={self.authorization_id}" if self.authorization_id else ""
        return f"n,{authorization_field},\x01{''.join(f'{key}={value}{chr(1)}' for key, value in pairs)}\x01".encode()


def decode_client_first(message: bytes) -> BearerClientFirst:
    """Raises ValueError with a reason that holds no part of the message."""
    found = _FIRST.fullmatch(message.decode(errors="replace"))
    if found is None:
        raise ValueError("its first message is none of OAUTHBEARER")
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair)
    auth = pairs.pop(AUTH_KEY, None)
    if auth is None:
        raise ValueError("its first message has no token (auth)")
    bearer = _AUTH.fullmatch(auth)
    if bearer is None:
        raise ValueError("the token of its first message has not the form of a bearer token")
    return BearerClientFirst(bearer["token"], found["authorization_id"] or "", tuple(pairs.items()))


def check_extensions(extensions: Mapping[str, str]) -> None:
    """Raise ValueError for SASL extensions (KIP-342) that cannot be sent."""
    for key, value in extensions.items():
        if key == AUTH_KEY or _EXTENSION.fullmatch(f"{key}={value}") is None:
            raise ValueError(f"the SASL extension {key[:64]!r} has a name or a value that cannot be sent")


class OAuthBearerServer:
    """The server's half (``OAuthBearerSaslServer``). Extensions of the client are accepted and have no effect."""

    token_authenticated = False

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._refusal = ""
        self.is_complete = False
        self.authorization_id = ""
        self.expires_ms: int | None = None

    def respond(self, message: bytes) -> bytes:
        if self._refusal and message == _ACKNOWLEDGEMENT:
            raise RefusalAcknowledged(self._refusal)
        self._refusal = ""
        try:
            first = decode_client_first(message)
        except ValueError as why:
            raise InvalidCredentials(NAME, str(why)) from None
        try:
            token = self._validate(first.token)
        except TokenRefused as refused:
            scope = "" if refused.scope is None else f', "scope":"{refused.scope}"'
            self._refusal = f'{{"status":"{refused.status}"{scope}}}'
            raise CredentialRefused(self._refusal.encode(), refused.reason) from None
        asked = first.authorization_id
        if asked and asked != token.principal:
            raise AuthenticationFailed(
                f"Authentication failed: Client requested an authorization id ({asked[:_LOGGED_CHARS]}) that is "
                f"different from the token's principal name ({token.principal[:_LOGGED_CHARS]})",
                f"the token is of {token.principal[:64]!r}, who asked to be {asked[:64]!r}",
            )
        self.authorization_id = token.principal
        self.expires_ms = token.expires_ms
        self.is_complete = True
        return b""


class OAuthBearerClient:
    """The client's half (``OAuthBearerSaslClient``)."""

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        """Raises ValueError for extensions that cannot be sent."""
        check_extensions(extensions or {})
        self._first = BearerClientFirst(token, extensions=tuple((extensions or {}).items()))
        self._refusal = ""
        self.is_complete = False

    def first(self) -> bytes:
        return self._first.encode()

    def respond(self, challenge: bytes) -> bytes | None:
        if self._refusal:
            raise AuthenticationFailed(f"the server refuses the token: {self._refusal}")
        if challenge:
            self._refusal = ascii(challenge[:_SHOWN_CHARS].decode(errors="replace"))
            return _ACKNOWLEDGEMENT
        self.is_complete = True
        return None
