"""Sockets that are bound to an address or to the name of one. Nothing listens yet.

As in Java, ``0.0.0.0``, ``::`` and no host all mean every interface of IPv4 and of IPv6, and of the addresses of a name
those of IPv4 come first. A machine without IPv6 has those of IPv4 alone.

Invariant: a socket that could not be bound is closed.
"""

import errno
import socket
from collections.abc import Callable
from typing import Any, Final, TypeVar

S = TypeVar("S", bound=socket.socket)
_EVERY_IPV4: Final = "0.0.0.0"
_EVERY_IPV6: Final = "::"
_WITHOUT_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)
NewSocket = Callable[[socket.AddressFamily], S]
"""A new TCP socket of a family."""


def bound_socket(host: str, port: int, new: NewSocket[S], receive_buffer_bytes: int = -1) -> S:
    """A non-blocking socket that is bound to the first address of a host. A buffer of 0 bytes or fewer has the system's
    size. Raises OSError."""
    family, address = addresses_of(host, port)[0]
    if address[0] in (_EVERY_IPV4, _EVERY_IPV6):
        return _on_every_interface(port, new, receive_buffer_bytes)
    return _bound(new(family), address, receive_buffer_bytes)


def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of a host, all with the same port. Raises OSError."""
    addresses = addresses_of(host, port)
    if addresses[0][1][0] in (_EVERY_IPV4, _EVERY_IPV6):
        return [_on_every_interface(port, socket.socket, -1)]
    sockets: list[socket.socket] = []
    try:
        for family, address in addresses:
            try:
                sockets.append(_bound(socket.socket(family), (address[0], port, *address[2:]), -1))
            except OSError as error:
                if not sockets or error.errno not in _WITHOUT_IPV6:
                    raise
            port = sockets[0].getsockname()[1]
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def addresses_of(host: str, port: int) -> list[tuple[socket.AddressFamily, Any]]:
    """The addresses of a host with this port, those of IPv4 first. No host is every interface. Raises OSError."""
    # As bytes: for text the system's resolver loads the codec of international names, a megabyte.
    name = host.encode() if host.isascii() else host
    if not name:
        return [(socket.AF_INET, (_EVERY_IPV4, port))]
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    ordered = dict.fromkeys((family, address) for family, _, _, _, address in found)
    return sorted(ordered, key=lambda each: each[0] != socket.AF_INET)


def _on_every_interface(port: int, new: NewSocket[S], receive_buffer_bytes: int) -> S:
    try:
        sock = new(socket.AF_INET6)
    except OSError:  # the system has no IPv6
        return _bound(new(socket.AF_INET), (_EVERY_IPV4, port), receive_buffer_bytes)
    try:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        return _bound(sock, (_EVERY_IPV6, port), receive_buffer_bytes)
    except OSError as error:
        sock.close()
        if error.errno not in (*_WITHOUT_IPV6, errno.ENOPROTOOPT):
            raise
    return _bound(new(socket.AF_INET), (_EVERY_IPV4, port), receive_buffer_bytes)


def _bound(sock: S, address: Any, receive_buffer_bytes: int) -> S:
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.setblocking(False)  # noqa: FBT003
        sock.bind(address)
    except BaseException:
        sock.close()
        raise
    return sock
