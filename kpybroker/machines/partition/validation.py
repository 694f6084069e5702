"""The checks of a produced batch before a leader appends it, and the fields that are stamped into it.

The checks and their order are Kafka's. The order decides the error if a batch breaks several rules:
``ProduceRequest.validateRecords`` (:func:`sole_batch`), then ``UnifiedLog.analyzeAndValidateRecords`` and
``LogValidator`` (:func:`validate`). Sequences of idempotent producers are not checked here, but by the log.

Pure, and on the path of every produce: no object is made per record unless the batch must be refused or compressed
again.

In some cases it is stricter than Kafka. A compressed batch in which a record's length contradicts its fields is
refused; Kafka stores it, and no consumer can read it. A batch is refused as too large if it inflates beyond a cap,
since it is inflated as a whole; Kafka inflates piece by piece and has no cap. It is also refused as too large if too
many of its records would have to be checked one by one. Producers answer that by splitting the batch.

A caller that keeps others waiting asks for the check of batches that take little work (``at_once``), and has the others
checked elsewhere.

Invariant: a batch comes out with its base offset, leader epoch and largest timestamp set, a valid CRC, and records that
:func:`kpywire.record.read_batch` can read; or :class:`BatchRefused` is raised. A view is stamped in place; of bytes,
which cannot be, a stamped copy comes out.
"""

from collections.abc import Sequence
from typing import Any, Final, NoReturn

from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.batch import (
    ATTRIBUTES,
    ATTRIBUTES_POSITION,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    BATCH_LENGTH,
    CODEC_MASK,
    CONTROL_MASK,
    CRC,
    CREATE_TIME,
    EPOCH_END,
    HEADER,
    HEADER_BYTES,
    LAST_OFFSET_DELTA,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_NUMBER,
    MAGIC_POSITION,
    MAX_TIMESTAMP,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    OFFSET_LENGTH_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    Fields,
    parse_header,
    stamp_max_timestamp,
)
from kpywire.compression import ANY_PARTS, GZIP, LZ4, NAMES, NONE, SNAPPY, ZSTD, InflatesTooLarge, compress, decompress
from kpywire.crc import crc32c
from kpywire.errors import Malformed
from kpywire.record import assemble, encode_record, read_batch
from kpywire.skim import skim_section
from kpywire.varint import Buffer, as_int64
from kpywire.walk import (
    MOST_AT_ONCE,
    MOST_STEPS,
    Frame,
    InvalidRecord,
    OversizedRecord,
    TooLaborious,
    first_oversized,
    frames,
    walk,
)

_SMALLEST_BATCH_LENGTH: Final = 14
"""The smallest length that Kafka's log input stream accepts for a batch: the overhead of a message of format v0."""
_MAX_RECORD_ERRORS: Final = 10_000
"""The most refused records that are named for one batch. Kafka names all of them."""
_INFLATED_BYTES: Final = 64 << 20
_LONGEST_VARINT: Final = 5
_LONGEST_SURE_AGE_MS: Final = 1 << 61
"""The largest age that compiled code compares without an object; older records are checked one by one."""
_LOOKED_AT_AGAIN: Final = 1 << 14
"""How many records of a refused batch are read again to find its error."""
LATEST_PRODUCE: Final = 13
BYTES_AT_ONCE: Final = 9 << 17
"""The inflated size of a batch that is checked at once: that of the largest batch that clients write by default, and a
bit more. It takes 3 ms."""
PARTS_AT_ONCE: Final = 1024
"""Members and blocks of a compressed batch that is checked at once."""
RECORDS_AT_ONCE: Final = 1024
"""Records that are read at once as objects, if that has to be done for each."""
_QUICK: Final = ((SNAPPY, 1 << 62), (LZ4, 9), (ZSTD, 3))
_MODERATE: Final = ((GZIP, 6), (ZSTD, 9))
"""The codecs that compress about a megabyte, or 64 KiB, in 2 ms, up to which level."""


class BatchRefused(KafkaError):
    """A batch that is not appended. ``reason`` is for the log; ``message`` for the client, where Kafka sends one."""

    def __init__(
        self, code: int, reason: str, message: str | None = None, record_errors: Sequence[tuple[int, str]] = ()
    ) -> None:
        super().__init__(code, message, record_errors)
        self.args = (reason,)


