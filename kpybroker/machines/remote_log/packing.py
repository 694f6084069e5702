"""A segment in few bytes, as the cache holds a million of them: one ``bytes`` object in place of a dozen.

Not here: anything that leaves the process. The form may change with every version.
"""

from struct import Struct
from typing import Final

from kpybroker.machines.remote_log.segments import (
    RemoteLogSegment,
    RemoteLogSegmentId,
    RemoteLogSegmentState,
    RemoteLogSegmentUpdate,
)

_HEAD: Final = Struct("<qqqqiiIBB")
_EPOCH: Final = Struct("<iq")
_STATE_AT: Final = _HEAD.size - 2
_START: Final = Struct("<q")
_SIZE: Final = Struct("<i")
_SIZE_AT: Final = 36
_EMPTY_INDEX: Final = 1
_HAS_CUSTOM_METADATA: Final = 2
_STATES: Final = tuple(RemoteLogSegmentState)
_new: Final = tuple.__new__


def packed(segment: RemoteLogSegment) -> bytes:
    """The segment without its id."""
    custom = segment.custom_metadata
    flags = _EMPTY_INDEX * segment.is_transaction_index_empty + _HAS_CUSTOM_METADATA * (custom is not None)
    head = _HEAD.pack(
        segment.start_offset,
        segment.end_offset,
        segment.max_timestamp_ms,
        segment.event_timestamp_ms,
        segment.broker_id,
        segment.size_bytes,
        len(segment.leader_epochs),
        segment.state,
        flags,
    )
    return head + b"".join(_EPOCH.pack(*each) for each in segment.leader_epochs) + (custom or b"")


def unpacked(row: bytes, of: RemoteLogSegmentId) -> RemoteLogSegment:
    """The segment with this id."""
    start, end, max_ms, event_ms, broker_id, size_bytes, count, state, flags = _HEAD.unpack_from(row)
    custom_at = _HEAD.size + count * _EPOCH.size
    epochs = tuple(_EPOCH.iter_unpack(row[_HEAD.size : custom_at]))
    custom = row[custom_at:] if flags & _HAS_CUSTOM_METADATA else None
    empty = bool(flags & _EMPTY_INDEX)
    fields = (of, start, end, broker_id, max_ms, event_ms, epochs, size_bytes, custom, _STATES[state], empty)
    return _new(RemoteLogSegment, fields)


def updated(row: bytes, update: RemoteLogSegmentUpdate) -> bytes:
    """The segment after an update."""
    start, end, max_ms, _, _, size_bytes, count, _, flags = _HEAD.unpack_from(row)
    custom = update.custom_metadata
    flags = flags & _EMPTY_INDEX | _HAS_CUSTOM_METADATA * (custom is not None)
    state = update.state
    head = _HEAD.pack(start, end, max_ms, update.event_timestamp_ms, update.broker_id, size_bytes, count, state, flags)
    return b"".join((head, row[_HEAD.size : _HEAD.size + count * _EPOCH.size], custom or b""))


def parts_of(row: bytes) -> list[tuple[int, int, int]]:
    """The part of each leader epoch in a segment: (epoch, first offset, last offset)."""
    _, end, _, _, _, _, count, _, _ = _HEAD.unpack_from(row)
    if count == 1:
        epoch, start = _EPOCH.unpack_from(row, _HEAD.size)
        return [(epoch, start, end)]
    rows = list(_EPOCH.iter_unpack(row[_HEAD.size : _HEAD.size + count * _EPOCH.size]))
    lasts = [min(start - 1, end) for _, start in rows[1:]]
    return [(epoch, start, last) for (epoch, start), last in zip(rows, (*lasts, end), strict=True)]


def start_of(row: bytes) -> int:
    """The start offset alone."""
    start: int = _START.unpack_from(row)[0]
    return start


def size_of(row: bytes) -> int:
    """The size of the log file alone."""
    size_bytes: int = _SIZE.unpack_from(row, _SIZE_AT)[0]
    return size_bytes


def is_transaction_index_empty(row: bytes) -> bool:
    """Whether it has no aborted transactions."""
    return bool(row[_STATE_AT + 1] & _EMPTY_INDEX)


def state_of(row: bytes) -> RemoteLogSegmentState:
    """The state alone."""
    return _STATES[row[_STATE_AT]]
