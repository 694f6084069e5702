"""Any history of requests, markers, timeouts, crashes: what holds between one record of an id and the next.

And what was decided holds after a crash between any two records.
"""

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from transaction_world import TIMEOUT_MS, TransactionWorld

from kpybroker.machines.transactions.record import TransactionRecord
from kpybroker.machines.transactions.transaction import LAST_EPOCH, NO_EPOCH, Transaction, TransactionState
from kpywire import error_codes

IDS = ("a", "b")
PARTITIONS = (("t", 0), ("t", 1), ("u", 0))
EXPIRATION_MS = 10 * TIMEOUT_MS
END_STATES = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
NEXT_STATES = {
    TransactionState.EMPTY: (TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT),
    TransactionState.ONGOING: (
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
    ),
    TransactionState.PREPARE_COMMIT: (TransactionState.COMPLETE_COMMIT,),
    TransactionState.PREPARE_ABORT: (TransactionState.COMPLETE_ABORT,),
    TransactionState.COMPLETE_COMMIT: (
        TransactionState.EMPTY,
        TransactionState.ONGOING,
        TransactionState.PREPARE_ABORT,
    ),
    TransactionState.COMPLETE_ABORT: (TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT),
}


def durable(transactions: dict[str, Transaction]) -> dict[str, Transaction]:
    """The transactions that are in records."""
    return {each: transaction._replace(last_producer_epoch=NO_EPOCH) for each, transaction in transactions.items()}


