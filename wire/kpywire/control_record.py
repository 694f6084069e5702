"""Control records, which Kafka writes between users' records: the ends of transactions, and a quorum's own notes.

Not here: the meaning of any of them (:mod:`kpystorage.producer_states`, :mod:`kpybroker.machines.raft`).

The key is a version i16 and the type i16, the value a message. A batch of control records holds nothing else, has the
control bit and is never compressed; a marker's batch is transactional and carries the producer whose transaction ends.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from kpywire.batch import (
    CONTROL_MASK,
    LENGTH_END,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)
from kpywire.codec import decode, encode
from kpywire.errors import Malformed
from kpywire.messages.end_txn_marker import EndTxnMarker
from kpywire.messages.kraft_version_record import KRaftVersionRecord
from kpywire.messages.leader_change_message import LeaderChangeMessage
from kpywire.messages.snapshot_footer_record import SnapshotFooterRecord
from kpywire.messages.snapshot_header_record import SnapshotHeaderRecord
from kpywire.messages.voters_record import VotersRecord
from kpywire.record import Record, build_batch, one_record_batch

ABORT: Final = 0
COMMIT: Final = 1
LEADER_CHANGE: Final = 2
SNAPSHOT_HEADER: Final = 3
SNAPSHOT_FOOTER: Final = 4
KRAFT_VERSION: Final = 5
KRAFT_VOTERS: Final = 6

VERSION: Final = 0
"""The version that Kafka 4.3 writes for every control record and its key. It reads later versions as this one."""

_KEY: Final = Struct(">hh")
_MARKER_VERSION: Final = Struct(">h")
_MARKER: Final = Struct(">5shhBhiB")
"""The record of a marker: key and value as versions, type and coordinator epoch, the bytes before each, no headers."""
_BEFORE_KEY: Final = b"\x20\0\0\0\x08"
_BEFORE_VALUE: Final = 0x0C
_MARKER_ATTRIBUTES: Final = TRANSACTIONAL_MASK | CONTROL_MASK
_PLACE: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_MESSAGES: Final[dict[int, type]] = {
    ABORT: EndTxnMarker,
    COMMIT: EndTxnMarker,
    LEADER_CHANGE: LeaderChangeMessage,
    SNAPSHOT_HEADER: SnapshotHeaderRecord,
    SNAPSHOT_FOOTER: SnapshotFooterRecord,
    KRAFT_VERSION: KRaftVersionRecord,
    KRAFT_VOTERS: VotersRecord,
}


class ControlRecord(NamedTuple):
    """A control record: its type and its message, such as ``COMMIT`` and an ``EndTxnMarker``."""

    type: int
    message: Any


def end_transaction(*, commit: bool, coordinator_epoch: int) -> ControlRecord:
    """The marker that ends a transaction in a partition."""
    return ControlRecord(COMMIT if commit else ABORT, EndTxnMarker(coordinator_epoch=coordinator_epoch))


def control_batch(
    records: Sequence[ControlRecord],
    base_offset: int,
    partition_leader_epoch: int,
    timestamp_ms: int,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
) -> bytes:
    """A batch of control records. With a producer id it belongs to that producer, and is transactional."""
    return build_batch(
        [Record(timestamp=timestamp_ms, key=_KEY.pack(VERSION, kind), value=_value(kind, m)) for kind, m in records],
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=producer_id != NO_PRODUCER_ID,
        control=True,
    )


def marker_batch(  # noqa: PLR0913 - the fields of a batch
    base_offset: int,
    partition_leader_epoch: int,
    timestamp_ms: int,
    *,
    commit: bool,
    coordinator_epoch: int,
    producer_id: int,
    producer_epoch: int,
    log_append_time: bool = False,
) -> bytearray:
    """The batch that ends a transaction. Between partitions with timestamps of one type it differs only in bytes that
    no checksum covers."""
    attributes = _MARKER_ATTRIBUTES | TIMESTAMP_TYPE_MASK if log_append_time else _MARKER_ATTRIBUTES
    batch = bytearray(
        _marker_batch(timestamp_ms, coordinator_epoch, producer_id, producer_epoch, attributes, commit=commit)
    )
    _PLACE.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, LENGTH_END, partition_leader_epoch)
    return batch


@lru_cache(256)
def _marker_batch(
    timestamp_ms: int, coordinator_epoch: int, producer_id: int, producer_epoch: int, attributes: int, *, commit: bool
) -> bytes:
    kind = COMMIT if commit else ABORT
    record = _MARKER.pack(_BEFORE_KEY, VERSION, kind, _BEFORE_VALUE, VERSION, coordinator_epoch, 0)
    return one_record_batch(record, attributes, timestamp_ms, producer_id, producer_epoch)


def _value(kind: int, message: object) -> bytes:
    prefix = _MARKER_VERSION.pack(VERSION) if kind in (ABORT, COMMIT) else b""
    return prefix + encode(message, VERSION)


def control_type(record: Record) -> int:
    """The type of a control record, which may be one that is not known here.

    Raises:
        Malformed: its key is not a control record's.
    """
    key = record.key
    if key is None or len(key) < _KEY.size:
        raise Malformed(f"control record at offset {record.offset} without a whole key")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise Malformed(f"control record at offset {record.offset} of version {version}")
    return int(kind)


def read_control_record(record: Record) -> ControlRecord | None:
    """The contents of a record of a control batch; None for a type that is not known.

    Raises:
        Malformed: its key or its value is not what the type demands.
    """
    kind = control_type(record)
    message_class = _MESSAGES.get(kind)
    if message_class is None:
        return None
    position = _MARKER_VERSION.size if kind in (ABORT, COMMIT) else 0
    return ControlRecord(kind, decode(message_class, VERSION, record.value or b"", position))
