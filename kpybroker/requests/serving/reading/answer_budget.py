"""The room that is left in an answer."""

from typing import Final

from kpybroker.machines.partition.role import Role
from kpystorage.log_slice import LogSlice

FEW_FILES: Final = 64
"""The number of partitions of an answer that keep their file open. For further ones, few records are copied instead."""
MOST_COPIED_BYTES: Final = 1024 * 1024
MOST_FILES: Final = 128
"""The most files in an answer. At this limit, or that of copied bytes, it is full: the next one has the rest."""


class AnswerBudget:
    """The room left in an answer while its partitions are read, and whether it must be sent at once."""

    __slots__ = ("_copied_bytes", "_files", "copies", "is_untouched", "is_urgent", "left_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.left_bytes = max_bytes
        self.is_untouched = True
        """Whether no partition has records yet. The first one gets a complete batch, whatever the limits (KIP-74)."""
        self.copies = False
        """Whether it has too many files, so that records are better copied."""
        self.is_urgent = False
        self._files = 0
        self._copied_bytes = 0

    def take(self, records: LogSlice | bytes) -> None:
        """Use room for these records."""
        self.left_bytes -= len(records)
        self.is_untouched = False
        if isinstance(records, bytes):
            self._copied_bytes += len(records)
        else:
            self._files += 1
            self.copies = self._files >= FEW_FILES
        if self._files >= MOST_FILES or self._copied_bytes >= MOST_COPIED_BYTES:
            self.left_bytes = min(self.left_bytes, 0)


def copied(role: Role, records: LogSlice) -> bytes:
    """The bytes of records that are not to keep their file open. Raises DiskFailure."""
    with role.log.directory.failing():
        return records.read()
