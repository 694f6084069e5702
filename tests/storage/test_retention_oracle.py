"""Random lives of a log, with settings that change while it runs: Apache Kafka's own log keeps the same segments."""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, reject, settings
from hypothesis import strategies as st
from log_making import NOW_MS, TOPIC_ID, append, make_batch, open_directory
from test_log_oracle import Oracle, contents

from kpystorage.directory import LogDirectory
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.names import LEADER_EPOCHS, LOG_STARTS, RECOVERY_POINTS
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
from kpystorage.session import SESSION

pytestmark = pytest.mark.java

FIRST = LogConfig(segment_bytes=1500, segment_ms=4000, index_interval_bytes=300, segment_index_bytes=1200)
SETTINGS: dict[str, list[Any]] = {
    "segment_bytes": [400, 1500, 5000],
    "segment_ms": [1, 1000, 4000, 60_000],
    "segment_index_bytes": [24, 48, 1200],
    "index_interval_bytes": [0, 100, 300, 4096],
    "retention_bytes": [-1, 0, 1, 700, 3000, 10_000],
    "retention_ms": [-1, 0, 1, 1000, 5000, 30_000],
    "preallocate": [False, True],
}
POLICIES = [(True, False), (False, True), (True, True), (False, False)]
NO_TIMESTAMP = -1
NO_EPOCHS = (b"", b"0\n0\n")


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    made = Oracle()
    yield made
    assert made.process.stdin is not None
    made.process.stdin.close()
    assert made.process.wait(30) == 0


@dataclass
class Append:
    """Records of a time relative to now, or without one."""

    count: int
    value_bytes: int
    age_ms: int | None


@dataclass
class Pass:
    """Time goes on."""

    duration_ms: int


@dataclass
class Configure:
    """Settings change while the log is in use."""

    changed: dict[str, Any]
    policy: tuple[bool, bool] | None = None


@dataclass
class Replicate:
    """The high watermark reaches so much of what is behind it."""

    share: float


@dataclass
class DeleteRecords:
    """Up to so much of what is replicated."""

    share: float


@dataclass
class Restart:
    """A clean stop and a start, or the death of the process."""

    clean: bool


@dataclass
class Retain:
    """Retention looks at the log."""

    marker: None = field(default=None)


STEPS = st.one_of(
    st.builds(
        Append,
        st.integers(1, 4),
        st.integers(1, 150),
        st.one_of(st.integers(-3000, 3000), st.sampled_from([None, 20_000, -20_000])),
    ),
    st.builds(Append, st.integers(1, 4), st.integers(1, 150), st.just(0)),
    st.builds(Pass, st.one_of(st.integers(0, 2000), st.sampled_from([999, 1000, 1001, 40_000]))),
    st.builds(
        Configure,
        st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in SETTINGS.items()}),
        st.one_of(st.none(), st.sampled_from(POLICIES)),
    ),
    st.builds(Replicate, st.sampled_from([1.0, 1.0, 0.5, 0.9])),
    st.builds(DeleteRecords, st.sampled_from([0.0, 0.3, 0.7, 1.0])),
    st.builds(Restart, st.booleans()),
    st.builds(Retain),
)
Step = Append | Pass | Configure | Replicate | DeleteRecords | Restart | Retain


