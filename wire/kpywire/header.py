"""Request and response headers, which stand between a frame's size and a message's body (KIP-482, KIP-511).

A broker reads one for every request, so these are written by hand instead of compiled from `messages.request_header`; a
test checks that both are equal. The version of a header follows from the API key and version in its first bytes.

Invariant: the first eight bytes and the client id have the same form in every version of every request.
"""

from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final, NamedTuple

from kpywire.api import API_KEYS, API_VERSIONS
from kpywire.errors import Malformed
from kpywire.reading import MAX_STRING_BYTES, skip_tagged_fields
from kpywire.varint import Buffer

MAX_TAGGED_FIELDS: Final = 0x7F  # in a header; Kafka 4.3 knows none

_FIRST: Final = Struct(">hhih")
_CORRELATION_ID: Final = Struct(">i")
_NEVER: Final = 0x7FFF
_tuple = tuple.__new__  # twice as fast as calling the class
_FLEXIBLE_FROM: Final = {key: api.flexible_version for key, api in API_KEYS.items()}


class RequestHeader(NamedTuple):
    """A decoded request header. ``end`` is where the body begins."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    end: int


def request_header_version(api_key: int, api_version: int) -> int:
    """2 (with tagged fields) if the request is of a flexible version, else 1. Unknown APIs count as not flexible."""
    return 2 if api_version >= _FLEXIBLE_FROM.get(api_key, _NEVER) else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """1 (with tagged fields) if the response is of a flexible version, else 0.

    ApiVersions always answers with 0: a client that asks for it cannot know yet what the broker speaks (KIP-511).
    """
    return 1 if api_version >= _FLEXIBLE_FROM.get(api_key, _NEVER) and api_key != API_VERSIONS else 0


def decode_request_header(buffer: Buffer, position: int = 0) -> RequestHeader:
    """The header at ``position``. Malformed if it is cut off or has wrong lengths.

    An API key or version that Kafka does not have is not an error here: the correlation id is needed to answer with
    that error.
    """
    try:
        api_key, api_version, correlation_id, size = _FIRST.unpack_from(buffer, position)
        position += 10
        client_id = None
        if size >= 0:
            client_id = str(buffer[position : position + size], "utf-8", "replace")
            position += size
        if api_version >= _FLEXIBLE_FROM.get(api_key, _NEVER):
            tags = buffer[position]
            position += 1
            if tags:
                position = _skip_tagged_fields(buffer, position, tags)
    except (StructError, IndexError):
        raise Malformed("a request header is cut off") from None
    if position > len(buffer):
        raise Malformed("a request header is cut off")
    return _tuple(RequestHeader, (api_key, api_version, correlation_id, client_id, position))


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """The header of the answer to a request."""
    if response_header_version(api_key, api_version):
        return _CORRELATION_ID.pack(correlation_id) + b"\0"
    return _CORRELATION_ID.pack(correlation_id)


def encode_request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The header of a request. ValueError if the client id is longer than 32 767 bytes."""
    name = b"" if client_id is None else client_id.encode()
    if len(name) > MAX_STRING_BYTES:
        raise ValueError(f"a client id of {len(name)} bytes")
    size = -1 if client_id is None else len(name)
    tags = b"\0" if request_header_version(api_key, api_version) == 2 else b""
    return _FIRST.pack(api_key, api_version, correlation_id, size) + name + tags


def decode_response_header(api_key: int, api_version: int, buffer: Buffer, position: int = 0) -> tuple[int, int]:
    """The correlation id of the response at ``position``, and where its body begins. Malformed if cut off."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(buffer, position)
        position += 4
        if response_header_version(api_key, api_version):
            position = _skip_tagged_fields(buffer, position + 1, buffer[position])
    except (StructError, IndexError):
        raise Malformed("a response header is cut off") from None
    if position > len(buffer):
        raise Malformed("a response header is cut off")
    return correlation_id, position


def _skip_tagged_fields(buffer: Buffer, position: int, count: int) -> int:
    """The position after the tagged fields. A header is read before its sender is known, so it may not keep the broker
    busy."""
    if count > MAX_TAGGED_FIELDS:
        raise Malformed("a header with too many tagged fields")
    return skip_tagged_fields(buffer, position, count)
