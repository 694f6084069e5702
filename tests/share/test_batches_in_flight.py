"""The ranges of a batch in flight: one while its records have one state, one for each record afterwards."""

import pytest

from kpybroker.machines.share.in_flight import InFlightBatch
from kpybroker.machines.share.record_state import ACQUIRED, RecordState


@pytest.mark.parametrize(
    ("first", "last", "of_the_whole", "of_each"),
    [
        (0, 9, [], []),
        (0, 10, [(10, 14)], [10]),
        (12, 13, [(10, 14)], [12, 13]),
        (14, 20, [(10, 14)], [14]),
        (15, 20, [], []),
    ],
)
def test_the_ranges_of_a_batch_are_those_that_overlap(
    first: int, last: int, of_the_whole: list[tuple[int, int]], of_each: list[int]
) -> None:
    batch = InFlightBatch(10, 14, RecordState(ACQUIRED, 1, "m"))
    assert [each[:2] for each in batch.ranges(first, last)] == of_the_whole
    batch.split()
    assert [each[:2] for each in batch.ranges(first, last)] == [(offset, offset) for offset in of_each]
