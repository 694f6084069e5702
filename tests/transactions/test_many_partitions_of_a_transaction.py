"""Requests that name many partitions are answered alike; deadlines and names at their bounds."""

import pytest
from transaction_world import TIMEOUT_MS, TransactionWorld

from kpybroker.machines.coordination.decision import Alike
from kpybroker.machines.transactions.events import Partition, TransactionTimersDue
from kpybroker.machines.transactions.partitions import FEW_PARTITIONS
from kpybroker.machines.transactions.record import TransactionRecord, decode
from kpybroker.machines.transactions.timers import TransactionTimers
from kpywire import error_codes

FEW = [("t", index) for index in range(FEW_PARTITIONS)]
MANY = [*FEW, ("t", FEW_PARTITIONS)]
FEW_TOPICS = [(f"t{index}", 0) for index in range(FEW_PARTITIONS)]
MANY_TOPICS = [*FEW_TOPICS, ("u", 0)]


@pytest.mark.parametrize(
    ("partitions", "is_many"), [(FEW, False), (MANY, True), (FEW_TOPICS, False), (MANY_TOPICS, True)]
)
def test_many_partitions_have_one_answer_in_place_of_one_for_each(
    world: TransactionWorld, partitions: list[Partition], is_many: bool
) -> None:
    producer = world.started()
    for asked, error_code in ((producer, error_codes.NONE), ((producer[0], 9), error_codes.PRODUCER_FENCED)):
        answer = world.add_ticket(asked, *partitions).response
        assert isinstance(answer, Alike) is is_many
        if is_many:
            assert answer.error_code == error_code
        else:
            errors = [
                each.partition_error_code for topic in answer.topic_results for each in topic.results_by_partition
            ]
            assert errors == [error_code] * len(partitions)
    assert world.transactions["x"].partitions == frozenset(partitions)


def test_a_verification_of_many_partitions_is_answered_by_those_of_the_transaction(world: TransactionWorld) -> None:
    producer = world.started()
    world.add(producer, ("t", 3), ("u", 0))
    found = world.add_ticket(producer, *MANY, verify_only=True).response
    assert found == {("t", 3), ("u", 0)}
    assert world.add_ticket(producer, *FEW, verify_only=True).response.topic_results
    refused = world.add_ticket((producer[0], 9), *MANY, verify_only=True).response
    assert refused == Alike(error_codes.PRODUCER_FENCED)


def test_the_deadline_of_an_id_that_is_gone_passes_without_keeping_others_from_theirs(world: TransactionWorld) -> None:
    for each in ("gone", "kept"):
        world.add(world.started(each), transactional_id=each)
    del world.coordinator.shard.transactions["gone"]
    world.now_ms += TIMEOUT_MS + 1
    world.tell(TransactionTimersDue(world.now_ms))
    assert world.state("kept") == "PrepareAbort"
    assert world.listed() == {"kept"}


def test_a_deadline_that_was_replaced_is_none_when_the_earlier_one_has_passed() -> None:
    timers = TransactionTimers()
    timers.set("a", 200)
    timers.set("a", 100)
    assert timers.pop_due(100) == "a"
    assert timers.next_deadline_ms() is None


@pytest.mark.parametrize("name", ["x" * 0x7FFF, "ö" * 0x3FFF, ""])
def test_an_id_of_any_length_that_kafka_has_is_a_key(name: str) -> None:
    key, _ = TransactionRecord(name).encoded()
    assert key == b"\0\0" + len(name.encode()).to_bytes(2, "big") + name.encode()
    assert decode(key, None) == TransactionRecord(name)
