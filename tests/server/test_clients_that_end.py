"""Whole requests that came before the end of their client are served, and answered where the client still reads."""

import socket
import struct
import time
from collections.abc import Callable, Generator

import pytest
from conftest_server import OVERLAPPING_KEY, RunningServer, echo, read_reply, reply_to, request
from test_connection import closed_by_server

from kpybroker.requests.server.connection import Connection
from kpybroker.requests.server.poller import EpollPoller
from kpybroker.runtime.calls.close_connection import CloseConnection
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import Work
from support.waiting import eventually

StartServer = Callable[..., RunningServer]


def reset(sock: socket.socket) -> None:
    """End a connection at once, as the system does for a process that left bytes unread."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def send_no_more(sock: socket.socket) -> None:
    socket.socket.shutdown(sock, socket.SHUT_WR)  # that of `ssl` would end the encryption too


class Served:
    """A dispatcher that notes the numbers of the requests; those below 1000 have no answer, as with acks=0."""

    def __init__(self, *, slow: bool = False) -> None:
        self.numbers: list[int] = []
        self.parked: dict[int, Pending] = {}
        self.throttled: set[int] = set()
        self.slow = slow

    def __call__(self, connection: Connection, received: memoryview) -> Pending | list[bytes] | None:
        key, _, number = struct.unpack_from(">hhi", received)
        self.numbers.append(number)
        if self.slow:
            connection.answered_ns = time.perf_counter_ns() + 10**12  # as if it had taken long
        if number in self.throttled:
            connection.mute(300)
        if number < 1000:
            return None
        if number < 2000:
            return reply_to(number)
        pending = self.parked[number] = Pending(overlaps=key == OVERLAPPING_KEY)
        pending.encode_with(lambda _: reply_to(number))
        return pending


@pytest.mark.parametrize("slow", [False, True], ids=["at once", "in pieces"])
@pytest.mark.parametrize("size", [8, 5_000])
def test_requests_without_an_answer_are_served_after_their_client_closed(
    start_server: StartServer, size: int, slow: bool
) -> None:
    served = Served(slow=slow)
    server = start_server(served)
    with server.connect() as sock:
        sock.sendall(b"".join(request(number, size) for number in range(200)))
    eventually(lambda: len(served.numbers) == 200 and not server.server.connections)
    assert served.numbers == list(range(200))


def test_requests_without_an_answer_are_served_after_their_client_reset_the_connection(
    start_server: StartServer,
) -> None:
    served = Served()
    served.throttled = {3}
    server = start_server(served)
    sock = server.connect()
    sock.sendall(b"".join(request(number) for number in range(50)))
    eventually(lambda: 3 in served.numbers)
    reset(sock)
    eventually(lambda: len(served.numbers) == 50 and not server.server.connections)


def test_a_client_that_sends_no_more_gets_all_answers(start_server: StartServer) -> None:
    served = Served(slow=True)
    server = start_server(served)
    with server.connect() as sock:
        sock.sendall(b"".join(request(number, 3_000) for number in range(1000, 1200)))
        send_no_more(sock)
        assert [read_reply(sock)[0] for _ in range(200)] == list(range(1000, 1200))
        assert closed_by_server(sock)
    eventually(lambda: not server.server.connections)


@pytest.mark.parametrize("api_key", [3, OVERLAPPING_KEY], ids=["one at a time", "overlapping"])
def test_a_client_that_sends_no_more_gets_answers_that_come_later(start_server: StartServer, api_key: int) -> None:
    served = Served()
    server = start_server(served)
    with server.connect() as sock:
        sock.sendall(b"".join(request(number, 20, api_key) for number in (2000, 2001, 2002)) + request(5) + b"part")
        send_no_more(sock)
        for number in (2000, 2001, 2002):
            eventually(lambda number=number: number in served.parked)
            server.call(lambda number=number: served.parked[number].resolve(None))
            assert read_reply(sock)[0] == number
        assert closed_by_server(sock)
    assert served.numbers == [2000, 2001, 2002, 5]


def test_a_throttled_client_that_closed_is_served_when_its_time_has_passed(start_server: StartServer) -> None:
    served = Served()
    served.throttled = {1, 3}
    server = start_server(served)
    with server.connect() as sock:
        sock.sendall(b"".join(request(number, 100) for number in range(6)))
    eventually(lambda: served.numbers == list(range(6)) and not server.server.connections)


def test_a_client_that_reads_slowly_and_sends_no_more_gets_all_answers(start_server: StartServer) -> None:
    server = start_server(echo)
    with server.connect() as sock:
        sock.sendall(request(1, 8_000_000) + request(2, 2_000_000) + request(3, 20))
        send_no_more(sock)
        time.sleep(0.1)
        assert [len(read_reply(sock)[1]) for _ in range(3)] == [7_999_992, 1_999_992, 12]
        assert closed_by_server(sock)


def test_requests_before_bytes_that_are_no_request_are_answered(start_server: StartServer) -> None:
    served = Served()
    server = start_server(served)
    with server.connect() as sock:
        sock.sendall(request(2000, 20, OVERLAPPING_KEY) + struct.pack(">i", -1) + b"x" * 20)
        eventually(lambda: 2000 in served.parked)
        sock.sendall(request(1))
        server.call(lambda: served.parked[2000].resolve(None))
        assert read_reply(sock)[0] == 2000
        assert closed_by_server(sock)
    assert served.numbers == [2000]


def test_a_request_that_fails_in_a_later_step_closes_its_connection(start_server: StartServer) -> None:
    later: list[Pending] = []

    def steps() -> Generator[Pending, None, None]:
        later.append(Pending())
        yield later[-1]
        raise CloseConnection("it cannot be read")

    server = start_server(lambda connection, _received: connection.share(steps()))
    with server.connect() as sock:
        sock.sendall(request(1000) + request(1001))
        eventually(lambda: bool(later))
        server.call(lambda: later[0].resolve(None))
        assert closed_by_server(sock)
    assert len(later) == 1


def test_a_client_that_reset_its_connection_is_not_waited_for(start_server: StartServer) -> None:
    """Its parked requests are cancelled: no answer can reach it."""
    served, cancelled = Served(), list[int]()
    server = start_server(served)
    sock = server.connect()
    sock.sendall(request(2000))
    eventually(lambda: 2000 in served.parked)
    server.call(lambda: served.parked[2000].when_cancelled(lambda: cancelled.append(2000)))
    reset(sock)
    eventually(lambda: cancelled == [2000] and not server.server.connections)


@pytest.mark.parametrize("end", [reset, send_no_more], ids=["reset", "no more sent"])
def test_a_closed_throttled_client_wakes_no_other_client(
    start_server: StartServer, end: Callable[[socket.socket], object]
) -> None:
    served = Served()
    served.throttled = {1}
    server = start_server(served)
    sock = server.connect()
    sock.sendall(request(1) + request(2))
    eventually(lambda: 1 in served.numbers)
    events = server.server.poller.events
    end(sock)
    eventually(lambda: not server.server.connections)
    assert served.numbers == [1, 2]
    assert server.server.poller.events - events < 10
    sock.close()


def test_a_client_that_reset_its_connection_frees_its_place_although_more_was_read(start_server: StartServer) -> None:
    served = Served()
    server = start_server(served)
    sock = server.connect()
    sock.sendall(request(2000) + request(2001))
    eventually(lambda: 2000 in served.parked)
    reset(sock)
    if not isinstance(server.server.poller, EpollPoller):
        server.call(lambda: served.parked[2000].resolve(None))  # only epoll reports a reset before anything is sent
    eventually(lambda: not server.server.connections)
    assert served.numbers[:1] == [2000]


@pytest.mark.parametrize("end", [reset, send_no_more], ids=["reset", "no more sent"])
def test_a_throttled_client_that_ended_frees_its_place_if_nothing_is_due(
    start_server: StartServer, end: Callable[[socket.socket], object]
) -> None:
    served = Served()
    server = start_server(served)
    sock = server.connect()
    sock.sendall(request(1000))
    assert read_reply(sock)[0] == 1000
    (connection,) = server.server.connections
    server.call(lambda: connection.mute(600_000))
    end(sock)
    eventually(lambda: not server.server.connections)
    sock.close()


def test_a_request_that_fails_in_a_later_step_ends_its_connection_behind_earlier_answers(
    start_server: StartServer,
) -> None:
    first = Pending(overlaps=True)

    def dispatch(connection: Connection, received: memoryview) -> Pending | None:
        number: int = struct.unpack_from(">i", received, 4)[0]
        if number == 0:
            return first
        paused = Pending()

        def work() -> Work:
            server.loop.call_soon(paused.resolve, None)
            yield paused
            server.loop.call_soon(first.resolve, reply_to(0))
            raise CloseConnection("a request that cannot be read")

        failing: Pending | None = connection.share(work())
        return failing

    server = start_server(dispatch)
    with server.connect() as sock:
        sock.sendall(request(0, api_key=OVERLAPPING_KEY) + request(1, api_key=OVERLAPPING_KEY))
        assert read_reply(sock)[0] == 0
        assert sock.recv(1) == b""
