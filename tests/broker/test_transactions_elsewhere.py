"""Coordinators on other nodes are asked in batches, one request to each at a time; every question is answered once."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from kpybroker.hosts.coordinators.placement import partition_for
from kpybroker.hosts.coordinators.transactions_elsewhere import TransactionsElsewhere
from kpybroker.hosts.network.peer import NoResponse
from kpybroker.machines.metadata.topic_name import TRANSACTION_STATE_TOPIC
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpywire import error_codes
from kpywire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

HERE, ELSEWHERE = 1, 2


class World:
    """Node 1, which knows who leads the partitions of transactions, and hears what others are sent."""

    def __init__(self) -> None:
        self.scheduler = ManualScheduler()
        self.leaders = {0: HERE, 1: ELSEWHERE, 2: -1}
        self.sent: list[tuple[int, AddPartitionsToTxnRequest, Any]] = []
        self.answers: dict[str, list[Any]] = {}
        self.has_topic = True
        self.elsewhere = TransactionsElsewhere(HERE, self.scheduler, self._image, self)  # type: ignore[arg-type]

    def _image(self) -> Any:
        partitions = {index: SimpleNamespace(leader=leader) for index, leader in self.leaders.items()}
        topics = {TRANSACTION_STATE_TOPIC: SimpleNamespace(partitions=partitions)} if self.has_topic else {}
        return SimpleNamespace(topics=topics)

    def send(self, node_id: int, request: Any, done: Any) -> None:
        self.sent.append((node_id, request, done))

    def ask(self, name: str, epoch: int = 0, node: int = ELSEWHERE) -> None:
        topics = [AddPartitionsToTxnTopic(name="orders", partitions=[0])]
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=name, producer_id=7, producer_epoch=epoch, verify_only=True, topics=topics
        )
        self.elsewhere.ask(node, transaction, lambda answer: self.answers.setdefault(name, []).append(answer))

    def run(self) -> None:
        self.scheduler.run()

    def asked(self) -> list[list[str]]:
        return [[each.transactional_id for each in request.transactions] for _, request, _ in self.sent]

    def answer(self, *names: str, code: int = 0) -> None:
        results = [AddPartitionsToTxnResult(transactional_id=name, topic_results=[]) for name in names]
        self.sent[-1][2](
            AddPartitionsToTxnResponse(throttle_time_ms=0, error_code=code, results_by_transaction=results)
        )


def name_for(partition: int) -> str:
    return next(f"t-{number}" for number in range(100) if partition_for(f"t-{number}", 3) == partition)


def test_the_coordinator_is_the_leader_of_the_ids_partition() -> None:
    world = World()
    assert world.elsewhere.coordinator(name_for(0)) is None
    assert world.elsewhere.coordinator(name_for(1)) == ELSEWHERE
    assert world.elsewhere.coordinator(name_for(2)) == -1
    world.has_topic = False
    assert world.elsewhere.coordinator(name_for(1)) is None


def _hear(heard: list[tuple[str, Any]], caller: str, answer: Any) -> None:
    heard.append((caller, answer))


def test_questions_of_one_turn_are_sent_as_one_request() -> None:
    world = World()
    world.ask("a")
    world.ask("b")
    world.run()
    world.ask("c")
    world.ask("d")
    world.run()
    assert world.asked() == [["a", "b"]]
    world.answer("b", "a")
    world.run()
    assert world.asked() == [["a", "b"], ["c", "d"]]
    assert [one.transactional_id for name in ("a", "b") for one in world.answers[name]] == ["a", "b"]
    assert "c" not in world.answers


def test_each_node_has_a_request_of_its_own_under_way() -> None:
    world = World()
    world.ask("a", node=2)
    world.ask("b", node=3)
    world.run()
    assert [node for node, _, _ in world.sent] == [2, 3]


def test_a_node_that_had_nothing_to_do_is_asked_again() -> None:
    world = World()
    for name in ("a", "b"):
        world.ask(name)
        world.run()
        world.answer(name)
        world.run()
    assert world.asked() == [["a"], ["b"]]


@pytest.mark.parametrize("lost", [False, True])
def test_a_callback_that_raises_stops_neither_other_answers_nor_the_next_request(lost: bool) -> None:
    world = World()
    world.answers["a"] = None  # type: ignore[assignment]
    for name in ("a", "b"):
        world.ask(name)
    world.run()
    if lost:
        world.sent[-1][2](NoResponse("reset"))
    else:
        world.answer("a", "b")
    assert len(world.answers["b"]) == 1
    world.ask("c")
    world.run()
    assert world.asked() == [["a", "b"], ["c"]]


def test_without_a_coordinator_no_request_is_sent() -> None:
    world = World()
    world.ask("a", node=-1)
    world.run()
    assert world.answers == {"a": [error_codes.COORDINATOR_NOT_AVAILABLE]}
    assert world.sent == []


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        (1, 1, ("older", error_codes.NETWORK_EXCEPTION)),
        (1, 2, ("older", error_codes.INVALID_PRODUCER_EPOCH)),
        (2, 1, ("newer", error_codes.INVALID_PRODUCER_EPOCH)),
    ],
)
def test_the_second_request_for_one_transaction_is_refused(first: int, second: int, refused: tuple[str, int]) -> None:
    world = World()
    world.ask("busy")
    world.run()
    heard: list[tuple[str, Any]] = []
    for caller, epoch in (("older", first), ("newer", second)):
        transaction = AddPartitionsToTxnTransaction(
            transactional_id="a", producer_id=7, producer_epoch=epoch, verify_only=True, topics=[]
        )
        world.elsewhere.ask(ELSEWHERE, transaction, partial(_hear, heard, caller))
    assert heard == [refused]
    world.answer("busy")
    world.run()
    assert world.asked() == [["busy"], ["a"]]


@pytest.mark.parametrize(
    ("unanswered", "code"),
    [
        (NoResponse("the connection was lost"), error_codes.NETWORK_EXCEPTION),
        (NoResponse("too old to be asked", is_refused=True), error_codes.NONE),
    ],
)
def test_without_an_answer_the_producer_tries_again_but_not_where_none_can_come(
    unanswered: NoResponse, code: int
) -> None:
    world = World()
    world.ask("a")
    world.run()
    world.sent[0][2](unanswered)
    assert world.answers == {"a": [code]}


def test_an_error_of_the_whole_request_is_that_of_each_and_silence_is_one_too() -> None:
    world = World()
    for code, expected in (
        (error_codes.CLUSTER_AUTHORIZATION_FAILED, error_codes.INVALID_TXN_STATE),
        (0, error_codes.UNKNOWN_SERVER_ERROR),
    ):
        world.answers.clear()
        world.ask("a")
        world.run()
        world.answer(code=code)
        world.run()
        assert world.answers == {"a": [expected]}
