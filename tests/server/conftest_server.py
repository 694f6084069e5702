"""A server on a free port of loopback with a dispatcher that the test chooses."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

from kpybroker.io.scheduler import LoopScheduler
from kpybroker.server.connection import Connection
from kpybroker.server.listener import Server, SocketLimits


def frame(payload: bytes) -> bytes:
    """A size-prefixed request."""
    return struct.pack(">i", len(payload)) + payload


def request(number: int, size: int = 8, api_key: int = 3) -> bytes:
    """A frame of ``size`` bytes behind its size: api key, version 0, correlation id, padding."""
    return frame(struct.pack(">hhi", api_key, 0, number).ljust(size, b"x"))


def reply_to(number: int, body: bytes = b"") -> list[bytes]:
    return [struct.pack(">ii", 4 + len(body), number), body]


def read_exactly(sock: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        chunk = sock.recv(count - len(data))
        if not chunk:
            raise ConnectionError("closed by the server")
        data += chunk
    return bytes(data)


def read_reply(sock: socket.socket) -> tuple[int, bytes]:
    """(correlation id, body)."""
    size, number = struct.unpack(">ii", read_exactly(sock, 8))
    return number, read_exactly(sock, size - 4)


class RunningServer:
    """A `Server` in a thread with a loop of its own."""

    def __init__(self, dispatch: Callable[..., object], limits: SocketLimits) -> None:
        self.loop = asyncio.new_event_loop()
        self.scheduler = LoopScheduler(self.loop)
        self.server = Server(self.loop, self.scheduler, dispatch, limits)
        self.port = self.server.listen("PLAINTEXT", "127.0.0.1", 0)
        self.server.start()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def connect(self, timeout_s: float = 20) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s)

    def listen_too(self, name: str) -> int:
        """Open another listener; its port."""

        def listen() -> int:
            port = self.server.listen(name, "127.0.0.1", 0)
            self.server.start()
            return port

        return int(str(self.call(listen)))

    def call(self, function: Callable[[], object]) -> object:
        """Run on the loop and wait."""

        async def run() -> object:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(20)

    def stop(self) -> None:
        self.call(self.server.close)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(20)
        self.loop.run_until_complete(self.scheduler.close())
        self.loop.close()


def running_servers() -> Iterator[Callable[..., RunningServer]]:
    """Yields a function that starts servers; they end when the generator goes on."""
    running: list[RunningServer] = []

    def start(dispatch: Callable[..., object], limits: SocketLimits | None = None) -> RunningServer:
        running.append(RunningServer(dispatch, limits or SocketLimits()))
        return running[-1]

    yield start
    for server in running:
        with suppress(RuntimeError):
            server.stop()


def echo(_connection: Connection, received: memoryview) -> list[bytes]:
    """Answer with the correlation id and everything behind it."""
    number = struct.unpack_from(">i", received, 4)[0]
    return reply_to(number, bytes(received[8:]))
