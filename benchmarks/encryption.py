"""The least that TLS costs a broker's thread, and what the channel costs it: ``python -m benchmarks.encryption``.

The same bytes come over loopback to a socket, to the fewest calls of Python's ``ssl`` that decrypt and encrypt them,
and to a channel. What a client sends is encrypted and has arrived before the clock starts, so only the broker's part is
timed, in CPU time of its thread, and other processes disturb it little.
"""

import socket
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from rich.console import Console
from rich.table import Table

from kpybroker.requests.server.channel import PlainChannel
from kpybroker.requests.server.tls_channel import TlsListener
from kpybroker.requests.server.tls_mistakes import ListenerTerms
from support.certificates import Authority

ROUNDS: Final = 9
CONNECTIONS: Final = (1, 20, 100)
"""How many take turns: OpenSSL touches memory of its own for each."""
EXCHANGES: Final = 2_000
REQUEST_BYTES, ANSWER_BYTES = 300, 60
LOADS: Final = 100
BUFFER_BYTES: Final = 256 * 1024
RECORD_BYTES: Final = 16 * 1024
FULL_RECORDS: Final = (RECORD_BYTES,) * 8
RECORDS_OF_LIBRDKAFKA: Final = ((1000, 10) * 4 + (RECORD_BYTES,)) * 6
"""About what it writes for records of 1 KB: a fifth of them have a TLS record each, and so have the bytes between."""


class Receiver(Protocol):
    """The broker's side of a connection."""

    sock: socket.socket

    def step(self) -> None:
        """Do the next step of the handshake."""

    @property
    def receive(self) -> Callable[[memoryview], int]: ...

    @property
    def answer(self) -> Callable[[bytes], object]: ...


class OverChannel:
    """A channel, with TLS or without. This class takes the places of its poller and of the timers."""

    def __init__(self, sock: socket.socket, listener: TlsListener | None) -> None:
        self.sock = sock
        self._soon: list[Callable[[], object]] = []
        poller: Any = self
        channel: Any = PlainChannel(sock, poller) if listener is None else listener(sock, poller, self._call_soon)
        self.receive: Callable[[memoryview], int] = channel.recv_into
        self.answer: Callable[[bytes], object] = channel.send
        channel.watch(self._nothing)

    def _call_soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        self._soon.append(partial(callback, *arguments))

    def _nothing(self, _events: int) -> None:
        """Do nothing: the benchmark receives."""

    def add(self, _descriptor: int, found: Callable[[int], object], _events: int) -> None:
        self._found = found

    def change(self, descriptor: int, events: int) -> None:
        """Do nothing."""

    def count(self) -> None:
        """Do nothing."""

    def discount(self) -> None:
        """Do nothing."""

    def step(self) -> None:
        self._found(1)
        while self._soon:
            self._soon.pop(0)()


class NoTimers:
    """A scheduler whose time does not pass."""

    def monotonic_ms(self) -> float:
        return 0

    def call_later(self, _delay_ms: float, _callback: Callable[..., object], *_arguments: Any) -> None:
        """Do nothing."""


