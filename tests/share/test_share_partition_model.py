"""Properties of share partitions on random histories: every record is delivered, one at a time, within the limit."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from share_partition_world import MEMBERS, SharePartitionWorld, some_log

from kpybroker.machines.share.aborted import AbortedTransaction, TransactionalBatch, leave_out_aborted
from kpybroker.machines.share.acknowledging import ACCEPT, REJECT, RELEASE, Acknowledgement
from kpybroker.machines.share.acquiring import Acquired, AcquireRequest, LogBatch
from kpybroker.machines.share.partition import ImpossibleState, SharePartition, ShareSettings, StoredStateBatch
from kpybroker.machines.share.record_state import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE

LOCK_MS = 1_000


class Model:
    """The group as its members see it."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.settings = ShareSettings(rng.choice((2, 3, 5)), rng.choice((10, 50)), LOCK_MS)
        self.world = SharePartitionWorld(self.settings, some_log(rng, 12))
        self.world.load(0, [])
        self.holders: dict[int, tuple[str, int]] = {}
        """The member that has a record, and until when."""
        self.deliveries: dict[int, int] = {}
        self.accepted: set[int] = set()
        self.rejected: set[int] = set()

    def acquire(self, most: int = 5) -> int:
        if not self.world.partition.can_acquire():
            return 0
        member_id = self.rng.choice(MEMBERS)
        request = AcquireRequest(member_id, most, self.rng.choice((1, 10)), self.rng.random() < 0.5)
        _, _, given = self.world.acquire(request)
        for first, last, count in given:
            for offset in range(first, last + 1):
                assert offset not in self.holders, "two members have a record"
                assert offset not in self.accepted | self.rejected, "a record came again"
                self.deliveries[offset] = self.deliveries.get(offset, 0) + 1
                assert self.deliveries[offset] == count <= self.settings.delivery_limit
                self.holders[offset] = (member_id, self.world.now_ms + LOCK_MS)
        return len(given)

    def acknowledge(self, acknowledged_as: int, *, is_stored: bool = True) -> None:
        if not self.holders:
            return
        offset = self.rng.choice(sorted(self.holders))
        member_id, _ = self.holders[offset]
        wrong = next(each for each in MEMBERS if each != member_id)
        wanted = Acknowledgement(offset, offset, [acknowledged_as])
        assert self.world.acknowledge(wrong, wanted)
        assert self.world.acknowledge(member_id, wanted) == 0
        assert self.world.acknowledge(member_id, wanted), "a change is under way"
        self.world.store(is_stored=is_stored)
        if is_stored:
            del self.holders[offset]
            done = {ACCEPT: self.accepted, REJECT: self.rejected}.get(acknowledged_as)
            if done is not None:
                done.add(offset)

    def wait(self, wait_ms: int) -> None:
        self.world.wait(self.world.now_ms + wait_ms)
        while self.world.writes:
            self.world.store(is_stored=True)
        self.holders = {key: each for key, each in self.holders.items() if each[1] > self.world.now_ms}

    def finish(self, kinds: Sequence[int]) -> None:
        """Go on until everything is accepted or runs out."""
        while self.acquire(100) or self.holders:
            while self.holders:
                self.acknowledge(self.rng.choice(kinds))

    def step(self) -> None:
        roll = self.rng.random()
        if roll < 0.4:
            self.acquire(self.rng.choice((1, 5, 100)))
        elif roll < 0.8:
            kind = self.rng.choice((ACCEPT, ACCEPT, RELEASE, REJECT))
            self.acknowledge(kind, is_stored=self.rng.random() < 0.8)
        else:
            self.wait(self.rng.choice((1, LOCK_MS // 2, LOCK_MS)))


@given(st.integers(0, 2**32))
def test_every_record_is_accepted_rejected_or_counted_out(seed: int) -> None:
    model = Model(Random(seed))
    for _ in range(60):
        model.step()
    model.finish((ACCEPT, RELEASE))
    # Records that the log lost are archived by a read, and the start moves over them with the next acknowledgement.
    end_offset = model.world.log[-1].last_offset + 1
    model.world.log = [*model.world.log, LogBatch(end_offset, end_offset)]
    model.finish((ACCEPT,))
    assert model.world.partition.is_empty
    for batch in model.world.log:
        for offset in range(batch.base_offset, batch.last_offset + 1):
            is_counted_out = model.deliveries.get(offset) == model.settings.delivery_limit
            assert offset in model.accepted | model.rejected or is_counted_out, f"record {offset} was lost"
    assert model.world.partition.start_offset == model.world.log[-1].last_offset + 1


def test_records_of_an_aborted_transaction_are_left_out() -> None:
    log = [LogBatch(0, 4), LogBatch(5, 9), LogBatch(10, 10), LogBatch(11, 14)]
    world = SharePartitionWorld(ShareSettings(), log)
    partition = world.partition
    world.load(0, [])
    _, _, given_records = world.acquire(AcquireRequest("m", 100, 100), 4)
    assert given_records == [Acquired(0, 14, 1)]
    read = [
        TransactionalBatch(0, 4, 7, is_transactional=True, is_abort_marker=False),
        TransactionalBatch(5, 9, 8, is_transactional=True, is_abort_marker=False),
        TransactionalBatch(10, 10, 8, is_transactional=True, is_abort_marker=True),
        TransactionalBatch(11, 14, 8, is_transactional=True, is_abort_marker=False),
    ]
    left = leave_out_aborted(partition, given_records, read, [AbortedTransaction(8, 5)])
    assert left == [Acquired(0, 4, 1), Acquired(10, 14, 1)]
    states = dict(world.states())
    assert {states[offset].state for offset in range(5, 10)} == {ARCHIVED}
    assert {states[offset].state for offset in (0, 4, 10, 14)} == {ACQUIRED}
    assert partition.delivery_complete_count == 5


@pytest.mark.parametrize("stored", [StoredStateBatch(3, 9, 0, 1), StoredStateBatch(7, 6, 0, 1)])
def test_a_stored_state_that_contradicts_itself_is_refused(stored: StoredStateBatch) -> None:
    with pytest.raises(ImpossibleState):
        SharePartition(1, ShareSettings()).load(5, 1, [stored])


def test_a_group_may_not_renew_where_that_is_off() -> None:
    world = SharePartitionWorld(ShareSettings(may_renew=False), some_log(Random(1), 3))
    world.load(0, [])
    _, _, given_records = world.acquire(AcquireRequest("m", 100, 100))
    first = given_records[0].first_offset
    assert world.acknowledge("m", Acknowledgement(first, first, [4])) == 121
    assert world.partition.can_acquire()
    assert world.partition.next_deadline_ms() == 30_000


def test_the_start_never_moves_back() -> None:
    world = SharePartitionWorld(ShareSettings(), [LogBatch(0, 9)])
    world.load(0, [])
    world.acquire(AcquireRequest("m", 100, 100))
    world.log_starts_at(15)
    world.release("m")
    world.store(is_stored=True)
    assert (world.partition.start_offset, world.partition.next_fetch_offset()) == (15, 15)


def test_at_the_limit_records_that_the_log_lost_are_not_given() -> None:
    world = SharePartitionWorld(ShareSettings(max_record_locks=10), [LogBatch(0, 9), LogBatch(20, 29)])
    world.load(0, [])
    world.acquire(AcquireRequest("m", 100, 100))
    world.acknowledge("m", Acknowledgement(9, 9, [RELEASE]))
    world.store(is_stored=True)
    world.log = world.log[1:]
    assert world.acquire(AcquireRequest("n", 100, 100))[2] == []


def test_a_lock_that_ends_during_a_change_frees_its_records_if_the_change_is_not_stored() -> None:
    world = SharePartitionWorld(ShareSettings(lock_duration_ms=LOCK_MS), [LogBatch(0, 9)])
    world.load(0, [])
    world.acquire(AcquireRequest("m", 100, 100))
    assert world.acknowledge("m", Acknowledgement(0, 9, [ACCEPT])) == 0
    world.wait(LOCK_MS)
    assert {state.state for _, state in world.states()} == {ACKNOWLEDGED}
    world.store(is_stored=False)
    assert {(state.state, state.member_id) for _, state in world.states()} == {(AVAILABLE, "")}
    assert world.acquire(AcquireRequest("n", 100, 100))[2] == [Acquired(0, 9, 2)]


def test_a_change_that_is_not_stored_is_as_if_it_had_not_been_asked_for() -> None:
    world = SharePartitionWorld(ShareSettings(lock_duration_ms=LOCK_MS), [LogBatch(0, 9)])
    world.load(0, [])
    world.acquire(AcquireRequest("m", 100, 100))
    before = world.shown()
    for kind in (ACCEPT, RELEASE, REJECT):
        assert world.acknowledge("m", Acknowledgement(0, 9, [kind])) == 0
        assert world.partition.delivery_complete_count == (0 if kind == RELEASE else 10)
        world.store(is_stored=False)
        assert world.shown() == before
    world.wait(LOCK_MS)
    assert {state.state for _, state in world.states()} == {AVAILABLE}, "its lock still ends"


def test_records_that_the_log_lost_during_a_change_stay_lost_if_it_is_not_stored() -> None:
    world = SharePartitionWorld(ShareSettings(), [LogBatch(0, 9), LogBatch(10, 19)])
    world.load(0, [])
    world.acquire(AcquireRequest("m", 100, 5))
    assert world.acknowledge("m", Acknowledgement(0, 9, [RELEASE])) == 0
    world.log_starts_at(10)
    world.log = world.log[1:]
    world.store(is_stored=False)
    assert {state.state for offset, state in world.states() if offset < 10} == {ARCHIVED}
    world.release("m")
    world.store(is_stored=True)
    assert world.acquire(AcquireRequest("n", 100, 100))[2] == [Acquired(10, 19, 2)]


@pytest.mark.parametrize("is_limit", [True, False])
def test_at_the_lock_limit_released_records_are_acquired_again_as_a_whole(*, is_limit: bool) -> None:
    world = SharePartitionWorld(ShareSettings(max_record_locks=10), [LogBatch(0, 9), LogBatch(10, 19)])
    world.load(0, [])
    assert world.acquire(AcquireRequest("m", 100, 100), 1)[2] == [Acquired(0, 9, 1)]
    assert not world.partition.can_acquire()
    world.acknowledge("m", Acknowledgement(3, 9, [RELEASE]))
    world.store(is_stored=True)
    assert world.partition.can_acquire()
    assert world.acquire(AcquireRequest("n", 100, 100, is_limit))[2] == [Acquired(3, 9, 2)]
    assert not world.partition.can_acquire()


def test_records_that_the_log_lost_make_room_for_others() -> None:
    world = SharePartitionWorld(ShareSettings(max_record_locks=10), [LogBatch(0, 9), LogBatch(20, 29)])
    world.load(0, [])
    world.acquire(AcquireRequest("m", 100, 100), 1)
    world.release("m")
    world.store(is_stored=True)
    world.log = world.log[1:]
    assert world.acquire(AcquireRequest("n", 100, 100))[2] == [], "it archives what is not there any more"
    assert world.partition.can_acquire()
    assert world.acquire(AcquireRequest("n", 100, 100))[2] == [Acquired(20, 29, 1)]


def test_records_between_two_acknowledged_ranges_are_acquired_after_a_load() -> None:
    world = SharePartitionWorld(ShareSettings(), [LogBatch(0, 4), LogBatch(5, 9), LogBatch(10, 14)])
    world.load(0, [StoredStateBatch(0, 4, ACKNOWLEDGED, 1), StoredStateBatch(10, 14, ACKNOWLEDGED, 1)])
    assert (world.partition.start_offset, world.partition.next_fetch_offset()) == (5, 5)
    assert world.partition.delivery_complete_count == 5
    assert world.acquire(AcquireRequest("m", 100, 100))[2] == [Acquired(5, 9, 1)]
    world.acknowledge("m", Acknowledgement(5, 9, [ACCEPT]))
    world.store(is_stored=True)
    assert (world.partition.start_offset, world.partition.delivery_complete_count) == (10, 5)
    assert world.acquire(AcquireRequest("m", 100, 100))[2] == [], "nothing is given twice"


def test_a_record_is_acquired_alone_at_its_last_delivery_attempt() -> None:
    world = SharePartitionWorld(ShareSettings(delivery_limit=4), [LogBatch(0, 7)])
    world.load(0, [])
    given: list[list[Acquired]] = []
    for _ in range(4):
        given.append(world.acquire(AcquireRequest("m", 100, 100))[2])
        world.release("m")
        world.store(is_stored=True)
    assert given == [[Acquired(0, 7, 1)], [Acquired(0, 7, 2)], [Acquired(0, 3, 3)], [Acquired(0, 0, 4)]]
    assert world.partition.start_offset == 1, "after its last attempt a record is done with"


def test_an_empty_partition_begins_where_the_log_does() -> None:
    world = SharePartitionWorld(ShareSettings(), [LogBatch(0, 9)])
    world.load(0, [])
    world.acquire(AcquireRequest("m", 100, 100))
    world.acknowledge("m", Acknowledgement(0, 9, [ACCEPT]))
    world.store(is_stored=True)
    assert (world.partition.is_empty, world.partition.in_flight_count) == (True, 0)
    world.log_starts_at(30)
    found = world.partition
    assert (found.start_offset, found.end_offset, found.next_fetch_offset()) == (30, 30, 30)
    world.log_starts_at(20)
    assert found.start_offset == 30


def test_a_start_of_the_log_archives_what_is_below_it_and_nothing_else() -> None:
    world = SharePartitionWorld(ShareSettings(), [LogBatch(0, 9), LogBatch(10, 19), LogBatch(20, 29)])
    world.load(0, [])
    world.acquire(AcquireRequest("m", 100, 5))
    world.release("m")
    world.store(is_stored=True)
    world.log_starts_at(15)
    states = {offset: state.state for offset, state in world.states()}
    assert {states[offset] for offset in range(15)} == {ARCHIVED}
    assert {states[offset] for offset in range(15, 30)} == {AVAILABLE}
    assert world.partition.start_offset == 15
    assert world.acquire(AcquireRequest("n", 100, 100))[2] == [Acquired(15, 19, 2), Acquired(20, 29, 2)]


def test_records_in_a_hole_of_the_log_are_archived_and_those_around_it_given() -> None:
    world = SharePartitionWorld(ShareSettings(), [LogBatch(0, 9), LogBatch(10, 19), LogBatch(20, 29)])
    world.load(0, [])
    world.acquire(AcquireRequest("m", 100, 5))
    world.release("m")
    world.store(is_stored=True)
    world.log = world.log[1:]
    assert world.acquire(AcquireRequest("n", 3, 100, is_limit=True))[2] == [Acquired(10, 12, 2)]
    states = {offset: state.state for offset, state in world.states()}
    assert {states[offset] for offset in range(10)} == {ARCHIVED}
    assert world.partition.delivery_complete_count == 10
    assert world.partition.next_fetch_offset() == 13, "it goes on behind them"
