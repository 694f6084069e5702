"""The in-sync set as a leader sees it: the rules of Kafka's ``Partition`` and ``Replica``, and what always holds."""

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.in_sync import FetchClock, IsrChange, PartitionState, Rules
from kpybroker.machines.partition.leader import Noted, PartitionLeader
from kpybroker.machines.partition.validation import ValidationConfig
from kpystorage.directory import LogDirectory
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk
from kpywire import error_codes
from kpywire.record import Record, build_batch

WALL_MS = 1_700_000_000_000
CONFIG = ValidationConfig()
LAG_MS = 1_000.0
EPOCHS = {1: 11, 2: 12, 3: 13}


def broker(epoch: int, *, fenced: bool = False, shuts_down: bool = False) -> Any:
    return SimpleNamespace(epoch=epoch, fenced=fenced, is_active=not fenced and not shuts_down)


def open_leader(rules: Rules, isr: tuple[int, ...] = (1, 2, 3), *, min_isr: int = 1) -> PartitionLeader:
    """The leader of an empty partition with replicas 1, 2 and 3; this node is 1 and the clock at 0."""
    disk = MemoryDisk()
    disk.make_directory("/data")
    directory = LogDirectory("/data", disk, Random(1), lambda _failure: None, LogConfig())
    directory.open(WALL_MS)
    log = directory.create_log("t", 0, bytes(15) + b"\x01", LogConfig(), WALL_MS).open()
    return PartitionLeader(log, 1, PartitionState(0, 0, [1, 2, 3], isr), 0, rules=rules, min_isr=min_isr)


@pytest.fixture
def rules() -> Rules:
    return Rules(LAG_MS, {node_id: broker(epoch) for node_id, epoch in EPOCHS.items()})


def append(leader: PartitionLeader, records: int = 1) -> int:
    """Append a batch; the offset behind it."""
    batch = build_batch([Record(timestamp=WALL_MS, value=b"v") for _ in range(records)])
    return leader.append(memoryview(bytearray(batch)), CONFIG, WALL_MS)[1]


def fetch(
    leader: PartitionLeader,
    node_id: int,
    offset: int,
    now_ms: float,
    *,
    epoch: int | None = None,
    clock: FetchClock | None = None,
) -> Noted:
    follower = leader.check_follower(node_id, -1, knows_epoch=True)
    broker_epoch = EPOCHS[node_id] if epoch is None else epoch
    return leader.note_fetch(follower, broker_epoch, offset, 0, now_ms, clock)


def test_records_on_all_in_sync_replicas_are_committed(rules: Rules) -> None:
    leader = open_leader(rules)
    append(leader, 3)
    append(leader, 2)
    assert not fetch(leader, 2, 5, 0).is_committed
    assert fetch(leader, 3, 3, 0).is_committed
    assert leader.high_watermark.offset == 3
    assert fetch(leader, 3, 5, 0).is_committed
    assert leader.high_watermark.offset == 5


def test_a_fetch_of_an_unassigned_replica_gets_a_retriable_error(rules: Rules) -> None:
    leader = open_leader(rules)
    for knows_epoch, code in ((True, error_codes.UNKNOWN_LEADER_EPOCH), (False, error_codes.NOT_LEADER_OR_FOLLOWER)):
        with pytest.raises(KafkaError) as raised:
            leader.check_follower(4, -1, knows_epoch=knows_epoch)
        assert raised.value.code == code


def test_an_earlier_life_of_a_broker_is_not_believed(rules: Rules) -> None:
    leader = open_leader(rules)
    with pytest.raises(KafkaError) as raised:
        leader.check_follower(2, EPOCHS[2] - 1, knows_epoch=True)
    assert raised.value.code == error_codes.NOT_LEADER_OR_FOLLOWER
    leader.check_follower(2, -1, knows_epoch=True)
    leader.check_follower(2, EPOCHS[2] + 1, knows_epoch=True)  # the metadata here may be behind