class LaboriousBatch(Exception):
    """A batch whose check takes more work than can be done at once."""


class NotOneBatch(BatchRefused):
    """A batch that is refused before it reaches a log, so the log is not named (``ProduceRequest.validateRecords``)."""


class ValidationConfig:
    """The topic configs that matter here, with Kafka's defaults. ``codec`` None keeps the producer's compression."""

    __slots__ = (
        "after_max_ms",
        "before_max_ms",
        "codec",
        "compacted",
        "compressed_at_once_bytes",
        "level",
        "log_append_time",
        "max_decompressed_message_bytes",
        "max_inflated_bytes",
        "max_message_bytes",
        "rules",
        "segment_bytes",
        "surely_after_max_ms",
        "surely_before_max_ms",
    )

    def __init__(  # noqa: PLR0913
        self,
        *,
        max_message_bytes: int = 1_048_588,
        compacted: bool = False,
        log_append_time: bool = False,
        before_max_ms: int = (1 << 63) - 1,
        after_max_ms: int = 3_600_000,
        compression_type: str = "producer",
        compression_level: int | None = None,
        segment_bytes: int = 1 << 30,
        max_inflated_bytes: int | None = None,
        max_decompressed_message_bytes: int = (1 << 31) - 9,
    ) -> None:
        """``compression_type`` is ``producer``, ``uncompressed`` or a codec; ``compression_level`` is that codec's.

        ``max_inflated_bytes`` caps the inflated size of a compressed batch. The default is the larger of 64 MiB and
        eight times ``max_message_bytes``.
        """
        self.rules: dict[str, Any] = {
            "max_message_bytes": max_message_bytes,
            "compacted": compacted,
            "log_append_time": log_append_time,
            "before_max_ms": before_max_ms,
            "after_max_ms": after_max_ms,
            "compression_type": compression_type,
            "compression_level": compression_level,
            "segment_bytes": segment_bytes,
            "max_inflated_bytes": max_inflated_bytes,
            "max_decompressed_message_bytes": max_decompressed_message_bytes,
        }
        """The arguments, from which another process makes the same config."""
        self.max_message_bytes = max_message_bytes
        self.compacted = compacted
        self.log_append_time = log_append_time
        self.before_max_ms = before_max_ms
        self.after_max_ms = after_max_ms
        self.surely_before_max_ms = min(before_max_ms, _LONGEST_SURE_AGE_MS)
        self.surely_after_max_ms = min(after_max_ms, _LONGEST_SURE_AGE_MS)
        """The age, or the time ahead, up to which no record has to be checked by itself."""
        self.codec: int | None = None
        if compression_type != "producer":
            self.codec = NONE if compression_type == "uncompressed" else NAMES.index(compression_type)
        self.level = compression_level
        self.segment_bytes = segment_bytes
        self.max_inflated_bytes = max_inflated_bytes or max(_INFLATED_BYTES, 8 * max_message_bytes)
        self.max_decompressed_message_bytes = max_decompressed_message_bytes
        self.compressed_at_once_bytes = _compressed_at_once_bytes(self.codec, compression_level)
        """The largest section that is compressed again at once."""


def _compressed_at_once_bytes(codec: int | None, level: int | None) -> int:
    if codec == NONE or any(codec == quick and (level is None or level <= most) for quick, most in _QUICK):
        return BYTES_AT_ONCE
    return 1 << 16 if any(codec == each and (level is None or level <= most) for each, most in _MODERATE) else 1 << 13


Accepted = tuple[Fields, Buffer, int]
"""A batch to append: its final header, but for its place in the log; its bytes, which are others if it was compressed
again; the time of every record on a LogAppendTime topic, else -1."""

_fields_from: Final = HEADER.unpack_from
_stamp: Final = OFFSET_LENGTH_EPOCH.pack_into
_stamped_start: Final = OFFSET_LENGTH_EPOCH.pack
_crc32c: Final = crc32c
_NO_FIELDS: Final = (0,) * len(BatchHeader._fields)


