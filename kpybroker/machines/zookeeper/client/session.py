"""One session with ZooKeeper, whatever connections carry it. Pure.

The shell reports what happens to connections, and passes the time. It then takes what is to be sent, and the answers.
A session outlives its connections: until it expires, it goes on at any server of the ensemble. Only a server says that
it has expired.

Invariants: each request is answered once. A request whose connection was lost before its answer came gets `Lost`, which
says whether it may have been done. Answers come in the order of requests, and an event comes before any answer that
shows its change. Nothing comes after the session has ended.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.frames import (
    CLOSE_SESSION,
    EVENT_XID,
    PASSWORD_BYTES,
    PING,
    PING_XID,
    SASL,
    SET_WATCHES_XID,
    Greeting,
    WatchedEvent,
    Welcome,
    request,
    set_watches,
)
from kpybroker.machines.zookeeper.client.java_options import MOST_BYTES
from kpybroker.machines.zookeeper.client.jute import JuteReader
from kpybroker.machines.zookeeper.client.operations import Operation, OperationFailed, relative
from kpybroker.machines.zookeeper.client.watches import Watching
from kpywire.errors import Malformed

LONGEST_SILENCE_MS: Final = 10_000.0
"""The longest time without a ping, as in Java's client."""


class SessionState(Enum):
    """The state of a session."""

    CONNECTING = "has no connection"
    GREETING = "waits for the server to accept it"
    LOGGING_IN = "logs in by SASL"
    CONNECTED = "is connected"
    EXPIRED = "has expired"
    REFUSED = "was refused by the login"
    CLOSED = "was closed"


ENDED: Final = (SessionState.EXPIRED, SessionState.REFUSED, SessionState.CLOSED)


class Lost(NamedTuple):
    """The answer to a request that ZooKeeper did not answer."""

    is_unknown: bool
    """Whether it was sent: it may have been done, or may still be done."""
    state: SessionState
    """The state of the session. If it has ended, no further request is possible."""

    def __str__(self) -> str:
        outcome = "its outcome is unknown" if self.is_unknown else "it was not sent"
        return f"the session with ZooKeeper {self.state.value}; {outcome}"


class SaslExchange(Protocol):
    """A login by SASL, seen from the client."""

    is_complete: bool

    def first(self) -> bytes: ...

    def respond(self, challenge: bytes) -> bytes | None: ...


class ZooKeeperLoginRefused(Exception):
    """A login that failed, in words without a secret."""


Done = Callable[[Any], object]
"""Called with the result of an operation, with `OperationFailed` or with `Lost`."""


class _Request:
    __slots__ = ("done", "operation", "xid")

    def __init__(self, operation: Operation, done: Done) -> None:
        self.operation = operation
        self.done = done
        self.xid = 0


