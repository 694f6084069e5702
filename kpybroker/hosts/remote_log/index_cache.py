"""The indexes of remote segments on the disk, in front of a store: Kafka's ``remote-log-index-cache``, in its form.

    OFFSET_SEGMENTID.index | .timeindex | .txnindex      OFFSET is the segment's first, ids are in Kafka's base64

The ones that were used last are in memory too, since every read begins with an index.

They are files as in a log directory, so Kafka finds them when it continues with the directory, and we find Kafka's. A
transaction index that a segment does not have is an empty file, as there. The snapshots of producers and the leader
epochs are read once, when a replica begins in the middle; they are not kept.

Invariant: an index that comes from the disk is checked; a damaged one is removed and read from the store again.
"""

import logging
import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from threading import Lock
from typing import Final, NamedTuple

from kpybroker.hosts.remote_log.flights import Flights
from kpybroker.hosts.remote_log.recent_bytes import RecentBytes
from kpybroker.hosts.remote_log.remote_storage import ClosedSegmentFiles, CopyLimits, RemoteStorage
from kpybroker.machines.remote_log.segments import RemoteLogSegment
from kpybroker.machines.remote_log.sweep import ListedObject
from kpystorage.errors import CorruptObject
from kpystorage.remote.index_checks import check_index
from kpystorage.remote.indexes import IndexType
from kpywire.uuid import to_string

log = logging.getLogger(__name__)

FOLDER: Final = "remote-log-index-cache"
_SUFFIXES: Final = {
    IndexType.OFFSET: ".index",
    IndexType.TIMESTAMP: ".timeindex",
    IndexType.TRANSACTION: ".txnindex",
}
_FILE: Final = re.compile(r"(?:0|[1-9][0-9]{0,18})_[A-Za-z0-9_-]{22}\.(?:index|timeindex|txnindex)")
_LEFT_OVER: Final = (".deleted", ".tmp")
_MEMORY_BYTES: Final = 32 << 20


class IndexCacheSettings(NamedTuple):
    """The bounds of the cache, as they are now. An index that was not used for ``ttl_ms`` is removed; -1 for never."""

    most_bytes: int
    ttl_ms: int


class CachedIndexes:
    """`RemoteStorage` whose indexes are kept in a directory."""

    def __init__(self, storage: RemoteStorage, directory: str, settings: Callable[[], IndexCacheSettings]) -> None:
        """Finds the indexes of an earlier run. OSError if the directory cannot be used."""
        self._storage = storage
        self._folder = os.path.join(directory, FOLDER)
        self._settings = settings
        self._lock = Lock()
        self._flights: Flights[str, bytes] = Flights()
        self._kept: OrderedDict[str, tuple[int, float]] = OrderedDict()
        """The size and the time of the last use of each file, by its name."""
        self._memory: RecentBytes[str] = RecentBytes(_MEMORY_BYTES, -1, lambda: 0)
        self.bytes = 0
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        self._find()

    @property
    def name(self) -> str:
        return self._storage.name

    def check(self) -> None:
        self._storage.check()

    def copy(self, segment: RemoteLogSegment, files: ClosedSegmentFiles, limits: CopyLimits) -> bytes | None:
        return self._storage.copy(segment, files, limits)

    def read(self, segment: RemoteLogSegment, start: int, end: int) -> bytes:
        return self._storage.read(segment, start, end)

    def index(self, segment: RemoteLogSegment, index: IndexType) -> bytes | None:
        if index not in _SUFFIXES:
            return self._storage.index(segment, index)
        name = f"{_stem(segment)}{_SUFFIXES[index]}"
        found = self._cached(name, index)
        if found is None:
            found = self._fetched(name, segment, index)
        return None if index is IndexType.TRANSACTION and not found else found

    def delete(self, segment: RemoteLogSegment) -> None:
        self._remove([f"{_stem(segment)}{suffix}" for suffix in _SUFFIXES.values()])
        self._storage.delete(segment)

    def listed(self) -> Iterator[ListedObject]:
        return self._storage.listed()

    def delete_objects(self, objects: Iterable[ListedObject]) -> None:
        self._storage.delete_objects(objects)

    def close(self) -> None:
        self._storage.close()

    def _cached(self, name: str, index: IndexType) -> bytes | None:
        """A kept index; None if there is none, or a damaged one."""
        with self._lock:
            if name not in self._kept:
                return None
            self._kept[name] = self._kept[name][0], time.time()
            self._kept.move_to_end(name)
        held = self._memory.get(name)
        if held is not None:
            return bytes(held)
        path = self._path(name)
        try:
            with open(path, "rb") as file:
                found = file.read()
            check_index(index, found)
            self._memory.put(name, found)
            return found
        except FileNotFoundError:
            self._remove([name])
        except (OSError, CorruptObject) as error:
            log.warning("the cached index %s cannot be used, it is read from the store again: %s", path, error)
            self._remove([name])
        return None

    def _fetched(self, name: str, segment: RemoteLogSegment, index: IndexType) -> bytes:
        """An index from the store, which one thread reads for all that want it."""
        mine, others = self._flights.claim([name])
        if others:
            return others[name].result()
        try:
            found = self._storage.index(segment, index) or b""
            try:
                check_index(index, found)
            except CorruptObject as error:
                raise CorruptObject(f"the segment {_stem(segment)}: {error}") from None
            self._keep(name, found)
        except Exception as error:
            self._flights.fail(mine, error)
            raise
        self._flights.settle(name, found)
        return found

    def _keep(self, name: str, data: bytes) -> None:
        """Write a file, unless the disk fails."""
        part = f"{self._path(name)}.tmp"
        try:
            self._make_room(len(data))
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(data)
            os.replace(part, self._path(name))
        except OSError as error:
            log.warning("an index cannot be kept in %s: %s", self._folder, error.strerror or error)
            with suppress(OSError):
                os.unlink(part)
            return
        with self._lock:
            self.bytes += len(data) - self._kept.pop(name, (0, 0.0))[0]
            self._kept[name] = len(data), time.time()
        self._memory.put(name, data)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _find(self) -> None:
        found = []
        for entry in os.scandir(self._folder):
            with suppress(OSError):
                if entry.name.endswith(_LEFT_OVER):
                    os.unlink(entry.path)
                elif _FILE.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    found.append((status.st_mtime, entry.name, status.st_size))
        now_s = time.time()
        for _, name, size in sorted(found):
            self._kept[name] = size, now_s
            self.bytes += size
        self._make_room(0)

    def _make_room(self, size: int) -> None:
        """Remove the files that were not used for longest, so that one more has its place."""
        most_bytes, ttl_ms = self._settings()
        oldest_s = time.time() - ttl_ms / 1000 if ttl_ms >= 0 else float("-inf")
        with self._lock:
            left, doomed = self.bytes, []
            for name, (held, used_s) in self._kept.items():
                if left + size <= most_bytes and used_s >= oldest_s:
                    break
                doomed.append(name)
                left -= held
        self._remove(doomed)

    def _remove(self, names: list[str]) -> None:
        self._memory.remove(names)
        for name in names:
            with self._lock:
                self.bytes -= self._kept.pop(name, (0, 0.0))[0]
            with suppress(OSError):
                os.unlink(self._path(name))


def _stem(segment: RemoteLogSegment) -> str:
    return f"{segment.start_offset}_{to_string(segment.id.segment_id)}"
