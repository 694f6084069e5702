"""Markers are understood, whether they lie there as brokers write them or in another form that the format allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpystorage.control_batches import transaction_marker
from kpystorage.producer_states import TransactionMarker
from kpywire.batch import LOG_APPEND_TIME, check_crc, parse_header
from kpywire.control_record import LEADER_CHANGE, control_batch, end_transaction, marker_batch
from kpywire.errors import Malformed
from kpywire.record import Record, build_batch

EPOCHS = st.integers(-1, 0x7FFF_FFFF)


@given(st.booleans(), EPOCHS, st.integers(0, 1 << 60), st.integers(0, 0x7FFF), st.integers(0, 1 << 40), EPOCHS)
def test_a_marker_says_what_was_written_wherever_it_is_placed(
    commit: bool, coordinator_epoch: int, producer_id: int, producer_epoch: int, offset: int, leader_epoch: int
) -> None:
    batch = marker_batch(
        offset,
        leader_epoch,
        1234,
        commit=commit,
        coordinator_epoch=coordinator_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    header = parse_header(batch)
    check_crc(batch, header)
    assert (header.base_offset, header.partition_leader_epoch) == (offset, leader_epoch)
    assert transaction_marker(header, b"..." + batch, 3) == TransactionMarker(commit, coordinator_epoch)
    made = control_batch(
        [end_transaction(commit=commit, coordinator_epoch=coordinator_epoch)],
        offset,
        leader_epoch,
        1234,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    assert bytes(batch) == made


def test_a_marker_has_the_type_of_timestamps_of_its_topic() -> None:
    batch = marker_batch(
        7, 0, 1234, commit=True, coordinator_epoch=0, producer_id=7, producer_epoch=0, log_append_time=True
    )
    header = parse_header(batch)
    check_crc(batch, header)
    assert (header.timestamp_type, header.max_timestamp) == (LOG_APPEND_TIME, 1234)
    assert transaction_marker(header, b"..." + batch, 3) == TransactionMarker(True, 0)


def control(key: bytes, value: bytes, headers: tuple[tuple[str, bytes | None], ...] = ()) -> bytes:
    record = Record(-1, 5, key, value, headers)
    return build_batch([record], producer_id=7, producer_epoch=0, transactional=True, control=True)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (control(b"\0\0\0\1", b"\0\0\0\0\0\x09", headers=(("h", b"v"),)), TransactionMarker(True, 9)),
        (control(b"\0\0\0\0", b"\0\1\0\0\0\x09more"), TransactionMarker(False, 9)),
        (control(b"\0\1\0\0and", b"\0\0\0\0\0\x09"), TransactionMarker(False, 9)),
        (control(bytes((0, 0, 0, LEADER_CHANGE)), b"\0\0\0\0\0\x09"), None),
    ],
)
def test_other_forms_are_understood_too(batch: bytes, expected: TransactionMarker | None) -> None:
    assert transaction_marker(parse_header(batch), batch, 0) == expected


@pytest.mark.parametrize("value", [b"", b"\0\0\0\0\0"])
def test_a_marker_that_is_cut_off_is_malformed(value: bytes) -> None:
    batch = control(b"\0\0\0\1", value)
    with pytest.raises(Malformed):
        transaction_marker(parse_header(batch), batch, 0)
