"""A connection that this node opens to another: it sends and receives frames. Their content is not read here.

Invariants: a frame's size is checked before memory is spent on it; no callback is called after ``lost``.
"""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from struct import Struct
from typing import Any, cast

from kpybroker.runtime.calls.address import is_address
from kpybroker.runtime.io.system_sockets import limit_receive_buffer

_SIZE = Struct(">i")
SETUP_TIMEOUT_S = 10.0
"""The time for an address of a host that has several (Java's ``socket.connection.setup.timeout.ms``)."""
LARGE_BYTES = 64 * 1024
"""A frame of at least this size is passed on without a copy, if nothing follows it in the buffer."""


OpenStream = Callable[[asyncio.AbstractEventLoop, Callable[[], asyncio.Protocol], str, int], Awaitable[object]]
"""(loop, protocol, host, port): opens a stream of bytes to an address, and calls ``connection_made`` of the protocol
when its bytes may be sent. Raises OSError."""


def plain_stream(
    loop: asyncio.AbstractEventLoop, protocol: Callable[[], asyncio.Protocol], host: str, port: int
) -> Awaitable[object]:
    """An `OpenStream` without encryption."""
    return stream_to(loop, protocol, host, port)


async def stream_to(
    loop: asyncio.AbstractEventLoop, protocol: Callable[[], asyncio.Protocol], host: str, port: int, **tls: Any
) -> object:
    """Open a stream to a host. ``tls`` are the options of ``create_connection`` for TLS. Raises OSError.

    The addresses of a name are tried in turn, each for `SETUP_TIMEOUT_S`, as Java does (``use_all_dns_ips``)."""
    if is_address(host) or "\0" in host:  # the latter is refused there
        return await loop.create_connection(protocol, host, port, **tls)
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
    if len(addresses) == 1:
        ((_, only),) = addresses
        return await loop.create_connection(protocol, str(only[0]), port, **tls)
    refusals: list[OSError] = []
    for family, address in addresses:
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)  # noqa: FBT003
        try:
            async with asyncio.timeout(SETUP_TIMEOUT_S):
                await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            is_late = isinstance(error, TimeoutError)
            refusals.append(OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) if is_late else error)
            continue
        except BaseException:
            sock.close()
            raise
        return await loop.create_connection(protocol, sock=sock, **tls)
    # A closed port says that the process has ended only if it is closed on every address.
    raise next((error for error in refusals if not isinstance(error, ConnectionRefusedError)), refusals[0])


class NoListener(str):
    """The reason of a failed connection whose port is closed: the process that listened there has ended."""

    __slots__ = ()


class Unprotected(str):
    """The reason of a failed connection that was accepted, but whose TLS handshake or login failed."""

    __slots__ = ()


class HandshakeFailed(OSError):
    """A TLS handshake that failed, with the reason in words."""


class Outgoing(asyncio.Protocol):
    """One connection, from the attempt to open it to its end."""

    def __init__(
        self,
        opened: Callable[[], object],
        taken: Callable[[bytes | memoryview], object],
        lost: Callable[[str], object],
        most_bytes: int,
        receive_buffer_bytes: int = -1,
    ) -> None:
        """``opened`` is called when frames may be sent, ``taken`` with each frame that arrives. ``lost`` is called with
        the reason when the connection ended or could not be opened, unless this node closed it. If
        ``receive_buffer_bytes`` is negative, the system chooses the size of the receive buffer.
        """
        self._opened = opened
        self._taken = taken
        self._lost: Callable[[str], object] | None = lost
        self._most_bytes = most_bytes
        self._receive_buffer_bytes = receive_buffer_bytes
        self._transport: asyncio.Transport | None = None
        self._attempt: asyncio.Task[object] | None = None
        self._buffer = bytearray()

    def connect(
        self, loop: asyncio.AbstractEventLoop, host: str, port: int, open_stream: OpenStream = plain_stream
    ) -> None:
        """Begin to open the connection."""

        async def attempt() -> None:
            try:
                await open_stream(loop, lambda: self, host, port)
            except OSError as error:
                self._end(_why(error))
            except (ValueError, OverflowError) as error:
                self._end(f"{host!r}:{port} is no address: {error}")

        self._attempt = loop.create_task(attempt())

    def send(self, frame: bytes) -> None:
        """Send one frame, with its size before it."""
        if self._transport is not None:
            self._transport.write(_SIZE.pack(len(frame)) + frame)

    def close(self) -> None:
        """Close the connection; no callback is called any more."""
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
            limit_receive_buffer(transport.get_extra_info("socket"), self._receive_buffer_bytes)
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
        if isinstance(error, ssl.SSLError):
            self._end(_why(error))  # with TLS 1.3 a server refuses a client's certificate after the handshake
        else:
            self._end(str(error) if error is not None else "the other side closed the connection")


def _why(error: OSError) -> str:
    """The reason in one line; a `NoListener` if every address of the host refused the connection, an `Unprotected`
    if TLS failed."""
    if isinstance(error, HandshakeFailed):
        return Unprotected(str(error))
    if isinstance(error, ssl.SSLError):
        from kpybroker.security.tls.client_failures import in_words

        return Unprotected(f"the TLS handshake failed: {in_words(error)}")
    reason = error.strerror or str(error)
    if isinstance(error, ConnectionRefusedError):
        return NoListener(reason)
    # Of several addresses the loop raises one error, which quotes those of each.
    refused, every = reason.count(f"[Errno {errno.ECONNREFUSED}]"), reason.count("[Errno ")
    return NoListener(reason) if refused == every > 0 else reason
