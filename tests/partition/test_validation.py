"""A produced batch is refused as Kafka refuses it, or stamped in place. (The whole of Kafka's verdicts is compared in
``test_validation_oracle``; this needs no JVM.)"""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.validation import BatchRefused, ValidationConfig, sole_batch, validate
from kpywire import error_codes
from kpywire.batch import CRC_POSITION, LOG_APPEND_TIME, BatchHeader, check_crc, parse_header, placed
from kpywire.crc import crc32c
from kpywire.record import Record, assemble, build_batch, read_records
from kpywire.varint import Buffer

NOW = 1_700_000_000_000


def batch_of(*values: bytes | None, keys: Sequence[bytes | None] = (), timestamp: int = NOW, codec: int = 0) -> bytes:
    keys = keys or [b"k"] * len(values)
    records = [Record(timestamp=timestamp + n, key=keys[n], value=value) for n, value in enumerate(values)]
    return build_batch(records, codec=codec)


def changed(batch: bytes, **fields: int) -> bytes:
    """The batch with header fields overwritten and a right CRC."""
    return assemble(parse_header(batch)._replace(**fields), batch[61:])


class Accepted(NamedTuple):
    header: BatchHeader
    buffer: Buffer
    log_append_time_ms: int


def accepted(records: memoryview, config: ValidationConfig) -> Accepted:
    """The outcome for a view. That for bytes has to be the same."""
    copied = verdict(bytes(records), config)
    found = verdict(records, config)
    if isinstance(found, BatchRefused):
        assert isinstance(copied, BatchRefused)
        assert (copied.code, copied.message, copied.record_errors) == (found.code, found.message, found.record_errors)
        raise found
    assert copied == found
    return found


def verdict(records: bytes | memoryview, config: ValidationConfig) -> Accepted | BatchRefused:
    try:
        fields, buffer, log_append_time_ms = validate(records, config, NOW, 7, 1000, "t-0")
    except BatchRefused as refused:
        return refused
    return Accepted(placed(fields, 1000, 7), buffer, log_append_time_ms)


def accept(batch: bytes, config: ValidationConfig | None = None) -> Accepted:
    return accepted(memoryview(bytearray(batch)), config or ValidationConfig())


def refusal(batch: bytes, config: ValidationConfig | None = None) -> BatchRefused:
    with pytest.raises(BatchRefused) as caught:
        accept(batch, config)
    return caught.value


def test_a_batch_is_stamped_where_it_lies() -> None:
    buffer = bytearray(b"request " + batch_of(b"a", b"b") + b" rest")
    header, _, log_append_time_ms = accepted(memoryview(buffer)[8:-5], ValidationConfig())
    assert parse_header(buffer, 8) == header
    assert (header.base_offset, header.partition_leader_epoch) == (1000, 7)
    assert log_append_time_ms == -1
    assert check_crc(buffer, header, 8)
    assert buffer.startswith(b"request ")
    assert buffer.endswith(b" rest")


@pytest.mark.parametrize(
    "config", [ValidationConfig(), ValidationConfig(log_append_time=True)], ids=["create", "append"]
)
def test_stamping_immutable_bytes_returns_a_copy(config: ValidationConfig) -> None:
    batch = batch_of(b"a", b"b", timestamp=NOW - 5)
    given = bytes(batch)
    found = verdict(given, config)
    assert isinstance(found, Accepted)
    assert given == batch
    assert parse_header(found.buffer) == found.header
    assert (found.header.base_offset, found.header.partition_leader_epoch) == (1000, 7)
    assert found.header.max_timestamp == (NOW if config.log_append_time else NOW - 4)
    assert check_crc(found.buffer, found.header)
    assert bytes(found.buffer[61:]) == batch[61:]


def test_bytes_behind_the_batch_are_cut_off() -> None:
    batch = batch_of(b"a")
    assert bytes(accept(batch + batch[:-1]).buffer[8:12]) == batch[8:12]
    assert len(accept(batch + batch[:-1]).buffer) == len(batch)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        pytest.param(b"", error_codes.INVALID_RECORD, id="none"),
        pytest.param(batch_of(b"a")[:-1], error_codes.INVALID_RECORD, id="incomplete"),
        pytest.param(batch_of(b"a") * 2, error_codes.INVALID_RECORD, id="two"),
        pytest.param(changed(batch_of(b"a"), magic=1), error_codes.INVALID_RECORD, id="old format"),
        pytest.param(changed(batch_of(b"a"), magic=3), error_codes.CORRUPT_MESSAGE, id="unknown format"),
        pytest.param(bytes(100), error_codes.CORRUPT_MESSAGE, id="zeros"),
    ],
)
def test_a_request_holds_one_batch_for_a_partition(records: bytes, code: int) -> None:
    with pytest.raises(BatchRefused) as caught:
        sole_batch(records)
    assert caught.value.code == code
    assert refusal(records).code == code


