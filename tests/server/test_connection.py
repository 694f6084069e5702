"""Frames in, replies out: in order, whole, bounded, and without harm to others."""

import os
import socket
import struct
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest_server import RunningServer, TemporarySlice, echo, frame, read_reply, reply_to, request

from kpybroker.requests.server.channel import plain_channel
from kpybroker.requests.server.connection import Connection
from kpybroker.requests.server.connection_quotas import ConnectionLimits
from kpybroker.requests.server.listener import SocketLimits
from kpybroker.requests.server.poller import EpollPoller
from kpybroker.runtime.calls.pending import Pending
from support.waiting import eventually

StartServer = Callable[..., RunningServer]


def closed_by_server(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("size", [8, 9, 1000, 300_000, 2_000_000])
def test_a_request_of_any_size_is_answered_whole(start_server: StartServer, size: int) -> None:
    server = start_server(echo)
    with server.connect() as sock:
        for number in range(3):
            sock.sendall(request(number, size))
            assert read_reply(sock) == (number, b"x" * (size - 8))


def test_a_request_that_comes_byte_by_byte_is_served(start_server: StartServer) -> None:
    server = start_server(echo)
    with server.connect() as sock:
        for byte in request(7, 40) + request(8, 12):
            sock.sendall(bytes([byte]))
        assert read_reply(sock) == (7, b"x" * 32)
        assert read_reply(sock) == (8, b"x" * 4)


def test_pipelined_requests_are_all_answered_in_order(start_server: StartServer) -> None:
    server = start_server(echo)
    with server.connect() as sock:
        sock.sendall(b"".join(request(number, 8 + number % 50) for number in range(20_000)))
        assert [read_reply(sock)[0] for _ in range(20_000)] == list(range(20_000))


def test_pipelined_slow_requests_are_served_one_at_a_time(start_server: StartServer) -> None:
    served: list[int] = []

    def dispatch(connection: Connection, received: memoryview) -> list[bytes]:
        number: int = struct.unpack_from(">i", received, 4)[0]
        served.append(number)
        connection.answered_ns = time.perf_counter_ns() + (10**12 if number < 100 else 0)
        return reply_to(number)

    server = start_server(dispatch)
    with server.connect() as greedy, server.connect() as honest:
        for sock in (greedy, honest):
            sock.sendall(request(100))
            assert read_reply(sock)[0] == 100
        server.call(lambda: (greedy.sendall(b"".join(map(request, range(10)))), honest.sendall(request(101))))
        assert read_reply(honest)[0] == 101
        assert [read_reply(greedy)[0] for _ in range(10)] == list(range(10))
    assert served.index(101) <= 4, "it waits for few of the others' requests"


def test_replies_leave_in_request_order_whatever_is_ready_first(start_server: StartServer) -> None:
    parked: list[Pending] = []

    def park_produce(_connection: Connection, received: memoryview) -> Pending:
        pending = Pending(overlaps=True)
        number = struct.unpack_from(">i", received, 4)[0]
        pending.encode_with(lambda _: reply_to(number))
        parked.append(pending)
        return pending

    server = start_server(park_produce)
    with server.connect() as sock:
        sock.sendall(request(1, api_key=0) + request(2, api_key=0) + request(3, api_key=0))
        eventually(lambda: len(parked) == 3)
        for pending in reversed(parked):
            server.call(lambda pending=pending: pending.resolve(None))
        assert [read_reply(sock)[0] for _ in range(3)] == [1, 2, 3]


def test_only_a_produce_may_overtake_the_answer_of_a_produce(start_server: StartServer) -> None:
    served: list[int] = []
    parked: list[Pending] = []

    def dispatch(_connection: Connection, received: memoryview) -> Pending | list[bytes]:
        api_key, _, number = struct.unpack_from(">hhi", received)
        served.append(number)
        if api_key == 0:
            pending = Pending(overlaps=True)
            pending.encode_with(lambda _: reply_to(number))
            parked.append(pending)
            return pending
        return reply_to(number)

    server = start_server(dispatch)
    with server.connect() as sock:
        sock.sendall(request(1, api_key=0) + request(2, api_key=0) + request(3, api_key=3) + request(4, api_key=0))
        eventually(lambda: len(served) >= 2)
        time.sleep(0.05)
        assert served == [1, 2]
        server.call(lambda: parked[0].resolve(None))
        assert read_reply(sock)[0] == 1
        assert served == [1, 2]
        server.call(lambda: parked[1].resolve(None))
        assert read_reply(sock)[0] == 2
        assert read_reply(sock)[0] == 3
        eventually(lambda: served == [1, 2, 3, 4])


def test_a_request_waits_for_the_parked_answer_before_it(start_server: StartServer) -> None:
    parked: list[Pending] = []

    def dispatch(_connection: Connection, received: memoryview) -> Pending | list[bytes]:
        number = struct.unpack_from(">i", received, 4)[0]
        if number == 1:
            pending = Pending()
            pending.encode_with(lambda _: reply_to(1))
            parked.append(pending)
            return pending
        return reply_to(number)

    server = start_server(dispatch)
    with server.connect() as sock:
        sock.sendall(request(1, api_key=1))
        eventually(lambda: bool(parked))
        for number in (2, 3):
            sock.sendall(request(number, 100_000))
        server.call(lambda: parked[0].resolve(None))
        assert [read_reply(sock)[0] for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">i", -1) + b"x" * 20,
        struct.pack(">i", 0) + b"x" * 20,
        struct.pack(">i", 7) + b"x" * 20,
        struct.pack(">i", 2**31 - 1) + b"x" * 20,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["negative", "zero", "too small", "huge", "TLS", "HTTP"],
)
def test_an_invalid_frame_closes_only_its_connection(
    start_server: StartServer, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server(echo)
    with server.connect() as healthy, server.connect() as sock, caplog.at_level("INFO", "kpybroker"):
        sock.sendall(sent)
        assert closed_by_server(sock)
        healthy.sendall(request(5, 20))
        assert read_reply(healthy) == (5, b"x" * 12)
    assert len(caplog.records) == 1


def test_a_declared_size_costs_no_memory_until_its_bytes_come(start_server: StartServer) -> None:
    server = start_server(echo)
    socks = [server.connect() for _ in range(50)]
    try:
        for sock in socks:
            sock.sendall(struct.pack(">i", 100 * 1024 * 1024) + b"x" * 1000)
        eventually(lambda: len(server.server.budget._held) == 50)
        assert server.server.budget.used_bytes <= 50 * 128 * 1024
    finally:
        for sock in socks:
            sock.close()
    eventually(lambda: server.server.budget.used_bytes == 0)


def test_bodies_beyond_the_budget_wait_for_each_other_and_are_all_served(start_server: StartServer) -> None:
    server = start_server(echo, SocketLimits(queued_max_request_bytes=1_000_000))
    socks = [server.connect() for _ in range(6)]
    body = request(3, 700_000)
    for sock in socks:
        sock.sendall(body[:200_000])
    for sock in socks:
        sock.settimeout(0.2)
        rest = memoryview(body)[200_000:]
        while rest:
            try:
                rest = rest[sock.send(rest) :]
            except TimeoutError:
                break
    # A client that is held back gets its turn when those before it are served.
    done = 0
    for sock in socks:
        sock.settimeout(20)
        assert read_reply(sock) == (3, b"x" * 699_992)
        sock.close()
        done += 1
    assert done == 6


def test_a_client_that_does_not_read_is_not_served_further(start_server: StartServer) -> None:
    served: list[int] = []

    def dispatch(_connection: Connection, received: memoryview) -> list[bytes]:
        number = struct.unpack_from(">i", received, 4)[0]
        served.append(number)
        return reply_to(number, bytes(1_000_000))

    server = start_server(dispatch)
    with server.connect() as sock, server.connect() as healthy:
        sock.sendall(b"".join(request(number) for number in range(1000)))
        eventually(lambda: len(served) > 0)
        time.sleep(0.2)
        assert len(served) < 50
        healthy.sendall(request(77))
        assert read_reply(healthy)[0] == 77
        for number in range(1000):
            assert read_reply(sock)[0] == number


@pytest.mark.parametrize("cold", [False, True], ids=["near the tail", "cold"])
@pytest.mark.parametrize("length", [10, 100_000, 5_000_000])
def test_slices_of_files_arrive_whole_between_bytes(start_server: StartServer, length: int, cold: bool) -> None:
    content = os.urandom(length + 10)
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()

        def dispatch(_connection: Connection, received: memoryview) -> list[object]:
            number = struct.unpack_from(">i", received, 4)[0]
            piece = TemporarySlice(Path(file.name), 5, length, cold=cold)
            return [struct.pack(">ii", 4 + 3 + length + 4, number), b"abc", piece, b"wxyz"]

        server = start_server(dispatch)
        with server.connect() as sock:
            for number in range(3):
                sock.sendall(request(number))
                assert read_reply(sock) == (number, b"abc" + content[5 : 5 + length] + b"wxyz")


def test_limits_on_connections_refuse_the_next_one(start_server: StartServer) -> None:
    server = start_server(echo, SocketLimits(connections=ConnectionLimits(most_per_ip=2)))
    with server.connect() as first, server.connect() as second:
        for sock in (first, second):
            sock.sendall(request(1))
            assert read_reply(sock)[0] == 1
        with server.connect() as third:
            assert closed_by_server(third)
    eventually(lambda: not server.server.connections)
    with server.connect() as again:
        again.sendall(request(2))
        assert read_reply(again)[0] == 2


def answers(sock: socket.socket, number: int = 1) -> bool:
    """Whether the server answers; False if it does not within a moment."""
    sock.sendall(request(number))
    sock.settimeout(0.3)
    try:
        return read_reply(sock)[0] == number
    except TimeoutError:
        return False
    finally:
        sock.settimeout(20)


def test_connections_beyond_the_limit_wait_until_another_leaves(start_server: StartServer) -> None:
    server = start_server(echo, SocketLimits(connections=ConnectionLimits(2)))
    with server.connect() as first, server.connect() as second:
        assert answers(first)
        assert answers(second)
        with server.connect() as third:
            assert not answers(third, 3)
            first.close()
            assert read_reply(third)[0] == 3
            assert answers(second)


def test_connections_that_wait_are_served_when_the_limit_rises(start_server: StartServer) -> None:
    server = start_server(echo, SocketLimits(connections=ConnectionLimits(2)))
    with server.connect() as first, server.connect() as second, server.connect() as third:
        assert answers(first)
        assert answers(second)
        assert not answers(third, 3)
        server.call(lambda: server.server.change_limits(SocketLimits(connections=ConnectionLimits(3))))
        assert read_reply(third)[0] == 3


def test_when_the_limit_falls_those_leave_that_were_idle_for_longest(start_server: StartServer) -> None:
    server = start_server(echo, SocketLimits())
    with server.connect() as first, server.connect() as second, server.connect() as third:
        for sock in (second, third, first):
            assert answers(sock)
            time.sleep(0.01)
        server.call(lambda: server.server.change_limits(SocketLimits(connections=ConnectionLimits(1))))
        assert closed_by_server(second)
        assert closed_by_server(third)
        assert answers(first)


def test_the_listener_between_brokers_lets_in_at_the_cost_of_idle_clients(start_server: StartServer) -> None:
    limits = SocketLimits(connections=ConnectionLimits(2, protected_listener="REPLICATION"))
    server = start_server(echo, limits)
    port = server.listen_too("REPLICATION")
    with server.connect() as first, server.connect() as second:
        assert answers(second)
        time.sleep(0.01)
        assert answers(first)
        with socket.create_connection(("127.0.0.1", port), timeout=20) as broker:
            assert answers(broker)
            assert closed_by_server(second)
            assert answers(first)


def test_connections_beyond_what_a_listener_takes_wait_until_one_of_it_leaves(start_server: StartServer) -> None:
    limits = SocketLimits(connections=ConnectionLimits(10, per_listener={"SMALL": 1}, protected_listener="SMALL"))
    server = start_server(echo, limits)
    port = server.listen_too("SMALL")
    with server.connect() as other, socket.create_connection(("127.0.0.1", port), timeout=20) as first:
        assert answers(other)
        assert answers(first)
        with socket.create_connection(("127.0.0.1", port), timeout=20) as second:
            assert not answers(second, 2)
            other.close()
            with server.connect() as next_other:
                assert answers(next_other)
            first.close()
            assert read_reply(second)[0] == 2


def test_connections_beyond_the_creation_rate_wait_for_the_next_second(start_server: StartServer) -> None:
    server = start_server(echo, SocketLimits(max_creation_rate=3))
    socks = [server.connect() for _ in range(5)]
    try:
        for sock in socks:
            sock.sendall(request(1))
        for sock in socks[:3]:
            assert read_reply(sock)[0] == 1
        assert server.server.accepted_connections == 3
        for sock in socks[3:]:
            assert read_reply(sock)[0] == 1
        assert server.server.accepted_connections == 5
    finally:
        for sock in socks:
            sock.close()


def test_idle_connections_are_closed(start_server: StartServer) -> None:
    server = start_server(echo, SocketLimits(max_idle_ms=100))
    with server.connect() as sock:
        sock.sendall(request(1))
        assert read_reply(sock)[0] == 1
        assert closed_by_server(sock)


def test_frames_cut_anywhere_are_put_together_again(start_server: StartServer) -> None:
    server = start_server(echo)
    stream = b"".join(frame(struct.pack(">hhi", 3, 0, number) + bytes(number % 9)) for number in range(30))
    with server.connect() as sock:
        for step in (1, 3, 7, 11):
            for start in range(0, len(stream), step):
                sock.sendall(stream[start : start + step])
            assert [read_reply(sock)[0] for _ in range(30)] == list(range(30))


class Watched(deque[object]):
    """A queue that remembers what has joined it."""

    def __init__(self) -> None:
        super().__init__()
        self.joined: list[object] = []

    def append(self, piece: object) -> None:
        self.joined.append(piece)
        super().append(piece)


def test_a_new_client_does_not_queue_where_it_is_alone(start_server: StartServer) -> None:
    queue = Watched()
    server = start_server(echo)
    if not isinstance(server.server.poller, EpollPoller) or server.open_channel is not plain_channel:
        pytest.skip("it is known with epoll who else is readable, and a narrow channel is served in pieces")
    line = server.server.line
    server.call(lambda: setattr(line, "_queue", queue))
    with server.connect() as sock:
        for number in range(3):
            sock.sendall(request(number))
            assert read_reply(sock)[0] == number
    assert not queue.joined


def test_a_new_client_queues_behind_others(start_server: StartServer) -> None:
    """A piece of work is before it, which goes on until the client was seen to wait."""
    served: list[str] = []

    def serve(_connection: Connection, _received: memoryview) -> list[bytes]:
        served.append("client")
        return reply_to(1)

    server = start_server(serve)
    line = server.server.line

    def piece() -> None:
        if line._queue or len(served) > 1_000_000:
            served.append("the last piece")
        else:
            served.append("piece")
            line.join(piece)

    with server.connect() as sock:
        server.call(lambda: line.join(piece))
        sock.sendall(request(1))
        assert read_reply(sock)[0] == 1
    assert served.index("client") > served.index("the last piece")


@pytest.mark.skipif(not hasattr(socket, "TCP_CONGESTION"), reason="the option is Linux's")
def test_accepted_sockets_have_the_options_of_clients(start_server: StartServer) -> None:
    server = start_server(echo, SocketLimits(send_buffer_bytes=50_000))
    with server.connect() as sock:
        eventually(lambda: bool(server.server.connections))
        accepted = next(iter(server.server.connections)).channel._sock  # type: ignore[attr-defined]
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).startswith(b"reno")
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in (50_000, 100_000)  # Linux doubles it
        assert not accepted.getblocking()
        assert (accepted.family, accepted.type) == (sock.family, socket.SOCK_STREAM)
