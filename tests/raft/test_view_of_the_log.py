"""The log as a replica knows it: its end, what the files lack, where logs part, and when a snapshot is needed first."""

import pytest

from kpybroker.machines.raft.log_view import FileWork, LogView, log_view
from kpybroker.machines.raft.messages import OffsetAndEpoch
from kpystorage.leader_epochs import LeaderEpochs
from kpywire.record import Record, build_batch

SNAPSHOT = OffsetAndEpoch(10, 2)


def batch(base_offset: int, count: int = 1, epoch: int = 3) -> bytes:
    records = [Record(timestamp=0, value=b"r") for _ in range(count)]
    return bytes(build_batch(records, base_offset=base_offset, partition_leader_epoch=epoch))


def kept_log(start_offset: int = 0, start_epoch: int = -1, snapshot: OffsetAndEpoch | None = None) -> LogView:
    """Epoch 1 from offset 0 on, epoch 3 from 10 on, epoch 5 from 15 on; its end is 20."""
    epochs = LeaderEpochs([(1, 0), (3, 10), (5, 15)])
    if start_offset:
        epochs.truncate_from_start(start_offset)
    return LogView(20, epochs, synced_offset=20, start_offset=start_offset, start_epoch=start_epoch, snapshot=snapshot)


def new_log() -> LogView:
    return LogView(0, LeaderEpochs(), synced_offset=0)


def test_the_end_of_a_log_is_that_of_its_last_record_or_of_its_snapshot_or_nothing() -> None:
    assert kept_log().end == OffsetAndEpoch(20, 5)
    assert new_log().end == OffsetAndEpoch(0, 0)
    assert LogView(10, LeaderEpochs(), synced_offset=10, snapshot=SNAPSHOT).end == SNAPSHOT
    log = new_log()
    log.append(batch(0, 3))
    assert log.end == OffsetAndEpoch(3, 3)


def test_the_files_get_each_batch_once() -> None:
    log = new_log()
    assert not log.has_work
    first, second = batch(0, 3), batch(3, 2, epoch=4)
    log.append(first)
    log.append(second)
    assert log.has_work
    assert (log.next_offset, log.taken_offset) == (5, 0)
    assert log.take() == FileWork(None, None, [first, second])
    assert (log.has_work, log.taken_offset) == (False, 5)
    assert log.take() == FileWork(None, None, [])


def test_a_log_is_durable_once_it_is_synced_to_its_end() -> None:
    log = new_log()
    assert log.is_durable
    log.append(batch(0, 3))
    assert not log.is_durable
    assert log.synced(2)
    assert (log.is_durable, log.synced_offset) == (False, 2)
    assert log.synced(3)
    assert log.is_durable
    assert log.synced(9)
    assert log.synced_offset == 3, "no more is durable than there is"


def test_unwritten_batches_are_dropped_without_truncating_files() -> None:
    log = new_log()
    first = batch(0, 3)
    log.append(first)
    log.append(batch(3, 2, epoch=4))
    log.truncate_to(3)
    assert log.end == OffsetAndEpoch(3, 3)
    assert not log.is_truncating
    assert log.take() == FileWork(None, None, [first])


def test_written_batches_are_cut_and_until_then_a_sync_means_nothing() -> None:
    log = new_log()
    log.append(batch(0, 3))
    log.append(batch(3, 2, epoch=4))
    log.take()
    log.synced(5)
    log.truncate_to(3)
    assert (log.end, log.synced_offset, log.taken_offset) == (OffsetAndEpoch(3, 3), 3, 3)
    assert (log.has_work, log.is_truncating, log.is_durable) == (True, True, False)
    assert not log.synced(5)
    after = batch(3, 1, epoch=6)
    log.append(after)
    assert log.take() == FileWork(3, None, [after])
    assert log.is_truncating, "until the files have done so"
    log.truncated()
    assert (log.is_truncating, log.is_durable, log.synced_offset) == (False, False, 3)
    assert log.synced(4)
    assert log.is_durable