def test_a_replica_that_is_silent_for_too_long_is_proposed_for_removal(rules: Rules) -> None:
    leader = open_leader(rules)
    append(leader)
    fetch(leader, 2, 1, 900)
    assert leader.shrink_in_sync(LAG_MS) is None
    change = leader.shrink_in_sync(LAG_MS + 1)
    assert change is not None
    assert (change.isr, change.removed, change.added) == ((1, 2), (3,), None)
    assert leader.shrink_in_sync(LAG_MS + 2) is None, "one proposal at a time"
    assert leader.in_sync.maximal_isr == (1, 2, 3), "until it is granted all count"
    assert leader.high_watermark.offset == 0
    assert leader.isr_granted(change, 0, 1, (1, 2), LAG_MS + 5)
    assert leader.high_watermark.offset == 1


@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch", "is_news"), [(0, 5, True), (0, 6, True), (0, 4, False), (1, 6, False)]
)
def test_an_answer_counts_unless_it_is_older_than_what_is_known(
    rules: Rules, leader_epoch: int, partition_epoch: int, is_news: bool
) -> None:
    leader = open_leader(rules)
    leader.update(PartitionState(0, 5, [1, 2, 3], [1, 2, 3]), 0)
    append(leader)
    fetch(leader, 2, 1, 900)
    change = leader.shrink_in_sync(LAG_MS + 1)
    assert change is not None
    assert leader.isr_granted(change, leader_epoch, partition_epoch, (1, 2), LAG_MS + 1) is is_news
    assert leader.isr == ((1, 2) if is_news else (1, 2, 3))
    assert leader.partition_epoch == (partition_epoch if is_news else 5)
    assert (leader.in_sync.pending is None) is is_news


def test_a_replica_at_the_log_end_stays_in_sync_without_writes(rules: Rules) -> None:
    leader = open_leader(rules)
    for node_id in (2, 3):
        fetch(leader, node_id, 0, 0)
    assert leader.shrink_in_sync(100 * LAG_MS) is None


def test_a_replica_that_always_trails_by_one_fetch_stays_in_sync(rules: Rules) -> None:
    leader = open_leader(rules, (1, 2))
    for now_ms in range(0, 5_000, 100):
        fetch(leader, 2, max(leader.log.log_end_offset - 1, 0), now_ms)
        append(leader)
        assert leader.shrink_in_sync(now_ms) is None
    assert leader.shrink_in_sync(4_900 + LAG_MS + 1) is not None


def test_fetches_of_a_session_that_do_not_name_a_partition_count_for_it(rules: Rules) -> None:
    leader, clock = open_leader(rules, (1, 2)), FetchClock()
    fetch(leader, 2, 0, 0, clock=clock)
    clock.ms = 50 * LAG_MS
    append(leader)
    assert leader.shrink_in_sync(51 * LAG_MS) is None
    assert leader.shrink_in_sync(51 * LAG_MS + 1) is not None


def test_session_time_does_not_count_for_a_replica_that_lags(rules: Rules) -> None:
    leader, clock = open_leader(rules, (1, 2)), FetchClock()
    append(leader)
    fetch(leader, 2, 0, 0, clock=clock)
    clock.ms = 50 * LAG_MS
    assert leader.shrink_in_sync(2 * LAG_MS) is not None


def test_the_clock_of_a_session_that_a_partition_has_left_says_nothing_of_it_any_more(rules: Rules) -> None:
    leader, clock = open_leader(rules, (1, 2)), FetchClock()
    for node_id in (2, 3):
        fetch(leader, node_id, 0, 0, clock=clock)
    leader.in_sync.pending = None
    clock.ms = 10.0
    for follower in leader.in_sync.followers.values():
        follower.leave_session(clock)
    clock.ms = 50 * LAG_MS
    append(leader)
    assert leader.shrink_in_sync(LAG_MS + 10) is None, "the last of its fetches counts"
    change = leader.shrink_in_sync(LAG_MS + 11)
    assert change is not None
    leader.isr_granted(change, 0, 1, (1,), LAG_MS + 11)
    assert leader.high_watermark.offset == 1, "nobody is about to join"


def test_a_partition_that_has_gone_over_to_another_session_goes_by_its_clock(rules: Rules) -> None:
    leader, before, clock = open_leader(rules, (1, 2)), FetchClock(), FetchClock()
    fetch(leader, 2, 0, 0, clock=before)
    fetch(leader, 2, 0, 1, clock=clock)
    leader.in_sync.followers[2].leave_session(before)
    clock.ms = 50 * LAG_MS
    append(leader)
    assert leader.shrink_in_sync(51 * LAG_MS) is None


