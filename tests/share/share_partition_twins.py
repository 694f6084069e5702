"""A share partition here and Kafka's, with the same random history, compared after each step.

Not compared: writes of locks that end at once, which are one write here, and one for each lock in Kafka.

A history may have dead letters. Kafka never writes one whose lock ended while a change of it could not be stored.
"""

from collections import deque
from collections.abc import Mapping
from itertools import islice
from random import Random

from share_partition_world import MEMBERS, SharePartitionWorld, some_log

from kpybroker.machines.share.acknowledging import Acknowledgement
from kpybroker.machines.share.acquiring import AcquireRequest, LogBatch
from kpybroker.machines.share.partition import DeadLetters, ShareSettings, StateWrite, StoredStateBatch
from oracle.asked import AskedOracle
from oracle.recorded import Asked

STEPS = 80
STEPS_SHOWN = 24
STEP_WEIGHTS = {"acquire": 35, "acknowledge": 40, "release": 4, "store": 30, "wait": 8, "start": 2}
OF_DEAD_LETTERS = STEP_WEIGHTS | {"release": 8, "wait": 12, "start": 4, "settle": 20}
"""The group has a dead-letter topic."""
OF_A_SHORT_LOG = STEP_WEIGHTS | {"release": 12, "wait": 12, "start": 12}
"""The log loses its beginning more often."""


def started() -> AskedOracle:
    return AskedOracle("SharePartitionOracle.java", "kafka.server.share.SharePartitionOracle")


