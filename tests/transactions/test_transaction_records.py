"""Records of ``__transaction_state``: what is written is read again, in the versions that Kafka has."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transaction_world import TransactionWorld

from kpybroker.machines.transactions.record import TransactionRecord, _read, decode
from kpybroker.machines.transactions.transaction import NO_EPOCH, Transaction, TransactionState
from kpybroker.machines.transactions.usual_value import _ONE_BYTE, read_usual, write_usual
from kpywire.errors import Malformed
from kpywire.transaction_records import decode_value, encode_key, encode_value
from kpywire.transaction_records.transaction_log import TransactionLogKey, TransactionLogValue

I64 = st.integers(-1, 2**63 - 1)
KEPT_STATES = [
    state for state in TransactionState if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
]
PARTITIONS = st.frozensets(st.tuples(st.sampled_from(("t", "u", "long-name")), st.integers(0, 2**31 - 1)), max_size=5)


@st.composite
def transactions(draw: st.DrawFn) -> Transaction:
    state = draw(st.sampled_from(KEPT_STATES))
    return Transaction(
        producer_id=draw(I64),
        producer_epoch=draw(st.integers(0, 32_767)),
        timeout_ms=draw(st.integers(1, 2**31 - 1)),
        state=state,
        partitions=frozenset() if state is TransactionState.EMPTY else draw(PARTITIONS),
        last_update_ms=draw(I64),
        start_ms=draw(I64),
        previous_producer_id=draw(I64),
        next_producer_id=draw(I64),
        client_version=draw(st.sampled_from((0, 2))),
    )


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), transactions(), st.sampled_from((0, 1)))
def test_a_record_is_read_as_it_was_written(transactional_id: str, transaction: Transaction, version: int) -> None:
    key, value = TransactionRecord(transactional_id, transaction, version).encoded()
    found = decode(key, value)
    assert found is not None
    assert found.transactional_id == transactional_id
    kept = transaction if found.value_version else transaction._replace(previous_producer_id=-1)
    assert found.transaction == kept._replace(last_producer_epoch=NO_EPOCH)


@given(transactions(), st.data())
def test_records_read_by_layout_equal_decoded_ones(transaction: Transaction, data: st.DataObject) -> None:
    key, value = TransactionRecord("x", transaction).encoded()
    assert value is not None
    if data.draw(st.booleans()):
        position = data.draw(st.integers(0, len(value) - 1))
        value = value[:position] + data.draw(st.binary(max_size=3)) + value[position + data.draw(st.integers(0, 3)) :]
    found = read_usual(value)
    if found is not None:
        assert found == _read(key, value)
    elif transaction.next_producer_id == -1 and transaction.previous_producer_id != -1:
        assert value != TransactionRecord("x", transaction).encoded()[1]


@given(transactions(), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100))
def test_usual_records_are_written_as_by_the_encoder(transaction: Transaction, topic: str) -> None:
    usual = transaction._replace(next_producer_id=-1)
    if transaction.partitions:
        usual = usual._replace(partitions=transaction.partitions | {(topic, index) for index in range(len(topic) * 2)})
    value = write_usual(usual)
    if value is None:
        is_long = len(topic) * 2 >= _ONE_BYTE - 1 or len(topic.encode()) >= _ONE_BYTE - 1
        assert usual.previous_producer_id == -1 or is_long
    else:
        assert value == encode_value(decode_value(0, value), 1)
        assert _read(encode_key(TransactionLogKey(transactional_id="x")), value) == usual


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_version_of_a_value_follows_transaction_version(level: int) -> None:
    world = TransactionWorld(transaction_version=level)
    producer = world.started()
    world.add(producer, version=3)
    world.end(producer, version=4)
    world.mark_all()
    assert {record.value_version for record in world.records} == {min(level, 1)}


def test_newer_fields_are_kept_even_after_a_downgrade() -> None:
    """Kafka refuses to write it: version 0 of the value cannot say how the client works."""
    world = TransactionWorld()
    producer = world.started()
    world.add(producer)
    world.settings = world.settings._replace(transaction_version=0)
    assert world.end(producer) == (0, producer[0], 1)
    world.restart()
    world.mark_all()
    assert [record.value_version for record in world.records] == [1, 1, 1, 1]
    assert world.add((producer[0], 1), version=3) == {("t", 0): 0}
    assert world.records[-1].value_version == 0


def test_a_tombstone_has_no_value() -> None:
    key, value = TransactionRecord("x").encoded()
    assert value is None
    assert decode(key, None) == TransactionRecord("x")


def test_records_of_other_types_are_left_alone() -> None:
    assert decode(b"\0\x01anything", b"") is None


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\0\0\x05x"])
def test_a_damaged_key_is_malformed(key: bytes) -> None:
    with pytest.raises(Malformed):
        decode(key, None)


@pytest.mark.parametrize("status", [-1, TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE, 8])
def test_a_state_that_no_record_has_is_malformed(status: int) -> None:
    value = TransactionLogValue(
        producer_id=1,
        producer_epoch=0,
        transaction_timeout_ms=1,
        transaction_status=status,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=0,
        transaction_start_timestamp_ms=0,
    )
    with pytest.raises(Malformed):
        decode(encode_key(TransactionLogKey(transactional_id="x")), encode_value(value, 1))


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_any_bytes_are_a_record_or_malformed(key: bytes, value: bytes | None) -> None:
    with suppress(Malformed):
        decode(b"\0\0" + key, value)


def test_topics_are_written_in_one_order() -> None:
    transaction = Transaction(1, 0, 1, TransactionState.ONGOING, frozenset({("u", 1), ("t", 2), ("t", 0)}))
    _, value = TransactionRecord("x", transaction).encoded()
    assert value is not None
    topics = decode_value(0, value).transaction_partitions
    assert [(each.topic, each.partition_ids) for each in topics] == [("t", [0, 2]), ("u", [1])]