class ZooKeeperSession:
    """One session."""

    def __init__(
        self,
        timeout_ms: int,
        servers: int,
        chroot: str = "",
        most_in_flight: int = 10,
        new_exchange: Callable[[], SaslExchange] | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """``servers`` is their number. ``new_exchange`` begins a login at a server. ``most_bytes`` is the size of the
        largest request that they take: for a larger one they end the connection, and each time that it comes again."""
        self.state = SessionState.CONNECTING
        self.session_id = 0
        self.timeout_ms = timeout_ms
        """The time after which ZooKeeper lets the session expire: asked for at first, then as the server granted it."""
        self.chroot = chroot
        self.why_refused = ""
        self.frames: list[bytes] = []
        """The frames to be sent; the shell takes them."""
        self.calls: deque[Callable[[], object]] = deque()
        """Answers and events in their order; the shell takes and calls them."""
        self.on_event: Callable[[WatchedEvent], object] = _ignored
        self.on_state: Callable[[SessionState], object] = _ignored
        self._servers = servers
        self._most_in_flight = most_in_flight
        self._new_exchange = new_exchange
        self._most_bytes = most_bytes
        self._exchange: SaslExchange | None = None
        self._password = bytes(PASSWORD_BYTES)
        self._last_zxid = 0
        self._xid = 0
        self._waiting: deque[_Request] = deque()
        self._sent: deque[_Request] = deque()
        self._watching = Watching()
        self._heard_ms = self._sent_ms = 0.0
        self._closing: Callable[[], object] | None = None

    def __repr__(self) -> str:
        return f"Session(0x{self.session_id:x}, {self.state.name})"

    @property
    def connect_timeout_ms(self) -> float:
        """The time for one attempt to connect, so that each server can be tried before the session expires."""
        return self.timeout_ms / self._servers

    @property
    def read_timeout_ms(self) -> float:
        """The time after which a silent connection counts as lost."""
        return self.timeout_ms * 2 / 3

    @property
    def is_ended(self) -> bool:
        return self.state in ENDED

    # The user's side.

    def submit(self, operation: Operation, done: Done, now_ms: float) -> None:
        """Send an operation as soon as the session has a connection."""
        asked = _Request(operation, done)
        if self.is_ended:
            self._settle(asked, Lost(is_unknown=False, state=self.state))
            return
        self._waiting.append(asked)
        self._send_waiting(now_ms)

    def close(self, done: Callable[[], object], now_ms: float) -> None:
        """End the session, which removes its ephemeral znodes. ``done`` is called when the server has confirmed it, or
        when there is no connection over which it could."""
        if self.state is not SessionState.CONNECTED:
            self._end(SessionState.CLOSED)
            self.calls.append(done)
            return
        self._closing = done
        self._xid += 1
        self._say(request(self._xid, CLOSE_SESSION).frame(), now_ms)

    # The connection's side.

    def connected(self, now_ms: float) -> None:
        """A connection is open."""
        if self.is_ended:
            return
        self.state = SessionState.GREETING
        self._heard_ms = now_ms
        greeting = Greeting(self._last_zxid, self.timeout_ms, self.session_id, self._password)
        self._say(greeting.frame(), now_ms)

    def disconnected(self) -> None:
        """The connection is gone, or could not be opened."""
        if self.is_ended:
            return
        if self._closing is not None:
            self._end(SessionState.CLOSED)
            return
        was, self.state = self.state, SessionState.CONNECTING
        self.frames.clear()
        self._exchange = None
        if was is not SessionState.CONNECTED:
            return  # nothing was sent; what waits goes on waiting
        self.calls.append(lambda: self.on_state(SessionState.CONNECTING))
        self._lose_all()

    def received(self, frame: bytes | memoryview, now_ms: float) -> None:
        """A frame came. Raises Malformed: the connection is then to be closed."""
        self._heard_ms = now_ms
        if self.is_ended:
            return
        if self.state is SessionState.GREETING:
            self._welcomed(Welcome.of(frame), now_ms)
            return
        source = JuteReader(frame)
        xid, zxid, error = source.int32(), source.int64(), source.int32()
        if xid == EVENT_XID:
            self._fired(source)
            return
        if xid == PING_XID:
            return
        self._last_zxid = max(self._last_zxid, zxid)
        if xid == SET_WATCHES_XID:
            return
        if self.state is SessionState.LOGGING_IN:
            self._login_answered(source, error, now_ms)
        else:
            self._answered(xid, error, source)
            self._send_waiting(now_ms)

    def tick(self, now_ms: float) -> bool:
        """Pass the time; whether the connection is to be closed, since it has been silent for too long."""
        if self.state not in (SessionState.GREETING, SessionState.LOGGING_IN, SessionState.CONNECTED):
            return False
        limit_ms = self.read_timeout_ms if self.state is not SessionState.GREETING else self.connect_timeout_ms
        if now_ms - self._heard_ms >= limit_ms:
            return True
        if self.state is SessionState.CONNECTED and now_ms - self._sent_ms >= self._ping_after_ms():
            self._say(request(PING_XID, PING).frame(), now_ms)
        return False

    def next_tick_ms(self, now_ms: float) -> float:
        """The time until the next `tick` has something to do."""
        if self.state is SessionState.CONNECTED:
            next_ms = min(self._sent_ms + self._ping_after_ms(), self._heard_ms + self.read_timeout_ms)
        else:
            next_ms = self._heard_ms + self.connect_timeout_ms
        return max(next_ms - now_ms, 1.0)

    # Inside.

    def _ping_after_ms(self) -> float:
        return min(self.read_timeout_ms / 2, LONGEST_SILENCE_MS)

    def _say(self, frame: bytes, now_ms: float) -> None:
        self._sent_ms = now_ms
        self.frames.append(frame)

    def _welcomed(self, welcome: Welcome, now_ms: float) -> None:
        if welcome.timeout_ms <= 0:
            self._end(SessionState.EXPIRED)
            return
        self.session_id, self._password = welcome.session_id, welcome.password
        self.timeout_ms = welcome.timeout_ms
        if self._new_exchange is None:
            self._ready(now_ms)
            return
        self.state = SessionState.LOGGING_IN
        self._exchange = self._new_exchange()
        self._log_in(self._exchange.first(), now_ms)

    def _ready(self, now_ms: float) -> None:
        self.state = SessionState.CONNECTED
        for frame in set_watches(self._last_zxid, self._watching.registered()):
            self._say(frame, now_ms)
        self.calls.append(lambda: self.on_state(SessionState.CONNECTED))
        self._send_waiting(now_ms)

    def _log_in(self, message: bytes, now_ms: float) -> None:
        self._xid += 1
        out = request(self._xid, SASL)
        out.buffer(message)
        self._say(out.frame(), now_ms)

    def _login_answered(self, source: JuteReader, error: int, now_ms: float) -> None:
        exchange = self._exchange
        assert exchange is not None, "a login is under way"
        if error != error_codes.OK:
            self._refuse(f"ZooKeeper answers {error_codes.name(error)} to the login")
            return
        try:
            message = exchange.respond(source.buffer() or b"")
        except ZooKeeperLoginRefused as refusal:
            self._refuse(str(refusal))
            return
        if message is not None:
            self._log_in(message, now_ms)
        elif exchange.is_complete:
            self._ready(now_ms)
        else:
            self._refuse("ZooKeeper ended the login too early")

    def _refuse(self, why: str) -> None:
        self.why_refused = why
        self._end(SessionState.REFUSED)

    def _fired(self, source: JuteReader) -> None:
        event = WatchedEvent.read(source)
        if event is not None and self._watching.fired(event):
            below = event._replace(path=relative(event.path, self.chroot))
            self.calls.append(lambda: self.on_event(below))

    def _answered(self, xid: int, error: int, source: JuteReader) -> None:
        if self._closing is not None and not self._sent and xid == self._xid:
            self._end(SessionState.CLOSED)
            return
        if not self._sent or self._sent[0].xid != xid:
            raise Malformed(f"an answer to request {xid}, which was not asked or is not the next one")
        if error in (error_codes.SESSION_EXPIRED, error_codes.SESSION_MOVED):
            raise Malformed(f"ZooKeeper answers {error_codes.name(error)}")  # the next greeting says what became of it
        asked = self._sent[0]
        result = OperationFailed(error) if error != error_codes.OK else asked.operation.read(source, self.chroot)
        self._sent.popleft()
        self._watching.answered(asked.operation, result, self.chroot)
        self._settle(asked, result)

    def _send_waiting(self, now_ms: float) -> None:
        while (
            self.state is SessionState.CONNECTED
            and self._closing is None
            and self._waiting
            and len(self._sent) < self._most_in_flight
        ):
            asked = self._waiting.popleft()
            xid = self._xid % 0x7FFF_FFFF + 1
            out = request(xid, asked.operation.code)
            asked.operation.write(out, self.chroot)
            frame = out.frame()
            if len(frame) > self._most_bytes:
                why = f"it has {len(frame)} bytes, and servers take {self._most_bytes} at most (jute.maxbuffer)"
                self._settle(asked, OperationFailed(error_codes.MARSHALLING_ERROR, why_unsent=why))
                continue
            self._xid = asked.xid = xid
            self._sent.append(asked)
            self._say(frame, now_ms)

    def _settle(self, asked: _Request, result: Any) -> None:
        self.calls.append(lambda: asked.done(result))

    def _lose_all(self) -> None:
        sent, waiting = self._sent, self._waiting
        self._sent, self._waiting = deque(), deque()
        for asked in sent:
            self._settle(asked, Lost(is_unknown=True, state=self.state))
        for asked in waiting:
            self._settle(asked, Lost(is_unknown=False, state=self.state))

    def _end(self, state: SessionState) -> None:
        self.state = state
        self._exchange = None
        self._lose_all()
        self.calls.append(lambda: self.on_state(state))
        if self._closing is not None:
            self.calls.append(self._closing)
            self._closing = None


def _ignored(_what: Any) -> None:
    """Nobody listens."""
