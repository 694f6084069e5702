"""A log whose beginning is in a store, in Apache Kafka's own code and in ours: the same state, and each opens the
other's files."""

import shutil
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest
from log_making import headers_of, open_directory
from test_log_oracle import Oracle, Pair, as_kafka_says, contents

from kpybroker.hosts.remote_log.local_view import closed_segment, has_aborted_transactions
from kpystorage import checkpoint, names
from kpystorage.log_config import LogConfig
from kpystorage.real_disk import RealDisk

pytestmark = pytest.mark.java

TIERED = LogConfig(segment_bytes=3000, index_interval_bytes=500, segment_index_bytes=1200, is_tiered=True)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    made = TieredOracle()
    yield made
    assert made.process.stdin is not None
    made.process.stdin.close()
    assert made.process.wait(30) == 0


class TieredOracle(Oracle):
    """Kafka's log, of which nothing stays on the disk that was copied and is closed."""

    def open(self, path: Path, config: LogConfig, *, clean: bool = True, start: int = 0, recovery: int = 0) -> None:
        settings = (
            f"{as_kafka_says(config)},remote.storage.enable={str(config.is_tiered).lower()},local.retention.bytes=0"
        )
        self.tell("open", path, str(clean).lower(), start, recovery, settings)


class TieredPair(Pair):
    """Two tiered logs that are given the same to do."""

    def shorten(self) -> None:
        """Copy all closed segments but the last one, so that they go from the disk."""
        self.replicate()
        log = self.log
        log.flush()
        count = max(len(log.segments) - 2, 0)
        self.oracle.tell("copied", log.base_offsets[count] - 1)
        gone = int(self.oracle.ask("delete"))
        assert log.delete_oldest(gone, self.now_ms) == gone == count

    def check_start(self) -> None:
        self.check_state()
        assert str(self.log.local_log_start_offset) == self.oracle.ask("local")

    def check_segments(self) -> None:
        """The files of every closed segment, as the store gets them."""
        for base_offset in self.log.base_offsets[:-1]:
            found = closed_segment(self.log, base_offset).files()
            ours = [
                found.log.read(),
                found.offset_index,
                found.time_index,
                found.transaction_index,
                found.producer_snapshot,
                found.leader_epochs,
            ]
            kafkas = [
                None if each == "-" else b64decode(each) for each in self.oracle.ask("files", base_offset).split()
            ]
            assert ours == kafkas
            assert has_aborted_transactions(self.log, base_offset) == bool(kafkas[3])

    def first_unstable_offset(self) -> int:
        unstable = self.log.producers.first_unstable
        return -1 if unstable is None else unstable.offset


def test_a_log_whose_oldest_segments_are_in_a_store_is_in_the_state_of_kafkas(
    oracle: TieredOracle, tmp_path: Path
) -> None:
    pair = TieredPair(oracle, tmp_path, TIERED, seed=21)
    for number in range(12):
        for _ in range(10):
            pair.step()
        pair.check_segments()
        pair.shorten()
        pair.check_start()
        if number % 4 == 3:
            start = pair.rng.randint(pair.log.log_start_offset, pair.log.local_log_start_offset)
            oracle.tell("start", start)
            pair.log.advance_log_start(start)
            pair.check_start()
        if number % 3 == 2:
            whole = [headers_of(each.log.pread(each.size, 0)) for each in pair.log.segments]
            target = pair.rng.choice([each.base_offset for headers in whole for each in headers])
            oracle.tell("truncate", target)
            pair.log.truncate_to(target, pair.now_ms)
            pair.replicate()
            pair.epoch += 1
            pair.sequences, pair.in_transaction = {}, set()
            pair.check_start()
        pair.epoch += pair.rng.randint(0, 1)
    pair.close()
    pair.check_files()


@pytest.mark.parametrize("clean", [True, False])
def test_each_opens_the_tiered_log_of_the_other(oracle: TieredOracle, tmp_path: Path, *, clean: bool) -> None:
    pair = TieredPair(oracle, tmp_path, TIERED, seed=22)
    for _ in range(6):
        for _ in range(15):
            pair.step()
        pair.shorten()
        pair.epoch += 1
    oracle.tell("start", 7)
    pair.log.advance_log_start(7)
    pair.log.active.seal()
    recovery = pair.log.local_log_start_offset
    if clean:
        pair.close()
    else:
        pair.directory.close()
        (pair.our_path / names.CLEAN_SHUTDOWN).unlink()
    ours, kafkas = pair.our_path / "t-0", pair.kafka_path
    kept = tmp_path / "kept"
    shutil.move(kafkas, kept)
    shutil.copytree(ours, kafkas)
    oracle.open(kafkas, pair.config, clean=clean, start=7, recovery=recovery)
    for name in ours.iterdir():
        name.unlink()
    for name in kept.iterdir():
        shutil.copy(name, ours / name.name)
    starts = pair.our_path / names.LOG_STARTS
    assert checkpoint.parse_offsets(starts.read_bytes(), "") == {("t", 0): 7}
    pair.directory = open_directory(RealDisk(), str(pair.our_path), config=pair.config)
    pair.log = pair.directory.logs["t", 0].open()
    pair.replicate()
    pair.check_start()
    for _ in range(20):
        pair.step()
    pair.shorten()
    pair.check_start()
    pair.close()
    # After a crash Kafka keeps the snapshot where recovery ended.
    assert contents(ours).items() <= contents(kafkas).items()
    assert not clean or contents(ours) == contents(kafkas)


def test_a_log_that_is_no_longer_tiered_begins_where_kafkas_does(oracle: TieredOracle, tmp_path: Path) -> None:
    pair = TieredPair(oracle, tmp_path, TIERED, seed=23)
    for _ in range(40):
        pair.step()
    pair.shorten()
    pair.close()
    config = TIERED._replace(is_tiered=False)
    oracle.open(pair.kafka_path, config)
    pair.directory = open_directory(RealDisk(), str(pair.our_path), config=config)
    pair.log = pair.directory.logs["t", 0].open()
    assert pair.log.log_start_offset == pair.log.base_offsets[0] > 0
    assert [pair.log.log_start_offset, pair.log.end.offset] == [int(each) for each in oracle.ask("state").split()[:2]]
    pair.close()


def test_kafka_opens_a_log_that_began_in_the_middle_and_goes_on_with_its_producers(
    oracle: TieredOracle, tmp_path: Path
) -> None:
    pair = TieredPair(oracle, tmp_path, TIERED, seed=24)
    for _ in range(60):
        pair.step()
        pair.epoch += pair.rng.random() < 0.1
    log = pair.log
    offset = log.base_offsets[-1]
    copied = closed_segment(log, log.base_offsets[-2]).files()
    epochs = checkpoint.parse_epochs(copied.leader_epochs, "")
    log.begin_in_middle(offset, 7, epochs, copied.producer_snapshot, pair.now_ms)
    pair.close()
    shutil.rmtree(pair.kafka_path)
    shutil.copytree(pair.our_path / "t-0", pair.kafka_path, ignore=shutil.ignore_patterns("*.deleted"))
    oracle.open(pair.kafka_path, pair.config, start=7, recovery=offset)
    pair.directory = open_directory(RealDisk(), str(pair.our_path), config=pair.config)
    pair.log = pair.directory.logs["t", 0].open()
    assert (pair.log.log_start_offset, pair.log.base_offsets, pair.log.end.offset) == (7, [offset], offset)
    pair.replicate()
    pair.check_start()
    for _ in range(40):
        pair.step()
    pair.check_start()
    pair.close()
    pair.check_files()
