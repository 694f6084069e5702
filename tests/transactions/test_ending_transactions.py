"""EndTxn, of both generations: versions up to 4 keep the epoch (KIP-98), from 5 on every end bumps it (KIP-890)."""

import pytest
from test_producer_epochs import worn
from transaction_world import TransactionWorld

from kpybroker.machines.transactions.transaction import LAST_EPOCH, MAX_EPOCH, TransactionState
from kpywire import error_codes

T0, T1 = ("t", 0), ("t", 1)
OK = error_codes.NONE
BUSY = error_codes.CONCURRENT_TRANSACTIONS
WRONG_STATE = error_codes.INVALID_TXN_STATE
FENCED = error_codes.PRODUCER_FENCED


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [4, 5])
def test_a_transaction_is_complete_when_every_partition_has_its_marker(
    world: TransactionWorld, commit: bool, version: int
) -> None:
    producer_id, epoch = world.started()
    world.add((producer_id, epoch), T0, T1, version=version - 1)
    assert world.end((producer_id, epoch), commit=commit, version=version)[0] == OK
    assert world.state() == ("PrepareCommit" if commit else "PrepareAbort")
    (markers,) = world.wanted
    assert markers.partitions == [T0, T1]
    assert markers.commit is commit
    assert (markers.producer_id, markers.producer_epoch) == (producer_id, epoch + (version == 5))
    assert markers.transaction_version == (2 if version == 5 else 0)
    world.mark(markers, T1)
    assert world.state().startswith("Prepare")
    world.mark(markers, T0)
    assert world.state() == ("CompleteCommit" if commit else "CompleteAbort")


def test_the_first_generation_gets_the_same_answer_again(world: TransactionWorld) -> None:
    producer = world.started()
    for commit in (True, False):
        world.add(producer, version=3)
        assert world.end(producer, commit=commit, version=4)[0] == OK
        assert [world.end(producer, commit=each, version=4)[0] for each in (True, False)] == [BUSY, BUSY]
        world.mark_all()
        assert world.end(producer, commit=commit, version=4)[0] == OK
        assert world.end(producer, commit=not commit, version=4)[0] == WRONG_STATE


def test_the_first_generation_has_nothing_to_end_before_it_wrote(world: TransactionWorld) -> None:
    producer = world.started()
    assert [world.end(producer, commit=each, version=4)[0] for each in (True, False)] == [WRONG_STATE, WRONG_STATE]


@pytest.mark.parametrize("version", range(6))
def test_whoever_has_not_the_producer_ends_nothing(world: TransactionWorld, version: int) -> None:
    producer_id, epoch = world.started()
    world.add((producer_id, epoch))
    fenced = FENCED if version >= 2 else error_codes.INVALID_PRODUCER_EPOCH
    assert world.end((producer_id, epoch + 1), version=version)[0] == fenced
    assert world.end((producer_id + 1, epoch), version=version)[0] == error_codes.INVALID_PRODUCER_ID_MAPPING
    assert world.end((producer_id, epoch), version=version, transactional_id="y")[0] == (
        error_codes.INVALID_PRODUCER_ID_MAPPING
    )
    assert world.end((producer_id, epoch), version=version, transactional_id="")[0] == error_codes.INVALID_REQUEST
    assert world.transactions["x"].state is TransactionState.ONGOING


@pytest.mark.parametrize("commit", [True, False])
def test_the_second_generation_goes_on_with_a_new_epoch_and_a_retry_gets_the_same(
    world: TransactionWorld, commit: bool
) -> None:
    producer_id, epoch = world.started()
    producer = (producer_id, epoch)
    world.add(producer)
    assert world.end(producer, commit=commit) == (OK, producer_id, 1)
    assert world.end(producer, commit=commit)[0] == BUSY
    world.mark_all()
    assert world.end(producer, commit=commit) == (OK, producer_id, 1)
    assert world.end(producer, commit=not commit)[0] == WRONG_STATE
    assert world.add(producer) == {T0: FENCED}
    assert world.add((producer_id, 1)) == {T0: OK}


