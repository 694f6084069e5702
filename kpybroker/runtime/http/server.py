"""A small HTTP/1.1 server on the event loop: one answer per connection, bounded in time, memory and connections.

It may be behind TLS and a login; then each route learns who asks. A connection is accepted when it has a place
(`kpybroker.runtime.http.places`); until then it waits in the backlog.

Nothing of it is imported by a node whose second port is switched off.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kpybroker.runtime.http.names import check_host
from kpybroker.runtime.http.places import Phase, Place, Places
from kpybroker.runtime.http.request import HttpAnswer, HttpRefused, Request, Route, body_bytes, parse_head, refusal
from kpybroker.runtime.io.addresses import bound_sockets

if TYPE_CHECKING:
    from kpybroker.runtime.http.gate import Admission

log = logging.getLogger("kpybroker.http")

MOST_HEAD_BYTES: Final = 8 * 1024
READ_TIMEOUT_S: Final = 5.0
SEND_TIMEOUT_S: Final = 30.0
MOST_CONNECTIONS: Final = 64
MOST_ANSWERED: Final = 48
"""The most requests that are being answered at once, beside those of probes."""
BACKLOG: Final = 1024
LINGER_S: Final = 1.0
"""The time in which a client may take the last bytes of a connection that is closed."""
RETRY_S: Final = 0.05
"""The time after which a connection is accepted that found no place."""
PROBES: Final = frozenset({"/live", "/ready"})
"""The paths that are answered whatever else is, and under any name: they say nothing about anybody."""


class Protection(NamedTuple):
    """The parts that a request passes before its route."""

    context: Callable[[], ssl.SSLContext] | None = None
    """Returns the TLS context for the next connection; None without TLS."""
    gate: "Admission | None" = None
    """None if everybody is admitted."""
    names: Collection[str] | None = None
    """The names of this node, in lower case; None if any name will do."""


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
        self._listening: list[socket.socket] = []
        self._places = Places(MOST_CONNECTIONS)
        self._loop: asyncio.AbstractEventLoop

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, which is the system's choice when 0 was asked for. Raises OSError."""
        self._loop = asyncio.get_running_loop()
        self._listening = bound_sockets(host, port)
        for sock in self._listening:
            sock.listen(BACKLOG)
            self._loop.add_reader(sock.fileno(), self._accept, sock)
        bound: int = self._listening[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Stop listening, and end what is being served."""
        listening, self._listening = self._listening, []
        for sock in listening:
            self._loop.remove_reader(sock.fileno())
            sock.close()
        serving = self._places.tasks
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    def _accept(self, listening: socket.socket) -> None:
        """Accept one connection, if it has a place. One that keeps others out gives way."""
        try:
            if not self._places.make_room(self._loop.time()):
                raise BlockingIOError
            sock, address = listening.accept()
        except OSError:  # no place, or no descriptor
            self._loop.remove_reader(listening.fileno())
            self._loop.call_later(RETRY_S, self._accept_again, listening)
            return
        host = str(address[0]).removeprefix("::ffff:")
        sock.setblocking(False)  # noqa: FBT003
        place = self._places.take(host, self._loop.time())
        place.task = self._loop.create_task(self._serve(sock, place))

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self._listening:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    async def _serve(self, sock: socket.socket, place: Place) -> None:
        reader = asyncio.StreamReader(MOST_HEAD_BYTES, self._loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        transport: asyncio.Transport | None = None
        try:
            transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, sock)
            transport.set_write_buffer_limits(0)  # so that `drain` waits until the client has taken everything
            writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
            stream: Stream = _PlainStream(reader, writer)
            if self._protection.context is not None:
                stream = await self._encrypted(reader, writer, self._protection.context())
            answer = await self._answered(stream, place)
            self._enter(place, Phase.SENDING)
            if not stream.is_closing:
                await _send(stream, answer)
            stream.close()
        except asyncio.CancelledError:  # it gives way, or the server ends
            if transport is not None:
                transport.abort()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, OSError):
            pass  # the peer does not speak HTTP, or is gone: there is nobody to answer
        finally:
            self._places.leave(place)
            if transport is not None:
                transport.close()
                self._loop.call_later(LINGER_S, transport.abort)

    def _enter(self, place: Place, phase: Phase) -> None:
        place.enter(phase, self._loop.time())

    @staticmethod
    async def _encrypted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext) -> Stream:
        from kpybroker.runtime.http.tls import TlsStream

        stream = TlsStream(reader, writer, context, MOST_HEAD_BYTES)
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                await stream.handshake()
        except ssl.SSLError as error:
            if error.reason == "HTTP_REQUEST":
                await _send(
                    _PlainStream(reader, writer), HttpAnswer(HTTPStatus.BAD_REQUEST, [b"this port speaks https\n"])
                )
            log.debug("A TLS handshake on the second port failed: %s", error.reason)
            raise
        return stream

    async def _answered(self, stream: Stream, place: Place) -> HttpAnswer:
        """Read a request. Return its answer."""
        path = ""
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                head = await stream.readuntil(b"\r\n\r\n")
            request = parse_head(head[:-4])._replace(host=place.host)
            path = request.path
            request = await self._admitted(request, place)
            route = self._route(request)
            self._enter(place, Phase.READING)
            async with asyncio.timeout(READ_TIMEOUT_S):
                request = request._replace(body=await stream.readexactly(body_bytes(request)))
            self._begin(request, place)
        except HttpRefused as refused:
            if refused.delay_s:
                self._enter(place, Phase.REFUSED)
                await asyncio.sleep(refused.delay_s)
            return refusal(refused, path)
        return await self._answer(route, request)

    async def _admitted(self, request: Request, place: Place) -> Request:
        """The request with its sender. Raises Refused."""
        _, gate, names = self._protection
        if names is not None and request.path not in PROBES:
            check_host(request.headers, names)
        if gate is None:
            return request
        self._begin(request, place)
        return request._replace(principal=await gate.admit(request))

    def _begin(self, request: Request, place: Place) -> None:
        """Begin to work on a request. Raises Refused if that has to wait for others."""
        if self._places.answered >= MOST_ANSWERED and request.path not in PROBES:
            raise HttpRefused(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once; try again in a moment")
        self._enter(place, Phase.ANSWERING)

    def _route(self, request: Request) -> Route:
        """The route of a request's path; Refused if there is none for it."""
        route = self.routes.get(request.path) or self._route_above(request.path)
        if route is None:
            *first, last = self.routes
            raise HttpRefused(HTTPStatus.NOT_FOUND, f"there are {', '.join(first)} and {last}")
        if request.method not in route.methods:
            raise HttpRefused(HTTPStatus.METHOD_NOT_ALLOWED, f"{' or '.join(sorted(route.methods))} only")
        return route

    def _route_above(self, path: str) -> Route | None:
        above = (each for each in self.routes if len(each) > 1 and each.endswith("/") and path.startswith(each))
        return self.routes.get(max(above, key=len, default=""))

    @staticmethod
    async def _answer(route: Route, request: Request) -> HttpAnswer:
        try:
            return await route.answer(request)
        except Exception:
            log.exception("The HTTP request %s could not be answered because of a defect", request.path)
            line = f"{request.path} cannot be answered; the log says why\n"
            return HttpAnswer(HTTPStatus.INTERNAL_SERVER_ERROR, [line.encode()])


async def _send(writer: Stream, answer: HttpAnswer) -> None:
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
