"""Bytes in memory where a stretch of a segment file is expected."""

from kpystorage.log_slice import LogSlice


class _Memory:
    """The bytes as an open file, which has no descriptor of the system."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def pread(self, length: int, position: int) -> bytes:
        return self._data[position : position + length]

    def fsync(self) -> None:
        """Nothing is to be made durable."""

    def confirm(self) -> None:
        """Nothing was written."""

    def drop_cache(self, position: int, end: int) -> None:
        """There is no disk behind it."""

    def fileno(self) -> int:
        return -1


def memory_slice(data: bytes) -> LogSlice:
    """All of ``data``."""
    return LogSlice(_Memory(data), 0, len(data))