class Transactions(RuleBasedStateMachine):
    """A coordinator, and clients that remember every producer they ever had."""

    @initialize(level=st.sampled_from((1, 2)), worn=st.booleans())
    def begin(self, level: int, worn: bool) -> None:
        self.world = TransactionWorld(transaction_version=level, transactional_id_expiration_ms=EXPIRATION_MS)
        self.producers: dict[str, list[tuple[int, int]]] = {each: [] for each in IDS}
        self.checked = 0
        self.last: dict[str, Transaction] = {}
        self.highest_producer_id = -1
        if worn:
            for number, each in enumerate(IDS):
                used = Transaction(
                    number,
                    LAST_EPOCH - 3,
                    TIMEOUT_MS,
                    TransactionState.COMPLETE_ABORT,
                    last_update_ms=self.world.now_ms,
                )
                self.world.log.append(TransactionRecord(each, used).encoded())  # type: ignore[arg-type]
            self.world.restart()

    def learn(self, transactional_id: str, answer: tuple[int, int, int]) -> None:
        error_code, producer_id, epoch = answer
        if error_code == error_codes.NONE and (producer_id, epoch) not in self.producers[transactional_id]:
            self.producers[transactional_id].append((producer_id, epoch))

    def fenced(self, transactional_id: str, producer: tuple[int, int]) -> bool:
        return producer != self.producers[transactional_id][-1]

    @rule(transactional_id=st.sampled_from(IDS), recovers=st.booleans(), data=st.data())
    def init(self, transactional_id: str, recovers: bool, data: st.DataObject) -> None:
        known = self.producers[transactional_id]
        producer = data.draw(st.sampled_from(known)) if recovers and known else (-1, -1)
        answer = self.world.init(transactional_id, producer_id=producer[0], producer_epoch=producer[1])
        self.learn(transactional_id, answer)

    @rule(
        transactional_id=st.sampled_from(IDS),
        partitions=st.sets(st.sampled_from(PARTITIONS), min_size=1),
        version=st.sampled_from((3, 4)),
        data=st.data(),
    )
    def add(self, transactional_id: str, partitions: set[tuple[str, int]], version: int, data: st.DataObject) -> None:
        if self.producers[transactional_id]:
            producer = data.draw(st.sampled_from(self.producers[transactional_id]))
            codes = self.world.add(producer, *partitions, transactional_id=transactional_id, version=version)
            assert not (self.fenced(transactional_id, producer) and error_codes.NONE in codes.values())

    @rule(transactional_id=st.sampled_from(IDS), commit=st.booleans(), version=st.sampled_from((4, 5)), data=st.data())
    def end(self, transactional_id: str, commit: bool, version: int, data: st.DataObject) -> None:
        if self.producers[transactional_id]:
            producer = data.draw(st.sampled_from(self.producers[transactional_id]))
            records, fenced = len(self.world.log), self.fenced(transactional_id, producer)
            answer = self.world.end(producer, commit=commit, transactional_id=transactional_id, version=version)
            if fenced:
                assert len(self.world.log) == records
            if version == 5:
                self.learn(transactional_id, answer)

    @rule(data=st.data())
    def mark(self, data: st.DataObject) -> None:
        if self.world.wanted:
            markers = data.draw(st.sampled_from(self.world.wanted))
            partitions = data.draw(st.sets(st.sampled_from(markers.partitions), min_size=1))
            self.world.mark(markers, *partitions)

    @rule(by_ms=st.sampled_from((1, TIMEOUT_MS, EXPIRATION_MS)))
    def advance(self, by_ms: int) -> None:
        self.world.advance(by_ms)
        self.world.expire()

    @rule()
    def delete_topic(self) -> None:
        self.world.delete_partitions({"u": [0]})

    @rule(refuse=st.booleans())
    def log_refuses(self, refuse: bool) -> None:
        self.world.refuse_with = error_codes.NOT_ENOUGH_REPLICAS if refuse else 0

    @rule()
    def restart(self) -> None:
        before = durable(self.world.transactions)
        self.world.restart()
        assert self.world.replayed == before

    @invariant()
    def each_record_follows_the_one_before(self) -> None:
        if not hasattr(self, "world"):
            return
        for transactional_id, transaction, _ in self.world.records[self.checked :]:
            before = self.last.pop(transactional_id, None)
            if transaction is None:
                assert before is not None
                assert before.state in (TransactionState.EMPTY, *END_STATES)
                self.producers[transactional_id].clear()
                continue
            if before is not None:
                assert transaction.state in NEXT_STATES[before.state]
                assert transaction.previous_producer_id == before.producer_id
            if before is not None and transaction.producer_id == before.producer_id:
                assert transaction.producer_epoch >= before.producer_epoch
            elif before is not None:
                assert transaction.producer_id > self.highest_producer_id
                assert transaction.producer_epoch == 0
            self.highest_producer_id = max(self.highest_producer_id, transaction.producer_id)
            self.last[transactional_id] = transaction
        self.checked = len(self.world.log)
        assert self.last == durable(self.world.transactions)

    @invariant()
    def what_is_decided_waits_for_its_markers_only(self) -> None:
        if hasattr(self, "world"):
            prepared = {each for each, transaction in self.world.transactions.items() if transaction.is_prepared}
            assert set(self.world.coordinator.shard.unmarked) == prepared

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.refuse_with = 0
            self.world.advance(TIMEOUT_MS + 20_000)
            self.world.mark_all()
            assert all(each.state in (TransactionState.EMPTY, *END_STATES) for each in self.world.transactions.values())


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def history(seed: int) -> tuple[TransactionWorld, dict[int, dict[str, Transaction]]]:
    """A world after many steps, and what was known when its log had a number of records."""
    rng = Random(seed)
    world = TransactionWorld(transactional_id_expiration_ms=EXPIRATION_MS)
    producers = dict.fromkeys(IDS, (-1, -1))
    known = {0: durable(world.transactions)}
    for _ in range(60):
        each = rng.choice(IDS)
        step = rng.choice(("init", "add", "add", "end", "end", "mark", "mark", "advance"))
        if step == "init":
            answer = world.init(each)
            producers[each] = answer[1:] if answer[0] == error_codes.NONE else producers[each]
        elif step == "add":
            world.add(producers[each], *rng.sample(PARTITIONS, 2), transactional_id=each)
        elif step == "end":
            answer = world.end(producers[each], commit=rng.random() < 0.6, transactional_id=each)
            producers[each] = answer[1:] if answer[0] == error_codes.NONE else producers[each]
        elif step == "mark" and world.wanted:
            world.mark(*world.wanted[:1], *rng.sample(world.wanted[0].partitions, 1))
            world.wanted.append(world.wanted.pop(0))
        elif step == "advance":
            world.advance(rng.choice((1, 1_000, TIMEOUT_MS)))
        known[len(world.log)] = durable(world.transactions)
    return world, known


@pytest.mark.parametrize("seed", range(10))
def test_after_a_crash_between_any_two_records_what_was_decided_is_completed(seed: int) -> None:
    world, known = history(seed)
    log = list(world.log)
    for kept in range(len(log) + 1):
        world.log[:] = log
        world.crash(kept)
        assert world.replayed == known.get(kept, world.replayed)
        found = durable(world.transactions)
        decided = {
            each: transaction
            for each, transaction in found.items()
            if transaction.is_prepared and transaction.partitions
        }
        assert {markers.transactional_id: set(markers.partitions) for markers in world.wanted} == {
            each: set(transaction.partitions) for each, transaction in decided.items()
        }
        world.mark_all()
        for each, transaction in decided.items():
            completed = durable(world.transactions)[each]
            assert completed == transaction.completed
            assert (completed.state is TransactionState.COMPLETE_COMMIT) is (
                transaction.state is TransactionState.PREPARE_COMMIT
            )
        world.advance(TIMEOUT_MS + 1)
        world.mark_all()
        assert all(each.state in (TransactionState.EMPTY, *END_STATES) for each in world.transactions.values())
