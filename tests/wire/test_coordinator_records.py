"""Keys and values of coordinators' records: which types and versions are read, and which are of a newer Kafka."""

import pytest

from kpybroker.runtime.calls.steps import at_once
from kpywire.coordinator_record import RecordFormat
from kpywire.errors import Malformed, OfNewerVersion
from kpywire.reading import STEP_TAGS, skip_in_steps, skip_tagged_fields
from kpywire.transaction_records.transaction_log import TransactionLogKey, TransactionLogValue

TRANSACTIONS = RecordFormat("kpywire.transaction_records", {0: "transaction_log"})


def test_a_type_has_the_class_of_its_key_and_the_class_of_its_value() -> None:
    assert TRANSACTIONS.classes(0) == (TransactionLogKey, TransactionLogValue)
    with pytest.raises(KeyError):
        TRANSACTIONS.classes(1)


def test_a_key_and_a_value_are_read_as_they_were_written() -> None:
    key = TransactionLogKey(transactional_id="x")
    assert TRANSACTIONS.encode_key(key)[:2] == b"\0\0"
    assert TRANSACTIONS.record_type(TRANSACTIONS.encode_key(key)) == 0
    assert TRANSACTIONS.decode_key(TRANSACTIONS.encode_key(key)) == key
    value = TransactionLogValue(
        producer_id=1, producer_epoch=2, transaction_timeout_ms=3, transaction_status=4, transaction_partitions=None,
        transaction_last_update_timestamp_ms=5, transaction_start_timestamp_ms=6,
    )  # fmt: skip
    for version in (0, 1):
        encoded = TRANSACTIONS.encode_value(value, version)
        assert encoded[:2] == bytes((0, version))
        assert TRANSACTIONS.decode_value(0, encoded) == value


@pytest.mark.parametrize(("number", "is_newer"), [(-1, False), (1, True), (99, True)])
def test_a_type_that_is_not_known_is_of_a_newer_version_or_damaged(number: int, is_newer: bool) -> None:
    with pytest.raises(Malformed) as caught:
        TRANSACTIONS.record_type(number.to_bytes(2, "big", signed=True))
    assert isinstance(caught.value, OfNewerVersion) is is_newer


@pytest.mark.parametrize(("version", "is_newer"), [(-1, False), (2, True), (99, True)])
def test_a_version_that_is_not_known_is_newer_or_damaged(version: int, is_newer: bool) -> None:
    with pytest.raises(Malformed) as caught:
        TRANSACTIONS.decode_value(0, version.to_bytes(2, "big", signed=True) + bytes(40))
    assert isinstance(caught.value, OfNewerVersion) is is_newer


@pytest.mark.parametrize("data", [b"", b"\0"])
def test_a_key_or_value_without_its_number_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed, match="cut off"):
        TRANSACTIONS.record_type(data)
    with pytest.raises(Malformed, match="cut off"):
        TRANSACTIONS.decode_value(0, data)


# Unknown tagged fields.


def fields(tags: list[int], size: int = 2) -> bytes:
    return b"".join(bytes((tag, size)) + bytes(size) for tag in tags)


@pytest.mark.parametrize("count", [0, 1, STEP_TAGS - 1, STEP_TAGS, STEP_TAGS + 1, 2 * STEP_TAGS - 1])
def test_tagged_fields_are_skipped_at_once_or_in_steps(count: int) -> None:
    data = b"head" + fields(list(range(count)))
    assert skip_tagged_fields(data, 4, count) == len(data)
    assert at_once(skip_in_steps(data, 4, count)) == len(data)
    assert sum(1 for _ in skip_in_steps(data, 4, count)) == max(count - 1, 0) // STEP_TAGS


@pytest.mark.parametrize("tags", [[1, 1], [2, 1], [*range(STEP_TAGS), STEP_TAGS - 1]])
def test_tagged_fields_that_do_not_rise_are_malformed_also_from_step_to_step(tags: list[int]) -> None:
    data = fields(tags)
    with pytest.raises(Malformed, match="tagged field"):
        skip_tagged_fields(data, 0, len(tags))
    with pytest.raises(Malformed, match="tagged field"):
        for _ in skip_in_steps(data, 0, len(tags)):
            pass
