"""The compaction of what a store has: the decisions of a pass, and readers whose segments are replaced meanwhile."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from compacted_world import CompactedWorld
from remote_log_histories import TOPIC_ID, segment, segment_id
from test_remote_segments import cache_of

from kpybroker.hosts.remote_log.figures import TierFigures
from kpybroker.hosts.remote_log.reads import RemoteReads, WantedRecords
from kpybroker.hosts.remote_log.time_search import TimeSearches
from kpybroker.machines.partition.role import Role
from kpybroker.machines.quotas.rate import QuotaWindows
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.compacting import (
    AppendTogether,
    CleanedGroup,
    CleanNext,
    CompactionStage,
    CopyCleaned,
    EndPass,
    StoreCompaction,
    StoredPart,
    dirt_of,
    epochs_of,
    replaced_by,
)
from kpybroker.machines.remote_log.copying import AppendRecord, CopySettings, StopCopying
from kpybroker.machines.remote_log.quota import RemoteLogQuota
from kpybroker.machines.remote_log.segments import DELETED, DELETING, FINISHED, RemoteLogSegment
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpystorage.remote import custom_metadata
from kpywire.record import Record as LogRecord
from kpywire.record import read_records

NOW_MS = 10_000


def part(number: int, start: int, end: int, compacted_until: int = 0, **fields: Any) -> StoredPart:
    """A part from ``start`` to ``end``, exclusive."""
    return StoredPart(segment(number, start, end - 1, [(1, start)], **fields), start, compacted_until)


def test_the_dirty_part_begins_where_a_pass_has_not_considered_all_that_was_before_it() -> None:
    cases = [
        ([part(1, 0, 10), part(2, 10, 20)], (0, 20, 0, 200)),
        ([part(1, 0, 10, 20), part(2, 10, 20, 20), part(3, 20, 30)], (20, 30, 200, 100)),
        ([part(1, 0, 10, 30), part(2, 10, 20, 20), part(3, 20, 30, 30)], (20, 30, 200, 100)),
        ([part(1, 0, 10, 20), part(2, 10, 20), part(3, 20, 30, 30)], (10, 30, 100, 200)),
        ([part(1, 0, 10, 15), part(2, 10, 20, 15)], (15, 20, 100, 100)),
        ([part(1, 0, 10, 20), part(2, 10, 20, 20)], (20, 20, 200, 0)),
    ]
    for parts, expected in cases:
        found = dirt_of(tuple(parts))
        assert (found.first_dirty_offset, found.end_offset, found.clean_bytes, found.dirty_bytes) == expected


def test_a_pass_is_worth_it_by_the_dirty_share_or_when_records_have_waited() -> None:
    clean = [part(1, 0, 10, 20, size_bytes=900), part(2, 10, 20, 20)]
    dirt = dirt_of((*clean, part(3, 20, 30, max_timestamp_ms=NOW_MS - 500)))
    assert not dirt.is_worth_it(0.5, 1_000, NOW_MS)
    assert dirt.is_worth_it(0.05, 1_000, NOW_MS)
    assert dirt.is_worth_it(0.5, 400, NOW_MS)
    assert not dirt_of(tuple(clean)).is_worth_it(0.0, 0, NOW_MS)
    assert not dirt_of((part(1, 0, 10),)).is_worth_it(0.0, 0, NOW_MS)


def test_epochs_of_neighbours_are_joined_and_cut_where_another_part_begins() -> None:
    first = StoredPart(segment(1, 0, 19, [(1, 0), (3, 12)]), 0, 0)
    second = StoredPart(segment(2, 10, 39, [(1, 10), (3, 12), (4, 30)]), 20, 0)
    assert epochs_of([first, second]) == ((1, 0), (3, 12), (4, 30))


# One pass


def group(*parts: StoredPart) -> CleanedGroup:
    return CleanedGroup(parts, 70, 5, is_transaction_index_empty=True, compacted_until=parts[-1].next_offset)


def stored(*parts: StoredPart) -> RemoteSegments:
    found = RemoteSegments(TOPIC_ID, "t", 0)
    for each in parts:
        found.apply(each.segment)
        found.apply(each.segment.update(FINISHED, 1, 0))
    return found


def passing() -> tuple[StoreCompaction, RemoteLogSegment]:
    """A pass whose first group is being written."""
    machine = StoreCompaction(TOPIC_ID, "t", 0, CopySettings(1, deadline_ms=500, retry_ms=10, max_retry_ms=15))
    assert machine.begin() == [CleanNext()]
    (asked,) = machine.cleaned(group(part(1, 0, 10), part(2, 10, 20)), segment_id(9), 0, NOW_MS)
    assert isinstance(asked, AppendRecord)
    new = asked.record
    assert isinstance(new, RemoteLogSegment)
    (copy,) = machine.announced(segment_id(9))
    assert isinstance(copy, CopyCleaned)
    assert copy.deadline_ms == 500
    return machine, new


def test_a_group_is_replaced_in_one_append_and_says_up_to_where_it_is_compacted() -> None:
    machine, new = passing()
    parts = part(1, 0, 10), part(2, 10, 20)
    (replacement,) = machine.objects_written(segment_id(9), None, stored(*parts), 1, NOW_MS)
    assert isinstance(replacement, AppendTogether)
    first, *old = replacement.records
    assert (first.id, first.state) == (new.id, FINISHED)
    assert custom_metadata.decode(first.custom_metadata).compacted_until == 20
    assert [(each.id, each.state) for each in old] == [(each.segment.id, DELETING) for each in parts]
    segments = stored(*parts)
    segments.apply(new)
    for record in replacement.records:
        assert segments.find(1, 5) is not None
        segments.apply(record)
        assert segments.find(1, 15) is not None
    assert segments.find(1, 5) == segments.find(1, 15) == segments.get(segment_id(9))
    assert machine.replaced(segment_id(9)) == [CleanNext()]
    assert machine.ended() == [EndPass()]
    assert machine.may_begin(1)


def test_copies_that_had_lost_their_place_are_replaced_too_unless_they_are_of_another_history() -> None:
    parts = part(1, 0, 20), part(2, 20, 30)
    segments = stored(part(3, 5, 10), *parts)
    other = segment(4, 3, 8, [(2, 3)])
    segments.apply(other)
    segments.apply(other.update(FINISHED, 1, 0))
    new = segment(9, 0, 29, [(1, 0)])
    assert [each.id for each in replaced_by(new, parts, segments)] == [
        parts[0].segment.id,
        parts[1].segment.id,
        part(3, 5, 10).segment.id,
    ]


def test_a_copy_in_which_the_log_began_is_replaced_by_a_segment_that_begins_later() -> None:
    copied = segment(1, 0, 11, [(1, 11)])  # the log start was 11 when it was made
    segments = cache_of(copied, segment(2, 9, 16, [(1, 11)]))
    parts = [StoredPart(segment(2, 9, 16, [(1, 11)]), 9, 0)]
    new = segment(9, 9, 16, [(1, 11)])
    replaced = [each.start_offset for each in replaced_by(new, parts, segments)]
    assert replaced == [9, 0]
    earlier = segment(3, 0, 11, [(1, 4)])  # which was made before the log start moved
    known = cache_of(earlier, *map(_of, parts))
    assert [each.start_offset for each in replaced_by(new, parts, known)] == [9, 0]
    assert [each.start_offset for each in replaced_by(segment(9, 9, 16, [(1, 9)]), parts, known)] == [9]


def _of(part: StoredPart) -> RemoteLogSegment:
    return part.segment


def test_a_failed_group_is_given_up_and_a_pass_begins_again_after_a_pause() -> None:
    machine, new = passing()
    given_up = AppendRecord(new.update(DELETING, 1, NOW_MS))
    assert machine.failed(segment_id(9), "the store is away", 100, NOW_MS) == [given_up, EndPass()]
    assert (machine.failures, machine.last_error) == (1, "the store is away")
    assert not machine.may_begin(109)
    assert machine.may_begin(110)
    assert machine.failed(segment_id(9), "again", 100, NOW_MS) == []


def test_objects_that_are_not_written_in_time_are_given_up_and_an_append_under_way_is_not() -> None:
    machine, new = passing()
    assert machine.due(499, NOW_MS) == []
    stop, given_up, end = machine.due(500, NOW_MS)
    assert (stop, end) == (StopCopying(segment_id(9)), EndPass())
    assert given_up == AppendRecord(new.update(DELETING, 1, NOW_MS))
    machine, new = passing()
    machine.objects_written(segment_id(9), None, stored(part(1, 0, 10), part(2, 10, 20)), 1, NOW_MS)
    assert machine.due(10_000, NOW_MS) == []
    assert machine.stage is CompactionStage.FINISHING


def test_a_leader_that_ends_writes_no_record() -> None:
    machine, _ = passing()
    assert machine.stop() == [StopCopying(segment_id(9)), EndPass()]
    assert machine.objects_written(segment_id(9), None, stored(), 1, NOW_MS) == []
    assert machine.stop() == []


# Readers of segments that are replaced


def filled(seed: int = 1) -> CompactedWorld:
    """A partition of which the store has much, in several segments."""
    world = CompactedWorld(Random(seed))
    for _ in range(20):
        world.appends()
        world.now_ms += 10
        for log in world.logs:
            if log.active.size:
                log.roll(world.now_ms)
    world.ends_transaction()
    for _ in range(60):
        world.cleans()
        world.copies_one()
        world.leaves_the_disk()
    assert len(world.remote) > 3
    return world


def compact_and_delete(world: CompactedWorld) -> None:
    """Replace all that is in the store, and delete the old objects."""
    before = {each.id for each in world.remote.all() if each.state is FINISHED}
    for _ in range(100):
        world.compacts()
        while world.queue:
            world.works()
        for each in list(world.remote.all()):
            if each.state is DELETING:
                world.storage.delete(each)
                world.metadata.apply(each.update(DELETED, 0, 0))
    assert not before & {each.id for each in world.remote.all()}


Held = list[tuple[Callable[[], Any], Callable[[Any, BaseException | None], object]]]


def carry_out(held: Held, scheduler: ManualScheduler) -> None:
    """Do what threads would do."""
    scheduler.run()
    while held:
        scheduler.submit_blocking(*held.pop(0))
        scheduler.run()


def test_a_read_goes_on_in_the_segment_that_has_taken_the_place_of_another() -> None:
    world = filled()
    scheduler, held, woken = ManualScheduler(), Held(), list[str]()
    quota = RemoteLogQuota(1 << 40, QuotaWindows(11, 1_000))
    reads = RemoteReads(
        scheduler,  # type: ignore[arg-type]
        world.storage,
        lambda work, done: held.append((work, done)),
        lambda: 10,
        quota,
        TierFigures(),
    )
    role = Role(world.log, 1, world.log.end.offset)
    wanted = WantedRecords(TOPIC_ID, 0, 0, 1 << 20, False, lambda: woken.append("woken"))
    assert reads.read(wanted, role, world.remote) is None
    compact_and_delete(world)
    carry_out(held, scheduler)
    assert woken == ["woken"]
    found = reads.read(wanted, role, world.remote)
    assert found is not None
    assert next(iter(read_records(found.records))).offset == next(iter(world.read())).offset


@pytest.mark.parametrize("committed_only", [True, False])
def test_a_reader_goes_on_to_the_disk_where_the_end_of_the_store_has_nothing_left(*, committed_only: bool) -> None:
    world = CompactedWorld(Random(1))
    for number, key in enumerate((b"a", b"b", b"b", b"c")):
        world._append([LogRecord(timestamp=number, key=key, value=b"%d" % number)], 0)
        for log in world.logs:
            log.roll(world.now_ms)
    while any(each.directory.cleaner_offsets.get(("t", 0)) != 4 for each in world.logs):
        world.cleans()
    while world.copies.copied.offset < 1:
        world.copies_one()
    world.log.flush()
    world.log.delete_oldest(2, world.now_ms)
    scheduler, woken = ManualScheduler(), list[str]()
    quota = RemoteLogQuota(1 << 40, QuotaWindows(11, 1_000))
    reads = RemoteReads(
        scheduler,  # type: ignore[arg-type]
        world.storage,
        scheduler.submit_blocking,
        lambda: 10,
        quota,
        TierFigures(),
    )
    role = Role(world.log, 1, 0)
    role.high_watermark = world.log.position_of(2)
    wanted = WantedRecords(TOPIC_ID, 0, 1, 1 << 20, committed_only, lambda: woken.append("woken"))
    for offsets in ([], [2]):
        assert reads.read(wanted, role, world.remote) is None
        scheduler.run()
        found = reads.read(wanted, role, world.remote)
        assert found is not None
        assert [each.offset for each in read_records(found.records)] == offsets
        role.high_watermark = world.log.end
    assert woken == ["woken"] * 2


def test_a_search_by_time_goes_on_in_the_segments_that_have_taken_the_place_of_others() -> None:
    world = filled()
    scheduler, held = ManualScheduler(), Held()
    searches = TimeSearches(
        scheduler,  # type: ignore[arg-type]
        world.storage,
        lambda work, done: held.append((work, done)),
        lambda: 60_000.0,
        TierFigures(),
    )
    role = Role(world.log, 1, world.log.end.offset)
    timestamp = [each.timestamp for each in world.read() if each.offset < world.log.local_log_start_offset][-1]
    answers: list[Any] = []
    pending = searches.find(role, world.remote, timestamp)
    assert pending is not None
    pending.when_resolved(answers.append)
    scheduler.run()
    compact_and_delete(world)
    carry_out(held, scheduler)
    expected = next(each.offset for each in world.read() if each.timestamp >= timestamp)
    (answer,) = answers
    assert answer.offset == expected
