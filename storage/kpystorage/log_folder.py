"""The names in one log's directory that threads use too: its path, its leader epoch checkpoint, the removal of files.

The loop owns everything in the directory of a log. A thread gets descriptors, which outlive every name, and this
object for the few things that need a name. The lock is held for one such thing at a time, at most for an fsync.

Invariants: the directory is not renamed while a thread uses its path; the leader epoch checkpoint has one writer at a
time, and an older rendering never replaces a newer one; nothing is done in a directory that waits for its removal.
"""

from kpystorage import names
from kpystorage.checkpoint import write_atomically
from kpystorage.disk import Disk


class LogFolder:
    """The directory of one log. Everything that touches the disk may raise OSError, and may run in any thread."""

    __slots__ = ("_disk", "_lock", "_rendered", "_written", "is_leaving", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self.path = path
        self.is_leaving = False
        """Whether it waits for its removal: nothing in it has to be durable any more."""
        self._disk = disk
        self._lock = disk.new_lock()
        self._rendered = self._written = b""

    @property
    def is_behind(self) -> bool:
        """Whether the checkpoint on disk is older than the last rendering."""
        return self._written is not self._rendered

    def render_epochs(self, content: bytes) -> None:
        """Have this written by the next :meth:`write_epochs`, in whichever thread. Called by the log's thread."""
        self._rendered = self._written if content == self._written else content

    def write_epochs(self) -> None:
        """Replace the leader epoch checkpoint by the last rendering, if that is not on disk yet."""
        with self._lock:
            content = self._rendered
            if self._written is not content and not self.is_leaving:
                write_atomically(self._disk, f"{self.path}/{names.LEADER_EPOCHS}", content)
                self._written = content

    def epochs_were_written(self) -> None:
        """Note that the log's thread has written the last rendering in another way, while no thread was at work."""
        self._written = self._rendered

    def write(self, name: str, content: bytes) -> None:
        """Write a small file durably. Its name is durable after `synchronize`."""
        with self._lock:
            if not self.is_leaving:
                self._disk.write(f"{self.path}/{name}", content, synchronize=True)

    def synchronize(self) -> None:
        """Make the names in the directory durable."""
        with self._lock:
            if not self.is_leaving:
                self._disk.synchronize_directory(self.path)

    def rename(self, path: str, *, is_leaving: bool = False) -> None:
        """Give the directory another name, as soon as no thread uses it by the old one."""
        with self._lock:
            self._disk.rename(self.path, path)
            self.path = path
            self.is_leaving = is_leaving

    def unlink(self, name: str) -> None:
        """Remove a file that no log uses any more, wherever the directory is by now. A file that is gone is no
        error."""
        while True:
            path = self.path
            try:
                self._disk.unlink(f"{path}/{name}")
            except FileNotFoundError:
                if path != self.path:
                    continue
            return