def test_zstd_came_with_version_7() -> None:
    batch = batch_of(b"a", codec=4)
    assert sole_batch(batch, 7) == parse_header(batch)
    with pytest.raises(BatchRefused) as caught:
        sole_batch(batch, 6)
    assert caught.value.code == error_codes.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        pytest.param(changed(batch_of(b"a"), base_offset=1), error_codes.INVALID_RECORD, id="base offset"),
        pytest.param(changed(batch_of(b"a"), record_count=2), error_codes.INVALID_RECORD, id="count"),
        pytest.param(changed(batch_of(b"a"), last_offset_delta=1), error_codes.INVALID_RECORD, id="last offset"),
        pytest.param(changed(batch_of(b"a"), attributes=0x20), error_codes.INVALID_RECORD, id="control"),
        pytest.param(changed(batch_of(b"a"), producer_id=1), error_codes.INVALID_RECORD, id="no sequence"),
        pytest.param(changed(batch_of(b"a"), attributes=6), error_codes.UNKNOWN_SERVER_ERROR, id="codec"),
        pytest.param(changed(batch_of(b"a"), attributes=4), error_codes.UNKNOWN_SERVER_ERROR, id="not inflatable"),
        pytest.param(batch_of(b"a")[:-1] + b"!", error_codes.CORRUPT_MESSAGE, id="CRC"),
        pytest.param(batch_of(bytes(1_048_588)), error_codes.MESSAGE_TOO_LARGE, id="size"),
        pytest.param(batch_of(b"a", timestamp=NOW + 3_600_001), error_codes.INVALID_TIMESTAMP, id="future"),
    ],
)
def test_a_bad_batch_is_refused(batch: bytes, code: int) -> None:
    refused = refusal(batch)
    assert isinstance(refused, KafkaError)
    assert refused.code == code
    assert str(refused).startswith(error_codes.name(code))
    assert (refused.message is None) == (not refused.record_errors), "Kafka explains only errors of records"


def test_an_unterminated_varint_is_distinguished_from_a_wrong_length() -> None:
    """Kafka meets the one where it expects nothing bad, the other where it does."""
    whole = batch_of(b"a", b"b")
    second = 61 + (len(whole) - 61) // 2
    endless = changed(whole[:second] + b"\xff" * (len(whole) - second))
    wrong = changed(whole[:second] + b"\x7f" * (len(whole) - second))
    assert refusal(endless).code == error_codes.UNKNOWN_SERVER_ERROR
    assert refusal(wrong).code == error_codes.INVALID_RECORD


def test_a_refused_batch_is_left_alone() -> None:
    for batch in (batch_of(b"a", timestamp=NOW + 3_600_001), changed(batch_of(b"a"), record_count=2)):
        buffer = bytearray(batch)
        with pytest.raises(BatchRefused):
            validate(memoryview(buffer), ValidationConfig(), NOW, 7, 1000)
        assert buffer == batch


@pytest.mark.parametrize("codec", range(5))
def test_records_without_a_key_are_named_on_a_compacted_topic(codec: int) -> None:
    batch = batch_of(b"a", b"b", b"c", keys=[None, b"k", None], codec=codec)
    refused = refusal(batch, ValidationConfig(compacted=True))
    text = "Compacted topic cannot accept message without key in topic partition t-0"
    assert refused.code == error_codes.INVALID_RECORD
    assert list(refused.record_errors) == [(0, text), (2, text)]
    assert "2 record errors in total" in (refused.message or "")
    assert accept(batch).header.record_count == 3


def test_a_bad_timestamp_outweighs_a_missing_key() -> None:
    batch = batch_of(b"a", b"b", keys=[None, b"k"], timestamp=NOW - 2000)
    refused = refusal(batch, ValidationConfig(compacted=True, before_max_ms=1000))
    assert refused.code == error_codes.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [0, 1]
    assert refused.record_errors[1][1] == (
        f"Timestamp {NOW - 1999} of message with offset 1 is out of range. "
        f"The timestamp should be within [{NOW - 1000}, {NOW + 3_600_000}]"
    )


def test_an_answer_names_a_limited_number_of_records() -> None:
    records = [Record(value=b"")] * 30_000
    refused = refusal(build_batch(records), ValidationConfig(compacted=True))
    assert len(refused.record_errors) == 10_000
    assert "10000 record errors" in (refused.message or "")


def test_the_largest_timestamp_is_the_records() -> None:
    accepted = accept(changed(batch_of(b"a", b"b"), max_timestamp=NOW * 3))
    assert accepted.header.max_timestamp == NOW + 1
    assert check_crc(accepted.buffer, accepted.header)


