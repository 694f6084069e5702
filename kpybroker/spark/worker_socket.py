"""The connection of a Spark task's Python process to its JVM, without the two waits of up to 40 ms in each task.

At the begin the JVM writes a task's function and then its input, both small; at the end this process writes the last
rows and then the marks behind them. The kernel of the writer holds the second part back until the first one is
acknowledged (Nagle's algorithm, RFC 896), and that of the reader puts the acknowledgement off, since it has no answer
to send it with (RFC 1122, 4.2.3.2). A task of 32 MB takes about as long otherwise.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Final

OPEN_FILES: Final = "/proc/self/fd"
TCP: Final = (socket.AF_INET, socket.AF_INET6)


class ArrivesInTask:
    """A part of a task's function: when it is unpickled, the function has arrived, and nobody waits any more."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        send_at_once()


def send_at_once() -> None:
    """Acknowledge what the JVM has sent, and hold nothing back that is written later. It may be called again and again;
    elsewhere than on Linux it does nothing."""
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    for number in _connections(os.getpid()):
        with suppress(OSError), _opened(number) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@cache
def _connections(process_id: int) -> tuple[int, ...]:  # noqa: ARG001 - once for each process
    """The file descriptors of the TCP connections that this process has when its first task begins: Spark's."""
    found = []
    for number in _open_files():
        with suppress(OSError), _opened(number) as connection:
            if connection.family in TCP and connection.type == socket.SOCK_STREAM:
                found.append(number)
    return tuple(found)


def _open_files() -> list[int]:
    try:
        return [int(name) for name in os.listdir(OPEN_FILES)]
    except OSError:  # some containers have no /proc: tasks wait there
        return []


@contextmanager
def _opened(number: int) -> Iterator[socket.socket]:
    """A file descriptor as a socket; it stays open afterwards. Raises OSError if it is none."""
    connection = socket.socket(fileno=number)
    try:
        yield connection
    finally:
        connection.detach()
