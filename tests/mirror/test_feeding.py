"""A partition that is fed by another cluster: whatever happens there, both logs are the same again afterwards."""

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.mirror.feeding import EpochAhead, FedPartition
from kpybroker.machines.partition.follower import PartitionFollower
from kpybroker.machines.partition.in_sync import PartitionState
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.machines.partition.role import Role
from kpybroker.machines.partition.validation import ValidationConfig
from kpystorage.directory import LogDirectory
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk
from kpywire import error_codes
from kpywire.batch import LENGTH_END, parse_header
from kpywire.record import Record, build_batch

NOW_MS = 1_700_000_000_000
FAR = 1 << 30
LARGEST = 4
"""The most records of a batch."""


def new_log() -> Log:
    disk = MemoryDisk()
    disk.make_directory("/data")
    directory = LogDirectory("/data", disk, Random(1), lambda _line: None, LogConfig())
    directory.open(NOW_MS)
    return directory.create_log("t", 0, bytes(range(16)), LogConfig(), NOW_MS)


def leader_of(log: Log, epoch: int, high_watermark: int = 0, *, is_fed: bool = False) -> PartitionLeader:
    state = PartitionState(epoch, 0, (1,), (1,), (bytes(16),))
    return PartitionLeader(log, 1, state, high_watermark, is_fed=is_fed)


def produce(leader: PartitionLeader, count: int, value: bytes) -> None:
    log = leader.log
    records = [Record(timestamp=NOW_MS, value=value) for _ in range(count)]
    data = build_batch(records, base_offset=log.end.offset, partition_leader_epoch=leader.epoch)
    leader.append_built(data, count, ValidationConfig(), NOW_MS)


def batches(log: Log, start: int) -> list[bytes]:
    found, offset = [], start
    while offset < log.end.offset:
        data = log.read(offset, 1, log.end, min_one_batch=True).read()
        header = parse_header(data)
        found.append(bytes(data[: header.batch_length + LENGTH_END]))
        offset = header.next_offset
    return found


def copy_once(source: Role, copy: FedPartition | PartitionFollower, log_start_offset: int) -> None:
    """One fetch as a broker answers it (``Partition.readRecords``), and the reaction of a `Feed` to the answer."""
    offset, epoch, _ = copy.next_fetch
    try:
        diverging = source.divergence(epoch, offset) if epoch >= 0 else None
        if diverging is not None:
            copy.truncate(*diverging, NOW_MS)
            return
        found = source.read(offset, FAR, source.high_watermark, min_one_batch=True)
    except KafkaError as error:
        if error.code != error_codes.OFFSET_OUT_OF_RANGE:
            raise
        if not copy.leader_ends(source.high_watermark.offset, NOW_MS):
            copy.leader_starts(log_start_offset, NOW_MS)
        return
    if isinstance(copy, FedPartition):
        copy.source_log_start = log_start_offset
    if found is not None:
        view, position = memoryview(found.read()), 0
        while position < len(view):
            position = copy.append(view, position, NOW_MS)
    heard = copy.heard(source.high_watermark.offset, log_start_offset)
    if heard.log_start:
        copy.log.advance_log_start(log_start_offset)


class Feeding(RuleBasedStateMachine):
    """A source with elections, clean and unclean, and retention; its mirror with elections, and a follower of it."""

    @initialize()
    def begin(self) -> None:
        self.value = 0
        self.source = leader_of(new_log(), 0)
        self.leader = leader_of(new_log(), 3, is_fed=True)
        self.fed = FedPartition(self.leader)
        self.follower = PartitionFollower(new_log(), self.leader.epoch, 0)

    @rule(counts=st.lists(st.integers(1, LARGEST), min_size=1, max_size=4))
    def produce(self, counts: list[int]) -> None:
        for count in counts:
            self.value += 1
            produce(self.source, count, b"%d" % self.value)

    @rule(lost=st.integers(0, 12), epochs=st.integers(1, 3))
    def elect_at_the_source(self, lost: int, epochs: int) -> None:
        """An election, which is unclean if records are lost. No log start goes back by it."""
        log = self.source.log
        if log.end.offset - lost >= log.log_start_offset + LARGEST:
            log.truncate_to(log.end.offset - lost, NOW_MS)
        self.source = leader_of(log, self.source.epoch + epochs, log.end.offset)

    @rule(part=st.floats(0, 1))
    def delete_records_at_the_source(self, part: float) -> None:
        log = self.source.log
        log.advance_log_start(log.log_start_offset + int(part * (log.end.offset - log.log_start_offset)))

    @rule()
    def elect_here(self) -> None:
        before = self.leader.log.epochs.entries()
        self._lead(self.leader.epoch + 1)
        assert self.leader.log.epochs.entries() == before, "only batches of the source begin epochs"

    def _lead(self, epoch: int) -> None:
        self.leader = leader_of(self.leader.log, epoch, self.leader.high_watermark.offset, is_fed=True)
        self.fed = FedPartition(self.leader)
        self.follower = PartitionFollower(self.follower.log, epoch, self.follower.high_watermark.offset)

    @rule(times=st.integers(1, 3))
    def fetch(self, times: int) -> None:
        for _ in range(times):
            try:
                copy_once(self.source, self.fed, self.source.log.log_start_offset)
            except EpochAhead:
                self._lead(self.source.epoch + 5)

    @rule(times=st.integers(1, 3))
    def replicate(self, times: int) -> None:
        for _ in range(times):
            copy_once(self.leader, self.follower, self.leader.log.log_start_offset)

    @invariant()
    def batches_are_of_epochs_below_the_leaders(self) -> None:
        if hasattr(self, "leader"):
            assert self.leader.log.epochs.latest < self.leader.epoch
            assert self.leader.high_watermark.offset == self.leader.log.end.offset

    def teardown(self) -> None:
        if not hasattr(self, "leader"):
            return
        for _ in range(16):
            self.fetch(1)
            self.replicate(1)
        there, start = self.source.log, self.source.log.log_start_offset
        for here in (self.leader.log, self.follower.log):
            assert (here.log_start_offset, here.end.offset) == (start, there.end.offset)
            assert batches(here, start) == batches(there, start)


