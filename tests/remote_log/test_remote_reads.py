"""Reads and searches of what only the store has: aborted transactions, and copies of a leader that lost its records."""

from struct import pack
from types import SimpleNamespace
from typing import Any

import pytest
from remote_log_histories import TOPIC_ID, segment

from kpybroker.hosts.remote_log import segment_reads
from kpybroker.hosts.remote_log.figures import TierFigures
from kpybroker.hosts.remote_log.reads import RemoteReads, WantedRecords
from kpybroker.hosts.remote_log.segment_reads import SegmentRecords
from kpybroker.hosts.remote_log.time_search import TimeSearches
from kpybroker.machines.quotas.rate import QuotaWindows
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.quota import RemoteLogQuota
from kpybroker.machines.remote_log.segments import FINISHED, RemoteLogSegment
from kpybroker.runtime.io.scheduler import ManualScheduler

EPOCHS = [(1, 0), (3, 10)]
"""The history of the log: the leader of epoch 2 has lost its records."""
PRODUCER = 7


def entry(first_offset: int, last_offset: int, last_stable_offset: int) -> bytes:
    """An entry of a transaction index."""
    return pack(">hqqqq", 0, PRODUCER, first_offset, last_offset, last_stable_offset)


def read_committed(
    monkeypatch: pytest.MonkeyPatch, indexes: dict[RemoteLogSegment, bytes], next_offset: int
) -> list[tuple[int, int]]:
    """The aborted transactions (first and last offset) for a read of offset 0 up to ``next_offset``."""
    segments = RemoteSegments(TOPIC_ID, "t", 0)
    for each in indexes:
        segments.apply(each)
        segments.apply(each.update(FINISHED, 1, 0))
    held = {each.id: data for each, data in indexes.items()}
    storage: Any = SimpleNamespace(index=lambda asked, _index: held[asked.id])
    monkeypatch.setattr(segment_reads, "read", lambda *_asked: SegmentRecords(b"records", 7, next_offset))
    log = SimpleNamespace(
        epochs=SimpleNamespace(entries=lambda: EPOCHS), topic="t", is_open=False, local_log_start_offset=40
    )
    role: Any = SimpleNamespace(name="t-0", epoch=3, log=log, high_watermark=SimpleNamespace(offset=40))
    scheduler = ManualScheduler()
    quota = RemoteLogQuota(1 << 40, QuotaWindows(11, 1_000))
    reads = RemoteReads(
        scheduler,  # type: ignore[arg-type]
        storage,
        scheduler.submit_blocking,
        lambda: 1,
        quota,
        TierFigures(),
    )
    wanted = WantedRecords(TOPIC_ID, 0, 0, 1 << 20, True, lambda: None)
    assert reads.read(wanted, role, segments) is None
    scheduler.run()
    found = reads.read(wanted, role, segments)
    assert found is not None
    return [(each.first_offset, each.last_offset) for each in found.aborted]


def test_an_abort_that_the_log_does_not_know_hides_no_committed_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lost leader has aborted a transaction that began at offset 5; the one that the log knows committed it."""
    of_lost_leader = segment(1, 0, 19, [(1, 0), (2, 10)])
    following = segment(2, 10, 39, [(3, 10)])
    indexes = {of_lost_leader: entry(2, 8, 3) + entry(5, 15, 16), following: entry(20, 25, 26)}
    assert read_committed(monkeypatch, indexes, next_offset=10) == [(2, 8)]


def test_an_abort_behind_the_copy_that_is_read_is_found_in_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    of_lost_leader = segment(1, 0, 19, [(1, 0), (2, 10)])
    following = segment(2, 10, 39, [(3, 10)])
    indexes = {of_lost_leader: entry(2, 8, 16), following: entry(5, 12, 13)}
    assert read_committed(monkeypatch, indexes, next_offset=10) == [(2, 8), (5, 12)]


def test_a_search_by_time_goes_through_the_parts_of_copies_that_a_reader_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the first copy has records of the lost leader. Kafka leaves out the whole copy."""
    of_lost_leader = segment(1, 0, 19, [(1, 0), (2, 10)])
    following = segment(2, 10, 39, [(3, 10)])
    segments = RemoteSegments(TOPIC_ID, "t", 0)
    for each in (of_lost_leader, following):
        segments.apply(each)
        segments.apply(each.update(FINISHED, 1, 0))
    searched: list[tuple[int, int, int]] = []
    monkeypatch.setattr(
        segment_reads,
        "find_timestamp",
        lambda _storage, copy, *_: searched.append((copy.segment.start_offset, copy.start_offset, copy.end_offset)),
    )
    log = SimpleNamespace(
        epochs=SimpleNamespace(entries=lambda: EPOCHS),
        topic="t",
        config=SimpleNamespace(max_decompressed_message_bytes=1 << 20),
        log_start_offset=5,
        local_log_start_offset=40,
    )
    scheduler = ManualScheduler()
    storage: Any = None
    searches = TimeSearches(
        scheduler,  # type: ignore[arg-type]
        storage,
        scheduler.submit_blocking,
        lambda: 60_000.0,
        TierFigures(),
    )
    role: Any = SimpleNamespace(name="t-0", epoch=3, log=log)
    pending = searches.find(role, segments, 0)
    assert pending is not None
    scheduler.run()
    assert searched == [(0, 5, 10), (10, 10, 40)]
    assert pending.resolved
