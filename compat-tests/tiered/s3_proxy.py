"""A proxy in front of an S3 server: it waits, cuts connections in the middle of bodies, loses answers, and refuses.

It forwards bytes and knows of S3 only what faults and observers need: methods, keys and error codes. One request uses
one connection to the server, so an answer ends where that connection does.

Invariant: the fate of a request is drawn before any byte of it is forwarded, and ``healed`` ends all faults.
"""

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import Callable
from random import Random
from threading import Thread
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

HOST: Final = "127.0.0.1"
MOST_HEAD_BYTES: Final = 64 * 1024
PIECE_BYTES: Final = 64 * 1024
_KEY_IN_BODY: Final = re.compile(rb"<Key>([^<]+)</Key>")
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CONNECTION: Final = re.compile(rb"\r\nconnection:[^\r]*", re.IGNORECASE)
ERRORS: Final = {
    "InternalError": b"500 Internal Server Error",
    "SlowDown": b"503 Slow Down",
    "ExpiredToken": b"403 Forbidden",
}


class Faults(NamedTuple):
    """The shares of requests that go wrong."""

    slow: float = 0.0
    """They take seconds."""
    cut: float = 0.0
    """The connection ends in the middle of the request or of the answer."""
    lost: float = 0.0
    """They have their effect, and no answer."""
    refused: float = 0.0
    """They are answered with 500, 503 or 403."""
    latency_s: float = 0.0
    """The most that every other request waits."""


BAD: Final = Faults(slow=0.01, cut=0.03, lost=0.02, refused=0.05, latency_s=0.03)


class S3Request(NamedTuple):
    """A request that is forwarded."""

    method: str
    keys: tuple[str, ...]
    """The objects that it is about, without their bucket."""


class S3Proxy:
    """The proxy of one server, in a thread of its own: ``with S3Proxy(port) as proxy``."""

    def __init__(self, server_port: int, faults: Faults = BAD, seed: int = 1) -> None:
        self.faults = faults
        self.counted: Counter[str] = Counter()
        """The fates of requests, and how often each was drawn."""
        self.begins: Callable[[S3Request], object] = lambda _request: None
        """Called in the proxy's thread before a request is forwarded."""
        self.ended: Callable[[S3Request], object] = lambda _request: None
        """Called in the proxy's thread when the server has answered a request."""
        self.port = 0
        self._server_port = server_port
        self._rng = Random(seed)
        self._serving: set[asyncio.Task[None] | None] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="s3-proxy", daemon=True)

    @property
    def url(self) -> str:
        """The endpoint of clients."""
        return f"http://{HOST}:{self.port}"

    def heal(self) -> None:
        """No faults from now on."""
        self.faults = Faults()

    def __enter__(self) -> "S3Proxy":
        self._thread.start()
        listening = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, HOST, 0), self._loop)
        self._server = listening.result(30)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)

    # One connection of a client

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._serving.add(task)  # a loop keeps no task alive
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1])) if length is not None else b""
            await self._decide(head, body, writer)
        writer.close()
        self._serving.discard(task)

    async def _decide(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        method, target, _ = head.split(b" ", 2)
        request = S3Request(method.decode(), _keys(target.decode(), body))
        faults, rng = self.faults, self._rng
        await asyncio.sleep(
            rng.choice((1.0, 2.0, 4.0)) if rng.random() < faults.slow else rng.random() * faults.latency_s
        )
        if rng.random() < faults.refused:
            await self._refuse(rng.choice(sorted(ERRORS)), writer)
        elif rng.random() < faults.cut:
            self.counted["cut"] += 1
            await self._forward(head, body[: rng.randint(0, len(body))], None)
        else:
            self.begins(request)
            is_lost, is_cut = rng.random() < faults.lost, rng.random() < faults.cut
            self.counted["lost" if is_lost else "cut" if is_cut else "answered"] += 1
            await self._forward(
                head, body, None if is_lost else writer, most_bytes=rng.randint(1, 200) if is_cut else None
            )
            self.ended(request)

    async def _refuse(self, code: str, writer: asyncio.StreamWriter) -> None:
        self.counted[code] += 1
        answer = f"<Error><Code>{code}</Code><Message>by the proxy</Message></Error>".encode()
        writer.write(
            b"HTTP/1.1 %b\r\nContent-Type: application/xml\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
            % (ERRORS[code], len(answer), answer)
        )
        await writer.drain()

    async def _forward(
        self, head: bytes, body: bytes, writer: asyncio.StreamWriter | None, most_bytes: int | None = None
    ) -> None:
        """Send a request to the server, and its answer, or the beginning of it, to the client."""
        from_server, to_server = await asyncio.open_connection(HOST, self._server_port, limit=MOST_HEAD_BYTES)
        try:
            to_server.write(_CONNECTION.sub(b"", head[:-4]) + b"\r\nConnection: close\r\n\r\n" + body)
            await to_server.drain()
            length = _LENGTH.search(head)
            if length is not None and len(body) < int(length[1]):
                return  # the server sees the connection end in the middle of the request
            while piece := await from_server.read(PIECE_BYTES):
                if writer is not None:
                    writer.write(piece if most_bytes is None else piece[:most_bytes])
                    await writer.drain()
                    if most_bytes is not None:
                        writer.transport.abort()
                        writer = None
        finally:
            to_server.close()


def _keys(target: str, body: bytes) -> tuple[str, ...]:
    """The keys in a path-style target, or in the body of a deletion of many."""
    place = urlsplit(target)
    key = unquote(place.path).lstrip("/").partition("/")[2]
    if key:
        return (key,)
    return tuple(found.decode() for found in _KEY_IN_BODY.findall(body)) if place.query.startswith("delete") else ()