class Twins:
    """Kafka's log and ours, which get the same calls."""

    def __init__(self, oracle: Oracle, path: Path) -> None:
        self.oracle = oracle
        self.config = FIRST
        self.now_ms = NOW_MS
        self.high_watermark = 0
        self.kafka_path = path / "kafka" / "t-0"
        self.our_path = path / "ours"
        self.kafka_path.mkdir(parents=True)
        self.our_path.mkdir()
        oracle.tell("now", self.now_ms)
        oracle.open(self.kafka_path, self.config)
        self.directory: LogDirectory = self.opened()
        self.log: Log = self.directory.create_log("t", 0, TOPIC_ID, self.config, self.now_ms)

    def opened(self) -> LogDirectory:
        return open_directory(RealDisk(Descriptors(16)), str(self.our_path), config=self.config, now_ms=self.now_ms)

    def take(self, step: Step) -> None:
        match step:
            case Append():
                self.append(step)
            case Pass():
                self.now_ms += step.duration_ms
                self.oracle.tell("now", self.now_ms)
            case Configure():
                self.config = self.config._replace(**step.changed)
                if step.policy is not None:
                    self.config = self.config._replace(cleanup_delete=step.policy[0], cleanup_compact=step.policy[1])
                self.log.configure(self.config)
                self.oracle.configure(self.config)
            case Replicate():
                behind = self.log.end.offset - self.high_watermark
                self.high_watermark += int(behind * step.share)
                self.oracle.tell("high", self.high_watermark)
            case DeleteRecords():
                start = self.log.log_start_offset
                offset = start + int((self.high_watermark - start) * step.share)
                self.log.advance_log_start(offset)
                self.oracle.tell("start", offset)
            case Restart():
                self.restart(clean=step.clean)
            case Retain():
                gone = self.log.delete_old_segments(self.now_ms, self.high_watermark)
                assert str(gone) == self.oracle.ask("delete")
                event(f"segments deleted: {gone}")

    def append(self, step: Append) -> None:
        offset = self.log.end.offset
        timestamp = NO_TIMESTAMP - step.count if step.age_ms is None else self.now_ms - step.age_ms
        batch = make_batch(offset, step.count, value_bytes=step.value_bytes, timestamp=timestamp)
        if len(batch) > self.config.segment_bytes:
            return  # both refuse it; Kafka's has noted its epoch by then
        self.oracle.tell("append", 0, b64encode(batch).decode())
        append(self.log, batch, now_ms=self.now_ms)

    def restart(self, *, clean: bool) -> None:
        start = self.log.log_start_offset
        if clean:
            self.oracle.tell("close")
            self.directory.close()
        else:
            self.directory.write_checkpoint(LOG_STARTS, self.directory.render_log_starts())
            self.directory.abandon()
            for name in (SESSION, RECOVERY_POINTS):  # Kafka knows no death of the process alone
                (self.our_path / name).unlink(missing_ok=True)
            self.oracle.tell("kill")
        try:
            self.oracle.open(self.kafka_path, self.config, clean=clean, start=start)
        except AssertionError as error:
            if "append to a full" in str(error):
                reject()  # Kafka cannot recover a segment whose index has become too small for it
            raise
        self.directory = self.opened()
        self.log = self.directory.logs["t", 0].open()
        assert self.log.log_start_offset == start
        self.oracle.tell("high", self.high_watermark)

    def check(self) -> None:
        log = self.log
        segments = " ".join(f"{segment.base_offset}:{segment.size}" for segment in log.segments)
        epochs = " ".join(f"{epoch}:{start}" for epoch, start in log.epochs.entries())
        offsets, kafkas_segments, kafkas_epochs, _ = self.oracle.ask("state").split(" | ")
        assert f"{log.log_start_offset} {log.end.offset}" == offsets
        assert segments == kafkas_segments
        if log.log_start_offset < log.end.offset:  # over a crash Kafka may forget the epoch of a log with no record
            assert epochs == kafkas_epochs


@settings(
    max_examples=25,
    deadline=None,
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(STEPS, min_size=10, max_size=60))
def test_kafkas_log_keeps_the_same_segments_whatever_happens_to_it(oracle: Oracle, steps: list[Step]) -> None:
    with TemporaryDirectory() as path:
        twins = Twins(oracle, Path(path))
        for step in steps:
            twins.take(step)
            twins.check()
        twins.take(Restart(clean=True))
        twins.check()
        oracle.tell("close")
        twins.directory.close()
        kafkas, ours = contents(twins.kafka_path), contents(twins.our_path / "t-0")
        if kafkas.get(LEADER_EPOCHS) in NO_EPOCHS:
            ours.setdefault(LEADER_EPOCHS, kafkas[LEADER_EPOCHS])  # a file that says nothing is not written at once
        start = twins.log.log_start_offset
        for each in (ours, kafkas):
            for name in [name for name in each if name.endswith(".snapshot") and name <= f"{start:020d}.snapshot"]:
                del each[name]  # no start of either believes it: it says nothing of what is left
        assert sorted(ours) == sorted(kafkas)
        for name, data in kafkas.items():
            assert ours[name] == data, name
