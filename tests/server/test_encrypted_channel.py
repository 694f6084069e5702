"""A listener with TLS is one more factory of channels: connections over it behave as they do over plain sockets."""

import asyncio
import logging
import os
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import test_clients_that_end as ends
import test_connection as behaviours
from conftest_server import (
    RunningServer,
    TemporarySlice,
    echo,
    read_exactly,
    read_reply,
    reply_to,
    request,
    running_servers,
)
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from kpybroker.requests.server import tls_channel
from kpybroker.requests.server.channel import Channel, plain_channel
from kpybroker.requests.server.connection_quotas import ConnectionLimits
from kpybroker.requests.server.listener import SocketLimits
from kpybroker.requests.server.poller import Poller
from kpybroker.requests.server.tls_channel import ListenerTerms, TlsListener
from kpybroker.requests.server.tls_mistakes import TlsFailure
from kpybroker.runtime.calls.principal import ANONYMOUS, Principal
from kpybroker.security.tls.contexts import client_context, server_context
from kpybroker.security.tls.names import subject_of
from kpybroker.security.tls.settings import TlsSettings
from support.certificates import Authority, Certificate
from support.waiting import eventually

TERMS = ListenerTerms("SECURE", "SSL", "CN=broker", "requested")


class Later:
    """The timers of the loop that runs."""

    def call_later(self, delay_ms: float, callback: Callable[..., object], *arguments: Any) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback, *arguments)

    def monotonic_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    ahead_ms = 0
    """The time that has passed meanwhile by the clock on the wall."""

    def now_ms(self) -> int:
        return int(time.time() * 1000) + self.ahead_ms


LATER: Any = Later()
AUTHORITY = Authority()
BROKER = AUTHORITY.issue("broker")


def settings(own: Certificate | None, trusted: Authority | None, **more: Any) -> TlsSettings:
    made = TlsSettings(truststore_type="PEM", truststore_certificates=None if trusted is None else trusted.pem)
    if own is not None:
        made = made._replace(keystore_type="PEM", keystore_key=own.key_pem(), keystore_certificate_chain=own.chain_pem)
    return made._replace(**more)


def identified(certificate: bytes | None) -> Principal:
    name = None if certificate is None else subject_of(certificate)
    if name == "CN=nobody":
        raise TlsFailure("nobody may not connect")
    return ANONYMOUS if name is None else Principal("User", name)


def listening(client_auth: str = "none", **more: Any) -> TlsListener:
    context = server_context(settings(BROKER, AUTHORITY, client_auth=client_auth, **more))
    return TlsListener(context, TERMS._replace(client_auth=client_auth), LATER, identified)


def secured(sock: socket.socket, own: Certificate | None = None, trusted: Authority = AUTHORITY) -> ssl.SSLSocket:
    return client_context(settings(own, trusted)).wrap_socket(sock, server_hostname="localhost")


@pytest.fixture
def start_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., RunningServer]]:
    """Starts servers with TLS, whose clients speak it."""
    connect = RunningServer.connect

    def connect_securely(server: RunningServer, timeout_s: float = 20) -> socket.socket:
        return secured(connect(server, timeout_s))

    monkeypatch.setattr(RunningServer, "connect", connect_securely)
    yield from running_servers(listening())


