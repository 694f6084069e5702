"""The znodes as one server of the simulated ensemble has them: a log of transactions, applied in its order.

The znodes, their versions and the watches are those of `simulated`, which is held against Apache ZooKeeper. What is
added here: transactions come from a log that all servers share, and the requests of a connection are answered in their
order, each read behind the writes before it.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from simulated import MULTI, SYNC, Connection, Refused, ServedSession, SimulatedZooKeeper

from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.frames import (
    CLOSE_SESSION,
    CREATE_SESSION,
    PASSWORD_BYTES,
    PING,
    SET_WATCHES,
    Greeting,
    Welcome,
    reply,
)
from kpybroker.machines.zookeeper.client.jute import JuteReader, JuteWriter
from kpybroker.machines.zookeeper.client.operations import Check, Create, Delete, Set, Write, ZnodeAcl

if TYPE_CHECKING:
    from random import Random

    from .ensemble import Server, Tracked

TICK_MS = 300
"""A session lasts for 2 ticks at least and 20 at most."""
EPHEMERAL = 1
_WRITES = (1, 2, 5, 7, MULTI, CLOSE_SESSION)


class Transaction(NamedTuple):
    """One entry of the log: a request that changes something, or tried to."""

    zxid: int
    time_ms: float
    session_id: int
    code: int
    body: bytes
    """The request behind its header; of a new session its password and its timeout."""
    asker: "Asked | None"
    """The request that waits for it."""


class Outcome(NamedTuple):
    """The answer to a transaction. It is the same on every server."""

    error: int
    body: bytes

    @property
    def is_done(self) -> bool:
        """Whether anything was done: a multi that failed is answered without an error."""
        return self.error == error_codes.OK and self.body[:4] != b"\xff\xff\xff\xff"


class Asked:
    """A request of a connection that waits for its turn."""

    def __init__(self, connection: "ServedConnection", xid: int, code: int, body: bytes) -> None:
        self.connection = connection
        self.xid = xid
        self.code = code
        self.body = body
        self.zxid = 0
        self.outcome: Outcome | None = None
        """None of a write that is not applied yet."""
        self.needed: int | None = None
        """The entries of the log that a sync waits for; None until the leader has said it."""

    @property
    def is_write(self) -> bool:
        """Whether it goes through the log."""
        return self.code in _WRITES


class ServedConnection(Connection):
    """One connection of a client to one server."""

    def __init__(self, tree: "Tree", send: Callable[[bytes], Any], close: Callable[[], Any]) -> None:
        super().__init__(tree, send, close)
        self.waiting: deque[Asked] = deque()
        self.is_greeted = False


class Tree(SimulatedZooKeeper):
    """A server's znodes, and the connections that it serves."""

    def __init__(self, rng: "Random", wall_ms: float, server: "Server | None") -> None:
        """``server`` is None for znodes that nobody asks for."""
        super().__init__(rng, TICK_MS, int(wall_ms))
        self._server = server

    # Transactions

    def apply(self, entry: Transaction) -> Outcome:
        """Do what the next entry of the log says."""
        self.zxid, self.now_ms = entry.zxid - 1, entry.time_ms
        source, body = JuteReader(entry.body), JuteWriter()
        if entry.code == CREATE_SESSION:
            self.zxid = entry.zxid
            session = ServedSession(entry.session_id, source.buffer() or b"", source.int32(), entry.time_ms)
            self.sessions[entry.session_id] = session
        elif entry.code == CLOSE_SESSION:
            self.zxid = entry.zxid
            if self.sessions.pop(entry.session_id, None) is not None:
                for path in [path for path, node in self.nodes.items() if node.owner == entry.session_id]:
                    self._remove(path)
        else:
            try:
                self._done(_Writer(entry.session_id), entry.code, source, body)  # type: ignore[arg-type]
            except Refused as refused:
                self.zxid = entry.zxid
                return Outcome(refused.code, b"")
        self.zxid = entry.zxid
        return Outcome(error_codes.OK, body.frame())

    # Connections

    def open(self, send: Callable[[bytes], Any], close: Callable[[], Any]) -> ServedConnection:
        """A client has connected."""
        connection = ServedConnection(self, send, close)
        self.connections[connection] = None
        return connection

    def greeted(self, connection: Connection, greeting: Greeting) -> None:
        assert self._server is not None
        assert isinstance(connection, ServedConnection)
        if not connection.is_greeted:
            connection.is_greeted = True
            self._server.greeted(connection, greeting)

    def welcome(self, connection: ServedConnection, session_id: int, known: "Tracked | None") -> None:
        """Answer a client that asked for a session: it has it, or it has expired."""
        if connection.is_over:
            return
        if known is None:
            connection.send(Welcome(0, 0, bytes(PASSWORD_BYTES)).frame())
            connection.end()
            return
        session = self.sessions.get(session_id)
        if session is None:
            session = ServedSession(session_id, known.password, known.timeout_ms, self.now_ms)
        if session.connection is not None:
            session.connection.end()
        session.connection, connection.session = connection, session
        connection.send(Welcome(known.timeout_ms, session_id, known.password).frame())

    def asked(self, connection: Connection, xid: int, code: int, source: JuteReader) -> None:
        assert self._server is not None
        assert isinstance(connection, ServedConnection)
        request = Asked(connection, xid, code, bytes(source._taken(source.left_bytes)))
        connection.waiting.append(request)
        self._server.asked(request)
        self.answer(connection)

    def answer(self, connection: ServedConnection) -> None:
        """Answer what may be answered now."""
        while connection.waiting and not connection.is_over:
            asked = connection.waiting[0]
            if asked.is_write and asked.outcome is None:
                return
            assert self._server is not None
            if asked.code == SYNC and (asked.needed is None or asked.needed > self._server.applied):
                return
            connection.waiting.popleft()
            if not asked.is_write:
                if self._server.loses_answer(asked):
                    connection.end()
                    return
                self._read(connection, asked)
                continue
            outcome = asked.outcome
            assert outcome is not None
            if self._server.loses_answer(asked):
                connection.end()
                return
            connection.send(reply(asked.xid, asked.zxid, outcome.error).frame() + outcome.body)
            if asked.code == CLOSE_SESSION:
                connection.end()

    def _read(self, connection: ServedConnection, asked: Asked) -> None:
        body, error = JuteWriter(), error_codes.OK
        try:
            if asked.code == SET_WATCHES:
                self._set_watches(connection, JuteReader(asked.body))
            elif asked.code != PING:
                self._done(connection, asked.code, JuteReader(asked.body), body)
        except Refused as refused:
            error, body = refused.code, JuteWriter()
        connection.send(reply(asked.xid, self.zxid, error).frame() + body.frame())


class _Writer:
    """Stands for the connection of the client that wrote a transaction."""

    def __init__(self, session_id: int) -> None:
        self.session = ServedSession(session_id, b"", 0, 0.0)


def writes_of(entry: Transaction) -> Iterator[Write]:
    """The operations of a transaction, with the paths that the server knows."""
    source = JuteReader(entry.body)
    if entry.code == MULTI:
        while True:
            code, is_last, _ = source.int32(), source.boolean(), source.int32()
            if is_last:
                return
            yield _write(code, source)
    elif entry.code in (1, 2, 5):
        yield _write(entry.code, source)


def _write(code: int, source: JuteReader) -> Write:
    path = source.string()
    if code == 1:
        data, acls, flags = source.buffer(), source.vector(ZnodeAcl.read), source.int32()
        return Create(path, data, acls, bool(flags & EPHEMERAL), bool(flags & 2))
    if code == 5:
        return Set(path, source.buffer(), source.int32())
    return Delete(path, source.int32()) if code == 2 else Check(path, source.int32())
