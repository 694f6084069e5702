"""The frames of a ZooKeeper connection: the greeting, and the headers of requests, replies and events. Pure."""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from kpybroker.machines.zookeeper.client.jute import JuteReader, JuteWriter
from kpywire.errors import Malformed

EVENT_XID: Final = -1
PING_XID: Final = -2
SET_WATCHES_XID: Final = -8
CREATE_SESSION: Final = -10
PING: Final = 11
SET_WATCHES: Final = 101
SASL: Final = 102
CLOSE_SESSION: Final = -11
PASSWORD_BYTES: Final = 16
MOST_WATCHES_BYTES: Final = 128 * 1024
"""The size of one setWatches request, as in Java's client: a server refuses what exceeds its ``jute.maxbuffer``."""


class Greeting(NamedTuple):
    """The first frame of a connection: it asks for a session, or for one to go on."""

    last_zxid: int
    timeout_ms: int
    session_id: int
    password: bytes

    def frame(self) -> bytes:
        out = JuteWriter()
        out.int32(0)
        out.int64(self.last_zxid)
        out.int32(self.timeout_ms)
        out.int64(self.session_id)
        out.buffer(self.password)
        out.boolean(value=False)
        return out.frame()

    @classmethod
    def of(cls, frame: bytes | memoryview) -> "Greeting":
        source = JuteReader(frame)
        source.int32()
        return cls(source.int64(), source.int32(), source.int64(), source.buffer() or b"")


class Welcome(NamedTuple):
    """The answer to a `Greeting`. A timeout of 0 says that the session has expired."""

    timeout_ms: int
    session_id: int
    password: bytes

    def frame(self) -> bytes:
        out = JuteWriter()
        out.int32(0)
        out.int32(self.timeout_ms)
        out.int64(self.session_id)
        out.buffer(self.password)
        out.boolean(value=False)
        return out.frame()

    @classmethod
    def of(cls, frame: bytes | memoryview) -> "Welcome":
        source = JuteReader(frame)
        source.int32()
        return cls(source.int32(), source.int64(), source.buffer() or b"")


class EventType(IntEnum):
    """The change that a watch reports (``Watcher.Event.EventType``)."""

    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


class WatchedEvent(NamedTuple):
    """A change of a znode that was watched. The watch is gone with it."""

    type: EventType
    path: str

    def frame(self) -> bytes:
        out = reply(EVENT_XID, -1, 0)
        out.int32(self.type)
        out.int32(3)  # SyncConnected
        out.string(self.path)
        return out.frame()

    @classmethod
    def read(cls, source: JuteReader) -> "WatchedEvent | None":
        """The event; None if it is about the session and not about a znode."""
        number, _ = source.int32(), source.int32()
        path = source.string()
        if number == -1:
            return None
        try:
            return cls(EventType(number), path)
        except ValueError:
            raise Malformed(f"an event of the unknown type {number}") from None


class Watches(NamedTuple):
    """The watches of a session, by kind; the paths are those of the server."""

    data: Sequence[str]
    existence: Sequence[str]
    children: Sequence[str]


def request(xid: int, code: int) -> JuteWriter:
    """A request that consists of its header so far."""
    out = JuteWriter()
    out.int32(xid)
    out.int32(code)
    return out


def reply(xid: int, zxid: int, error: int) -> JuteWriter:
    """A reply that consists of its header so far."""
    out = JuteWriter()
    out.int32(xid)
    out.int64(zxid)
    out.int32(error)
    return out


def set_watches(last_zxid: int, watches: Watches) -> list[bytes]:
    """The requests that register watches again. Those of changes since ``last_zxid`` fire at once."""
    frames = []
    parts: tuple[list[str], list[str], list[str]] = ([], [], [])
    size = 0
    kinds: Iterable[tuple[int, str]] = ((kind, path) for kind, paths in enumerate(watches) for path in paths)
    for kind, path in kinds:
        parts[kind].append(path)
        size += 4 + len(path.encode())
        if size >= MOST_WATCHES_BYTES:
            frames.append(_set_watches(last_zxid, parts))
            parts, size = ([], [], []), 0
    if size:
        frames.append(_set_watches(last_zxid, parts))
    return frames


def _set_watches(last_zxid: int, parts: Sequence[list[str]]) -> bytes:
    out = request(SET_WATCHES_XID, SET_WATCHES)
    out.int64(last_zxid)
    for paths in parts:
        out.vector(paths, JuteWriter.string)
    return out.frame()
