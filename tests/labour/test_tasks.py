"""A batch that is checked or searched elsewhere comes to the same end as one that is checked at once."""

import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.hosts.labour.tasks import (
    BatchCheck,
    BatchSearch,
    CheckedBatch,
    Denied,
    Located,
    Oversized,
    TaskFailed,
    answer,
)
from kpybroker.machines.partition.validation import (
    BYTES_AT_ONCE,
    BatchRefused,
    LaboriousBatch,
    ValidationConfig,
    restamp,
    validate,
)
from kpywire.batch import parse_header
from kpywire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kpywire.record import Record, build_batch, read_batch
from kpywire.walk import ANY_SIZE, MOST_AT_ONCE

NOW_MS = 1_700_000_000_000
CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
TOPIC_PARTITION = "flights-0"


def checked_elsewhere(batch: bytes, rules: ValidationConfig) -> tuple[tuple[int, ...], bytes, int]:
    """The outcome of a check that goes through a pipe. Raises Refused."""
    task = pickle.loads(pickle.dumps(BatchCheck(batch, rules.rules, NOW_MS, TOPIC_PARTITION)))
    found = pickle.loads(pickle.dumps(answer(task)))
    if isinstance(found, Denied):
        raise found.error()
    assert isinstance(found, CheckedBatch)
    fields, stamped, append_time_ms = found.accepted(batch)
    assert isinstance(stamped, memoryview)
    restamp(stamped, 5, 700)
    return tuple(fields), bytes(stamped), append_time_ms


def outcome(check: Any) -> Any:
    try:
        return check()
    except BatchRefused as error:
        return error.code, error.message, list(error.record_errors), str(error)


def checked_here(batch: bytes, rules: ValidationConfig, *, at_once: bool = False) -> tuple[tuple[int, ...], bytes, int]:
    fields, stamped, append_time_ms = validate(
        memoryview(bytearray(batch)), rules, NOW_MS, 5, 700, TOPIC_PARTITION, at_once=at_once
    )
    return tuple(fields), bytes(stamped), append_time_ms


contents = st.lists(
    st.tuples(st.integers(NOW_MS - 10, NOW_MS + 10), st.none() | st.binary(max_size=9), st.binary(max_size=40)),
    min_size=1,
    max_size=40,
)
rules_of_topics = st.fixed_dictionaries(
    {},
    optional={
        "compacted": st.booleans(),
        "log_append_time": st.booleans(),
        "before_max_ms": st.sampled_from([5, 10**15]),
        "compression_type": st.sampled_from(["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]),
        "segment_bytes": st.sampled_from([150, 1 << 30]),
        "max_message_bytes": st.sampled_from([200, 1 << 20]),
        "max_inflated_bytes": st.sampled_from([100, 1 << 20]),
    },
)


@given(contents, st.sampled_from(CODECS), rules_of_topics, st.booleans(), st.integers(0, 300))
def test_a_check_elsewhere_accepts_and_refuses_as_one_here(
    records: Sequence[tuple[int, bytes | None, bytes]], codec: int, rules: dict[str, Any], damaged: bool, place: int
) -> None:
    batch = bytearray(build_batch([Record(timestamp=t, key=k, value=v) for t, k, v in records], codec=codec))
    if damaged:
        batch[place % len(batch)] ^= 1
    config = ValidationConfig(**rules)
    here = outcome(lambda: checked_here(bytes(batch), config))
    assert outcome(lambda: checked_elsewhere(bytes(batch), config)) == here
    try:
        at_once = outcome(lambda: checked_here(bytes(batch), config, at_once=True))
    except LaboriousBatch:
        return
    assert at_once == here


def of_bytes(size: int, codec: int) -> bytes:
    return build_batch([Record(timestamp=NOW_MS, value=bytes(size))], codec=codec)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_batch_as_clients_write_it_by_default_is_checked_at_once_and_a_bomb_is_not(codec: int) -> None:
    config = ValidationConfig(max_message_bytes=64 << 20)
    assert checked_here(of_bytes(1 << 20, codec), config, at_once=True)
    bomb = bytearray(of_bytes(2 * BYTES_AT_ONCE, codec))
    before = bytes(bomb)
    with pytest.raises(LaboriousBatch):
        validate(memoryview(bomb), config, NOW_MS, 5, 700, at_once=True)
    assert bomb == before
    assert parse_header(checked_elsewhere(before, config)[1]).base_offset == 700


@pytest.mark.parametrize("codec", CODECS)
def test_records_that_do_not_look_alike_are_not_checked_at_once_if_they_are_many(codec: int) -> None:
    records = [Record(timestamp=NOW_MS + n % 7, key=b"k" * (n % 4), value=b"v" * (n % 3)) for n in range(MOST_AT_ONCE)]
    few, many = build_batch(records[: MOST_AT_ONCE // 2], codec=codec), build_batch(records * 2, codec=codec)
    config = ValidationConfig(max_message_bytes=64 << 20)
    assert checked_here(few, config, at_once=True)
    with pytest.raises(LaboriousBatch):
        checked_here(many, config, at_once=True)
    assert checked_elsewhere(many, config)


@pytest.mark.parametrize(("kind", "level"), [("gzip", 9), ("zstd", 19), ("lz4", 12)])
def test_slow_compression_is_not_done_at_once(kind: str, level: int) -> None:
    config = ValidationConfig(compression_type=kind, compression_level=level)
    assert checked_here(of_bytes(1000, NONE), config, at_once=True)
    with pytest.raises(LaboriousBatch):
        checked_here(of_bytes(20_000, NONE), config, at_once=True)


@given(contents, st.sampled_from(CODECS), st.integers(NOW_MS - 11, NOW_MS + 11), st.integers(0, 20))
def test_a_search_elsewhere_finds_the_record(
    records: Sequence[tuple[int, bytes | None, bytes]], codec: int, timestamp: int, start_offset: int
) -> None:
    batch = build_batch([Record(timestamp=t, key=k, value=v) for t, k, v in records], codec=codec)
    expected = None
    for record in read_batch(batch, parse_header(batch)):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            expected = record.timestamp, record.offset
            break
    assert pickle.loads(pickle.dumps(answer(BatchSearch(batch, timestamp, start_offset, ANY_SIZE)))) == Located(
        expected
    )


def test_a_search_elsewhere_reports_a_record_that_is_too_large() -> None:
    batch = of_bytes(100, GZIP)
    found = pickle.loads(pickle.dumps(answer(BatchSearch(batch, NOW_MS, 0, 99))))
    assert isinstance(found, Oversized)
    assert found.size > found.most_bytes == 99
    assert isinstance(answer(BatchSearch(batch, NOW_MS, 0, found.size)), Located)


def test_a_damaged_batch_is_reported_and_not_raised() -> None:
    batch = bytearray(of_bytes(100, GZIP))
    batch[80:90] = bytes(10)
    assert isinstance(answer(BatchSearch(bytes(batch), NOW_MS, 0, ANY_SIZE)), TaskFailed)
