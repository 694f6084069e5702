"""Crowds that never log in take every place of a listener, of an address, or of the process: others get in."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from attacker import Attacker
from crowd import Crowd
from login_crowds import client_hello, handshake, metadata, scram_beginning, token, whole_frames
from secured_broker import BOTH, ENCRYPTED, LOGIN, PASSWORD, USER, SecuredBroker
from test_attacked_logins import is_served
from watched import PATIENCE_S, WatchedBroker

from kpybroker.machines.sasl.plain import PlainClient
from kpywire.messages.describe_quorum import DescribeQuorumRequest
from kpywire.messages.metadata import MetadataRequest
from support.waiting import eventually

PLACES = 20
API_VERSIONS = bytes.fromhex("0000000d0012000000000001000378797a")
LIMITS: dict[str, tuple[dict[str, str], int | None]] = {
    "of all": ({"max.connections": str(PLACES)}, None),
    "of an address": ({"max.connections.per.ip": str(PLACES)}, None),
    "of a listener": (
        {f"listener.name.{name.lower()}.max.connections": str(PLACES) for name in (LOGIN, ENCRYPTED, BOTH)},
        None,
    ),
    "of the process": ({}, 400),
}
"""The limit on connections, and that on open files."""
STOPS = {
    "no byte": b"",
    "half a frame": b"\0\0\1\0\0",
    "ApiVersions": API_VERSIONS,
    "SaslHandshake": handshake(),
    "half a login": scram_beginning(1),
    "half a TLS handshake": client_hello(),
}
QUICK: dict[str, tuple[pytest.MarkDecorator, ...]] = {"no byte": (), "half a login": ()}
"""The attacks that are played at every change."""


@pytest.fixture(scope="module", params=LIMITS.values(), ids=LIMITS.keys())
def full(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    properties, open_files = request.param
    broker = SecuredBroker(properties, directory=tmp_path_factory.mktemp("full"))
    broker.open_files = open_files
    with broker:
        yield broker
        assert broker.is_alive
        assert not [line for line in broker.defects_since(0) if "Too many open files" not in line]


def logs_in(broker: SecuredBroker, listener: str) -> bool:
    """Whether a client is served that logs in step by step, or shows that it speaks TLS."""
    sock = socket.create_connection(("127.0.0.1", broker.ports[listener]), timeout=PATIENCE_S)
    if listener != LOGIN:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=broker.authority.pem)
        sock = context.wrap_socket(sock, server_hostname="localhost")
    login = [handshake(), token(PlainClient(USER, PASSWORD).first())] if listener != ENCRYPTED else []
    received = bytearray()
    with sock:
        for count, sent in enumerate([*login, metadata()], 1):
            sock.sendall(sent)
            while len(list(whole_frames(received))) < count:
                more = sock.recv(1 << 16)
                if not more:
                    return False
                received += more
    return is_served(received)


@pytest.mark.parametrize(
    "sent", [pytest.param(sent, marks=QUICK.get(name, (pytest.mark.slow,)), id=name) for name, sent in STOPS.items()]
)
def test_a_crowd_that_does_not_log_in_gives_way(full: SecuredBroker, sent: bytes) -> None:
    check_that_a_client_gets_in(full, LOGIN, sent)


@pytest.mark.slow
@pytest.mark.parametrize("listener", [ENCRYPTED, BOTH])
@pytest.mark.parametrize("sent", STOPS.values(), ids=STOPS.keys())
def test_a_crowd_that_does_not_log_in_over_tls_gives_way(full: SecuredBroker, listener: str, sent: bytes) -> None:
    check_that_a_client_gets_in(full, listener, sent)


def check_that_a_client_gets_in(full: SecuredBroker, listener: str, sent: bytes) -> None:
    # Where the limit is that of an address, a crowd that tries again all the time takes each place that becomes free.
    count = PLACES if "max.connections.per.ip" in full.properties else 3 * PLACES
    with Crowd(full.ports[listener], sent, count):
        eventually(lambda: logs_in_if_let_in(full, listener), "a client gets in")


def logs_in_if_let_in(broker: SecuredBroker, listener: str) -> bool:
    """The same for a client that tries again when it is refused, as clients do."""
    try:
        return logs_in(broker, listener)
    except OSError:
        return False


@pytest.fixture(scope="module")
def combined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedBroker]:
    """A node that is broker and controller, with few places; ``http_port`` is the port of its controller."""
    directory: Path = tmp_path_factory.mktemp("combined")
    broker = WatchedBroker({}, directory=directory)
    listeners = f"PLAINTEXT://127.0.0.1:{broker.port},CONTROLLER://127.0.0.1:{broker.http_port}"
    broker.properties |= {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "max.connections": str(PLACES),
    }
    with broker:
        yield broker


def test_a_crowd_at_the_listener_of_a_controller_gives_way_to_other_nodes(combined: WatchedBroker) -> None:
    with Crowd(combined.http_port, API_VERSIONS, 3 * PLACES), Attacker(combined.http_port) as node:
        assert node.call(DescribeQuorumRequest(topics=[]), 2).error_code is not None
        with Attacker(combined.port) as client:
            assert client.call(MetadataRequest(topics=[]), 9).brokers


def test_clients_that_have_every_place_of_a_broker_have_none_of_its_controller(combined: WatchedBroker) -> None:
    clients = [Attacker(combined.port) for _ in range(PLACES)]
    for client in clients:
        client.call(MetadataRequest(topics=[]), 9)
    with Attacker(combined.http_port) as node:
        assert node.call(DescribeQuorumRequest(topics=[]), 2).error_code is not None
    for client in clients:
        client.vanish()
