"""SASL GSSAPI (RFC 4752): Kerberos proves who both sides are, and then they agree on no security layer, as in Kafka.

The messages of Kerberos itself are made elsewhere, by a `GssContext` (`kpybroker.security.kerberos`). First its tokens
go back and forth until it is complete. Then the server offers security layers in a wrapped message, and the client
chooses.

Invariant: a server is complete only after its context is, and after a wrapped choice of no security layer.
"""

from collections.abc import Callable
from typing import Final, Protocol

from kpybroker.machines.sasl.exchange import AuthenticationFailed, InvalidCredentials, TryAgain
from kpybroker.machines.sasl.kerberos_names import NoUser, ShortNamer
from kpybroker.machines.sasl.krb5_login import MECHANISM

NO_LAYER: Final = 1
"""The bit of "no security layer" among the layers."""
OFFER: Final = bytes((NO_LAYER, 0, 0, 0))
"""The layers, and the largest message that the sender takes behind one: 0 without a layer."""
RETRIABLE: Final = frozenset((21, 33, 34))
"""Kerberos' codes of failures that may be over in a moment, as in Kafka's ``KerberosError``: a client or a ticket that
is not valid yet, and a message that was there before."""


class GssFailure(Exception):
    """A step that failed. ``code`` is Kerberos' own number of the error; 0 if there is none."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class GssContext(Protocol):
    """One side of a security context. All methods may block, and raise GssFailure."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing more has to be exchanged."""

    def step(self, token: bytes) -> bytes:
        """Take a token, which is empty for the first step of a client. Return the token for the other side."""

    def initiator(self) -> str:
        """The name of the client's principal."""

    def wrap(self, message: bytes) -> bytes:
        """A message whose integrity is protected."""

    def unwrap(self, message: bytes) -> bytes:
        """The content of such a message of the other side."""


class GssapiServer:
    """The server's half (the JDK's ``GssKrb5Server`` with Kafka's callbacks). The name for which a client asks does not
    count: its principal does, as in Kafka."""

    token_authenticated = False
    expires_ms: int | None = None

    def __init__(self, new_context: Callable[[], GssContext], namer: ShortNamer) -> None:
        self._new_context = new_context
        self._namer = namer
        self._context: GssContext | None = None
        self._has_offered = False
        self.is_complete = False
        self.authorization_id = ""

    def respond(self, message: bytes) -> bytes:
        try:
            return self._next(message)
        except GssFailure as why:
            if why.code in RETRIABLE:
                raise TryAgain(str(why)) from None
            raise InvalidCredentials(MECHANISM, str(why)) from None

    def _next(self, message: bytes) -> bytes:
        context = self._context
        if context is None:
            context = self._context = self._new_context()
        if self._has_offered:
            return self._finish(context, message)
        if not context.is_complete:
            if not message:
                raise InvalidCredentials(MECHANISM, "an empty message in place of a token")
            token = context.step(message)
            if token or not context.is_complete:
                return token
        elif message:
            raise InvalidCredentials(MECHANISM, "a token after the security context was complete")
        self._has_offered = True
        return context.wrap(OFFER)

    def _finish(self, context: GssContext, message: bytes) -> bytes:
        choice = context.unwrap(message)
        principal = context.initiator()
        if len(choice) < len(OFFER):
            raise InvalidCredentials(MECHANISM, f"principal {principal[:64]!r}: its choice of a layer is too short")
        if choice[0] != NO_LAYER:
            raise InvalidCredentials(MECHANISM, f"principal {principal[:64]!r}: it demands a security layer")
        try:
            self.authorization_id = self._namer.user_of(principal)
        except NoUser as why:
            raise AuthenticationFailed(
                f"Failed to set name for '{principal}' based on Kerberos authentication rules.", str(why)
            ) from None
        self.is_complete = True
        return b""


class GssapiClient:
    """The client's half. Its first message may need a ticket from the KDC, so it may block."""

    def __init__(self, new_context: Callable[[], GssContext]) -> None:
        self._new_context = new_context
        self._context: GssContext | None = None
        self._has_chosen = False
        self.is_complete = False

    def first(self) -> bytes:
        try:
            context = self._context = self._new_context()
            return context.step(b"")
        except GssFailure as why:
            raise AuthenticationFailed(str(why)) from None

    def respond(self, challenge: bytes) -> bytes | None:
        context = self._context
        assert context is not None
        if self._has_chosen:
            self.is_complete = True
            return None
        try:
            if not context.is_complete:
                return context.step(challenge)
            offer = context.unwrap(challenge)
            if len(offer) != len(OFFER) or not offer[0] & NO_LAYER:
                raise AuthenticationFailed("the server demands a security layer, which Kafka does not have")
            self._has_chosen = True
            return context.wrap(OFFER)
        except GssFailure as why:
            raise AuthenticationFailed(str(why)) from None
