"""Requests and their answers, one at a time, for what is not measured or takes long by itself."""

import socket
import ssl
import struct
from types import TracebackType
from typing import NamedTuple, Self

ANSWER_TIMEOUT_S = 120


class Address(NamedTuple):
    host: str
    port: int


class Conversation:
    """One connection, used as a context manager: one request and its answer after the other."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None = None) -> None:
        self._connection = socket.create_connection(address, ANSWER_TIMEOUT_S)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._connection = tls.wrap_socket(self._connection, server_hostname=address.host)
        self._stream = self._connection.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        self._connection.close()

    def fileno(self) -> int:
        """Its descriptor, for a selector. Between two answers nothing is left to read."""
        return self._connection.fileno()

    def ask(self, framed: bytes) -> bytes:
        """The answer without its size prefix. Raises OSError when the broker does not give a whole one."""
        self.send(framed)
        return self.answer()

    def send(self, framed: bytes) -> None:
        self._connection.sendall(framed)

    def answer(self) -> bytes:
        """The answer to a request that was sent. Raises OSError when the broker does not give a whole one."""
        prefix = self._stream.read(4)
        if len(prefix) < 4:
            raise ConnectionError("the broker closed the connection")
        (size,) = struct.unpack(">i", prefix)
        answer = self._stream.read(size)
        if len(answer) < size:
            raise ConnectionError("the broker closed the connection within its answer")
        return answer


def ask(address: Address, framed: bytes) -> bytes:
    """One answer on a connection of its own. Raises OSError when the broker does not give a whole one."""
    with Conversation(address) as conversation:
        return conversation.ask(framed)
