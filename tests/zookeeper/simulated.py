"""A simulated ZooKeeper: the znodes, sessions and watches of an ensemble, behind the bytes of the real one.

All servers of the ensemble are one here: what a client writes, every other one sees at once. The network is somebody
else's: connections are pairs of callbacks. Time passes by `SimulatedZooKeeper.pass_time`. `test_simulated.py` compares
it with the real server.
"""

import random
import re
from collections.abc import Callable
from typing import Any

from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.frames import (
    CLOSE_SESSION,
    PING,
    SET_WATCHES,
    EventType,
    Greeting,
    WatchedEvent,
    Welcome,
    reply,
)
from kpybroker.machines.zookeeper.client.jute import JuteReader, JuteWriter
from kpybroker.machines.zookeeper.client.operations import ADMIN, ALL, CREATE, DELETE, READ, WRITE, Stat, ZnodeAcl

INVALID_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
MULTI = 14
SYNC = 9


class Refused(Exception):
    """An operation that is answered with an error."""

    def __init__(self, code: int) -> None:
        self.code = code


class Znode:
    """One znode."""

    def __init__(self, data: bytes | None, acls: tuple[ZnodeAcl, ...], owner: int, zxid: int, now_ms: int) -> None:
        self.data = data
        self.acls = acls
        self.owner = owner
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = now_ms
        self.version = self.aversion = self.creations = 0
        self.children: dict[str, None] = {}

    @property
    def stat(self) -> Stat:
        changes = 2 * self.creations - len(self.children)
        versions = self.version, changes, self.aversion
        times = self.czxid, self.mzxid, self.ctime, self.mtime
        return Stat(*times, *versions, self.owner, len(self.data or b""), len(self.children), self.pzxid)

    def copy(self) -> "Znode":
        copied = Znode.__new__(Znode)
        copied.__dict__.update(self.__dict__, children=dict(self.children))
        return copied


class ServedSession:
    """A session as the ensemble knows it."""

    def __init__(self, session_id: int, password: bytes, timeout_ms: int, now_ms: float) -> None:
        self.session_id = session_id
        self.password = password
        self.timeout_ms = timeout_ms
        self.heard_ms = now_ms
        self.connection: Connection | None = None


class Connection:
    """One connection of a client. ``send`` takes a frame for the client; ``close`` ends the connection."""

    def __init__(self, server: "SimulatedZooKeeper", send: Callable[[bytes], Any], close: Callable[[], Any]) -> None:
        self.send = send
        self._server = server
        self._close = close
        self.session: ServedSession | None = None
        self.node_watches: dict[str, None] = {}
        self.child_watches: dict[str, None] = {}
        self.is_over = False

    def received(self, frame: bytes | memoryview) -> None:
        """A frame came from the client."""
        if self.is_over:
            return
        if self.session is None:
            self._server.greeted(self, Greeting.of(frame))
            return
        self.session.heard_ms = self._server.now_ms
        source = JuteReader(frame)
        self._server.asked(self, source.int32(), source.int32(), source)

    def gone(self) -> None:
        """The client closed it, or the network lost it. The session goes on."""
        self.is_over = True
        self._server.connections.pop(self, None)
        if self.session is not None and self.session.connection is self:
            self.session.connection = None

    def end(self) -> None:
        """Close it from this side."""
        if not self.is_over:
            self.gone()
            self._close()


