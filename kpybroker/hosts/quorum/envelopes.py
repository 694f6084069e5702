"""Envelopes: requests of clients on their way from a broker to the controller of another node (KIP-590).

An envelope has the client's request with its header, its principal and its address. The controller authorises the
broker, then the client (Kafka's ``ForwardingManager``, ``EnvelopeUtils``). This is the side of the broker;
`kpybroker.requests.handlers.envelope` is that of the controller.
"""

from ipaddress import IPv6Address, ip_address
from typing import Any, Final

from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.principal import Principal
from kpywire import api, codec
from kpywire.header import decode_response_header, encode_request_header
from kpywire.messages.default_principal_data import DefaultPrincipalData
from kpywire.messages.envelope import EnvelopeRequest

PRINCIPAL_VERSION: Final = 0
_VERSION_BYTES: Final = 2
_NO_ADDRESS: Final = bytes(4)
_CORRELATION_ID: Final = 0
"""An envelope has one request, so its answer cannot be taken for another."""


def envelope_of(request: Any, call: Call) -> EnvelopeRequest:
    """The envelope with a client's request, in the version of its call."""
    header = encode_request_header(call.api_key, call.api_version, _CORRELATION_ID, call.client_id)
    return EnvelopeRequest(
        request_data=header + codec.encode(request, call.api_version),
        request_principal=encoded_principal(call.principal),
        client_host_address=packed_address(call.host),
    )


def opened(data: bytes, call: Call) -> Any:
    """The response in an envelope. Raises Malformed."""
    _, start = decode_response_header(call.api_key, call.api_version, data)
    return codec.decode(api.response_class(call.api_key), call.api_version, data, start)


def encoded_principal(principal: Principal) -> bytes:
    """The bytes of a principal, with their version in front (``DefaultKafkaPrincipalBuilder``)."""
    fields = DefaultPrincipalData(
        type=principal.principal_type,
        name=principal.name,
        token_authenticated=principal.token_authenticated,
    )
    return PRINCIPAL_VERSION.to_bytes(_VERSION_BYTES, "big") + codec.encode(fields, PRINCIPAL_VERSION)


def packed_address(host: str) -> bytes:
    """The 4 or 16 bytes of an address; an IPv4 address in IPv6 has 4, as in Java."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return _NO_ADDRESS
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address.packed if mapped is None else mapped.packed
