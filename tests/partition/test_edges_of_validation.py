"""The edges of the rules for produced batches: each rule at the largest size, and the work that is done at once."""

import pytest
from test_validation import NOW, accept, batch_of, changed, refusal

from kpybroker.machines.partition.validation import (
    BYTES_AT_ONCE,
    RECORDS_AT_ONCE,
    BatchRefused,
    LaboriousBatch,
    NotOneBatch,
    ValidationConfig,
    sole_batch,
    validate,
)
from kpywire import error_codes
from kpywire.batch import BATCH_LENGTH, BatchHeader, parse_header, placed
from kpywire.compression import GZIP, LZ4, SNAPPY, ZSTD
from kpywire.record import Record, build_batch, read_records

APPEND_TIME = 0x08
"""The bit by which a batch says that its records have the time of the append."""
COMPACTED = ValidationConfig(compacted=True)


def at_once(batch: bytes, config: ValidationConfig) -> BatchHeader:
    """Check a batch while others wait."""
    return placed(validate(memoryview(bytearray(batch)), config, NOW, 7, 1000, "t-0", at_once=True)[0], 1000, 7)


@pytest.mark.parametrize(
    ("batch", "code", "words"),
    [
        (changed(batch_of(b"a"), base_offset=1), error_codes.INVALID_RECORD, "starts at offset 1"),
        (changed(batch_of(b"a"), base_offset=-1), error_codes.INVALID_RECORD, "starts at offset -1"),
        (changed(batch_of(b"a"), attributes=5), error_codes.UNKNOWN_SERVER_ERROR, "codec 5"),
        (changed(batch_of(b"a"), record_count=0, last_offset_delta=-1), error_codes.INVALID_RECORD, "0 to -1"),
        (changed(batch_of(b"a"), record_count=-1, last_offset_delta=-2), error_codes.INVALID_RECORD, "0 to -2"),
        (changed(batch_of(b"a"), record_count=1, last_offset_delta=0x20), error_codes.INVALID_RECORD, "0 to 32"),
        (changed(batch_of(b"a"), record_count=2), error_codes.INVALID_RECORD, "of 2 records"),
        (changed(batch_of(b"a"), attributes=0x20), error_codes.INVALID_RECORD, "control"),
        (changed(batch_of(b"a"), producer_id=0), error_codes.INVALID_RECORD, "sequence -1"),
        (changed(batch_of(b"a"), producer_id=5, base_sequence=-2), error_codes.INVALID_RECORD, "sequence -2"),
        (batch_of(b"a")[:-1] + b"!", error_codes.CORRUPT_MESSAGE, "CRC"),
    ],
)
def test_a_batch_of_the_largest_size_is_refused_by_the_rule_that_it_breaks(batch: bytes, code: int, words: str) -> None:
    refused = refusal(batch, ValidationConfig(max_message_bytes=len(batch)))
    assert refused.code == code
    assert words in str(refused.args[0])
    too_large = refusal(batch, ValidationConfig(max_message_bytes=len(batch) - 1))
    if parse_header(batch).base_offset == 0:
        assert too_large.code == error_codes.MESSAGE_TOO_LARGE, "the size comes before every other rule but the offset"


@pytest.mark.parametrize("fields", [{}, {"base_sequence": 3}, {"producer_id": 0, "base_sequence": 0}])
def test_a_sequence_is_asked_of_idempotent_producers_alone(fields: dict[str, int]) -> None:
    assert accept(changed(batch_of(b"a"), **fields)).header.record_count == 1


@pytest.mark.parametrize(
    ("codec", "compression_type", "kind", "absent"),
    [
        (0, "producer", "DefaultRecord", 0),
        (GZIP, "producer", "PartialDefaultRecord", -1),
        (GZIP, "gzip", "PartialDefaultRecord", -1),
        (GZIP, "uncompressed", "DefaultRecord", 0),
        (0, "gzip", "DefaultRecord", 0),
    ],
)
def test_the_time_of_the_append_is_not_the_producers_to_set(
    codec: int, compression_type: str, kind: str, absent: int
) -> None:
    """Kafka's message names the record by its class, and an absent value by the length that this class gives it."""
    batch = changed(batch_of(None, b"abc", keys=[None, b"k"], codec=codec), attributes=codec | APPEND_TIME)
    refused = refusal(batch, ValidationConfig(log_append_time=True, compression_type=compression_type))
    assert refused.code == error_codes.INVALID_TIMESTAMP
    assert [text for _, text in refused.record_errors] == [
        f"Invalid timestamp type in message {kind}(offset={index}, timestamp={NOW + 1}, key={key} bytes, "
        f"value={value} bytes). Producer should not set timestamp type to LogAppendTime."
        for index, key, value in ((0, absent, absent), (1, 1, 3))
    ]


