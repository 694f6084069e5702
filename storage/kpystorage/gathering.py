"""Appends to many logs that are written together: one system call per file instead of one per batch.

Code that serves many requests in one turn begins to gather, and settles before any client hears that its records are
in a log. Any other use of a file first writes the appends that wait for it, so gathering is invisible to others.

Not here: the replies, and taking the log directory offline, when a write fails.

Invariant: the bytes that wait for a file belong right behind its end, in one piece.
"""

from __future__ import annotations

from contextlib import suppress

from kpystorage.file import Descriptor, File
from kpywire.varint import Buffer


class Gathering:
    """The gathered appends of a disk: whether appends wait, which files have some, and where writing them failed."""

    __slots__ = ("failures", "files", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        self.files: list[GatheredFile] = []
        self.failures: list[tuple[str, OSError]] = []
        """(path, error) of the files that lost the appends that waited for them."""

    def settle(self) -> list[tuple[str, OSError]]:
        """Write everything that waits. Return the failures since the last call, also of files that were written
        before."""
        files, self.files = self.files, []
        for file in files:
            with suppress(OSError):
                file.settle()
        failures, self.failures = self.failures, []
        return failures


class GatheredFile:
    """A file whose appends may wait for each other. Waiting bytes that could not be written are lost, and no part of
    them stays in the file."""

    __slots__ = ("_begin", "_file", "_gathering", "_held", "_pieces", "_whole_bytes")

    def __init__(self, file: File, gathering: Gathering) -> None:
        self._file = file
        self._gathering = gathering
        self._pieces: list[bytes] = []
        self._begin = 0
        self._held: Descriptor | None = None
        """A descriptor for the waiting bytes, held open so that writing them does not fail for want of a descriptor."""
        self._whole_bytes = -1
        """The size that is left of a file that lost appends: it is never made longer again."""

    @property
    def path(self) -> str:
        return self._file.path

    @path.setter
    def path(self, path: str) -> None:
        self._file.path = path

    @property
    def is_given_up(self) -> bool:
        return self._file.is_given_up

    @is_given_up.setter
    def is_given_up(self, is_given_up: bool) -> None:
        self._file.is_given_up = is_given_up

    def append(self, data: Buffer, position: int) -> None:
        """Write at ``position``, where the file ends: now, or before the file is next used. OSError."""
        gathering = self._gathering
        if gathering.is_on:
            pieces = self._pieces
            if not pieces:
                self._held = self._file.descriptor()
                self._begin = position
                gathering.files.append(self)
            pieces.append(data if type(data) is bytes else bytes(data))
        else:
            if self._pieces:
                self.settle()
            self._file.pwrite(data, position)

    @property
    def file(self) -> File:
        """The file, with everything that was appended. OSError."""
        if self._pieces:
            self.settle()
        return self._file

    def settle(self) -> None:
        """Write the waiting bytes. OSError, which is also reported to the `Gathering`."""
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
        """Give the descriptor back; the next use opens it again. If writing failed, the `Gathering` reports it."""
        with suppress(OSError):
            self.settle()
        self._file.release()
