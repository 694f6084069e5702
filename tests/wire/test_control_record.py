"""Control records: markers and a quorum's notes, and what is none of them."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpywire.batch import check_crc, parse_header
from kpywire.control_record import (
    ABORT,
    COMMIT,
    KRAFT_VERSION,
    ControlRecord,
    control_batch,
    control_type,
    end_transaction,
    read_control_record,
)
from kpywire.errors import Malformed
from kpywire.messages.end_txn_marker import EndTxnMarker
from kpywire.messages.kraft_version_record import KRaftVersionRecord
from kpywire.record import Record, read_records


@pytest.mark.parametrize(("commit", "kind"), [(True, COMMIT), (False, ABORT)])
def test_a_marker_is_its_producers_and_transactional(commit: bool, kind: int) -> None:
    marker = end_transaction(commit=commit, coordinator_epoch=4)
    batch = control_batch([marker], 50, 3, 1000, producer_id=8, producer_epoch=1)
    header = parse_header(batch)
    assert check_crc(batch, header)
    assert (header.is_control, header.is_transactional, header.codec) == (True, True, 0)
    assert (header.base_offset, header.partition_leader_epoch, header.max_timestamp) == (50, 3, 1000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (8, 1, -1)
    (record,) = read_records(batch)
    assert record.key == bytes((0, 0, 0, kind))
    assert record.value == b"\0\0\0\0\0\4"
    assert read_control_record(record) == ControlRecord(kind, EndTxnMarker(coordinator_epoch=4))


def test_a_quorums_notes_are_not_transactional() -> None:
    note = ControlRecord(KRAFT_VERSION, KRaftVersionRecord(kraft_version=1))
    batch = control_batch([note, note], 0, 2, 1000)
    header = parse_header(batch)
    assert (header.is_control, header.is_transactional, header.record_count) == (True, False, 2)
    assert [read_control_record(record) for record in read_records(batch)] == [note, note]


def test_unknown_control_record_types_are_recognised_but_not_read() -> None:
    record = Record(key=b"\0\0\0\x63", value=b"anything")
    assert control_type(record) == 99
    assert read_control_record(record) is None


def test_later_versions_of_a_marker_are_read_as_the_first() -> None:
    record = Record(key=b"\0\5\0\1", value=b"\0\7\0\0\0\4more")
    assert read_control_record(record) == ControlRecord(COMMIT, EndTxnMarker(coordinator_epoch=4))


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\1"])
def test_a_key_that_is_none_is_malformed(key: bytes | None) -> None:
    with pytest.raises(Malformed):
        control_type(Record(key=key))


@given(st.integers(0, 6), st.one_of(st.none(), st.binary(max_size=60)))
def test_any_value_is_read_or_malformed(kind: int, value: bytes | None) -> None:
    with suppress(Malformed):
        assert read_control_record(Record(key=bytes((0, 0, 0, kind)), value=value)) is not None
