"""Single decisions about tiering: the reasons of a wait, lags, retries, retention, deletion, aux state, orphans."""

import pytest
from remote_log_histories import TOPIC_ID, segment, segment_id, update
from test_remote_segments import cache_of

from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.copying import (
    AppendRecord,
    CopyObjects,
    CopySettings,
    SegmentCopies,
    StopCopying,
    Wait,
    candidates,
    copy_lag,
)
from kpybroker.machines.remote_log.deleting import DeleteObjects, Deletions, MoveLogStart, PartitionDeletion
from kpybroker.machines.remote_log.expiry import everything, local_expiry, remote_expiry
from kpybroker.machines.remote_log.follower import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    AskEpochEnd,
    AskOffset,
    AuxiliaryState,
    FetchIndexes,
    FindSegment,
    StartAt,
    TryLater,
)
from kpybroker.machines.remote_log.lineage import at_once, copied_without_gap, highest_copied, log_start
from kpybroker.machines.remote_log.local_log import BlockingTransaction, LocalLog, LocalSegment, TierSettings
from kpybroker.machines.remote_log.segments import DELETED, DELETING, FINISHED, STARTED, RemotePartitionDeleteState
from kpybroker.machines.remote_log.sweep import Belonging, ListedObject, ObjectSweep

NOW_MS = 10_000


def log_of(*bases: int, end: int, stable: int | None = None, start: int = 0) -> LocalLog:
    segments = [LocalSegment(base, 100, base) for base in bases]
    return LocalLog(segments, start, max(start, bases[0]), end, end, end if stable is None else stable, [(1, 0)])


def copies() -> SegmentCopies:
    return SegmentCopies(TOPIC_ID, "t", 0, CopySettings(1, deadline_ms=500, retry_ms=10, max_retry_ms=15))


def why(log: LocalLog, settings: TierSettings, of: SegmentCopies | None = None) -> tuple[Wait, str] | None:
    waiting = (of or copies()).why_waiting(log, settings, NOW_MS, NOW_MS)
    return None if waiting is None else (waiting.wait, waiting.reason)


def test_a_partition_says_why_it_waits() -> None:
    log, at_once = log_of(0, 10, end=20), TierSettings()
    assert why(log, at_once) is None
    assert why(log_of(0, end=20), at_once) == (Wait.NOTHING, "everything is copied except the active segment")
    open_log = log._replace(last_stable_offset=7, transaction=BlockingTransaction(5, 7))
    assert why(open_log, at_once) == (Wait.TRANSACTION, "waits for the transaction of producer 5 since offset 7")
    behind = log._replace(last_stable_offset=7, high_watermark=7)
    assert why(behind, at_once) == (Wait.REPLICAS, "waits for replicas to have the records from offset 7 on")
    lag = TierSettings(copy_lag_ms=3_600_000, copy_lag_bytes=500)
    assert why(log, lag) == (Wait.LAG, "a lag of 1 h or 500 bytes is configured")
    unlimited = TierSettings(copy_lag_ms=-1, copy_lag_bytes=-1)
    assert why(log, unlimited) == (Wait.LAG, "the lag is the local retention, which has no limit")
    assert why(log, TierSettings(is_copy_disabled=True)) == (Wait.DISABLED, Wait.DISABLED.value)


def test_of_a_compacted_log_only_what_the_cleaner_has_passed_is_copied() -> None:
    log = log_of(0, 10, 20, end=30)
    assert [each.base_offset for each in candidates(log, 0, TierSettings(), NOW_MS)] == [0, 10]
    assert [each.base_offset for each in candidates(log._replace(clean_until=19), 0, TierSettings(), NOW_MS)] == [0]
    waiting = why(log._replace(clean_until=9), TierSettings())
    assert waiting == (Wait.CLEANER, "waits for the cleaner, which has compacted the log up to 9")


