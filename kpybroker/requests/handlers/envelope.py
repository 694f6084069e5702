"""Envelope (58), version 0: a client's request to the controller, forwarded by its broker (KIP-590).

- The answer is an envelope, too. Its own error means that the envelope is wrong, or that this node's controller is not
  active. An error of the request inside is in the response inside.
- UNSUPPORTED_VERSION: the request inside cannot be read, or its version is not served. The broker that sent it closes
  the connection of its client, which then asks again which versions are served.
- The sender needs CLUSTER_ACTION. Then the request inside is authorised for the principal and the address inside.
- Apache Kafka's brokers always send envelopes. kpybroker's brokers do with security. Without it they send the request
  as it is, since there is only one principal.
"""

from collections.abc import Generator
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from kpybroker.machines.answered_errors import names_no_controller
from kpybroker.machines.apis import APIS, AT_CONTROLLER, BY_OWNER
from kpybroker.machines.errors import AuthorizerNotReady, KafkaError
from kpybroker.machines.failed_response import failed_response
from kpybroker.requests.handlers import load_for_controller
from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.principal import Principal
from kpybroker.runtime.calls.steps import LARGE_BYTES, Work
from kpywire import api, error_codes
from kpywire.codec import decoder, decoder_in_steps, encoder, encoder_in_steps
from kpywire.errors import Malformed
from kpywire.header import decode_request_header, encode_response_header
from kpywire.messages.default_principal_data import DefaultPrincipalData
from kpywire.messages.envelope import EnvelopeRequest, EnvelopeResponse

FORWARDABLE: Final = frozenset(
    key
    for key, served in APIS.items()
    if served.at_controller is not None and served.at_broker in (AT_CONTROLLER, BY_OWNER)
) | {api.ALLOCATE_PRODUCER_IDS, api.INCREMENTAL_ALTER_CONFIGS}
"""The API keys that may be in an envelope (``ApiKeys.forwardable``)."""
ADDRESS_BYTES: Final = (4, 16)
PRINCIPAL_VERSION: Final = 0
_VERSION_BYTES: Final = 2


class Inside(NamedTuple):
    """The request in an envelope: its header, its bytes, and the position of its body."""

    call: Call
    correlation_id: int
    data: bytes
    position: int

    @property
    def is_large(self) -> bool:
        """Whether the request is read and answered in steps."""
        return len(self.data) > LARGE_BYTES


def handle(controller: Context, request: EnvelopeRequest, call: Call) -> Work:
    """Answer the request inside as if it had come without an envelope."""
    try:
        inside = _opened(request, call)
        message = yield from _read(inside)
    except KafkaError as refusal:
        return EnvelopeResponse(response_data=None, error_code=refusal.code)
    handle_inside = load_for_controller(inside.call.api_key).handle
    if controller.authorizer is not None:
        from kpybroker.requests.guards.stage import guarded_work  # not of a plain start

        handle_inside = guarded_work(controller, inside.call.api_key, handle_inside)
    try:
        response = handle_inside(controller, message, inside.call)
        if isinstance(response, Generator):
            response = yield from response
    except AuthorizerNotReady:
        response = failed_response(message, inside.call.api_version, error_codes.UNKNOWN_SERVER_ERROR)
    if isinstance(response, Pending):
        response = yield response
    if (yield from names_no_controller(response)):
        return EnvelopeResponse(response_data=None, error_code=error_codes.NOT_CONTROLLER)
    data = yield from _written(inside, response)
    return EnvelopeResponse(response_data=data, error_code=error_codes.NONE)


def _opened(request: EnvelopeRequest, call: Call) -> Inside:
    """The request in an envelope. Raises KafkaError with Kafka's code for the first thing that is wrong
    (``EnvelopeUtils``)."""
    principal = _principal(request.request_principal)
    if len(request.client_host_address) not in ADDRESS_BYTES:
        raise KafkaError(error_codes.INVALID_REQUEST, "the client's address in an envelope is none")
    try:
        header = decode_request_header(request.request_data)
    except Malformed as why:
        raise KafkaError(error_codes.UNSUPPORTED_VERSION, str(why)) from None
    key, version = header.api_key, header.api_version
    if key not in api.API_KEYS:
        raise KafkaError(error_codes.UNSUPPORTED_VERSION, f"api key {key} in an envelope")
    if key not in FORWARDABLE:
        raise KafkaError(error_codes.INVALID_REQUEST, f"{api.API_KEYS[key].name} in an envelope")
    first, last = call.versions.get(key, (0, -1))
    if not first <= version <= last:
        raise KafkaError(error_codes.UNSUPPORTED_VERSION, f"{api.API_KEYS[key].name} version {version} in an envelope")
    inner = Call(key, version, header.client_id, call.client, call.peer, call.versions)
    inner.principal, inner.host = principal, str(ip_address(request.client_host_address))
    return Inside(inner, header.correlation_id, request.request_data, header.end)


def _principal(data: bytes | None) -> Principal:
    """The principal in an envelope. Raises KafkaError for one that ``DefaultKafkaPrincipalBuilder`` cannot read."""
    version = -1 if data is None or len(data) < _VERSION_BYTES else int.from_bytes(data[:_VERSION_BYTES])
    if data is None or version != PRINCIPAL_VERSION:
        raise KafkaError(error_codes.PRINCIPAL_DESERIALIZATION_FAILURE, "the principal in an envelope is none")
    try:
        found, _ = decoder(DefaultPrincipalData, version)(data, _VERSION_BYTES)
    except Malformed as why:
        raise KafkaError(error_codes.PRINCIPAL_DESERIALIZATION_FAILURE, str(why)) from None
    return Principal(found.type, found.name, token_authenticated=found.token_authenticated)


def _read(inside: Inside) -> Work:
    """Decode the request."""
    message, version = api.request_class(inside.call.api_key), inside.call.api_version
    try:
        if inside.is_large:
            in_steps = decoder_in_steps(message, version)
            yield None
            return (yield from in_steps(inside.data, inside.position))[0]
        return decoder(message, version)(inside.data, inside.position)[0]
    except Malformed as why:
        raise KafkaError(error_codes.UNSUPPORTED_VERSION, str(why)) from None


def _written(inside: Inside, response: Any) -> Work:
    """Encode the response with its header."""
    key, version = inside.call.api_key, inside.call.api_version
    parts: list[Any] = [encode_response_header(key, version, inside.correlation_id)]
    if inside.is_large:
        in_steps = encoder_in_steps(type(response), version)
        yield None
        yield from in_steps(response, parts)
    else:
        encoder(type(response), version)(response, parts)
    return b"".join(parts)
