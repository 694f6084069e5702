"""Jute, the serialisation of ZooKeeper: fixed-size integers, buffers, strings and vectors. Pure.

Invariant: every declared length is compared with the bytes that are there. Any bytes are read or raise `Malformed`.
"""

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final, TypeVar

from kpywire.errors import Malformed

T = TypeVar("T")
_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")


class JuteWriter:
    """Bytes that are being written."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def int32(self, value: int) -> None:
        self._bytes += _INT.pack(value)

    def int64(self, value: int) -> None:
        self._bytes += _LONG.pack(value)

    def boolean(self, *, value: bool) -> None:
        self._bytes.append(value)

    def buffer(self, value: bytes | None) -> None:
        """Bytes, or null."""
        if value is None:
            self.int32(-1)
        else:
            self.int32(len(value))
            self._bytes += value

    def string(self, value: str) -> None:
        self.buffer(value.encode())

    def vector(self, values: Iterable[T], write: Callable[["JuteWriter", T], object]) -> None:
        """The number of values, then each of them."""
        each = list(values)
        self.int32(len(each))
        for value in each:
            write(self, value)

    def frame(self) -> bytes:
        """Everything that was written."""
        return bytes(self._bytes)


class JuteReader:
    """Bytes that are being read, from the first to the last."""

    def __init__(self, frame: bytes | memoryview) -> None:
        self._bytes = memoryview(frame)
        self._at = 0

    @property
    def left_bytes(self) -> int:
        return len(self._bytes) - self._at

    def int32(self) -> int:
        value: int = _INT.unpack_from(self._taken(4))[0]
        return value

    def int64(self) -> int:
        value: int = _LONG.unpack_from(self._taken(8))[0]
        return value

    def boolean(self) -> bool:
        return self._taken(1)[0] != 0

    def buffer(self) -> bytes | None:
        """Bytes, or None for null."""
        size = self.int32()
        return None if size == -1 else bytes(self._taken(size))

    def string(self) -> str:
        """A string. A null one counts as empty, as in ZooKeeper's C client."""
        try:
            return (self.buffer() or b"").decode()
        except UnicodeDecodeError as error:
            raise Malformed(f"a string that is not UTF-8: {error.reason}") from None

    def vector(self, read: Callable[["JuteReader"], T]) -> list[T]:
        """The values of a vector; a null one is empty."""
        count = self.int32()
        if count == -1:
            return []
        if not 0 <= count <= self.left_bytes:  # each value has at least one byte
            raise Malformed(f"a vector that claims {count} values in {self.left_bytes} bytes")
        return [read(self) for _ in range(count)]

    def _taken(self, size: int) -> memoryview:
        if not 0 <= size <= self.left_bytes:
            raise Malformed(f"{size} bytes are claimed, {self.left_bytes} are there")
        self._at += size
        return self._bytes[self._at - size : self._at]