def test_the_second_generation_aborts_nothing_under_a_new_epoch_but_cannot_commit_nothing(
    world: TransactionWorld,
) -> None:
    producer_id, epoch = world.started()
    assert world.end((producer_id, epoch))[0] == WRONG_STATE
    assert world.end((producer_id, epoch), commit=False) == (OK, producer_id, 1)
    assert world.state() == "CompleteAbort"
    assert not world.wanted
    assert world.end((producer_id, 1))[0] == WRONG_STATE
    assert world.end((producer_id, 1), commit=False) == (OK, producer_id, 2)
    assert world.end((producer_id, 1), commit=False) == (OK, producer_id, 2)
    assert world.end((producer_id, epoch), commit=False)[0] == FENCED


def test_after_a_commit_an_abort_of_nothing_is_a_transaction_of_its_own(world: TransactionWorld) -> None:
    producer_id, epoch = world.started()
    world.add((producer_id, epoch))
    world.end((producer_id, epoch))
    world.mark_all()
    assert world.end((producer_id, 1), commit=False) == (OK, producer_id, 2)
    assert world.state() == "CompleteAbort"


def test_a_retry_of_an_end_before_the_producer_began_anew_is_fenced(world: TransactionWorld) -> None:
    producer_id, epoch = world.started()
    world.add((producer_id, epoch))
    world.end((producer_id, epoch))
    world.mark_all()
    world.init()
    assert world.end((producer_id, epoch))[0] == FENCED
    assert world.end((producer_id, epoch + 1))[0] == FENCED


def test_with_the_last_epoch_the_producer_goes_on_with_a_new_producer_id(world: TransactionWorld) -> None:
    world.started()
    producer_id = worn(world, LAST_EPOCH)
    producer = (producer_id, LAST_EPOCH)
    world.add(producer)
    assert world.end(producer, new_producer_id=-1)[0] == error_codes.COORDINATOR_LOAD_IN_PROGRESS
    error_code, rotated, epoch = world.end(producer)
    assert (error_code, epoch) == (OK, 0)
    assert rotated != producer_id
    (markers,) = world.wanted
    assert (markers.producer_id, markers.producer_epoch) == (producer_id, MAX_EPOCH)
    assert world.add((rotated, 0)) == {T0: BUSY}
    world.restart()
    world.mark_all()
    assert world.end(producer) == (OK, rotated, 0)
    assert world.add(producer) == {T0: error_codes.INVALID_PRODUCER_ID_MAPPING}
    assert world.add((rotated, 0)) == {T0: OK}


def test_a_producer_may_be_upgraded_between_its_transactions_and_in_one(world: TransactionWorld) -> None:
    world.settings = world.settings._replace(transaction_version=1)
    producer = world.started()
    world.add(producer, version=3)
    world.end(producer, version=4)
    world.mark_all()
    world.add(producer, version=3)
    world.settings = world.settings._replace(transaction_version=2)
    assert world.end(producer) == (OK, producer[0], 1)
    world.mark_all()
    world.add((producer[0], 1))
    world.settings = world.settings._replace(transaction_version=1)
    assert world.end((producer[0], 1), version=4) == (OK, producer[0], 1)
    (markers,) = world.wanted
    assert markers.transaction_version == 0


def test_markers_and_the_answer_follow_the_logged_outcome(
    world: TransactionWorld,
) -> None:
    producer = world.started()
    world.add(producer)
    world.replicate = False
    ticket = world.end_ticket(producer)
    again = world.end_ticket(producer)
    assert not ticket.answers
    assert not again.answers
    assert not world.wanted
    world.committed = len(world.log)
    world.commit()
    assert ticket.response.error_code == OK
    assert again.response.error_code == BUSY
    assert len(world.wanted) == 1


def test_an_end_that_cannot_be_written_has_not_happened(world: TransactionWorld) -> None:
    producer = world.started()
    world.add(producer)
    world.refuse_with = error_codes.NOT_ENOUGH_REPLICAS
    assert world.end_ticket(producer).response == error_codes.NOT_ENOUGH_REPLICAS
    world.refuse_with = 0
    assert world.state() == "Ongoing"
    assert world.end(producer)[0] == OK
