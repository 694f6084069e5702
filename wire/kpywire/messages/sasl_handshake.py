"""SaslHandshake: API key 17."""

from __future__ import annotations

from kpywire.schema import i16, message, string


@message(key=17, versions="0-1")
class SaslHandshakeRequest:
    """Version 1 supports SASL_AUTHENTICATE. NOTE: Version cannot be easily bumped due to incorrect client
    negotiation for clients <= 2.4. See https://issues.apache.org/jira/browse/KAFKA-9577
    """

    mechanism: string  # The SASL mechanism chosen by the client.


@message(key=17, versions="0-1")
class SaslHandshakeResponse:
    """NOTE: Version cannot be easily bumped due to incorrect client negotiation for clients <= 2.4. See
    https://issues.apache.org/jira/browse/KAFKA-9577
    """

    error_code: i16  # The error code, or 0 if there was no error.
    mechanisms: list[string]  # The mechanisms enabled in the server.
