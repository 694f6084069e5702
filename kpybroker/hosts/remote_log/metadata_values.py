"""The values of ``__remote_log_metadata`` as the machines know them, and back.

There may be a million values to read at a start, so those of segments and of updates are read by hand, as long as
nothing in them is unusual: an unknown tagged field, a text of 127 bytes or more. All others are decoded by the
generated decoders, and a test compares the two.
"""

from itertools import pairwise
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, Final

from kpybroker.machines.remote_log.segments import (
    Record,
    RemoteLogSegment,
    RemoteLogSegmentId,
    RemoteLogSegmentState,
    RemoteLogSegmentUpdate,
    RemotePartitionDelete,
    RemotePartitionDeleteState,
)
from kpywire.errors import Malformed
from kpywire.remote_log_record import FRAME_VERSION, TOPIC, decode_value, encode_value
from kpywire.remote_log_records import remote_log_segment_metadata_record as of_segment
from kpywire.remote_log_records import remote_log_segment_metadata_update_record as of_update
from kpywire.remote_log_records import remote_partition_delete_metadata_record as of_deletion
from kpywire.remote_log_records.table import (
    REMOTE_LOG_SEGMENT_METADATA_RECORD,
    REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD,
)

_SEGMENT: Final = bytes((FRAME_VERSION, REMOTE_LOG_SEGMENT_METADATA_RECORD, 0))
_UPDATE: Final = bytes((FRAME_VERSION, REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD, 0))
_SEGMENT_HEAD: Final = Struct(">16siB16sBqqiqqB")
"""Behind the name: topic id, partition, tags, segment id, tags, start, end, broker, times, 1 + number of epochs."""
_UPDATE_HEAD: Final = Struct(">16siB16sBiqB")
"""Behind the name: topic id, partition, tags, segment id, tags, broker, time, 1 + length of the custom metadata."""
_EPOCH: Final = Struct(">iqB")
_ONE_EPOCH: Final = Struct(">iqBiB")
"""The only epoch, the size, 1 + length of the custom metadata."""
_SIZE: Final = Struct(">iB")
_SMALL: Final = 0x80
_NO_TAGS: Final = b"\x00"
_WITH_TRANSACTIONS: Final = b"\x01\x00\x01\x00"
_WITHOUT_TRANSACTIONS: Final = b"\x01\x00\x01\x01"
"""The tagged field ``TxnIndexEmpty``."""
_STATES: Final = tuple(RemoteLogSegmentState)
_new: Final = tuple.__new__


def read_value(value: bytes) -> Record:
    """The record of a value. Malformed, also where Kafka would refuse what it says; OfNewerVersion."""
    frame = value[:3]
    try:
        found = _segment(value) if frame == _SEGMENT else _update(value) if frame == _UPDATE else None
    except (StructError, IndexError, UnicodeDecodeError):
        found = None
    return _read_slowly(value) if found is None else found


def _segment(value: bytes) -> RemoteLogSegment | None:
    """The segment of a value; None if the value is unusual or damaged."""
    named = 3 + value[3]
    if not 3 < named < 3 + _SMALL:
        return None
    topic_id, partition, tags, segment_id, more_tags, start, end, broker_id, max_ms, event_ms, epochs = (
        _SEGMENT_HEAD.unpack_from(value, named)
    )
    position = named + _SEGMENT_HEAD.size
    if epochs == 2:
        epoch, first, epoch_tags, size, custom = _ONE_EPOCH.unpack_from(value, position)
        position += _ONE_EPOCH.size
        leader_epochs: tuple[tuple[int, int], ...] = ((epoch, first),)
    else:
        ended = position + (epochs - 1) * _EPOCH.size
        rows = list(_EPOCH.iter_unpack(value[position:ended]))
        size, custom = _SIZE.unpack_from(value, ended)
        position = ended + _SIZE.size
        epoch_tags = any(row[2] for row in rows)
        leader_epochs = tuple([row[:2] for row in rows])
        if epochs >= _SMALL or not _ascend(leader_epochs):
            return None
    if tags or more_tags or epoch_tags or custom >= _SMALL:
        return None
    metadata = None
    if custom:
        metadata = value[position : position + custom - 1]
        position += custom - 1
    state, rest = value[position], value[position + 1 :]
    if state >= len(_STATES) or rest not in (_NO_TAGS, _WITHOUT_TRANSACTIONS, _WITH_TRANSACTIONS):
        return None
    identity = _new(RemoteLogSegmentId, (topic_id, value[4:named].decode(), partition, segment_id))
    fields = (identity, start, end, broker_id, max_ms, event_ms, leader_epochs, size, metadata, _STATES[state])
    return _new(RemoteLogSegment, (*fields, rest == _WITHOUT_TRANSACTIONS))