class SimulatedZooKeeper:
    """An ensemble."""

    def __init__(self, rng: random.Random, tick_ms: int = 500, wall_ms: int = 1_790_000_000_000) -> None:
        self.now_ms = 0.0
        self.zxid = 0
        self.nodes: dict[str, Znode] = {}
        self.sessions: dict[int, ServedSession] = {}
        self.connections: dict[Connection, None] = {}
        self.journal: list[tuple[int, int, int]] = []
        """(zxid, session, operation): every write that was done."""
        self._rng = rng
        self._tick_ms = tick_ms
        self._wall_ms = wall_ms
        for path in ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"):
            self._put(path, Znode(b"", (ZnodeAcl(ALL, "world", "anyone"),), 0, 0, 0))

    # Connections and sessions.

    def accept(self, send: Callable[[bytes], Any], close: Callable[[], Any]) -> Connection:
        """A client has connected."""
        connection = Connection(self, send, close)
        self.connections[connection] = None
        return connection

    def pass_time(self, now_ms: float) -> None:
        """Let sessions expire that were silent for too long."""
        self.now_ms = now_ms
        for session in [*self.sessions.values()]:
            if now_ms - session.heard_ms > session.timeout_ms:
                self.expire(session.session_id)

    def expire(self, session_id: int) -> None:
        """End a session as if its client had been silent."""
        connection = self.sessions[session_id].connection
        self._end_session(session_id)
        if connection is not None:
            connection.end()

    def greeted(self, connection: Connection, greeting: Greeting) -> None:
        """A client asks for a session, or for one to go on."""
        if greeting.last_zxid > self.zxid:
            connection.end()
            return
        timeout_ms = min(max(greeting.timeout_ms, 2 * self._tick_ms), 20 * self._tick_ms)
        if greeting.session_id == 0:
            self.zxid += 1
            session_id = self._rng.getrandbits(62) | 1
            session = ServedSession(session_id, self._rng.randbytes(16), timeout_ms, self.now_ms)
            self.sessions[session_id] = session
        else:
            known = self.sessions.get(greeting.session_id)
            if known is None or known.password != greeting.password:
                connection.send(Welcome(0, 0, bytes(16)).frame())
                connection.end()
                return
            session = known
            if session.connection is not None:
                session.connection.end()
            session.heard_ms, session.timeout_ms = self.now_ms, timeout_ms
        session.connection, connection.session = connection, session
        connection.send(Welcome(timeout_ms, session.session_id, session.password).frame())

    def _end_session(self, session_id: int) -> None:
        self.zxid += 1
        self.sessions.pop(session_id)
        for path in [path for path, node in self.nodes.items() if node.owner == session_id]:
            self._remove(path)

    # Requests.

    def asked(self, connection: Connection, xid: int, code: int, source: JuteReader) -> None:
        """A request came."""
        session = connection.session
        assert session is not None
        if code == PING:
            connection.send(reply(xid, self.zxid, 0).frame())
        elif code == CLOSE_SESSION:
            self._end_session(session.session_id)
            connection.send(reply(xid, self.zxid, 0).frame())
            connection.end()
        elif code == SET_WATCHES:
            self._set_watches(connection, source)
            connection.send(reply(xid, self.zxid, 0).frame())
        else:
            body = JuteWriter()
            try:
                self._done(connection, code, source, body)
            except Refused as refused:
                connection.send(reply(xid, self.zxid, refused.code).frame())
            else:
                connection.send(reply(xid, self.zxid, 0).frame() + body.frame())

    def _done(self, connection: Connection, code: int, source: JuteReader, body: JuteWriter) -> None:
        assert connection.session is not None
        owner = connection.session.session_id
        if code in _READS:
            _READS[code](self, connection, source, body)
        elif code == MULTI:
            self._multi(owner, source, body)
        else:
            self.zxid += 1
            path, write, change = _WRITES[code](self, owner, source)
            change()
            self.journal.append((self.zxid, owner, code))
            write(body, path)

    def _multi(self, owner: int, source: JuteReader, body: JuteWriter) -> None:
        self.zxid += 1
        events: list[tuple[EventType, str]] = []
        held, self._fire = self._fire, lambda kind, path: events.append((kind, path))  # type: ignore[method-assign]
        before: list[dict[str, Znode | None]] = []
        results: list[tuple[int, Callable[[JuteWriter, str], Any], str]] = []
        errors: list[int] = []
        while True:
            code, is_last, _ = source.int32(), source.boolean(), source.int32()
            if is_last:
                break
            try:
                path, write, change = _WRITES[code](self, owner, source)
                if not any(errors):
                    before.append({each: self._copy(each) for each in (path, _parent(path))})
                    change()
                    results.append((code, write, path))
                    errors.append(error_codes.OK)
                else:
                    errors.append(error_codes.RUNTIME_INCONSISTENCY)
            except Refused as refused:
                errors.append(error_codes.RUNTIME_INCONSISTENCY if any(errors) else refused.code)
        del self._fire  # type: ignore[method-assign]
        del held
        if any(errors):
            self._undo(before)
            for error in errors:
                _part(body, -1, error)
                body.int32(error)
        else:
            for kind, path in events:
                self._fire(kind, path)
            self.journal += [(self.zxid, owner, code) for code, _, _ in results]
            for code, write, path in results:
                _part(body, code, 0)
                write(body, path)
        body.int32(-1)
        body.boolean(value=True)
        body.int32(-1)

    def _copy(self, path: str) -> Znode | None:
        node = self.nodes.get(path)
        return None if node is None else node.copy()

    def _undo(self, before: list[dict[str, Znode | None]]) -> None:
        """Bring znodes back to what they were before each of several changes."""
        for nodes in reversed(before):
            for path, node in nodes.items():
                if node is None:
                    self.nodes.pop(path, None)
                else:
                    self.nodes[path] = node

    # Reads.

    def _exists(self, connection: Connection, source: JuteReader, body: JuteWriter) -> None:
        path, is_watched = source.string(), source.boolean()
        if is_watched:
            connection.node_watches[path] = None
        self._node(path).stat.write(body)

    def _get_data(self, connection: Connection, source: JuteReader, body: JuteWriter) -> None:
        path, is_watched = source.string(), source.boolean()
        node = self._node(path)
        _check_permission(node, READ)
        if is_watched:
            connection.node_watches[path] = None
        body.buffer(node.data)
        node.stat.write(body)

    def _get_children(self, connection: Connection, source: JuteReader, body: JuteWriter) -> None:
        path, is_watched = source.string(), source.boolean()
        node = self._node(path)
        _check_permission(node, READ)
        if is_watched:
            connection.child_watches[path] = None
        body.vector(node.children, JuteWriter.string)
        node.stat.write(body)

    def _get_acl(self, _connection: Connection, source: JuteReader, body: JuteWriter) -> None:
        node = self._node(source.string())
        _check_permission(node, READ | ADMIN)
        body.vector(node.acls, lambda to, acl: acl.write(to))
        node.stat.write(body)

    def _sync(self, _connection: Connection, source: JuteReader, body: JuteWriter) -> None:
        body.string(source.string())

    # Writes: each checks, and returns the path, the writer of its result, and the change.

    def _create(self, owner: int, source: JuteReader) -> "Planned":
        path, data = source.string(), source.buffer()
        acls, flags = tuple(source.vector(ZnodeAcl.read)), source.int32()
        if not acls or any((acl.scheme, acl.identity) != ("world", "anyone") for acl in acls):
            raise Refused(error_codes.INVALID_ACL)
        parent = self._node(_parent(path))
        _check_permission(parent, CREATE)
        if flags & 2:
            path += f"{parent.creations:010d}"
        _check_path(path)
        if path in self.nodes:
            raise Refused(error_codes.NODE_EXISTS)
        if parent.owner:
            raise Refused(error_codes.NO_CHILDREN_FOR_EPHEMERALS)

        def change() -> None:
            self._put(path, Znode(data, tuple(dict.fromkeys(acls)), owner * (flags & 1), self.zxid, self._wall()))

        return path, lambda body, path: body.string(path), change

    def _delete(self, _owner: int, source: JuteReader) -> "Planned":
        path, version = source.string(), source.int32()
        if path in ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota") or "/" not in path:
            raise Refused(error_codes.BAD_ARGUMENTS)
        _check_permission(self._node(_parent(path)), DELETE)
        node = self._node(path)
        _check_version(node.version, version)
        if node.children:
            raise Refused(error_codes.NOT_EMPTY)
        return path, _nothing, lambda: self._remove(path)

    def _set_data(self, _owner: int, source: JuteReader) -> "Planned":
        path, data, version = source.string(), source.buffer(), source.int32()
        _check_path(path)
        node = self._node(path)
        _check_permission(node, WRITE)
        _check_version(node.version, version)

        def change() -> None:
            node.data, node.mzxid, node.mtime = data, self.zxid, self._wall()
            node.version += 1
            self._fire(EventType.DATA_CHANGED, path)

        return path, self._write_stat, change

    def _set_acl(self, _owner: int, source: JuteReader) -> "Planned":
        path, acls, version = source.string(), tuple(source.vector(ZnodeAcl.read)), source.int32()
        _check_path(path)
        if not acls or any((acl.scheme, acl.identity) != ("world", "anyone") for acl in acls):
            raise Refused(error_codes.INVALID_ACL)
        node = self._node(path)
        _check_permission(node, ADMIN)
        _check_version(node.aversion, version)

        def change() -> None:
            node.acls = tuple(dict.fromkeys(acls))
            node.aversion += 1

        return path, self._write_stat, change

    def _check(self, _owner: int, source: JuteReader) -> "Planned":
        path, version = source.string(), source.int32()
        _check_path(path)
        node = self._node(path)
        _check_permission(node, READ)
        _check_version(node.version, version)
        return path, _nothing, lambda: None

    def _write_stat(self, body: JuteWriter, path: str) -> None:
        self._node(path).stat.write(body)

    # Znodes.

    def _wall(self) -> int:
        return self._wall_ms + int(self.now_ms)

    def _node(self, path: str) -> Znode:
        node = self.nodes.get(path)
        if node is None:
            raise Refused(error_codes.NO_NODE)
        return node

    def _put(self, path: str, node: Znode) -> None:
        self.nodes[path] = node
        if path != "/":
            parent = self.nodes[_parent(path)]
            parent.children[path.rpartition("/")[2]] = None
            parent.creations += 1
            parent.pzxid = self.zxid
            self._fire(EventType.CREATED, path)
            self._fire(EventType.CHILDREN_CHANGED, _parent(path))

    def _remove(self, path: str) -> None:
        del self.nodes[path]
        parent = self.nodes[_parent(path)]
        del parent.children[path.rpartition("/")[2]]
        parent.pzxid = self.zxid
        self._fire(EventType.DELETED, path)
        self._fire(EventType.CHILDREN_CHANGED, _parent(path))

    # Watches.

    def _fire(self, kind: EventType, path: str) -> None:
        for connection in [*self.connections]:
            fired = False
            if kind is not EventType.CHILDREN_CHANGED:
                fired = connection.node_watches.pop(path, 0) is None
            if kind in (EventType.CHILDREN_CHANGED, EventType.DELETED):
                fired = (connection.child_watches.pop(path, 0) is None) or fired
            if fired:
                connection.send(WatchedEvent(kind, path).frame())

    def _set_watches(self, connection: Connection, source: JuteReader) -> None:
        last_zxid = source.int64()
        data, existence, children = (source.vector(JuteReader.string) for _ in range(3))
        for path in data:
            node = self.nodes.get(path)
            if node is None:
                connection.send(WatchedEvent(EventType.DELETED, path).frame())
            elif node.mzxid > last_zxid:
                connection.send(WatchedEvent(EventType.DATA_CHANGED, path).frame())
            else:
                connection.node_watches[path] = None
        for path in existence:
            if path in self.nodes:
                connection.send(WatchedEvent(EventType.CREATED, path).frame())
            else:
                connection.node_watches[path] = None
        for path in children:
            node = self.nodes.get(path)
            if node is None:
                connection.send(WatchedEvent(EventType.DELETED, path).frame())
            elif node.pzxid > last_zxid:
                connection.send(WatchedEvent(EventType.CHILDREN_CHANGED, path).frame())
            else:
                connection.child_watches[path] = None


