"""Making what a log has written durable: planned by the log's thread, done in any thread, noted by the log's thread.

Invariant: when :meth:`Flush.run` returns, everything appended before the flush began survives the machine's crash, with
the names of its files, its leader epochs and its topic id. An error means that this can never be said any more: the
directory goes offline, an fsync is never repeated.
"""

from kpystorage.checkpoint import write_atomically
from kpystorage.disk import Descriptor, Disk


class Flush:
    """One flush of one log. ``end_offset`` is what the recovery point becomes when it is noted."""

    __slots__ = ("descriptors", "directories", "disk", "end_offset", "epochs", "removals", "size_bytes")

    def __init__(self, disk: Disk, end_offset: int, size_bytes: int) -> None:
        self.disk = disk
        self.end_offset = end_offset
        self.size_bytes = size_bytes
        self.descriptors: list[Descriptor] = []
        self.directories: list[str] = []
        self.epochs: tuple[str, bytes] | None = None
        self.removals = False

    def run(self) -> None:
        """Do it. OSError if any of it fails. May run in a thread."""
        for descriptor in self.descriptors:
            descriptor.fsync()
        if self.epochs is not None:
            write_atomically(self.disk, *self.epochs)
        for directory in self.directories:
            self.disk.synchronize_directory(directory)
