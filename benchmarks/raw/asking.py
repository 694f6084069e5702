"""One request and its answer on a connection of its own, for what is not measured."""

import socket
import struct
from typing import NamedTuple

ANSWER_TIMEOUT_S = 30


class Address(NamedTuple):
    host: str
    port: int


def ask(address: Address, frame: bytes) -> bytes:
    """The answer without its size prefix. Raises OSError when the broker does not give a whole one."""
    with socket.create_connection(address, ANSWER_TIMEOUT_S) as connection, connection.makefile("rb") as stream:
        connection.sendall(frame)
        prefix = stream.read(4)
        if len(prefix) < 4:
            raise ConnectionError("the broker closed the connection")
        (size,) = struct.unpack(">i", prefix)
        answer = stream.read(size)
    if len(answer) < size:
        raise ConnectionError("the broker closed the connection within its answer")
    return answer
