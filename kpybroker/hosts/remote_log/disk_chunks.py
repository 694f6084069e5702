"""Chunks on a disk, which outlive a restart: a file for each, with its checksum, the least recently used first out.

Only the broker's user may read them: they are what topics hold, not encrypted. The time of change of a file is that of
its last use. Not durable: a file that a crash cut is noticed by its checksum and removed.

Invariant: a chunk that is returned is what was put; any error of the disk is a chunk that is not there.
"""

import logging
import os
import re
import time
from collections import OrderedDict
from contextlib import suppress
from struct import Struct
from threading import Lock
from typing import Final, NamedTuple

from kpywire.crc import crc32c
from kpywire.uuid import from_string, to_string
from kpywire.varint import Buffer

log = logging.getLogger(__name__)

FOLDER: Final = "kpybroker-chunks"
_TRAILER: Final = Struct(">4sI")
_MAGIC: Final = b"kpyC"
_FILE: Final = re.compile(r"([A-Za-z0-9_-]{22})-(0|[1-9][0-9]{0,9})")
_PART: Final = ".part"
_NOTHING: Final = (0, 0.0)


class ChunkName(NamedTuple):
    """A chunk of a segment."""

    segment_id: bytes
    number: int


class DiskChunks:
    """The chunks in ``kpybroker-chunks`` below a directory."""

    def __init__(self, path: str, most_bytes: int, retention_ms: int) -> None:
        """Finds the chunks of an earlier run. OSError if the directory cannot be used."""
        self._folder = os.path.join(path, FOLDER)
        self._most_bytes = most_bytes
        self._retention_ms = retention_ms
        self._lock = Lock()
        self._warned = False
        self.bytes = 0
        self._kept: OrderedDict[ChunkName, tuple[int, float]] = OrderedDict()
        """The size and the time of the last use of each file."""
        if os.path.islink(self._folder):
            raise NotADirectoryError(20, "it is a link, not a directory", self._folder)
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        os.chmod(self._folder, 0o700)
        self._find()

    def __contains__(self, name: ChunkName) -> bool:
        return name in self._kept

    def get(self, name: ChunkName) -> Buffer | None:
        """A chunk, if it is there and whole."""
        with self._lock:
            if name not in self._kept:
                return None
            self._kept[name] = self._kept[name][0], time.time()
            self._kept.move_to_end(name)
        path = self._path(name)
        try:
            with open(path, "rb", buffering=0) as file:
                held = memoryview(file.readall())
            os.utime(path)
        except OSError as error:
            self._warn(error)
            self._remove([name])
            return None
        chunk, trailer = held[: -_TRAILER.size], held[-_TRAILER.size :]
        if len(held) < _TRAILER.size or bytes(trailer) != _TRAILER.pack(_MAGIC, crc32c(chunk)):
            log.warning("the cached chunk %s is damaged; it is read from the store again", path)
            self._remove([name])
            return None
        return chunk

    def put(self, name: ChunkName, chunk: Buffer) -> None:
        """Keep a chunk, unless the disk fails."""
        size = len(chunk) + _TRAILER.size
        if size > self._most_bytes:
            return
        path = self._path(name)
        part = f"{path}{_PART}"
        try:
            self._make_room(size)
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb", buffering=0) as file:
                _write(file.fileno(), chunk)
                _write(file.fileno(), _TRAILER.pack(_MAGIC, crc32c(chunk)))
            os.replace(part, path)
        except OSError as error:
            self._warn(error)
            with suppress(OSError):
                os.unlink(part)
            return
        with self._lock:
            self.bytes += size - self._kept.pop(name, _NOTHING)[0]
            self._kept[name] = size, time.time()

    def remove_segment(self, segment_id: bytes) -> None:
        with self._lock:
            names = [each for each in self._kept if each.segment_id == segment_id]
        self._remove(names)

    def _path(self, name: ChunkName) -> str:
        return os.path.join(self._folder, f"{to_string(name.segment_id)}-{name.number}")

    def _find(self) -> None:
        """Find the files of an earlier run, and remove pieces and what the bounds leave out."""
        found = []
        for entry in os.scandir(self._folder):
            named = _FILE.fullmatch(entry.name)
            with suppress(OSError):
                if named is None or not entry.is_file(follow_symlinks=False):
                    if entry.name.endswith(_PART):
                        os.unlink(entry.path)
                    continue
                status = entry.stat(follow_symlinks=False)
                found.append((status.st_mtime, ChunkName(from_string(named[1]), int(named[2])), status.st_size))
        for used_s, name, size in sorted(found):
            self._kept[name] = size, used_s
            self.bytes += size
        self._make_room(0)

    def _make_room(self, size: int) -> None:
        """Remove the chunks that were not used for longest, so that one more has its place."""
        oldest_s = time.time() - self._retention_ms / 1000 if self._retention_ms >= 0 else float("-inf")
        with self._lock:
            left, doomed = self.bytes, []
            for name, (held, used_s) in self._kept.items():
                if left + size <= self._most_bytes and used_s >= oldest_s:
                    break
                doomed.append(name)
                left -= held
        self._remove(doomed)

    def _remove(self, names: list[ChunkName]) -> None:
        for name in names:
            with self._lock:
                self.bytes -= self._kept.pop(name, _NOTHING)[0]
            with suppress(OSError):
                os.unlink(self._path(name))

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            log.warning("chunks cannot be cached in %s: %s; this is logged once", self._folder, error.strerror or error)


def _write(descriptor: int, data: Buffer) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
