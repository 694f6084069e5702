"""The operations of ZooKeeper, their results, and their bytes. Pure.

Each operation knows its number (``ZooDefs.OpCode``), writes itself below a chroot, and reads its result.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.jute import JuteReader, JuteWriter
from kpywire.errors import Malformed

ANY_VERSION: Final = -1
READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16
ALL: Final = READ | WRITE | CREATE | DELETE | ADMIN
_ERROR: Final = -1
_EPHEMERAL: Final = 1
_SEQUENTIAL: Final = 2


class ZnodeAcl(NamedTuple):
    """Permissions on a znode, for one identity."""

    permissions: int
    scheme: str
    identity: str

    def write(self, out: JuteWriter) -> None:
        out.int32(self.permissions)
        out.string(self.scheme)
        out.string(self.identity)

    @classmethod
    def read(cls, source: JuteReader) -> "ZnodeAcl":
        return cls(source.int32(), source.string(), source.string())


OPEN_ACL: Final = (ZnodeAcl(ALL, "world", "anyone"),)
CREATOR_ALL_ACL: Final = (ZnodeAcl(ALL, "auth", ""),)
READ_ACL: Final = (ZnodeAcl(READ, "world", "anyone"),)


class Stat(NamedTuple):
    """The metadata of a znode. Times are in ms since the epoch."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    """The session that owns it; 0 if it is persistent."""
    data_length: int
    num_children: int
    pzxid: int

    @classmethod
    def read(cls, source: JuteReader) -> "Stat":
        long, short = source.int64, source.int32
        return cls(
            long(), long(), long(), long(), short(), short(), short(), long(), short(), short(), long()
        )  # fmt: skip

    def write(self, out: JuteWriter) -> None:
        for value in self[:4]:
            out.int64(value)
        for value in self[4:7]:
            out.int32(value)
        out.int64(self.ephemeral_owner)
        out.int32(self.data_length)
        out.int32(self.num_children)
        out.int64(self.pzxid)


class Znode(NamedTuple):
    """The result of `Get`."""

    data: bytes | None
    stat: Stat


class Children(NamedTuple):
    """The result of `GetChildren`: names without the path."""

    names: list[str]
    stat: Stat


class ZnodeAcls(NamedTuple):
    """The result of `GetAcl`."""

    acls: tuple[ZnodeAcl, ...]
    stat: Stat


class OperationFailed(NamedTuple):
    """The result of an operation that ZooKeeper refused. Nothing was done.

    ``errors`` are those of the operations of a `Multi`; ``code`` is that of the operation that failed first.
    """

    code: int
    errors: tuple[int, ...] = ()
    why_unsent: str = ""
    """The reason why it was not even sent."""

    @property
    def failed_at(self) -> int:
        """The index of the operation that failed first, in a `Multi`; -1 if all of it failed."""
        return self.errors.index(self.code) if self.errors else -1

    def __str__(self) -> str:
        return error_codes.name(self.code)


class Operation(Protocol):
    """One request to ZooKeeper. ``path`` is one below the chroot."""

    @property
    def code(self) -> int: ...

    def write(self, out: JuteWriter, chroot: str) -> None: ...

    def read(self, source: JuteReader, chroot: str) -> Any: ...


def absolute(path: str, chroot: str) -> str:
    """The path that ZooKeeper knows. The root of a chroot is the chroot itself."""
    return (chroot if path == "/" else chroot + path) or "/"


def relative(path: str, chroot: str) -> str:
    """The path below the chroot of one that ZooKeeper sent."""
    return path.removeprefix(chroot) or "/"


class Create(NamedTuple):
    """Create a znode. The result is its path, which has ten digits at its end if it is sequential."""

    path: str
    data: bytes | None
    acls: Sequence[ZnodeAcl] = OPEN_ACL
    is_ephemeral: bool = False
    is_sequential: bool = False

    @property
    def code(self) -> int:
        return 1

    def write(self, out: JuteWriter, chroot: str) -> None:
        out.string(absolute(self.path, chroot))
        out.buffer(self.data)
        out.vector(self.acls, lambda to, acl: acl.write(to))
        out.int32(_EPHEMERAL * self.is_ephemeral | _SEQUENTIAL * self.is_sequential)

    def read(self, source: JuteReader, chroot: str) -> str:
        return relative(source.string(), chroot)


class Delete(NamedTuple):
    """Delete a znode that has no children. The result is None."""

    path: str
    version: int = ANY_VERSION

    @property
    def code(self) -> int:
        return 2

    def write(self, out: JuteWriter, chroot: str) -> None:
        out.string(absolute(self.path, chroot))
        out.int32(self.version)

    def read(self, _source: JuteReader, _chroot: str) -> None:
        return None


class Exists(NamedTuple):
    """Whether there is a znode. The result is its `Stat`. A watch is kept where there is none, too."""

    path: str
    is_watched: bool = False

    @property
    def code(self) -> int:
        return 3

    def write(self, out: JuteWriter, chroot: str) -> None:
        out.string(absolute(self.path, chroot))
        out.boolean(value=self.is_watched)

    def read(self, source: JuteReader, _chroot: str) -> Stat:
        return Stat.read(source)


class Get(NamedTuple):
    """Read a `Znode`."""

    path: str
    is_watched: bool = False

    @property
    def code(self) -> int:
        return 4

    def write(self, out: JuteWriter, chroot: str) -> None:
        out.string(absolute(self.path, chroot))
        out.boolean(value=self.is_watched)

    def read(self, source: JuteReader, _chroot: str) -> Znode:
        return Znode(source.buffer(), Stat.read(source))


class Set(NamedTuple):
    """Replace the data of a znode, if it still has a version. The result is its `Stat`."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION

    @property
    def code(self) -> int:
        return 5

    def write(self, out: JuteWriter, chroot: str) -> None:
        out.string(absolute(self.path, chroot))
        out.buffer(self.data)
        out.int32(self.version)

    def read(self, source: JuteReader, _chroot: str) -> Stat:
        return Stat.read(source)


