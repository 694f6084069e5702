"""A server on a free port of loopback with a dispatcher that the test chooses."""

import asyncio
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from kpybroker.requests.server.channel import OpenChannel, PlainChannel, plain_channel
from kpybroker.requests.server.connection import Connection
from kpybroker.requests.server.listener import Server, SocketLimits
from kpybroker.runtime.fairness.trait import ORDINARY, Trait
from kpybroker.runtime.io.scheduler import LoopScheduler
from kpybroker.runtime.io.system_sockets import SYSTEM_SOCKETS


class TemporarySlice:
    """A slice of a file as logs hand them out."""

    def __init__(self, path: Path, position: int, length: int, *, cold: bool = False) -> None:
        self._file = path.open("rb")
        self.position, self.length, self.cold = position, length, cold
        self.whole_end = position

    def whole_until(self, position: int) -> int:
        return max(self.whole_end, position)

    def check(self, position: int, most_bytes: int) -> tuple[int, str, int]:
        end = min(position + most_bytes // 3, self.position + self.length)
        return end, "", end

    def note(self, _position: int, checked: tuple[int, str, int]) -> None:
        self.whole_end = checked[2]

    def __len__(self) -> int:
        return self.length

    def fileno(self) -> int:
        return self._file.fileno()

    def read(self) -> bytes:
        return os.pread(self.fileno(), self.length, self.position)


def unwatched(sock: socket.socket) -> PlainChannel:
    """A channel without a poller."""
    nothing: Any = None
    return PlainChannel(sock, nothing)


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


ORDINARY_KEY, OVERLAPPING_KEY, LAST_KEY = 3, 0, 26
"""The first two bytes of a request, by which this dispatcher tells kinds apart."""
OVERLAPPING, LAST = Trait(overlaps=True, is_whole=True), Trait(goes_first=True)


class Dispatching:
    """A dispatcher that serves requests by a function, and knows three kinds of them."""

    def __init__(self, serve: Callable[..., object]) -> None:
        self._serve = serve

    def __call__(self, connection: Connection, received: memoryview) -> Any:
        return self._serve(connection, received)

    def trait_at(self, view: memoryview, position: int) -> Trait:
        kinds = {OVERLAPPING_KEY: OVERLAPPING, LAST_KEY: LAST}
        return kinds.get(struct.unpack_from(">h", view, position)[0], ORDINARY)


def bound(limits: SocketLimits) -> socket.socket:
    """A socket with a free port."""
    return SYSTEM_SOCKETS.bind("127.0.0.1", 0, limits.receive_buffer_bytes)


class RunningServer:
    """A `Server` in a thread with a loop of its own."""

    def __init__(
        self, dispatch: Callable[..., object], limits: SocketLimits, open_channel: OpenChannel = plain_channel
    ) -> None:
        self.open_channel = open_channel
        self.loop = asyncio.new_event_loop()
        self.scheduler = LoopScheduler(self.loop)
        self.dispatch = Dispatching(dispatch)
        self.server = Server(self.loop, self.scheduler, limits)
        self.port = self.server.listen("PLAINTEXT", bound(limits), self.dispatch, open_channel)
        self.server.start()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def connect(self, timeout_s: float = 20) -> socket.socket:
        return self.connect_to(self.port, timeout_s)

    def connect_to(self, port: int, timeout_s: float = 20) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port), timeout=timeout_s)

    def listen_too(self, name: str) -> int:
        """Open another listener; its port."""

        def listen() -> int:
            port = self.server.listen(name, bound(self.server.limits), self.dispatch, self.open_channel)
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


def running_servers(open_channel: OpenChannel = plain_channel) -> Iterator[Callable[..., RunningServer]]:
    """Yields a function that starts servers; they end when the generator goes on."""
    running: list[RunningServer] = []

    def start(dispatch: Callable[..., object], limits: SocketLimits | None = None) -> RunningServer:
        running.append(RunningServer(dispatch, limits or SocketLimits(), open_channel))
        return running[-1]

    yield start
    for server in running:
        with suppress(RuntimeError):
            server.stop()


def echo(_connection: Connection, received: memoryview) -> list[bytes]:
    """Answer with the correlation id and everything behind it."""
    number = struct.unpack_from(">i", received, 4)[0]
    return reply_to(number, bytes(received[8:]))
