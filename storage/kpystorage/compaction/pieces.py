"""Reading and writing many bytes in small calls, so that no process waits long for the CPU that a cleaner uses.

Most kernels take the CPU from no process in the middle of a system call, however urgent another one is. A call of a
quarter of a megabyte takes a fraction of a millisecond, or several milliseconds when memory has to be found for it.
"""

from typing import Final

from kpystorage.file import File
from kpywire.varint import Buffer

PIECE_BYTES: Final = 32 << 10


def read(file: File, length: int, position: int) -> bytes:
    """``length`` bytes from ``position`` on; fewer only where the file ends. OSError."""
    if length <= PIECE_BYTES:
        return file.pread(length, position)
    end = position + length
    return b"".join([file.pread(min(PIECE_BYTES, end - at), at) for at in range(position, end, PIECE_BYTES)])


def write(file: File, data: Buffer, position: int) -> None:
    """Write all of ``data`` at ``position``. On OSError any part of it may have been written."""
    view = memoryview(data)
    for begin in range(0, len(view), PIECE_BYTES):
        file.pwrite(view[begin : begin + PIECE_BYTES], position + begin)
