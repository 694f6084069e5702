"""The second port: ``/metrics`` for Prometheus, ``/live`` and ``/ready`` for whoever supervises the process.

GET only, one answer per connection. Nothing of it is imported by a node that has this port switched off.
"""

import asyncio
import gzip
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus

log = logging.getLogger("kpybroker.metrics")

MAX_REQUEST_BYTES = 8 * 1024
READ_TIMEOUT_S = 5.0
SEND_TIMEOUT_S = 30.0
MOST_CONNECTIONS = 64
PLAIN = "text/plain; charset=utf-8"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
COMPRESSED = f"{PROMETHEUS}\r\nContent-Encoding: gzip"
FAST = 1
"""Of gzip's levels: lines that look alike need no effort."""


class HttpServer:
    """Serves three paths.

    ``unready`` says why clients are not served, None when they are. ``metrics`` gathers Prometheus' text; None when
    there is nothing to tell yet.
    """

    def __init__(self, unready: Callable[[], str | None], metrics: Callable[[], Awaitable[list[bytes] | None]]) -> None:
        self.unready = unready
        self.metrics = metrics
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None] | None] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, which is the system's choice when 0 was asked for. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=MAX_REQUEST_BYTES)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Stop listening, and end what is being served."""
        if self._server is not None:
            self._server.close()
            self._server = None
        serving = [task for task in self._connections if task is not None]
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._connections.add(task)
        try:
            if len(self._connections) > MOST_CONNECTIONS:
                return
            async with asyncio.timeout(READ_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            status, content_type, body = await self._answer(head)
            if writer.transport.is_closing():
                return
            from email.utils import formatdate  # takes long to import, and most nodes are never asked

            writer.write(
                f"HTTP/1.1 {status.value} {status.phrase}\r\nDate: {formatdate(usegmt=True)}\r\n"
                f"Content-Type: {content_type}\r\n"
                f"Content-Length: {sum(map(len, body))}\r\nConnection: close\r\n\r\n".encode()
            )
            async with asyncio.timeout(SEND_TIMEOUT_S):
                for piece in body:
                    writer.write(piece)
                    await writer.drain()
                    # A fast reader lets drain go on at once, and the others want their turn.
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, OSError, asyncio.CancelledError):
            # A peer that does not speak HTTP, or is gone, or the end: there is nobody to answer.
            return
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answer(self, head: bytes) -> tuple[HTTPStatus, str, list[bytes]]:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return HTTPStatus.BAD_REQUEST, PLAIN, [b"not HTTP/1\n"]
        if words[0] != b"GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, PLAIN, [b"GET only\n"]
        path = words[1].split(b"?", 1)[0]
        if path == b"/live":
            return HTTPStatus.OK, PLAIN, [b"live\n"]
        if path == b"/ready":
            reason = self.unready()
            if reason is None:
                return HTTPStatus.OK, PLAIN, [b"ready\n"]
            return HTTPStatus.SERVICE_UNAVAILABLE, PLAIN, [f"not ready: {reason}\n".encode()]
        if path == b"/metrics":
            try:
                text = await self.metrics()
            except Exception:
                log.exception("the metrics cannot be told")
                return HTTPStatus.INTERNAL_SERVER_ERROR, PLAIN, [b"the metrics cannot be told; the log says why\n"]
            if text is None:
                return HTTPStatus.SERVICE_UNAVAILABLE, PLAIN, [f"no metrics yet: {self.unready()}\n".encode()]
            if "gzip" in _header(head, b"accept-encoding"):
                return HTTPStatus.OK, COMPRESSED, [await asyncio.to_thread(_compressed, text)]
            return HTTPStatus.OK, PROMETHEUS, text
        return HTTPStatus.NOT_FOUND, PLAIN, [b"there are /metrics, /live and /ready\n"]


def _compressed(text: list[bytes]) -> bytes:
    """In a thread: zlib lets go of the interpreter while it works."""
    return gzip.compress(b"".join(text), FAST)


def _header(head: bytes, name: bytes) -> str:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip().decode("latin-1")
    return ""