def test_a_replica_that_caught_up_is_proposed_to_join(rules: Rules) -> None:
    leader = open_leader(rules, (1, 2))
    append(leader, 4)
    fetch(leader, 2, 3, 0)
    assert fetch(leader, 3, 2, 0).change is None, "the high watermark is at 3"
    change = fetch(leader, 3, 3, 0).change
    assert change is not None
    assert (change.isr, change.added) == ((1, 2, 3), 3)
    fetch(leader, 2, 4, 1)
    assert leader.high_watermark.offset == 3, "who may be in the set by now counts"
    assert leader.in_sync.with_epochs(change, 11) == [(1, 11), (2, 12), (3, 13)]
    assert not leader.isr_refused(change, error_codes.INELIGIBLE_REPLICA, 2 * LAG_MS)
    assert leader.in_sync.pending is None
    assert leader.high_watermark.offset == 4


def test_a_later_life_of_a_broker_does_not_come_in_by_a_proposal_of_an_earlier_one(rules: Rules) -> None:
    leader = open_leader(rules, (1, 2))
    change = fetch(leader, 3, 0, 0).change
    assert change is not None
    fetch(leader, 3, 0, 1, epoch=14)
    assert leader.in_sync.with_epochs(change, 11) == [(1, 11), (2, -1), (3, 13)]


def test_the_start_of_the_leaders_epoch_has_to_be_reached(rules: Rules) -> None:
    leader = open_leader(rules, (1,))
    append(leader, 5)
    leader.update(PartitionState(1, 1, [1, 2, 3], [1, 2]), 0)
    leader.high_watermark = leader.log.position_of(0)
    assert fetch(leader, 3, 4, 0).change is None
    assert fetch(leader, 3, 5, 0).change is not None


@pytest.mark.parametrize(
    "now",
    [None, broker(13, fenced=True), broker(13, shuts_down=True), broker(14)],
    ids=["gone", "fenced", "down", "started again"],
)
def test_a_replica_that_the_metadata_excludes_is_not_proposed(rules: Rules, now: Any) -> None:
    leader = open_leader(rules, (1, 2))
    rules.brokers = {1: broker(11), 2: broker(12)} | ({} if now is None else {3: now})
    assert fetch(leader, 3, 0, 0).change is None
    rules.brokers = {node_id: broker(epoch) for node_id, epoch in EPOCHS.items()}
    assert fetch(leader, 3, 0, 1).change is not None, "it asks again, and has no more than before"


def test_a_proposed_replica_holds_the_high_watermark_back_within_its_lag_time(rules: Rules) -> None:
    leader = open_leader(rules, (1,))
    change = fetch(leader, 2, 0, 0).change
    assert change is not None
    leader.isr_refused(change, error_codes.INELIGIBLE_REPLICA, 0)
    append(leader)
    assert leader.high_watermark.offset == 0
    assert not leader.recount(LAG_MS)
    assert leader.recount(LAG_MS + 1)
    assert leader.high_watermark.offset == 1


def test_records_are_not_committed_below_min_isr(rules: Rules) -> None:
    leader = open_leader(rules, (1,), min_isr=2)
    append(leader)
    assert leader.high_watermark.offset == 0
    assert not leader.has_enough_in_sync(2)
    change = fetch(leader, 2, 1, 0).change
    assert change is not None
    assert leader.has_reached_enough(2)
    assert not leader.has_enough_in_sync(2)
    assert leader.high_watermark.offset == 0
    leader.isr_granted(change, 0, 1, change.isr, 0)
    assert leader.high_watermark.offset == 1
    assert leader.has_enough_in_sync(2)


def test_a_minimum_above_the_number_of_replicas_asks_for_all_of_them(rules: Rules) -> None:
    leader = open_leader(rules, (1, 2, 3), min_isr=9)
    append(leader)
    for node_id in (2, 3):
        fetch(leader, node_id, 1, 0)
    assert leader.high_watermark.offset == 1
    assert leader.require_in_sync(1, 0) is False


