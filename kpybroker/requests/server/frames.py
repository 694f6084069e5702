"""Request frames, as a connection sees them: their sizes, and how to recognise bytes that are no frame.

The dispatcher reads their content. Invariant: a size is checked before it is used.
"""

from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from kpybroker.runtime.calls.close_connection import CloseConnection
from kpybroker.runtime.fairness.trait import Trait

if TYPE_CHECKING:
    from kpybroker.requests.server.channel import Channel
    from kpybroker.requests.server.connection import Connection
    from kpybroker.requests.server.outbox import Reply
    from kpybroker.runtime.calls.pending import Pending

FIRST_BODY_BYTES: Final = 64 * 1024
MOST_GROWTH: Final = 128
"""A buffer begins with at least this part of the largest frame."""
MOST_GROWN_BYTES: Final = 2 << 20
"""A buffer grows by this much at a time, since memory is cleared before it is used."""
LEAST_FRAME_BYTES: Final = 8
"""The shortest header of a request."""
SIZE: Final = Struct(">i")


class Dispatch(Protocol):
    """The dispatcher, as connections see it. A frame is header and body, without the size before them."""

    def __call__(self, connection: "Connection", frame: memoryview) -> "Reply | Pending | None":
        """Serve one frame; its buffer is valid only during the call.

        Returns the reply's buffers, a `Pending` that resolves to them, or None when the request has no reply.
        Raises `CloseConnection` when the peer does not speak Kafka.
        """

    def trait_at(self, view: memoryview, position: int) -> Trait:
        """The trait of the request whose header begins at ``position`` and is at least `LEAST_FRAME_BYTES` long."""


def trait_of_one(channel: "Channel", peeked: memoryview, dispatch: Dispatch) -> Trait | None:
    """The trait of the only readable request, if that is one short frame. It is copied to ``peeked``; nothing is
    received."""
    try:
        count = channel.peek_into(peeked)
    except OSError:
        return None
    size: int = SIZE.unpack_from(peeked)[0]
    is_one = LEAST_FRAME_BYTES < count < len(peeked) and size == count - SIZE.size
    return dispatch.trait_at(peeked, SIZE.size) if is_one else None


def next_bytes(have: int, size: int, most_frame_bytes: int) -> int:
    """The next size of a buffer that is full with ``have`` bytes of a frame of ``size``, or holds whole frames.

    It begins with little where only small frames are accepted, as in a login, and then doubles up to a bound."""
    if size <= have:
        return max(SIZE.size, have)
    grown = min(2 * have, have + MOST_GROWN_BYTES)
    return min(size, max(grown, min(FIRST_BODY_BYTES, most_frame_bytes // MOST_GROWTH)))


@runtime_checkable
class Guard(Dispatch, Protocol):
    """A dispatcher that prepares each connection before its first byte is read."""

    def opened(self, connection: "Connection") -> None:
        """A connection was made."""


def checked_size(
    buffer: memoryview | bytearray, position: int, most_bytes: int, least_bytes: int = LEAST_FRAME_BYTES
) -> int:
    """The size that a frame claims. Raises `CloseConnection` if no request can have that size."""
    size: int = SIZE.unpack_from(buffer, position)[0]
    if size < least_bytes or size > most_bytes:
        hint = _looks_like(bytes(buffer[position : position + 4])) or f"; {most_bytes} are allowed"
        raise CloseConnection(f"not a request: its frame claims {size} bytes{hint}")
    return size


def _looks_like(start: bytes) -> str:
    """A hint for the log: the protocol that begins with these four bytes, which are not the size of a request."""
    if start[:2] == b"\x16\x03":
        return " (a TLS handshake on a plaintext listener?)"
    if start in (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"PRI "):
        return " (HTTP on a Kafka listener?)"
    return ""
