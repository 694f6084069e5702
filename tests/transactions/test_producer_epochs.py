"""InitProducerId with a transactional id: who begins, who is fenced, who recovers (KIP-98, KIP-360)."""

import pytest
from transaction_world import TransactionWorld

from kpybroker.machines.transactions.record import TransactionRecord
from kpybroker.machines.transactions.transaction import LAST_EPOCH, MAX_EPOCH, TransactionState
from kpywire import error_codes

FENCED = (error_codes.PRODUCER_FENCED, -1, -1)
BUSY = (error_codes.CONCURRENT_TRANSACTIONS, -1, -1)


def worn(world: TransactionWorld, epoch: int, transactional_id: str = "x") -> int:
    """Let the producer of an id have this epoch; its producer id."""
    transaction = world.transactions[transactional_id]._replace(producer_epoch=epoch)
    key, value = TransactionRecord(transactional_id, transaction).encoded()
    world.log.append((key, value))
    world.restart()
    return transaction.producer_id


def test_the_first_of_an_id_gets_a_new_producer_id_and_every_other_the_next_epoch(world: TransactionWorld) -> None:
    producer_id, epoch = world.started()
    assert epoch == 0
    assert [world.init() for _ in range(2)] == [(0, producer_id, 1), (0, producer_id, 2)]
    assert world.started("y")[0] > producer_id


def test_an_expired_producer_id_starts_as_a_new_one(world: TransactionWorld) -> None:
    assert world.init(producer_id=7, producer_epoch=3, new_producer_id=50) == (0, 50, 0)