@pytest.mark.parametrize(
    ("code", "goes_back", "again"),
    [
        (error_codes.OPERATION_NOT_ATTEMPTED, True, False),
        (error_codes.INELIGIBLE_REPLICA, True, False),
        (error_codes.UNKNOWN_TOPIC_OR_PARTITION, False, False),
        (error_codes.UNKNOWN_TOPIC_ID, False, False),
        (error_codes.FENCED_LEADER_EPOCH, False, False),
        (error_codes.INVALID_UPDATE_VERSION, False, False),
        (error_codes.INVALID_REQUEST, False, False),
        (error_codes.NEW_LEADER_ELECTED, False, False),
        (error_codes.NOT_CONTROLLER, False, True),
        (error_codes.UNKNOWN_SERVER_ERROR, False, True),
    ],
)
def test_a_refusal_takes_back_waits_for_the_metadata_or_is_asked_again(
    rules: Rules, code: int, goes_back: bool, again: bool
) -> None:
    leader = open_leader(rules)
    change = leader.shrink_in_sync(LAG_MS + 1)
    assert change is not None
    assert leader.isr_refused(change, code, LAG_MS + 2) is again
    assert (leader.in_sync.pending is None) is goes_back


def test_the_metadata_end_a_proposal_and_late_answers_say_nothing(rules: Rules) -> None:
    leader = open_leader(rules)
    change = leader.shrink_in_sync(LAG_MS + 1)
    assert change is not None
    leader.update(PartitionState(0, 1, [1, 2, 3], [1, 3]), LAG_MS + 2)
    assert (leader.isr, leader.partition_epoch, leader.in_sync.pending) == ((1, 3), 1, None)
    assert not leader.isr_granted(change, 0, 1, (1,), LAG_MS + 3)
    assert not leader.isr_refused(change, error_codes.UNKNOWN_SERVER_ERROR, LAG_MS + 3)
    leader.update(PartitionState(0, 0, [1, 2, 3], [1, 2, 3]), LAG_MS + 4)
    assert leader.isr == (1, 3), "older than what is known"


def test_an_answer_of_another_epoch_waits_for_the_metadata(rules: Rules) -> None:
    leader = open_leader(rules)
    change = leader.shrink_in_sync(LAG_MS + 1)
    assert change is not None
    assert not leader.isr_granted(change, 1, 1, (1,), LAG_MS + 2)
    assert leader.in_sync.pending is change


def test_a_term_goes_on_over_epochs_and_followers_keep_where_they_are(rules: Rules) -> None:
    leader = open_leader(rules, (1, 2))
    append(leader, 2)
    fetch(leader, 2, 1, 0)
    leader.update(PartitionState(1, 1, [1, 2], [1, 2]), 500)
    assert (leader.term, leader.epoch, leader.epoch_start_offset) == (0, 1, 2)
    assert leader.high_watermark.offset == 1
    assert leader.shrink_in_sync(500 + LAG_MS) is None
    assert leader.shrink_in_sync(501 + LAG_MS) is not None
    with pytest.raises(KafkaError):
        leader.check_follower(3, -1, knows_epoch=True)


@pytest.mark.parametrize("replicas", [[1, 2], [1]])
def test_a_broker_that_is_no_replica_any_more_counts_until_it_has_left_the_set(
    rules: Rules, replicas: list[int]
) -> None:
    leader = open_leader(rules)
    end_offset = append(leader, 3)
    fetch(leader, 2, end_offset, 0)
    leader.update(PartitionState(1, 1, replicas, (1, 2, 3)), 0)
    assert append(leader) == end_offset + 1
    assert leader.high_watermark.offset == 0  # 3 may still be elected, and has nothing
    with pytest.raises(KafkaError):
        fetch(leader, 3, 0, 0)
    change = leader.shrink_in_sync(0)
    assert change is not None
    assert 3 in change.removed
    assert leader.isr_granted(change, 1, 2, change.isr, 0)
    in_all = end_offset if 2 in replicas else end_offset + 1
    assert leader.high_watermark.offset == in_all


