"""The sockets of the operating system: those that listen, and the epoll that watches all others.

A simulation replaces them with its own. Invariant: a socket that could not be bound is closed.
"""

import select
import socket
from contextlib import suppress
from typing import Protocol

EVERY_INTERFACE = "::"
"""The address of every interface, including those of IPv4."""


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


class SystemSockets:
    """The sockets of the operating system."""

    def bind(self, host: str, port: int, receive_buffer_bytes: int) -> socket.socket:
        if not host and socket.has_dualstack_ipv6():
            host = EVERY_INTERFACE
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if receive_buffer_bytes > 0:
                limit_receive_buffer(sock, receive_buffer_bytes)
            if host == EVERY_INTERFACE:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            sock.setblocking(False)  # noqa: FBT003
            sock.bind((host, port))
        except BaseException:
            sock.close()
            raise
        return sock

    def epoll(self) -> Epoll | None:
        return select.epoll() if hasattr(select, "epoll") else None


SYSTEM_SOCKETS = SystemSockets()


def tune(sock: socket.socket, host: str, send_buffer_bytes: int) -> None:
    """Prepare an accepted socket of a client at ``host``. A buffer size of 0 or less means the system's default."""
    sock.setblocking(False)  # noqa: FBT003
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    _spare_congestion_control(sock, host)
    if send_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)


def limit_receive_buffer(sock: socket.socket, receive_buffer_bytes: int) -> None:
    """Give a socket a receive buffer of this size."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)


def _spare_congestion_control(sock: socket.socket, host: str) -> None:
    """Choose the cheapest congestion control for a client on the same machine, where there is no congestion (Linux).

    With BBR, the default of many systems, pacing alone takes a tenth of the CPU of a small request.
    """
    if (host.startswith("127.") or host == "::1") and hasattr(socket, "TCP_CONGESTION"):
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