def test_a_failed_copy_is_tried_again_under_another_id_after_a_pause() -> None:
    log, settings, of = log_of(0, 10, end=20), TierSettings(), copies()
    (asked,) = of.begin(log, settings, segment_id=segment_id(1), now_ms=0, wall_ms=NOW_MS)
    assert isinstance(asked, AppendRecord)
    first = asked.record
    assert first == segment(1, 0, 9, [(1, 0)], event_timestamp_ms=NOW_MS)
    assert of.committed(first) == [CopyObjects(first, 500)]
    assert of.due(499, NOW_MS) == []
    stopped, marked = of.due(500, NOW_MS)
    assert stopped == StopCopying(segment_id(1))
    assert isinstance(marked, AppendRecord)
    assert marked.record.state is DELETING
    waiting = of.why_waiting(log, settings, 505, NOW_MS)
    assert waiting == (Wait.FAILED, "copy failed: not complete after 500 ms (1 times)", 510)
    assert of.objects_written(segment_id(1), None, 505, NOW_MS) == []
    assert of.begin(log, settings, segment_id=segment_id(2), now_ms=505, wall_ms=NOW_MS) == []
    (again,) = of.begin(log, settings, segment_id=segment_id(2), now_ms=510, wall_ms=NOW_MS)
    assert isinstance(again, AppendRecord)
    of.committed(again.record)  # type: ignore[arg-type]
    (done,) = of.objects_written(segment_id(2), b"key", 520, NOW_MS)
    assert isinstance(done, AppendRecord)
    assert of.copied.offset == -1
    of.committed(done.record)  # type: ignore[arg-type]
    assert of.copied == (9, 1)
    assert of.failures == 0


def test_custom_metadata_that_are_too_long_end_a_copy() -> None:
    of = copies()
    (asked,) = of.begin(log_of(0, 10, end=20), TierSettings(), segment_id=segment_id(1), now_ms=0, wall_ms=0)
    of.committed(asked.record)  # type: ignore[union-attr,arg-type]
    (marked,) = of.objects_written(segment_id(1), b"x" * 129, 0, 0)
    assert marked.record.state is DELETING  # type: ignore[union-attr]
    assert "remote.log.metadata.custom.metadata.max.bytes is 128" in of.last_error


def test_a_new_leader_copies_what_a_former_one_left_out() -> None:
    remote = cache_of(segment(1, 0, 9, [(1, 0)]), segment(2, 20, 29, [(1, 20)]))
    assert highest_copied(remote, 40, [(1, 0)]) == (29, 1)
    assert at_once(copied_without_gap(remote, 40, [(1, 0)], 0, 5)) == (9, 1)
    assert at_once(copied_without_gap(remote, 40, [(1, 0)], 0, 25)) == (29, 1)
    assert at_once(log_start(remote, 40, [(1, 0)], 0, 5)) == 0
    assert at_once(log_start(remote, 40, [(1, 0)], 0, 25)) == 20
    assert at_once(log_start(remote, 40, [(1, 0)], 0, 35)) == 35


def test_the_lag_leaves_out_the_active_segment() -> None:
    assert copy_lag(log_of(0, 10, 20, end=30), -1) == (200, 2)
    assert copy_lag(log_of(0, 10, 20, end=30), 9) == (100, 1)
    assert copy_lag(log_of(0, 10, 20, end=30), 19) == (0, 0)


def test_the_disk_keeps_what_no_copy_has() -> None:
    log, settings = log_of(0, 10, 20, end=30), TierSettings(local_retention_ms=0)
    assert local_expiry(log, RemoteSegments(TOPIC_ID, "t", 0), settings, NOW_MS).segments == ()
    first = segment(1, 0, 9, [(1, 0)])
    found = local_expiry(log, cache_of(first), settings, NOW_MS)
    assert (len(found.segments), found.local_log_start, found.log_start) == (1, 10, None)
    disabled = TierSettings(retention_ms=0, local_retention_ms=10**9, is_copy_disabled=True)
    found = local_expiry(log, cache_of(first), disabled, NOW_MS)
    assert (len(found.segments), found.log_start) == (2, 20)


def test_nothing_expired_is_deleted_before_the_log_start_has_moved() -> None:
    made = segment(1, 0, 9, [(1, 0)])
    remote, log = cache_of(made), log_of(10, 20, end=30)
    expiry = at_once(remote_expiry(log, remote, TierSettings(retention_ms=100), copied_offset=9, now_ms=NOW_MS))
    assert expiry.log_start == 10
    of = Deletions(1)
    assert of.begin(expiry, 0, 0, 0) == [MoveLogStart(10)]
    (marked,) = of.begin(expiry, 10, 0, 0)
    assert isinstance(marked, AppendRecord)
    assert of.begin(expiry, 10, 0, 0) == []
    (asked,) = of.committed(marked.record)  # type: ignore[arg-type]
    assert isinstance(asked, DeleteObjects)
    of.failed(segment_id(1), "away", 0)
    assert of.due(999, 0) == []
    assert of.due(1_000, 0) == [asked]
    (done,) = of.objects_deleted(segment_id(1), 0)
    assert done.record.state is DELETED  # type: ignore[union-attr]
    of.committed(done.record)  # type: ignore[union-attr,arg-type]
    assert of.waiting == []


