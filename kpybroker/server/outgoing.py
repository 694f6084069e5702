"""A connection that this node makes to another: frames out, frames in. Not what is in them.

Invariant: a frame's size is checked before memory is spent on it; after `lost` has been called nothing else is.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from struct import Struct
from typing import cast

_SIZE = Struct(">i")
LARGE_BYTES = 64 * 1024
"""A frame of so much that came alone is handed on in the buffer it came in."""


class NobodyListens(str):
    """Why a connection could not be made, where the port is closed: the process that listened there has ended."""

    __slots__ = ()


class Outgoing(asyncio.Protocol):
    """One connection, from its making to its end."""

    def __init__(
        self,
        opened: Callable[[], object],
        taken: Callable[[bytes | memoryview], object],
        lost: Callable[[str], object],
        most_bytes: int,
        receive_buffer_bytes: int = -1,
    ) -> None:
        """``opened`` is called once frames may be sent, ``taken`` with each frame that comes, ``lost`` with why the
        connection ended or could not be made, unless it was closed from here. The system chooses a receive buffer of
        negative size.
        """
        self._opened = opened
        self._taken = taken
        self._lost: Callable[[str], object] | None = lost
        self._most_bytes = most_bytes
        self._receive_buffer_bytes = receive_buffer_bytes
        self._transport: asyncio.Transport | None = None
        self._attempt: asyncio.Task[object] | None = None
        self._buffer = bytearray()

    def connect(self, loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
        """Begin to make it."""

        async def attempt() -> None:
            try:
                await loop.create_connection(lambda: self, host, port)
            except OSError as error:
                self._end(_why(error))
            except (ValueError, OverflowError) as error:
                self._end(f"{host!r}:{port} is no address: {error}")

        self._attempt = loop.create_task(attempt())

    def send(self, frame: bytes) -> None:
        """Write one frame; its size is put before it."""
        if self._transport is not None:
            self._transport.write(_SIZE.pack(len(frame)) + frame)

    def close(self) -> None:
        """End it from here: no more calls."""
        self._lost = None
        if self._transport is not None:
            self._transport.abort()
        elif self._attempt is not None:
            self._attempt.cancel()

    def _end(self, reason: str) -> None:
        lost = self._lost
        self.close()
        if lost is not None:
            lost(reason)

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are none by their class
        if self._lost is None:
            self._transport.abort()
            return
        if self._receive_buffer_bytes >= 0:
            ends = transport.get_extra_info("socket")
            ends.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
        self._opened()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while self._lost is not None and len(self._buffer) >= _SIZE.size:
            size = _SIZE.unpack_from(self._buffer)[0]
            if not 0 <= size <= self._most_bytes:
                self._end(f"a frame that claims {size} bytes")
                return
            end = _SIZE.size + size
            if len(self._buffer) < end:
                return
            if size >= LARGE_BYTES and len(self._buffer) == end:
                whole, self._buffer = self._buffer, bytearray()
                self._taken(memoryview(whole)[_SIZE.size :].toreadonly())
                continue
            frame = bytes(memoryview(self._buffer)[_SIZE.size : end])
            del self._buffer[:end]
            self._taken(frame)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(str(error) if error is not None else "the other side closed the connection")


def _why(error: OSError) -> str:
    """One line; `NobodyListens` if that is what every address of the host says."""
    reason = error.strerror or str(error)
    if isinstance(error, ConnectionRefusedError):
        return NobodyListens(reason)
    # Of several addresses the loop raises one error, which quotes those of each.
    refused, every = reason.count(f"[Errno {errno.ECONNREFUSED}]"), reason.count("[Errno ")
    return NobodyListens(reason) if refused == every > 0 else reason
