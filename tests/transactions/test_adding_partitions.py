"""AddPartitionsToTxn and AddOffsetsToTxn: what a transaction writes to, added by clients or by brokers (KIP-890)."""

import pytest
from transaction_world import TransactionWorld

from kpybroker.machines.transactions.transaction import TransactionState
from kpywire import error_codes

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


def test_the_first_partition_begins_a_transaction_and_the_others_join_it(world: TransactionWorld) -> None:
    producer = world.started()
    world.now_ms += 5_000
    began_ms = world.now_ms
    assert world.add(producer, T0, U0) == {T0: 0, U0: 0}
    world.now_ms += 5_000
    assert world.add(producer, T1) == {T1: 0}
    transaction = world.transactions["x"]
    assert transaction.partitions == {T0, T1, U0}
    assert transaction.start_ms == began_ms
    assert transaction.last_update_ms == world.now_ms


def test_known_partitions_are_not_written_again(world: TransactionWorld) -> None:
    producer = world.started()
    world.add(producer, T0, T1)
    records = len(world.log)
    assert world.add(producer, T1) == {T1: 0}
    assert len(world.log) == records


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_the_next_transaction_begins_with_its_own_partitions(world: TransactionWorld, end: str) -> None:
    producer = world.started()
    world.add(producer, T0, version=3)
    world.end(producer, commit=end == "commit", version=4)
    world.mark_all()
    world.now_ms += 1_000
    assert world.add(producer, T1, version=3) == {T1: 0}
    assert world.transactions["x"].partitions == {T1}
    assert world.transactions["x"].start_ms == world.now_ms


def test_strangers_and_zombies_are_refused(world: TransactionWorld) -> None:
    producer_id, epoch = world.started()
    assert world.add((producer_id, epoch), transactional_id="y") == {T0: error_codes.INVALID_PRODUCER_ID_MAPPING}
    assert world.add((producer_id + 1, epoch)) == {T0: error_codes.INVALID_PRODUCER_ID_MAPPING}
    assert world.add((producer_id, epoch + 1)) == {T0: error_codes.PRODUCER_FENCED}
    assert world.add((producer_id, epoch), transactional_id="") == {T0: error_codes.INVALID_REQUEST}
    assert world.add_offsets((producer_id, epoch + 1)) == error_codes.PRODUCER_FENCED


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5])
def test_clients_before_version_2_know_fencing_by_another_error(world: TransactionWorld, version: int) -> None:
    producer_id, _ = world.started()
    expected = error_codes.PRODUCER_FENCED if version >= 2 else error_codes.INVALID_PRODUCER_EPOCH
    assert world.add((producer_id, 9), version=version) == {T0: expected}
    assert world.add_offsets((producer_id, 9), version=min(version, 4)) == expected


@pytest.mark.parametrize("commit", [True, False])
def test_no_partition_is_added_while_a_transaction_ends(world: TransactionWorld, commit: bool) -> None:
    producer_id, epoch = world.started()
    world.add((producer_id, epoch))
    world.end((producer_id, epoch), commit=commit)
    for seen in (epoch, epoch + 1):
        assert world.add((producer_id, seen), T1) == {T1: error_codes.CONCURRENT_TRANSACTIONS}
    assert world.add((producer_id, epoch + 1), verify_only=True) == {T0: error_codes.CONCURRENT_TRANSACTIONS}
    assert world.add((producer_id, epoch), verify_only=True) == {T0: error_codes.PRODUCER_FENCED}


def test_verification_tells_which_partitions_are_in_the_transaction_and_adds_none(world: TransactionWorld) -> None:
    producer = world.started()
    world.add(producer, T0)
    records = len(world.log)
    assert world.add(producer, T0, T1, verify_only=True) == {T0: 0, T1: error_codes.TRANSACTION_ABORTABLE}
    assert len(world.log) == records
    assert world.add(producer, T1, transactional_id="y", verify_only=True) == {
        T1: error_codes.INVALID_PRODUCER_ID_MAPPING
    }


def test_verification_finds_nothing_before_and_after_a_transaction(world: TransactionWorld) -> None:
    producer = world.started()
    assert world.add(producer, verify_only=True) == {T0: error_codes.TRANSACTION_ABORTABLE}
    world.add(producer)
    _, *producer_after = world.end(producer)
    world.mark_all()
    assert world.add((producer_after[0], producer_after[1]), verify_only=True) == {
        T0: error_codes.TRANSACTION_ABORTABLE
    }


def test_offsets_add_the_partition_that_keeps_their_group(world: TransactionWorld) -> None:
    producer = world.started()
    assert world.add_offsets(producer, 17) == error_codes.NONE
    assert world.transactions["x"].partitions == {("__consumer_offsets", 17)}
    assert world.transactions["x"].state is TransactionState.ONGOING


def test_a_transaction_works_by_the_version_of_whoever_added_to_it(world: TransactionWorld) -> None:
    producer = world.started()
    world.add(producer, T0, version=3)
    assert world.transactions["x"].client_version == 0
    world.add(producer, T1, version=4)
    assert world.transactions["x"].client_version == 2


def test_a_transaction_that_is_too_large_to_be_written_stays_as_it_was() -> None:
    world = TransactionWorld(max_batch_bytes=2_000)
    producer = world.started()
    world.add(producer, T0)
    many = [("t", partition) for partition in range(1_000)]
    assert set(world.add(producer, *many).values()) == {error_codes.UNKNOWN_SERVER_ERROR}
    assert world.transactions["x"].partitions == {T0}
