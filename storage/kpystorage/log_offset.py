"""A place in a log: an offset and, where known, the byte it stands at (Kafka's LogOffsetMetadata).

Each append makes one. So it is a class, which compiled modules make and read faster than a named tuple.
"""

from typing import Final, final

UNKNOWN_POSITION: Final = -1


@final
class LogOffset:
    """An offset of a log, with its segment and byte position. ``position`` is -1 where only the offset is known.

    It is never changed. Two are equal if all three are.
    """

    __slots__ = ("offset", "position", "segment_base_offset")

    def __init__(
        self, offset: int, segment_base_offset: int = UNKNOWN_POSITION, position: int = UNKNOWN_POSITION
    ) -> None:
        self.offset = offset
        self.segment_base_offset = segment_base_offset
        self.position = position

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LogOffset):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.segment_base_offset == other.segment_base_offset
            and self.position == other.position
        )

    def __hash__(self) -> int:
        return hash((self.offset, self.segment_base_offset, self.position))

    def __repr__(self) -> str:
        return f"LogOffset({self.offset}, {self.segment_base_offset}, {self.position})"
