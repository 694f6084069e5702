"""Listening sockets, their connections, and the limits on both.

Kafka's keys: ``max.connections`` (also for one listener), ``max.connections.per.ip`` and its overrides,
``connections.max.idle.ms``, ``socket.request.max.bytes``, ``queued.max.request.bytes``, the socket buffers and the
listen backlog.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Container
from heapq import nsmallest
from typing import Final, NamedTuple

from kpybroker.requests.server.backlog import Backlog, HeldResources
from kpybroker.requests.server.channel import OpenChannel, plain_channel
from kpybroker.requests.server.complaints import Complaints
from kpybroker.requests.server.connection import Connection
from kpybroker.requests.server.connection_quotas import ConnectionLimits, ConnectionQuotas
from kpybroker.requests.server.creation_rate import CreationRate
from kpybroker.requests.server.frames import Dispatch, Guard
from kpybroker.requests.server.memory import MemoryBudget
from kpybroker.requests.server.mutes import Mutes
from kpybroker.requests.server.newcomers import STALLED_MS, FirstRequest, NodeNewcomers
from kpybroker.requests.server.outbox import Checked
from kpybroker.requests.server.poller import EpollPoller, LoopPoller, poller_for
from kpybroker.runtime.calls.client import PLAINTEXT, ConnectedClient
from kpybroker.runtime.fairness.aside import Aside
from kpybroker.runtime.fairness.debts import Debts
from kpybroker.runtime.fairness.line import Line
from kpybroker.runtime.fairness.slices import Slices
from kpybroker.runtime.fairness.turn import NoWrites, Turn, Writes
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpybroker.runtime.io.system_sockets import SYSTEM_SOCKETS, Sockets, tune, tune_listening

log = logging.getLogger("kpybroker.server")

SSL: Final = "SSL"
SCRATCH_BYTES: Final = 256 * 1024
PEEKED_BYTES: Final = 512
"""Requests that are served first are shorter than this, unless their transactional id is very long."""
SPARE_BODY_BYTES: Final = 4 * 1024 * 1024
SPARE_BODIES_BYTES: Final = 16 * 1024 * 1024
FIRST_REUSED_BYTES: Final = 128 * 1024
ACCEPT_RETRY_MS: Final = 100
MEMORY_CHECK_MS: Final = 250
MOST_THROTTLED_SOCKETS: Final = 1_000
THROTTLED_PART: Final = 8
"""The part of all connections, or `MOST_THROTTLED_SOCKETS`, that may be above the quota of their address and are kept
unread; more are closed at once."""
MOST_FREED: Final = 8
"""The most connections that give their descriptors up at once."""
NEWCOMERS_PART: Final = 8
"""The part of all connections that may be newcomers of the listener between brokers, at the cost of others."""
GAVE_WAY: Final = "it has neither logged in nor sent a request: its place was needed"
BODY_PATIENCE_MS: Final = 5_000
"""The longest time that a request may take to arrive while others wait for memory."""


class SocketLimits(NamedTuple):
    """The part of the configuration that is about sockets. A buffer size of 0 or less means the system's default."""

    max_request_bytes: int = 100 * 1024 * 1024
    queued_max_request_bytes: int = -1
    max_idle_ms: int = 600_000
    connections: ConnectionLimits = ConnectionLimits()
    controllers: ConnectionLimits = ConnectionLimits()
    """The limits on connections to the ``controller_listeners``, which count by themselves."""
    controller_listeners: frozenset[str] = frozenset()
    max_creation_rate: int = 2**31 - 1
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    backlog: int = 50
    max_unread_bytes: int = 256 * 1024 * 1024
    """The most memory for replies that clients do not read, over all connections."""
    max_unread_files: int = 4096
    """The most files that are kept open for such replies."""


class Listening(NamedTuple):
    """A listener's name and address, its dispatcher, the kind of its channels, and its security protocol."""

    name: str
    host: str
    dispatch: Dispatch
    open_channel: OpenChannel
    protocol: str
    opened: Callable[[Connection], object] | None
    """Called with each connection, before its first byte is read."""
    quotas: ConnectionQuotas


