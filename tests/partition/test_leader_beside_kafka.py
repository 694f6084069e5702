"""The same events to a leader and to Kafka's own ``Partition``: who is in sync, what is proposed, what is committed."""

from collections.abc import Iterator
from random import Random

import pytest
from test_leader_in_sync import EPOCHS, LAG_MS, append, broker, open_leader

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.in_sync import IsrChange, PartitionState, Rules
from kpywire import error_codes
from oracle.asked import AskedOracle
from oracle.recorded import Asked, Play

LIVES = 40
STEPS = 60
NOT_EXPECTED = (error_codes.UNKNOWN_SERVER_ERROR, error_codes.NOT_CONTROLLER, error_codes.REQUEST_TIMED_OUT)


def started() -> AskedOracle:
    return AskedOracle("PartitionOracle.java", "PartitionOracle")


@pytest.fixture(scope="module")
def kafka() -> Iterator[AskedOracle]:
    oracle = started()
    yield oracle
    oracle.close()


class Twins:
    """A partition here and in Kafka. The test is its followers, its controller and its clock."""

    def __init__(self, kafka: Asked, rng: Random) -> None:
        self.kafka, self.rng = kafka, rng
        self.events: list[str] = []
        self.is_over = False
        """Whether they have committed different things, which is as it should be."""
        self.now_ms = 0.0
        isr, min_isr = rng.choice(((1,), (1, 2), (1, 2, 3))), rng.randint(1, 3)
        self.membership = Rules(LAG_MS, {node_id: broker(epoch) for node_id, epoch in EPOCHS.items()})
        self.leader = open_leader(self.membership, isr, min_isr=min_isr)
        self.ends = {2: 0, 3: 0}
        self.leader_epoch = 0
        self.granted: list[tuple[int, ...]] = [isr]
        self.asked: list[IsrChange] = []
        self.unanswered: list[int] = []
        self.say("begin", int(LAG_MS), min_isr, ",".join(map(str, isr)))

    def say(self, *words: object) -> None:
        """Tell Kafka too, and compare."""
        self.events.append(" ".join(map(str, words)))
        line = self.kafka.ask_for_line(*words)
        theirs = dict(word.split("=", 1) for word in line.split(" "))
        ours = self.state()
        committed_there, committed_here = int(theirs.pop("hw")), int(ours.pop("hw"))
        assert ours == theirs, "\n".join(self.events)
        # After a refusal a leader here looks again at once, Kafka at the next event.
        assert committed_here >= committed_there, "\n".join(self.events)
        self.is_over = committed_here != committed_there
        assert not self.is_over or words[0] == "answer", "\n".join(self.events)

    def state(self) -> dict[str, str]:
        leader, in_sync = self.leader, self.leader.in_sync
        last = ""
        if self.asked:
            change = self.asked[-1]
            members = sorted(in_sync.with_epochs(change, EPOCHS[1]))
            last = ",".join(f"{node_id}:{epoch}" for node_id, epoch in members)
            last += f"@{change.leader_epoch}/{change.partition_epoch}"
        return {
            "hw": str(leader.high_watermark.offset),
            "end": str(leader.log.log_end_offset),
            "isr": ",".join(map(str, sorted(leader.isr))),
            "maximal": ",".join(map(str, sorted(in_sync.maximal_isr))),
            "pending": str(in_sync.pending is not None).lower(),
            "epochs": f"{leader.epoch}/{leader.partition_epoch}",
            "low": str(leader.low_watermark()),
            "under": str(in_sync.is_under_min_isr).lower(),
            "asked": str(len(self.asked)),
            "last": last,
        }

    def propose(self, change: IsrChange | None) -> None:
        if change is not None:
            self.unanswered.append(len(self.asked))
            self.asked.append(change)

    # Events.

    def appends(self) -> None:
        count = self.rng.randint(1, 3)
        append(self.leader, count)
        self.leader.recount(self.now_ms)
        self.say("append", count)

    def fetches(self) -> None:
        node_id, rng = self.rng.choice((2, 3)), self.rng
        missing = self.leader.log.log_end_offset - self.ends[node_id]
        self.ends[node_id] += round(missing * rng.choice((0, 0.5, 1, 1)))
        epoch = rng.choice((EPOCHS[node_id], EPOCHS[node_id], EPOCHS[node_id], -1, EPOCHS[node_id] - 1))
        start_offset = rng.randint(0, self.ends[node_id])
        try:
            follower = self.leader.check_follower(node_id, epoch, knows_epoch=True)
        except KafkaError:
            pass
        else:
            noted = self.leader.note_fetch(follower, epoch, self.ends[node_id], start_offset, self.now_ms)
            self.propose(noted.change)
        self.say("fetch", node_id, self.ends[node_id], start_offset, epoch)

    def time_passes(self) -> None:
        elapsed_ms = self.rng.choice((1, 300, 700, 1_001))
        self.now_ms += elapsed_ms
        self.say("time", elapsed_ms)

    def looks(self) -> None:
        self.propose(self.leader.shrink_in_sync(self.now_ms))
        self.say("shrink")

    def broker_changes(self) -> None:
        node_id = self.rng.choice((2, 3))
        what = self.rng.choice(("up", "up", "fenced", "shuts down"))
        changed = broker(EPOCHS[node_id], fenced=what == "fenced", shuts_down=what == "shuts down")
        self.membership.brokers = {**self.membership.brokers, node_id: changed}
        self.say("broker", node_id, EPOCHS[node_id], what)

    def answer_comes(self) -> None:
        if not self.unanswered:
            return
        number = self.unanswered.pop(self.rng.randrange(len(self.unanswered)))
        change, leader = self.asked[number], self.leader
        code, partition_epoch = error_codes.NONE, len(self.granted) - 1
        if change.leader_epoch < self.leader_epoch:
            code = error_codes.FENCED_LEADER_EPOCH
        elif change.partition_epoch < partition_epoch:
            code = error_codes.INVALID_UPDATE_VERSION
        elif self.rng.random() < 0.4:
            refusals = error_codes.INELIGIBLE_REPLICA, error_codes.OPERATION_NOT_ATTEMPTED, error_codes.INVALID_REQUEST
            code = self.rng.choice((*refusals, *NOT_EXPECTED, error_codes.NEW_LEADER_ELECTED))
        if code == error_codes.NONE:
            self.granted.append(change.isr)
            leader.isr_granted(change, self.leader_epoch, partition_epoch + 1, change.isr, self.now_ms)
        elif leader.isr_refused(change, code, self.now_ms):
            self.propose(change)
        isr = ",".join(map(str, change.isr))
        self.say("answer", number, code, self.leader_epoch, partition_epoch + 1, isr)

    def metadata_come(self) -> None:
        """Also older ones, or an election of the same leader; but see the test below of what is known already."""
        behind = self.rng.choice((0, 0, 1))
        if self.rng.random() < 0.15:
            self.leader_epoch += 1
            self.granted.append(self.granted[-1])
            behind = 0
        partition_epoch = max(len(self.granted) - 1 - behind, 0)
        if self.leader.in_sync.pending is not None and partition_epoch == self.leader.partition_epoch:
            return
        isr = self.granted[partition_epoch]
        self.leader.update(PartitionState(self.leader_epoch, partition_epoch, (1, 2, 3), isr), self.now_ms)
        self.say("learn", self.leader_epoch, partition_epoch, ",".join(map(str, isr)))


