"""A store in a directory of this machine, or of a file server that is mounted.

An object is a file. It is written beside the others under a name of its own, made durable, and then gets its name, so
that a crash leaves the whole object or none. Pieces of interrupted writes are removed after a day.
"""

import errno
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Final

from kpybroker.hosts.remote_log.object_store import StoredObject
from kpybroker.hosts.remote_log.remote_storage import ObjectMissing, StoreAway, StoreFailed, StoreRefuses
from kpywire.varint import Buffer

PARTS: Final = ".kpybroker-parts"
"""The directory of objects that are being written."""
_DAY_S: Final = 86_400
_TRIES: Final = 3
_REFUSALS: Final = (
    *(errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG),
)


class DirectoryStore:
    """The objects below a directory, which has to be there unless ``makes_root``."""

    def __init__(self, root: str, *, makes_root: bool = False) -> None:
        self.root = os.path.abspath(root)
        self.name = f"file://{self.root}"
        self._makes_root = makes_root
        self._directories: set[str] = set()
        """Directories that were made durable."""

    def put(self, key: str, parts: Iterable[Buffer]) -> None:
        with self._failing("write", key):
            self._make_root()
            folder = os.path.join(self.root, PARTS)
            os.makedirs(folder, exist_ok=True)
            part = os.path.join(folder, token_hex(16))
        try:
            self._write(key, part, parts)
            with self._failing("write", key):
                self._name(part, self._path(key))
        finally:
            with suppress(OSError):
                os.unlink(part)

    def get(self, key: str, most_bytes: int) -> Buffer:
        found = self._read(key, 0, most_bytes + 1)
        if len(found) > most_bytes:
            raise StoreRefuses(f"{self.name}: {key} has more than {most_bytes} bytes")
        return found

    def get_range(self, key: str, start: int, end: int) -> Buffer:
        return self._read(key, start, end - start)

    def size(self, key: str) -> int:
        with self._failing("read", key):
            return os.stat(self._path(key)).st_size

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        folder = prefix.rpartition("/")[0]
        waiting = [folder]
        while waiting:
            folder = waiting.pop()
            for name, size in self._entries(folder):
                key = f"{folder}/{name}" if folder else name
                if size is None:
                    waiting.append(key)
                elif key.startswith(prefix):
                    yield StoredObject(key, size)

    def delete(self, keys: list[str]) -> None:
        folders = set()
        for key in keys:
            path = self._path(key)
            folders.add(os.path.dirname(path))
            with self._failing("delete", key), suppress(FileNotFoundError):
                os.unlink(path)
        for folder in folders:
            with suppress(OSError):  # it has other files, or another process removed it
                while folder != self.root:
                    os.rmdir(folder)
                    self._directories.discard(folder)
                    folder = os.path.dirname(folder)

    def close(self) -> None:
        """Remove the pieces that interrupted writes left a day ago."""
        folder = os.path.join(self.root, PARTS)
        with suppress(OSError):
            for entry in os.scandir(folder):
                if time.time() - entry.stat().st_mtime > _DAY_S:
                    os.unlink(entry.path)

    def _path(self, key: str) -> str:
        return os.path.join(self.root, key)

    def _write(self, key: str, path: str, parts: Iterable[Buffer]) -> None:
        """Write the parts to a new file. An exception of ``parts`` passes unchanged."""
        with self._failing("write", key):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        try:
            for part in parts:
                with self._failing("write", key):
                    rest = memoryview(part)
                    while rest:
                        rest = rest[os.write(descriptor, rest) :]
            with self._failing("write", key):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _name(self, part: str, path: str) -> None:
        folder = os.path.dirname(path)
        for attempt in range(_TRIES):
            try:
                self._make_durable(folder)
                os.replace(part, path)
                break
            except FileNotFoundError:  # a deletion removed the directory, which was empty
                self._directories.discard(folder)
                if attempt == _TRIES - 1:
                    raise
        _synchronize(folder)

    def _make_durable(self, folder: str) -> None:
        """Make a directory with those above it, and their names durable."""
        if folder in self._directories and os.path.isdir(folder):
            return
        os.makedirs(folder, exist_ok=True)
        above = folder
        while above != self.root:
            above = os.path.dirname(above)
            _synchronize(above)
        self._directories.add(folder)

    def _make_root(self) -> None:
        if self._makes_root:
            os.makedirs(self.root, exist_ok=True)
        elif not os.path.isdir(self.root):
            raise StoreRefuses(f"{self.name}: there is no such directory; make it, or mount what belongs there")

    def _read(self, key: str, start: int, length: int) -> Buffer:
        with self._failing("read", key):
            descriptor = os.open(self._path(key), os.O_RDONLY | os.O_CLOEXEC)
            try:
                length = max(0, min(length, os.fstat(descriptor).st_size - start))
                parts = []
                while length:
                    part = os.pread(descriptor, length, start)
                    if not part:
                        break
                    parts.append(part)
                    start, length = start + len(part), length - len(part)
                return parts[0] if len(parts) == 1 else b"".join(parts)
            finally:
                os.close(descriptor)

    def _entries(self, folder: str) -> Iterator[tuple[str, int | None]]:
        """The names in a directory, with their sizes; None for directories. A directory that is gone has none."""
        with self._failing("list", folder):
            try:
                entries = list(os.scandir(os.path.join(self.root, folder)))
            except FileNotFoundError:
                self._make_root()
                return
            for entry in entries:
                if entry.name == PARTS:
                    continue
                with suppress(FileNotFoundError):
                    is_directory = entry.is_dir(follow_symlinks=False)
                    yield entry.name, None if is_directory else entry.stat(follow_symlinks=False).st_size

    @contextmanager
    def _failing(self, action: str, key: str) -> Iterator[None]:
        """Turn errors of the file system into those of a store."""
        try:
            yield
        except OSError as error:
            raise self._failure(action, key, error) from None

    def _failure(self, action: str, key: str, error: OSError) -> StoreFailed:
        why = f"{self.name}: cannot {action} {key or 'it'}: {error.strerror or error}"
        if isinstance(error, FileNotFoundError):
            if os.path.isdir(self.root):
                return ObjectMissing(why)
            return StoreRefuses(f"{self.name}: there is no such directory; make it, or mount what belongs there")
        return StoreRefuses(why) if error.errno in _REFUSALS else StoreAway(why)


def _synchronize(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