class Bare:
    """The fewest calls of ``ssl``."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.sock = sock
        self._received = memoryview(bytearray(BUFFER_BYTES))
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: Any = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def step(self) -> None:
        self._incoming.write(self.sock.recv(BUFFER_BYTES))
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        self.sock.sendall(self._outgoing.read())

    def receive(self, view: memoryview) -> int:
        incoming, read, filled = self._incoming, self._tls.read, 0
        incoming.write(self._received[: self.sock.recv_into(self._received)])
        while incoming.pending:
            filled += read(BUFFER_BYTES, view[filled:] if filled else view)
        return filled

    def answer(self, data: bytes) -> None:
        self._tls.write(data)
        self.sock.send(self._outgoing.read())


class Client:
    """The other side, whose time is not counted."""

    def __init__(
        self, listening: socket.socket, receiving: Callable[[socket.socket], Receiver], trust: ssl.SSLContext | None
    ) -> None:
        self._sock = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
        accepted.setblocking(False)
        self.receiver = receiving(accepted)
        self._from, self._to = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = None if trust is None else trust.wrap_bio(self._from, self._to, server_hostname="127.0.0.1")
        if self._tls is not None:
            with suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
            self._deliver(self._to.read())
            self.receiver.step()
            self._from.write(self._sock.recv(BUFFER_BYTES))
            self._tls.do_handshake()
            self._deliver(self._to.read())
            self.receiver.step()

    def send(self, sizes: Sequence[int]) -> None:
        """Send this many bytes, in records of these sizes, and wait until they are there."""
        if self._tls is None:
            self._deliver(bytes(sum(sizes)))
            return
        for size in sizes:
            self._tls.write(bytes(size))
        self._deliver(self._to.read())

    def _deliver(self, data: bytes) -> None:
        self._sock.sendall(data)
        while len(self.receiver.sock.recv(len(data), socket.MSG_PEEK)) < len(data):
            time.sleep(0.0001)

    def take(self) -> None:
        """Receive an answer."""
        data = self._sock.recv(BUFFER_BYTES)
        if self._tls is not None:
            self._from.write(data)
            self._tls.read(BUFFER_BYTES)


def exchanging(clients: Sequence[Client], buffer: memoryview) -> float:
    """µs for a small request and its answer."""
    spent_ns, rounds, answer = 0, EXCHANGES // len(clients), bytes(ANSWER_BYTES)
    for _ in range(rounds):
        for client in clients:
            client.send([REQUEST_BYTES])
        began_ns = time.thread_time_ns()
        for client in clients:
            client.receiver.receive(buffer)
            client.receiver.answer(answer)
        spent_ns += time.thread_time_ns() - began_ns
        for client in clients:
            client.take()
    return spent_ns / rounds / len(clients) / 1e3


def loading(sizes: Sequence[int], clients: Sequence[Client], buffer: memoryview) -> float:
    """Seconds for a GB that is received in records of these sizes."""
    spent_ns, wanted = 0, sum(sizes)
    for _ in range(LOADS):
        clients[0].send(sizes)
        filled, began_ns = 0, time.thread_time_ns()
        while filled < wanted:
            filled += clients[0].receiver.receive(buffer[filled:])
        spent_ns += time.thread_time_ns() - began_ns
    return spent_ns / LOADS / wanted


def main() -> None:
    """Measure and print all of it."""
    with tempfile.TemporaryDirectory() as directory:
        authority = Authority()
        trust = ssl.create_default_context(cafile=str(authority.save(Path(directory, "authority.pem"))))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.issue().save_pem(Path(directory, "broker.pem")))
    context.num_tickets = 0
    timers: Any = NoTimers()
    listener = TlsListener(context, ListenerTerms("TLS", "SSL", "", "none"), timers)
    ways: list[tuple[Callable[[socket.socket], Receiver], ssl.SSLContext | None]] = [
        (lambda sock: OverChannel(sock, None), None),
        (lambda sock: Bare(sock, context), trust),
        (lambda sock: OverChannel(sock, listener), trust),
    ]
    table = Table("", "a socket", "ssl alone, more", "the channel, more", title=ssl.OPENSSL_VERSION)
    loads: list[tuple[str, int, Callable[[Sequence[Client], memoryview], float]]] = [
        *((f"small request, {count} connections: µs", count, exchanging) for count in CONNECTIONS),
        ("records of 16 KB: s/GB", 1, partial(loading, FULL_RECORDS)),
        ("records of librdkafka: s/GB", 1, partial(loading, RECORDS_OF_LIBRDKAFKA)),
    ]
    with socket.create_server(("127.0.0.1", 0), backlog=max(CONNECTIONS)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * BUFFER_BYTES)
        for title, count, measured in loads:
            clients = [[Client(listening, *way) for _ in range(count)] for way in ways]
            buffer = memoryview(bytearray(BUFFER_BYTES))
            rounds = [[measured(each, buffer) for each in clients] for _ in range(ROUNDS)]
            plain = statistics.median(each[0] for each in rounds)
            more = [statistics.median(each[way] - each[0] for each in rounds) for way in (1, 2)]
            table.add_row(title, *(f"{figure:.2f}" for figure in (plain, *more)))
    Console().print(table)


if __name__ == "__main__":
    main()