def sole_batch(records: Buffer, api_version: int = LATEST_PRODUCE) -> BatchHeader:
    """The header of the one batch that a Produce request may hold for a partition. A cut-off batch after it is ignored.

    Raises:
        NotOneBatch: INVALID_RECORD for none, several or an old format; CORRUPT_MESSAGE for bytes that are no batch;
            UNSUPPORTED_COMPRESSION_TYPE for zstd before version 7.
    """
    if len(records) >= HEADER_BYTES:
        header = parse_header(records)
        if header.batch_length + LENGTH_END == len(records) and header.magic == MAGIC and api_version >= 7:
            return header
    end = _end_of_batch(records, 0)
    if end is None:
        raise NotOneBatch(error_codes.INVALID_RECORD, "no whole batch in a produce request")
    if records[MAGIC_POSITION] != MAGIC:
        raise NotOneBatch(error_codes.INVALID_RECORD, f"a batch of format {records[MAGIC_POSITION]} is produced")
    codec = records[ATTRIBUTES_POSITION + 1] & CODEC_MASK
    if api_version < 7 and codec >= ZSTD:
        if codec > ZSTD:
            raise NotOneBatch(error_codes.UNKNOWN_SERVER_ERROR, f"unknown compression codec {codec}")
        raise NotOneBatch(error_codes.UNSUPPORTED_COMPRESSION_TYPE, "zstd in a produce request below version 7")
    if _end_of_batch(records, end) is not None:
        raise NotOneBatch(error_codes.INVALID_RECORD, "more than one batch in a produce request")
    if end < HEADER_BYTES:
        code = error_codes.INVALID_RECORD if any(records[:8]) else error_codes.CORRUPT_MESSAGE
        raise NotOneBatch(code, f"a batch of {end} bytes is smaller than its header")
    return parse_header(records)


def _end_of_batch(records: Buffer, position: int) -> int | None:
    """The end of the batch at ``position``; None if the batch is incomplete."""
    left = len(records) - position
    if left < LENGTH_END:
        return None
    length = int.from_bytes(records[position + 8 : position + LENGTH_END], "big", signed=True)
    if length < _SMALLEST_BATCH_LENGTH:
        raise NotOneBatch(error_codes.CORRUPT_MESSAGE, f"a batch of length {length} is smaller than any")
    if left <= MAGIC_POSITION:
        return None
    magic = records[position + MAGIC_POSITION]
    if magic > MAGIC:
        raise NotOneBatch(error_codes.CORRUPT_MESSAGE, f"a batch of unknown format {magic}")
    return position + LENGTH_END + length if left >= LENGTH_END + length else None


