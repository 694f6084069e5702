"""Which of the connections that have not begun gives its place to a new one."""

from typing import Any

import pytest
from conftest_server import RunningServer, request
from test_connection import StartServer, answers, closed_by_server, echo

from kpybroker.requests.server.connection_quotas import ConnectionLimits
from kpybroker.requests.server.listener import SocketLimits
from kpybroker.requests.server.newcomers import HANDSHAKE_MS, LONG_MS, STALLED_MS, STALLED_OF_HOST_MS, NodeNewcomers
from support.waiting import eventually

NAMES = ("PLAINTEXT",)


class Played:
    """A connection of a client at a host."""

    def __init__(self, host: str, last_active_ms: float, protocol: str = "SASL_PLAINTEXT") -> None:
        self.client = self
        self.host = host
        self.listener_name = "PLAINTEXT"
        self.security_protocol = protocol
        self.last_active_ms = last_active_ms


def newcomers(*played: Any) -> NodeNewcomers:
    found = NodeNewcomers()
    for each in played:
        found.add(each, each.last_active_ms)
    return found


def test_the_connection_that_was_silent_for_longest_is_closed_first() -> None:
    first, second = Played("a", 0.0), Played("b", 1.0)
    found = newcomers(first, second)
    assert found.slowest(NAMES, STALLED_MS / 2) is None
    first.last_active_ms = 2.0
    assert found.slowest(NAMES, STALLED_MS + 10.0) is second


def test_a_connection_of_the_host_with_most_newcomers_is_closed_first() -> None:
    alone, *many = [Played("a", 0.0), *(Played("b", 5.0 + each) for each in range(3))]
    assert newcomers(alone, *many).slowest(NAMES, 1_000.0) is many[0]  # type: ignore[comparison-overlap]


def test_a_newcomer_that_sends_single_bytes_is_closed_after_a_limit() -> None:
    slow = Played("a", 0.0)
    found = newcomers(slow)
    slow.last_active_ms = LONG_MS - 1
    assert found.slowest(NAMES, LONG_MS - 1) is None
    assert found.slowest(NAMES, LONG_MS) is slow  # type: ignore[comparison-overlap]


def test_a_newcomer_with_tls_has_more_time_for_its_handshake() -> None:
    found = newcomers(Played("a", 0.0, "SASL_SSL"))
    assert found.slowest(NAMES, HANDSHAKE_MS - 1) is None
    assert found.slowest(NAMES, HANDSHAKE_MS) is not None


def test_an_admitted_connection_is_no_longer_counted_as_a_newcomer() -> None:
    first, second = Played("a", 0.0), Played("a", 0.0)
    found = newcomers(first, second)
    found.admit(first)  # type: ignore[arg-type]
    found.admit(first)  # type: ignore[arg-type]
    assert found.count(NAMES) == 1
    assert found.slowest_of_host("a", NAMES, STALLED_OF_HOST_MS) is second  # type: ignore[comparison-overlap]
    assert found.slowest_of_host("a", ("OTHER",), STALLED_OF_HOST_MS) is None
    found.admit(second)  # type: ignore[arg-type]
    assert found.oldest(NAMES) is None


def test_a_connection_with_a_request_keeps_its_place_and_one_with_a_greeting_does_not(
    start_server: StartServer,
) -> None:
    server: RunningServer = start_server(echo, SocketLimits(connections=ConnectionLimits(2)))
    with server.connect() as begun, server.connect() as silent:
        assert answers(begun)
        with server.connect() as third:
            third.sendall(request(3))
            assert closed_by_server(silent)
            eventually(lambda: len(server.server.connections) == 2, "the third has the place")
            assert answers(begun)


def test_newcomers_of_the_listener_between_brokers_take_the_places_of_few_clients(start_server: StartServer) -> None:
    limits = SocketLimits(connections=ConnectionLimits(16, protected_listener="REPLICATION"))
    server = start_server(echo, limits)
    port = server.listen_too("REPLICATION")
    clients = [server.connect() for _ in range(16)]
    assert all(answers(client) for client in clients)
    crowd = [server.connect_to(port) for _ in range(12)]
    eventually(lambda: server.server.accepted_connections == 28, "the crowd has come")
    eventually(lambda: server.server.quotas.count <= 16, "there are no more connections than places")
    assert sum(each.client.listener_name == "PLAINTEXT" for each in server.server.connections) >= 12
    for sock in (*clients, *crowd):
        sock.close()


@pytest.mark.parametrize("of_controllers", [False, True])
def test_the_listeners_of_a_controller_have_places_of_their_own(
    start_server: StartServer, *, of_controllers: bool
) -> None:
    names = frozenset({"CONTROLLER"}) if of_controllers else frozenset()
    one = ConnectionLimits(1)
    server = start_server(echo, SocketLimits(connections=one, controllers=one, controller_listeners=names))
    port = server.listen_too("CONTROLLER")
    with server.connect() as client:
        assert answers(client)
        with server.connect_to(port) as node:
            assert answers(node) == of_controllers
