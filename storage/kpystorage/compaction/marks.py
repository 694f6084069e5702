"""What is known of each record that was mapped, by its offset: a byte each, so that no key is looked up a second time.

Only as many offsets as there is room for are marked; of the others the map is asked.

Invariant: a record is marked ``NEWEST`` or ``TOMBSTONE`` as long as no later one with its key was put into the map.
"""

from typing import Final

UNKNOWN: Final = 0
NEWEST: Final = 1
TOMBSTONE: Final = 2
"""As ``NEWEST``, but it has no value."""
SUPERSEDED: Final = 3
KEYLESS: Final = 4
NEWEST_BYTE: Final = bytes((NEWEST,))
SUPERSEDED_BYTE: Final = bytes((SUPERSEDED,))
KEYLESS_BYTE: Final = bytes((KEYLESS,))


class Marks:
    """The marks of the offsets from ``first_offset`` on."""

    __slots__ = ("count", "first_offset", "marks")

    def __init__(self, first_offset: int, count: int) -> None:
        self.first_offset = first_offset
        self.count = count
        self.marks = bytearray(count)

    def between(self, offset: int, end_offset: int) -> bytes:
        """The marks of ``offset .. end_offset``; none where there is no room for them."""
        first = offset - self.first_offset
        if first < 0 or end_offset - self.first_offset > self.count:
            return b""
        return bytes(self.marks[first : first + end_offset - offset])
