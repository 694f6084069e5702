"""The facts known about each record that was mapped: one byte per offset, so that no key is searched a second time.

Only as many offsets are marked as there is room for; the others are found in the map.

Invariant: a record is marked ``NEWEST`` or ``TOMBSTONE`` as long as no later one with its key was put into the map.
"""

from typing import Final

UNKNOWN: Final = 0
NEWEST: Final = 1
TOMBSTONE: Final = 2
"""Like ``NEWEST``, for a record without a value."""
SUPERSEDED: Final = 3
KEYLESS: Final = 4
NEWEST_BYTE: Final = bytes((NEWEST,))
SUPERSEDED_BYTE: Final = bytes((SUPERSEDED,))
KEYLESS_BYTE: Final = bytes((KEYLESS,))


class Marks:
    """The marks of the offsets from ``first_offset`` on."""

    __slots__ = ("count", "first_offset", "known", "marks")

    def __init__(self, first_offset: int, count: int) -> None:
        self.first_offset = first_offset
        self.count = count
        self.marks = bytearray(count)
        self.known = b""
        """The marks, once they are complete."""

    def complete(self) -> None:
        """Complete the marks: nothing is marked any more."""
        self.known = bytes(self.marks)
        self.marks = bytearray()
