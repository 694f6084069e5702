"""Grouping neighbouring segments that together are no larger than one may be (Kafka's groupSegmentsBySize)."""

from collections.abc import Sequence
from typing import NamedTuple

_MAX_RELATIVE_OFFSET = 0x7FFF_FFFF


class SegmentSizes(NamedTuple):
    """The sizes of a segment, in bytes by kind of file."""

    base_offset: int
    log: int
    offset_index: int
    time_index: int


def group_by_size(
    segments: Sequence[SegmentSizes],
    segment_bytes: int,
    index_bytes: int,
    first_uncleanable_offset: int,
    most_joined: int = _MAX_RELATIVE_OFFSET,
) -> list[list[SegmentSizes]]:
    """The segments in groups, everything in order.

    The limits apply to the sizes of the files before cleaning, so that the result can only be smaller, and to the
    offsets, whose distance to the base of their segment has 31 bits. A group has at most ``most_joined`` segments.
    """
    groups: list[list[SegmentSizes]] = []
    log = offset_index = time_index = 0
    for number, segment in enumerate(segments):
        is_last = number + 1 == len(segments)
        last_offset = (first_uncleanable_offset if is_last else segments[number + 1].base_offset) - 1
        log += segment.log
        offset_index += segment.offset_index
        time_index += segment.time_index
        if (
            groups
            and len(groups[-1]) < most_joined
            and log <= segment_bytes
            and offset_index <= index_bytes
            and time_index <= index_bytes
            and (segment.log == 0 or last_offset - groups[-1][0].base_offset <= _MAX_RELATIVE_OFFSET)
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            log, offset_index, time_index = segment.log, segment.offset_index, segment.time_index
    return groups
