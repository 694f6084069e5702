"""A place in a log: an offset and, where known, the byte it stands at (Kafka's LogOffsetMetadata)."""

from typing import NamedTuple

UNKNOWN_POSITION = -1


class LogOffset(NamedTuple):
    """An offset of a log, with its segment and byte position. ``position`` is -1 where only the offset is known."""

    offset: int
    segment_base_offset: int = UNKNOWN_POSITION
    position: int = UNKNOWN_POSITION