Planned = tuple[str, Callable[[JuteWriter, str], Any], Callable[[], Any]]
_READS: dict[int, Callable[..., None]] = {
    3: SimulatedZooKeeper._exists,
    4: SimulatedZooKeeper._get_data,
    6: SimulatedZooKeeper._get_acl,
    SYNC: SimulatedZooKeeper._sync,
    12: SimulatedZooKeeper._get_children,
}
_WRITES: dict[int, Callable[[SimulatedZooKeeper, int, JuteReader], Planned]] = {
    1: SimulatedZooKeeper._create,
    2: SimulatedZooKeeper._delete,
    5: SimulatedZooKeeper._set_data,
    7: SimulatedZooKeeper._set_acl,
    13: SimulatedZooKeeper._check,
}


def _part(body: JuteWriter, code: int, error: int) -> None:
    body.int32(code)
    body.boolean(value=False)
    body.int32(error)


def _nothing(_body: JuteWriter, _path: str) -> None:
    """A result without a content."""


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _check_path(path: str) -> None:
    parts = path.split("/")
    if parts[0] or (path != "/" and any(part in ("", ".", "..") for part in parts[1:])):
        raise Refused(error_codes.BAD_ARGUMENTS)
    if INVALID_CHARACTERS.search(path):
        raise Refused(error_codes.BAD_ARGUMENTS)