class Twins:
    """The same inputs to both."""

    def __init__(self, kafka: Asked, rng: Random, weights: Mapping[str, int] = STEP_WEIGHTS) -> None:
        self.kafka = kafka
        self.rng = rng
        self.weights = weights
        has_dlq = "settle" in weights
        settings = ShareSettings(rng.choice((2, 3, 5, 10)), rng.choice((10, 30, 200)), 1_000, dead_letters=has_dlq)
        self.ours = SharePartitionWorld(settings, some_log(rng))
        stored, offset = [], rng.choice((0, 5))
        start = offset
        for _ in range(rng.choice((0, 0, 3))):
            offset += rng.choice((0, 0, 3))
            last = offset + rng.randrange(5)
            state = rng.choice((0, 2, 3, 4) if has_dlq else (0, 2, 4))
            stored.append(StoredStateBatch(offset, last, state, rng.randrange(1, settings.delivery_limit + has_dlq)))
            offset = last + 1
        self.ours.load(start, stored)
        self.steps: list[str] = []
        self.is_over = False
        """Whether Kafka has failed, so that nothing more can be compared."""
        batches = ";".join(",".join(map(str, each)) for each in stored)
        self.compare(self.tell("reset", *settings[:3], start, batches, int(has_dlq)))

    def tell(self, *words: object) -> list[str]:
        self.steps.append(" ".join(map(str, words)))
        answer = self.kafka.ask_for_line(*words)
        self.steps.append(f"    {answer}")
        return answer.split("\t") if answer else []

    def compare(self, theirs: list[str], *ours: str) -> None:
        __tracebackhide__ = True
        written = [f"W {_write(each)}" for each in self.ours.written]
        self.ours.written.clear()
        written += [f"L {_letter(each)}" for each in self.ours.lettered]
        self.ours.lettered.clear()
        assert sorted([*ours, *written]) == sorted(theirs), "\n".join(self.steps[-STEPS_SHOWN:])
        self.compare_state()

    def compare_state(self) -> None:
        __tracebackhide__ = True
        (theirs,) = self.tell("show")
        assert f"A {self.ours.shown()}" == theirs, "\n".join(self.steps[-STEPS_SHOWN:])

    def step(self) -> None:
        getattr(self, self.rng.choices(list(self.weights), list(self.weights.values()))[0])()

    # Steps

    def acquire(self) -> None:
        rng = self.rng
        request = AcquireRequest(
            rng.choice(MEMBERS), rng.choice((1, 3, 10, 500)), rng.choice((1, 5, 100)), rng.random() < 0.4
        )
        offset, read, given = self.ours.acquire(request, rng.choice((1, 3, 5)))
        if read:
            words = [
                request.member_id,
                request.max_records,
                request.batch_size,
                int(request.is_limit),
                offset,
                _read(read),
            ]
            theirs = self.tell("acquire", *words)
            if "Existing acquisition lock timeout exists" in theirs[0]:
                self.is_over = True  # Kafka gives records without a lock if one ended during a change
                return
            if theirs[0].startswith("D java.lang.IllegalArgumentException: inconsistent range"):
                theirs = ["A "]  # at the limit Kafka fails where the log lost the records in flight
            self.compare(theirs, "A " + ";".join(",".join(map(str, each)) for each in given))

    def acknowledge(self) -> None:
        rng, ours = self.rng, self.ours
        acquired = [(offset, state.member_id) for offset, state in ours.states() if state.state == 1]
        batches: list[Acknowledgement] = []
        member_id = rng.choice(MEMBERS)
        for _ in range(rng.choice((1, 1, 2))):
            if acquired and rng.random() < 0.9:
                first, owner = rng.choice(acquired)
                member_id = owner if rng.random() < 0.95 else member_id
                last = first
                while rng.random() < 0.8 and (last + 1, owner) in acquired:
                    last += 1
            else:
                first = rng.randrange(ours.partition.end_offset + 10)
                last = first + rng.randrange(5)
            if batches and batches[-1].last_offset >= first:
                break
            types = [rng.choice((0, 1, 1, 1, 2, 2, 2, 3, 4)) for _ in range(rng.choice((1, last - first + 1)))]
            batches.append(Acknowledgement(first, last, types))
        words = ";".join(f"{first},{last},{':'.join(map(str, types))}" for first, last, types in batches)
        theirs = self.tell("ack", member_id, words)
        code = ours.acknowledge(member_id, *batches)
        if theirs and theirs[0].startswith("D java.lang.NullPointerException"):
            assert code == 121
            theirs = ["A 121"]  # Kafka fails where a batch begins before all that is in flight
        self.compare(theirs, *([f"A {code}"] if code else []))

    def release(self) -> None:
        member_id = self.rng.choice(MEMBERS)
        theirs = self.tell("release", member_id)
        self.ours.release(member_id)
        self.compare(theirs)

    def store(self) -> None:
        if self.ours.writes:
            is_stored = self.rng.random() < 0.8
            theirs = self.tell("stored", int(is_stored))
            self.ours.store(is_stored=is_stored)
            if not is_stored and self.ours.lettered:
                self.is_over = True  # Kafka archives records without a dead letter if a lock ended during a change
                return
            self.compare(theirs)

    def settle(self) -> None:
        if self.ours.dead_letters:
            theirs = self.tell("settled", int(self.rng.random() < 0.8))
            self.ours.settle_dead_letters()
            self.compare(theirs)

    def wait(self) -> None:
        now_ms = self.ours.now_ms + self.rng.choice((1, 400, 1_000))
        theirs = self.tell("time", now_ms)
        self.ours.wait(now_ms)
        # Kafka writes once for each lock, here there is one write for all of them.
        batches = sorted(batch for each in theirs for batch in each.split(" ")[-1].split(";"))
        ours = sorted(",".join(map(str, each)) for write in self.ours.written for each in write.batches)
        assert ours == batches, "\n".join(self.steps[-STEPS_SHOWN:])
        self.ours.written.clear()
        if theirs:
            self.ours.writes.extendleft([self.ours.writes[-1]._replace(dead_letters=[])] * (len(theirs) - 1))
        letters = []
        while self.ours.writes:
            letters += self.tell("stored", 1)
            self.ours.store(is_stored=True)
        new = {f"L {_letter(each)}": each for each in self.ours.lettered}
        self.ours.lettered.clear()
        assert sorted(new) == sorted(letters), "\n".join(self.steps[-STEPS_SHOWN:])
        before = len(self.ours.dead_letters) - len(new)
        self.ours.dead_letters = deque([*islice(self.ours.dead_letters, before), *(new[each] for each in letters)])
        self.compare_state()

    def start(self) -> None:
        offset = self.ours.partition.start_offset + self.rng.randrange(12)
        if not any(batch.base_offset <= offset <= batch.last_offset for batch in self.ours.log):
            return  # Kafka never moves a start that lies behind a split batch: a NullPointerException
        if not self.ours.partition.is_empty and offset > self.ours.partition.end_offset:
            return  # Kafka moves the start back when all that was in flight before is done with
        theirs = self.tell("start", offset)
        self.ours.log_starts_at(offset)
        self.compare(theirs)


def _read(batches: list[LogBatch]) -> str:
    return ";".join(f"{base},{last}" for base, last in batches)


def _letter(letters: DeadLetters) -> str:
    return ",".join(map(str, letters[:4]))


def _write(write: StateWrite) -> str:
    batches = ";".join(",".join(map(str, each)) for each in write.batches)
    return f"{write.state_epoch} {write.leader_epoch} {write.start_offset} {write.delivery_complete_count} {batches}"


def play(kafka: Asked, seed: int, weights: Mapping[str, int] = STEP_WEIGHTS) -> None:
    """A history, to its end or until Kafka has failed."""
    twins = Twins(kafka, Random(seed), weights)
    for _ in range(STEPS):
        if not twins.is_over:
            twins.step()
