"""One client's login and its session: what Kafka answers, in which order, and when the connection ends.

This is the state machine of ``SaslServerAuthenticator``, with reauthentication (KIP-368). Frames, sockets and timers
are elsewhere (`kpybroker.requests.dispatching.login`): here is asked what to do with a request, by its API key, and
then with its content.

======== ==============================================================================================
FIRST    ApiVersions and SaslHandshake are served, nothing else
CHOSEN   a mechanism was chosen by SaslHandshake: its messages come in SaslAuthenticate
RAW      a mechanism was chosen by SaslHandshake v0: its messages come as frames without a header
OTHER    SaslHandshake of a reauthentication chose another mechanism: the next frame ends the connection
DONE     the client is logged in; after its session only a reauthentication is served
ENDED    the login has failed: nothing more is served
======== ==============================================================================================
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from kpybroker.machines.sasl.exchange import (
    AuthenticationFailed,
    CredentialRefused,
    InvalidCredentials,
    RefusalAcknowledged,
    ServerExchange,
    TryAgain,
)
from kpywire import api
from kpywire.error_codes import (
    NONE,
    SASL_AUTHENTICATION_FAILED,
    UNSUPPORTED_SASL_MECHANISM,
)

REAUTHENTICATES_EVERY_MS: Final = 1_000
"""A connection may begin a reauthentication this long after it began the one before."""


class LoginState(Enum):
    """See the table above."""

    FIRST = "first"
    CHOSEN = "chosen"
    RAW = "raw"
    OTHER = "other"
    DONE = "done"
    ENDED = "ended"


class Verdict(Enum):
    """The ways to treat a request."""

    SERVE = "serve"
    """Serve it like any other request."""
    HANDSHAKE = "handshake"
    """Decode it, and call `Login.handshake`."""
    AUTHENTICATE = "authenticate"
    """Decode it, and call `Login.authenticate`."""
    REFUSE = "refuse"
    """Answer it with ILLEGAL_SASL_STATE, late, and close the connection."""
    CLOSE = "close"
    """Close the connection without an answer; `Login.reason` says why."""
    EXPIRED = "expired"
    """Close the connection without an answer: the session is over."""


# Members that are read for each request: a member of an Enum is found by a search in its class.
_FIRST: Final = LoginState.FIRST
_CHOSEN: Final = LoginState.CHOSEN
_DONE: Final = LoginState.DONE
_SERVE: Final = Verdict.SERVE
_HANDSHAKE: Final = Verdict.HANDSHAKE
_AUTHENTICATE: Final = Verdict.AUTHENTICATE


class LoginTerms(NamedTuple):
    """The demands of one listener."""

    exchanges: Mapping[str, Callable[[], ServerExchange]]
    """The enabled mechanisms, in the order of the configuration, each with a function that begins an exchange."""
    reauth_ms: Mapping[str, int]
    """``connections.max.reauth.ms`` of the mechanisms; 0 for no limit."""
    blocking: frozenset[str] = frozenset()
    """The mechanisms whose exchanges may read files: `Login.attempt` is called in a thread."""


class Now(NamedTuple):
    """A moment: of a clock that never goes back, and in ms since the epoch."""

    monotonic_ms: float
    epoch_ms: int


class LoginAnswer(NamedTuple):
    """The answer to a request of the login."""

    error_code: int = NONE
    text: str = ""
    """The words for the client; empty if there is no error, as in Kafka."""
    token: bytes = b""
    lifetime_ms: int = 0
    """The time after which the client has to authenticate again; 0 for never."""
    failure: str = ""
    """The reason for the log, if the login has failed: the answer is late, and the connection is closed after it."""
    refusal: str = ""
    """The reason for the log, if a credential was refused although the login goes on."""
    is_known: bool = False
    """Whether the failure was reported before, as a refusal."""
    is_silent: bool = False
    """Whether the connection is closed without the answer."""


class Login:
    """The login of one connection."""

    __slots__ = (
        "_again_at_ms", "_exchange", "_expires_ms", "_mechanism_before", "_terms", "mechanism", "reason", "state",
        "token_authenticated", "user",
    )  # fmt: skip

    def __init__(self, terms: LoginTerms) -> None:
        self._terms = terms
        self._exchange: ServerExchange | None = None
        self._expires_ms: float | None = None
        self._again_at_ms = 0.0
        self._mechanism_before = ""
        self.state = LoginState.FIRST
        self.mechanism = ""
        """The chosen one."""
        self.user = ""
        """The name of the principal, once the client is logged in."""
        self.token_authenticated = False
        """Whether a delegation token was used."""
        self.reason = ""
        """The reason of the verdict CLOSE."""

    @property
    def has_session(self) -> bool:
        """Whether the client has to authenticate again some time."""
        return self._expires_ms is not None

    @property
    def may_block(self) -> bool:
        """Whether the next message of the mechanism is for a thread."""
        return self.mechanism in self._terms.blocking

    def judge(self, api_key: int, now_ms: float) -> Verdict:
        """Decide how a request of this kind is treated. ``now_ms`` is of the clock that never goes back, and not older
        than the end of the login: nothing is served in a session that is over when it begins."""
        state = self.state
        if state is _DONE:
            expires_ms = self._expires_ms
            if expires_ms is None:
                return _SERVE
            if api_key == api.SASL_HANDSHAKE and now_ms >= self._again_at_ms:
                return _HANDSHAKE
            return Verdict.EXPIRED if now_ms >= expires_ms else _SERVE
        if state is _FIRST:
            if api_key == api.API_VERSIONS:
                return _SERVE
            if api_key == api.SASL_HANDSHAKE:
                return _HANDSHAKE
            self.reason = f"{_name(api_key)} is its first request, but it has to log in first"
        elif state is _CHOSEN:
            return _AUTHENTICATE if api_key == api.SASL_AUTHENTICATE else Verdict.REFUSE
        elif state is LoginState.OTHER:
            self.reason = f"it cannot change from {self._mechanism_before} to {self.mechanism} in a reauthentication"
        else:
            self.reason = "its login has failed"
        self.state = LoginState.ENDED
        return Verdict.CLOSE

    def refuse(self, api_key: int) -> str:
        """The login ends by a request that does not belong here. Return the reason."""
        self.state = LoginState.ENDED
        return f"{_name(api_key)} between SaslHandshake and SaslAuthenticate"

    def handshake(self, version: int, mechanism: str, now_ms: float) -> LoginAnswer:
        """SaslHandshake: the answer carries the enabled mechanisms, too."""
        if self.state is LoginState.DONE:
            self._again_at_ms = now_ms + REAUTHENTICATES_EVERY_MS
            self._mechanism_before = self.mechanism
        new_exchange = self._terms.exchanges.get(mechanism)
        if new_exchange is None:
            self.state = LoginState.ENDED
            enabled = ", ".join(self._terms.exchanges)
            return LoginAnswer(
                UNSUPPORTED_SASL_MECHANISM, failure=f"the mechanism {mechanism[:64]!r} is not enabled, only {enabled}"
            )
        self.mechanism = mechanism
        if self._mechanism_before not in ("", mechanism):
            self.state = LoginState.OTHER
            return LoginAnswer()
        self._exchange = new_exchange()
        self.state = LoginState.CHOSEN if version > 0 else LoginState.RAW
        return LoginAnswer()

    def authenticate(self, token: bytes, now: Now) -> LoginAnswer:
        """SaslAuthenticate, or a frame without a header: a message of the mechanism."""
        return self.settle(self.attempt(token), now)

    def attempt(self, token: bytes) -> bytes | AuthenticationFailed:
        """Take a message of the mechanism, in any thread. Return the reply; `settle` draws the consequences."""
        exchange = self._exchange
        assert exchange is not None
        try:
            return exchange.respond(token)
        except AuthenticationFailed as failed:
            return failed

    def settle(self, outcome: bytes | AuthenticationFailed, now: Now) -> LoginAnswer:
        """The answer to the message whose outcome this is."""
        exchange = self._exchange
        assert exchange is not None
        try:
            if isinstance(outcome, AuthenticationFailed):
                raise outcome
            if not exchange.is_complete:
                return LoginAnswer(token=outcome)
            _check_alive(exchange, self.mechanism, now)
            self._check_principal(exchange.authorization_id)
        except CredentialRefused as refused:
            return LoginAnswer(token=refused.challenge, refusal=refused.reason)
        except AuthenticationFailed as failed:
            self.state = LoginState.ENDED
            self._exchange = None
            text = failed.text
            if self._mechanism_before and isinstance(failed, InvalidCredentials):
                text = failed.text_again
            return LoginAnswer(
                SASL_AUTHENTICATION_FAILED,
                text,
                failed.final,
                failure=failed.reason,
                is_known=isinstance(failed, RefusalAcknowledged),
                is_silent=isinstance(failed, TryAgain),
            )
        self.state = LoginState.DONE
        self._exchange = None
        self.user = exchange.authorization_id
        self.token_authenticated = exchange.token_authenticated
        return LoginAnswer(token=outcome, lifetime_ms=self._begin_session(exchange.expires_ms, now))

    def _check_principal(self, user: str) -> None:
        if self._mechanism_before and user != self.user:
            raise AuthenticationFailed(
                f"Cannot change principals during re-authentication from User.{self.user}: User.{user}",
                f"user {self.user[:64]!r} cannot become {user[:64]!r} in a reauthentication",
            )

    def _begin_session(self, expires_ms: int | None, now: Now) -> int:
        """Begin the session. Return its lifetime, in ms; 0 if there is no limit, or if the credential has expired
        already: a signed token within the clock skew (KAFKA-13848). Such a session is over at once."""
        limits = [] if expires_ms is None else [expires_ms - now.epoch_ms]
        reauth_ms = self._terms.reauth_ms.get(self.mechanism, 0)
        if reauth_ms > 0:
            limits.append(reauth_ms)
        if not limits:
            self._expires_ms = None
            return 0
        lifetime_ms = max(0, min(limits))
        self._expires_ms = now.monotonic_ms + lifetime_ms
        return lifetime_ms


def _check_alive(exchange: ServerExchange, mechanism: str, now: Now) -> None:
    """Raise InvalidCredentials for a delegation token that has expired: no clock skew is granted to the cluster's own
    clock, and the controller may remove the token much later."""
    expires_ms = exchange.expires_ms
    if exchange.token_authenticated and expires_ms is not None and now.epoch_ms >= expires_ms:
        user, late_ms = exchange.authorization_id, now.epoch_ms - expires_ms
        raise InvalidCredentials(mechanism, f"the delegation token of user {user[:64]!r} expired {late_ms} ms ago")


def _name(api_key: int) -> str:
    known = api.API_KEYS.get(api_key)
    return f"API key {api_key}" if known is None else known.name
