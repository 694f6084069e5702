"""A follower's role alone: what it takes of what a leader sends, how its log is cut, how far it is committed."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.follower import PIECE_BATCHES, PIECE_BYTES, NextFetch, PartitionFollower
from kpystorage.directory import LogDirectory
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk
from kpywire import error_codes
from kpywire.batch import CRC_POSITION, HEADER_BYTES, parse_header, stamp_offset_and_epoch
from kpywire.control_record import marker_batch
from kpywire.record import Record, assemble, build_batch

NOW_MS = 1_700_000_000_000


def new_log(config: LogConfig | None = None) -> Log:
    disk = MemoryDisk()
    disk.make_directory("/data")
    directory = LogDirectory("/data", disk, Random(1), lambda _line: None, LogConfig())
    directory.open(NOW_MS)
    return directory.create_log("t", 0, bytes(range(16)), config or LogConfig(), NOW_MS)


def batch(offset: int, count: int = 1, epoch: int = 0, value_bytes: int = 10, **fields: Any) -> bytes:
    records = [Record(timestamp=NOW_MS + n, value=b"%d" % (offset + n) + b"." * value_bytes) for n in range(count)]
    return build_batch(records, base_offset=offset, partition_leader_epoch=epoch, **fields)


def marker(offset: int, epoch: int, now_ms: int, **fields: Any) -> bytes:
    return bytes(marker_batch(offset, epoch, now_ms, **fields))


def follower(*batches: bytes, epoch: int = 10, config: LogConfig | None = None) -> PartitionFollower:
    """A follower that has these."""
    found = PartitionFollower(new_log(config), epoch, 0)
    take(found, b"".join(batches))
    return found


def take(found: PartitionFollower, data: bytes) -> None:
    view, position = memoryview(data), 0
    while position < len(view):
        position = found.append(view, position, NOW_MS)


def contents(log: Log) -> bytes:
    return b"".join(segment.log.pread(segment.size, 0) for segment in log.segments)


def epochs(found: PartitionFollower) -> list[tuple[int, int]]:
    return found.log.epochs.entries()


def test_batches_are_kept_byte_for_byte_with_their_epochs_producers_and_markers() -> None:
    sent: list[bytes] = [
        batch(0, 3, epoch=1),
        batch(3, 2, epoch=1, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True),
        marker(5, 4, NOW_MS, commit=False, coordinator_epoch=0, producer_id=7, producer_epoch=0),
        batch(6, 1, epoch=4),
    ]
    found = follower(*sent)
    assert contents(found.log) == b"".join(sent)
    assert epochs(found) == [(1, 0), (4, 5)]
    assert found.next_fetch == NextFetch(7, 4, 0)
    assert [each.first_offset for each in found.log.aborted_transactions(0, 7)] == [3]
    found.heard(5, 0)
    assert found.last_stable_offset().offset == 3, "the marker is not committed yet"
    found.heard(7, 0)
    assert found.last_stable_offset().offset == 7


def test_a_batch_that_is_cut_off_is_left_for_the_next_answer() -> None:
    found = follower()
    data = batch(0, 3) + batch(3, 2)[:-1]
    assert found.append(memoryview(data), 0, NOW_MS) == len(data)
    assert found.log.end.offset == 3
    assert found.append(memoryview(batch(3)[:40]), 0, NOW_MS) == 40
    assert found.log.end.offset == 3


def test_a_damaged_batch_is_refused_and_nothing_of_its_piece_is_kept() -> None:
    found = follower(batch(0))
    damaged = bytearray(batch(2))
    damaged[CRC_POSITION] ^= 1
    with pytest.raises(KafkaError) as refused:
        take(found, batch(1) + damaged)
    assert refused.value.code == error_codes.CORRUPT_MESSAGE
    assert found.log.end.offset == 1


@pytest.mark.parametrize("offsets", [(0,), (3, 3), (4, 3)])
def test_offsets_that_go_back_are_refused(offsets: tuple[int, ...]) -> None:
    found = follower(batch(0, 3))
    with pytest.raises(KafkaError) as refused:
        take(found, b"".join(batch(offset) for offset in offsets))
    assert refused.value.code == error_codes.UNKNOWN_SERVER_ERROR
    assert found.log.end.offset == 3


def test_gaps_that_compaction_left_in_the_leaders_log_are_kept() -> None:
    sent = batch(5) + batch(9, 2) + batch(40)
    found = follower(sent, config=LogConfig(cleanup_compact=True))
    assert contents(found.log) == sent
    assert found.log.end.offset == 41


@pytest.mark.parametrize(
    "sent",
    [batch(4), batch(3) + batch(5), batch(3, 2) + batch(5) + batch(9)],
    ids=["at the end", "within", "twice"],
)
def test_a_gap_that_no_compaction_explains_is_refused_and_nothing_behind_it_taken(sent: bytes) -> None:
    found = follower(batch(0, 3))
    with pytest.raises(KafkaError, match=r"no records from offset \d up to \d.*`kpybroker check`") as refused:
        take(found, sent)
    assert refused.value.code == error_codes.UNKNOWN_SERVER_ERROR
    assert found.log.end.offset == 3
    take(found, batch(3, 2))
    assert found.log.end.offset == 5


def test_batches_of_an_epoch_above_the_roles_wait_for_the_metadata() -> None:
    found = follower(batch(0, epoch=2), batch(1, epoch=3), batch(2, epoch=2), epoch=2)
    assert found.log.end.offset == 1, "also what follows them"


def test_an_empty_log_begins_with_the_batch_that_its_start_lies_in() -> None:
    found = follower()
    found.leader_starts(7, NOW_MS)
    assert found.next_fetch == NextFetch(7, -1, 7)
    take(found, batch(5, 4) + batch(9))
    assert found.log.segments[0].base_offset == 5
    assert found.log.log_start_offset == 7
    assert found.log.end.offset == 10
    found.heard(10, 7)
    assert found.high_watermark.offset == 10
    piece = found.read(7, 1000, found.end_for(0), min_one_batch=True)
    assert piece is not None
    assert piece.read() == batch(5, 4) + batch(9)


def test_a_large_fetch_is_appended_in_several_pieces() -> None:
    sent = b"".join(batch(offset, value_bytes=50_000) for offset in range(30))
    found = PartitionFollower(new_log(LogConfig(segment_bytes=200_000)), 0, 0)
    view = memoryview(sent)
    position = found.append(view, 0, NOW_MS)
    assert 0 < position < 200_000
    take(found, sent[position:])
    assert contents(found.log) == sent
    assert len(found.log.segments) > 5
    unlimited = PartitionFollower(new_log(), 0, 0)
    assert 0 < unlimited.append(view, 0, NOW_MS) <= PIECE_BYTES < len(sent)


def with_fields(data: bytes, **fields: int) -> bytes:
    """The batch with header fields overwritten and a right CRC."""
    return assemble(parse_header(data)._replace(**fields), data[HEADER_BYTES:])


def test_a_batch_that_compaction_has_emptied_is_kept() -> None:
    """The leader keeps the last batch of a producer without its records, so that the sequence stays known."""
    emptied = with_fields(
        batch(0, 3, producer_id=7, producer_epoch=0, base_sequence=0)[:HEADER_BYTES],
        record_count=0,
        last_offset_delta=2,
    )
    found = follower(emptied, batch(3), config=LogConfig(cleanup_compact=True))
    assert found.log.end.offset == 4
    assert contents(found.log) == emptied + batch(3)


@pytest.mark.parametrize("field", ["length", "magic"])
@pytest.mark.parametrize("is_first", [True, False])
def test_too_short_records_or_another_format_are_refused(field: str, *, is_first: bool) -> None:
    found = follower(batch(0))
    damaged = bytearray(batch(1 if is_first else 2))
    if field == "length":
        damaged[8:12] = (HEADER_BYTES - 12 - 1).to_bytes(4, "big")
    else:
        damaged[16] = 1
    with pytest.raises(KafkaError) as refused:
        take(found, (b"" if is_first else batch(1)) + damaged)
    assert refused.value.code == error_codes.CORRUPT_MESSAGE
    assert found.log.end.offset == 1


@pytest.mark.parametrize(("delta", "is_taken"), [(-1, False), (0, True)])
def test_a_batch_ends_no_earlier_than_it_begins(delta: int, *, is_taken: bool) -> None:
    found = follower(batch(0))
    data = with_fields(batch(1)[:HEADER_BYTES], record_count=0, last_offset_delta=delta)
    if is_taken:
        take(found, data)
    else:
        with pytest.raises(KafkaError) as refused:
            take(found, data)
        assert refused.value.code == error_codes.UNKNOWN_SERVER_ERROR
    assert found.log.end.offset == 1 + is_taken


def test_a_piece_has_a_bounded_number_of_batches() -> None:
    found, sent = follower(), b"".join(batch(offset) for offset in range(PIECE_BATCHES + 1))
    position = found.append(memoryview(sent), 0, NOW_MS)
    assert found.log.end.offset == PIECE_BATCHES
    assert found.append(memoryview(sent), position, NOW_MS) == len(sent)
    assert found.log.end.offset == PIECE_BATCHES + 1


# How far it is committed.


def test_the_high_watermark_is_the_leaders_up_to_the_own_end_and_never_goes_back() -> None:
    found = follower(batch(0, 3))
    assert found.heard(2, 0) == (True, False)
    assert found.heard(9, 0) == (True, False)
    assert found.high_watermark == found.log.end
    assert found.heard(1, 0) == (False, False), "a new leader knows less at first"
    assert found.high_watermark.offset == 3
    take(found, batch(3))
    assert found.high_watermark.offset == 3


def test_the_log_start_is_to_follow_the_leaders_as_far_as_it_is_committed_here() -> None:
    found = follower(batch(0), batch(1), batch(2))
    assert found.heard(1, 2) == (True, False)
    assert found.heard(3, 2) == (True, True)
    assert found.log.log_start_offset == 0, "it moves when the new one is on disk"
    found.log.advance_log_start(2)
    assert found.heard(3, 1) == (False, False)


def test_a_log_without_epochs_goes_on_at_its_high_watermark() -> None:
    found = follower(batch(0, epoch=-1), batch(1, epoch=-1))
    found.heard(1, 0)
    found.begin(NOW_MS)
    assert found.next_fetch == NextFetch(1, -1, 0)
    known = follower(batch(0), batch(1))
    known.heard(1, 0)
    known.begin(NOW_MS)
    assert known.next_fetch.offset == 2, "KIP-101: not to the high watermark"


# Truncating.


def of_epochs(*starts: tuple[int, int], end: int) -> PartitionFollower:
    """A follower with a batch for each offset, in epochs that begin at these offsets."""
    found = follower()
    for (epoch, start), (_, until) in zip(starts, (*starts[1:], (0, end)), strict=True):
        for offset in range(start, until):
            take(found, batch(offset, epoch=epoch))
    return found


@pytest.mark.parametrize(
    ("leader_epoch", "leader_end", "end"),
    [
        (3, 14, 14),  # the leader's epoch ended before ours
        (3, 40, 20),  # or later
        (2, 12, 10),  # KIP-279: an epoch we do not know; cut to the end of the one before
        (1, 4, 4),  # an older epoch, in which we wrote more
        (1, 8, 8),
        (0, 0, 0),  # none of ours is as low: an epoch before the first ends where that begins
        (7, 18, 18),  # we have none so high
        (-1, 6, 6),  # from before leaders had epochs
        (5, -1, 20),  # the leader does not know
    ],
)
def test_a_follower_truncates_its_log_at_the_divergence(leader_epoch: int, leader_end: int, end: int) -> None:
    found = of_epochs((1, 0), (3, 10), end=20)
    found.truncate(leader_epoch, leader_end, NOW_MS)
    assert found.log.end.offset == end
    assert epochs(found) == [(epoch, start) for epoch, start in [(1, 0), (3, 10)] if start < end]
    assert found.next_fetch.last_epoch == (3 if end > 10 else 1 if end else -1)


def test_an_epoch_in_which_nothing_was_written_goes_with_a_truncation_that_cuts_nothing() -> None:
    found = of_epochs((1, 0), end=5)
    found.log.epochs.assign(2, 5)  # it was the leader, and was replaced before anybody produced
    found.truncate(1, 9, NOW_MS)
    assert found.next_fetch == NextFetch(5, 1, 0)


def test_a_truncation_below_the_high_watermark_lowers_it_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    found = of_epochs((1, 0), end=9)
    found.heard(9, 0)
    found.truncate(1, 5, NOW_MS)
    assert found.high_watermark == found.log.end
    assert found.high_watermark.offset == 5
    assert "was truncated to offset 5, below its high watermark 9" in caplog.text


@pytest.mark.parametrize(("committed", "is_reported"), [(3, False), (5, False), (6, True)])
def test_a_cut_at_or_above_the_high_watermark_leaves_it(
    committed: int, caplog: pytest.LogCaptureFixture, *, is_reported: bool
) -> None:
    found = of_epochs((1, 0), end=9)
    found.heard(committed, 0)
    found.truncate(1, 5, NOW_MS)
    assert found.log.end.offset == 5
    assert found.high_watermark.offset == min(committed, 5)
    assert ("below its high watermark" in caplog.text) is is_reported


def test_a_cut_takes_producers_back_to_what_the_rest_says() -> None:
    def data(offset: int, sequence: int) -> bytes:
        return batch(offset, producer_id=1, producer_epoch=0, base_sequence=sequence, transactional=True)

    found = follower(data(0, 0), data(1, 1))
    end = marker(2, 0, NOW_MS, commit=False, coordinator_epoch=0, producer_id=1, producer_epoch=0)
    expected = found.log.producers.snapshot()
    take(found, end + data(3, 2))
    found.truncate(0, 2, NOW_MS)
    assert found.log.producers.snapshot() == expected
    assert found.log.aborted_transactions(0, 10) == []
    take(found, end)
    assert len(found.log.aborted_transactions(0, 10)) == 1


def test_a_leader_whose_log_ends_before_ours_has_it_cut_and_one_whose_begins_behind_it_starts_it_over() -> None:
    found = of_epochs((1, 0), end=9)
    found.heard(9, 0)
    assert not found.leader_ends(9, NOW_MS)
    found.leader_starts(9, NOW_MS)
    assert found.log.end.offset == 9, "nothing is missing"
    assert found.leader_ends(6, NOW_MS)
    assert found.next_fetch == NextFetch(6, 1, 0)
    found.leader_starts(100, NOW_MS)
    assert found.next_fetch == NextFetch(100, -1, 100)
    assert found.high_watermark.offset == 100
    take(found, batch(100, epoch=2))
    assert epochs(found) == [(2, 100)]


# All of it, against a model.

Lineage = list[tuple[int, bytes]]
"""(epoch, batch) of each offset."""


@st.composite
def lineages(draw: st.DrawFn) -> tuple[Lineage, Lineage]:
    """A leader's log and one that has parted from it: common batches, then others of other epochs. As leaders are
    elected, an epoch belongs to one of them."""
    common, epoch = draw(st.integers(0, 6)), 1
    shared: Lineage = []
    for offset in range(common):
        epoch += draw(st.booleans())
        shared.append((epoch, batch(offset, epoch=epoch)))
    own, leaders = list(shared), list(shared)
    for _ in range(draw(st.integers(0, 8))):
        epoch += 1
        to = own if draw(st.booleans()) else leaders
        for _ in range(draw(st.integers(0, 3))):
            to.append((epoch, batch(len(to), epoch=epoch, value_bytes=10 if to is own else 11)))
    return own, leaders


@settings(max_examples=150, deadline=None)
@given(lineages())
def test_after_as_many_truncations_as_there_are_epochs_the_logs_are_one(both: tuple[Lineage, Lineage]) -> None:
    own, leaders = both
    leader = follower(*(each for _, each in leaders), epoch=1000)
    found = follower(*(each for _, each in own), epoch=1000)
    last = max([epoch for epoch, _ in own + leaders], default=0) + 1
    leader.log.epochs.assign(last, leader.log.end.offset)
    for _ in range(2 * last + 2):
        offset, epoch, _ = found.next_fetch
        if epoch >= 0:
            known, end = leader.log.epochs.end_offset_for(epoch, leader.log.end.offset)
            if known < epoch or end < offset:
                found.truncate(known, end, NOW_MS)
                assert found.log.end.offset < offset or found.next_fetch.last_epoch < epoch, "it goes on and on"
                continue
        rest = b"".join(each for _, each in leaders[offset:])
        take(found, rest)
        break
    assert contents(found.log) == contents(leader.log)
    common = next((n for n, (a, b) in enumerate(zip(own, leaders, strict=False)) if a != b), min(map(len, both)))
    kept = [parse_header(each).base_offset for _, each in own[:common]]
    assert kept == list(range(common))


def test_stamped_offsets_are_those_of_the_leader() -> None:
    data = bytearray(batch(0, 2))
    stamp_offset_and_epoch(data, 0, 50, 6)
    found = follower()
    found.leader_starts(50, NOW_MS)
    take(found, bytes(data))
    assert found.next_fetch == NextFetch(52, 6, 50)