def test_deletions_wait_for_live_replicas_only(rules: Rules) -> None:
    leader = open_leader(rules)
    assert leader.low_watermark() == -1
    for node_id, start in ((2, 4), (3, 2)):
        follower = leader.check_follower(node_id, -1, knows_epoch=True)
        follower.log_start_offset = start
    leader.log.log_start_offset = 7
    assert leader.low_watermark() == 2
    rules.brokers = {1: broker(11), 2: broker(12), 3: broker(13, fenced=True)}
    assert leader.low_watermark() == 4


class Partition(RuleBasedStateMachine):
    """A leader, two followers that fetch what they have, and a controller that answers late, or loses answers."""

    def __init__(self) -> None:
        super().__init__()
        self.membership = Rules(LAG_MS, {node_id: broker(epoch) for node_id, epoch in EPOCHS.items()})
        self.leader = open_leader(self.membership, min_isr=2)
        self.now_ms = 0.0
        self.ends = {2: 0, 3: 0}
        self.granted: list[tuple[int, ...]] = [(1, 2, 3)]
        """Every set that the controller has committed, by partition epoch."""
        self.leader_epoch = 0
        self.asked: list[IsrChange] = []
        self.answers: list[tuple[IsrChange, int, int, int]] = []
        self.high_watermark = 0
        self.clocks = {2: FetchClock(), 3: FetchClock()}

    @initialize(isr=st.sampled_from([(1,), (1, 2), (1, 2, 3)]))
    def begins(self, isr: tuple[int, ...]) -> None:
        self.granted[0] = isr
        self.leader = open_leader(self.membership, isr, min_isr=1)

    @rule(records=st.integers(1, 3))
    def produce(self, records: int) -> None:
        append(self.leader, records)

    @rule(node_id=st.sampled_from((2, 3)), share=st.floats(0, 1), named=st.booleans())
    def fetches(self, node_id: int, share: float, named: bool) -> None:
        end = self.leader.log.log_end_offset
        self.ends[node_id] += round((end - self.ends[node_id]) * share)
        clock = self.clocks[node_id] if named else None
        self._ask(fetch(self.leader, node_id, self.ends[node_id], self.now_ms, clock=clock).change)
        self.clocks[node_id].ms = self.now_ms

    @rule(elapsed_ms=st.sampled_from((1, 400, 1_100)))
    def time_passes(self, elapsed_ms: float) -> None:
        self.now_ms += elapsed_ms

    @rule()
    def looks(self) -> None:
        self._ask(self.leader.shrink_in_sync(self.now_ms))
        self.leader.recount(self.now_ms)

    @rule(node_id=st.sampled_from((2, 3)), is_up=st.booleans())
    def a_broker_is_fenced_or_not(self, node_id: int, is_up: bool) -> None:
        self.membership.brokers = {**self.membership.brokers, node_id: broker(EPOCHS[node_id], fenced=not is_up)}

    @precondition(lambda self: self.asked)
    @rule(which=st.integers(0, 9), is_fenced=st.booleans())
    def the_controller_decides(self, which: int, is_fenced: bool) -> None:
        change = self.asked.pop(which % len(self.asked))
        partition_epoch = len(self.granted) - 1
        code = error_codes.NONE
        if change.leader_epoch < self.leader_epoch:
            code = error_codes.FENCED_LEADER_EPOCH
        elif change.partition_epoch < partition_epoch:
            code = error_codes.INVALID_UPDATE_VERSION
        elif is_fenced:
            code = error_codes.INELIGIBLE_REPLICA
        else:
            self.granted.append(change.isr)
        self.answers.append((change, code, self.leader_epoch, len(self.granted) - 1))

    @precondition(lambda self: self.answers)
    @rule(which=st.integers(0, 9), is_lost=st.booleans())
    def an_answer_comes(self, which: int, is_lost: bool) -> None:
        """Or is lost, and asked for again."""
        change, code, leader_epoch, partition_epoch = self.answers.pop(which % len(self.answers))
        leader = self.leader
        if is_lost:
            if leader.in_sync.pending is change:
                self.asked.append(change)
        elif code == error_codes.NONE:
            leader.isr_granted(change, leader_epoch, partition_epoch, change.isr, self.now_ms)
        elif leader.isr_refused(change, code, self.now_ms):
            self.asked.append(change)

    @rule(behind=st.integers(0, 2), new_epoch=st.booleans())
    def the_metadata_come(self, behind: int, new_epoch: bool) -> None:
        """Apply the committed metadata, or an older state of them; a broker may have been elected again."""
        if new_epoch:
            self.leader_epoch += 1
            self.granted.append(self.granted[-1])
            behind = 0
        partition_epoch = max(len(self.granted) - 1 - behind, 0)
        isr = self.granted[partition_epoch]
        self.leader.update(PartitionState(self.leader_epoch, partition_epoch, (1, 2, 3), isr), self.now_ms)

    def _ask(self, change: IsrChange | None) -> None:
        if change is not None:
            self.asked.append(change)

    @invariant()
    def the_high_watermark_never_goes_back(self) -> None:
        now = self.leader.high_watermark.offset
        assert self.high_watermark <= now <= self.leader.log.log_end_offset
        self.high_watermark = now

    @invariant()
    def every_possible_isr_member_has_what_is_committed(self) -> None:
        """Whatever of it the controller grants next, and whether the leader has heard of the last or not."""
        for node_id in self.granted[-1]:
            if node_id != 1:
                assert self.ends[node_id] >= self.high_watermark

    @invariant()
    def the_set_is_one_that_was_granted(self) -> None:
        assert self.leader.isr in self.granted
        assert self.leader.partition_epoch <= len(self.granted) - 1


