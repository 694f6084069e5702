"""A listener with TLS is one more factory of channels: connections over it behave as they do over plain sockets."""

import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pytest
import test_connection as behaviours
from conftest_server import RunningServer, echo, read_reply, request, running_servers
from encrypted_channel import encrypted_channels

from kpybroker.server.channel import Channel, plain_channel
from kpybroker.server.connection_quotas import ConnectionLimits
from kpybroker.server.listener import SocketLimits
from kpybroker.server.poller import Poller

pytestmark = pytest.mark.skipif(which("openssl") is None, reason="needs openssl to make a certificate")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and its certificate in one file."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    subprocess.run(
        [*command.split(), "-keyout", path, "-out", path.with_suffix(".crt")], check=True, capture_output=True
    )
    path.write_bytes(path.read_bytes() + path.with_suffix(".crt").read_bytes())
    return path


@pytest.fixture
def start_server(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., RunningServer]]:
    """Starts servers with TLS, whose clients speak it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ours.load_verify_locations(certificate)
    connect = RunningServer.connect

    def connect_securely(server: RunningServer, timeout_s: float = 20) -> socket.socket:
        return ours.wrap_socket(connect(server, timeout_s), server_hostname="localhost")

    monkeypatch.setattr(RunningServer, "connect", connect_securely)
    yield from running_servers(encrypted_channels(context))


@pytest.mark.parametrize(
    ("behaviour", "arguments"),
    [
        (behaviours.test_a_request_of_any_size_is_answered_whole, (2_000_000,)),
        (behaviours.test_a_request_that_comes_byte_by_byte_is_served, ()),
        (behaviours.test_pipelined_requests_are_all_answered_in_order, ()),
        (behaviours.test_replies_leave_in_request_order_whatever_is_ready_first, ()),
        (behaviours.test_a_request_waits_for_the_parked_answer_before_it, ()),
        (behaviours.test_a_client_that_leaves_cancels_what_it_waited_for, ()),
        (behaviours.test_a_client_that_does_not_read_is_not_served_further, ()),
        (behaviours.test_slices_of_files_arrive_whole_between_bytes, (3_000_000, True)),
        (behaviours.test_slices_of_files_arrive_whole_between_bytes, (3_000_000, False)),
        (behaviours.test_idle_connections_are_closed, ()),
        (behaviours.test_frames_cut_anywhere_are_put_together_again, ()),
    ],
)
def test_it_serves_like_a_plain_one(
    start_server: Callable[..., RunningServer], behaviour: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    behaviour(start_server, *arguments)


def test_a_client_that_is_gone_before_its_channel_is_made_costs_nothing() -> None:
    failures = [ConnectionResetError()]

    def open_channel(sock: socket.socket, poller: Poller, call_soon: Callable[..., object]) -> Channel:
        if failures:
            raise failures.pop()
        return plain_channel(sock, poller, call_soon)

    servers = running_servers(open_channel)
    server = next(servers)(echo, SocketLimits(connections=ConnectionLimits(most=1)))
    with server.connect() as gone, server.connect() as sock:
        assert behaviours.closed_by_server(gone)
        sock.sendall(request(1))
        assert read_reply(sock)[0] == 1
    assert next(servers, None) is None


def test_a_client_that_speaks_no_tls_closes_only_its_connection(start_server: Callable[..., RunningServer]) -> None:
    server = start_server(echo)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as plain:
        plain.sendall(request(1))
        assert behaviours.closed_by_server(plain) or plain.recv(1000) == b"", "more than an alert came"
    with server.connect() as sock:
        sock.sendall(request(2))
        assert read_reply(sock)[0] == 2
