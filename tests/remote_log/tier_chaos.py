"""Random histories of a tiered partition on three nodes: transactions, elections, lost disks, deleted records, changed
settings, kills in the middle of copies, and a store that is slow, fails, tears uploads and lists what was.

In the end everything heals. Then the topic is kept, or no longer tiered, or deleted, and all has to come to rest.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final

from tier_nodes import TierNode, TierNodes
from tier_reader import TierReader
from tier_rules import TierRules

from kpybroker.hosts.remote_log import partition_deletions
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic import Partition
from kpybroker.machines.partition.leader import PartitionLeader
from kpystorage.errors import OutOfOrderSequence
from kpywire.batch import batch_headers
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from tests.replication.replica_world import TOPIC, TOPIC_ID, TOPIC_RESOURCE
from tests.sim.store import StoreConditions

STEPS: Final = 110
NODES: Final = (1, 2, 3)
PAUSES_MS: Final = (0, 1, 5, 50, 300, 1_500)
REST_STEP_MS: Final = 5_000
REST_STEPS: Final = 80
COPY_STEPS: Final = 20
HOUR_MS: Final = 3_600_000
TIERED: Final = {
    "remote.storage.enable": "true",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "local.retention.bytes": "1",
    "segment.ms": "1000",
    "index.interval.bytes": "100",
    "file.delete.delay.ms": "100",
}
FETCH_LAST_TIERED: Final = "follower.fetch.last.tiered.offset.enable"


class TierChaos:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        overrides = {FETCH_LAST_TIERED: "true"} if rng.random() < 0.3 else {}
        is_skewed = rng.random() < 0.3
        skews_ms = tuple(rng.randint(-HOUR_MS, HOUR_MS) if is_skewed else 0 for _ in NODES)
        self.topic = dict(TIERED)
        self.retains = rng.random() < 0.4
        if self.retains:
            self.topic["retention.bytes"] = str(rng.choice((600, 2_000)))
        self.deletes_records = rng.random() < 0.5
        self.loses_copies = seed % 16 == 13
        """Whether leaders are elected that lack what another one has copied."""
        self.is_reckless = rng.random() < 0.4 or self.loses_copies
        """Whether disks of the last in sync are lost, and leaders are elected that lack records."""
        self.world = TierNodes(rng, self.topic, overrides, skews_ms)
        self.rules = TierRules(self.world)
        self.rules.retention_bytes = int(self.topic["retention.bytes"])
        self.reader = TierReader(self.world, self.rules, Random(seed))
        self.counted: dict[str, int] = {}
        self.producers = 0
        self.sequences: dict[int, int] = {}
        """The last sequence of producers of transactions."""
        self.repeated: tuple[int, int, int] | None = None
        """The last batch of a producer that had no transaction: producer, sequence, and the offset behind it."""

    def note(self, what: str) -> None:
        self.counted[what] = self.counted.get(what, 0) + 1

    def state(self) -> Partition:
        return self.world.committed().topics_by_id[TOPIC_ID].partitions[0]

    def check(self) -> None:
        """AssertionError if a rule does not hold."""
        self.rules.check()
        assert not self.rules.violations, self.rules.violations[0]

    # Events

    def step(self) -> None:
        """One event, and some time."""
        rng, found, choice = self.rng, self.rules.leader(), self.rng.random()
        node = self.world.nodes[rng.choice(NODES)]
        if choice < 0.36:
            self.produce(found)
        elif choice < 0.46 and found is not None:
            found[0].log().roll(found[0].scheduler.now_ms())
        elif choice < 0.52:
            self.elect()
        elif choice < 0.58:
            self.change_store()
        elif choice < 0.64:
            self.end_node(self.world.nodes[self.state().isr[-1]] if rng.random() < 0.4 else node)
        elif choice < 0.80 and not node.is_up:
            self.start(node)
        elif choice < 0.83 and found is not None:
            self.delete_records(*found)
        elif choice < 0.85:
            self.change_topic()
        elif choice < 0.87:
            self.world.metadata_leader = rng.choice(NODES)
        elif choice < 0.89:
            self.leave_behind(node)
        elif choice < 0.91:
            self.world.cut = {(a, b) for a in NODES for b in NODES if a != b and rng.random() < 0.15}
        elif choice < 0.93:
            self.world.cut = set()
        elif choice < 0.94 and self.is_reckless:
            self.elect_recklessly()
        elif choice < 0.99 and self.loses_copies and found is not None:
            self.lose_what_is_copied(found[0])
        self.world.pass_time(rng.choice(PAUSES_MS) if rng.random() < 0.97 else 12_000)
        self.reader.go_on()

    def produce(self, found: tuple[TierNode, PartitionLeader] | None) -> None:
        """Write a batch: of no producer, of an idempotent one, or in a transaction that may end with it."""
        if found is None:
            return
        node, rng = found[0], self.rng
        opened = open_transactions(node)
        try:
            if opened and rng.random() < 0.4:
                node.end_transaction(rng.choice(opened), commit=rng.random() < 0.5)
                return
            if rng.random() < 0.55:
                self.produce_plainly(node)
                return
            known = [each for each in opened if each in self.sequences]
            if not known or rng.random() < 0.6:
                self.producers += 1
                known = [self.producers]
            producer = rng.choice(known)
            sequence = self.sequences.pop(producer, -1) + 1
            of_producer = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
            node.produce(1, transactional=True, **of_producer)
            self.sequences[producer] = sequence
        except (KafkaError, OutOfOrderSequence):  # a leader that lacks what was not committed
            self.note("refused")

    def produce_plainly(self, node: TierNode) -> None:
        """Write outside of transactions; repeat a batch of an idempotent producer now and then."""
        if self.repeated is not None and self.rng.random() < 0.5:
            self.repeat(node)
        elif self.rng.random() < 0.4:
            self.producers += 1
            of_producer = {"producer_id": self.producers, "producer_epoch": 0, "base_sequence": 0}
            self.repeated = self.producers, 0, node.produce(1, **of_producer)
        else:
            node.produce(self.rng.randint(1, 4), value_bytes=self.rng.choice((20, 200)))

    def repeat(self, node: TierNode) -> None:
        """Write a committed batch again: the log knows it."""
        assert self.repeated is not None
        producer, sequence, end = self.repeated
        known = [each for each in self.rules.committed.values() if each.next_offset == end]
        is_known = known and next(batch_headers(known[0].data))[1].producer_id == producer
        if end <= self.rules.start or not is_known or self.rules.losses:
            return
        self.note("repeated")
        of_producer = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
        before = node.log().end.offset
        node.produce(1, **of_producer)
        self.rules.must(node.log().end.offset == before, f"the batch of producer {producer} is written twice")

    def elect(self) -> None:
        """Let another leader begin, of those in sync; epochs may have gaps."""
        able = [each for each in self.state().isr if self.world.nodes[each].is_up]
        if able:
            for _ in range(self.rng.randint(1, 2)):
                self.lead(self.rng.choice(able))

    def lead(self, leader: int, **change: Any) -> None:
        change = {"topic_id": TOPIC_ID, "partition_id": 0, "leader": leader, **change}
        self.world.hear(PartitionChangeRecord(**change))

    def elect_recklessly(self) -> None:
        """Let a node lead that lacks committed records: an unclean election."""
        behind = [
            node
            for node in self.world.nodes.values()
            if node.is_up and node.id not in self.state().isr and node.log().size
        ]
        if not behind:
            return
        self.lead_uncleanly(self.rng.choice(behind))

    def lose_what_is_copied(self, leader: TierNode) -> None:
        """Let a leader copy a segment of which another node has the beginning alone, and let that one lead."""
        awake = [node for node in self.world.nodes.values() if node.is_up and not node.is_behind]
        others = [node for node in awake if node is not leader and node.id in self.state().isr]
        if not others or leader not in awake or self.topic.get("remote.log.copy.disable") == "true":
            return
        node = self.rng.choice(others)
        self.world.store.heal()
        self.world.cut = set()
        for producer in open_transactions(leader):
            leader.end_transaction(producer, commit=True)
        self.configure("segment.ms", "60000")
        leader.log().roll(leader.scheduler.now_ms())
        leader.produce(1)
        self.pass_until(lambda: node.log().end.offset == leader.log().end.offset)
        self.world.cut = {(a, b) for a in NODES for b in NODES if a != b and node.id in (a, b)}
        self.lead(leader.id, isr=[leader.id])
        self.world.pass_time(1_000)
        leader.produce(self.rng.randint(1, 3))
        leader.log().roll(leader.scheduler.now_ms())
        end = leader.log().end.offset
        leader.produce(1)
        self.configure("segment.ms", TIERED["segment.ms"])
        self.world.metadata_leader = leader.id
        self.pass_until(lambda: any(each.next_offset == end for each in self.rules.finished()))
        self.world.cut = set()
        if not node.log().size:
            return
        self.lead_uncleanly(node)
        found = self.rules.leader()
        if found is not None and found[0] is node:
            self.note("copied and lost")
            self.go_on_after_loss(node)

    def pass_until(self, holds: Callable[[], bool]) -> None:
        """Let time pass until something holds, or for a while."""
        for _ in range(COPY_STEPS):
            if not holds():
                self.world.pass_time(500)

    def go_on_after_loss(self, node: TierNode) -> None:
        """Let a leader write segments of its own behind those that it shares with a copy, copied or not."""
        if self.rng.random() < 0.5:
            self.world.store.begin()
        node.log().roll(node.scheduler.now_ms())
        for _ in range(2):
            node.produce(1)
            node.log().roll(node.scheduler.now_ms())
        node.produce(1)
        self.world.pass_time(1_500)
        follower = self.rng.choice([each for each in self.world.nodes.values() if each is not node])
        if follower.is_up and self.state().isr == (node.id,):
            follower.kill()
            follower.lose_disk()
            self.start(follower)

    def lead_uncleanly(self, node: TierNode) -> None:
        """Let a node lead that lacks committed records."""
        self.rules.note_committed()
        log, held = node.log(), {each.base_offset: each for each in self.rules.local(node)}
        at = log.local_log_start_offset
        while at < self.rules.end and held.get(at) == self.rules.committed.get(at, 0):
            at = held[at].next_offset
        self.note("unclean")
        self.rules.cut(at)
        self.lead(node.id, isr=[node.id])

    def change_store(self) -> None:
        """Let the store be better or worse."""
        store = self.world.store
        if self.rng.random() < 0.3:
            store.heal()
        else:
            store.begin()

    def delete_records(self, node: TierNode, leader: PartitionLeader) -> None:
        """DeleteRecords."""
        start, end = leader.log.log_start_offset, leader.high_watermark.offset
        if self.deletes_records and start < end:
            offset = self.rng.randint(start, end)
            self.rules.asked_start = max(self.rules.asked_start, offset)
            node.replicas.move_log_start(node.replica(), offset)

    def change_topic(self) -> None:
        """Change the topic's settings."""
        name, values = self.rng.choice(
            (
                ("remote.log.copy.disable", ("true", "false", "false")),
                ("local.retention.bytes", ("1", "500", "-2")),
                ("remote.copy.lag.bytes", ("0", "300")),
            )
        )
        value = self.rng.choice(values)
        if name == "remote.log.copy.disable" and value == "true":
            self.configure("local.retention.bytes", "-2")
            self.rules.deletes_uncopied = self.retains
        elif self.topic.get("remote.log.copy.disable") == "true":
            self.configure("remote.log.copy.disable", "false")
        self.configure(name, value)

    def configure(self, name: str, value: str) -> None:
        """Set a config of the topic."""
        self.topic[name] = value
        record = ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=TOPIC, name=name, value=value)
        self.world.hear(record)

    def leave_behind(self, node: TierNode) -> None:
        """Let a node hear nothing of the cluster, or again everything."""
        node.is_behind = not node.is_behind
        if node.is_up and not node.is_behind:
            node.read_metadata()

    def end_node(self, node: TierNode) -> None:
        """End a node, perhaps with its disk, perhaps with what was not flushed."""
        if not node.is_up:
            return
        self.rules.note_committed()
        held, choice = self.state(), self.rng.random()
        is_last = held.isr == (node.id,)
        loses = choice < 0.4 and (self.is_reckless or not is_last)
        node.is_behind = False
        if choice > 0.9:
            node.stop()
        else:
            node.kill(power_fails=not is_last and self.rng.random() < 0.5)
        if loses:
            node.lose_disk()
            self.note("lost disk")
            if is_last:
                self.note("last disk lost")
                self.rules.cut_to_copies()
                self.repeated = None
        isr = [each for each in held.isr if each != node.id] or [node.id]
        if node.id in held.isr:
            leader = held.leader
            if leader == node.id:
                leader = isr[0] if self.world.nodes[isr[0]].is_up else -1
            self.lead(leader, isr=isr)

    def start(self, node: TierNode) -> None:
        """Start a node that has ended."""
        node.start()
        self.note("started")
        if self.state().leader < 0:
            self.elect()

    # The end

    def heal(self) -> None:
        """All nodes run and hear one another, and the store answers."""
        self.world.cut = set()
        self.world.store.heal()
        for node in self.world.nodes.values():
            if not node.is_up:
                self.start(node)
            if node.is_behind:
                self.leave_behind(node)
        if self.topic.get("remote.log.copy.disable") == "true":
            self.configure("remote.log.copy.disable", "false")
        self.configure("local.retention.bytes", "1")
        self.configure("remote.copy.lag.bytes", "-1")

    def comes_to_rest(self) -> None:
        """Wait until what was begun has ended, all replicas are equal, and all that is left can be read."""
        self.heal()
        self.wait(self._is_served)
        found = self.rules.leader()
        assert found is not None
        for producer in open_transactions(found[0]):
            found[0].end_transaction(producer, commit=True)
        found[0].produce(1)
        found[0].log().roll(found[0].scheduler.now_ms())
        found[0].produce(1)
        self.wait(self._unsettled)
        self.check()
        self.reader.read_everything()
        self.check()
        choice = self.rng.random()
        if choice < 0.3:
            self.note("deleted")
            self.world.hear(RemoveTopicRecord(topic_id=TOPIC_ID))
            self.wait(self._left)
        elif choice < 0.5:
            self.note("disabled")
            self.rules.asked_start = found[0].log().local_log_start_offset
            self.configure("remote.log.delete.on.disable", "true")
            self.configure("remote.storage.enable", "false")
            self.wait(self._left)

    def wait(self, unsettled: Callable[[], str]) -> None:
        """Let time pass until nothing is unsettled."""
        for _ in range(REST_STEPS):
            self.world.pass_time(REST_STEP_MS)
            assert not self.rules.violations, self.rules.violations[0]
            if not unsettled():
                return
        raise AssertionError(f"after {REST_STEP_MS * REST_STEPS} ms {unsettled()}")

    def _is_served(self) -> str:
        if self.rules.leader() is None:
            self.elect()
            return "nobody leads"
        return "" if sorted(self.state().isr) == list(NODES) else f"in sync are {self.state().isr}"

    def _unsettled(self) -> str:
        """The first thing that is not as it is at rest."""
        left = self.rules.unsettled()
        if left:
            return left
        one, *others = [node.log() for node in self.world.nodes.values()]
        if {each.end.offset for each in others} != {one.end.offset}:
            return "the replicas have other ends"
        if any(each.epochs.latest != one.epochs.latest for each in others):
            return "the replicas have other epochs"
        producers = set() if self.rules.losses else self.rules.kept_producers()
        if not all(each.producers.producers.keys() >= producers for each in (one, *others)):
            return "a replica does not know all producers"
        for node in self.world.nodes.values():
            log = node.log()
            if log.local_log_start_offset < log.base_offsets[-1]:
                return f"node {node.id} has closed segments on its disk"
        found = self.rules.leader()
        if found is None:
            return "nobody leads"
        copied, led = found[0].remote_log.copied_offset(found[0].replica()), found[1].log
        if max(copied + 1, led.log_start_offset) < led.base_offsets[-1]:
            return f"{copied} is copied, and {led.base_offsets[-1] - 1} could be"
        return self._excess(led.log_start_offset)

    def _excess(self, start: int) -> str:
        """Whether more is left than retention keeps: two segments may be too many, if they are copied twice."""
        if not self.retains or self.rules.losses:
            return ""
        largest = max((each.size_bytes for each in self.rules.segments.values()), default=0)
        kept_bytes = sum(len(each.data) for base, each in self.rules.committed.items() if base >= start)
        return f"{kept_bytes} bytes are kept" if kept_bytes > self.rules.retention_bytes + 2 * largest else ""

    def _left(self) -> str:
        """The rest of a topic that is deleted, or not tiered any more."""
        left = sorted(self.world.store.objects.keys() - self.rules.foreign.keys())
        return f"{left[0]} is left in the store" if left else self.rules.unsettled()


