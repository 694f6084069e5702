"""The journal's contract, by hand and by random inputs: apply follows append, nothing leaves early or is undone."""

import gc
import random
import weakref
from typing import Any

import pytest
from counter_world import LOADING, LOST, Bug, Counter, Follow, Get, Notify, Park, Put, Release, Slip, Stubborn, World
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kpybroker.machines.journal import OutgoingRequest, ProducerEpoch
from kpywire import error_codes


def test_a_reply_waits_until_its_records_are_committed() -> None:
    world = World().open()
    slip = world.put("a", 2)
    assert world.machine.count == {"a": 2}
    world.commit(1)
    assert not slip.is_closed
    world.commit(2)
    assert slip.answers == [("a", 2)]


def test_the_next_decision_sees_what_the_last_one_wrote() -> None:
    world = World().open()
    first, second = world.put("a"), world.put("a")
    world.commit()
    assert (first.answers, second.answers) == ([("a", 1)], [("a", 2)])


def test_a_read_waits_for_the_last_append_of_its_key_only() -> None:
    world = World().open()
    world.put("a")
    dirty, clean = world.get("a"), world.get("b")
    assert clean.answers == [("b", 0)]
    assert not dirty.is_closed
    world.put("a")
    world.commit(1)
    assert dirty.answers == [("a", 1)]


def test_a_read_of_everything_waits_for_the_last_append() -> None:
    world = World().open()
    world.put("a")
    slip = Slip(world)
    world.submit(Get(slip, "a"))
    assert not slip.is_closed
    world.commit()
    assert slip.answers == [("a", 1)]


def test_a_read_of_a_key_waits_for_an_append_that_may_have_touched_all_keys() -> None:
    world = World().open()
    world.put("a")
    world.submit(Release("everything"))
    slip = world.get("a")
    world.commit(1)
    assert not slip.is_closed
    world.commit(2)
    assert slip.answers == [("a", 1)]


def test_records_replayed_above_the_high_watermark_stay_hidden() -> None:
    world = World()
    for offset, record in enumerate(["a", "b", "a"]):
        world.log.append(record)
        world.journal.replay(record, offset)
    world.journal.open(1, 3)
    assert (world.journal.committed_offset, world.journal.appended_offset) == (1, 3)
    slip = world.get("b")
    assert not slip.is_closed
    world.commit(3)
    assert slip.answers == [("b", 1)]


def test_whoever_a_refused_append_would_have_answered_gets_its_error() -> None:
    world = World().open()
    slip = Slip(world)
    world.submit(Park(slip))
    world.broken = error_codes.KAFKA_STORAGE_ERROR
    world.submit(Release("a"))
    assert slip.errors == [error_codes.KAFKA_STORAGE_ERROR]


def test_inputs_before_the_journal_opens_are_refused() -> None:
    world = World()
    slip = world.put("a")
    assert slip.errors == [LOADING]
    assert world.log == []


def test_inputs_are_refused_before_the_decision_when_the_log_takes_no_writes() -> None:
    world = World().open()
    world.refusal = error_codes.NOT_ENOUGH_REPLICAS
    assert world.put("a").errors == [error_codes.NOT_ENOUGH_REPLICAS]
    assert world.machine.count == {}


def test_an_append_that_raises_applies_nothing() -> None:
    world = World().open()
    world.broken = error_codes.KAFKA_STORAGE_ERROR
    assert world.put("a").errors == [error_codes.KAFKA_STORAGE_ERROR]
    assert world.machine.count == {}
    assert world.journal.waiting_gates == 0


def test_a_batch_that_is_too_large_comes_back_as_an_input() -> None:
    world = World().open()
    assert world.put("a", World.MAX_BATCH + 1).answers == [("a", "too large")]
    assert world.machine.count == {}


def test_one_decision_may_answer_many_parked_requests() -> None:
    world = World().open()
    parked = [Slip(world) for _ in range(3)]
    for slip in parked:
        world.submit(Park(slip))
    world.submit(Release("r"))
    assert not any(slip.is_closed for slip in parked)
    world.commit()
    assert [slip.answers for slip in parked] == [["released"]] * 3


