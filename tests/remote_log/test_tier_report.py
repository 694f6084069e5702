"""The report of ``kpybroker tiers show``: what is behind, what is unfinished, the order of rows, and the cost."""

import pytest

from kpybroker.cli.tier_report import (
    GIB,
    MONTH_MS,
    PART_BYTES,
    Prices,
    cost_of,
    partition_tiers,
    worst_first,
    writes_of,
)
from kpybroker.client.client import Spot
from kpybroker.client.tier_requests import TierOffsets
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.segments import (
    DELETING,
    FINISHED,
    STARTED,
    RemoteLogSegment,
    RemoteLogSegmentId,
    RemoteLogSegmentState,
)

NOW_MS = 100 * 86_400_000
TOPIC_ID = b"t" * 16


def segments(*given: tuple[RemoteLogSegmentState, int, int]) -> RemoteSegments:
    """Segments in a state, of a size, with an age."""
    made = RemoteSegments(TOPIC_ID, "orders", 0)
    for number, (state, size_bytes, age_ms) in enumerate(given):
        identity = RemoteLogSegmentId(TOPIC_ID, "orders", 0, bytes([number]) * 16)
        at_ms, start = NOW_MS - age_ms, number * 100
        segment = RemoteLogSegment(
            identity, start, start + 99, 1, 5, at_ms, ((0, start),), size_bytes, None, STARTED,
            is_transaction_index_empty=True,
        )  # fmt: skip
        made.apply(segment)
        for following in (FINISHED, DELETING):
            if state >= following:
                made.apply(segment.update(following, 1, at_ms))
    return made


def reported(offsets: TierOffsets, known: RemoteSegments | None = None, partition: int = 0, **changes: object):
    given = {"is_copy_disabled": False, "now_ms": NOW_MS, **changes}
    return partition_tiers(Spot("orders", partition), offsets, known, 7, **given)


@pytest.mark.parametrize(
    ("offsets", "behind"),
    [
        (TierOffsets(0, 100, 99, 100, 150), 50),
        (TierOffsets(0, 0, -1, 0, 150), 150),
        (TierOffsets(120, 120, 99, None, 150), 30),
        (TierOffsets(0, 0, -1, None, 0), 0),
        (TierOffsets(200, 200, 99, None, 200), 0),
    ],
)
def test_records_are_behind_from_the_last_copied_offset_or_the_log_start_on(offsets, behind):
    assert reported(offsets).behind == behind


def test_the_bytes_in_the_store_are_those_that_can_be_read():
    row = reported(TierOffsets(0, 0, 199, 200, 200), segments((FINISHED, 50, 9), (FINISHED, 7, 9), (STARTED, 1000, 9)))
    assert row.remote_bytes == 57
    assert row.states == {"COPY_SEGMENT_STARTED": 1, "COPY_SEGMENT_FINISHED": 2, "DELETE_SEGMENT_STARTED": 0}


def test_unfinished_copies_are_counted_with_the_age_of_the_oldest():
    row = reported(TierOffsets(0, 0, -1, 0, 0), segments((STARTED, 1, 500), (STARTED, 1, 9_000), (DELETING, 1, 99_999)))
    assert (row.unfinished, row.unfinished_ms) == (2, 9_000)
    assert reported(TierOffsets(0, 0, -1, 0, 0)).unfinished_ms is None


def test_the_oldest_unfinished_copy_comes_first_then_the_longest_lag():
    idle, lagging = TierOffsets(0, 0, 9, 10, 10), TierOffsets(0, 0, -1, 0, 80)
    rows = [
        reported(idle, partition=1),
        reported(lagging, partition=2),
        reported(idle, segments((STARTED, 1, 10)), partition=3),
        reported(idle, segments((STARTED, 1, 99)), partition=4),
    ]
    assert [row.partition for row in worst_first(rows)] == [4, 3, 2, 1]


def test_a_large_log_is_written_in_parts():
    assert writes_of(1) == writes_of(PART_BYTES) == 3
    assert writes_of(PART_BYTES + 1) == 3 + 3  # a begin and two parts, the end counts as the log itself


def test_the_cost_is_storage_and_the_writes_of_a_month():
    known = segments((FINISHED, GIB, 5), (FINISHED, GIB, MONTH_MS))
    cost = cost_of([reported(TierOffsets(0, 0, 199, 200, 200), known)], Prices(gb_month=0.5, writes_1000=10))
    assert cost.storage_month == pytest.approx(1.0)
    assert cost.writes_month == pytest.approx(writes_of(GIB) / 100)
    assert cost.month == pytest.approx(cost.storage_month + cost.writes_month)


def test_a_topic_whose_copying_is_disabled_is_named():
    assert reported(TierOffsets(0, 0, -1, None, 0), is_copy_disabled=True).note == "copying is disabled"
