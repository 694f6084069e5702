"""The connection of a ZooKeeper client: it opens, watches and replaces connections, and carries a session over them.

The servers are tried in random order. After all have failed there is a pause of up to a second, so that clients that
lost a server together do not return together. A session that has ended stays so: its owner takes down what depended on
it, and then begins the next one.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from kpybroker.hosts.network.outgoing import Unprotected
from kpybroker.hosts.network.peer import Connect, Link
from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.addresses import Servers
from kpybroker.machines.zookeeper.client.frames import WatchedEvent
from kpybroker.machines.zookeeper.client.java_options import MOST_BYTES
from kpybroker.machines.zookeeper.client.operations import Multi, Operation, OperationFailed
from kpybroker.machines.zookeeper.client.session import ENDED, Done, Lost, SaslExchange, SessionState, ZooKeeperSession
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpywire.errors import Malformed

log = logging.getLogger("kpybroker.zookeeper")

LONGEST_PAUSE_MS: Final = 1_000.0
LONGEST_GOODBYE_MS: Final = 1_000.0
"""The time in which a server must confirm the end of a session. Without it the session expires by itself."""


class ZooKeeperError(Exception):
    """An operation that ZooKeeper refused. Nothing was done."""

    def __init__(self, failed: OperationFailed, path: str) -> None:
        place = path if path.isprintable() else repr(path)
        super().__init__(
            f"The request for {place} was not sent to ZooKeeper: {failed.why_unsent}"
            if failed.why_unsent
            else f"ZooKeeper answers {failed} for {place}"
        )
        self.code = failed.code
        self.failed = failed


class NoAnswer(Exception):
    """An operation whose answer was lost."""

    def __init__(self, lost: Lost) -> None:
        super().__init__(str(lost))
        self.is_unknown = lost.is_unknown
        self.state = lost.state


class ZooKeeperNotConnected(Exception):
    """ZooKeeper could not be reached in time, in one line."""


class ZooKeeperSettings(NamedTuple):
    """How a client connects."""

    servers: Servers
    session_timeout_ms: int = 18_000
    most_in_flight: int = 10
    new_exchange: Callable[[], SaslExchange] | None = None
    """Begins a login at a server; None connects without one."""
    most_bytes: int = MOST_BYTES
    """The size of the largest request that the servers take."""


class ZooKeeperClient:
    """A client with one session at a time."""

    def __init__(self, scheduler: Scheduler, connect: Connect, settings: ZooKeeperSettings, rng: random.Random) -> None:
        self.on_event: Callable[[WatchedEvent], object] = _ignored
        """Called with each change that was watched."""
        self.on_state: Callable[[SessionState], object] = _ignored
        """Called when the session gets or loses its connection, and when it ends."""
        self._scheduler = scheduler
        self._connect = connect
        self._settings = settings
        self._rng = rng
        self._order = list(settings.servers.addresses)
        self._next = 0
        self._link: Link | None = None
        self._timer: Timer | None = None
        self._is_flushing = False
        self._waiters: list[_Waiter] = []
        self._give_up: Callable[[str], object] = _ignored
        """Ends the present connection."""
        self._why = "no attempt was made"
        """The reason why there is no connection."""
        self.session = self._new_session()
        self.session.state = SessionState.CLOSED

    # The user's side.

    def subscribe(
        self, happened: Callable[[WatchedEvent], object], state_changed: Callable[[SessionState], object]
    ) -> None:
        """Call ``happened`` with each watched change from now on, and ``state_changed`` as `on_state`."""
        self.on_event, self.on_state = happened, state_changed

    @property
    def state(self) -> SessionState:
        return self.session.state

    @property
    def server(self) -> str:
        """The server of the present connection, or of the last attempt to connect."""
        address = self._order[(self._next - 1) % len(self._order)]
        return str(Servers((address,), chroot=""))

    @property
    def why(self) -> str:
        """The reason why there is no connection, in words."""
        return self.session.why_refused or self._why

    def open(self) -> None:
        """Begin a session. The one before it must have ended."""
        assert self.session.is_ended, "one session at a time"
        self._hang_up()  # the end of the connection before is not one of the next session's
        self.session = self._new_session()
        self._rng.shuffle(self._order)
        self._next = 0
        self._dial()

    def submit(self, operation: Operation, done: Done) -> None:
        """Send an operation. ``done`` is called once, later, with its result, with `OperationFailed` or with `Lost`."""
        self.session.submit(operation, done, self._scheduler.monotonic_ms())
        self._flush_soon()

    async def ask(self, operation: Operation) -> Any:
        """The result of an operation. Raises ZooKeeperError and NoAnswer."""
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.submit(operation, lambda result: None if answered.done() else answered.set_result(result))
        result = await answered
        if isinstance(result, Lost):
            raise NoAnswer(result)
        return _unless_failed(result, operation)

    async def ask_until_answered(self, operation: Operation) -> Any:
        """Like `ask`, but an operation whose connection is lost is sent again until it is answered or the session ends,
        as Kafka does. So it may be done twice: a create may answer NODE_EXISTS for its own znode."""
        (result,) = await self.ask_all_until_answered([operation])
        return _unless_failed(result, operation)

    async def ask_if_there(self, operation: Operation) -> Any:
        """Like `ask_until_answered`, but None if the znode is not there."""
        try:
            return await self.ask_until_answered(operation)
        except ZooKeeperError as error:
            if error.code != error_codes.NO_NODE:
                raise
            return None

    async def ask_all_until_answered(self, operations: Sequence[Operation]) -> list[Any]:
        """The results of operations that are sent together, each until it is answered, with `OperationFailed` for one
        that is refused. Raises NoAnswer if the session ends."""
        results: list[Any] = [None] * len(operations)
        if not results:
            return results
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left = len(results)

        def send(index: int) -> None:
            self.submit(operations[index], lambda result: take(index, result))

        def take(index: int, result: Any) -> None:
            nonlocal left
            if answered.done():
                return
            if isinstance(result, Lost):
                if result.state in ENDED:
                    answered.set_exception(NoAnswer(result))
                else:
                    send(index)
                return
            results[index] = result
            left -= 1
            if not left:
                answered.set_result(None)

        for index in range(len(results)):
            send(index)
        await answered
        return results

    async def wait_until_connected(self, timeout_ms: float) -> None:
        """Wait for the session's connection. Raises NotConnected after ``timeout_ms``, and if the login is refused."""
        waiter = _Waiter()
        self._waiters.append(waiter)
        timer = self._scheduler.call_later(timeout_ms, waiter.end)
        if self.state is SessionState.CONNECTED or self.session.is_ended:
            waiter.end()
        try:
            await waiter.ended
        finally:
            timer.cancel()
            self._waiters.remove(waiter)
        if self.state is not SessionState.CONNECTED:
            raise ZooKeeperNotConnected(f"ZooKeeper at {self._settings.servers} cannot be reached: {self.why}")

    async def close(self) -> None:
        """End the session. Its ephemeral znodes are gone when this returns, unless ZooKeeper does not answer."""
        if self.session.is_ended:
            self._hang_up()
            return
        waiter = _Waiter()
        timer = self._scheduler.call_later(LONGEST_GOODBYE_MS, waiter.end)
        self.session.close(waiter.end, self._scheduler.monotonic_ms())
        self._flush_soon()
        await waiter.ended
        timer.cancel()
        self._hang_up()
        self.session.disconnected()
        self._flush()

    # The connection.

    def _new_session(self) -> ZooKeeperSession:
        settings = self._settings
        session = ZooKeeperSession(
            settings.session_timeout_ms,
            len(settings.servers.addresses),
            settings.servers.chroot,
            settings.most_in_flight,
            settings.new_exchange,
            settings.most_bytes,
        )
        session.on_event = lambda event: self.on_event(event)
        session.on_state = self._state_changed
        return session

    def _state_changed(self, state: SessionState) -> None:
        session = self.session
        if state is SessionState.CONNECTED:
            log.info("Connected to ZooKeeper, session 0x%x, timeout %d ms", session.session_id, session.timeout_ms)
        elif state is SessionState.CONNECTING:
            log.warning("The connection to ZooKeeper is lost: %s; session 0x%x goes on", self._why, session.session_id)
        elif state is SessionState.REFUSED:
            log.error("ZooKeeper refuses the login: %s", session.why_refused)
        elif state is SessionState.EXPIRED:
            log.warning("The session 0x%x with ZooKeeper has expired", session.session_id)
        if state is not SessionState.CONNECTING:
            for waiter in self._waiters:
                waiter.end()
        self.on_state(state)

    def _dial(self) -> None:
        host, port = self._order[self._next % len(self._order)]
        self._next += 1
        self._link = None
        is_over = False

        def opened() -> None:
            if not is_over:
                self.session.connected(self._scheduler.monotonic_ms())
                self._tick()
                self._flush()

        def taken(frame: bytes | memoryview) -> None:
            if is_over:
                return
            before = self.session.state
            try:
                self.session.received(frame, self._scheduler.monotonic_ms())
            except Malformed as error:
                lost(f"it does not speak ZooKeeper's protocol: {error}")
                return
            if self.session.state is before:
                self._flush_soon()  # frames that came together are answered together
            else:
                self._tick()  # its deadlines are others from now on

        def lost(reason: str) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self._lost(f"{host}:{port}: {reason}")

        self._give_up = lost
        self._arm(self.session.connect_timeout_ms, lambda: lost("no connection in time"))
        self._link = self._connect(host, port, opened, taken, lost)

    def _lost(self, reason: str) -> None:
        self._why = reason
        if isinstance(reason, Unprotected):
            log.warning("ZooKeeper: %s", reason)
        self._hang_up()
        self.session.disconnected()
        self._flush()
        if not self.session.is_ended:
            is_round_over = self._next % len(self._order) == 0
            self._arm(self._rng.uniform(0, LONGEST_PAUSE_MS) if is_round_over else 1.0, self._dial)

    def _hang_up(self) -> None:
        link, self._link = self._link, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if link is not None:
            link.close()

    def _arm(self, delay_ms: float, then: Callable[[], object]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._scheduler.call_later(delay_ms, then)

    def _tick(self) -> None:
        now_ms = self._scheduler.monotonic_ms()
        if self.session.tick(now_ms):
            self._give_up("it is silent")
            return
        if not self.session.is_ended:
            self._arm(self.session.next_tick_ms(now_ms), self._tick)
        self._flush()

    def _flush_soon(self) -> None:
        """Send and answer in a later turn of the loop: the caller of `submit` does not expect answers within it."""
        if not self._is_flushing:
            self._is_flushing = True
            self._scheduler.call_soon(self._flush_due)

    def _flush_due(self) -> None:
        self._is_flushing = False
        self._flush()

    def _flush(self) -> None:
        session = self.session
        frames, session.frames = session.frames, []
        if self._link is not None:
            for frame in frames:
                self._link.send(frame)
        while session.calls:
            try:
                session.calls.popleft()()
            except Exception as error:
                self._scheduler.call_soon(_raise, error)  # it goes alone: others wait for their answers
        if session.is_ended and session is self.session:
            self._hang_up()


class _Waiter:
    """A coroutine that waits for one thing or the end of its time."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


def _unless_failed(result: Any, operation: Operation) -> Any:
    if isinstance(result, OperationFailed):
        if isinstance(operation, Multi) and result.errors:
            operation = operation.operations[result.failed_at]
        raise ZooKeeperError(result, getattr(operation, "path", "several znodes"))
    return result


def _raise(error: Exception) -> None:
    raise error


def _ignored(_what: Any) -> None:
    """Nobody listens."""