def test_sends_and_follow_up_events_wait_for_the_commit() -> None:
    world = World().open()
    world.submit(Notify("n"), "n")
    assert world.sent == []
    assert world.machine.notified == []
    world.commit()
    assert world.sent == [(OutgoingRequest(7, "n"), 1)]
    assert world.machine.notified == ["n"]
    assert world.machine.producers == [ProducerEpoch(5, 1)]


def test_a_dropped_journal_lets_only_errors_out() -> None:
    world = World().open()
    written, parked = world.put("a"), Slip(world)
    world.submit(Park(parked))
    world.submit(Notify("n"))
    world.journal.drop(LOST)
    world.commit()
    assert written.errors == parked.errors == [LOST]
    assert world.sent == []
    assert world.put("b").errors == [LOST]


def test_an_answer_may_drop_the_journal_while_others_wait_at_the_same_gate() -> None:
    world = World().open()
    dropping = Slip(world)
    dropping.answer = lambda _message: world.journal.drop(LOST)  # type: ignore[method-assign]
    other = Slip(world)
    world.submit(Park(dropping))
    world.submit(Park(other))
    world.submit(Release("r"))
    world.submit(Notify("n"))
    world.commit()
    assert other.errors == [LOST]
    assert world.sent == []


def test_a_ticket_whose_time_is_up_gets_an_error_and_the_decision_stands() -> None:
    world = World().open()
    slip = Slip(world)
    world.submit(Put(slip, "a"), "a", deadline_ms=100)
    assert world.journal.expire(99) == 100
    assert not slip.is_closed
    assert world.journal.expire(100) is None
    assert slip.errors == [error_codes.REQUEST_TIMED_OUT]
    world.commit()
    assert slip.answers == []
    assert world.machine.count == {"a": 1}


def test_a_deadline_does_not_hit_a_later_ticket() -> None:
    world = World().open()
    slip = Slip(world)
    world.submit(Get(slip, "a"), "a", deadline_ms=100)
    identity = id(slip)
    del slip
    later = [Slip(world) for _ in range(50)]
    for each in later:
        world.submit(Park(each))
    assert world.journal.expire(100) is None
    assert not any(each.is_closed for each in later if id(each) == identity)
    assert not any(each.is_closed for each in later)


def test_deadlines_of_answered_tickets_do_not_pile_up_and_those_of_open_ones_stay() -> None:
    world = World().open()
    parked = [Slip(world) for _ in range(3)]
    for number, slip in enumerate(parked):
        world.submit(Park(slip), deadline_ms=1_000 + number)
    most = 0
    for _ in range(500):
        answered = Slip(world)
        world.submit(Put(answered, "a"), "a", deadline_ms=2**31)
        most = max(most, len(world.journal._deadlines))
        world.commit()
        assert answered.is_closed
    assert most == 2 * 4 + 64, "two for each of the four open tickets, and 64"
    assert world.journal.expire(1_001) == 1_002
    assert [slip.is_closed for slip in parked] == [True, True, False]


def test_a_request_that_is_answered_at_once_leaves_no_deadline() -> None:
    world = World().open()
    world.submit(Get(Slip(world), "a"), "a", deadline_ms=100)
    assert world.journal.expire(0) is None


def test_each_ticket_expires_at_its_own_time_whatever_was_answered_between() -> None:
    world, chance = World().open(), random.Random(5)
    open_until: dict[int, list[Slip]] = {}
    for number in range(400):
        slip, deadline_ms = Slip(world), chance.randrange(1, 50)
        if number % 4:
            world.submit(Put(slip, "a"), "a", deadline_ms=deadline_ms)
            world.commit()
        else:
            world.submit(Park(slip), deadline_ms=deadline_ms)
            open_until.setdefault(deadline_ms, []).append(slip)
    for now_ms in range(50):
        world.journal.expire(now_ms)
        for deadline_ms, slips in open_until.items():
            assert all(slip.is_closed is (deadline_ms <= now_ms) for slip in slips)


