"""The records that compaction keeps and drops, without anybody to compare with."""

from typing import Any, NamedTuple

import pytest
from compaction_history import DELETE_RETENTION_MS, History, Shape, newest, pass_over
from hypothesis import given, settings
from hypothesis import strategies as st
from log_making import NOW_MS, append, headers_of, make_batch, make_marker

from kpystorage import names, scan
from kpystorage.compaction.grouping import SegmentSizes, group_by_size
from kpystorage.compaction.offset_map import NOT_FOUND, OffsetMap
from kpystorage.compaction.reading import SegmentSource
from kpystorage.compaction.swap import swap_in
from kpystorage.compaction.task import CleanerConfig, LastRecord, LogToClean
from kpystorage.control_batches import apply_producer
from kpystorage.errors import CorruptRecord
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.log_offset import LogOffset
from kpystorage.memory_disk import MemoryDisk
from kpystorage.producer_states import ProducerStates
from kpywire.batch import DELETE_HORIZON_MASK, batch_headers
from kpywire.record import Record, build_batch, read_batch, read_records


def shape_of(drawn: dict[str, Any]) -> Shape:
    return Shape(**drawn)


SHAPES = st.fixed_dictionaries(
    {
        "keys": st.sampled_from([2, 10, 60]),
        "codecs": st.sampled_from([(0,), (0, 1, 2, 3, 4)]),
        "transactions": st.sampled_from([0, 0.3, 0.8]),
        "map_keys": st.sampled_from([2, 12, 1000]),
        "segment_bytes": st.sampled_from([3000, 9000]),
        "is_cleanable_amid_segments": st.booleans(),
    }
).map(shape_of)
SEEDS = st.integers(0, 1 << 32)


def make_history(seed: int, shape: Shape) -> History:
    disk = MemoryDisk()
    disk.make_directory("/d")
    return History(disk, "/d", seed, shape)


