"""TLS over a pair of asyncio streams, for the server of the second port.

A connection is counted before its handshake begins, and each has the context of its time. asyncio's own servers with
TLS allow neither.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

T = TypeVar("T")
READ_BYTES: Final = 16 * 1024
"""The most bytes of one record."""


class TlsStream:
    """The server's side of one connection: a reader and a writer in one."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext, limit_bytes: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._limit_bytes = limit_bytes
        self._plain = bytearray()

    @property
    def is_closing(self) -> bool:
        """Whether nobody receives what is written."""
        return self._writer.transport.is_closing()

    async def handshake(self) -> None:
        """Begin. Raises ssl.SSLError, IncompleteReadError."""
        await self._do(self._tls.do_handshake)

    async def readuntil(self, separator: bytes) -> bytes:
        """The bytes up to a separator, and it (``asyncio.StreamReader.readuntil``)."""
        while (end := self._plain.find(separator)) < 0:
            if len(self._plain) > self._limit_bytes:
                raise asyncio.LimitOverrunError("the separator is not found", len(self._plain))
            await self._read_more()
        return self._taken(end + len(separator))

    async def readexactly(self, count: int) -> bytes:
        """This many bytes (``asyncio.StreamReader.readexactly``)."""
        while len(self._plain) < count:
            await self._read_more()
        return self._taken(count)

    def write(self, data: bytes) -> None:
        """Encrypt and send. `drain` waits until the peer takes it."""
        if data:
            self._tls.write(data)
            self._flush()

    async def drain(self) -> None:
        await self._writer.drain()

    def close(self) -> None:
        """Say that the answer is complete, without waiting for the peer, and close."""
        with suppress(ssl.SSLError):  # the peer has not said so yet, or the handshake was never complete
            self._tls.unwrap()
        self._flush()
        self._writer.close()

    async def _read_more(self) -> None:
        data = await self._do(lambda: self._tls.read(READ_BYTES))
        if not data:
            raise asyncio.IncompleteReadError(bytes(self._plain), None)
        self._plain += data

    async def _do(self, step: Callable[[], T]) -> T:
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._flush()
                data = await self._reader.read(READ_BYTES)
                if not data:
                    raise asyncio.IncompleteReadError(b"", None) from None
                self._incoming.write(data)
            except ssl.SSLError:
                self._flush()  # the alert that says why
                raise
            else:
                self._flush()
                return result

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._writer.write(self._outgoing.read())

    def _taken(self, count: int) -> bytes:
        taken = bytes(self._plain[:count])
        del self._plain[:count]
        return taken