def test_a_defect_of_the_machine_costs_one_input() -> None:
    world = World().open()
    slip = Slip(world)
    world.submit(Bug(slip))
    assert slip.errors == [error_codes.UNKNOWN_SERVER_ERROR]
    assert isinstance(world.defects[0].error, ZeroDivisionError)
    assert (world.defects[0].event, str(world.defects[0])) == (Bug(slip), "No decision on Bug")
    answered = world.put("a")
    world.commit()
    assert answered.answers == [("a", 1)]


def test_offsets_committed_by_a_marker_wait_for_it() -> None:
    world = World()
    producer = ProducerEpoch(5, 1)
    world.log.append("marker")
    world.journal.mark(producer, 0, commit=True)
    world.journal.open(1, 1)
    assert world.get("a").answers == [("a", 0)]
    world.log.append("marker")
    world.journal.mark(producer, 1, commit=False)
    slip = world.get("a")
    assert not slip.is_closed
    world.commit()
    assert slip.answers == [("a", 0)]
    assert world.machine.markers == [(producer, True, 0), (producer, False, 1)]


def test_a_marker_of_an_open_journal_hides_all_keys_until_it_is_committed_and_none_afterwards() -> None:
    world = World().open()
    world.log.append("marker")
    world.journal.mark(ProducerEpoch(5, 1), 0, commit=True)
    assert world.journal.appended_offset == 1
    assert not world.get("a").is_closed
    world.commit(1)
    assert world.get("a").answers == [("a", 0)]


@pytest.mark.parametrize("key", ["a", None])
def test_a_read_after_the_commit_is_answered_at_once(key: str | None) -> None:
    world = World().open()
    world.submit(Put(Slip(world), "a"), key)
    world.commit()
    assert world.get("a").answers == [("a", 1)]
    assert world.get("b").answers == [("b", 0)]


def test_the_commit_of_a_key_does_not_open_what_waits_for_everything() -> None:
    world = World().open()
    world.put("a")
    world.submit(Release("everything"))
    world.commit(1)
    slip = world.get("b")
    assert not slip.is_closed
    world.commit(2)
    assert slip.answers == [("b", 0)]


def test_an_older_commit_of_a_key_does_not_open_its_newer_append() -> None:
    world = World().open()
    world.put("a")
    world.put("a")
    world.commit(1)
    slip = world.get("a")
    assert not slip.is_closed
    world.commit(2)
    assert slip.answers == [("a", 2)]


def _commits_what_it_appends(world: World) -> None:
    """A log of one node: what is appended is committed."""
    append = world.append

    def appended_and_committed(*batch: Any) -> tuple[int, int]:
        first, end = append(*batch)
        world.committed = end
        world.journal.committed_at_once(end)
        return first, end

    world.journal._append = appended_and_committed


def test_on_a_log_of_one_node_an_append_is_answered_at_once() -> None:
    world = World().open()
    _commits_what_it_appends(world)
    assert world.put("a", 3).answers == [("a", 3)]
    assert (world.journal.committed_offset, world.journal.waiting_gates) == (3, 0)


def test_an_append_that_is_committed_at_once_does_not_pass_those_that_wait() -> None:
    world = World().open()
    first = world.put("a")
    _commits_what_it_appends(world)
    second = world.put("b")
    assert (first.is_closed, second.is_closed) == (False, False)
    assert world.journal.committed_offset == 0
    world.commit()
    assert (first.answers, second.answers) == ([("a", 1)], [("b", 1)])


def test_an_event_after_a_commit_waits_for_it_even_without_a_reply() -> None:
    world = World().open()
    world.submit(Follow("f"), "f")
    assert world.machine.notified == []
    world.commit()
    assert world.machine.notified == ["f"]