def grown_and_compacted(seed: int, shape: Shape) -> History:
    """A history with several passes over it, some of them after tombstones may go."""
    history = make_history(seed, shape)
    for wait_ms in (0, DELETE_RETENTION_MS // 2, 2 * DELETE_RETENTION_MS):
        history.grow(25)
        history.now_ms += wait_ms
        for _ in range(3):
            history.compact()
    return history


class Seen(NamedTuple):
    """The part of a log that consumers get."""

    everything: list[Record]
    committed: list[Record]


def consumed(log: Log) -> Seen:
    """The records as Kafka's clients read them: by the list of aborted transactions and the markers that end them."""
    log.producers.replicated_to(log.end.offset)
    unstable = log.producers.first_unstable
    stable = unstable.offset if unstable else log.end.offset
    waiting = sorted((each.first_offset, each.producer_id) for each in log.aborted_transactions(0, stable))
    aborted: set[int] = set()
    seen = Seen([], [])
    for segment in log.segments:
        data = segment.log.pread(segment.size, 0)
        for position, header in batch_headers(data):
            while waiting and waiting[0][0] <= header.last_offset:
                aborted.add(waiting.pop(0)[1])
            records = list(read_batch(data, header, position))
            if header.is_control:
                if records and records[0].key == b"\0\0\0\0":
                    aborted.discard(header.producer_id)
                continue
            seen.everything.extend(records)
            if header.base_offset < stable and not (header.is_transactional and header.producer_id in aborted):
                seen.committed.extend(records)
    return seen


@settings(max_examples=40)
@given(SEEDS, SHAPES)
def test_readers_of_a_compacted_log_see_the_newest_value_of_every_key(seed: int, shape: Shape) -> None:
    history = make_history(seed, shape)
    for wait_ms in (0, DELETE_RETENTION_MS // 2, 2 * DELETE_RETENTION_MS, 0):
        history.grow(25)
        history.now_ms += wait_ms
        before = consumed(history.log)
        history.compact()
        after = consumed(history.log)
        assert newest(after.committed) == newest(before.committed)
        if not shape.transactions:
            assert newest(after.everything) == newest(before.everything)


@settings(max_examples=25)
@given(SEEDS, SHAPES)
def test_compacted_records_keep_their_offsets_and_content(seed: int, shape: Shape) -> None:
    history = grown_and_compacted(seed, shape)
    written = {record.offset: record for batch in history.written for record in read_records(batch)}
    for record in consumed(history.log).everything:
        assert record == written[record.offset]


@settings(max_examples=25)
@given(SEEDS, SHAPES)
def test_a_compacted_log_that_is_compacted_again_stays_as_it_is(seed: int, shape: Shape) -> None:
    history = grown_and_compacted(seed, shape._replace(map_keys=1000))
    for _ in range(3):  # the first finds transactions empty, the next their markers
        history.first_dirty_offset = 0
        history.compact()
    before = {segment.base_offset: segment.log.pread(segment.size, 0) for segment in history.log.segments}
    history.first_dirty_offset = 0
    history.compact()
    assert {segment.base_offset: segment.log.pread(segment.size, 0) for segment in history.log.segments} == before


@settings(max_examples=25)
@given(SEEDS, SHAPES)
def test_the_last_sequence_of_every_producer_is_known_from_the_compacted_log(seed: int, shape: Shape) -> None:
    history = grown_and_compacted(seed, shape)
    before = {
        producer_id: (state.epoch, state.last_sequence)
        for producer_id, state in history.log.producers.producers.items()
    }
    replayed = ProducerStates("t-0")
    for segment in history.log.segments:
        for _, header, data in scan.batches(segment.log, 0, segment.size):
            if header.has_producer_id:
                ended = apply_producer(replayed, header, data, 0, LogOffset(header.base_offset))
                if ended is not None:
                    replayed.complete(ended)
    after = replayed.producers
    assert {each: (after[each].epoch, after[each].last_sequence) for each in before} == before


# One thing at a time.


class Small:
    """A log with one batch to a segment."""

    def __init__(self) -> None:
        self.history = make_history(0, Shape())
        self.history.config = LogConfig(delete_retention_ms=DELETE_RETENTION_MS)
        self.log = self.history.log
        self.disk = self.history.disk
        self.last_records: dict[int, LastRecord] = {}

    def put(self, *records: tuple[bytes | None, bytes | None], **batch: Any) -> None:
        made = [
            Record(timestamp=NOW_MS + 10 * number, key=key, value=value) for number, (key, value) in enumerate(records)
        ]
        self.add(build_batch(made, base_offset=self.log.end.offset, **batch))

    def add(self, batch: bytes) -> None:
        append(self.log, batch)
        self.log.roll(NOW_MS)

    def task(self) -> LogToClean:
        bases = tuple(segment.base_offset for segment in self.log.segments[:-1])
        end = self.log.active.base_offset
        return LogToClean(
            self.log.path, "t-0", bases, 0, end, self.log.end.offset, self.last_records, self.history.config
        )

    def compact(self, now_ms: int = NOW_MS, task: LogToClean | None = None) -> bytes:
        """A pass over all of it that is swapped in; what is left then."""
        groups, _ = pass_over(self.disk, task or self.task(), CleanerConfig(dedupe_buffer_bytes=24_000), now_ms)
        for group in groups:
            swap_in(self.log, group, NOW_MS)
        return b"".join(segment.log.pread(segment.size, 0) for segment in self.log.segments)


def keys_and_offsets(data: bytes) -> list[tuple[bytes | None, int]]:
    return [(record.key, record.offset) for record in read_records(data)]


def test_a_tombstone_stays_until_its_horizon_and_goes_then() -> None:
    small = Small()
    small.put((b"a", b"1"), (b"b", b"1"))
    small.put((b"a", None), (b"c", b"1"))
    small.put((b"d", b"1"))
    left = small.compact()
    assert keys_and_offsets(left) == [(b"b", 1), (b"a", 2), (b"c", 3), (b"d", 4)]
    header = headers_of(left)[1]
    assert header.delete_horizon_ms == NOW_MS + DELETE_RETENTION_MS
    assert [record.timestamp for record in read_records(left)] == [NOW_MS + 10, NOW_MS, NOW_MS + 10, NOW_MS]
    assert small.compact(NOW_MS + DELETE_RETENTION_MS - 1) == left
    after = small.compact(NOW_MS + DELETE_RETENTION_MS)
    assert keys_and_offsets(after) == [(b"b", 1), (b"c", 3), (b"d", 4)]
    assert headers_of(after)[1].attributes & DELETE_HORIZON_MASK


def test_a_marker_stays_until_the_horizon_after_its_transaction_has_gone() -> None:
    small = Small()
    small.add(make_batch(0, producer_id=5, transactional=True))
    small.add(make_marker(1, 5, commit=False))
    small.put((b"a", b"1"))
    small.put((b"z", b"1"))
    first = small.compact()
    assert [header.base_offset for header in headers_of(first)] == [1, 2, 3]
    assert small.log.aborted_transactions(0, 4)
    second = small.compact(NOW_MS + 1)
    assert headers_of(second)[0].delete_horizon_ms == NOW_MS + 1 + DELETE_RETENTION_MS
    assert not small.log.aborted_transactions(0, 4)
    third = small.compact(NOW_MS + 1 + DELETE_RETENTION_MS)
    assert [header.base_offset for header in headers_of(third)] == [2, 3]


def test_tombstones_and_markers_stay_from_the_offset_on_that_their_older_records_are_not_seen_for() -> None:
    small = Small()
    small.add(make_batch(0, producer_id=5, transactional=True))
    small.add(make_marker(1, 5, commit=False))
    small.put((b"a", None))
    small.put((b"b", None))
    small.put((b"z", b"1"))
    later = NOW_MS + DELETE_RETENTION_MS
    for now_ms in (NOW_MS, later, 2 * later):
        left = small.compact(now_ms, small.task()._replace(droppable_until=0))
        assert [each.base_offset for each in headers_of(left)] == [1, 2, 3, 4]
    assert [each.delete_horizon_ms for each in headers_of(left)[:3]] == [2 * later + DELETE_RETENTION_MS] * 3
    left = small.compact(3 * later, small.task()._replace(droppable_until=3))
    assert [each.base_offset for each in headers_of(left)] == [3, 4]


def test_segments_of_a_tiered_log_are_not_joined() -> None:
    small = Small()
    for number in range(3):
        small.put((b"%d" % number, b"1"))
    groups, _ = pass_over(small.disk, small.task(), CleanerConfig(dedupe_buffer_bytes=24_000), NOW_MS)
    assert [each.replaced for each in groups] == [(0, 1, 2)]
    tiered = small.task()._replace(config=small.history.config._replace(is_tiered=True))
    groups, _ = pass_over(small.disk, tiered, CleanerConfig(dedupe_buffer_bytes=24_000), NOW_MS)
    assert [each.replaced for each in groups] == [(0,), (1,), (2,)]


def test_the_last_batch_of_a_producer_is_kept_empty() -> None:
    small = Small()
    small.put((b"a", b"1"), producer_id=7, producer_epoch=3, base_sequence=40)
    small.put((b"a", b"2"))
    small.last_records = {7: LastRecord(0, 3)}
    header = headers_of(small.compact())[0]
    assert (header.record_count, header.last_sequence, header.producer_epoch) == (0, 40, 3)
    small.last_records = {}
    assert [header.base_offset for header in headers_of(small.compact())] == [1]


def test_the_batch_that_ends_at_the_high_watermark_is_kept_empty_and_no_other() -> None:
    small = Small()
    small.put((b"a", b"1"))
    small.put((None, b"1"), (None, b"2"))
    headers = headers_of(small.compact())
    assert [(header.base_offset, header.last_offset, header.record_count) for header in headers] == [
        (0, 0, 1),
        (1, 2, 0),
    ]
    assert small.task().high_watermark == 3
    left = small.compact(task=small.task()._replace(high_watermark=4))
    assert [header.base_offset for header in headers_of(left)] == [0]


def test_records_without_a_key_go_and_are_counted() -> None:
    small = Small()
    small.put((None, b"1"), (b"a", b"2"), (None, b"3"))
    groups, cleaned = pass_over(small.disk, small.task(), CleanerConfig(dedupe_buffer_bytes=2400), NOW_MS)
    assert (cleaned.stats.invalid_messages_read, cleaned.stats.messages_written) == (2, 1)
    assert groups[0].replaced == (0,)


def test_a_batch_of_which_everything_stays_keeps_its_bytes() -> None:
    small = Small()
    for number in range(4):
        small.put((b"a%d" % number, b"1"), (b"b%d" % number, b"2"), codec=number)
    before = b"".join(segment.log.pread(segment.size, 0) for segment in small.log.segments)
    assert small.compact() == before


@pytest.mark.parametrize("appended", [False, True], ids=["created", "appended"])
@pytest.mark.parametrize("with_tombstone", [False, True], ids=["", "with a tombstone"])
@pytest.mark.parametrize("part", ["key", "value", "timestamp", "offset"])
@pytest.mark.parametrize("size", [1, 62, 63, 64, 65, 127, 128, 8190, 8191, 8192, 8193, 1 << 20])
def test_numbers_of_every_width_are_compacted(size: int, part: str, with_tombstone: bool, appended: bool) -> None:
    """In a batch whose first record goes, so that the times of the others are written again; a tombstone moves them to
    the time when it goes."""
    small = Small()
    small.log.configure(small.history.config)  # segments that are large enough
    odd = Record(
        timestamp=NOW_MS + (size if part == "timestamp" else 1),
        key=b"k" * (size if part == "key" else 3),
        value=b"v" * (size if part == "value" else 3),
        offset=size if part == "offset" else 1,
    )
    late = Record(timestamp=NOW_MS + 2, key=b"late", value=b"1")
    dead = [Record(timestamp=NOW_MS + 3, key=b"dead")] if with_tombstone else []
    gone = Record(timestamp=NOW_MS, key=b"gone", value=b"1")
    options = {"timestamp_type": 1, "log_append_time_ms": NOW_MS + 9} if appended else {}
    small.add(build_batch([gone, odd, late, *dead], **options))  # type: ignore[arg-type]
    small.put((b"gone", b"2"), (b"last", b"3"))
    left = [(each.key, each.value, each.timestamp) for each in read_records(small.compact())]
    time = {"timestamp": NOW_MS + 9} if appended else {}
    stays = [each._replace(**time) for each in (odd, late, *dead)]
    assert left[: len(stays)] == [(each.key, each.value, each.timestamp) for each in stays]
    assert [key for key, _, _ in left[len(stays) :]] == [b"gone", b"last"]
    offsets = [record.offset for record in read_records(small.compact())]
    assert offsets[: len(stays)] == [odd.offset + number for number in range(len(stays))]


def test_records_behind_the_last_stable_offset_supersede_nothing_yet() -> None:
    small = Small()
    small.put((b"a", b"1"))
    batch = build_batch([Record(timestamp=NOW_MS, key=b"b", value=b"1")], base_offset=1)
    open_batch = build_batch(
        [Record(timestamp=NOW_MS, key=b"a", value=b"2")],
        base_offset=2, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True,
    )  # fmt: skip
    append(small.log, batch, open_batch)
    small.log.roll(NOW_MS)
    left = small.compact(task=small.task()._replace(first_uncleanable_offset=2))
    assert keys_and_offsets(left) == [(b"a", 0), (b"b", 1), (b"a", 2)]


def test_a_damaged_batch_ends_the_pass_and_nothing_of_its_group_comes() -> None:
    small = Small()
    small.put((b"a", b"1"))
    small.put((b"a", b"2"))
    path = f"{small.log.path}/{names.segment_file(1, names.LOG)}"
    data = bytearray(small.disk.read(path))
    data[-3] ^= 1
    small.disk.write(path, data, synchronize=False)
    with pytest.raises(CorruptRecord, match=r"00000000000000000001\.log, byte 0: .*checksum"):
        pass_over(small.disk, small.task(), CleanerConfig(), NOW_MS)


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("first_dirty_offset", [0, 2])
def test_a_compressed_record_of_more_bytes_than_are_allowed_ends_the_pass(codec: int, first_dirty_offset: int) -> None:
    """While keys are mapped, and while records of an earlier pass are read again. Without compression none is
    measured, as in Kafka."""
    most = 1008
    for allowed in (most - 1, most):
        small = Small()
        small.put((b"a", b"1"), (b"b", bytes(1000)), codec=codec)
        small.put((b"a", b"2"))
        task = small.task()._replace(first_dirty_offset=first_dirty_offset)
        config = task.config._replace(max_decompressed_message_bytes=allowed)
        if codec and allowed < most:
            text = f"Invalid record size: {most} exceeds the configured maximum record size of {allowed}"
            with pytest.raises(CorruptRecord, match=rf"00000000000000000000\.log, byte 0: {text}"):
                small.compact(task=task._replace(config=config))
        else:
            assert small.compact(task=task._replace(config=config))


class WholeBatches:
    """A walk that takes what it gets as far as it is whole."""

    is_done = False

    def take(self, data: bytes) -> int:
        return sum(header.size for _, header in batch_headers(data))


@pytest.mark.parametrize("window_bytes", [64, 1 << 20])
@pytest.mark.parametrize("left_bytes", [0, 30, 61, 100])
def test_a_segment_that_becomes_shorter_while_it_is_read_ends_the_pass(left_bytes: int, window_bytes: int) -> None:
    small = Small()
    small.put((b"a", bytes(200)))
    source = SegmentSource(small.disk, small.log.path, 0)
    assert list(source.windows(0, window_bytes, WholeBatches())) == [source.sizes.log]
    small.disk.write(source.path, small.disk.read(source.path)[:left_bytes], synchronize=False)
    source.log = small.disk.file(source.path)
    with pytest.raises(CorruptRecord, match=r"00000000000000000000\.log, byte 0"):
        next(source.windows(0, window_bytes, WholeBatches()))


@pytest.mark.parametrize("damage", ["cut", "magic", "length"])
def test_bytes_that_are_no_whole_batch_are_refused(damage: str) -> None:
    small = Small()
    small.put((b"a", b"1"))
    path = f"{small.log.path}/{names.segment_file(0, names.LOG)}"
    data = bytearray(small.disk.read(path))
    if damage == "cut":
        del data[-1]
    elif damage == "magic":
        data[16] = 1
    else:
        data[8:12] = b"\xff\xff\xff\xff"
    small.disk.write(path, data, synchronize=False)
    with pytest.raises(CorruptRecord):
        pass_over(small.disk, small.task(), CleanerConfig(), NOW_MS)


def test_files_of_an_earlier_attempt_are_replaced() -> None:
    small = Small()
    small.put((b"a", b"1"))
    for suffix in names.SEGMENT_FILES:
        small.disk.write(f"{small.log.path}/{names.segment_file(0, suffix)}.cleaned", b"left", synchronize=False)
    pass_over(small.disk, small.task(), CleanerConfig(dedupe_buffer_bytes=2400), NOW_MS)
    assert small.disk.status(f"{small.log.path}/{names.segment_file(0, names.TRANSACTION_INDEX)}.cleaned") is None
    cleaned = small.disk.read(f"{small.log.path}/{names.segment_file(0, names.LOG)}.cleaned")
    assert keys_and_offsets(cleaned) == [(b"a", 0)]


def test_offsets_too_far_from_their_segments_base_begin_another_one() -> None:
    small = Small()
    far = (1 << 31) + 5
    small.put((b"a", b"1"))
    batch = build_batch([Record(timestamp=NOW_MS, key=b"b", value=b"1")], base_offset=far)
    path = f"{small.log.path}/{names.segment_file(0, names.LOG)}"
    small.disk.write(path, small.disk.read(path) + batch, synchronize=False)
    task = small.task()._replace(first_uncleanable_offset=far + 1)
    groups, _ = pass_over(small.disk, task, CleanerConfig(dedupe_buffer_bytes=2400), NOW_MS)
    assert groups[0].base_offsets == (0, far)
    assert small.disk.read(f"{small.log.path}/{names.segment_file(far, names.LOG)}.cleaned") == batch


def test_the_throttle_counts_all_bytes_read_and_written() -> None:
    small = Small()
    for number in range(30):
        small.put((b"a%d" % (number % 7), b"1" * number))
    notified: list[int] = []
    _, cleaned = pass_over(
        small.disk, small.task(), CleanerConfig(dedupe_buffer_bytes=2400), NOW_MS, throttle=notified.append
    )
    stats = cleaned.stats
    assert sum(notified) == stats.map_bytes_read + stats.bytes_read + stats.bytes_written


def test_the_new_segment_is_as_old_as_the_last_of_those_it_replaces() -> None:
    small = Small()
    small.put((b"a", b"1"))
    small.put((b"b", b"1"))
    old = small.log.segments[1].log.path
    small.disk.set_modified(old, 123_456)
    groups, _ = pass_over(small.disk, small.task(), CleanerConfig(dedupe_buffer_bytes=2400), NOW_MS)
    assert groups[0].replaced == (0, 1)
    for suffix in (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX):
        status = small.disk.status(f"{small.log.path}/{names.segment_file(0, suffix)}.cleaned")
        assert status is not None
        assert status.modified_ns == 123_456_000_000


# The map.


@given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 1 << 40)), max_size=200))
def test_an_offset_map_knows_what_was_put_last(puts: list[tuple[bytes, int]]) -> None:
    offset_map = OffsetMap(len(puts) + 1)
    expected = {}
    for key, offset in puts:
        offset_map.put(key, offset)
        expected[key] = offset
    assert offset_map.count == len(expected)
    assert {key: offset_map.get(key) for key in expected} == expected
    assert offset_map.get(b"never put") == NOT_FOUND


