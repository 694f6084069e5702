"""Lag: how far a reader is behind the log that it reads. This is the one definition; metrics, console, commands, Spark,
share groups, the tests' broker and the quorum's tables all use it.

In records it is the offsets from the reader's position to the end, less those that it is done with behind its position
(share groups). The end is the high watermark, which ListOffsets reports as LATEST; for a replica it is the log end of
its leader. In time it is the age of the oldest record that is not read yet, so it grows while nothing is read and does
not depend on how fast records come.

Not here: a position that is not known has no lag. A replica's lag in time is that of its last fetch.
"""

from typing import Final

from kpywire.batch import DELETE_HORIZON_MASK, TIMESTAMP_TYPE_MASK, BatchHeader

NO_TIME: Final = -1
"""The time of a batch whose records have none."""


def lag_in_records(end: int, position: int, done: int = 0) -> int:
    """The records behind a position that are not read; 0 if the log ended earlier than that. ``done`` counts those that
    a share group is done with."""
    return max(0, kafkas_lag(end, position, done))


def kafkas_lag(end: int, position: int, done: int = 0) -> int:
    """The lag as Kafka's own tools and DescribeShareGroupOffsets count it: below 0 if the log ended earlier."""
    return end - position - done


def lag_in_ms(records: int | None, oldest_ms: int | None, now_ms: int) -> int | None:
    """The age of the oldest record that is not read, whose time is ``oldest_ms``; 0 if all are read, None if it has no
    time."""
    if records == 0:
        return 0
    return None if oldest_ms is None or oldest_ms < 0 else max(0, now_ms - oldest_ms)


def first_ms(header: BatchHeader) -> int:
    """The time of a batch as the oldest one that is not read: its first timestamp, and with LogAppendTime the time of
    the append; `NO_TIME` without one."""
    if header.attributes & (TIMESTAMP_TYPE_MASK | DELETE_HORIZON_MASK):
        return header.max_timestamp
    return header.base_timestamp