@pytest.mark.parametrize("codec", range(5))
def test_append_time_replaces_the_records_own(codec: int) -> None:
    accepted = accept(batch_of(b"a", b"b", timestamp=5, codec=codec), ValidationConfig(log_append_time=True))
    assert accepted.log_append_time_ms == NOW
    assert (accepted.header.timestamp_type, accepted.header.max_timestamp) == (LOG_APPEND_TIME, NOW)
    assert check_crc(accepted.buffer, accepted.header)
    assert [record.timestamp for record in read_records(accepted.buffer)] == [NOW, NOW]


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("compression_type", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def test_a_topic_with_its_own_codec_stores_that(codec: int, compression_type: str) -> None:
    accepted = accept(batch_of(b"a", None, b"c", codec=codec), ValidationConfig(compression_type=compression_type))
    names = ["uncompressed", "gzip", "snappy", "lz4", "zstd"]
    assert accepted.header.codec == (codec if compression_type == "producer" else names.index(compression_type))
    assert check_crc(accepted.buffer, accepted.header)
    assert [(r.offset, r.timestamp, r.value) for r in read_records(accepted.buffer)] == [
        (1000, NOW, b"a"),
        (1001, NOW + 1, None),
        (1002, NOW + 2, b"c"),
    ]


def test_a_batch_too_large_after_recompression_is_refused() -> None:
    batch = batch_of(bytes(2000), codec=4)
    config = ValidationConfig(max_message_bytes=1000, compression_type="uncompressed")
    assert refusal(batch, config).code == error_codes.MESSAGE_TOO_LARGE
    assert accept(batch, ValidationConfig(max_message_bytes=1000)).header.codec == 4


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    assert (
        refusal(batch_of(bytes(2000)), ValidationConfig(segment_bytes=2000)).code == error_codes.RECORD_LIST_TOO_LARGE
    )


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_batch_that_inflates_beyond_the_cap_is_too_large(codec: int) -> None:
    batch = batch_of(bytes(5000), codec=codec)
    assert refusal(batch, ValidationConfig(max_inflated_bytes=5000)).code == error_codes.MESSAGE_TOO_LARGE
    assert accept(batch, ValidationConfig(max_inflated_bytes=6000)).header.codec == codec


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_record_that_is_too_large_without_its_compression_is_invalid(codec: int) -> None:
    """The size of a record is that of its body, as in Kafka. Batches without compression are not measured."""
    batch = batch_of(b"a", bytes(5000), codec=codec)
    most = 5008
    assert accept(batch, ValidationConfig(max_decompressed_message_bytes=most)).header.codec == codec
    refused = refusal(batch, ValidationConfig(max_decompressed_message_bytes=most - 1))
    assert refused.code == error_codes.INVALID_RECORD
    assert refused.args[0] == f"Invalid record size: {most} exceeds the configured maximum record size of {most - 1}."
    assert accept(batch_of(bytes(5000)), ValidationConfig(max_decompressed_message_bytes=9)).header.codec == 0


def test_the_cap_on_inflating_grows_with_the_batches_that_are_allowed() -> None:
    assert ValidationConfig().max_inflated_bytes == 64 << 20
    assert ValidationConfig(max_message_bytes=100 << 20).max_inflated_bytes == 800 << 20


@given(st.binary(max_size=200), st.sampled_from([b"", batch_of(b"a", b"b")]), st.integers(0, 100))
def test_any_bytes_are_accepted_or_refused(data: bytes, batch: bytes, place: int) -> None:
    records = bytearray(batch[:place] + data + batch[place + len(data) :])
    if len(records) >= 61:
        records[CRC_POSITION : CRC_POSITION + 4] = crc32c(bytes(records[21:])).to_bytes(4, "big")
    try:
        accepted = accept(bytes(records))
    except BatchRefused:
        return
    assert len(list(read_records(accepted.buffer))) == accepted.header.record_count


@pytest.mark.parametrize("codec", [0, 4])
def test_a_batch_of_just_the_size_that_is_allowed_is_accepted(codec: int) -> None:
    batch = batch_of(b"a" * 300, codec=codec)
    assert accept(batch, ValidationConfig(max_message_bytes=len(batch))).header.codec == codec
    refused = refusal(batch, ValidationConfig(max_message_bytes=len(batch) - 1))
    assert refused.code == error_codes.MESSAGE_TOO_LARGE
    assert accept(batch, ValidationConfig(segment_bytes=len(batch))).header.codec == codec
    assert refusal(batch, ValidationConfig(segment_bytes=len(batch) - 1)).code == error_codes.RECORD_LIST_TOO_LARGE


def test_a_timestamp_at_the_edge_of_what_is_allowed_is_accepted() -> None:
    config = ValidationConfig(before_max_ms=1_000, after_max_ms=500)
    for timestamp in (NOW - 1_000, NOW + 500):
        assert accept(batch_of(b"a", timestamp=timestamp), config).header.base_timestamp == timestamp
    for timestamp in (NOW - 1_001, NOW + 501):
        assert refusal(batch_of(b"a", timestamp=timestamp), config).code == error_codes.INVALID_TIMESTAMP
