"""Lent segments: whatever the owner of a log does to it, lent bytes stay, and lent names go when they should."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from log_making import NOW_MS, PATH, TOPIC_ID, append, open_directory
from test_compaction_swap import CONFIG, groups_of

from kpystorage import names
from kpystorage.compaction.swap import swap_in
from kpystorage.lending import LentSegment, lend, take_back
from kpystorage.log import Log
from kpystorage.memory_disk import MemoryDisk
from kpystorage.scan import batches
from kpywire.record import Record, build_batch


def read(disk: MemoryDisk, segment: LentSegment) -> bytes:
    """The lent bytes of a segment, by its lent name."""
    return disk.read(segment.path)[: segment.end_position]


def lent_names(disk: MemoryDisk, log: Log) -> list[str]:
    return [name for name in disk.list_directory(log.path) if names.is_lent_file(name)]


class LentLog(RuleBasedStateMachine):
    """A log that is written, rolled, compacted, cut above the high watermark, shortened from below and opened again."""

    @initialize()
    def make(self) -> None:
        self.log = open_directory(config=CONFIG).create_log("t", 0, TOPIC_ID, CONFIG, NOW_MS)
        self.disk: Any = self.log.directory.disk
        self.high_watermark = 0
        self.leases: dict[int, tuple[list[LentSegment], list[bytes]]] = {}
        self.lease = 0

    @rule(count=st.integers(1, 2), key=st.integers(0, 3), bytes_each=st.sampled_from([1, 40, 100]))
    def write(self, count: int, key: int, bytes_each: int) -> None:
        record = Record(timestamp=NOW_MS, key=b"k%d" % key, value=bytes_each * b"v")
        base_offset = self.log.log_end_offset
        append(self.log, build_batch([record] * count, base_offset=base_offset, partition_leader_epoch=0))

    @rule()
    def commit(self) -> None:
        self.high_watermark = self.log.log_end_offset

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @precondition(lambda self: len(self.log.segments) > 1 and self.log.base_offsets[-1] <= self.high_watermark)
    @rule()
    def compact(self) -> None:
        for group in groups_of(self.log):
            swap_in(self.log, group, NOW_MS)

    @rule(share=st.floats(0, 1))
    def shorten(self, share: float) -> None:
        start = self.log.log_start_offset
        self.log.advance_log_start(start + int((self.high_watermark - start) * share))
        self.log.delete_old_segments(NOW_MS, self.high_watermark)

    @rule()
    def cut(self) -> None:
        self.log.truncate_to(max(self.high_watermark, self.log.local_log_start_offset), NOW_MS)

    @rule()
    def borrow(self) -> None:
        start = self.log.log_start_offset
        end = self.log.position_of(max(self.high_watermark, start))
        self.lease += 1
        segments = lend(self.disk, self.log, start, end, self.lease)
        self.leases[self.lease] = segments, [read(self.disk, segment) for segment in segments]
        for segment in segments:
            found = [header for _, header, _ in batches(self.disk.file(segment.path), 0, segment.end_position)]
            assert sum(header.size for header in found) == segment.end_position
            assert all(header.next_offset <= min(segment.next_offset, end.offset) for header in found)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        segments, _ = self.leases.pop(data.draw(st.sampled_from(sorted(self.leases))))
        for segment in segments:
            take_back(self.disk, segment)

    @rule()
    def open_again(self) -> None:
        self.log.directory.close()
        (self.log,) = open_directory(self.disk, config=CONFIG).every_log()
        self.log.open()
        self.leases.clear()

    @rule()
    def delete_files(self) -> None:
        self.log.directory.delete_due_files(NOW_MS + 1_000_000_000)

    @invariant()
    def lent_bytes_stay(self) -> None:
        for segments, contents in getattr(self, "leases", {}).values():
            assert [read(self.disk, segment) for segment in segments] == contents

    @invariant()
    def no_name_is_left_without_a_lease(self) -> None:
        if hasattr(self, "log"):
            assert len(lent_names(self.disk, self.log)) == 2 * sum(
                len(segments) for segments, _ in self.leases.values()
            )


TestLentLog = LentLog.TestCase
TestLentLog.settings = settings(stateful_step_count=50, max_examples=200, deadline=None)


def test_a_failure_on_the_way_lends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_directory(config=CONFIG).create_log("t", 0, TOPIC_ID, CONFIG, NOW_MS)
    for number in range(6):
        log.roll(NOW_MS)
        append(log, build_batch([Record(value=b"v" * 300)], base_offset=number, partition_leader_epoch=0))
    disk: Any = log.directory.disk
    link, calls = disk.link, iter(range(100))

    def full(source: str, target: str) -> None:
        if next(calls) == 7:
            raise OSError(28, "No space left on device", target)
        link(source, target)

    monkeypatch.setattr(disk, "link", full)
    with pytest.raises(OSError, match="No space left"):
        lend(disk, log, 0, log.end, 1)
    assert [name for name in disk.list_directory(log.path) if name.startswith("0") and names.is_lent_file(name)] == []


def test_a_deleted_topic_takes_its_lent_names_along() -> None:
    directory = open_directory(config=CONFIG)
    log = directory.create_log("t", 0, TOPIC_ID, CONFIG, NOW_MS)
    append(log, build_batch([Record(value=b"v")], partition_leader_epoch=0))
    (segment,) = lend(directory.disk, log, 0, log.end, 1)
    for _ in directory.remove(directory.mark(log)):
        pass
    assert [name for name in directory.disk.list_directory(PATH) if name.startswith("t-0")] == []
    take_back(directory.disk, segment)