TestFeeding = Feeding.TestCase
TestFeeding.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)


def test_a_leader_that_is_fed_no_more_begins_its_own_epoch() -> None:
    source, leader = leader_of(new_log(), 0), leader_of(new_log(), 7, is_fed=True)
    produce(source, 3, b"x")
    copy_once(source, FedPartition(leader), 0)
    leader.end_feed()
    produce(leader, 2, b"y")
    assert leader.log.epochs.entries() == [(0, 0), (7, 3)]


def test_a_batch_of_an_epoch_that_is_too_late_waits() -> None:
    source, leader = leader_of(new_log(), 7), leader_of(new_log(), 7, is_fed=True)
    produce(source, 3, b"x")
    with pytest.raises(EpochAhead):
        copy_once(source, FedPartition(leader), 0)
    assert leader.log.end.offset == 0


def test_a_high_watermark_is_never_beyond_what_a_shorter_source_leaves() -> None:
    source, leader = leader_of(new_log(), 0), leader_of(new_log(), 7, is_fed=True)
    produce(source, 5, b"x")
    produce(source, 5, b"y")
    fed = FedPartition(leader)
    copy_once(source, fed, 0)
    assert fed.leader_ends(10, NOW_MS) is False
    assert (leader.log.end.offset, leader.high_watermark.offset) == (10, 10)
    assert fed.leader_ends(5, NOW_MS) is True
    assert (leader.log.end.offset, leader.high_watermark.offset) == (5, 5)
    fed.leader_starts(20, NOW_MS)
    assert (leader.log.end.offset, leader.high_watermark.offset) == (20, 20)


def test_the_epoch_before_the_leaders_own_may_be_fed() -> None:
    source, leader = leader_of(new_log(), 6), leader_of(new_log(), 7, is_fed=True)
    produce(source, 3, b"x")
    copy_once(source, FedPartition(leader), 0)
    assert leader.log.end.offset == 3


@pytest.mark.parametrize("step", ["append", "truncate", "leader_ends", "leader_starts"])
def test_a_log_that_was_moved_to_another_directory_is_fed_there(step: str) -> None:
    source, leader = leader_of(new_log(), 0), leader_of(new_log(), 7, is_fed=True)
    for value in (b"x", b"y"):
        produce(source, 5, value)
    fed = FedPartition(leader)
    copy_once(source, fed, 0)
    before, leader.log = leader.log, new_log()
    moved = FedPartition(leader_of(leader.log, 7, is_fed=True))
    copy_once(source, moved, 0)
    if step == "append":
        produce(source, 2, b"z")
        copy_once(source, fed, 0)
    elif step == "truncate":
        fed.truncate(0, 5, NOW_MS)
    elif step == "leader_ends":
        fed.leader_ends(5, NOW_MS)
    else:
        fed.leader_starts(20, NOW_MS)
    assert before.end.offset == 10
    assert leader.log.end.offset == {"append": 12, "leader_starts": 20}.get(step, 5)


def test_a_source_that_begins_at_the_end_of_the_mirror_cuts_it() -> None:
    source, leader = leader_of(new_log(), 0), leader_of(new_log(), 7, is_fed=True)
    produce(source, 3, b"x")
    fed = FedPartition(leader)
    copy_once(source, fed, 0)
    assert [fed.heard(3, start).log_start for start in (0, 1, 3, 4)] == [False, True, True, False]


def test_a_log_that_starts_over_within_a_batch_has_nothing_above_its_end() -> None:
    source, leader = leader_of(new_log(), 0), leader_of(new_log(), 7, is_fed=True)
    for count in (2, 3):
        produce(source, count, b"x")
    fed = FedPartition(leader)
    copy_once(source, fed, 0)
    source.log.truncate_to(2, NOW_MS)
    produce(source, 6, b"y")
    source.log.advance_log_start(5)
    copy_once(source, fed, 5)
    assert leader.high_watermark.offset == leader.log.end.offset == 8
    assert leader.log.log_start_offset == 5


def test_records_that_are_deleted_within_a_batch_hide_no_divergence() -> None:
    source, leader = leader_of(new_log(), 0), leader_of(new_log(), 7, is_fed=True)
    for count in (1, 1, 3):
        produce(source, count, b"before")
    fed = FedPartition(leader)
    copy_once(source, fed, 0)
    source.log.truncate_to(4, NOW_MS)
    source = leader_of(source.log, 1, source.log.end.offset)
    produce(source, 4, b"after")
    source.log.advance_log_start(5)  # within the batch from 2 to 5, and where the mirror ends
    copy_once(source, fed, 5)
    assert batches(leader.log, 5) == batches(source.log, 5)
    assert leader.log.log_start_offset == 5


def test_a_log_does_not_start_over_while_the_start_of_its_source_is_unknown() -> None:
    leader = leader_of(new_log(), 7, is_fed=True)
    source = leader_of(new_log(), 0)
    produce(source, 3, b"x")
    batch = memoryview(batches(source.log, 0)[0])
    fed = FedPartition(leader)
    fed.append(batch, 0, NOW_MS)
    with pytest.raises(KafkaError):
        fed.append(batch, 0, NOW_MS)
    assert (leader.log.log_start_offset, leader.log.end.offset) == (0, 3)