def test_records_without_a_time_are_never_too_old_or_too_new() -> None:
    config = ValidationConfig(before_max_ms=10, after_max_ms=10)
    batch = changed(build_batch([Record(timestamp=-1, key=b"k", value=b"v")]), max_timestamp=NOW)
    assert accept(batch, config).header.max_timestamp == -1


def test_three_of_many_errors_are_in_the_message() -> None:
    refused = refusal(batch_of(*[b"v"] * 5, keys=[None] * 5), COMPACTED)
    assert [index for index, _ in refused.record_errors] == [0, 1, 2, 3, 4]
    assert str(refused.message).count("RecordError(") == 3
    assert "batchIndex=2" in str(refused.message)


# A request holds one batch


@pytest.mark.parametrize("size", range(1, 61))
def test_a_part_of_a_header_is_no_batch(size: int) -> None:
    with pytest.raises(NotOneBatch) as refused:
        sole_batch(batch_of(b"a")[:size])
    assert refused.value.code == error_codes.INVALID_RECORD


@pytest.mark.parametrize(
    ("length", "code"),
    [(-1, error_codes.CORRUPT_MESSAGE), (13, error_codes.CORRUPT_MESSAGE), (14, error_codes.INVALID_RECORD)],
)
def test_the_smallest_length_is_that_of_the_oldest_format(length: int, code: int) -> None:
    batch = bytearray(batch_of(b"a"))
    batch[8:12] = length.to_bytes(4, "big", signed=True)
    batch[0:8] = (1).to_bytes(8, "big")
    with pytest.raises(NotOneBatch) as refused:
        sole_batch(bytes(batch[: 12 + max(length, 13)]))
    assert refused.value.code == code


def test_behind_a_batch_lies_none_that_is_whole() -> None:
    batch = batch_of(b"a")
    for rest in (b"", b"\0", batch[:12], batch[:-1]):
        assert sole_batch(batch + rest) == parse_header(batch)
    with pytest.raises(NotOneBatch) as refused:
        sole_batch(batch + batch)
    assert refused.value.code == error_codes.INVALID_RECORD
    assert accept(batch + batch[:-1]).header[BATCH_LENGTH] == len(batch) - 12


@pytest.mark.parametrize(
    ("attributes", "api_version", "code"),
    [
        (ZSTD, 6, error_codes.UNSUPPORTED_COMPRESSION_TYPE),
        (ZSTD + 1, 6, error_codes.UNKNOWN_SERVER_ERROR),
        (ZSTD - 1, 6, None),
        (ZSTD, 7, None),
        (ZSTD + 1, 7, None),
    ],
)
def test_codecs_are_those_of_the_version_of_the_request(attributes: int, api_version: int, code: int | None) -> None:
    batch = changed(batch_of(b"a"), attributes=attributes)
    if code is None:
        assert sole_batch(batch, api_version) == parse_header(batch)
        return
    with pytest.raises(NotOneBatch) as refused:
        sole_batch(batch, api_version)
    assert refused.value.code == code


# Compressed again


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"attributes": 0x10}, "transactional"),
        ({"producer_id": 0, "producer_epoch": -1, "base_sequence": 0}, "without an epoch"),
        ({"base_timestamp": -2}, "timestamp -2"),
    ],
)
def test_records_that_kafka_cannot_recompress_are_refused(fields: dict[str, int], words: str) -> None:
    batch = changed(batch_of(b"a"), **fields)
    refused = refusal(batch, ValidationConfig(compression_type="gzip"))
    assert refused.code == error_codes.UNKNOWN_SERVER_ERROR
    assert words in str(refused.args[0])
    assert accept(batch).header.record_count == 1


@pytest.mark.parametrize("first_timestamp", [-1, 0, NOW])
def test_recompressed_batches_keep_records_timestamps_and_producer(first_timestamp: int) -> None:
    records = [Record(timestamp=first_timestamp, key=b"k", value=b"v"), Record(timestamp=NOW, value=b"w")]
    batch = build_batch(records, producer_id=0, producer_epoch=0, base_sequence=0, transactional=True)
    found = accept(batch, ValidationConfig(compression_type="gzip"))
    assert [(each.timestamp, each.value) for each in read_records(found.buffer)] == [
        (first_timestamp, b"v"),
        (NOW, b"w"),
    ]
    assert (found.header.producer_id, found.header.base_sequence, found.header.is_transactional) == (0, 0, True)
    assert (found.header.max_timestamp, found.header.codec) == (NOW, GZIP)


def test_a_recompressed_batch_may_have_the_maximum_size() -> None:
    config = {"compression_type": "gzip"}
    size = len(accept(batch_of(bytes(3_000)), ValidationConfig(**config)).buffer)  # type: ignore[arg-type]
    batch = batch_of(bytes(3_000), codec=ZSTD)
    assert len(batch) < size
    assert accept(batch, ValidationConfig(max_message_bytes=size, compression_type="gzip")).header.codec == GZIP
    refused = refusal(batch, ValidationConfig(max_message_bytes=size - 1, compression_type="gzip"))
    assert refused.code == error_codes.MESSAGE_TOO_LARGE