def validate(
    records: bytes | memoryview,
    config: ValidationConfig,
    now_ms: int,
    partition_leader_epoch: int,
    base_offset: int,
    topic_partition: str = "",
    *,
    at_once: bool = False,
) -> Accepted:
    """Check the one batch in ``records``, and stamp it for ``base_offset`` in this leader epoch; a view (which must be
    writable) in place. ``topic_partition``, such as ``flights-0``, appears in messages to the client.

    Raises:
        Refused: with Kafka's error code, and Kafka's record errors where records break the topic's rules.
        Laborious: ``at_once``, and it takes more work. The batch is as it was.
    """
    size = len(records)
    fields: Fields = _fields_from(records) if size >= HEADER_BYTES else _NO_FIELDS
    if fields[BATCH_LENGTH] + LENGTH_END != size or fields[MAGIC_NUMBER] != MAGIC:
        fields = sole_batch(records)
        size = fields[BATCH_LENGTH] + LENGTH_END
        records = records[:size]
    attributes, count, codec = fields[ATTRIBUTES], fields[RECORD_COUNT], fields[ATTRIBUTES] & CODEC_MASK
    # Where the type is known, compiled code makes no object for the bounds of a slice.
    checked = records[ATTRIBUTES_POSITION:] if type(records) is bytes else records[ATTRIBUTES_POSITION:]  # noqa: RUF034
    if (
        fields[BASE_OFFSET]
        or size > config.max_message_bytes
        or _crc32c(checked) != fields[CRC]
        or codec > ZSTD
        or count <= 0
        or count != fields[LAST_OFFSET_DELTA] + 1
        or attributes & CONTROL_MASK
        or (fields[PRODUCER_ID] >= 0 and fields[BASE_SEQUENCE] < 0)
    ):
        _refuse_header(records, BatchHeader._make(fields), config)
    target = codec if config.codec is None else config.codec
    section: Buffer = _inflate(codec, records, config, at_once=at_once) if codec else records
    start, steps = 0 if codec else HEADER_BYTES, MOST_AT_ONCE if at_once else MOST_STEPS
    try:
        lowest, highest, in_order, keyed = skim_section(section, count, fields[BASE_TIMESTAMP], start, steps)
    except (InvalidRecord, TooLaborious) as error:
        raise _bad_record(error, section[start:], count, at_once=at_once) from None
    claims_append_time, claimed_timestamp = attributes & TIMESTAMP_TYPE_MASK, fields[MAX_TIMESTAMP]
    lowest, highest = (claimed_timestamp, claimed_timestamp) if claims_append_time else (lowest, highest)
    if config.log_append_time:
        timestamp_type, max_timestamp, log_append_time_ms = LOG_APPEND_TIME, now_ms, now_ms
        suspicious = claims_append_time != 0
    else:
        max_timestamp = highest if highest > NO_TIMESTAMP else NO_TIMESTAMP
        timestamp_type, log_append_time_ms = CREATE_TIME, NO_TIMESTAMP
        is_far = now_ms - lowest > config.surely_before_max_ms or highest - now_ms > config.surely_after_max_ms
        suspicious = is_far or (claims_append_time != 0 and highest == NO_TIMESTAMP)
    if suspicious or (config.compacted and not keyed):
        _check_labour(count, at_once=at_once)
        kind = "PartialDefaultRecord" if codec and codec == target else "DefaultRecord"
        _check_records(BatchHeader._make(fields), section[start:], config, now_ms, topic_partition, kind)
    stamped: Buffer = records
    if codec != target:
        header = BatchHeader._make(fields)
        _check_rebuildable(header, lowest, len(section) - start - config.compressed_at_once_bytes, at_once=at_once)
        attributes = target | timestamp_type << 3 | attributes & TRANSACTIONAL_MASK
        stamped = _compressed_anew(header, section[start:], attributes, max_timestamp, config, in_order=in_order)
        fields, claimed_timestamp, size = parse_header(stamped), max_timestamp, len(stamped)
    elif codec and not in_order:
        raise BatchRefused(error_codes.UNKNOWN_SERVER_ERROR, "a compressed batch whose offsets do not count up from 0")
    if size > config.segment_bytes:
        raise BatchRefused(error_codes.RECORD_LIST_TOO_LARGE, f"a batch of {size} bytes is larger than a segment")
    if max_timestamp != claimed_timestamp or timestamp_type << 3 != attributes & TIMESTAMP_TYPE_MASK:
        stamped = bytearray(stamped) if isinstance(stamped, bytes) else stamped
        fields = stamp_max_timestamp(stamped, BatchHeader._make(fields), max_timestamp, timestamp_type)
    if type(stamped) is bytes:
        stamped = _stamped_start(base_offset, size - LENGTH_END, partition_leader_epoch) + stamped[EPOCH_END:]
    else:
        _stamp(stamped, 0, base_offset, size - LENGTH_END, partition_leader_epoch)
    return fields, stamped, log_append_time_ms


def _refuse_header(records: Buffer, header: BatchHeader, config: ValidationConfig) -> NoReturn:
    """Refuse the batch by the broken rule that needs no record: base offset, size, CRC, codec, counts, control bit or
    sequence."""
    if header.base_offset:
        raise BatchRefused(error_codes.INVALID_RECORD, f"a produced batch starts at offset {header.base_offset}, not 0")
    if len(records) > config.max_message_bytes:
        raise BatchRefused(
            error_codes.MESSAGE_TOO_LARGE, f"a batch of {len(records)} bytes, {config.max_message_bytes} are allowed"
        )
    if crc32c(records[ATTRIBUTES_POSITION:]) != header.crc:
        raise BatchRefused(error_codes.CORRUPT_MESSAGE, "a batch does not have the CRC its header declares")
    attributes = header.attributes
    if attributes & CODEC_MASK > ZSTD:
        raise BatchRefused(error_codes.UNKNOWN_SERVER_ERROR, f"unknown compression codec {attributes & CODEC_MASK}")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise BatchRefused(
            error_codes.INVALID_RECORD,
            f"a batch of {header.record_count} records with offsets 0 to {header.last_offset_delta}",
        )
    if attributes & CONTROL_MASK:
        raise BatchRefused(error_codes.INVALID_RECORD, "a client may not write control records")
    raise BatchRefused(
        error_codes.INVALID_RECORD, f"a batch of an idempotent producer, sequence {header.base_sequence}"
    )