def test_two_cuts_before_the_files_are_asked_are_the_lower_one() -> None:
    log = kept_log()
    log.truncate_to(15)
    log.append(batch(15, 3, epoch=6))
    log.truncate_to(12)
    assert log.take() == FileWork(12, None, [])
    assert log.end == OffsetAndEpoch(12, 3)
    log = kept_log()
    log.truncate_to(12)
    log.append(batch(12, 3, epoch=6))
    log.truncate_to(12)
    log.truncate_to(12)
    assert log.take() == FileWork(12, None, [])


def test_a_cut_that_was_asked_for_again_is_not_done_when_the_first_one_is() -> None:
    log = kept_log()
    log.truncate_to(15)
    log.take()
    log.truncate_to(12)
    log.truncated()
    assert log.is_truncating
    log.take()
    log.truncated()
    assert not log.is_truncating


def test_a_cut_at_the_end_cuts_nothing() -> None:
    log = kept_log()
    log.truncate_to(20)
    assert (log.has_work, log.is_truncating, log.end) == (False, False, OffsetAndEpoch(20, 5))


def test_a_snapshot_that_is_installed_replaces_the_log() -> None:
    log = kept_log()
    log.append(batch(20, 2, epoch=6))
    log.truncate_to(18)
    snapshot = OffsetAndEpoch(40, 7)
    log.replace_by(snapshot)
    assert (log.end, log.start_offset, log.start_epoch, log.snapshot) == (snapshot, 40, 7, snapshot)
    assert (log.synced_offset, log.taken_offset, log.has_work) == (40, 40, True)
    assert log.is_truncating
    assert log.take() == FileWork(None, 40, [])
    assert not log.has_work
    log.truncated()
    assert log.is_durable
    log.replace_by(OffsetAndEpoch(50, 7))
    log.truncated()
    assert log.is_truncating, "the files have to be emptied once more"


def test_a_log_that_begins_later_knows_the_epoch_before_its_start() -> None:
    log = kept_log()
    log.begins_at(OffsetAndEpoch(15, 3), 15)
    assert (log.start_offset, log.start_epoch, log.snapshot) == (15, 3, OffsetAndEpoch(15, 3))
    assert log.epochs.entries() == [(5, 15)]
    log.begins_at(OffsetAndEpoch(18, 5), 15)
    assert (log.start_offset, log.start_epoch, log.snapshot) == (15, 3, OffsetAndEpoch(18, 5))
    log.begins_at(OffsetAndEpoch(19, 5), 12)
    assert log.start_offset == 15, "it never begins earlier"
    log.begins_at(OffsetAndEpoch(19, 5), 16)
    assert (log.start_offset, log.start_epoch) == (16, 5)


@pytest.mark.parametrize(
    ("promised", "has_lost"),
    [
        (None, False),
        (OffsetAndEpoch(20, 5), False),
        (OffsetAndEpoch(19, 5), False),
        (OffsetAndEpoch(21, 5), True),
        (OffsetAndEpoch(5, 6), True),
        (OffsetAndEpoch(30, 4), False),
    ],
)
def test_a_log_that_ends_before_its_former_end_has_lost_records(
    promised: OffsetAndEpoch | None, has_lost: bool
) -> None:
    log = kept_log()
    log.promised = promised
    assert log.has_lost is has_lost
    assert log.acknowledged_end == (promised if has_lost else log.end)


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (0, OffsetAndEpoch(0, 0)),
        (1, OffsetAndEpoch(10, 1)),
        (2, OffsetAndEpoch(10, 1)),
        (3, OffsetAndEpoch(15, 3)),
        (4, OffsetAndEpoch(15, 3)),
        (5, OffsetAndEpoch(20, 5)),
        (6, OffsetAndEpoch(20, 5)),
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(epoch: int, end: OffsetAndEpoch) -> None:
    assert kept_log().end_of(epoch) == end


def test_an_epoch_of_which_a_log_holds_nothing_ends_with_its_snapshot() -> None:
    log = LogView(10, LeaderEpochs(), synced_offset=10, start_offset=10, start_epoch=2, snapshot=SNAPSHOT)
    assert log.end_of(1) == SNAPSHOT
    assert log.end_of(2) == SNAPSHOT
    assert log.end_of(3) == SNAPSHOT
    assert new_log().end_of(0) == OffsetAndEpoch(0, 0)
    assert LogView(4, LeaderEpochs(), synced_offset=4, start_offset=4).end_of(-1) == OffsetAndEpoch(4, -1)


