"""The contents of the benchmarks' own frames, read and written by kpywire."""

import struct
from typing import Any

from kpywire.codec import decode, encode
from kpywire.header import decode_request_header, encode_response_header


def body(frame: bytes, message: type[Any]) -> Any:
    """The request in a frame with its size."""
    (size,) = struct.unpack_from(">i", frame)
    assert size == len(frame) - 4
    header = decode_request_header(memoryview(frame)[4:])
    return decode(message, header.api_version, memoryview(frame)[4:], header.end)


def answer(response: Any, api_key: int, version: int) -> bytes:
    """A response as a broker sends it, without its size."""
    return encode_response_header(api_key, version, 7) + encode(response, version)
