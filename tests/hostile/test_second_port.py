"""The port of metrics and health checks, attacked in the same ways: it answers or closes, and nobody else notices."""

import json
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from attacker import Attacker
from click.testing import CliRunner
from crowd import Crowd
from watched import PATIENCE_S, WatchedBroker

from kpybroker.cli import doctor
from kpybroker.cli.options import NOT_IN_ORDER
from kpywire.messages.metadata import MetadataRequest
from support.waiting import eventually


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedBroker]:
    """A broker with a second port."""
    with WatchedBroker(directory=tmp_path_factory.mktemp("observed"), with_http=True) as broker:
        eventually(lambda: is_open(broker), "the second port is open, which comes after the first")
        yield broker
        assert broker.is_alive
        assert not broker.defects_since(0)


def connect(broker: WatchedBroker) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.http_port), timeout=PATIENCE_S)


def is_open(broker: WatchedBroker) -> bool:
    try:
        connect(broker).close()
    except ConnectionRefusedError:
        return False
    return True


def answer(broker: WatchedBroker, sent: bytes) -> bytes:
    """Everything that comes back until the broker closes."""
    received = bytearray()
    with connect(broker) as sock:
        try:
            sock.sendall(sent)
            while chunk := sock.recv(65_536):
                received += chunk
        except ConnectionError:
            pass
    return bytes(received)


def is_live(broker: WatchedBroker) -> bool:
    return b" 200 " in answer(broker, b"GET /live HTTP/1.1\r\n\r\n")


BAD: dict[str, tuple[bytes, bytes]] = {
    "no HTTP": (b"\0\0\0\x0a\0\x03\0\x01\0\0\0\x01\xff\xff\r\n\r\n", b" 400 "),
    "TLS": (bytes.fromhex("16030102000100") + b"\r\n\r\n", b" 400 "),
    "another method": (b"POST /metrics HTTP/1.1\r\n\r\n", b" 405 "),
    "a file": (b"GET /../../../../etc/passwd HTTP/1.1\r\n\r\n", b" 404 "),
    "an escaped file": (b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n\r\n", b" 404 "),
    "two words": (b"GET /live\r\n\r\n", b" 400 "),
    "an empty line": (b"\r\n\r\n", b" 400 "),
    "a huge header": (b"GET /live HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", b""),
    "a header of odd bytes": (b"GET /metrics HTTP/1.1\r\nAccept: \xff\xfe\0\n\x1b[31m\r\n\r\n", b" 200 "),
    "a line in the path": (b"GET /live\rX: y HTTP/1.1\r\n\r\n", b""),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_an_invalid_page_request_is_refused(observed: WatchedBroker, bad: tuple[bytes, bytes]) -> None:
    sent, expected = bad
    received = answer(observed, sent)
    assert expected in received
    assert b"root:" not in received
    assert is_live(observed)


def test_random_bytes_are_refused(observed: WatchedBroker) -> None:
    for number in range(200):
        received = answer(observed, os.urandom(number * 5) + b"\r\n\r\n")
        assert b" 200 " not in received
    assert is_live(observed)


def test_silent_clients_do_not_keep_others_out(observed: WatchedBroker) -> None:
    files = observed.descriptors()
    silent = [connect(observed) for _ in range(300)]
    for sock in silent[::2]:
        sock.send(b"GET /metr")
    with Attacker(observed.port) as client:
        assert client.call(MetadataRequest(topics=[]), 9).brokers
    assert observed.descriptors() <= files + 100
    assert is_live(observed)
    for sock in silent:
        sock.close()


SLOW = {
    "nothing": b"",
    "half a head": b"GET /live HTTP/1.1\r\nX: ",
    "no body": b"POST /leases HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n",
    "an answer that is not read": b"GET /metrics HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("sent", SLOW.values(), ids=SLOW.keys())
@pytest.mark.parametrize("count", [64, pytest.param(150, marks=pytest.mark.slow)])
def test_probes_are_answered_beside_a_crowd_of_slow_connections(
    observed: WatchedBroker, sent: bytes, count: int
) -> None:
    with Crowd(observed.http_port, sent, count):
        for _ in range(5):
            assert is_live(observed)
            eventually(lambda: b" 200 " in answer(observed, b"GET /metrics HTTP/1.1\r\n\r\n"), "metrics are served")


def test_a_client_that_disconnects_after_a_request_leaves_nothing_behind(observed: WatchedBroker) -> None:
    eventually(lambda: is_live(observed), "the second port serves")
    files = observed.descriptors()
    for _ in range(100):
        sock = connect(observed)
        sock.send(b"GET /metrics HTTP/1.1\r\n\r\n")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    eventually(lambda: observed.descriptors() <= files, "no descriptor is left of them")


def test_the_doctor_says_that_connections_are_used_up_though_it_gets_none(tmp_path: Path) -> None:
    with WatchedBroker({"max.connections": "3"}, directory=tmp_path, with_http=True) as broker:
        eventually(lambda: is_open(broker), "the second port is open")
        options = ["--bootstrap-server", broker.bootstrap_servers, "--http", f"127.0.0.1:{broker.http_port}", "--json"]
        held = [Attacker(broker.port) for _ in range(3)]
        for client in held:
            client.call(MetadataRequest(topics=[]), 9)
        reported = CliRunner().invoke(doctor.command, [*options, "--patience", "0"])
        assert reported.exit_code == NOT_IN_ORDER, reported.output
        (finding,) = json.loads(reported.output)
        assert finding["check"] == "connections"
        assert finding["message"].startswith("all connections that the broker allows are used up (3 are open)")
        for client in held:
            client.vanish()
