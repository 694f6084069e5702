"""A small HTTP/1.1 server on the event loop: one answer per connection, bounded in time, memory and connections.

It may be behind TLS and a login; then each route learns who asks.

Nothing of it is imported by a node whose second port is switched off.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kpybroker.http.request import Answer, Refused, Request, Route, body_bytes, parse_head

if TYPE_CHECKING:
    from kpybroker.http.gate import Gate

log = logging.getLogger("kpybroker.http")

MOST_HEAD_BYTES: Final = 8 * 1024
READ_TIMEOUT_S: Final = 5.0
SEND_TIMEOUT_S: Final = 30.0
MOST_CONNECTIONS: Final = 64


class Protection(NamedTuple):
    """The parts that a request passes before its route."""

    context: Callable[[], ssl.SSLContext] | None = None
    """Returns the TLS context for the next connection; None without TLS."""
    gate: "Gate | None" = None
    """None if nobody has to log in."""


class Stream(Protocol):
    """A connection, encrypted or not."""

    @property
    def is_closing(self) -> bool: ...

    async def readuntil(self, separator: bytes) -> bytes: ...

    async def readexactly(self, count: int) -> bytes: ...

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None: ...

    def close(self) -> None: ...


class _PlainStream:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.readuntil, self.readexactly = reader.readuntil, reader.readexactly
        self.write, self.drain, self.close = writer.write, writer.drain, writer.close
        self._transport = writer.transport

    @property
    def is_closing(self) -> bool:
        return self._transport.is_closing()


class HttpServer:
    """The server of some routes, by path. A path that ends with ``/`` is also the route of all paths below it; ``/`` is
    the route of itself alone."""

    def __init__(self, routes: Mapping[str, Route], protection: Protection = Protection()) -> None:  # noqa: B008
        self.routes = routes
        self._protection = protection
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None] | None] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, which is the system's choice when 0 was asked for. Raises OSError."""
        # As bytes: for text the system's resolver loads the codec of international names, a megabyte.
        name: Any = [host.encode()] if host and host.isascii() else host
        self._server = await asyncio.start_server(self._serve, name, port, limit=MOST_HEAD_BYTES)
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
        stream: Stream = _PlainStream(reader, writer)
        try:
            if len(self._connections) > MOST_CONNECTIONS:
                return
            if self._protection.context is not None:
                stream = await self._encrypted(reader, writer, self._protection.context())
            answer = await self._answered(stream, str((writer.get_extra_info("peername") or ("",))[0]))
            if not stream.is_closing:
                await _send(stream, answer)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, OSError, asyncio.CancelledError):
            # The peer does not speak HTTP, or is gone, or the server ends: there is nobody to answer.
            return
        finally:
            self._connections.discard(task)
            stream.close()

    @staticmethod
    async def _encrypted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext) -> Stream:
        from kpybroker.http.tls import TlsStream

        stream = TlsStream(reader, writer, context, MOST_HEAD_BYTES)
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                await stream.handshake()
        except ssl.SSLError as error:
            if error.reason == "HTTP_REQUEST":
                await _send(_PlainStream(reader, writer), Answer(HTTPStatus.BAD_REQUEST, [b"this port speaks https\n"]))
            log.debug("A TLS handshake on the second port failed: %s", error.reason)
            raise
        return stream

    async def _answered(self, stream: Stream, host: str) -> Answer:
        """Read a request. Return its answer."""
        gate = self._protection.gate
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                head = await stream.readuntil(b"\r\n\r\n")
            request = parse_head(head[:-4])._replace(host=host)
            if gate is not None:
                request = request._replace(principal=await gate.admit(request))
            route = self._route(request)
            async with asyncio.timeout(READ_TIMEOUT_S):
                request = request._replace(body=await stream.readexactly(body_bytes(request)))
        except Refused as refused:
            return Answer(refused.status, [f"{refused}\n".encode()], headers=refused.headers)
        return await self._answer(route, request)

    def _route(self, request: Request) -> Route:
        """The route of a request's path; Refused if there is none for it."""
        route = self.routes.get(request.path) or self._route_above(request.path)
        if route is None:
            *first, last = self.routes
            raise Refused(HTTPStatus.NOT_FOUND, f"there are {', '.join(first)} and {last}")
        if request.method not in route.methods:
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"{' or '.join(sorted(route.methods))} only")
        return route

    def _route_above(self, path: str) -> Route | None:
        above = (each for each in self.routes if len(each) > 1 and each.endswith("/") and path.startswith(each))
        return self.routes.get(max(above, key=len, default=""))

    @staticmethod
    async def _answer(route: Route, request: Request) -> Answer:
        try:
            return await route.answer(request)
        except Exception:
            log.exception("The HTTP request %s could not be answered because of a defect", request.path)
            line = f"{request.path} cannot be answered; the log says why\n"
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, [line.encode()])


async def _send(writer: Stream, answer: Answer) -> None:
    from email.utils import formatdate  # takes long to import, and most nodes are never asked

    headers = {
        "Date": formatdate(usegmt=True),
        "Content-Type": answer.content_type,
        **answer.headers,
        "Content-Length": str(sum(map(len, answer.body))),
        "Connection": "close",
    }
    lines = [
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        *(f"{name}: {headers[name]}" for name in headers),
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with asyncio.timeout(SEND_TIMEOUT_S):
        for piece in answer.body:
            writer.write(piece)
            await writer.drain()
            # A fast reader lets drain go on at once, and the others want their turn.
            await asyncio.sleep(0)
