"""What a server asks of the operating system: sockets that listen, and the epoll that watches all others.

A simulation gives its own in their place. Invariant: a socket that could not listen is closed.
"""

import select
import socket
from typing import Protocol

EVERY_INTERFACE = "::"
"""Of IPv4 too."""


class Epoll(Protocol):
    """What is used of ``select.epoll``."""

    def fileno(self) -> int: ...
    def register(self, descriptor: int, events: int) -> object: ...
    def modify(self, descriptor: int, events: int) -> object: ...
    def unregister(self, descriptor: int) -> object: ...
    def poll(self, timeout: float, most: int) -> list[tuple[int, int]]: ...
    def close(self) -> object: ...


class Sockets(Protocol):
    """Where sockets come from."""

    def listen(self, host: str, port: int, backlog: int, receive_buffer_bytes: int) -> socket.socket:
        """A non-blocking socket that listens; an empty host is every interface. Raises OSError."""

    def epoll(self) -> Epoll | None:
        """A new one; None where the system has none."""


class SystemSockets:
    """Those of the operating system."""

    def listen(self, host: str, port: int, backlog: int, receive_buffer_bytes: int) -> socket.socket:
        if not host and socket.has_dualstack_ipv6():
            host = EVERY_INTERFACE
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if receive_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            if host == EVERY_INTERFACE:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            sock.setblocking(False)
            sock.bind((host, port))
            sock.listen(max(backlog, 1))
        except BaseException:
            sock.close()
            raise
        return sock

    def epoll(self) -> Epoll | None:
        return select.epoll() if hasattr(select, "epoll") else None


SYSTEM_SOCKETS = SystemSockets()