class GetAcl(NamedTuple):
    """Read the `ZnodeAcls` of a znode."""

    path: str

    @property
    def code(self) -> int:
        return 6

    def write(self, out: JuteWriter, chroot: str) -> None:
        out.string(absolute(self.path, chroot))

    def read(self, source: JuteReader, _chroot: str) -> ZnodeAcls:
        return ZnodeAcls(tuple(source.vector(ZnodeAcl.read)), Stat.read(source))


class SetAcl(NamedTuple):
    """Replace the ACLs of a znode, if they still have a version. The result is its `Stat`."""

    path: str
    acls: Sequence[ZnodeAcl]
    version: int = ANY_VERSION

    @property
    def code(self) -> int:
        return 7

    def write(self, out: JuteWriter, chroot: str) -> None:
        out.string(absolute(self.path, chroot))
        out.vector(self.acls, lambda to, acl: acl.write(to))
        out.int32(self.version)

    def read(self, source: JuteReader, _chroot: str) -> Stat:
        return Stat.read(source)


class Sync(NamedTuple):
    """Wait until the server has seen all that was written before. The result is the path."""

    path: str

    @property
    def code(self) -> int:
        return 9

    def write(self, out: JuteWriter, chroot: str) -> None:
        out.string(absolute(self.path, chroot))

    def read(self, source: JuteReader, chroot: str) -> str:
        return relative(source.string(), chroot)


class GetChildren(NamedTuple):
    """Read the names of the `Children` of a znode."""

    path: str
    is_watched: bool = False

    @property
    def code(self) -> int:
        return 12

    def write(self, out: JuteWriter, chroot: str) -> None:
        out.string(absolute(self.path, chroot))
        out.boolean(value=self.is_watched)

    def read(self, source: JuteReader, _chroot: str) -> Children:
        return Children(source.vector(JuteReader.string), Stat.read(source))


class Check(NamedTuple):
    """A condition in a `Multi`: a znode has a version. The result is None."""

    path: str
    version: int

    @property
    def code(self) -> int:
        return 13

    def write(self, out: JuteWriter, chroot: str) -> None:
        out.string(absolute(self.path, chroot))
        out.int32(self.version)

    def read(self, _source: JuteReader, _chroot: str) -> None:
        return None


Write = Create | Delete | Set | Check
"""The operations that a `Multi` may hold."""


class Multi(NamedTuple):
    """Several operations, of which all or none are done. The result is a list of their results, or
    `OperationFailed`."""

    operations: Sequence[Write]

    @property
    def code(self) -> int:
        return 14

    def write(self, out: JuteWriter, chroot: str) -> None:
        for each in self.operations:
            _write_part(out, each.code, is_last=False)
            each.write(out, chroot)
        _write_part(out, -1, is_last=True)

    def read(self, source: JuteReader, chroot: str) -> list[Any] | OperationFailed:
        results: list[Any] = []
        errors: list[int] = []
        while True:
            code, is_last, _ = source.int32(), source.boolean(), source.int32()
            if is_last:
                break
            if len(results) + len(errors) == len(self.operations):
                raise Malformed("a multi has more results than operations")
            if code == _ERROR:
                errors.append(source.int32())
                continue
            operation = self.operations[len(results)]
            if code != operation.code:
                raise Malformed(f"a multi answers operation {operation.code} with a result of {code}")
            results.append(operation.read(source, chroot))
        if len(results or errors) != len(self.operations) or (results and errors):
            raise Malformed("a multi has other results than operations")
        return results if not errors else OperationFailed(_guilty(errors), tuple(errors))


def _write_part(out: JuteWriter, code: int, *, is_last: bool) -> None:
    out.int32(code)
    out.boolean(value=is_last)
    out.int32(-1)


def _guilty(errors: Sequence[int]) -> int:
    """The error of the operation that failed: those before it have none, those after it were not tried."""
    innocent = (error_codes.OK, error_codes.RUNTIME_INCONSISTENCY)
    return next((code for code in errors if code not in innocent), error_codes.RUNTIME_INCONSISTENCY)