def restamp(batch: bytearray | memoryview, partition_leader_epoch: int, base_offset: int) -> None:
    """Set the place in the log of a batch that was checked for another."""
    _stamp(batch, 0, base_offset, len(batch) - LENGTH_END, partition_leader_epoch)


def _inflate(codec: int, records: bytes | memoryview, config: ValidationConfig, *, at_once: bool) -> bytes:
    section = records[HEADER_BYTES:]
    max_bytes, most_parts = config.max_inflated_bytes, ANY_PARTS
    if at_once:
        if len(section) > BYTES_AT_ONCE:
            raise LaboriousBatch
        max_bytes, most_parts = min(max_bytes, BYTES_AT_ONCE), PARTS_AT_ONCE
    try:
        inflated = decompress(codec, section, max_bytes, most_parts)
        if len(inflated) > config.max_decompressed_message_bytes:
            _check_sizes(inflated, config.max_decompressed_message_bytes, at_once=at_once)
        return inflated
    except InflatesTooLarge as error:
        if at_once:
            raise LaboriousBatch from None
        raise BatchRefused(error_codes.MESSAGE_TOO_LARGE, str(error)) from None
    except Malformed as error:
        raise BatchRefused(error_codes.UNKNOWN_SERVER_ERROR, str(error)) from None


def _check_sizes(section: bytes, most_bytes: int, *, at_once: bool) -> None:
    """Refuse a batch with a record of more bytes than may be (``max.decompressed.message.bytes``). What is wrong
    with its records otherwise is found later."""
    number, size = first_oversized(section, most_bytes, RECORDS_AT_ONCE + 1 if at_once else MOST_STEPS)
    _check_labour(number + bool(size), at_once=at_once)
    if size:
        raise BatchRefused(error_codes.INVALID_RECORD, str(OversizedRecord(size, most_bytes)))


def _bad_record(error: InvalidRecord | TooLaborious, section: Buffer, count: int, *, at_once: bool) -> Exception:
    """The exception for a batch with a bad record, or one that takes more work than can be done at once."""
    if at_once and (isinstance(error, TooLaborious) or count > RECORDS_AT_ONCE):
        return LaboriousBatch()
    return BatchRefused(_code_of(error, section, count), str(error))


def _code_of(error: InvalidRecord | TooLaborious, section: Buffer, count: int) -> int:
    """The error code of a batch with a bad record. Kafka reads a record's length outside of the code that turns an
    overlong number into INVALID_RECORD, so an overlong length is UNKNOWN_SERVER_ERROR."""
    if isinstance(error, TooLaborious):
        return error_codes.MESSAGE_TOO_LARGE
    section = bytes(section)
    position = 0
    for index in range(min(count, _LOOKED_AT_AGAIN)):
        length = section[position : position + _LONGEST_VARINT]
        if len(length) == _LONGEST_VARINT and min(length) > 127:
            return error_codes.UNKNOWN_SERVER_ERROR
        try:
            position = walk(section, position, index, index + 1)[4]
        except (InvalidRecord, TooLaborious):
            break
    return error_codes.INVALID_RECORD


def _check_labour(count: int, excess_bytes: int = 0, *, at_once: bool) -> None:
    """Raise Laborious if that many records, or bytes above a limit, take more work than can be done at once."""
    if at_once and (count > RECORDS_AT_ONCE or excess_bytes > 0):
        raise LaboriousBatch


def _check_count(header: BatchHeader) -> None:
    """Refuse a batch with more records than are checked one by one."""
    if header.record_count > MOST_STEPS:
        raise BatchRefused(
            error_codes.MESSAGE_TOO_LARGE, f"a batch of {header.record_count} records, each to be checked by itself"
        )


