"""The file of the history, ``.kpybroker_history`` in the directory of the metadata. Apache Kafka ignores it there.

It is not flushed: what the system had not written when the machine died is missing. A file that is too large, or not
whole, is begun again with what could be read. An error of this file is never one of the log directory.
"""

import logging
from contextlib import suppress
from typing import Final

from kpybroker.monitoring.history.codec import FIRST_LINE, Writer, read
from kpybroker.monitoring.history.samples import HistoryEvent, KeptSample, Rings
from kpystorage.directory import LogDirectory
from kpystorage.disk_errors import in_words
from kpystorage.file import File

log = logging.getLogger("kpybroker.history")

NAME: Final = ".kpybroker_history"
TEMPORARY: Final = NAME + ".tmp"
ROOM_BYTES: Final = 1 << 18
"""A file is rewritten when it has grown by this much, and is twice as large as it was."""
MOST_BYTES: Final = 64 << 20
"""A larger file is none of ours."""


class HistoryFile:
    """The file in one directory. Its methods may run in any thread, one at a time."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._disk = directory.disk
        self._path = f"{directory.path}/{NAME}"
        self._file: File | None = None
        self._writer = Writer()
        self._size = self._whole_size = 0
        self._has_complained = False
        self.written_bytes = 0
        """The bytes that were written since the start."""

    def read(self) -> Rings:
        """The history that the file has."""
        try:
            status = self._disk.status(self._path)
            if status is None:
                return Rings()
            content = self._disk.read(self._path) if status.size <= MOST_BYTES else b""
        except OSError as error:
            self._complain(f"cannot be read: {in_words(error)}")
            return Rings()
        found = read(content)
        if found.read_bytes < max(1, status.size):
            kept = f"{found.read_bytes} of {status.size} bytes are whole"
            is_ours = content.startswith(FIRST_LINE)
            log.info("The history in %s %s; it is begun again", self._path, kept if is_ours else "is of another form")
        return found.rings

    def write(self, rings: Rings, added: list[KeptSample | HistoryEvent], finished: list[KeptSample]) -> None:
        """Add fine samples and events, and coarse samples; or write everything that is kept, from time to time."""
        if self._directory.failure is not None:
            return
        try:
            if self._file is None or self._size > max(ROOM_BYTES + self._whole_size, 2 * self._whole_size):
                self._replace(b"".join(self._writer.whole(rings)))
            else:
                self._append(b"".join(self._frames(added, finished)))
        except OSError as error:
            self.close()
            self._complain(f"cannot be written: {in_words(error)}")
        else:
            self._has_complained = False

    def close(self) -> None:
        """Give the descriptor back. The next write begins the file again."""
        if self._file is not None:
            self._file.release()
            self._file = None

    def _frames(self, added: list[KeptSample | HistoryEvent], finished: list[KeptSample]) -> list[bytes]:
        writer = self._writer
        frames = [writer.event(each) if isinstance(each, HistoryEvent) else writer.fine(each) for each in added]
        return frames + [writer.coarse(each) for each in finished]

    def _append(self, frames: bytes) -> None:
        assert self._file is not None
        self._file.pwrite(frames, self._size)
        self._size += len(frames)
        self.written_bytes += len(frames)

    def _replace(self, content: bytes) -> None:
        self.close()
        temporary = f"{self._directory.path}/{TEMPORARY}"
        try:
            self._disk.write(temporary, content, synchronize=False)
            self._disk.rename(temporary, self._path)
        except OSError:
            with suppress(OSError):
                self._disk.unlink(temporary)
            raise
        finally:
            self._directory.names_changed()
        self._file = self._disk.file(self._path)
        self._size = self._whole_size = len(content)
        self.written_bytes += len(content)

    def _complain(self, why: str) -> None:
        """One line, until it works again."""
        if not self._has_complained:
            self._has_complained = True
            log.warning("The history in %s %s. It is kept in memory only", self._path, why)
