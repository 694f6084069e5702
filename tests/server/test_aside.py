"""Requests that end a transaction are served before those that go on with one; nobody starves, and order is kept."""

import socket
import struct
from collections.abc import Callable

from conftest_server import (
    LAST_KEY,
    ORDINARY_KEY,
    OVERLAPPING_KEY,
    Dispatching,
    RunningServer,
    read_reply,
    reply_to,
    request,
    unwatched,
)

from kpybroker.requests.server.connection import Connection
from kpybroker.requests.server.frames import trait_of_one
from kpybroker.requests.server.listener import PEEKED_BYTES
from kpybroker.requests.server.poller import EpollPoller
from kpybroker.runtime.fairness.aside import Aside
from kpybroker.runtime.fairness.times import ASIDE_BYTES, ASIDE_REQUEST_BYTES, MOST_OWED_NS
from kpybroker.runtime.fairness.turn import NoWrites, Turn
from support.waiting import eventually

StartServer = Callable[..., RunningServer]


class Soon:
    """The calls that are due soon."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []

    def __call__(self, callback: Callable[[], object]) -> None:
        self.calls.append(callback)

    def run(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


class Recorded:
    """A connection that notes what of it is served, and asks for more until it has nothing left."""

    def __init__(self, served: list[bytes], aside: Aside | None = None, more: int = 0) -> None:
        self.served = served
        self.aside = aside
        self.more = more

    def serve_aside(self, frame: memoryview) -> None:
        self.served.append(bytes(frame))
        if self.aside is not None and self.more:
            self.more -= 1
            assert self.aside.takes(self, frame)


def test_waiting_connections_are_served_in_order_with_polls_between() -> None:
    soon, served = Soon(), list[bytes]()
    aside = Aside(Turn(NoWrites()), soon, lambda: None)
    for name in (b"a", b"b", b"c", b"d", b"e"):
        assert aside.takes(Recorded(served), memoryview(name))
    assert served == []
    soon.run()
    assert served == [b"a", b"b", b"c", b"d", b"e"]
    assert soon.calls == []


def test_a_client_that_asks_repeatedly_yields_to_the_loop() -> None:
    soon, served = Soon(), list[bytes]()
    aside = Aside(Turn(NoWrites()), soon, lambda: None)
    assert aside.takes(Recorded(served, aside, more=100_000), memoryview(b"again"))
    soon.run()
    assert 0 < len(served) < 100_000
    assert len(soon.calls) == 1


def test_kept_bytes_are_bounded_and_released() -> None:
    soon, served = Soon(), list[bytes]()
    aside = Aside(Turn(NoWrites()), soon, lambda: None)
    assert not aside.takes(Recorded(served), memoryview(bytes(ASIDE_REQUEST_BYTES + 1)))
    largest = memoryview(bytes(ASIDE_REQUEST_BYTES))
    for _ in range(ASIDE_BYTES // ASIDE_REQUEST_BYTES):
        assert aside.takes(Recorded(served), largest)
    assert not aside.takes(Recorded(served), memoryview(b"x"))
    while soon.calls:
        soon.run()
    assert aside.takes(Recorded(served), memoryview(b"x"))


class Gathered:
    """Whether appends wait for each other."""

    waits = False

    def gather(self) -> None:
        self.waits = True

    def settle(self) -> bool:
        return True

    def stop_gathering(self) -> None:
        self.waits = False


def ask_at_once(server: RunningServer, clients: list[socket.socket]) -> None:
    """Requests that the server finds together: all go on with a transaction, and the last one ends it."""

    def ask() -> None:
        for number, sock in enumerate(clients):
            sock.sendall(request(number, api_key=LAST_KEY if number == len(clients) - 1 else OVERLAPPING_KEY))

    server.call(ask)


def test_an_end_is_written_and_answered_before_what_came_with_it(start_server: StartServer) -> None:
    served: list[tuple[int, bool]] = []
    writes = Gathered()

    def dispatch(connection: Connection, received: memoryview) -> bytes:
        number: int = struct.unpack_from(">i", received, 4)[0]
        connection.client.in_transactions = True
        served.append((number, writes.waits))
        return b"".join(reply_to(number))

    server = start_server(dispatch)
    server.server.turn._writes = writes
    clients = [server.connect() for _ in range(6)]
    for _ in range(3):  # a new client is served in the line
        for sock in clients:
            sock.sendall(request(0, api_key=OVERLAPPING_KEY))
            read_reply(sock)
    served.clear()

    ask_at_once(server, clients)
    for number, sock in enumerate(clients):
        assert read_reply(sock)[0] == number
        sock.sendall(request(10 + number, api_key=OVERLAPPING_KEY))
        assert read_reply(sock)[0] == 10 + number
        sock.close()
    assert sorted(number for number, _ in served) == [*range(6), *range(10, 16)]
    if isinstance(server.server.poller, EpollPoller):  # else each is a turn of its own
        assert served[:6] == [(5, False), *((number, True) for number in range(5))]


def test_an_end_goes_before_the_line_whatever_its_producer_owes(start_server: StartServer) -> None:
    served: list[int] = []

    def dispatch(connection: Connection, received: memoryview) -> bytes:
        number: int = struct.unpack_from(">i", received, 4)[0]
        connection.client.in_transactions = True
        connection.owed_ns = MOST_OWED_NS
        served.append(number)
        return b"".join(reply_to(number))

    server = start_server(dispatch)
    clients = [server.connect() for _ in range(6)]
    for sock in clients:
        sock.sendall(request(0, api_key=OVERLAPPING_KEY))
        read_reply(sock)
    served.clear()

    ask_at_once(server, clients)
    for number, sock in enumerate(clients):
        assert read_reply(sock)[0] == number
        sock.close()
    if isinstance(server.server.poller, EpollPoller):  # else each is read by itself
        assert served == [5, 0, 1, 2, 3, 4]


def test_in_a_turn_that_takes_long_short_requests_go_before_whole_ones(start_server: StartServer) -> None:
    served: list[int] = []

    def dispatch(connection: Connection, received: memoryview) -> bytes:
        number: int = struct.unpack_from(">i", received, 4)[0]
        connection.server.turn.is_late = connection.server.turn.is_on
        served.append(number)
        return b"".join(reply_to(number))

    server = start_server(dispatch)
    clients = [server.connect() for _ in range(8)]
    for _ in range(3):
        for sock in clients:
            sock.sendall(request(0, api_key=ORDINARY_KEY))
            read_reply(sock)
    served.clear()

    def ask() -> None:
        for number, sock in enumerate(clients):
            sock.sendall(request(number, api_key=ORDINARY_KEY if number % 2 else OVERLAPPING_KEY))

    server.call(ask)
    for number, sock in enumerate(clients):
        assert read_reply(sock)[0] == number
        sock.close()
    if isinstance(server.server.poller, EpollPoller):  # else each is a turn of its own
        assert served == [0, 1, 3, 5, 7, 2, 4, 6]
    eventually(lambda: not server.server.turn.is_late, "the turn has ended")


def test_exactly_one_whole_request_is_recognised_in_the_peeked_bytes() -> None:
    one, peeked = request(1), memoryview(bytearray(PEEKED_BYTES))
    for sent, is_one in [
        (one, True),
        (one[:-1], False),
        (one + one, False),
        (request(1, PEEKED_BYTES), False),
        (b"", False),
    ]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.sendall(sent)
            assert (trait_of_one(unwatched(ours), peeked, Dispatching(print)) is not None) == is_one
            assert not is_one or peeked[: len(one)] == one
            theirs.sendall(b"x")
            assert ours.recv(2 * PEEKED_BYTES) == sent + b"x", "nothing was taken"
