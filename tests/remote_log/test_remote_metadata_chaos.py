"""Three brokers that write to ``__remote_log_metadata`` while any of them dies, is cut off, or loses the leadership."""

from random import Random
from typing import Any

import pytest
from metadata_world import USER_TOPIC, MetadataNode, MetadataWorld, copy_of
from remote_log_histories import update

from kpybroker.hosts.remote_log.metadata_log import LedMetadataLog
from kpybroker.hosts.remote_log.metadata_view import MetadataView
from kpybroker.hosts.remote_log.metadata_writer import MetadataWriter
from kpybroker.machines.metadata.topic import Partition
from kpybroker.machines.remote_log.segments import DELETED, STARTED, Record, RemoteLogSegmentState
from kpywire import error_codes
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from tests.replication.replica_world import TOPIC_ID

PARTITIONS = 2
USER_PARTITIONS = 6
STEPS = 100
PLANTED_SEEDS = 40
GONE = DELETED + 1


class MetadataChaos:
    """The writes, the misfortunes, and what must hold."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.world = MetadataWorld(partitions=PARTITIONS, seed=seed, topic={"min.insync.replicas": "2"})
        self.world.need(*range(USER_PARTITIONS))
        self.numbers = 0
        self.reported: dict[int, int] = {}
        """The last state of each segment that was reported as written."""
        self.writing: dict[int, int] = {}
        """The states that are being written, by segment; for ever, where the writer has died."""
        self.writers: dict[int, tuple[int, int]] = {}
        """The node that writes, and its life."""
        self.attempted: dict[int, int] = {}
        """The last state that may be in the log."""
        self.refused: list[str] = []
        self.seen: dict[tuple[int, int, int], int] = {}
        """The last state that a life of a node knew of a segment."""

    # Writes

    def next_record(self, number: int) -> Record:
        made = copy_of(number, number % USER_PARTITIONS)
        following = self.reported.get(number, -1) + 1
        return made if following == STARTED else update(made, RemoteLogSegmentState(following))

    def writes(self) -> None:
        node = self.rng.choice(list(self.world.nodes.values()))
        if node.metadata is None:
            return
        open_ones = [
            number
            for number, state in self.reported.items()
            if state < DELETED and number not in self.writing and self.known(node, number) == state
        ]
        for _ in range(self.rng.randint(1, 4)):
            if open_ones and self.rng.random() < 0.6:
                number = open_ones.pop(self.rng.randrange(len(open_ones)))
            else:
                self.numbers += 1
                number = self.numbers
            self._write(node, number)

    def _write(self, node: MetadataNode, number: int) -> None:
        record, life = self.next_record(number), node.life
        state: int = record.state
        self.writers[number] = node.id, life
        self.writing[number] = self.attempted[number] = state

        def done(reason: str | None) -> None:
            assert node.life == life, "a write of an ended node is reported"
            assert self.writing.pop(number, None) == state, "a write is reported twice"
            del self.writers[number]
            if reason is None:
                self.reported[number] = state
                known = self.known(node, number)
                assert known >= state, f"{node.id} does not know what it wrote"
            else:
                self.refused.append(reason)

        assert node.metadata is not None
        node.metadata.write(record, done)

    def known(self, node: MetadataNode, number: int) -> int:
        """The state that a node knows, -1 for none and `GONE` for a segment that was deleted."""
        state = node.state(copy_of(number, number % USER_PARTITIONS))
        if state is None and self.attempted[number] == DELETED:
            return GONE
        return -1 if state is None or state is False else int(state)

    # Misfortunes

    def state(self, index: int) -> Partition:
        return self.world.committed().topics_by_id[TOPIC_ID].partitions[index]

    def elect(self, index: int) -> None:
        able = [each for each in self.state(index).isr if self.world.nodes[each].is_up]
        if able:
            self.world.lead(self.rng.choice(able), index)

    def kill(self, node: MetadataNode) -> None:
        is_last = any(self.state(index).isr == (node.id,) for index in range(PARTITIONS))
        node.kill(power_fails=not is_last and self.rng.random() < 0.5)
        for index in range(PARTITIONS):
            held = self.state(index)
            isr = [each for each in held.isr if each != node.id] or [node.id]
            if node.id in held.isr:
                change = PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=index, isr=isr)
                if held.leader == node.id:
                    change.leader = isr[0] if self.world.nodes[isr[0]].is_up else -1
                self.world.tell(change)

    def start(self, node: MetadataNode) -> None:
        node.start()
        assert node.metadata is not None
        for index in range(USER_PARTITIONS):
            node.metadata.need(USER_TOPIC, index)
        for index in range(PARTITIONS):
            if self.state(index).leader < 0:
                self.elect(index)

    def step(self) -> None:
        rng, world = self.rng, self.world
        node, choice = world.nodes[rng.randint(1, 3)], rng.random()
        if choice < 0.5:
            self.writes()
        elif choice < 0.62:
            self.elect(rng.randrange(PARTITIONS))
        elif choice < 0.74:
            world.cut = {(a, b) for a in world.nodes for b in world.nodes if a != b and rng.random() < 0.3}
        elif choice < 0.82:
            world.cut = set()
        elif choice < 0.89 and node.is_up:
            self.kill(node)
        elif choice < 0.96 and not node.is_up:
            self.start(node)
        world.run(rng.choice((0, 1, 5, 50, 700, 5_000)))

    # Invariants

    def check(self) -> None:
        """No life of a node forgets what it knew."""
        for node in self.world.nodes.values():
            if node.metadata is None:
                continue
            for number in range(1, self.numbers + 1):
                place = (node.id, node.life, number)
                before, now = self.seen.get(place, -1), self.known(node, number)
                assert now >= before, f"node {node.id} knew segment {number} in {before}, and now in {now}"
                self.seen[place] = now

    def comes_to_rest(self) -> None:
        """All that was reported is known to all, and all know the same."""
        self.world.cut = set()
        for node in self.world.nodes.values():
            if not node.is_up:
                self.start(node)
        self.world.settle(60_000)
        self.check()
        for number in range(1, self.numbers + 1):
            states: list[Any] = [
                node.state(copy_of(number, number % USER_PARTITIONS)) for node in self.world.nodes.values()
            ]
            assert states[0] is not False, "a node knows nothing"
            assert states == states[:1] * 3, f"the nodes know {states} of segment {number}"
            assert self.known(self.world.nodes[1], number) >= self.reported.get(number, -1)

    def unsettled(self) -> list[int]:
        """The segments whose writes were not reported, though their writers live."""
        return [number for number, (node_id, life) in self.writers.items() if self.world.nodes[node_id].life == life]


def play(seed: int) -> MetadataChaos:
    chaos = MetadataChaos(seed)
    for _ in range(STEPS):
        chaos.step()
        chaos.check()
    chaos.comes_to_rest()
    return chaos


@pytest.mark.seeds(0, 12)
def test_what_was_reported_as_written_is_known_to_all_and_no_view_goes_back(seed: int) -> None:
    chaos = play(seed)
    assert chaos.reported
    assert not chaos.refused
    assert not chaos.unsettled()


def _answers_settle(self: MetadataWriter, attempt: int, count: int, code: int) -> None:
    ANSWERED(self, attempt, count, code)
    if code == error_codes.NONE:
        for record in list(self._sent):
            self.applied(record)


def _reads_to_the_end(self: LedMetadataLog) -> Any:
    leader = self._replica.led()
    leader.high_watermark, before = leader.log.end, leader.high_watermark
    try:
        return NEXT(self)
    finally:
        leader.high_watermark = before


def _is_ready_at_once(self: MetadataView, reader: Any) -> None:
    BEGIN(self, reader)
    self.ready_at = 0
    self.reached()


ANSWERED, NEXT, BEGIN = MetadataWriter._answered, LedMetadataLog._next, MetadataView.begin
BUGS: dict[str, tuple[Any, str, object]] = {
    "an answer counts as a commit": (MetadataWriter, "_answered", _answers_settle),
    "a leader reads what is not committed": (LedMetadataLog, "_next", _reads_to_the_end),
    "a view is ready before it was read": (MetadataView, "begin", _is_ready_at_once),
    "a failed batch is sent no more": (MetadataWriter, "_again", lambda *_: None),
}


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, replacement = BUGS[bug]
    monkeypatch.setattr(place, name, replacement)
    assert is_found(), bug


def is_found() -> bool:
    """Whether a history breaks an invariant."""
    for seed in range(PLANTED_SEEDS):
        try:
            chaos = play(seed)
        except (AssertionError, KeyError):
            return True
        if chaos.refused or chaos.unsettled():
            return True
    return False
