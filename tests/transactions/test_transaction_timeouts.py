"""Transactions that last too long are aborted, and their producers fenced."""

import pytest
from test_producer_epochs import worn
from transaction_world import TIMEOUT_MS, TransactionWorld

from kpybroker.machines.transactions import coordinator
from kpybroker.machines.transactions.events import TransactionTimersDue
from kpybroker.machines.transactions.record import TransactionRecord
from kpybroker.machines.transactions.transaction import LAST_EPOCH, MAX_EPOCH, TransactionState
from kpywire import error_codes

T0 = ("t", 0)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_transaction_is_aborted_when_its_time_is_over_and_its_producer_is_fenced(level: int) -> None:
    world = TransactionWorld(transaction_version=level)
    producer = world.started()
    world.add(producer, version=3)
    world.advance(TIMEOUT_MS)
    assert world.state() == "Ongoing"
    world.advance(1)
    assert world.state() == "PrepareAbort"
    (markers,) = world.wanted
    assert (markers.producer_epoch, markers.commit, markers.partitions) == (1, False, [T0])
    world.mark_all()
    assert world.end(producer, version=4)[0] == error_codes.PRODUCER_FENCED
    assert world.add(producer) == {T0: error_codes.PRODUCER_FENCED}


def test_a_transaction_v2_producer_gets_an_error_for_a_commit_after_the_timeout(world: TransactionWorld) -> None:
    producer = world.started()
    world.add(producer)
    world.advance(TIMEOUT_MS + 1)
    assert world.end(producer)[0] == error_codes.CONCURRENT_TRANSACTIONS
    world.mark_all()
    assert world.end(producer)[0] == error_codes.INVALID_TXN_STATE
    assert world.end(producer, commit=False) == (0, producer[0], 1)


def test_the_time_of_a_transaction_begins_with_its_first_partition(world: TransactionWorld) -> None:
    producer = world.started()
    world.advance(10 * TIMEOUT_MS)
    world.add(producer)
    world.advance(TIMEOUT_MS)
    world.add(producer, ("t", 1))
    assert world.state() == "Ongoing"
    world.advance(1)
    assert world.state() == "PrepareAbort"


def test_a_transaction_that_has_ended_does_not_time_out_and_the_next_has_all_its_time(world: TransactionWorld) -> None:
    producer = world.started()
    world.add(producer)
    world.advance(TIMEOUT_MS - 1)
    _, producer_id, epoch = world.end(producer)
    world.mark_all()
    world.add((producer_id, epoch))
    world.advance(TIMEOUT_MS)
    assert world.state() == "Ongoing"
    world.advance(1)
    assert world.state() == "PrepareAbort"


def test_transaction_timeouts_run_while_there_is_no_leader(world: TransactionWorld) -> None:
    producer = world.started()
    world.add(producer)
    world.now_ms += TIMEOUT_MS + 1
    world.restart()
    assert world.state() == "PrepareAbort"


def test_a_wall_clock_that_is_set_back_lets_transactions_live_longer(world: TransactionWorld) -> None:
    producer = world.started()
    world.add(producer)
    deadline_ms = world.coordinator.next_deadline_ms()
    assert deadline_ms is not None
    world.journal.submit(TransactionTimersDue(world.now_ms), deadline_ms)
    assert world.state() == "Ongoing"
    assert world.coordinator.next_deadline_ms() == deadline_ms + TIMEOUT_MS + 1


def test_transactions_that_time_out_soon_after_one_another_are_aborted_together(world: TransactionWorld) -> None:
    for each in range(3):
        producer = world.started(f"id-{each}")
        world.add(producer, transactional_id=f"id-{each}")
        world.advance(1_000)
    world.advance(TIMEOUT_MS - 2_000)
    assert world.listed(state_filters=["PrepareAbort"]) == {"id-0"}
    world.advance(9_000)
    assert world.listed(state_filters=["PrepareAbort"]) == {"id-0"}
    world.advance(1_000)
    assert world.listed(state_filters=["PrepareAbort"]) == {"id-0", "id-1", "id-2"}


def test_an_abort_that_cannot_be_written_is_tried_again(world: TransactionWorld) -> None:
    producer = world.started()
    world.add(producer)
    world.refuse_with = error_codes.NOT_ENOUGH_REPLICAS
    world.advance(TIMEOUT_MS + 10_000)
    assert world.state() == "Ongoing"
    world.refuse_with = 0
    world.advance(10_000)
    assert world.state() == "PrepareAbort"


def test_in_the_last_epoch_a_transaction_is_aborted_when_there_is_a_producer_id_for_the_next(
    world: TransactionWorld,
) -> None:
    world.started()
    producer_id = worn(world, LAST_EPOCH)
    world.add((producer_id, LAST_EPOCH))
    world.now_ms += TIMEOUT_MS + 1
    world.tell(TransactionTimersDue(world.now_ms))
    assert world.state() == "Ongoing"
    world.advance(10_000)
    (markers,) = world.wanted
    assert markers.producer_epoch == MAX_EPOCH
    world.mark_all()
    assert world.transactions["x"].producer_id > producer_id


def test_many_transactions_time_out_in_batches_that_the_log_takes() -> None:
    world = TransactionWorld(max_batch_bytes=4_000)
    for each in range(100):
        producer = world.started(f"id-{each}")
        world.add(producer, transactional_id=f"id-{each}")
    world.advance(2 * TIMEOUT_MS)
    assert {transaction.state for transaction in world.transactions.values()} == {TransactionState.PREPARE_ABORT}
    assert len(world.wanted) == 100


def test_a_large_transaction_does_not_keep_others_from_being_aborted() -> None:
    """Both have room in a batch, but not together."""
    world = TransactionWorld(max_batch_bytes=3_000)
    for each, size in enumerate((50, 700)):
        producer = world.started(f"id-{each}")
        world.add(producer, *[("topic", index) for index in range(size)], transactional_id=f"id-{each}")
    world.advance(2 * TIMEOUT_MS)
    assert {transaction.state for transaction in world.transactions.values()} == {TransactionState.PREPARE_ABORT}


def test_work_over_many_ids_is_done_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "WORK_AT_ONCE", 7)
    world = TransactionWorld(transactional_id_expiration_ms=10 * TIMEOUT_MS)
    for each in range(50):
        producer = world.started(f"id-{each}")
        world.add(producer, transactional_id=f"id-{each}")
    world.now_ms += TIMEOUT_MS + 1
    world.tell(TransactionTimersDue(world.now_ms))
    assert len(world.listed(state_filters=["PrepareAbort"])) == 7
    world.advance(1)
    assert len(world.listed(state_filters=["PrepareAbort"])) == 50
    world.mark_all()
    world.restart()
    world.now_ms += 10 * TIMEOUT_MS
    world.expire()
    assert not world.transactions


def test_a_transaction_of_a_two_phase_commit_waits_for_whoever_decides_on_it(world: TransactionWorld) -> None:
    """No client of ours can begin one, but a log may have one."""
    producer = world.started()
    transaction = world.transactions["x"]._replace(timeout_ms=0x7FFF_FFFF)
    world.log.append(TransactionRecord("x", transaction).encoded())
    world.restart()
    world.add(producer)
    assert world.coordinator.next_deadline_ms() is None
    world.advance(0x1_0000_0000)
    assert world.state() == "Ongoing"