@pytest.mark.parametrize(
    ("behaviour", "arguments"),
    [
        (behaviours.test_a_request_of_any_size_is_answered_whole, (2_000_000,)),
        (behaviours.test_a_request_that_comes_byte_by_byte_is_served, ()),
        (behaviours.test_pipelined_requests_are_all_answered_in_order, ()),
        (behaviours.test_replies_leave_in_request_order_whatever_is_ready_first, ()),
        (behaviours.test_a_request_waits_for_the_parked_answer_before_it, ()),
        (behaviours.test_a_client_that_does_not_read_is_not_served_further, ()),
        (behaviours.test_slices_of_files_arrive_whole_between_bytes, (3_000_000, True)),
        (behaviours.test_slices_of_files_arrive_whole_between_bytes, (3_000_000, False)),
        (behaviours.test_idle_connections_are_closed, ()),
        (behaviours.test_frames_cut_anywhere_are_put_together_again, ()),
        (ends.test_requests_without_an_answer_are_served_after_their_client_closed, (5_000, True)),
        (ends.test_requests_without_an_answer_are_served_after_their_client_reset_the_connection, ()),
        (ends.test_a_client_that_sends_no_more_gets_all_answers, ()),
        (ends.test_a_client_that_sends_no_more_gets_answers_that_come_later, (3,)),
        (ends.test_a_throttled_client_that_closed_is_served_when_its_time_has_passed, ()),
        (ends.test_a_client_that_reset_its_connection_is_not_waited_for, ()),
        (ends.test_a_closed_throttled_client_wakes_no_other_client, (ends.reset,)),
    ],
)
def test_an_encrypted_channel_serves_like_a_plain_one(
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


@pytest.fixture
def start_with() -> Iterator[Callable[[TlsListener], RunningServer]]:
    """Starts servers whose listener is chosen by the test, and who say who their client is."""
    running: list[RunningServer] = []

    def start(listener: TlsListener) -> RunningServer:
        running.append(RunningServer(caller, SocketLimits(), listener))
        for sock, each in running[-1].server._listening.items():
            running[-1].server._listening[sock] = each._replace(protocol="SSL")
        return running[-1]

    yield start
    for server in running:
        server.stop()


def caller(connection: Any, received: memoryview) -> list[bytes]:
    return reply_to(struct.unpack_from(">i", received, 4)[0], str(connection.client.principal).encode())


def asked(sock: socket.socket) -> str:
    sock.sendall(request(1))
    return read_reply(sock)[1].decode()


def test_the_principal_comes_from_the_client_certificate(start_with: Callable[[TlsListener], RunningServer]) -> None:
    server = start_with(listening("requested"))
    with secured(server.connect(), AUTHORITY.issue("alice", ())) as alice, secured(server.connect()) as anonymous:
        assert asked(alice) == "User:CN=alice"
        assert asked(anonymous) == "User:ANONYMOUS"


def test_every_mistake_closes_its_connection_and_is_named_in_one_line(
    start_with: Callable[[TlsListener], RunningServer], caplog: pytest.LogCaptureFixture
) -> None:
    """Cases: without TLS, HTTP, another authority, no certificate, an expired one, an old version, and more."""
    server = start_with(listening("required"))
    newest = start_with(listening(enabled_protocols=("TLSv1.3",)))

    def sends(data: bytes) -> None:
        with server.connect() as sock:
            sock.sendall(data)
            assert behaviours.closed_by_server(sock), "without any answer"

    def fails(own: Certificate | None = None, trusted: Authority = AUTHORITY) -> None:
        with pytest.raises(OSError), secured(server.connect(), own, trusted) as sock:
            asked(sock)

    def speaks_only_an_old_version() -> None:
        context = client_context(settings(None, AUTHORITY, enabled_protocols=("TLSv1.2",)))
        with pytest.raises(OSError):
            context.wrap_socket(newest.connect(), server_hostname="localhost").close()

    def leaves() -> None:
        with server.connect() as sock:
            sock.sendall(bytes.fromhex("16030100"))

    on = "on listener SECURE (SSL)"
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: sends(request(1)), f"it speaks without TLS {on}; set security.protocol=SSL in that client"),
        (lambda: sends(b"GET / HTTP/1.1\r\n\r\n"), f"it speaks HTTP {on}"),
        (lambda: fails(trusted=Authority("Another")), "it does not accept the certificate of listener SECURE (SSL)"),
        (fails, f"it sent no client certificate {on}, and ssl.client.auth=required"),
        (lambda: fails(AUTHORITY.issue("old", (), days=(-3, -1))), f"refused {on} (certificate has expired); renew it"),
        (lambda: fails(Authority("Another").issue("eve", ())), f"its client certificate is refused {on}"),
        (lambda: fails(AUTHORITY.issue("nobody", ())), "nobody may not connect"),
        (speaks_only_an_old_version, "it speaks no version of TLS that listener SECURE (SSL) allows"),
        (leaves, f"it left during the TLS handshake {on}"),
    ]
    with caplog.at_level(logging.WARNING, "kpybroker.server"):
        for play, line in cases:
            caplog.clear()
            server.server.complaints._kept_back.clear()
            play()
            eventually(lambda line=line: any(line in reported.getMessage() for reported in caplog.records))
            (reported,) = caplog.records
            assert reported.getMessage().startswith("closing the connection of 127.0.0.1:")
            assert "\n" not in reported.getMessage()
            assert reported.exc_info is None
    with secured(server.connect(), AUTHORITY.issue("alice", ())) as sock:
        assert asked(sock) == "User:CN=alice", "others are served"


