"""Dead letters of a share partition through takeovers: none is lost, and each that is written is counted."""

from collections import Counter
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st
from share_partition_world import MEMBERS, SharePartitionWorld, some_log

from kpybroker.machines.share.acknowledging import ACCEPT, REJECT, RELEASE, Acknowledgement
from kpybroker.machines.share.acquiring import AcquireRequest, LogBatch
from kpybroker.machines.share.partition import COUNTED_OUT, REJECTED, SharePartition, ShareSettings, StoredStateBatch
from kpybroker.machines.share.record_state import ACKNOWLEDGED, ACQUIRED, ARCHIVED, ARCHIVING
from kpybroker.machines.share_coordinator.state_batches import StateBatch, combine

LOCK_MS = 1_000
MOST_TURNS = 500


class Group:
    """A group with a dead-letter topic, whose partition is led by one node after the other."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.settings = ShareSettings(rng.choice((2, 3, 5)), rng.choice((10, 200)), LOCK_MS, dead_letters=True)
        self.world = SharePartitionWorld(self.settings, some_log(rng, 12))
        self.start_offset = 0
        self.stored: tuple[StateBatch, ...] = ()
        self.accepted: set[int] = set()
        self.rejected: set[int] = set()
        self.topic: Counter[int] = Counter()
        """The dead letters of each record."""
        self.unstored: set[int] = set()
        """The records of which a state could not be stored: they may have a dead letter and come again."""
        self.reasons: dict[int, str] = {}
        self.world.load(0, [])

    def store(self, *, is_stored: bool = True) -> None:
        """The oldest write ends."""
        if self.world.writes:
            write = self.world.writes[0].write
            if is_stored:
                self.start_offset = max(self.start_offset, write.start_offset)
                new = [StateBatch(first, last, count, state) for first, last, state, count in write.batches]
                self.stored = combine(self.stored, new, self.start_offset)
                for first, last, state, _ in write.batches:
                    if state == ACKNOWLEDGED:
                        self.accepted.update(range(first, last + 1))
            else:
                self.unstored |= {offset for first, last, *_ in write.batches for offset in range(first, last + 1)}
            self.world.store(is_stored=is_stored)

    def settle(self, *, is_reported: bool = True) -> None:
        """The oldest dead letters are in the topic. Perhaps another node leads before that is known."""
        if self.world.dead_letters:
            first, last, _, reason, _ = self.world.dead_letters[0]
            self.topic.update(range(first, last + 1))
            self.reasons.update(dict.fromkeys(range(first, last + 1), reason))
            if is_reported:
                self.world.settle_dead_letters()

    def take_over(self) -> None:
        """Another node leads: it has what is stored."""
        before = self.world
        self.world = SharePartitionWorld(self.settings, before.log)
        self.world.now_ms = before.now_ms
        batches = [StoredStateBatch(first, last, state, count) for first, last, count, state in self.stored]
        self.world.load(self.start_offset, batches)

    def acquire(self) -> int:
        if not self.world.partition.can_acquire():
            return 0
        request = AcquireRequest(self.rng.choice(MEMBERS), self.rng.choice((1, 5, 100)), 10)
        return len(self.world.acquire(request)[2])

    def acknowledge(self, kinds: tuple[int, ...]) -> None:
        held = [
            (offset, state)
            for offset, state in self.world.states()
            if state.state == ACQUIRED and not state.is_changing
        ]
        if held:
            offset, state = self.rng.choice(held)
            kind = self.rng.choice(kinds)
            if self.world.acknowledge(state.member_id, Acknowledgement(offset, offset, [kind])) == 0 and kind == REJECT:
                self.rejected.add(offset)

    def step(self) -> None:
        rng = self.rng
        kind = rng.choices(("acquire", "acknowledge", "store", "settle", "wait", "move"), (30, 40, 40, 15, 8, 3))[0]
        if kind == "acquire":
            self.acquire()
        elif kind == "acknowledge":
            self.acknowledge((ACCEPT, RELEASE, REJECT))
        elif kind == "store":
            self.store(is_stored=rng.random() < 0.8)
        elif kind == "settle":
            self.settle()
        elif kind == "wait":
            self.world.wait(self.world.now_ms + rng.choice((LOCK_MS // 2, LOCK_MS)))
        else:
            self.settle(is_reported=False)
            self.take_over()

    def finish(self) -> None:
        """Members accept what they get, until they have the last record."""
        last = self.world.log[-1].last_offset + 1
        self.world.log = [*self.world.log, LogBatch(last, last)]
        for _ in range(MOST_TURNS):
            while self.world.writes or self.world.dead_letters:
                self.store()
                self.settle()
            if last in self.accepted or self.topic[last]:
                return
            self.acquire()
            for _ in range(len([state for _, state in self.world.states() if state.state == ACQUIRED])):
                self.acknowledge((ACCEPT,))
        raise AssertionError("the group does not come to the end")


@given(st.integers(0, 2**32))
@example(17003)  # a gap is noted again behind records that are done with
@example(877)  # a gap without records is followed by batches that are done with
def test_every_record_is_accepted_or_has_a_dead_letter_whoever_leads(seed: int) -> None:
    group = Group(Random(seed))
    for _ in range(80):
        group.step()
    group.finish()
    for batch in group.world.log:
        for offset in range(batch.base_offset, batch.last_offset + 1):
            assert offset in group.accepted or group.topic[offset], f"record {offset} is lost"
            has_two_ends = offset in group.accepted and group.topic[offset] and offset not in group.unstored
            assert not has_two_ends, f"record {offset} has two ends"
    rejected = {offset for offset, reason in group.reasons.items() if reason == REJECTED}
    assert rejected <= group.rejected
    assert set(group.reasons.values()) <= {REJECTED, COUNTED_OUT}
    assert group.world.lettered == [] or set(group.topic) >= {each.first_offset for each in group.world.lettered}


def test_a_record_is_not_done_with_before_its_dead_letter_is_settled() -> None:
    group = Group(Random(1))
    world = group.world
    group.world.acquire(AcquireRequest("m", 1, 10, is_limit=True))
    world.acknowledge("m", Acknowledgement(0, 0, [REJECT]))
    group.store()
    partition = world.partition
    assert (partition.start_offset, partition.delivery_complete_count) == (0, 0)
    assert [each.delivery_state for each in group.stored] == [] or group.stored[0].delivery_state == ARCHIVING
    assert partition.has_dead_letters
    group.settle()
    group.store()
    assert partition.start_offset == 1
    assert not partition.has_dead_letters


def test_a_takeover_finds_the_reason_of_a_dead_letter_in_its_deliveries() -> None:
    stored = [
        StoredStateBatch(0, 1, ARCHIVING, 1),
        StoredStateBatch(2, 2, ARCHIVING, 5),
        StoredStateBatch(3, 3, ARCHIVED, 5),
    ]
    unsettled = SharePartition(7, ShareSettings(dead_letters=True)).load(0, 1, stored)
    assert [each[:4] for each in unsettled] == [(0, 1, 1, REJECTED), (2, 2, 5, COUNTED_OUT)]


def test_a_lock_that_ends_during_a_change_that_is_not_stored_counts_out_with_a_dead_letter() -> None:
    world = SharePartitionWorld(ShareSettings(1, 10, LOCK_MS, dead_letters=True), some_log(Random(1), 1))
    world.load(0, [])
    world.acquire(AcquireRequest("m", 1, 10))
    assert world.acknowledge("m", Acknowledgement(0, 0, [ACCEPT])) == 0
    world.wait(LOCK_MS)
    world.store(is_stored=False)
    assert [(each.first_offset, each.reason) for each in world.dead_letters] == [(0, COUNTED_OUT)]
