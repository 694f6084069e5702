"""A stretch of a segment file: what a read answers, and what goes to the socket without passing through Python."""

from kpystorage.disk import Descriptor


class LogSlice:
    """``length`` bytes of a file from ``position`` on. Valid while held, whatever becomes of the file's name.

    ``fileno()`` is for ``os.sendfile``; -1 means that there is no such file and :meth:`read` is the way.
    ``cold``: it lies so far behind the log's end that reading it may have to wait for the disk.
    """

    __slots__ = ("cold", "descriptor", "length", "position")

    def __init__(self, descriptor: Descriptor, position: int, length: int, *, cold: bool = False) -> None:
        self.cold = cold
        self.descriptor = descriptor
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def fileno(self) -> int:
        return self.descriptor.fileno()

    def read(self) -> bytes:
        """All its bytes. May run in a thread. OSError if the file cannot be read."""
        return self.descriptor.pread(self.length, self.position)

    def __repr__(self) -> str:
        return f"LogSlice(position={self.position}, length={self.length})"
