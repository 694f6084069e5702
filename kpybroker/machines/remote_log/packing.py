"""A segment in few bytes, as the cache holds a million of them: one ``bytes`` object in place of a dozen.

Not here: anything that leaves the process. The form may change with every version.
"""

from struct import Struct
from typing import Final

from kpybroker.machines.remote_log.segments import RemoteLogSegment, RemoteLogSegmentId, RemoteLogSegmentState

_HEAD: Final = Struct("<qqqqiiIBB")
_EPOCH: Final = Struct("<iq")
_STATE_AT: Final = _HEAD.size - 2
_EMPTY_INDEX: Final = 1
_HAS_CUSTOM_METADATA: Final = 2


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
    return RemoteLogSegment(
        of,
        start,
        end,
        broker_id,
        max_ms,
        event_ms,
        tuple(_EPOCH.iter_unpack(row[_HEAD.size : custom_at])),
        size_bytes,
        row[custom_at:] if flags & _HAS_CUSTOM_METADATA else None,
        RemoteLogSegmentState(state),
        bool(flags & _EMPTY_INDEX),
    )


def state_of(row: bytes) -> RemoteLogSegmentState:
    """The state alone."""
    return RemoteLogSegmentState(row[_STATE_AT])