def _check_version(present: int, expected: int) -> None:
    if expected not in (-1, present):
        raise Refused(error_codes.BAD_VERSION)


def _check_permission(node: Znode, permission: int) -> None:
    if not any(acl.permissions & permission for acl in node.acls):
        raise Refused(error_codes.NO_AUTH)


class InMemory:
    """A `Connect` to a simulated ensemble, without a network. ``call_soon`` delivers each frame."""

    def __init__(self, server: SimulatedZooKeeper, call_soon: Callable[..., Any]) -> None:
        self._server = server
        self._call_soon = call_soon
        self.is_away = False
        """Whether new connections are refused."""

    def __call__(self, _host: str, _port: int, opened: Any, taken: Any, lost: Callable[[str], Any]) -> "Line":
        line = Line(self._call_soon)
        if self.is_away:
            self._call_soon(lost, "it is away")
            return line
        line.connection = self._server.accept(
            lambda frame: self._call_soon(line.deliver, taken, frame),
            lambda: self._call_soon(line.deliver, lost, "the server closed the connection"),
        )
        self._call_soon(line.deliver_open, opened)
        return line


class Line:
    """The client's end of such a connection."""

    def __init__(self, call_soon: Callable[..., Any]) -> None:
        self._call_soon = call_soon
        self.connection: Connection | None = None
        self.is_closed = False

    def deliver_open(self, opened: Callable[[], Any]) -> None:
        if not self.is_closed:
            opened()

    def deliver(self, to: Callable[[Any], Any], what: Any) -> None:
        if not self.is_closed:
            to(what)

    def send(self, frame: bytes) -> None:
        if self.connection is not None:
            self._call_soon(self.connection.received, frame)

    def close(self) -> None:
        self.is_closed = True
        if self.connection is not None:
            self._call_soon(self.connection.gone)