def test_segments_that_are_being_deleted_do_not_count_for_retention() -> None:
    """The log start has moved behind the first one, and no record says yet that it is being deleted."""
    copied = [segment(number, 10 * number, 10 * number + 9, [(1, 10 * number)]) for number in range(3)]
    settings = TierSettings(retention_bytes=300)
    for start, moved in ((0, 10), (10, None)):
        log = log_of(30, end=40)._replace(log_start_offset=start)
        found = at_once(remote_expiry(log, cache_of(*copied), settings, copied_offset=29, now_ms=NOW_MS))
        assert (found.log_start, [each.start_offset for each in found.expired]) == (moved, [0])


def test_all_is_deleted_when_tiering_ends_and_the_log_begins_on_the_disk() -> None:
    remote = cache_of(segment(1, 0, 9, [(1, 0)]), segment(2, 10, 19, [(1, 10)]))
    expiry = everything(log_of(10, 20, end=30), remote)
    assert expiry.log_start == 10
    assert [each.start_offset for each in expiry.expired] == [0, 10]


def test_a_partition_is_deleted_step_by_step() -> None:
    made = segment(1, 0, 9, [(1, 0)])
    remote = cache_of(made)
    of, states = PartitionDeletion(remote, 1), RemotePartitionDeleteState
    (record,) = of.next(None, 0, 0)
    assert record.record.state is states.DELETE_PARTITION_MARKED  # type: ignore[union-attr]
    assert of.next(None, 0, 0) == []
    (record,) = of.next(states.DELETE_PARTITION_MARKED, 0, 0)
    assert record.record.state is states.DELETE_PARTITION_STARTED  # type: ignore[union-attr]
    (record,) = of.next(states.DELETE_PARTITION_STARTED, 0, 0)
    assert record.record.state is DELETING  # type: ignore[union-attr]
    remote.apply(update(made, DELETING))
    remote.apply(update(made, DELETED))
    (record,) = of.next(states.DELETE_PARTITION_STARTED, 0, 0)
    assert record.record.state is states.DELETE_PARTITION_FINISHED  # type: ignore[union-attr]
    assert of.next(states.DELETE_PARTITION_FINISHED, 0, 0) == []


def test_a_replica_begins_behind_the_segment_before_the_leaders_disk() -> None:
    made = segment(1, 80, 89, [(1, 80)])
    state = AuxiliaryState(log_end_offset=5, is_compacted=False, fetch_last_tiered=True)
    assert state.begin() == AskOffset(EARLIEST)
    assert state.offset(20, 0) == AskOffset(EARLIEST_LOCAL)
    assert state.offset(90, 3) == AskEpochEnd(2)
    assert state.epoch_end(1, 90) == FindSegment(1, 89)  # epoch 2 has no records
    step = state.found(cache_of(made))
    assert step == AskEpochEnd(1)
    step = state.epoch_end(1, 90)
    assert isinstance(step, FetchIndexes)
    assert state.fetched(((0, 20), (1, 85)), b"snapshot") == StartAt(90, 20, ((0, 20), (1, 85)), b"snapshot")


def test_a_copy_of_lost_records_is_cut_where_the_leader_differs() -> None:
    state = AuxiliaryState(log_end_offset=0, is_compacted=False, fetch_last_tiered=False)
    state.begin()
    state.offset(0, 1)
    state.offset(14, 9)
    state.epoch_end(1, 14)
    assert state.found(cache_of(segment(1, 0, 19, [(1, 0)]))) == AskEpochEnd(1)
    assert isinstance(state.epoch_end(1, 14), FetchIndexes)
    assert state.fetched(((1, 0),), b"snapshot of offset 20") == StartAt(14, 0, ((1, 0),), None)


def test_an_empty_replica_begins_with_what_is_not_tiered_yet() -> None:
    state = AuxiliaryState(log_end_offset=0, is_compacted=False, fetch_last_tiered=True)
    assert state.begin() == AskOffset(LATEST)
    assert state.offset(100, 2) == AskOffset(EARLIEST)
    assert state.offset(0, 0) == AskOffset(EARLIEST_PENDING_UPLOAD)
    assert state.offset(-1, -1) == AskOffset(EARLIEST_LOCAL)
    assert state.offset(7, 1) == AskOffset(LATEST_TIERED)
    assert isinstance(state.offset(98, 2), TryLater)


@pytest.mark.parametrize("tiered", [99, 103])
def test_an_empty_replica_begins_behind_the_store_that_has_all_of_its_leaders_disk_too(tiered: int) -> None:
    state = AuxiliaryState(log_end_offset=0, is_compacted=False, fetch_last_tiered=True)
    state.begin()
    state.offset(100, 3)
    state.offset(0, 0)
    state.offset(-1, -1)
    state.offset(90, 2)
    assert state.offset(tiered, 2) == FindSegment(2, tiered)


