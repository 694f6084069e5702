"""The addresses on which a listener is bound: of both kinds where the system has both, and those of names."""

import errno
import socket
from typing import Any

import pytest

from kpybroker.runtime.io import addresses
from kpybroker.runtime.io.addresses import addresses_of, bound_socket, bound_sockets
from kpybroker.runtime.io.system_sockets import SYSTEM_SOCKETS

V4, V6 = "127.0.0.1", "::1"


def has_ipv6() -> bool:
    try:
        with socket.create_server((V6, 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


def reached(sock: socket.socket) -> list[str]:
    """The addresses of loopback at which a bound socket is reached."""
    sock.listen()
    found = []
    for host in (V4, V6):
        try:
            socket.create_connection((host, sock.getsockname()[1]), 20).close()
            found.append(host)
        except OSError:
            continue
    sock.close()
    return found


@needs_ipv6
@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "0:0:0:0:0:0:0:0"])
def test_every_interface_is_that_of_both_kinds(host: str) -> None:
    assert reached(SYSTEM_SOCKETS.bind(host, 0, -1)) == [V4, V6]
    (sock,) = bound_sockets(host, 0)
    assert reached(sock) == [V4, V6]


@pytest.mark.parametrize("host", [V4, pytest.param(V6, marks=needs_ipv6)])
def test_an_address_is_bound_alone(host: str) -> None:
    assert reached(SYSTEM_SOCKETS.bind(host, 0, -1)) == [host]


def resolving(monkeypatch: pytest.MonkeyPatch, *found: str) -> None:
    """Let every name have these addresses."""

    def resolve(_host: Any, port: int, **_hints: Any) -> list[Any]:
        families = {True: (socket.AF_INET6, (port, 0, 0)), False: (socket.AF_INET, (port,))}
        return [(families[":" in each][0], 1, 6, "", (each, *families[":" in each][1])) for each in found]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", resolve)


@needs_ipv6
def test_a_name_with_an_address_of_ipv6_alone_is_bound_there(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, V6)
    bound = SYSTEM_SOCKETS.bind("six.example", 0, -1), bound_sockets("six.example", 0)[0]
    monkeypatch.undo()
    assert [reached(sock) for sock in bound] == [[V6], [V6]]


def test_ipv4_addresses_come_before_ipv6_as_in_java(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, V6, V4)
    assert [address[0] for _, address in addresses_of("both.example", 1)] == [V4, V6]
    bound = SYSTEM_SOCKETS.bind("both.example", 0, -1)
    monkeypatch.undo()
    assert reached(bound) == [V4]


@needs_ipv6
def test_the_second_port_is_on_every_address_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, V6, V4)
    first, second = bound_sockets("both.example", 0)
    monkeypatch.undo()
    assert first.getsockname()[1] == second.getsockname()[1]
    assert [reached(first), reached(second)] == [[V4], [V6]]


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
@pytest.mark.parametrize("code", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
def test_without_ipv6_every_interface_is_that_of_ipv4(host: str, code: int) -> None:
    class Without(socket.socket):
        def __init__(self, family: int) -> None:
            if family == socket.AF_INET6 and code == errno.EAFNOSUPPORT:
                raise OSError(code, "no IPv6")
            super().__init__(family)

        def bind(self, address: Any) -> None:
            if self.family == socket.AF_INET6:
                raise OSError(code, "no IPv6")
            super().bind(address)

    assert reached(bound_socket(host, 0, Without)) == [V4]


def test_without_ipv6_a_name_has_its_address_of_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    def bound(sock: Any, address: Any, _buffer: int) -> Any:
        if sock.family == socket.AF_INET6:
            sock.close()
            raise OSError(errno.EADDRNOTAVAIL, "no IPv6")
        sock.bind(address)
        return sock

    resolving(monkeypatch, V6, V4)
    monkeypatch.setattr(addresses, "_bound", bound)
    (only,) = bound_sockets("localhost", 0)
    monkeypatch.undo()
    assert reached(only) == [V4]


def test_a_port_that_is_taken_by_either_kind_is_refused() -> None:
    with socket.create_server((V4, 0)) as taken, pytest.raises(OSError, match="in use"):
        SYSTEM_SOCKETS.bind("0.0.0.0", taken.getsockname()[1], -1)
