"""The sockets of the operating system: those that listen, and the epoll that watches all others.

A simulation replaces them with its own. Invariant: a socket that could not be bound is closed.
"""

import select
import socket
import sys
from contextlib import suppress
from typing import Any, Final, Protocol

from kpybroker.runtime.io.addresses import bound_socket

_INHERITS: Final = sys.platform == "linux"
"""Whether an accepted socket has the options of the listening one."""


class Epoll(Protocol):
    """The part of ``select.epoll`` that is used."""

    def fileno(self) -> int: ...
    def register(self, descriptor: int, events: int) -> object: ...
    def modify(self, descriptor: int, events: int) -> object: ...
    def unregister(self, descriptor: int) -> object: ...
    def poll(self, timeout: float, most: int) -> list[tuple[int, int]]: ...
    def close(self) -> object: ...


class Sockets(Protocol):
    """The source of sockets."""

    def bind(self, host: str, port: int, receive_buffer_bytes: int) -> socket.socket:
        """Return a non-blocking socket that is bound and does not listen yet. An empty host means every interface.

        Raises OSError, also if another socket listens on the port.
        """

    def epoll(self) -> Epoll | None:
        """A new epoll; None where the system has none."""


class ListeningSocket(socket.socket):
    """A listening socket. Its `accept` asks the system for nothing that all accepted sockets have in common."""

    def __init__(self, family: socket.AddressFamily) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._family = family

    def accept(self) -> tuple[socket.socket, Any]:
        descriptor, address = self._accept()  # type: ignore[attr-defined]  # all that ``socket.accept`` begins with
        return socket.socket(self._family, socket.SOCK_STREAM, 0, descriptor), address


class SystemSockets:
    """The sockets of the operating system."""

    def bind(self, host: str, port: int, receive_buffer_bytes: int) -> socket.socket:
        return bound_socket(host, port, ListeningSocket, receive_buffer_bytes)

    def epoll(self) -> Epoll | None:
        return select.epoll() if hasattr(select, "epoll") else None


SYSTEM_SOCKETS = SystemSockets()


def tune_listening(sock: socket.socket, send_buffer_bytes: int) -> None:
    """Give a listening socket the options of the sockets that it accepts, which have them then without a call (Linux).

    A buffer size of 0 or less means the system's default.
    """
    _set_options(sock, sock.getsockname()[0], send_buffer_bytes)


def tune(sock: socket.socket, host: str, listening_host: str, send_buffer_bytes: int) -> None:
    """Prepare a socket that was accepted from a client at ``host``. A buffer size of 0 or less means the system's
    default."""
    sock.setblocking(False)  # noqa: FBT003
    if not _INHERITS:
        _set_options(sock, host, send_buffer_bytes)
    elif not _is_local(listening_host):
        _spare_congestion_control(sock, host)


def _set_options(sock: socket.socket, host: str, send_buffer_bytes: int) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    _spare_congestion_control(sock, host)
    if send_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)


def limit_receive_buffer(sock: socket.socket, receive_buffer_bytes: int) -> None:
    """Give a socket a receive buffer of this size."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)


def _is_local(host: str) -> bool:
    """Whether this is an address that other machines cannot reach."""
    return host.startswith("127.") or host == "::1"


def _spare_congestion_control(sock: socket.socket, host: str) -> None:
    """Choose the cheapest congestion control for a client on the same machine, where there is no congestion (Linux).

    With BBR, the default of many systems, pacing alone takes a tenth of the CPU of a small request.
    """
    if _is_local(host) and hasattr(socket, "TCP_CONGESTION"):
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
