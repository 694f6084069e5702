"""Listening sockets, their connections, and the limits on both.

Kafka's keys: ``max.connections`` (of one listener too), ``max.connections.per.ip`` and its overrides,
``connections.max.idle.ms``, ``socket.request.max.bytes``, ``queued.max.request.bytes``, the socket buffers and the
listen backlog.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Container
from contextlib import suppress
from heapq import nsmallest
from typing import NamedTuple

from kpybroker.io.scheduler import Scheduler, Timer
from kpybroker.server.aside import Aside
from kpybroker.server.backlog import Backlog, Held
from kpybroker.server.complaints import Complaints
from kpybroker.server.connection import Connection
from kpybroker.server.connection_quotas import ConnectionLimits, ConnectionQuotas
from kpybroker.server.creation_rate import CreationRate
from kpybroker.server.frames import Dispatch
from kpybroker.server.line import Line
from kpybroker.server.memory import MemoryBudget
from kpybroker.server.outbox import Checked
from kpybroker.server.poller import EpollPoller, poller_for
from kpybroker.server.slices import Slices
from kpybroker.server.system_sockets import SYSTEM_SOCKETS, Sockets
from kpybroker.server.turn import NoWrites, Turn, Writes

log = logging.getLogger("kpybroker.server")

SCRATCH_BYTES = 256 * 1024
SPARE_BODY_BYTES = 4 * 1024 * 1024
SPARE_BODIES_BYTES = 16 * 1024 * 1024
FIRST_REUSED_BYTES = 128 * 1024
ACCEPTS_PER_TURN = 4
"""Between which others are served."""
ACCEPT_RETRY_MS = 100
MEMORY_CHECK_MS = 250
BODY_PATIENCE_MS = 5_000
"""While others wait for memory, a request may take so long to arrive."""


class SocketLimits(NamedTuple):
    """The part of the broker's configuration that is about sockets. Counts below 0 or 0 sizes: the system's own."""

    max_request_bytes: int = 100 * 1024 * 1024
    queued_max_request_bytes: int = -1
    max_idle_ms: int = 600_000
    connections: ConnectionLimits = ConnectionLimits()
    max_creation_rate: int = 2**31 - 1
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    backlog: int = 50
    max_unread_bytes: int = 256 * 1024 * 1024
    """Replies in memory that clients do not read, over all connections."""
    max_unread_files: int = 4096
    """Files that are kept open for such replies."""


class Listening(NamedTuple):
    """A listener's name and who serves its requests."""

    name: str
    dispatch: Dispatch


