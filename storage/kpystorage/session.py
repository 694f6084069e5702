"""The end of the last writer of a log directory, which decides how much of the directory has to be checked.

``.kafka_cleanshutdown`` (Kafka's) says that everything was flushed and closed. ``.kpybroker_session`` (unknown to
Kafka, which ignores it) exists while a kpybroker node writes: the boot of the machine, the time that the file system
has been up, the directory's identity and path, and its time of change, which follows every change this node makes to
its list of names. If all of that still holds at the next start, then neither the machine nor the file system has been
down, the directory was not moved, copied or restored, no other program (Apache Kafka among them) has worked in it
since, and the page cache holds every write that was finished.

A directory that fails loses the file at once, since the kernel may have dropped what it could not write. If the file
cannot be removed either, the file system accepts no changes any more; when it accepts changes again, it has been
remounted.

Invariant: everything uncertain counts as unclean.
"""

import json
from contextlib import suppress
from threading import Lock
from typing import Final

from kpystorage import names
from kpystorage.disk import Disk
from kpystorage.file import File
from kpystorage.recovery import Shutdown

SESSION = ".kpybroker_session"
CLEAN_SHUTDOWN_VERSION = 0
NO_BROKER_EPOCH: Final = -1
_TIME_DIGITS = 20


def read_broker_epoch(disk: Disk, directory: str) -> int | None:
    """The broker epoch in the clean shutdown file, -1 if it has none; None without such a file."""
    try:
        data = disk.read(f"{directory}/{names.CLEAN_SHUTDOWN}")
    except FileNotFoundError:
        return None
    try:
        content = json.loads(data)
    except ValueError:
        return NO_BROKER_EPOCH
    epoch = content.get("brokerEpoch", NO_BROKER_EPOCH) if isinstance(content, dict) else NO_BROKER_EPOCH
    return epoch if type(epoch) is int else NO_BROKER_EPOCH


def render_clean_shutdown(broker_epoch: int) -> bytes:
    return f'{{"version":{CLEAN_SHUTDOWN_VERSION},"brokerEpoch":{broker_epoch}}}'.encode()


class DirectorySession:
    """The time in which this node uses a log directory, from taking it over to a clean stop."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/{SESSION}"
        self._file: File | None = None
        self._lock = Lock()
        self._time_position = 0
        self._is_trusted = False

    def last_shutdown(self) -> Shutdown:
        """The way in which the session before this one ended. May raise OSError."""
        try:
            left = self._disk.read(self._path)
        except FileNotFoundError:
            clean = read_broker_epoch(self._disk, self._directory) is not None
            return Shutdown.CLEAN if clean else Shutdown.UNCLEAN
        if self._is_ended():
            return Shutdown.CLEAN
        identity, _, modified = left.rpartition(b"\n")
        is_known = self._disk.boot_id() and self._disk.mount_id(self._directory)
        if is_known and identity == self._identity() and modified == self._modified():
            return Shutdown.PROCESS_DIED
        return Shutdown.UNCLEAN

    def _is_ended(self) -> bool:
        """Whether there was a clean stop, perhaps of Apache Kafka, after the session that left its file."""
        marker = self._disk.status(f"{self._directory}/{names.CLEAN_SHUTDOWN}")
        left = self._disk.status(self._path)
        return marker is not None and left is not None and marker.modified_ns > left.modified_ns

    def begin(self, *, trusted: bool) -> None:
        """Take the directory over: from now on a stop counts as a death. Flushed. May raise OSError.

        Unless its contents can be ``trusted``, the death of this process leaves as much to check as there is now.
        """
        identity = self._identity() + b"\n"
        self._time_position = len(identity)
        self._disk.write(self._path, identity + b"?" * _TIME_DIGITS, synchronize=True)
        with suppress(FileNotFoundError):
            self._disk.unlink(f"{self._directory}/{names.CLEAN_SHUTDOWN}")
        self._disk.synchronize_directory(self._directory)
        self._file = self._disk.file(self._path)
        if trusted:
            self.trust()

    def trust(self) -> None:
        """Note that everything has been checked by now. May raise OSError."""
        self._is_trusted = True
        self.changed()

    def changed(self) -> None:
        """Note that this node has just made, renamed or removed a name in the directory. From any thread. May raise
        OSError."""
        with self._lock:
            if self._file is not None and self._is_trusted:
                self._file.pwrite(self._modified(), self._time_position)

    def distrust(self) -> None:
        """Note that the directory has failed: what this node wrote to it may be lost. From any thread."""
        with self._lock:
            file, self._file = self._file, None
            self._is_trusted = False
            with suppress(OSError):
                self._disk.unlink(self._path)
                return
            with suppress(OSError):  # less certain: this may never reach the disk, and the old content come back
                if file is not None:
                    file.pwrite(b"?" * _TIME_DIGITS, self._time_position)

    def end(self, broker_epoch: int) -> None:
        """Note a clean stop: everything is flushed and closed. May raise OSError."""
        with self._lock:
            if self._file is not None:
                self._file.release()
                self._file = None
        self._disk.write(
            f"{self._directory}/{names.CLEAN_SHUTDOWN}", render_clean_shutdown(broker_epoch), synchronize=True
        )
        self._disk.synchronize_directory(self._directory)
        self._disk.unlink(self._path)
        self._disk.synchronize_directory(self._directory)

    def _identity(self) -> bytes:
        status = self._disk.status(self._directory)
        where = (status.device, status.inode) if status is not None else (-1, -1)
        fields = {
            "bootId": self._disk.boot_id(),
            "mount": self._disk.mount_id(self._directory),
            "device": where[0],
            "inode": where[1],
            "path": self._directory,
        }
        return json.dumps(fields).encode()

    def _modified(self) -> bytes:
        status = self._disk.status(self._directory)
        return f"{status.modified_ns if status is not None else 0:0{_TIME_DIGITS}d}".encode()
