"""The journal's contract, by hand and by random inputs: apply follows append, nothing leaves early or is undone."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kpybroker.journal import (
    AppendRefused,
    BatchTooLarge,
    DecisionFailed,
    Effects,
    Journal,
    ProducerEpoch,
    Send,
    TooLarge,
)
from kpywire import error_codes

LOADING = error_codes.COORDINATOR_LOAD_IN_PROGRESS
LOST = error_codes.NOT_COORDINATOR


class Put(NamedTuple):
    """Write a value; the reply is how often the key was written, this time included."""

    ticket: "Slip"
    key: str
    size: int = 1


class Get(NamedTuple):
    """Read how often a key was written."""

    ticket: "Slip"
    key: str


class Park(NamedTuple):
    """Answered by the next Release."""

    ticket: "Slip"


class Release(NamedTuple):
    """Answer all that is parked, after writing down that it was."""

    key: str


class Notify(NamedTuple):
    """Send a request to another node, and count it once that was committed."""

    key: str


class Notified(NamedTuple):
    key: str


class Bug(NamedTuple):
    ticket: "Slip"


class Slip:
    """A ticket that remembers what came back, and what was committed at that moment."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.answers: list[Any] = []
        self.errors: list[int] = []
        self.committed_at_answer = -1

    @property
    def is_closed(self) -> bool:
        return bool(self.answers or self.errors)

    def answer(self, message: Any) -> None:
        assert not self.is_closed
        self.answers.append(message)
        self.committed_at_answer = self.world.committed

    def fail(self, error_code: int) -> None:
        assert not self.is_closed
        self.errors.append(error_code)


class Counter:
    """A machine: how often each key was written, where last, and which tickets are parked."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}
        self.offsets: dict[str, int] = {}
        self.producers: list[ProducerEpoch | None] = []
        self.parked: list[Slip] = []
        self.notified: list[str] = []
        self.markers: list[tuple[ProducerEpoch, bool, int]] = []

    def decide(self, event: Any, _now_ms: int) -> Effects:
        match event:
            case Put(ticket, key, size):
                count = self.count.get(key, 0) + size
                return Effects(records=[key] * size, replies=[(ticket, (key, count))])
            case Get(ticket, key):
                return Effects(replies=[(ticket, (key, self.count.get(key, 0)))])
            case Park(ticket):
                self.parked.append(ticket)
                return Effects()
            case Release(key):
                parked, self.parked = self.parked, []
                return Effects(records=[key], replies=[(ticket, "released") for ticket in parked])
            case Notify(key):
                return Effects(records=[key], sends=[Send(7, key)], then=Notified(key), producer=ProducerEpoch(5, 1))
            case Notified(key):
                self.notified.append(key)
                return Effects()
            case TooLarge(Put(ticket, key, _)):
                return Effects(replies=[(ticket, (key, "too large"))])
            case _:
                raise ZeroDivisionError

    def apply(self, record: str, offset: int, producer: ProducerEpoch | None) -> None:
        self.count[record] = self.count.get(record, 0) + 1
        self.offsets[record] = offset
        self.producers.append(producer)

    def apply_marker(self, producer: ProducerEpoch, offset: int, *, commit: bool) -> None:
        self.markers.append((producer, commit, offset))

    def state(self) -> object:
        return self.count, self.offsets


class World:
    """A journal with a log in a list."""

    MAX_BATCH = 5

    def __init__(self) -> None:
        self.log: list[str] = []
        self.committed = 0
        self.refusal = error_codes.NONE
        self.broken = error_codes.NONE
        self.sent: list[tuple[Send, int]] = []
        self.defects: list[DecisionFailed] = []
        self.machine = Counter()
        self.journal = Journal(
            self.machine,
            self.append,
            closed_error=LOADING,
            admit=lambda: self.refusal,
            send=lambda send: self.sent.append((send, self.committed)),
            report=self.defects.append,
        )

    def append(self, records: Sequence[Any], _producer: ProducerEpoch | None, _now_ms: int) -> tuple[int, int]:
        if self.broken:
            raise AppendRefused(self.broken)
        if len(records) > self.MAX_BATCH:
            raise BatchTooLarge
        first = len(self.log)
        self.log += records
        return first, len(self.log)

    def commit(self, offset: int | None = None) -> None:
        self.committed = max(self.committed, len(self.log) if offset is None else offset)
        self.journal.committed(self.committed, 0)

    def open(self) -> "World":
        self.journal.open(0, 0)
        return self

    def submit(self, event: Any, key: str | None = None, **options: Any) -> Slip | None:
        slip = getattr(event, "ticket", None)
        self.journal.submit(event, 0, ticket=slip, key=key, **options)
        return slip

    def put(self, key: str, size: int = 1) -> Slip:
        slip = Slip(self)
        self.submit(Put(slip, key, size), key)
        return slip

    def get(self, key: str) -> Slip:
        slip = Slip(self)
        self.submit(Get(slip, key), key)
        return slip


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


def test_what_a_new_leader_replayed_above_the_high_watermark_stays_hidden() -> None:
    world = World()
    for offset, record in enumerate(["a", "b", "a"]):
        world.log.append(record)
        world.journal.replay(record, offset)
    world.journal.open(1, 3)
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
    assert world.sent == [(Send(7, "n"), 1)]
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
    for _ in range(5_000):
        answered = Slip(world)
        world.submit(Get(answered, "a"), "a", deadline_ms=2**31)
        assert answered.is_closed
    assert len(world.journal._deadlines) < 200
    assert world.journal.expire(1_001) == 1_002
    assert [slip.is_closed for slip in parked] == [True, True, False]


def test_a_defect_of_the_machine_costs_one_input() -> None:
    world = World().open()
    slip = Slip(world)
    world.submit(Bug(slip))
    assert slip.errors == [error_codes.UNKNOWN_SERVER_ERROR]
    assert isinstance(world.defects[0].error, ZeroDivisionError)
    answered = world.put("a")
    world.commit()
    assert answered.answers == [("a", 1)]


def test_what_a_marker_makes_visible_waits_for_it() -> None:
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


def test_nothing_is_replayed_into_an_open_journal() -> None:
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
