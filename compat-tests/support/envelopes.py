"""Envelopes as Kafka's brokers send them to a controller, with one thing wrong in each."""

from typing import Any

from kpywire.codec import encode
from kpywire.header import encode_request_header
from kpywire.messages.default_principal_data import DefaultPrincipalData
from kpywire.messages.envelope import EnvelopeRequest

CORRELATION_ID = 0x5EA1ED
ADDRESS = bytes((127, 0, 0, 1))
PRINCIPAL = b"\0\0" + encode(DefaultPrincipalData(type="User", name="ANONYMOUS", token_authenticated=False), 0)


def inside(request: Any, version: int) -> bytes:
    """A request with its header."""
    return encode_request_header(type(request).KEY, version, CORRELATION_ID, "inside") + encode(request, version)


def envelope_of(request: Any, version: int, **changes: Any) -> EnvelopeRequest:
    """An envelope around a request; ``changes`` are of the envelope."""
    whole = {
        "request_data": inside(request, version),
        "request_principal": PRINCIPAL,
        "client_host_address": ADDRESS,
        **changes,
    }
    return EnvelopeRequest(**whole)
