"""Appends to many logs that are written together: one system call per file instead of one per batch.

Who serves many requests in one turn begins to gather, and settles before anybody is told that something is in a log.
Every other use of a file writes what waits for it first, so that nobody else can tell whether appends are gathered.

Not here: who is told, and what becomes of the log directory, when a write fails.

Invariant: what waits for a file belongs right behind its end, in one piece.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kpywire.varint import Buffer

if TYPE_CHECKING:
    from kpystorage.disk import Descriptor, File


class Gathering:
    """Whether appends to the files of a disk wait, which files have some, and where writing them failed."""

    __slots__ = ("failures", "files", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        self.files: list[GatheredFile] = []
        self.failures: list[tuple[str, OSError]] = []
        """(path, error) of the files that lost what waited for them."""

    def settle(self) -> list[tuple[str, OSError]]:
        """Write whatever waits; the failures since the last call, also of files that were written before."""
        files, self.files = self.files, []
        for file in files:
            with suppress(OSError):
                file.settle()
        failures, self.failures = self.failures, []
        return failures


class GatheredFile:
    """A file whose appends may wait for each other. What waited and could not be written is lost, and no part of it
    stays in the file."""

    __slots__ = ("_begin", "_file", "_gathering", "_held", "_pieces", "_whole_bytes")

    def __init__(self, file: File, gathering: Gathering) -> None:
        self._file = file
        self._gathering = gathering
        self._pieces: list[bytes] = []
        self._begin = 0
        self._held: Descriptor | None = None
        """Open for what waits, so that it does not fail for want of a descriptor."""
        self._whole_bytes = -1
        """What is left of a file that lost something: it is never made longer again."""

    @property
    def path(self) -> str:
        return self._file.path

    @path.setter
    def path(self, path: str) -> None:
        self._file.path = path

    def append(self, data: Buffer, position: int) -> None:
        """Write at ``position``, where the file ends: now, or before anything else is done with it. OSError."""
        gathering = self._gathering
        if gathering.is_on:
            pieces = self._pieces
            if not pieces:
                self._held = self._file.descriptor()
                self._begin = position
                gathering.files.append(self)
            pieces.append(bytes(data))
        else:
            self.file.pwrite(data, position)

    @property
    def file(self) -> File:
        """The file, with all that was appended. OSError."""
        if self._pieces:
            self.settle()
        return self._file

    def settle(self) -> None:
        """Write what waits. OSError, which the `Gathering` learns too."""
        pieces, self._pieces = self._pieces, []
        if not pieces:
            return
        try:
            self._file.pwrite(pieces[0] if len(pieces) == 1 else b"".join(pieces), self._begin)
        except OSError as error:
            self._gathering.failures.append((self.path, error))
            self._whole_bytes = self._begin
            with suppress(OSError):
                self._file.truncate(self._begin)
            raise
        finally:
            self._held = None

    def descriptor(self) -> Descriptor:
        return self.file.descriptor()

    def pread(self, length: int, position: int) -> bytes:
        return self.file.pread(length, position)

    def pwrite(self, data: Buffer, position: int) -> None:
        self.file.pwrite(data, position)

    def size(self) -> int:
        return self.file.size()

    def truncate(self, length: int) -> None:
        self.file.truncate(length if self._whole_bytes < 0 else min(length, self._whole_bytes))

    def reserve(self, length: int) -> None:
        self.file.reserve(length)

    def fsync(self) -> None:
        self.file.fsync()

    def release(self) -> None:
        """Give the descriptor back; the next use opens it again. Where writing failed, the `Gathering` tells it."""
        with suppress(OSError):
            self.settle()
        self._file.release()
