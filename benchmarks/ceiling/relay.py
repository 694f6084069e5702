"""Stands between clients and a broker, and keeps what was asked and how it was answered."""

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.raw.asking import Address

PRODUCE, FETCH = 0, 1
FLEXIBLE_PRODUCE, FLEXIBLE_FETCH = 9, 12
HEADER = 4 + 4
"""Key and version, correlation id."""


class RelayError(RuntimeError):
    """A client asks in a version that cannot be played back."""


class Exchanges(NamedTuple):
    """Answers, with their size, by request without its correlation id; Fetch requests, whose answers are files."""

    answers: dict[bytes, bytes]
    fetches: set[bytes]


class Relay:
    """Listens on ``port`` between ``start`` and ``stop``."""

    def __init__(self, port: int, broker: Address) -> None:
        self.port, self.broker = port, broker
        self._seen = Exchanges({}, set())
        self._problem: str | None = None
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        self._listener = socket.create_server((self.broker.host, self.port), backlog=1024)
        self._run(self._welcome)

    def begin(self) -> None:
        """Forget what was seen so far."""
        self._seen, self._problem = Exchanges({}, set()), None

    def stop(self) -> Exchanges:
        """Closes all connections; what was seen. Raises RelayError."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in (self._listener, *self._sockets):
            each.close()
        self._sockets, self._threads = [], []
        if self._problem:
            raise RelayError(self._problem)
        return self._seen

    def _run(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, name="relay", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _welcome(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self.broker)
                self._sockets += [client, broker]
                asked: deque[bytes] = deque()
                for each in (client, broker):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._run(self._requests, client, broker, asked)
                self._run(self._answers, client, broker, asked)

    def _requests(self, client: socket.socket, broker: socket.socket, asked: deque[bytes]) -> None:
        for framed in frames_of(client):
            try:
                asked.append(without_id(framed[4:]))
            except RelayError as problem:
                self._problem = str(problem)
                asked.append(b"")
            with contextlib.suppress(OSError):
                broker.sendall(framed)
        with contextlib.suppress(OSError):
            broker.shutdown(socket.SHUT_WR)

    def _answers(self, client: socket.socket, broker: socket.socket, asked: deque[bytes]) -> None:
        for framed in frames_of(broker):
            key = asked.popleft()
            if key[:2] == struct.pack(">h", FETCH):
                self._seen.fetches.add(key)
            elif key:
                self._seen.answers[key] = framed
            with contextlib.suppress(OSError):
                client.sendall(framed)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


def frames_of(connection: socket.socket) -> Iterator[bytes]:
    """Each message with its size, until the connection ends."""
    with connection.makefile("rb") as stream, contextlib.suppress(OSError):
        while len(prefix := stream.read(4)) == 4:
            (size,) = struct.unpack(">i", prefix)
            yield prefix + stream.read(size)


def without_id(request: bytes) -> bytes:
    """A request without its correlation id; nothing of a Produce, whose answer follows from what it carries.

    Raises RelayError.
    """
    key, version = struct.unpack_from(">hh", request)
    first = {PRODUCE: FLEXIBLE_PRODUCE, FETCH: FLEXIBLE_FETCH}.get(key, 0)
    if version < first:
        raise RelayError(f"a client sends version {version} of request {key}, and {first} is the first to be played")
    return b"" if key == PRODUCE else request[:4] + request[HEADER:]