def _update(value: bytes) -> RemoteLogSegmentUpdate | None:
    """The update of a value; None if the value is unusual or damaged."""
    named = 3 + value[3]
    if not 3 < named < 3 + _SMALL:
        return None
    topic_id, partition, tags, segment_id, more_tags, broker_id, event_ms, custom = _UPDATE_HEAD.unpack_from(
        value, named
    )
    position = named + _UPDATE_HEAD.size
    metadata = None
    if custom:
        metadata = value[position : position + custom - 1]
        position += custom - 1
    state = value[position]
    if tags or more_tags or custom >= _SMALL or state >= len(_STATES) or value[position + 1 :] != _NO_TAGS:
        return None
    identity = _new(RemoteLogSegmentId, (topic_id, value[4:named].decode(), partition, segment_id))
    return _new(RemoteLogSegmentUpdate, (identity, event_ms, metadata, _STATES[state], broker_id))


def _ascend(epochs: tuple[tuple[int, int], ...]) -> bool:
    return bool(epochs) and all(one[0] < other[0] for one, other in pairwise(epochs))


def _read_slowly(value: bytes) -> Record:
    found = decode_value(value)
    try:
        if isinstance(found, of_segment.RemoteLogSegmentMetadataRecord):
            return _segment_of(found)
        if isinstance(found, of_update.RemoteLogSegmentMetadataUpdateRecord):
            return RemoteLogSegmentUpdate(
                _id_of(found.remote_log_segment_id),
                found.event_timestamp_ms,
                found.custom_metadata,
                RemoteLogSegmentState(found.remote_log_segment_state),
                found.broker_id,
            )
        if isinstance(found, of_deletion.RemotePartitionDeleteMetadataRecord):
            of = found.topic_id_partition
            state = RemotePartitionDeleteState(found.remote_partition_delete_state)
            return RemotePartitionDelete(of.id, of.name, of.partition, state, found.event_timestamp_ms, found.broker_id)
    except ValueError as error:
        raise Malformed(f"{error} in {TOPIC}") from None
    raise Malformed(f"a {type(found).__name__} does not belong in {TOPIC}")


def _segment_of(found: of_segment.RemoteLogSegmentMetadataRecord) -> RemoteLogSegment:
    epochs = {each.leader_epoch: each.offset for each in found.segment_leader_epochs}
    if not epochs:
        raise Malformed(f"a segment without leader epochs in {TOPIC}")
    return RemoteLogSegment(
        _id_of(found.remote_log_segment_id),
        found.start_offset,
        found.end_offset,
        found.broker_id,
        found.max_timestamp_ms,
        found.event_timestamp_ms,
        tuple(sorted(epochs.items())),
        found.segment_size_in_bytes,
        found.custom_metadata,
        RemoteLogSegmentState(found.remote_log_segment_state),
        found.txn_index_empty,
    )


def _id_of(entry: Any) -> RemoteLogSegmentId:
    of = entry.topic_id_partition
    return RemoteLogSegmentId(of.id, of.name, of.partition, entry.id)


def written_value(record: Record) -> bytes:
    """The value of a record."""
    if isinstance(record, RemoteLogSegment):
        return encode_value(_segment_record(record))
    if isinstance(record, RemotePartitionDelete):
        entry = of_deletion.TopicIdPartitionEntry(name=record.topic, id=record.topic_id, partition=record.partition)
        return encode_value(
            of_deletion.RemotePartitionDeleteMetadataRecord(
                topic_id_partition=entry,
                broker_id=record.broker_id,
                event_timestamp_ms=record.event_timestamp_ms,
                remote_partition_delete_state=record.state,
            )
        )
    return encode_value(
        of_update.RemoteLogSegmentMetadataUpdateRecord(
            remote_log_segment_id=_entry(of_update, record.id),
            broker_id=record.broker_id,
            event_timestamp_ms=record.event_timestamp_ms,
            custom_metadata=record.custom_metadata,
            remote_log_segment_state=record.state,
        )
    )


def _segment_record(segment: RemoteLogSegment) -> of_segment.RemoteLogSegmentMetadataRecord:
    return of_segment.RemoteLogSegmentMetadataRecord(
        remote_log_segment_id=_entry(of_segment, segment.id),
        start_offset=segment.start_offset,
        end_offset=segment.end_offset,
        broker_id=segment.broker_id,
        max_timestamp_ms=segment.max_timestamp_ms,
        event_timestamp_ms=segment.event_timestamp_ms,
        segment_leader_epochs=[
            of_segment.SegmentLeaderEpochEntry(leader_epoch=epoch, offset=offset)
            for epoch, offset in segment.leader_epochs
        ],
        segment_size_in_bytes=segment.size_bytes,
        custom_metadata=segment.custom_metadata,
        remote_log_segment_state=segment.state,
        txn_index_empty=segment.is_transaction_index_empty,
    )


def _entry(module: Any, of: RemoteLogSegmentId) -> Any:
    """The id of a segment as a record of ``module`` has it."""
    partition = module.TopicIdPartitionEntry(name=of.topic, id=of.topic_id, partition=of.partition)
    return module.RemoteLogSegmentIdEntry(topic_id_partition=partition, id=of.segment_id)
