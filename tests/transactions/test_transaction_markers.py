"""Between the outcome and the end: markers that are missing, late, doubled, or not needed any more."""

from transaction_world import TransactionWorld

from kpybroker.machines.transactions.transaction import TransactionState
from kpywire import error_codes

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


def ended(world: TransactionWorld, *, commit: bool = True, transactional_id: str = "x") -> tuple[int, int]:
    """A transaction on three partitions whose outcome is decided."""
    producer = world.started(transactional_id)
    world.add(producer, T0, T1, U0, transactional_id=transactional_id)
    world.end(producer, commit=commit, transactional_id=transactional_id)
    return producer


def test_written_markers_may_be_reported_in_any_order_and_twice(world: TransactionWorld) -> None:
    ended(world)
    (markers,) = world.wanted
    for partition in (U0, U0, T0):
        world.mark(markers, partition)
    assert world.state() == "PrepareCommit"
    world.mark(markers, T1, T0)
    assert world.state() == "CompleteCommit"
    records = len(world.log)
    world.mark(markers)
    assert len(world.log) == records


def test_markers_of_another_transaction_count_for_nothing(world: TransactionWorld) -> None:
    ended(world)
    (markers,) = world.wanted
    world.mark(markers._replace(producer_epoch=markers.producer_epoch - 1))
    world.mark(markers._replace(producer_id=markers.producer_id + 1))
    world.mark(markers._replace(transactional_id="y"))
    assert world.state() == "PrepareCommit"


def test_a_description_shows_the_partitions_that_have_no_marker_yet(world: TransactionWorld) -> None:
    ended(world)
    (markers,) = world.wanted
    world.mark(markers, T0)
    topics = {topic.topic: topic.partitions for topic in world.describe().topics}
    assert topics == {"t": [1], "u": [0]}


def test_after_a_restart_markers_are_sent_to_all_partitions_again(world: TransactionWorld) -> None:
    ended(world, commit=False)
    (markers,) = world.wanted
    world.mark(markers, T0)
    world.restart()
    assert world.wanted == [markers]
    world.mark_all()
    assert world.state() == "CompleteAbort"


def test_partitions_that_are_deleted_need_no_marker(world: TransactionWorld) -> None:
    ended(world)
    ended(world, transactional_id="y")
    for markers in world.wanted:
        world.mark(markers, T0)
    world.delete_partitions({"u": [0], "v": [0, 1]})
    assert {world.state(each) for each in "xy"} == {"PrepareCommit"}
    records = len(world.log)
    world.delete_partitions({"t": [0, 1]})
    assert {world.state(each) for each in "xy"} == {"CompleteCommit"}
    assert len(world.log) == records + 2


def test_partitions_of_an_open_transaction_stay_in_it_when_they_are_deleted(world: TransactionWorld) -> None:
    producer = world.started()
    world.add(producer, T0)
    world.delete_partitions({"t": [0]})
    assert world.transactions["x"].partitions == {T0}


def test_a_completion_that_cannot_be_written_is_tried_again(world: TransactionWorld) -> None:
    ended(world)
    world.refuse_with = error_codes.NOT_ENOUGH_REPLICAS
    world.mark_all()
    assert world.state() == "PrepareCommit"
    world.advance(5_000)
    assert world.state() == "PrepareCommit"
    world.refuse_with = 0
    world.advance(1_000)
    assert world.state() == "CompleteCommit"


def test_a_topic_of_many_transactions_is_deleted_with_many_small_batches() -> None:
    world = TransactionWorld(max_batch_bytes=4_000)
    for each in range(100):
        ended(world, transactional_id=f"id-{each}")
    world.delete_partitions({"t": [0, 1], "u": [0]})
    world.advance(60_000)
    assert {transaction.state for transaction in world.transactions.values()} == {TransactionState.COMPLETE_COMMIT}