Partition.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestPartition = Partition.TestCase


def live(machine: Any, rng: Random, steps: int) -> None:
    """A number of events; those that lead anywhere are frequent."""
    machine.begins(isr=rng.choice([(1,), (1, 2), (1, 2, 3)]))
    events: list[tuple[int, Callable[[], None]]] = [
        (4, lambda: machine.produce(records=1)),
        (8, lambda: machine.fetches(node_id=rng.choice((2, 3)), share=rng.choice((0, 0.5, 1, 1)), named=True)),
        (3, lambda: machine.time_passes(elapsed_ms=rng.choice((1, 400, 1_100)))),
        (3, machine.looks),
        (1, lambda: machine.a_broker_is_fenced_or_not(node_id=rng.choice((2, 3)), is_up=rng.random() < 0.8)),
        (4, lambda: machine.the_controller_decides(which=rng.randrange(9), is_fenced=rng.random() < 0.1)),
        (3, lambda: machine.an_answer_comes(which=rng.randrange(9), is_lost=rng.random() < 0.3)),
        (2, lambda: machine.the_metadata_come(behind=rng.choice((0, 0, 1, 2)), new_epoch=rng.random() < 0.1)),
    ]
    weights, calls = zip(*events, strict=True)
    for call in rng.choices(calls, weights, k=steps):
        if (call is not calls[5] or machine.asked) and (call is not calls[6] or machine.answers):
            call()
            machine.the_high_watermark_never_goes_back()
            machine.every_possible_isr_member_has_what_is_committed()
            machine.the_set_is_one_that_was_granted()


@pytest.mark.parametrize("seed", range(6))
def test_the_in_sync_rules_hold_in_long_random_runs(seed: int) -> None:
    rng = Random(seed)
    for _ in range(40):
        live(Partition(), rng, 200)


def test_a_replica_with_a_failed_log_directory_is_not_waited_for(rules: Rules) -> None:
    def uses(*directories: bytes) -> Any:
        return SimpleNamespace(**vars(broker(EPOCHS[3])), can_use=lambda directory: directory in directories)

    places = [b"a", b"b", b"c"]
    rules.brokers = {1: broker(11), 2: broker(12), 3: uses(b"c", b"d")}
    for node_id in (1, 2):
        rules.brokers[node_id].can_use = lambda _directory: True
    leader = open_leader(rules)
    leader.update(PartitionState(0, 1, [1, 2, 3], [1, 2, 3], places), 0.0)
    for node_id in (2, 3):
        fetch(leader, node_id, 0, 1.0)
    end = append(leader)
    leader.update(PartitionState(0, 2, [1, 2, 3], [1, 2], places), 2.0)
    fetch(leader, 2, end, 3.0)
    assert leader.high_watermark.offset == 0, "the third lives, and was caught up: it may be about to join again"
    rules.brokers = {**rules.brokers, 3: uses(b"d")}
    assert leader.recount(4.0)
    assert leader.high_watermark.offset == end