def test_without_a_new_producer_id_the_client_gets_a_retriable_error(world: TransactionWorld) -> None:
    assert world.init(new_producer_id=-1) == (error_codes.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
    assert not world.log


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_have_a_limit(world: TransactionWorld, timeout_ms: int) -> None:
    assert world.init(timeout_ms=timeout_ms)[0] == error_codes.INVALID_TRANSACTION_TIMEOUT
    world.settings = world.settings._replace(max_timeout_ms=1_000_000)
    assert world.init(timeout_ms=900_001)[0] == error_codes.NONE


@pytest.mark.parametrize("producer", [(7, -1), (-1, 7)])
def test_half_a_producer_is_none(world: TransactionWorld, producer: tuple[int, int]) -> None:
    answer = world.init(producer_id=producer[0], producer_epoch=producer[1])
    assert answer[0] == error_codes.INVALID_REQUEST
    assert world.init("")[0] == error_codes.INVALID_REQUEST


def test_a_producer_with_its_epoch_gets_the_next_and_a_retry_the_same(world: TransactionWorld) -> None:
    producer_id, epoch = world.started()
    assert world.init(producer_id=producer_id, producer_epoch=epoch) == (0, producer_id, 1)
    assert world.init(producer_id=producer_id, producer_epoch=epoch) == (0, producer_id, 1)
    assert world.init(producer_id=producer_id, producer_epoch=1) == (0, producer_id, 2)
    assert world.init(producer_id=producer_id, producer_epoch=epoch) == FENCED


def test_a_producer_is_fenced_by_one_that_began_after_it(world: TransactionWorld) -> None:
    producer_id, epoch = world.started()
    assert world.init() == (0, producer_id, 1)
    assert world.init(producer_id=producer_id, producer_epoch=epoch) == FENCED
    assert world.init(producer_id=producer_id + 1, producer_epoch=1) == FENCED


def test_a_retry_after_a_restart_is_fenced_since_no_record_tells_it_from_a_zombie(world: TransactionWorld) -> None:
    producer_id, epoch = world.started()
    world.init(producer_id=producer_id, producer_epoch=epoch)
    world.restart()
    assert world.init(producer_id=producer_id, producer_epoch=epoch) == FENCED


@pytest.mark.parametrize("version", range(6))
def test_old_clients_know_fencing_by_another_error(world: TransactionWorld, version: int) -> None:
    producer_id, _ = world.started()
    world.init()
    expected = error_codes.PRODUCER_FENCED if version >= 4 else error_codes.INVALID_PRODUCER_EPOCH
    assert world.init(producer_id=producer_id, producer_epoch=0, version=version)[0] == expected


@pytest.mark.parametrize("level", [0, 1, 2])
def test_an_open_transaction_is_aborted_first_with_a_fencing_epoch(level: int) -> None:
    world = TransactionWorld(transaction_version=level)
    producer = world.started()
    world.add(producer, version=3)
    assert world.init() == BUSY
    (markers,) = world.wanted
    assert (markers.producer_epoch, markers.commit, markers.partitions) == (1, False, [("t", 0)])
    assert markers.transaction_version == (2 if level == 2 else 0)
    assert world.add(producer, version=3) == {("t", 0): error_codes.CONCURRENT_TRANSACTIONS}
    assert world.init() == BUSY
    world.mark_all()
    assert world.init() == (0, producer[0], 2)
    assert world.add(producer, version=3) == {("t", 0): error_codes.PRODUCER_FENCED}


def test_a_producer_whose_epochs_have_run_out_gets_a_new_producer_id(world: TransactionWorld) -> None:
    world.started()
    producer_id = worn(world, LAST_EPOCH - 1)
    assert world.init() == (0, producer_id, LAST_EPOCH)
    error_code, rotated, epoch = world.init()
    assert (error_code, epoch) == (0, 0)
    assert rotated > producer_id


def test_the_retry_of_a_rotation_gets_the_next_epoch_of_the_new_producer_id(world: TransactionWorld) -> None:
    world.started()
    producer_id = worn(world, LAST_EPOCH)
    _, rotated, epoch = world.init(producer_id=producer_id, producer_epoch=LAST_EPOCH)
    assert epoch == 0
    assert rotated != producer_id
    assert world.init(producer_id=producer_id, producer_epoch=LAST_EPOCH) == (0, rotated, 0)
    assert world.init(producer_id=producer_id, producer_epoch=LAST_EPOCH - 1) == FENCED
    assert world.init(producer_id=rotated, producer_epoch=0) == (0, rotated, 1)


def test_a_rotation_waits_for_a_producer_id(world: TransactionWorld) -> None:
    world.started()
    producer_id = worn(world, LAST_EPOCH)
    assert world.init(new_producer_id=-1) == (error_codes.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
    assert world.transactions["x"].producer_id == producer_id


def test_an_open_transaction_in_the_last_epoch_is_aborted_and_the_producer_id_with_it(world: TransactionWorld) -> None:
    world.started()
    producer_id = worn(world, LAST_EPOCH)
    world.add((producer_id, LAST_EPOCH))
    assert world.init(new_producer_id=-1)[0] == error_codes.COORDINATOR_LOAD_IN_PROGRESS
    assert world.transactions["x"].state is TransactionState.ONGOING
    assert world.init() == BUSY
    (markers,) = world.wanted
    assert (markers.producer_id, markers.producer_epoch) == (producer_id, MAX_EPOCH)
    world.mark_all()
    assert world.transactions["x"].producer_id > producer_id
    assert world.init()[2] == 1


def test_before_version_2_the_last_epoch_is_left_behind_at_the_next_start() -> None:
    world = TransactionWorld(transaction_version=1)
    world.started()
    producer_id = worn(world, LAST_EPOCH)
    world.add((producer_id, LAST_EPOCH), version=3)
    assert world.init() == BUSY
    world.mark_all()
    assert world.transactions["x"].producer_epoch == MAX_EPOCH
    error_code, rotated, epoch = world.init()
    assert (error_code, epoch) == (0, 0)
    assert rotated != producer_id


def test_an_answer_waits_until_the_log_is_replicated(world: TransactionWorld) -> None:
    world.replicate = False
    first = world.init_ticket()
    second = world.init_ticket()
    described = world.coordinator.shard.transactions["x"]
    assert described.producer_epoch == 1
    assert not first.answers
    assert not second.answers
    world.committed = 1
    world.commit()
    assert first.response.producer_epoch == 0
    assert not second.answers
    world.committed = 2
    world.commit()
    assert second.response.producer_epoch == 1
