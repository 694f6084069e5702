"""Envelope: API key 58."""

from __future__ import annotations

from kpywire.schema import field, i16, message


@message(key=58, versions="0", flexible="0+")
class EnvelopeRequest:
    """Request struct for forwarding."""

    request_data: bytes  # The embedded request header and data.
    request_principal: bytes | None  # Value of the initial client principal when the request is redirected by a broker.
    client_host_address: bytes  # The original client's address in bytes.


@message(key=58, versions="0", flexible="0+")
class EnvelopeResponse:
    """Response struct for forwarding."""

    response_data: bytes | None = field(default=None)  # The embedded response header and data.
    error_code: i16  # The error code, or 0 if there was no error.
