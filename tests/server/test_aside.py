"""Who ends a transaction is served before those who go on with theirs; nobody starves, and order is kept."""

import socket
import struct
from collections.abc import Callable

from conftest_server import RunningServer, read_reply, reply_to, request

from kpybroker.server.aside import LARGEST_BYTES, MOST_BYTES, PEEKED_BYTES, Aside
from kpybroker.server.connection import Connection
from kpybroker.server.frames import END_TXN, PRODUCE
from kpybroker.server.line import MOST_OWED_NS
from kpybroker.server.poller import EpollPoller
from kpybroker.server.turn import NoWrites, Turn

StartServer = Callable[..., RunningServer]


class Soon:
    """What is to be called soon."""

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


def test_they_are_served_in_the_order_of_their_coming_with_looks_between() -> None:
    soon, served = Soon(), list[bytes]()
    aside = Aside(Turn(NoWrites()), soon, lambda: None)
    for name in (b"a", b"b", b"c", b"d", b"e"):
        assert aside.takes(Recorded(served), memoryview(name))
    assert served == []
    soon.run()
    assert served == [b"a", b"b", b"c", b"d", b"e"]
    assert soon.calls == []


def test_who_asks_again_and_again_lets_the_loop_have_its_turn() -> None:
    soon, served = Soon(), list[bytes]()
    aside = Aside(Turn(NoWrites()), soon, lambda: None)
    assert aside.takes(Recorded(served, aside, more=100_000), memoryview(b"again"))
    soon.run()
    assert 0 < len(served) < 100_000
    assert len(soon.calls) == 1


def test_what_is_kept_is_bounded_and_given_back() -> None:
    soon, served = Soon(), list[bytes]()
    aside = Aside(Turn(NoWrites()), soon, lambda: None)
    assert not aside.takes(Recorded(served), memoryview(bytes(LARGEST_BYTES + 1)))
    largest = memoryview(bytes(LARGEST_BYTES))
    for _ in range(MOST_BYTES // LARGEST_BYTES):
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
            sock.sendall(request(number, api_key=END_TXN if number == len(clients) - 1 else PRODUCE))

    server.call(ask)


def test_an_end_is_written_and_answered_before_what_came_with_it(start_server: StartServer) -> None:
    served: list[tuple[int, bool]] = []
    writes = Gathered()

    def dispatch(connection: Connection, received: memoryview) -> bytes:
        number: int = struct.unpack_from(">i", received, 4)[0]
        connection.in_transactions = True
        served.append((number, writes.waits))
        return b"".join(reply_to(number))

    server = start_server(dispatch)
    server.server.turn._writes = writes
    clients = [server.connect() for _ in range(6)]
    for _ in range(3):  # whoever is new is served in the line
        for sock in clients:
            sock.sendall(request(0, api_key=PRODUCE))
            read_reply(sock)
    served.clear()

    ask_at_once(server, clients)
    for number, sock in enumerate(clients):
        assert read_reply(sock)[0] == number
        sock.sendall(request(10 + number, api_key=PRODUCE))
        assert read_reply(sock)[0] == 10 + number
        sock.close()
    assert sorted(number for number, _ in served) == [*range(6), *range(10, 16)]
    if isinstance(server.server.poller, EpollPoller):  # else each is a turn of its own
        assert served[:6] == [(5, False), *((number, True) for number in range(5))]


def test_an_end_goes_before_the_line_whatever_its_producer_owes(start_server: StartServer) -> None:
    served: list[int] = []

    def dispatch(connection: Connection, received: memoryview) -> bytes:
        number: int = struct.unpack_from(">i", received, 4)[0]
        connection.in_transactions = True
        connection.owed_ns = MOST_OWED_NS
        served.append(number)
        return b"".join(reply_to(number))

    server = start_server(dispatch)
    clients = [server.connect() for _ in range(6)]
    for sock in clients:
        sock.sendall(request(0, api_key=PRODUCE))
        read_reply(sock)
    served.clear()

    ask_at_once(server, clients)
    for number, sock in enumerate(clients):
        assert read_reply(sock)[0] == number
        sock.close()
    if isinstance(server.server.poller, EpollPoller):  # else each is looked at by itself
        assert served == [5, 0, 1, 2, 3, 4]


def test_only_one_whole_end_is_taken_for_one() -> None:
    end, produce = request(1, api_key=END_TXN), request(2, api_key=PRODUCE)
    aside = Aside(Turn(NoWrites()), Soon(), lambda: None)
    for sent, is_end in [(end, True), (end[:-1], False), (end + end, False), (produce, False), (b"", False)]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.sendall(sent)
            assert aside.is_end(ours) == is_end
            theirs.sendall(b"x")
            assert ours.recv(PEEKED_BYTES) == sent + b"x", "nothing was taken"
