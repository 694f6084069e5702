"""SaslAuthenticate: API key 36."""

from __future__ import annotations

from kpywire.schema import field, i16, i64, message, string


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    """Version 2 adds flexible version support"""

    auth_bytes: bytes  # The SASL authentication bytes from the client, as defined by the SASL mechanism.


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """Version 1 adds the session lifetime.
    Version 2 adds flexible version support
    """

    error_code: i16  # The error code, or 0 if there was no error.
    error_message: string | None  # The error message, or null if there was no error.
    auth_bytes: bytes  # The SASL authentication bytes from the server, as defined by the SASL mechanism.
    # Number of milliseconds after which only re-authentication over the existing connection to create a new session can
    # occur.
    session_lifetime_ms: i64 = field("1+", default=0, ignorable=True)