def open_transactions(node: TierNode) -> list[int]:
    """The producers of open transactions."""
    return sorted(each[0] for each in node.log().producers.open_transactions())


class Defects(logging.Handler):
    """The defects that production logs, and survives."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self.found.append(error)


@contextmanager
def defects() -> Iterator[list[BaseException]]:
    """The errors that are logged with a stack meanwhile; topics are missed soon."""
    handler, logger = Defects(), logging.getLogger("kpybroker")
    missing_ms, level, propagates = partition_deletions.MISSING_MS, logger.level, logger.propagate
    partition_deletions.MISSING_MS = 20_000.0  # type: ignore[misc]
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield handler.found
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates
        partition_deletions.MISSING_MS = missing_ms  # type: ignore[misc]


def play(seed: int, steps: int = STEPS) -> TierChaos:
    """Play one history and check it after each event. AssertionError if a rule does not hold."""
    with defects() as found:
        chaos = TierChaos(seed)
        chaos.world.store.conditions = StoreConditions()
        try:
            for _ in range(steps):
                chaos.step()
                chaos.check()
                if found:
                    raise AssertionError(f"a defect: {found[0]!r}") from found[0]
            chaos.comes_to_rest()
            if found:
                raise AssertionError(f"a defect: {found[0]!r}") from found[0]
        finally:
            for node in chaos.world.nodes.values():
                if node.is_up:
                    node.kill()
    return chaos