@pytest.mark.parametrize(
    ("offset", "epoch", "diverging"),
    [
        (0, 0, None),
        (10, 1, None),
        (11, 1, OffsetAndEpoch(10, 1)),
        (5, 2, OffsetAndEpoch(10, 1)),
        (15, 3, None),
        (16, 3, OffsetAndEpoch(15, 3)),
        (20, 5, None),
        (21, 5, OffsetAndEpoch(20, 5)),
        (20, 6, OffsetAndEpoch(20, 5)),
    ],
)
def test_a_log_that_is_no_prefix_is_cut_at_the_end_of_the_epoch(
    offset: int, epoch: int, diverging: OffsetAndEpoch | None
) -> None:
    assert kept_log().diverging(offset, epoch) == diverging


def test_an_empty_replica_is_a_prefix_of_a_whole_log_alone() -> None:
    assert kept_log().diverging(0, 4) is None
    assert kept_log(12, 3, OffsetAndEpoch(12, 3)).diverging(0, 4) == OffsetAndEpoch(15, 3)
    assert kept_log().diverging(1, 4) is not None


@pytest.mark.parametrize(
    ("diverging", "offset"),
    [
        (OffsetAndEpoch(12, 3), 12),
        (OffsetAndEpoch(18, 3), 15),
        (OffsetAndEpoch(7, 4), 15),
        (OffsetAndEpoch(25, 5), 20),
        (OffsetAndEpoch(16, 5), 16),
        (OffsetAndEpoch(25, 6), 20),
    ],
)
def test_a_follower_cuts_where_both_logs_still_have_the_epoch(diverging: OffsetAndEpoch, offset: int) -> None:
    assert kept_log().cut_for(diverging) == offset


@pytest.mark.parametrize(
    ("offset", "epoch", "needs"),
    [
        (0, 0, True),
        (11, 5, True),
        (12, 3, False),
        (12, 2, True),
        (12, 4, True),
        (13, 3, False),
        (13, 2, True),
        (13, 5, False),
        (20, 5, False),
    ],
)
def test_a_replica_that_ends_before_the_log_begins_takes_the_snapshot_first(
    offset: int, epoch: int, needs: bool
) -> None:
    assert kept_log(12, 3, OffsetAndEpoch(12, 3)).needs_snapshot(offset, epoch) is needs


def test_a_fetch_within_the_log_needs_no_snapshot() -> None:
    assert not kept_log().needs_snapshot(0, 0), "nothing is missing, and there is none"
    nothing = LogView(20, LeaderEpochs([(1, 0)]), synced_offset=20, snapshot=OffsetAndEpoch(0, 0))
    assert not nothing.needs_snapshot(0, 0), "the snapshot of `format` holds no record of the log"
    assert not nothing.needs_snapshot(1, 1)
    assert kept_log(0, -1, OffsetAndEpoch(1, 1)).needs_snapshot(0, 0), "an empty replica takes it rather than the log"
    assert not kept_log(0, -1, OffsetAndEpoch(1, 1)).needs_snapshot(1, 1)


@pytest.mark.parametrize(
    ("snapshot", "lacks"),
    [
        (OffsetAndEpoch(20, 5), False),
        (OffsetAndEpoch(21, 5), True),
        (OffsetAndEpoch(19, 6), True),
        (OffsetAndEpoch(30, 4), False),
    ],
)
def test_a_log_lacks_a_snapshot_that_goes_beyond_its_end(snapshot: OffsetAndEpoch, lacks: bool) -> None:
    assert kept_log().lacks(snapshot) is lacks


def test_a_view_of_the_end_alone() -> None:
    assert log_view(0, -1).epochs.entries() == []
    assert log_view(7, 0).epochs.entries() == [(0, 0)]
    log = log_view(7, 3)
    assert (log.end, log.start_offset, log.is_durable) == (OffsetAndEpoch(7, 3), 0, True)
