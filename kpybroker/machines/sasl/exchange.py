"""Both halves of one SASL exchange, whatever the mechanism."""

from typing import Protocol


class AuthenticationFailed(Exception):
    """A login that failed. ``text`` is for the other side, ``reason`` for this side's log: it may say more, such as
    whether the user exists, and never holds a secret. ``final`` are the last bytes of the mechanism, if it has any for
    a failure."""

    def __init__(self, text: str, reason: str | None = None, final: bytes = b"") -> None:
        super().__init__(text)
        self.text = text
        self.reason = text if reason is None else reason
        self.final = final


class InvalidCredentials(AuthenticationFailed):
    """A failed login whose cause the client does not learn, so that it cannot tell which users exist."""

    def __init__(self, mechanism: str, reason: str) -> None:
        super().__init__(_during("authentication", mechanism), reason)
        self.text_again = _during("re-authentication", mechanism)
        """The text in a reauthentication."""


class CredentialRefused(AuthenticationFailed):
    """A credential that is refused in a challenge: the mechanism lets the client acknowledge it, or offer another one,
    before the login fails."""

    def __init__(self, challenge: bytes, reason: str) -> None:
        super().__init__(reason)
        self.challenge = challenge


class RefusalAcknowledged(AuthenticationFailed):
    """The client has acknowledged a `CredentialRefused`, which is in the log already."""


class TryAgain(AuthenticationFailed):
    """A failed login that may succeed in a moment: the client gets no answer, and connects again by itself."""


def _during(what: str, mechanism: str) -> str:
    return f"Authentication failed during {what} due to invalid credentials with SASL mechanism {mechanism}"


class ServerExchange(Protocol):
    """The server's half. It begins with the client's first message."""

    is_complete: bool
    """Whether the client is authenticated: the fields below are valid."""
    authorization_id: str
    """The name of the principal."""
    token_authenticated: bool
    """Whether a delegation token was used."""
    expires_ms: int | None
    """The time at which the credential expires, in ms since the epoch; None if it does not."""

    def respond(self, message: bytes) -> bytes:
        """The answer to a message of the client. Raises AuthenticationFailed."""


class ClientExchange(Protocol):
    """The client's half."""

    is_complete: bool
    """Whether the server has proved what the mechanism lets it prove; nothing more is to be sent."""

    def first(self) -> bytes:
        """The first message."""

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to a challenge; None after the last one. Raises AuthenticationFailed if the server is not the one
        that knows the credential, or says why it refuses."""
