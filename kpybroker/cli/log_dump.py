"""The contents of a log's segment or snapshot: batches and records, as dictionaries and in the format of Kafka's tool.

It is pure apart from the file that it reads. Damage does not end it: readable parts are shown, and damage is a
`FileTrouble`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kpybroker.cli.record_decoders import Decoder, as_line, control
from kpystorage.scan import Readable, batches
from kpywire.batch import LOG_APPEND_TIME, BatchHeader, check_crc
from kpywire.compression import NAMES
from kpywire.errors import Malformed
from kpywire.record import Record, read_batch


class DumpedBatch(NamedTuple):
    """A batch at a position in its file."""

    position: int
    header: BatchHeader
    valid: bool


class DumpedRecord(NamedTuple):
    """A record of the last batch; ``decoder`` is None where only its outline is wanted."""

    header: BatchHeader
    record: Record
    decoder: Decoder | None


class FileTrouble(NamedTuple):
    """A fault in the file."""

    text: str


def dump(
    file: Readable, size: int, *, deep: bool, decoder: Decoder | None
) -> Iterator[DumpedBatch | DumpedRecord | FileTrouble]:
    """The contents of ``size`` bytes of a file, batch by batch, with ``deep`` also their records."""
    end = 0
    for position, header, data in batches(file, 0, size):
        valid = check_crc(data, header)
        yield DumpedBatch(position, header, valid)
        if not valid:
            yield FileTrouble(f"the batch at position {position} has a wrong CRC")
        if deep:
            try:
                for record in read_batch(data, header):
                    yield DumpedRecord(header, record, decoder)
            except Malformed as error:
                yield FileTrouble(f"the batch at position {position} cannot be read: {error}")
        end = position + header.size
    if end < size:
        yield FileTrouble(f"{size - end} invalid bytes at the end, from position {end} on")


def batch_line(found: DumpedBatch) -> str:
    """A batch in the format of DumpLogSegments."""
    header = found.header
    horizon = header.delete_horizon_ms
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} producerId: {header.producer_id} "
        f"producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.partition_leader_epoch} "
        f"isTransactional: {_word(header.is_transactional)} isControl: {_word(header.is_control)} "
        f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'} "
        f"position: {found.position} {_time_name(header)}: {header.max_timestamp} size: {header.size} "
        f"magic: {header.magic} compresscodec: {codec_name(header)} crc: {header.crc} isvalid: {_word(found.valid)}"
    )


def entry_line(found: DumpedRecord, *, metadata: bool = True) -> str:
    """A record in the format of DumpLogSegments; without ``metadata`` only its contents."""
    record, header = found.record, found.header
    parts = ["|"]
    if metadata:
        parts.append(
            f"offset: {record.offset} {_time_name(header)}: {record.timestamp} keySize: {_size(record.key)} "
            f"valueSize: {_size(record.value)} sequence: {record.sequence} "
            f"headerKeys: [{','.join(name for name, _ in record.headers)}]"
        )
    if header.is_control:
        parts.append(_control_text(record))
    elif found.decoder is not None:
        key, payload = found.decoder(record)
        if key is not None:
            parts.append(f"key: {as_line(key)}")
        if payload is not None:
            parts.append(f"payload: {as_line(payload)}")
    return " ".join(parts)


def _control_text(record: Record) -> str:
    kind, reported = control(record)
    if kind == "endTxnMarker":
        return f"{kind}: {reported['type']} coordinatorEpoch: {reported['coordinatorEpoch']}"
    return f"{kind}{':' if kind in ('LeaderChange', 'controlType') else ''} {as_line(reported)}"


def batch_dict(found: DumpedBatch) -> dict[str, Any]:
    """A batch for programs."""
    header = found.header
    return {
        "kind": "batch",
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "base_sequence": header.base_sequence,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "leader_epoch": header.partition_leader_epoch,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "position": found.position,
        "size": header.size,
        "timestamp_type": _time_name(header),
        "max_timestamp": header.max_timestamp,
        "codec": codec_name(header),
        "crc": header.crc,
        "valid": found.valid,
    }


def entry_dict(found: DumpedRecord) -> dict[str, Any]:
    """A record for programs."""
    record = found.record
    shown: dict[str, Any] = {
        "kind": "record",
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key_size": _size(record.key),
        "value_size": _size(record.value),
        "headers": [name for name, _ in record.headers],
    }
    if found.header.is_control:
        kind, reported = control(record)
        return {**shown, "control": {kind: reported}}
    if found.decoder is None:
        return shown
    key, payload = found.decoder(record)
    return {**shown, "key": key, "payload": payload}


def codec_name(header: BatchHeader) -> str:
    return NAMES[header.codec] if header.codec < len(NAMES) else f"unknown ({header.codec})"


def _time_name(header: BatchHeader) -> str:
    return "LogAppendTime" if header.timestamp_type == LOG_APPEND_TIME else "CreateTime"


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def _word(fact: bool) -> str:
    return "true" if fact else "false"