def test_a_full_offset_map_finds_every_key() -> None:
    offset_map = OffsetMap(1001)
    for number in range(1000):
        offset_map.put(b"%d" % number, number)
    assert [offset_map.get(b"%d" % number) for number in range(1000)] == list(range(1000))
    assert offset_map.get(b"1000") == NOT_FOUND


# Grouping.


def sizes(*log: int, index: int = 8) -> list[SegmentSizes]:
    return [SegmentSizes(10 * number, size, index, index) for number, size in enumerate(log)]


def bases(groups: list[list[SegmentSizes]]) -> list[list[int]]:
    return [[each.base_offset for each in group] for group in groups]


def test_neighbours_are_grouped_as_long_as_their_files_fit_in_one() -> None:
    assert bases(group_by_size(sizes(40, 50, 20, 90, 5, 5), 100, 1000, 60)) == [[0, 10], [20], [30, 40, 50]]
    assert bases(group_by_size(sizes(1, 1, 1, 1, 1), 100, 16, 50)) == [[0, 10], [20, 30], [40]]
    assert bases(group_by_size(sizes(500, 500), 100, 1000, 20)) == [[0], [10]]
    assert group_by_size([], 100, 1000, 0) == []


def test_a_group_reaches_no_further_than_its_indexes_can_say() -> None:
    most = (1 << 31) - 1
    segments = [SegmentSizes(0, 1, 8, 8), SegmentSizes(10, 1, 8, 8), SegmentSizes(20, 0, 8, 8)]
    assert bases(group_by_size(segments[:2], 100, 1000, most + 1)) == [[0, 10]]
    assert bases(group_by_size(segments[:2], 100, 1000, most + 2)) == [[0], [10]]
    assert bases(group_by_size(segments, 100, 1000, most + 2)) == [[0, 10, 20]]
