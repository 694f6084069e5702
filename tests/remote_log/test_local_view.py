"""A log on a disk in memory, as the decisions and the copies of tiering see it."""

import pytest

from kpybroker.hosts.remote_log.local_view import closed_segment, has_aborted_transactions, local_log
from kpybroker.hosts.remote_log.remote_storage import ClosedSegmentFiles
from kpybroker.machines.partition.role import Role
from kpybroker.machines.remote_log.local_log import BlockingTransaction, LocalSegment
from kpystorage import names, producer_snapshot
from kpystorage.checkpoint import parse_epochs
from kpystorage.errors import CorruptRecord
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from tests.storage.log_making import NOW_MS, append, append_records, make_batch, make_log, make_marker

CONFIG = LogConfig(is_tiered=True, index_interval_bytes=300, file_delete_delay_ms=0)


def filled() -> Log:
    """Segments at 0, 6 and 12, each of an epoch of its own. The first ends with an aborted transaction."""
    log = make_log(CONFIG)
    for epoch in range(3):
        if epoch:
            log.roll(NOW_MS)
        base = log.end.offset
        common = {"leader_epoch": epoch, "timestamp": NOW_MS + epoch * 1000}
        for record in range(4):
            append(log, make_batch(base + record, producer_id=1, base_sequence=epoch * 4 + record, **common))
        append(log, make_batch(base + 4, producer_id=2, base_sequence=epoch, transactional=True, **common))
        append(log, make_marker(base + 5, 2, commit=epoch > 0, **common))
    log.flush()
    return log


def file(log: Log, offset: int, suffix: str) -> bytes:
    return log.directory.disk.read(f"{log.path}/{names.segment_file(offset, suffix)}")


def test_decisions_see_segments_offsets_and_epochs() -> None:
    log = filled()
    log.delete_oldest(1, NOW_MS)
    log.advance_log_start(2)
    role = Role(log, 2, 18)
    found = local_log(log, role)
    assert found.segments == [
        LocalSegment(each.base_offset, each.size, NOW_MS + 1000 * number) for number, each in enumerate(log.segments, 1)
    ]
    assert (found.log_start_offset, found.local_log_start_offset, found.end_offset) == (2, 6, 18)
    assert (found.high_watermark, found.last_stable_offset) == (18, 18)
    assert found.epochs == [(0, 2), (1, 6), (2, 12)]
    assert found.transaction is None


def test_decisions_see_the_transaction_that_holds_readers_back() -> None:
    log = filled()
    append(log, make_batch(18, producer_id=3, base_sequence=0, transactional=True, leader_epoch=2))
    append(log, make_batch(19, producer_id=2, base_sequence=9, transactional=True, leader_epoch=2))
    role = Role(log, 2, 20)
    found = local_log(log, role)
    assert (found.last_stable_offset, found.transaction) == (18, BlockingTransaction(3, 18))
    append(log, make_marker(20, 3, commit=True, leader_epoch=2))
    found = local_log(log, role)
    assert (found.last_stable_offset, found.transaction) == (18, None), "its marker is not replicated"
    log.producers.replicated_to(21)
    role.high_watermark = log.end
    assert local_log(log, role).transaction == BlockingTransaction(2, 19)


def test_a_copy_gets_the_files_of_a_closed_segment() -> None:
    log = filled()
    found = closed_segment(log, 0).files()
    assert found == ClosedSegmentFiles(
        found.log,
        file(log, 0, names.OFFSET_INDEX),
        file(log, 0, names.TIME_INDEX),
        file(log, 0, names.TRANSACTION_INDEX),
        file(log, 6, names.PRODUCER_SNAPSHOT),
        b"0\n1\n0 0\n",
    )
    assert found.log.read() == file(log, 0, names.LOG)
    assert found.offset_index
    assert has_aborted_transactions(log, 0)
    second = closed_segment(log, 6).files()
    assert second.transaction_index is None
    assert not has_aborted_transactions(log, 6)
    assert parse_epochs(second.leader_epochs, "") == [(0, 0), (1, 6)]


def test_epochs_of_a_copy_begin_at_the_log_start() -> None:
    log = filled()
    log.delete_oldest(1, NOW_MS)
    log.advance_log_start(3)
    assert parse_epochs(closed_segment(log, 6).files().leader_epochs, "") == [(0, 3), (1, 6)]


@pytest.mark.parametrize("missing", [(12,), (6, 12)])
@pytest.mark.parametrize("is_damaged", [True, False])
def test_a_snapshot_that_is_gone_or_damaged_is_made_again(missing: tuple[int, ...], *, is_damaged: bool) -> None:
    log = filled()
    expected = file(log, 12, names.PRODUCER_SNAPSHOT)
    for offset in missing:
        if is_damaged:
            log.directory.disk.write(log.snapshots.path(offset), b"\0" * 20, synchronize=True)
        else:
            log.snapshots.drop(offset)
    found = closed_segment(log, 6).files().producer_snapshot
    assert producer_snapshot.parse(found, "") == producer_snapshot.parse(expected, "")


def test_files_that_are_open_are_read_though_their_names_are_gone() -> None:
    log = filled()
    expected = closed_segment(log, 0).files()
    opened = closed_segment(log, 0)
    log.delete_oldest(2, NOW_MS)
    log.directory.delete_due_files(NOW_MS + 1, at_most=100)
    found = opened.files()
    assert found.log.read() == expected.log.read()
    assert found[1:] == expected[1:]


@pytest.mark.parametrize("offset", [3, 12, 18])
def test_only_a_closed_segment_is_copied(offset: int) -> None:
    with pytest.raises(ValueError, match=f"no closed segment that begins at offset {offset}"):
        closed_segment(filled(), offset)


def test_a_segment_that_cannot_be_read_to_its_end_is_not_copied() -> None:
    log = filled()
    segment = log.segments[0]
    segment.log.pwrite(b"\xff" * 30, segment.size - 60)
    with pytest.raises(CorruptRecord, match="no batch begins here"):
        closed_segment(log, 0)


def test_a_role_begins_on_the_disk_where_the_high_watermark_was_before_it() -> None:
    log = filled()
    log.delete_oldest(2, NOW_MS)
    for checkpointed, expected in ((0, 12), (7, 12), (15, 15), (99, 18)):
        assert Role(log, 3, checkpointed).high_watermark.offset == expected
    append_records(log, 1, leader_epoch=3)