def test_a_resumed_session_does_not_outlive_the_certificate_of_its_client(
    start_with: Callable[[TlsListener], RunningServer],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """OpenSSL resumes a session of TLS 1.2 without a check of its certificates."""
    server = start_with(listening("required", enabled_protocols=("TLSv1.2",)))
    context = client_context(settings(AUTHORITY.issue("alice", (), days=(-1, 1)), AUTHORITY))

    def connect(session: ssl.SSLSession | None) -> ssl.SSLSocket:
        return context.wrap_socket(server.connect(), server_hostname="localhost", session=session)

    with connect(None) as first:
        assert asked(first) == "User:CN=alice"
        session = first.session
    with connect(session) as second:
        assert (asked(second), second.session_reused) == ("User:CN=alice", True)
    monkeypatch.setattr(Later, "ahead_ms", 2 * 24 * 3_600_000)
    with caplog.at_level(logging.WARNING, "kpybroker.server"), connect(session) as late, suppress(OSError):
        assert late.recv(1) == b""
    assert "its client certificate is refused on listener SECURE (SSL) (certificate has expired)" in caplog.text


def test_a_channel_that_cannot_be_made_leaves_no_bytes_to_the_next(
    start_with: Callable[[TlsListener], RunningServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes that a client has sent are in a buffer that the channels of a listener share."""
    listener = listening()
    context, wanted = listener.context, []

    class Failing:
        def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
            wanted.append(listener.incoming.pending)
            if len(wanted) == 1:
                raise ssl.SSLError("no memory")
            return context.wrap_bio(*arguments, **named)

    server = start_with(listener)
    monkeypatch.setattr(listener, "context", Failing())
    with suppress(OSError), secured(server.connect()) as refused:
        pytest.fail(f"it speaks {refused.version()}")
    assert (len(wanted), listener.incoming.pending) == (1, 0)
    with secured(server.connect()) as sock:
        assert asked(sock) == "User:ANONYMOUS"


def test_a_handshake_that_does_not_end_is_closed(
    start_with: Callable[[TlsListener], RunningServer],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(tls_channel, "HANDSHAKE_PATIENCE_MS", 300)
    server = start_with(listening())
    hello = bytes.fromhex("16030100c8010000c40303") + bytes(300)
    with caplog.at_level(logging.WARNING, "kpybroker.server"), server.connect() as silent, server.connect() as slow:
        slow.settimeout(0.02)
        for byte in hello:
            try:
                slow.sendall(bytes([byte]))
                if slow.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("a byte now and then keeps it open")
        assert behaviours.closed_by_server(silent)
    assert "did not finish the TLS handshake on listener SECURE (SSL) within 0.3 s" in caplog.text


def test_one_handshake_does_a_step_in_a_turn_of_the_loop() -> None:
    listener, soon, steps = listening(), deque[Callable[[], object]](), list[int]()

    def call_soon(function: Callable[..., object], *arguments: object) -> None:
        soon.append(partial(function, *arguments))

    for number in range(5):
        channel: Any = SimpleNamespace(shake_hands=partial(steps.append, number))
        listener.line_up(channel, call_soon)
    for turn in range(5):
        (step,) = soon
        soon.clear()
        step()
        assert steps == list(range(turn + 1))
    assert not soon


def test_many_handshakes_at_once_succeed(
    start_with: Callable[[TlsListener], RunningServer],
) -> None:
    server = start_with(listening())
    answers: list[str] = []

    def connect() -> None:
        with secured(server.connect()) as sock:
            answers.append(asked(sock))

    threads = [threading.Thread(target=connect) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answers == ["User:ANONYMOUS"] * 40


def test_records_that_arrive_in_any_pieces_are_put_together(start_with: Callable[[TlsListener], RunningServer]) -> None:
    server = start_with(listening())
    with RunningServer.connect(server) as plain:
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = client_context(settings(None, AUTHORITY)).wrap_bio(to_client, to_server, server_hostname="localhost")

        def send(size: int) -> None:
            encrypted = to_server.read()
            for position in range(0, len(encrypted), size):
                plain.sendall(encrypted[position : position + size])

        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                send(97)
                to_client.write(plain.recv(65_536))
        for number in (1, 2, 3):
            client.write(request(number, 40_000))
            client.write(request(number + 10, 9))
            send(4_001 if number == 2 else 3)
        answers = b""
        while answers.count(b"User:ANONYMOUS") < 6:
            to_client.write(plain.recv(65_536))
            while to_client.pending or client.pending():
                answers += client.read(65_536)
    assert [struct.unpack_from(">i", answers, at * 22 + 4)[0] for at in range(6)] == [1, 11, 2, 12, 3, 13]


class Talk:
    """A client and its channel, which the test calls in the place of a poller."""

    def __init__(self, listener: TlsListener) -> None:
        self._sock, mine = socket.socketpair()
        for sock in (self._sock, mine):
            sock.setblocking(False)
        unknown: Any = MagicMock()
        self.channel: Any = listener(mine, unknown, unknown)
        self._from, self._to = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._client = client_context(settings(None, AUTHORITY)).wrap_bio(
            self._from, self._to, server_hostname="localhost"
        )
        self._unsent = self.sent = self.received = b""

    def shake_hands(self) -> None:
        with suppress(ssl.SSLWantReadError):
            self._client.do_handshake()
        self.push()
        self.channel.shake_hands()
        self._from.write(self._sock.recv(65_536))
        self._client.do_handshake()

    def write(self, data: bytes) -> None:
        self.sent += data
        while data:
            data = data[self._client.write(data) :]

    def push(self) -> None:
        self._unsent += self._to.read()
        with suppress(BlockingIOError):
            self._unsent = self._unsent[self._sock.send(self._unsent) :]

    def read(self, size: int) -> bool:
        """Whether there was anything to receive into a buffer of this size."""
        buffer = bytearray(size)
        try:
            self.received += buffer[: self.channel.recv_into(buffer)]
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self.channel.forsake()
        self._sock.close()


SIZES_OF_RECORDS = st.integers(1, 20) | st.integers(900, 1100) | st.integers(16_000, 40_000)


@given(
    turns=st.lists(
        st.tuples(st.integers(0, 2), st.lists(SIZES_OF_RECORDS, max_size=6), st.integers(1, 70) | st.just(100_000)),
        max_size=12,
    )
)
@given_settings(max_examples=25, deadline=None)
def test_each_channel_of_a_listener_decrypts_what_its_own_client_sent(turns: list[tuple[int, list[int], int]]) -> None:
    """Whatever of it finds no room in a buffer: they share the one from which OpenSSL reads."""
    listener = TlsListener(server_context(settings(BROKER, AUTHORITY)), TERMS, MagicMock())
    talks = [Talk(listener) for _ in range(3)]
    with ExitStack() as stack:
        for number, talk in enumerate(talks):
            stack.callback(talk.close)
            talk.shake_hands()
            talk.write(bytes([number]) * 30)  # it comes with the end of the handshake
            talk.push()
            talk.channel.shake_hands()
        for which, sizes, room in turns:
            for size in sizes:
                talks[which].write(os.urandom(size))
            talks[which].push()
            talks[which].read(room)
            assert not listener.incoming.pending
        for talk in talks:
            while talk.read(50_000) or talk._unsent:
                talk.push()
            assert talk.received == talk.sent


def test_handshakes_and_ends_are_no_requests_for_the_queue(
    start_with: Callable[[TlsListener], RunningServer],
) -> None:
    server = start_with(listening())
    with secured(server.connect()) as sock:
        asked(sock)
        before = server.server.poller.events
        assert before <= 1  # the first request may come with the end of the handshake
        asked(sock)
    eventually(lambda: not server.server.connections)
    assert server.server.poller.events == before + 1


def test_a_large_request_wakes_the_server_for_much_of_it_and_for_its_end(
    start_with: Callable[[TlsListener], RunningServer],
) -> None:
    """Its records come one by one, and the server serves another client after each."""
    server = start_with(listening())
    body = request(1, 16 * tls_channel.LEAST_AWAITED_BYTES)
    pieces = [body[at : at + 4_000] for at in range(0, len(body), 4_000)]
    with secured(server.connect()) as sock, secured(server.connect()) as other:
        asked(sock)
        asked(other)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        before = server.server.poller.events
        for piece in pieces:
            sock.sendall(piece)
            asked(other)
        assert read_reply(sock) == (1, b"User:ANONYMOUS")
        assert server.server.poller.events - before - len(pieces) <= 10 < len(pieces) // 6
        sock.sendall(request(2))
        assert read_reply(sock) == (2, b"User:ANONYMOUS")


@pytest.mark.parametrize("filled", [200, 100_000, 190_000])
def test_a_client_that_leaves_within_a_large_request_is_gone_at_once(
    start_with: Callable[[TlsListener], RunningServer], filled: int
) -> None:
    server = start_with(listening())
    sock = secured(server.connect())
    sock.sendall(request(1, 200_000)[:filled])
    (connection,) = server.server.connections
    eventually(lambda: connection._body_size > 200_000)
    sock.shutdown(socket.SHUT_WR)
    eventually(lambda: not server.server.connections)
    sock.close()


@pytest.mark.parametrize("size", [1, 6, 100])
def test_the_beginning_of_a_hello_costs_no_more_than_its_bytes(
    start_with: Callable[[TlsListener], RunningServer], size: int
) -> None:
    server = start_with(listening())
    hello = to_hello()
    with RunningServer.connect(server) as sock:
        sock.sendall(hello[:size])
        eventually(lambda: len(server.server.connections) == 1)
        (connection,) = server.server.connections
        channel: Any = connection.channel
        eventually(lambda: len(channel._tail) == size)
        assert channel._tls is None
        sock.sendall(hello[size:])
        assert sock.recv(1) == b"\x16", "the server's hello"


def to_hello() -> bytes:
    """The first record of a client."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        client_context(settings(None, AUTHORITY)).wrap_bio(to_client, to_server, server_hostname="x").do_handshake()
    return to_server.read()


def test_a_client_that_does_not_read_costs_one_piece(
    start_server: Callable[..., RunningServer], tmp_path: Path
) -> None:
    content = os.urandom(8_000_000)
    (tmp_path / "log").write_bytes(content)

    def dispatch(_connection: Any, received: memoryview) -> list[Any]:
        number = struct.unpack_from(">i", received, 4)[0]
        return [struct.pack(">ii", 4 + len(content), number), TemporarySlice(tmp_path / "log", 0, len(content))]

    server = start_server(dispatch)
    with server.connect() as sock:
        sock.sendall(request(1) + request(2))
        (connection,) = server.server.connections
        eventually(lambda: server.server.backlog.size_bytes >= connection.channel.held_bytes > 0)
        assert connection.channel.held_bytes < 2 * tls_channel.PIECE_BYTES
        for number in (1, 2):
            assert struct.unpack(">ii", read_exactly(sock, 8)) == (4 + len(content), number)
            assert read_exactly(sock, len(content)) == content


def test_a_client_that_ends_without_goodbye_is_only_gone(
    start_with: Callable[[TlsListener], RunningServer], caplog: pytest.LogCaptureFixture
) -> None:
    server = start_with(listening())
    sock = secured(server.connect())
    assert asked(sock) == "User:ANONYMOUS"
    os.close(sock.detach())
    eventually(lambda: not server.server.connections)
    assert "closing" not in caplog.text


def test_records_that_are_damaged_end_the_connection_silently_for_others(
    start_with: Callable[[TlsListener], RunningServer],
) -> None:
    server = start_with(listening())
    with server.connect() as raw:
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_context(settings(None, AUTHORITY)).wrap_bio(to_client, to_server, server_hostname="localhost")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                raw.sendall(to_server.read())
                to_client.write(raw.recv(65536))
        raw.sendall(to_server.read())
        tls.write(request(1))
        record = bytearray(to_server.read())
        record[-1] ^= 1
        raw.sendall(record)
        b"".join(iter(lambda: raw.recv(1000), b""))
    with secured(server.connect()) as sock:
        assert asked(sock) == "User:ANONYMOUS"
