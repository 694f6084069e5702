"""A log of Kafka's with segments in a store: what ``RemoteLogManager`` copies, expires and keeps, beside ours.

Kafka's log is read after each step, so ours decides on the same segments, epochs and offsets.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from remote_log_histories import ask_all, segment, to_words, update

from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.copying import candidates, epochs_between
from kpybroker.machines.remote_log.expiry import local_expiry, remote_expiry
from kpybroker.machines.remote_log.lineage import at_once, copied_until, highest_copied, lineage, log_start
from kpybroker.machines.remote_log.local_log import LocalLog, LocalSegment, TierSettings
from kpybroker.machines.remote_log.segments import DELETED, DELETING, FINISHED, RemoteLogSegment
from kpywire.uuid import to_string
from oracle.asked import AskedOracle

pytestmark = [pytest.mark.java, pytest.mark.slow]

LOGS = 150
STEPS = 40
SEGMENT_BYTES = 170
START_MS = 1_000_000


@pytest.fixture(scope="module")
def kafka() -> Iterator[AskedOracle]:
    oracle = AskedOracle("RemoteLogOracle.java", "RemoteLogOracle", "KafkaLog.java")
    yield oracle
    oracle.close()


class TieredLog:
    """Kafka's log, and our cache of what its store has."""

    def __init__(self, kafka: AskedOracle, rng: Random) -> None:
        self.kafka, self.rng = kafka, rng
        choice = rng.choice
        self.settings = TierSettings(
            retention_ms=choice((-1, 500, 2_000)),
            retention_bytes=choice((-1, 300, 1_000, 2_000)),
            local_retention_ms=choice((-2, 200)),
            local_retention_bytes=choice((-2, 0, 200)),
            copy_lag_ms=choice((-1, 0, 100, 400)),
            copy_lag_bytes=choice((-1, 0, 200, 500)),
        )
        names = {
            "retention.ms": self.settings.retention_ms,
            "retention.bytes": self.settings.retention_bytes,
            "local.retention.ms": self.settings.local_retention_ms,
            "local.retention.bytes": self.settings.local_retention_bytes,
            "remote.copy.lag.ms": self.settings.copy_lag_ms,
            "remote.copy.lag.bytes": self.settings.copy_lag_bytes,
        }
        config = ",".join(f"{name}={value}" for name, value in names.items())
        self.now_ms, self.epoch, self.copies = START_MS, 1, 0
        self.remote = RemoteSegments(segment(0, 0, 0, ()).id.topic_id, "t", 0)
        self.ask("new")
        self.ask("time", self.now_ms)
        self.ask("log", f"remote.storage.enable=true,{config}")
        self.counted: dict[str, int] = {}

    def ask(self, *words: object) -> str:
        answer = self.kafka.ask_for_line(*words)
        assert not answer.startswith("error"), (words, answer)
        return answer

    def log(self, words: str | None = None) -> LocalLog:
        start, local, end, committed, stable, epochs, segments = (words or self.ask("state")).split(";")
        return LocalLog(
            [LocalSegment(*map(int, each.split(":"))) for each in segments.split(",")],
            int(start),
            int(local),
            int(end),
            int(committed),
            int(stable),
            [(int(each.split(":")[0]), int(each.split(":")[1])) for each in epochs.split(",") if each],
        )

    # What happens

    def appends(self) -> None:
        for _ in range(self.rng.randint(1, 3)):
            late_ms = self.rng.choice((0, 0, 0, 300, -50))
            self.ask("append", self.epoch, self.now_ms - late_ms, self.rng.randint(0, 100))
        if self.rng.random() < 0.8:
            self.ask("roll")

    def commits(self) -> None:
        log = self.log()
        self.ask("committed", self.rng.randint(log.high_watermark, log.end_offset))

    def time_passes(self) -> None:
        self.now_ms += self.rng.choice((1, 50, 150, 400))
        self.ask("time", self.now_ms)

    def another_leads(self) -> None:
        self.epoch += self.rng.randint(1, 2)

    def records_are_deleted(self) -> None:
        log = self.log()
        if self.rng.random() < 0.3:
            self.ask("start", self.rng.randint(log.log_start_offset, log.high_watermark))

    def loses_records(self) -> None:
        """An unclean leader: the end of the log is another one in the next epoch."""
        log = self.log()
        if self.rng.random() < 0.2 and log.end_offset > log.local_log_start_offset:
            self.ask("cut", self.rng.randint(log.local_log_start_offset, log.end_offset))
            self.another_leads()

    # What is decided

    def copies_a_segment(self) -> None:
        log = self.log()
        copied = highest_copied(self.remote, log.end_offset, log.epochs)
        assert self.ask("copied") == f"{copied.offset}:{copied.epoch}"
        from_offset = max(copied.offset + 1, log.log_start_offset)
        found = candidates(log, from_offset, self.settings, self.now_ms)
        theirs = self.ask("candidates", from_offset, log.last_stable_offset)
        assert ",".join(str(each.base_offset) for each in found) == theirs
        self.note("candidates", len(found))
        for each in found[: self.rng.choice((0, 1, 1, 3))]:
            self.copies += 1
            epochs = epochs_between(log, each.base_offset, each.next_offset)
            made = segment(
                self.copies,
                each.base_offset,
                each.next_offset - 1,
                epochs,
                size_bytes=each.size_bytes,
                max_timestamp_ms=each.max_timestamp_ms,
            )
            self.remote.apply(made)
            self.remote.apply(update(made, FINISHED))
            name = to_string(made.id.segment_id)
            ask_all(self.kafka, [("add", *to_words(made)), ("update", name, 1, "-", int(FINISHED), 2)])

    def expires(self) -> None:
        log = self.log()
        copied = highest_copied(self.remote, log.end_offset, log.epochs)
        # Kafka takes the highest offset that it ever saw, also after records were lost.
        ours = at_once(
            remote_expiry(
                log, self.remote, self.settings, copied_offset=max(copied.offset, self.highest), now_ms=self.now_ms
            )
        )
        self.highest = max(copied.offset, self.highest)
        start, deleted = self.ask("expire").split(";")
        # Kafka reads the oldest epoch after it has moved the log start; here the next pass does.
        older = at_once(
            remote_expiry(self.log(), self.remote, TierSettings(), copied_offset=self.highest, now_ms=self.now_ms)
        )
        doomed = dict.fromkeys((*ours.expired, *ours.removed, *older.removed))
        assert [to_string(each.id.segment_id) for each in doomed] == [each for each in deleted.split(",") if each]
        assert int(start) == max(log.log_start_offset, ours.log_start or 0)
        self.note("expired", len(ours.expired))
        self.note("removed", len(ours.removed))
        for each in doomed:
            self.remote.apply(update(each, DELETING))
            self.remote.apply(update(each, DELETED))

    highest = -1

    def leaves_the_disk(self) -> None:
        log = self.log()
        copied = highest_copied(self.remote, log.end_offset, log.epochs).offset
        ours = local_expiry(log, self.remote, self.settings, self.now_ms)
        self.highest = max(copied, self.highest)
        after = self.log(self.ask("local", copied))
        left = [each.base_offset for each in log.segments[len(ours.segments) :]]
        # Kafka believes the highest copied offset; a lost lineage's copies are no copies here.
        is_sure = copied_until(self.remote, log.epochs, max(log.segments[0].base_offset, log.log_start_offset)) > copied
        kept = [each.base_offset for each in after.segments]
        if is_sure and self.highest == copied:
            assert kept[0] == left[0] or (ours.rolls_active and kept[0] >= left[0])
            assert (after.segments[-1].base_offset > log.segments[-1].base_offset) == ours.rolls_active
            self.note("local", len(ours.segments))
        else:
            assert left[0] <= kept[0]
            self.note("unsure", 1)

    def begins_where_kafka_begins(self) -> None:
        log = self.log()
        ours = at_once(
            log_start(self.remote, log.end_offset, log.epochs, log.log_start_offset, log.local_log_start_offset)
        )
        theirs = int(self.ask("first"))
        listed: list[RemoteLogSegment] = list(self.remote.all())
        if set(lineage(self.remote, log.end_offset, log.epochs)) == set(listed):
            assert ours == max(log.log_start_offset, min(theirs, log.local_log_start_offset))

    def note(self, what: str, count: int) -> None:
        self.counted[what] = self.counted.get(what, 0) + count


def test_logs_are_tiered_as_in_kafka(kafka: AskedOracle) -> None:
    counted: dict[str, int] = {}
    for seed in range(LOGS):
        tiered = TieredLog(kafka, Random(seed))
        happens: list[Any] = [
            *[tiered.appends] * 4,
            *[tiered.commits] * 3,
            *[tiered.copies_a_segment] * 4,
            *[tiered.time_passes] * 2,
            tiered.another_leads,
            tiered.records_are_deleted,
            tiered.loses_records,
            *[tiered.expires] * 3,
            tiered.leaves_the_disk,
            tiered.begins_where_kafka_begins,
        ]
        for _ in range(STEPS):
            tiered.rng.choice(happens)()
        for what, count in tiered.counted.items():
            counted[what] = counted.get(what, 0) + count
    assert all(counted[what] > LOGS // 4 for what in ("candidates", "expired", "local"))