def _check_records(
    header: BatchHeader, section: Buffer, config: ValidationConfig, now_ms: int, topic_partition: str, kind: str
) -> None:
    """Refuse the batch if a record lacks a key it must have or has a bad timestamp. ``kind`` is Kafka's name for it."""
    _check_count(header)
    keyless = f"Compacted topic cannot accept message without key in topic partition {topic_partition}"
    errors: list[tuple[int, str]] = []
    code = error_codes.INVALID_RECORD
    for index, frame in enumerate(frames(bytes(section), header.record_count)):
        text = None
        if config.compacted and frame.key_bytes < 0:
            text = keyless
        elif (text := _timestamp_error(header, frame, config, now_ms, kind)) is not None:
            code = error_codes.INVALID_TIMESTAMP
        if text is not None:
            errors.append((index, text))
            if len(errors) == _MAX_RECORD_ERRORS:
                break
    if not errors:
        return
    if code == error_codes.INVALID_TIMESTAMP:
        message = "One or more records have been rejected due to invalid timestamp"
    else:
        shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors[:3])
        message = (
            f"One or more records have been rejected due to {len(errors)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
    raise BatchRefused(code, message, message, errors)


def _timestamp_error(header: BatchHeader, frame: Frame, config: ValidationConfig, now_ms: int, kind: str) -> str | None:
    """Kafka's message about the timestamp of a record; None if it is good."""
    claims_append_time = header.timestamp_type == LOG_APPEND_TIME
    timestamp = as_int64(header.base_timestamp + frame.timestamp_delta)
    if claims_append_time:
        timestamp = header.max_timestamp
    if not config.log_append_time and timestamp != NO_TIMESTAMP:
        age_ms = as_int64(now_ms - timestamp)
        if age_ms <= config.before_max_ms and as_int64(-age_ms) <= config.after_max_ms:
            return None
        earliest, latest = as_int64(now_ms - config.before_max_ms), as_int64(now_ms + config.after_max_ms)
        return (
            f"Timestamp {timestamp} of message with offset {frame.offset_delta} is out of range. "
            f"The timestamp should be within [{earliest}, {latest}]"
        )
    if not claims_append_time:
        return None
    key_bytes, value_bytes = frame.key_bytes, frame.value_bytes
    if kind == "DefaultRecord":
        key_bytes, value_bytes = max(key_bytes, 0), max(value_bytes, 0)
    return (
        f"Invalid timestamp type in message {kind}(offset={frame.offset_delta}, timestamp={timestamp}, "
        f"key={key_bytes} bytes, value={value_bytes} bytes). Producer should not set timestamp type to LogAppendTime."
    )


def _check_rebuildable(header: BatchHeader, lowest: int, excess_bytes: int, *, at_once: bool) -> None:
    """Refuse a batch that ``MemoryRecordsBuilder`` refuses to write, where Kafka builds the batch again."""
    _check_labour(header.record_count, excess_bytes, at_once=at_once)
    reason = None
    if lowest < NO_TIMESTAMP:
        reason = f"a record with the timestamp {lowest}"
    elif header.is_transactional and header.producer_id == NO_PRODUCER_ID:
        reason = "a transactional batch without a producer id"
    elif header.producer_id != NO_PRODUCER_ID and header.producer_epoch == NO_PRODUCER_EPOCH:
        reason = "a producer id without an epoch"
    elif header.producer_id != NO_PRODUCER_ID and header.base_sequence < 0:
        reason = f"a producer id with the sequence {header.base_sequence}"
    if reason is not None:
        raise BatchRefused(error_codes.UNKNOWN_SERVER_ERROR, f"{reason} cannot be compressed again")


def _compressed_anew(
    header: BatchHeader,
    section: Buffer,
    attributes: int,
    max_timestamp: int,
    config: ValidationConfig,
    *,
    in_order: bool,
) -> bytearray:
    """The batch compressed again, with these attributes (codec, timestamp type) and this largest timestamp."""
    section = bytes(section)
    base_timestamp = header.base_timestamp
    first = next(frames(section, 1))
    if not in_order or first.timestamp_delta or header.timestamp_type == LOG_APPEND_TIME:
        _check_count(header)
        plain = header._replace(attributes=header.attributes & ~CODEC_MASK)
        batch = assemble(plain, section)
        plain = parse_header(batch)
        base_timestamp = next(read_batch(batch, plain)).timestamp
        section = b"".join(
            encode_record(index, record.timestamp - base_timestamp, record.key, record.value, record.headers)
            for index, record in enumerate(read_batch(batch, plain))
        )
    header = header._replace(attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp)
    stamped = bytearray(assemble(header, compress(attributes & CODEC_MASK, section, config.level)))
    if len(stamped) > config.max_message_bytes:
        raise BatchRefused(
            error_codes.MESSAGE_TOO_LARGE, f"a batch of {len(stamped)} bytes after it was compressed again"
        )
    return stamped