# Work that is done at once, while others wait


def section_bytes(batch: bytes) -> int:
    return len(batch) - 61


def batch_that_inflates_to(size: int) -> bytes:
    """A batch of one record whose section has this size before it is compressed."""
    extra = section_bytes(batch_of(bytes(size - 100))) - (size - 100)
    assert section_bytes(batch_of(bytes(size - extra))) == size
    return batch_of(bytes(size - extra), codec=ZSTD)


def test_batches_that_inflate_too_much_are_checked_by_the_worker() -> None:
    config = ValidationConfig(max_message_bytes=4 * BYTES_AT_ONCE)
    assert at_once(batch_that_inflates_to(BYTES_AT_ONCE), config).record_count == 1
    large = batch_that_inflates_to(BYTES_AT_ONCE + 1)
    with pytest.raises(LaboriousBatch):
        at_once(large, config)
    assert accept(large, config).header.record_count == 1


def test_the_cap_of_a_topic_counts_for_what_is_checked_at_once_too() -> None:
    with pytest.raises(LaboriousBatch):
        at_once(batch_that_inflates_to(5_001), ValidationConfig(max_inflated_bytes=5_000))
    assert at_once(batch_that_inflates_to(5_000), ValidationConfig(max_inflated_bytes=5_000)).record_count == 1


@pytest.mark.parametrize(("count", "is_laborious"), [(RECORDS_AT_ONCE, False), (RECORDS_AT_ONCE + 1, True)])
def test_as_many_records_are_read_one_by_one_as_at_once_is_little_work(count: int, *, is_laborious: bool) -> None:
    keyless = build_batch([Record(timestamp=NOW, value=b"v")] * count)
    if is_laborious:
        with pytest.raises(LaboriousBatch):
            at_once(keyless, COMPACTED)
    else:
        with pytest.raises(BatchRefused) as refused:
            at_once(keyless, COMPACTED)
        assert refused.value.code == error_codes.INVALID_RECORD
    assert at_once(keyless, ValidationConfig()).record_count == count, "nothing has to be read one by one"


@pytest.mark.parametrize(("count", "is_laborious"), [(RECORDS_AT_ONCE, False), (RECORDS_AT_ONCE + 1, True)])
def test_the_error_of_a_bad_record_is_found_at_once_in_a_small_batch(count: int, *, is_laborious: bool) -> None:
    whole = build_batch([Record(timestamp=NOW, value=b"v")] * count)
    broken = changed(whole[:-3] + b"\x7f\x7f\x7f")
    if is_laborious:
        with pytest.raises(LaboriousBatch):
            at_once(broken, ValidationConfig())
    else:
        with pytest.raises(BatchRefused) as refused:
            at_once(broken, ValidationConfig())
        assert refused.value.code == error_codes.INVALID_RECORD
    assert refusal(broken).code == error_codes.INVALID_RECORD


@pytest.mark.parametrize(
    ("compression_type", "level", "most"),
    [
        ("gzip", 6, 1 << 16),
        ("gzip", 7, 1 << 13),
        ("gzip", None, 1 << 16),
        ("lz4", 9, BYTES_AT_ONCE),
        ("lz4", 10, 1 << 13),
        ("zstd", 3, BYTES_AT_ONCE),
        ("zstd", 4, 1 << 16),
        ("zstd", 9, 1 << 16),
        ("zstd", 10, 1 << 13),
        ("snappy", None, BYTES_AT_ONCE),
        ("uncompressed", None, BYTES_AT_ONCE),
    ],
)
def test_as_many_bytes_are_compressed_at_once_as_their_codec_takes_little_time_for(
    compression_type: str, level: int | None, most: int
) -> None:
    config = ValidationConfig(
        max_message_bytes=2 * BYTES_AT_ONCE, compression_type=compression_type, compression_level=level
    )
    assert config.compressed_at_once_bytes == most


def test_batches_too_large_to_compress_at_once_go_to_the_worker() -> None:
    config = ValidationConfig(compression_type="gzip")
    most = config.compressed_at_once_bytes
    extra = section_bytes(batch_of(bytes(most - 100))) - (most - 100)
    assert at_once(batch_of(bytes(most - extra)), config).codec == GZIP
    with pytest.raises(LaboriousBatch):
        at_once(batch_of(bytes(most - extra + 1)), config)
    assert at_once(batch_of(bytes(most)), ValidationConfig()).codec == 0


@pytest.mark.parametrize("codec", [SNAPPY, LZ4])
def test_a_small_batch_of_any_codec_is_checked_at_once(codec: int) -> None:
    assert at_once(batch_of(b"a", b"b", codec=codec), ValidationConfig()).codec == codec
