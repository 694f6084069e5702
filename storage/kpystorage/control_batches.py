"""The control batches that a log must understand: the markers that end transactions (Kafka's EndTransactionMarker)."""

from struct import Struct
from typing import Final

from kpystorage.log_offset import LogOffset
from kpystorage.producer_states import EndedTransaction, ProducerStates, TransactionMarker
from kpystorage.transaction_index import TransactionIndex, TransactionIndexEntry
from kpywire.batch import CODEC_MASK, CONTROL_MASK, HEADER_BYTES, LENGTH_END, BatchHeader
from kpywire.errors import Malformed
from kpywire.record import read_records
from kpywire.varint import Buffer

_new: Final = tuple.__new__
ABORT: Final = 0
COMMIT: Final = 1
_KEY: Final = Struct(">hh")  # version, type
_VALUE: Final = Struct(">hi")  # version, coordinator epoch
_RECORD: Final = Struct(">5shhBhiB")
"""The only record of nearly every control batch: key and value as above, what is before each, no headers."""
_USUAL_LENGTH: Final = HEADER_BYTES + _RECORD.size - LENGTH_END
_BEFORE_KEY: Final = b"\x20\0\0\0\x08"
_BEFORE_VALUE: Final = 0x0C


def transaction_marker(header: BatchHeader, data: Buffer, position: int) -> TransactionMarker | None:
    """The marker in the control batch at ``position`` of ``data``; None if it holds none (the cleaner may empty it).

    Raises:
        Malformed: its record is not readable.
    """
    if header.record_count == 0 or header.producer_id < 0:
        return None
    if header.batch_length == _USUAL_LENGTH and header.record_count == 1 and not header.attributes & CODEC_MASK:
        before_key, _, kind, before_value, _, coordinator_epoch, headers = _RECORD.unpack_from(
            data, position + HEADER_BYTES
        )
        if before_key == _BEFORE_KEY and before_value == _BEFORE_VALUE and headers == 0:
            if kind != COMMIT and kind != ABORT:
                return None
            return _new(TransactionMarker, (kind == COMMIT, coordinator_epoch))
    with memoryview(data) as view:
        record = next(iter(read_records(view[position : position + header.size])), None)
    if record is None or record.key is None or record.value is None or len(record.key) < _KEY.size:
        raise Malformed(f"control batch at offset {header.base_offset} has no readable record")
    kind = _KEY.unpack_from(record.key)[1]
    if kind not in (ABORT, COMMIT):
        return None
    if len(record.value) < _VALUE.size:
        raise Malformed(f"transaction marker at offset {header.base_offset} is cut off")
    return TransactionMarker(kind == COMMIT, _VALUE.unpack_from(record.value)[1])


def apply_producer(
    producers: ProducerStates, header: BatchHeader, data: Buffer, position: int, place: LogOffset
) -> EndedTransaction | None:
    """Apply a batch with a producer id; the transaction it ended, if any, still has to be completed.

    The batch lies at ``position`` of ``data``, which is read only if it is a control batch.
    """
    if not header.attributes & CONTROL_MASK:
        producers.apply(header, place)
        return None
    marker = transaction_marker(header, data, position)
    return None if marker is None else producers.apply_marker(header, marker, header.max_timestamp)


def note_ended(producers: ProducerStates, ended: EndedTransaction, index: TransactionIndex) -> None:
    """Note that a transaction has ended. An aborted one is added to the index. May raise OSError."""
    if not ended.committed:
        stable = producers.last_stable_offset_after(ended)
        index.append(TransactionIndexEntry(ended.producer_id, ended.first_offset, ended.last_offset, stable))
    producers.complete(ended)