def test_a_refused_append_fails_its_own_request_though_the_decision_answers_others() -> None:
    world = World().open()
    parked, own = Slip(world), Slip(world)
    world.submit(Park(parked))
    world.broken = error_codes.KAFKA_STORAGE_ERROR
    world.journal.submit(Release("a"), 0, ticket=own)
    assert own.errors == parked.errors == [error_codes.KAFKA_STORAGE_ERROR]


def test_a_machine_that_insists_on_a_batch_that_is_too_large_is_broken() -> None:
    world = World().open()
    with pytest.raises(RuntimeError):
        world.submit(Stubborn("a"))
    assert world.log == []


def test_a_dropped_journal_lets_go_of_what_waited() -> None:
    world = World().open()
    slip = Slip(world)
    world.submit(Put(slip, "a"), "a", deadline_ms=100)
    gone = weakref.ref(slip)
    world.journal.drop(LOST)
    assert slip.errors == [LOST]
    del slip
    gc.collect()
    assert gone() is None
    assert world.journal.waiting_gates == 0
    assert world.journal.expire(0) is None


def test_an_open_journal_takes_no_replayed_records() -> None:
    world = World().open()
    with pytest.raises(RuntimeError):
        world.journal.replay("a", 0)


class JournalMachine(RuleBasedStateMachine):
    """Random inputs, commits and losses against the log as the only truth."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World().open()
        self.written: list[tuple[Slip, int]] = []
        self.read: list[tuple[Slip, str, int]] = []
        self.dropped = False

    keys = st.sampled_from("abc")

    @rule(key=keys, size=st.integers(1, 7))
    def put(self, key: str, size: int) -> None:
        last, before = self._last_offset_of(key), len(self.world.log)
        slip = self.world.put(key, size)
        if len(self.world.log) > before:
            self.written.append((slip, len(self.world.log)))
        else:
            self.read.append((slip, key, last))  # too large, or refused: nothing but a look at the key

    def _last_offset_of(self, key: str) -> int:
        return max((offset + 1 for offset, record in enumerate(self.world.log) if record == key), default=0)

    @rule(key=keys)
    def get(self, key: str) -> None:
        last = self._last_offset_of(key)
        self.read.append((self.world.get(key), key, last))

    @rule(key=keys)
    def notify(self, key: str) -> None:
        self.world.submit(Notify(key), key)

    @rule(code=st.sampled_from([error_codes.NONE, error_codes.KAFKA_STORAGE_ERROR]))
    def break_or_mend_the_log(self, code: int) -> None:
        self.world.broken = code

    @rule(share=st.floats(0, 1))
    def commit(self, share: float) -> None:
        world = self.world
        world.commit(world.committed + int((len(world.log) - world.committed) * share))

    @rule()
    def drop(self) -> None:
        self.world.journal.drop(LOST)
        self.dropped = True

    @invariant()
    def durable_state_equals_a_replay(self) -> None:
        replayed = Counter()
        for offset, record in enumerate(self.world.log):
            replayed.apply(record, offset, None)
        assert replayed.state() == self.world.machine.state()
        assert self.dropped or self.world.journal.appended_offset == len(self.world.log)

    @invariant()
    def nothing_left_before_its_gate(self) -> None:
        for slip, next_offset in self.written:
            assert not slip.answers or slip.committed_at_answer >= next_offset
        for slip, _, last in self.read:
            assert not slip.answers or slip.committed_at_answer >= last
        assert all(self.world.log[:committed].count(send.message) for send, committed in self.world.sent)

    @invariant()
    def after_a_loss_only_errors_leave(self) -> None:
        if self.dropped:
            assert all(slip.is_closed for slip, _ in self.written)
            assert all(slip.is_closed for slip, _, _ in self.read)


JournalMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestJournalUnderRandomInputs = JournalMachine.TestCase


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=20), st.integers(0, 20))
def test_everything_committed_is_answered(keys: list[str], more: int) -> None:
    world = World().open()
    slips = [world.put(key) for key in keys]
    world.commit(len(keys) + more)
    assert all(slip.answers for slip in slips)
    assert world.journal.waiting_gates == 0