@pytest.mark.java
@pytest.mark.parametrize("seed", range(3))
def test_both_see_the_same(kafka: AskedOracle, seed: int) -> None:
    compare(kafka, seed, LIVES)


def test_a_leader_sees_what_kafka_saw(recorded: Play) -> None:
    compare(recorded(started), 0, LIVES // 2)


def compare(kafka: Asked, seed: int, lives: int) -> None:
    rng = Random(seed)
    for _ in range(lives):
        twins = Twins(kafka, rng)
        events = [
            *[twins.appends] * 3,
            *[twins.fetches] * 6,
            *[twins.time_passes] * 2,
            *[twins.looks] * 2,
            twins.broker_changes,
            *[twins.answer_comes] * 3,
            twins.metadata_come,
        ]
        for _ in range(STEPS):
            if not twins.is_over:
                rng.choice(events)()


@pytest.mark.java
def test_kafka_forgets_a_proposal_when_metadata_tell_it_what_it_knows(kafka: AskedOracle) -> None:
    """And commits without a replica that the controller may have let in by then; a leader here does not."""
    kafka.ask_for_line("begin", int(LAG_MS), 1, "1,2")
    kafka.ask_for_line("append", 1)
    assert " maximal=1,2,3 pending=true " in kafka.ask_for_line("fetch", 3, 0, 0, EPOCHS[3])
    assert " maximal=1,2 pending=false " in kafka.ask_for_line("learn", 0, 0, "1,2")
    kafka.ask_for_line("time", int(LAG_MS) + 1)
    assert kafka.ask_for_line("fetch", 2, 1, 0, EPOCHS[2]).startswith("hw=1 ")