def test_an_empty_replica_begins_at_the_end_of_a_leader_that_has_everything_in_the_store() -> None:
    state = AuxiliaryState(log_end_offset=0, is_compacted=False, fetch_last_tiered=True)
    state.begin()
    state.offset(20, 2)
    state.offset(0, 0)
    assert state.offset(-1, -1) == AskOffset(EARLIEST_LOCAL)
    assert state.offset(20, 2) == AskEpochEnd(1)


def test_a_replica_begins_without_a_segment_where_nothing_is_tiered() -> None:
    state = AuxiliaryState(log_end_offset=0, is_compacted=False, fetch_last_tiered=False)
    state.begin()
    state.offset(7, 1)
    assert state.offset(7, 1) == StartAt(7, 7, (), None)


@pytest.mark.parametrize("epochs", [(), ((1, 95),), ((2, 80),), ((1, 80), (1, 85))])
def test_epochs_that_do_not_fit_their_segment_are_refused(epochs: tuple[tuple[int, int], ...]) -> None:
    state = AuxiliaryState(log_end_offset=0, is_compacted=False, fetch_last_tiered=False)
    state.begin()
    state.offset(0, 0)
    state.offset(90, 0)
    state.found(cache_of(segment(1, 80, 89, [(0, 80)])))
    state.epoch_end(0, 90)
    assert isinstance(state.fetched(epochs, None), TryLater)


def test_an_object_is_an_orphan_only_if_nothing_knew_it_twice() -> None:
    remote = RemoteSegments(TOPIC_ID, "t", 0)
    remote.apply(segment(1, 0, 9, [(1, 0)], state=STARTED))
    listing = [ListedObject(str(number), TOPIC_ID, 0, segment_id(number), 1) for number in (1, 2)]
    listing.append(ListedObject("3", bytes(16), 0, segment_id(3), 1))
    of = ObjectSweep(100)

    def judged(now_ms: int, *objects: ListedObject) -> list[Belonging]:
        return [
            each for _, each in of.judge(objects, lambda topic_id, _: remote if topic_id == TOPIC_ID else None, now_ms)
        ]

    assert judged(0, *listing) == [Belonging.KNOWN, Belonging.YOUNG, Belonging.FOREIGN]
    assert judged(100, *listing) == [Belonging.KNOWN, Belonging.ORPHAN, Belonging.FOREIGN]
    assert judged(150, listing[0]) == [Belonging.KNOWN]
    assert judged(300, *listing[:2]) == [Belonging.KNOWN, Belonging.YOUNG]
    assert remote.state(segment_id(1)) is not FINISHED


def test_an_object_is_young_again_after_its_first_look_was_forgotten() -> None:
    of, listing = ObjectSweep(100), [ListedObject("1", TOPIC_ID, 0, segment_id(1), 1)]
    remote = RemoteSegments(TOPIC_ID, "t", 0)
    found = []
    for now_ms in (0, 150, 250):
        found += [each for _, each in of.judge(listing, lambda *_: remote, now_ms)]
        if now_ms == 0:
            of.forget()
    assert found == [Belonging.YOUNG, Belonging.YOUNG, Belonging.ORPHAN]


def test_copies_that_no_history_leads_to_and_those_that_were_given_up_are_deleted() -> None:
    log = log_of(0, end=20)._replace(epochs=[(5, 0)])
    remote = cache_of(segment(1, 0, 9, [(3, 0)]), segment(2, 0, 9, [(3, 0), (5, 5)]), segment(3, 10, 15, [(5, 10)]))
    for number in (4, 5, 6):
        remote.apply(segment(number, 0, 9, [(3, 0)]))
    remote.apply(segment(7, 0, 9, [(5, 0)]))
    remote.apply(update(segment(7, 0, 9, [(5, 0)]), FINISHED))
    remote.apply(update(segment(7, 0, 9, [(5, 0)]), DELETING))
    overdue = frozenset([segment_id(5), segment_id(1)])
    found = at_once(remote_expiry(log, remote, TierSettings(), copied_offset=15, now_ms=NOW_MS, overdue=overdue))
    assert (found.log_start, found.expired) == (None, ())
    assert [each.id.segment_id for each in found.removed] == [segment_id(5), segment_id(7), segment_id(1)]
    unknown = log._replace(epochs=[])
    found = at_once(remote_expiry(unknown, remote, TierSettings(), copied_offset=15, now_ms=NOW_MS, overdue=overdue))
    assert [each.id.segment_id for each in found.removed] == [segment_id(5), segment_id(7)]
