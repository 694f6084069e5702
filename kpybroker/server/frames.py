"""Request frames as far as a connection looks at them: a size, an api key, and what is no frame at all.

Not their content, which is the dispatcher's. Invariant: a size is checked before anything is done with it.
"""

from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from kpybroker.server.connection import Connection
    from kpybroker.server.outbox import Reply
    from kpybroker.server.pending import Pending

PRODUCE: Final = 0
FETCH: Final = 1
END_TXN: Final = 26
WHOLE: Final = frozenset((PRODUCE, FETCH))
"""Requests that are decided in one piece, whatever their size."""
LARGE_BYTES: Final = 2 * 1024
"""From here on any other request is worked on in pieces."""
SMALLEST_FRAME_BYTES: Final = 8
"""Api key, version and correlation id: less is not a request."""
SIZE: Final = Struct(">i")
_API_KEY: Final = Struct(">h")


class CloseConnection(Exception):
    """The peer broke the protocol: close, with this one line in the log. Kafka answers such input the same way."""


class Dispatch(Protocol):
    """Serves one request frame (header and body, without its size). The buffer is valid only during the call.

    Returns the reply's buffers, a `Pending` that resolves to them, or None when the request has no reply.
    Raises `CloseConnection` when the peer does not speak Kafka.
    """

    def __call__(self, connection: "Connection", frame: memoryview) -> "Reply | Pending | None": ...


def checked_size(buffer: memoryview | bytearray, position: int, most_bytes: int) -> int:
    """The size that a frame claims. Raises `CloseConnection` where no request has it."""
    size: int = SIZE.unpack_from(buffer, position)[0]
    if size < SMALLEST_FRAME_BYTES or size > most_bytes:
        hint = _looks_like(bytes(buffer[position : position + 4]))
        raise CloseConnection(f"not a request: its frame claims {size} bytes{hint}")
    return size


def api_key_at(view: memoryview, position: int) -> int:
    """The api key of the request whose header begins here."""
    api_key: int = _API_KEY.unpack_from(view, position)[0]
    return api_key


def _looks_like(start: bytes) -> str:
    """A hint for the log: what the first four bytes are when they are not the size of a request."""
    if start[:2] == b"\x16\x03":
        return " (a TLS handshake on a plaintext listener?)"
    if start in (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"PRI "):
        return " (HTTP on a Kafka listener?)"
    return ""