class Server:
    """All listeners and connections of a node. They share one receive buffer, one budget and one dispatcher."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        scheduler: Scheduler,
        dispatch: Dispatch,
        limits: SocketLimits = SocketLimits(),  # noqa: B008 - a tuple of constants
        writes: Writes | None = None,
        sockets: Sockets = SYSTEM_SOCKETS,
    ) -> None:
        """``writes``: what requests append to, if any does."""
        self._sockets = sockets
        self.loop = loop
        self.scheduler = scheduler
        self.dispatch = dispatch
        self.limits = limits
        self.max_request_bytes = limits.max_request_bytes
        self.budget = MemoryBudget(limits.queued_max_request_bytes, loop.call_soon, self._check_memory_later)
        self.backlog = Backlog(Held(limits.max_unread_bytes, limits.max_unread_files))
        self.scratch = bytearray(SCRATCH_BYTES)
        self.scratch_view = memoryview(self.scratch)
        self.turn = Turn(NoWrites() if writes is None else writes)
        self.poller = poller_for(loop, scheduler.monotonic_ms, self.turn, sockets)
        self.aside = Aside(self.turn, loop.call_soon, self.poller.look)
        self.line = Line(scheduler, lambda: self.poller.events, gives_moments=isinstance(self.poller, EpollPoller))
        scheduler.share_turns(self.line.beside, self.line.beside_ns)
        self.slices = Slices(self.line, is_crowded=lambda: self.turn.is_on)
        self.connections: dict[Connection, None] = {}
        """In the order of their coming, which no address decides."""
        self._creation_rate = CreationRate(limits.max_creation_rate)
        self.accepted_connections = 0
        self.refused_connections = 0
        self.complaints = Complaints(scheduler)
        self.quotas = ConnectionQuotas(limits.connections)
        self._listening: dict[socket.socket, Listening] = {}
        self._full: set[socket.socket] = set()
        """Listeners whose next connections wait until another leaves."""
        self._spare_bodies: list[bytearray] = []
        self._spare_bytes = 0
        self._idle_timer: Timer | None = None
        self._memory_timer: Timer | None = None

    def change_limits(self, limits: SocketLimits) -> None:
        """Count new connections by other limits from now on; what was fixed with the start stays as it is."""
        self.limits = self.limits._replace(connections=limits.connections)
        self.quotas.limits = limits.connections
        self._creation_rate.per_second = limits.max_creation_rate
        self._make_room()
        self._accept_again()

    # Listening

    def listen(self, name: str, host: str, port: int, dispatch: Dispatch | None = None) -> int:
        """Open a listener; the port, which is the system's choice when 0 was asked for. Raises OSError.

        An empty host is every interface.
        ``dispatch`` serves its requests, if not the server's own does.
        """
        sock = self._sockets.listen(host, port, self.limits.backlog, self.limits.receive_buffer_bytes)
        self._listening[sock] = Listening(name, dispatch or self.dispatch)
        bound: int = sock.getsockname()[1]
        return bound

    @property
    def listener_names(self) -> list[str]:
        """Of the listeners that are open."""
        return [listening.name for listening in self._listening.values()]

    @property
    def full_listeners(self) -> int:
        """How many listeners have somebody waiting for another's connection to end."""
        return len(self._full)

    def start(self, names: Container[str] | None = None) -> None:
        """Begin to accept on the listeners of these names, or on all."""
        for sock, listening in self._listening.items():
            if names is None or listening.name in names:
                self.loop.add_reader(sock.fileno(), self._accept, sock)
        if self._idle_timer is None:
            self._schedule_idle_check()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if not self.quotas.has_room(self._listening[listening].name, len(self._listening)):
                self._wait_for_room(listening)
                return
            delay_ms = self._creation_rate.delay_ms(self.scheduler.monotonic_ms())
            if delay_ms > 0:
                self._pause_accepting(listening, delay_ms)
                return
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._accept_later(listening, error)
                return
            self._creation_rate.count()
            self._accepted(sock, self._listening[listening], (str(address[0]), int(address[1])))

    def _accept_later(self, listening: socket.socket, error: OSError) -> None:
        """Out of descriptors or memory: existing clients go on, new ones wait in the backlog."""
        if listening.fileno() < 0:
            return
        hint = "; raise the limit on open files (ulimit -n)" if error.errno == errno.EMFILE else ""
        line = "cannot accept connections: %s%s"
        self.complaints.say(log, logging.ERROR, "cannot accept connections", line, error, hint)
        self._pause_accepting(listening, ACCEPT_RETRY_MS)

    def _pause_accepting(self, listening: socket.socket, delay_ms: float) -> None:
        self.loop.remove_reader(listening.fileno())

        def again() -> None:
            if listening in self._listening:
                self.loop.add_reader(listening.fileno(), self._accept, listening)

        self.scheduler.call_later(delay_ms, again)

    def _wait_for_room(self, listening: socket.socket) -> None:
        line = "new connections wait until others leave: max.connections, or what open files allow, is reached"
        self.complaints.say(log, logging.INFO, "max.connections", line)
        self.loop.remove_reader(listening.fileno())
        self._full.add(listening)

    def _accept_again(self) -> None:
        full, self._full = self._full, set()
        for listening in full & self._listening.keys():
            self.loop.add_reader(listening.fileno(), self._accept, listening)

    def _make_room(self) -> None:
        """Close what is too much: of listeners that are not protected, those that were idle for the longest time."""
        quotas = self.quotas
        if quotas.excess > 0:
            others = [c for c in self.connections if not quotas.is_protected(c.listener_name, len(self._listening))]
            for connection in nsmallest(quotas.excess, others, key=lambda connection: connection.last_active_ms):
                connection.give_up("it was idle for the longest time, and max.connections is reached")

    def _accepted(self, sock: socket.socket, listening: "Listening", peer: tuple[str, int]) -> None:
        host = peer[0].removeprefix("::ffff:")
        if not self.quotas.may_add(host):
            self.refused_connections += 1
            line = "refusing connections such as that of %s: max.connections.per.ip is reached"
            self.complaints.say(log, logging.INFO, "refusing connections", line, host)
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        _spare_congestion_control(sock, host)
        if self.limits.send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.send_buffer_bytes)
        self.quotas.add(host, listening.name)
        self.accepted_connections += 1
        self._make_room()
        self.connections[Connection(self, sock, listening.name, (host, peer[1]), listening.dispatch)] = None

    def forget(self, connection: Connection) -> None:
        """A connection has closed."""
        self.connections.pop(connection, None)
        self.quotas.remove(connection.client_host, connection.listener_name)
        if self._full:
            self._accept_again()

    # Idle connections

    def _schedule_idle_check(self) -> None:
        if self.limits.max_idle_ms > 0:
            every_ms = max(min(self.limits.max_idle_ms / 4, 30_000), 10)
            self._idle_timer = self.scheduler.call_later(every_ms, self._close_idle)

    def _close_idle(self) -> None:
        oldest_ms = self.scheduler.monotonic_ms() - self.limits.max_idle_ms
        # Also those that wait for an answer: as in Kafka, a fetch may not be parked for longer than this.
        idle = [c for c in self.connections if c.last_active_ms < oldest_ms]
        for connection in idle:
            log.debug("closing the idle connection of %s", connection)
            connection.close()
        self._schedule_idle_check()

    # Memory

    def _check_memory_later(self) -> None:
        if self._memory_timer is None:
            self._memory_timer = self.scheduler.call_later(MEMORY_CHECK_MS, self._check_memory)

    def _check_memory(self) -> None:
        """Give up requests that arrive too slowly while somebody waits for memory."""
        self._memory_timer = None
        if not self.budget.is_short:
            return
        began_before_ms = self.scheduler.monotonic_ms() - BODY_PATIENCE_MS
        connections: list[Connection] = self.budget.owners()
        for connection in connections:
            if connection.body_since_ms < began_before_ms:
                connection.give_up("its request takes too long while memory for requests is short")
        self._check_memory_later()

    def spare_body(self, wanted_bytes: int) -> bytearray | None:
        """A buffer of an earlier body that holds so many bytes: it is there already, and growing a new one costs."""
        spare = self._spare_bodies
        for index in range(len(spare) - 1, -1, -1):
            if len(spare[index]) >= wanted_bytes > FIRST_REUSED_BYTES:
                body = spare.pop(index)
                self._spare_bytes -= len(body)
                return body
        return None

    def recycle(self, body: bytearray) -> None:
        """A served body's buffer, for the next one."""
        size = len(body)
        if FIRST_REUSED_BYTES < size <= SPARE_BODY_BYTES and self._spare_bytes + size <= SPARE_BODIES_BYTES:
            try:
                body.append(body.pop())
            except BufferError:
                return  # somebody still looks at it: it must not be written again
            self._spare_bodies.append(body)
            self._spare_bytes += size

    def read_in_thread(self, read: Callable[[], Checked], done: Callable[[Checked | None], object]) -> None:
        """Read a cold piece of a file beside the loop."""

        def finished(checked: Checked | None, error: BaseException | None) -> None:
            if error is not None:
                log.error("cannot read a log file: %s", error)
            done(checked)

        self.scheduler.submit_blocking(read, finished)

    # The end

    def forsake(self) -> None:
        """In a forked child: close its copies of the sockets, which are the parent's to serve."""
        # What epoll watches is shared with the parent, so nothing is taken out of it.
        for sock in (*self._listening, *(connection.sock for connection in self.connections)):
            sock.close()

    def stop_accepting(self) -> None:
        """Close the listening sockets."""
        for sock in self._listening:
            self.loop.remove_reader(sock.fileno())
            sock.close()
        self._listening.clear()
        self._full.clear()

    def close(self) -> None:
        """Close every socket."""
        self.stop_accepting()
        for timer in (self._idle_timer, self._memory_timer):
            if timer is not None:
                timer.cancel()
        self._idle_timer = self._memory_timer = None
        for connection in list(self.connections):
            connection.close()
        self.poller.close()


def _spare_congestion_control(sock: socket.socket, host: str) -> None:
    """Between processes of one machine there is no congestion: take the control that costs the least (Linux).

    With BBR, a default of many systems, pacing alone takes a tenth of the CPU of a small request.
    """
    if (host.startswith("127.") or host == "::1") and hasattr(socket, "TCP_CONGESTION"):
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
