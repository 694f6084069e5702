"""A commit is bounded in bytes, whatever the size of records, and no partition starves."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kpybroker.machines.lake.coverage import Lane, LaneStep, advanced
from kpybroker.machines.lake.planning import CommitLimits, plan, reached, tasks
from kpybroker.pipeline.lake import topic as topics
from kpybroker.pipeline.lake.topic import LakeTopic
from kpywire.columns.schema import schema_of

RECORDS = 8
MOST_BYTES = 10_000


class Sized(LakeTopic):
    """A topic whose partitions have records of one size each, in batches of a few."""

    def __init__(self, sizes: list[int]) -> None:
        client: Any = None
        super().__init__(client, lambda: client, "t")
        self._sizes = sizes

    def _batches(self, step: LaneStep, columns: tuple[str, ...], _copied: Any) -> Iterator[pa.RecordBatch]:
        value = b"x" * self._sizes[step.partition]
        for start in range(step.start, step.end, RECORDS):
            offsets = list(range(start, min(start + RECORDS, step.end)))
            count = len(offsets)
            cells: list[Any] = [[b""] * count, [value] * count, [step.partition] * count, offsets, [0] * count]
            yield pa.record_batch(cells, schema_of(columns))


@given(st.lists(st.sampled_from([0, 10, 1_000, 9_000]), min_size=1, max_size=4), st.integers(10, 60))
@settings(max_examples=30, deadline=None)
def test_records_are_read_in_parts_of_bounded_size_until_all_are_read(sizes: list[int], records: int) -> None:
    topic = Sized(sizes)
    try:
        coverage: Any = {partition: (Lane(0, 0),) for partition in range(len(sizes))}
        ends = dict.fromkeys(coverage, records)
        limits = CommitLimits(bytes=MOST_BYTES)
        seen: list[tuple[int, int]] = []
        while steps := plan(coverage, ends, limits, 1.0):
            rows, done = topic.read(steps, MOST_BYTES)
            largest = max(sizes) * RECORDS
            assert rows["value"].nbytes <= 2 * MOST_BYTES + 2 * largest
            assert done
            found = list(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))
            assert sorted(found) == [(step.partition, n) for step in sorted(done) for n in range(step.start, step.end)]
            seen += found
            coverage = advanced(coverage, done)
        assert sorted(seen) == [(partition, offset) for partition in range(len(sizes)) for offset in range(records)]
    finally:
        topic.close()


def test_pieces_behind_one_that_was_cut_are_left_for_the_next_commit(monkeypatch: Any) -> None:
    monkeypatch.setattr(topics, "TASK_OFFSETS", 16)
    topic = Sized([5_000])
    try:
        rows, done = topic.read([LaneStep(0, 0, 0, 64)], 20_000)
        assert done == [LaneStep(0, 0, 0, 8)]
        assert rows.num_rows == 8
    finally:
        topic.close()


@given(st.integers(1, 9), st.lists(st.integers(0, 9), min_size=9, max_size=9))
def test_a_step_is_reached_as_far_as_its_pieces_follow_one_another(size: int, read: list[int]) -> None:
    step = LaneStep(0, 0, 5, 32)
    pieces = tasks([step], size)
    ends = {piece: min(piece.start + part, piece.end) for piece, part in zip(pieces, read * 4, strict=False)}
    done = reached([step], ends)
    end = done[0].end if done else step.start
    assert all(ends[piece] == piece.end for piece in pieces if piece.end <= end)
    assert all(ends[piece] <= end for piece in pieces if piece.start <= end < piece.end)
