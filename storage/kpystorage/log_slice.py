"""A stretch of a segment file: the result of a read, sent to the socket without passing through Python."""

from typing import TYPE_CHECKING

from kpystorage.checked_reads import CheckedRead, check
from kpystorage.file import Descriptor

if TYPE_CHECKING:
    from kpystorage.checked_reads import CheckedReads


class LogSlice:
    """``length`` bytes of a file from ``position`` on. Valid while held, whatever becomes of the file's name.

    ``fileno()`` is for ``os.sendfile``; -1 means that there is no descriptor, and :meth:`read` must be used.
    ``cold``: it lies so far behind the log's end that reading it may have to wait for the disk. It is checked then.
    """

    __slots__ = ("_checks", "_path", "_whole_end", "cold", "descriptor", "length", "position")

    def __init__(
        self,
        descriptor: Descriptor,
        position: int,
        length: int,
        *,
        path: str = "",
        checks: "CheckedReads | None" = None,
    ) -> None:
        """``checks`` are those of the file at ``path``, for a cold slice."""
        self.cold = checks is not None
        self._checks = checks
        self._path = path
        self._whole_end = position  # always between batches, whatever others read meanwhile
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

    def part(self, start: int, length: int) -> "LogSlice":
        """A part that begins ``start`` bytes behind its begin, between batches."""
        return LogSlice(self.descriptor, self.position + start, length, path=self._path, checks=self._checks)

    def whole_until(self, position: int) -> int:
        """The position up to which the file is known to be undamaged from ``position`` on, which must be in the known
        part."""
        if self._checks is None:
            return self.position + self.length
        if position == self._whole_end:
            self._whole_end = self._checks.whole_until(position)
        return max(self._whole_end, position)

    def check(self, position: int, most_bytes: int) -> CheckedRead:
        """Read the bytes behind ``position``, where a batch begins. May run in a thread. OSError."""
        return check(self.descriptor, position, self.position + self.length, most_bytes)

    def note(self, position: int, checked: tuple[int, str, int]) -> None:
        """Remember the result of a :meth:`check` from ``position`` on. Not in a thread."""
        if self._checks is not None:
            self._whole_end = max(self._whole_end, checked[2])
            self._checks.note(self._path, position, *checked)

    def __repr__(self) -> str:
        return f"LogSlice(position={self.position}, length={self.length})"