class Server:
    """All listeners and connections of a node. They share one receive buffer and one budget."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        scheduler: Scheduler,
        limits: SocketLimits = SocketLimits(),  # noqa: B008 - a tuple of constants
        writes: Writes | None = None,
        sockets: Sockets = SYSTEM_SOCKETS,
    ) -> None:
        """``writes`` are the logs to which requests append, if any do."""
        self.loop = loop
        self.scheduler = scheduler
        self.limits = limits
        self.max_request_bytes = limits.max_request_bytes
        self.budget = MemoryBudget(limits.queued_max_request_bytes, loop.call_soon, self._check_memory_later)
        self.backlog = Backlog(HeldResources(limits.max_unread_bytes, limits.max_unread_files))
        self.scratch = bytearray(SCRATCH_BYTES)
        self.scratch_view = memoryview(self.scratch)
        self.peeked = memoryview(bytearray(PEEKED_BYTES))
        """The buffer for bytes that are peeked at (``MSG_PEEK``) but not received."""
        self.turn = Turn(NoWrites() if writes is None else writes)
        self.poller: EpollPoller | LoopPoller = poller_for(loop, scheduler.monotonic_ms, self.turn, sockets)
        self.aside = Aside(self.turn, loop.call_soon, self.poller.look)
        self.line = Line(
            scheduler,
            lambda: self.poller.events,
            lambda: self.poller.served_ns,
            gives_moments=isinstance(self.poller, EpollPoller),
        )
        scheduler.share_turns(self.line.beside, self.line.beside_ns)
        self.slices = Slices(self.line, is_crowded=lambda: self.turn.is_on)
        self.connections: dict[Connection, None] = {}
        """The open connections in the order of their arrival: an order that does not depend on addresses in memory."""
        self._creation_rate = CreationRate(limits.max_creation_rate)
        self.accepted_connections = 0
        self.refused_connections = 0
        self.complaints = Complaints(scheduler)
        self.debts = Debts()
        self.quotas = ConnectionQuotas(limits.connections)
        self._controller_quotas = ConnectionQuotas(limits.controllers)
        self.newcomers = NodeNewcomers()
        self.mutes = Mutes(scheduler)
        self.throttle_address: Callable[[str, int], int] | None = None
        self._throttled: set[socket.socket] = set()
        """The connections that are above the quota of their address, until they are closed."""
        self._listening: dict[socket.socket, Listening] = {}
        self._full: set[socket.socket] = set()
        """The listeners whose next connections wait until another closes."""
        self._spare_bodies: list[bytearray] = []
        self._spare_bytes = 0
        self._idle_timer: Timer | None = None
        self._memory_timer: Timer | None = None

    def change_limits(self, limits: SocketLimits) -> None:
        """Apply other limits to connections from now on. The limits that are fixed at the start stay as they are."""
        self.limits = self.limits._replace(connections=limits.connections, controllers=limits.controllers)
        self.quotas.limits, self._controller_quotas.limits = limits.connections, limits.controllers
        self._creation_rate.per_second = limits.max_creation_rate
        self._make_room(self.quotas)
        self._make_room(self._controller_quotas)
        self._accept_again()

    def throttle_addresses(self, throttle_ms: Callable[[str, int], int] | None) -> None:
        """Throttle new connections from now on: (host, now in ms) -> 0, or the time after which a new connection of
        this host is closed (KIP-612). None throttles none."""
        self.throttle_address = throttle_ms

    # Listening

    def listen(
        self,
        name: str,
        sock: socket.socket,
        dispatch: Dispatch,
        open_channel: OpenChannel = plain_channel,
        protocol: str = PLAINTEXT,
    ) -> int:
        """Open a listener on a bound socket, which the server owns from now on. Return its port. Raises OSError.

        ``dispatch`` serves its requests. ``open_channel`` makes the channels of its connections. ``protocol`` is the
        security protocol: with SSL, the certificates of clients say who they are.
        """
        opened = dispatch.opened if isinstance(dispatch, Guard) else None
        serves = dispatch if opened is not None else FirstRequest(dispatch, self.newcomers)
        quotas = self._controller_quotas if name in self.limits.controller_listeners else self.quotas
        tune_listening(sock, self.limits.send_buffer_bytes)
        sock.listen(max(self.limits.backlog, 1))
        host, port = sock.getsockname()[:2]
        self._listening[sock] = Listening(name, host, serves, open_channel, protocol, opened, quotas)
        return int(port)

    @property
    def listener_names(self) -> list[str]:
        """The names of the open listeners."""
        return [listening.name for listening in self._listening.values()]

    @property
    def full_listeners(self) -> int:
        """The number of listeners with connections that wait for another to close."""
        return len(self._full)

    def start(self, names: Container[str] | None = None) -> None:
        """Begin to accept connections on the listeners of these names, or on all."""
        for sock, listening in self._listening.items():
            if names is None or listening.name in names:
                self.loop.add_reader(sock.fileno(), self._accept, sock)
        if self._idle_timer is None:
            self._schedule_idle_check()

    def _names(self, quotas: ConnectionQuotas) -> list[str]:
        """The open listeners whose connections count together."""
        return [listening.name for listening in self._listening.values() if listening.quotas is quotas]

    def _accept(self, listening: socket.socket) -> None:
        """Accept one connection. Others are served before the next one, since accepting takes as long as a request."""
        name, quotas = self._listening[listening].name, self._listening[listening].quotas
        if not quotas.has_room(name, len(self._names(quotas))) and not self._make_way(listening, name, quotas):
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
        """Accept again after a moment: the system is out of descriptors or memory. Existing clients are served
        meanwhile, new ones wait in the backlog."""
        if listening.fileno() < 0:
            return
        hint = "; raise the limit on open files (ulimit -n)" if error.errno == errno.EMFILE else ""
        line = "cannot accept connections: %s%s"
        self.complaints.say(log, logging.ERROR, "cannot accept connections", line, error, hint)
        names, now_ms = self.listener_names, self.scheduler.monotonic_ms()
        freed = 0
        while freed < MOST_FREED:
            freed += 1
            slow = self.newcomers.slowest(names, now_ms)
            if slow is not None:
                slow.give_up(GAVE_WAY)
        self._pause_accepting(listening, ACCEPT_RETRY_MS)

    def _pause_accepting(self, listening: socket.socket, delay_ms: float) -> None:
        self.loop.remove_reader(listening.fileno())

        def again() -> None:
            if listening in self._listening:
                self.loop.add_reader(listening.fileno(), self._accept, listening)

        self.scheduler.call_later(delay_ms, again)

    def _make_way(self, listening: socket.socket, name: str, quotas: ConnectionQuotas) -> bool:
        """Let a newcomer give way to the next connection of a listener that is full. Return whether one did; if not,
        connections are accepted later."""
        names = [name] if quotas.is_full(name) else self._names(quotas)
        slow = self.newcomers.slowest(names, self.scheduler.monotonic_ms())
        if slow is not None:
            slow.give_up(GAVE_WAY)
            return True
        if self.newcomers.count(names):
            self._pause_accepting(listening, STALLED_MS / 4)
        else:
            self._wait_for_room(listening)
        return False

    def _wait_for_room(self, listening: socket.socket) -> None:
        line = "new connections wait until others leave: max.connections, or what open files allow, is reached"
        self.complaints.say(log, logging.INFO, "max.connections", line)
        self.loop.remove_reader(listening.fileno())
        self._full.add(listening)

    def _accept_again(self) -> None:
        full, self._full = self._full, set()
        for listening in full & self._listening.keys():
            self.loop.add_reader(listening.fileno(), self._accept, listening)

    def _make_room(self, quotas: ConnectionQuotas) -> None:
        """Close the connections above a limit: newcomers first, then those of unprotected listeners that were idle for
        the longest time. Newcomers that make progress stay as long as they are few."""
        if quotas.excess <= 0:
            return
        names = self._names(quotas)
        while quotas.excess > 0:
            slow = self.newcomers.slowest(names, self.scheduler.monotonic_ms())
            if slow is None and self.newcomers.count(names) > quotas.limits.most // NEWCOMERS_PART:
                slow = self.newcomers.oldest(names)
            if slow is None:
                break
            slow.give_up(GAVE_WAY)
        if quotas.excess > 0:
            unprotected = {name for name in names if not quotas.is_protected(name, len(names))}
            others = [c for c in self.connections if c.client.listener_name in unprotected]
            for connection in nsmallest(quotas.excess, others, key=lambda connection: connection.last_active_ms):
                connection.give_up("it was idle for the longest time, and max.connections is reached")

    def _accepted(self, sock: socket.socket, listening: "Listening", peer: tuple[str, int]) -> None:
        host = peer[0].removeprefix("::ffff:")
        if self.throttle_address is not None:
            throttle_ms = self.throttle_address(host, int(self.scheduler.monotonic_ms()))
            if throttle_ms > 0:
                self._close_later(sock, throttle_ms)
                return
        quotas = listening.quotas
        if not quotas.may_add(host):
            slow = self.newcomers.slowest_of_host(host, self._names(quotas), self.scheduler.monotonic_ms())
            if slow is not None:
                slow.give_up(GAVE_WAY)
        if not quotas.may_add(host):
            self.refused_connections += 1
            line = "refusing connections such as that of %s: max.connections.per.ip is reached"
            self.complaints.say(log, logging.INFO, "refusing connections", line, host)
            sock.close()
            return
        try:
            tune(sock, host, listening.host, self.limits.send_buffer_bytes)
            channel = listening.open_channel(sock, self.poller, self.loop.call_soon)
        except OSError:  # the client is gone already
            sock.close()
            return
        quotas.add(host, listening.name)
        self.accepted_connections += 1
        self._make_room(quotas)
        client = ConnectedClient(host, peer[1], listening.name, listening.protocol)
        if listening.protocol == SSL:
            channel.identify(client.authenticated)
        connection = Connection(self, channel, client, listening.dispatch)
        connection.is_long = self.debts.take(host, self.scheduler.monotonic_ms())
        connection.on_long_work = lambda: self.debts.leave(host, self.scheduler.monotonic_ms())
        self.connections[connection] = None
        self.newcomers.add(connection, connection.last_active_ms)
        if listening.opened is not None:
            listening.opened(connection)

    def _close_later(self, sock: socket.socket, delay_ms: float) -> None:
        """Close a connection above its address's quota, unread. Its client learns late, so that it asks less often."""
        if len(self._throttled) >= min(MOST_THROTTLED_SOCKETS, self.limits.connections.most // THROTTLED_PART):
            sock.close()
            return
        self._throttled.add(sock)

        def end() -> None:
            self._throttled.discard(sock)
            sock.close()

        self.scheduler.call_later(delay_ms, end)

    def forget(self, connection: Connection) -> None:
        """Forget a connection that has closed."""
        client = connection.client
        self.connections.pop(connection, None)
        self.newcomers.admit(connection)
        quotas = self._controller_quotas if client.listener_name in self.limits.controller_listeners else self.quotas
        quotas.remove(client.host, client.listener_name)
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
        """Give up requests that arrive too slowly while others wait for memory."""
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
        """The buffer of an earlier body that holds ``wanted_bytes``: reusing it is cheaper than growing a new one."""
        spare = self._spare_bodies
        for index in range(len(spare) - 1, -1, -1):
            if len(spare[index]) >= wanted_bytes > FIRST_REUSED_BYTES:
                body = spare.pop(index)
                self._spare_bytes -= len(body)
                return body
        return None

    def recycle(self, body: bytearray) -> None:
        """Keep the buffer of a body that was served, for a later one."""
        size = len(body)
        if FIRST_REUSED_BYTES < size <= SPARE_BODY_BYTES and self._spare_bytes + size <= SPARE_BODIES_BYTES:
            try:
                body.append(body.pop())
            except BufferError:
                return  # somebody still looks at it: it must not be written again
            self._spare_bodies.append(body)
            self._spare_bytes += size

    def read_in_thread(self, read: Callable[[], Checked], done: Callable[[Checked | None], object]) -> None:
        """Read in a thread a part of a file that is not in the page cache."""

        def finished(checked: Checked | None, error: BaseException | None) -> None:
            if error is not None:
                log.error("cannot read a log file: %s", error)
            done(checked)

        self.scheduler.submit_blocking(read, finished)

    # The end

    def forsake(self) -> None:
        """Close a forked child's copies of the sockets, which the parent goes on serving."""
        # What epoll watches is shared with the parent, so nothing is taken out of it.
        for sock in self._listening:
            sock.close()
        for connection in self.connections:
            connection.channel.forsake()

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
        self.mutes.close()
        for sock in self._throttled:
            sock.close()
        self._throttled.clear()
        for connection in list(self.connections):
            connection.close()
        self.poller.close()
