"""The copies that count for a log with its history of epochs, and how far each of them is a copy of that log."""

import pytest
from remote_log_histories import segment
from test_remote_segments import cache_of

from kpybroker.machines.remote_log.lineage import (
    NOTHING_COPIED,
    CopiedOffset,
    agrees_until,
    counts,
    highest_copied,
    lineage,
    with_records,
)

HISTORY = [(1, 0), (3, 20), (4, 40)]
END = 60


@pytest.mark.parametrize(
    ("start", "end", "epochs", "is_counted"),
    [
        (0, 19, [(1, 0)], True),
        (0, 25, [(1, 0), (3, 20)], True),
        (20, 39, [(3, 20)], True),
        (0, 59, HISTORY, True),
        (0, 60, HISTORY, False),  # behind the log's end
        (20, 40, [(3, 20)], False),  # our next epoch begins within it
        (25, 39, [(3, 25)], True),
        (15, 39, [(3, 15)], False),  # its epoch begins before ours
        (0, 9, [(0, 0)], False),
        (0, 19, [(0, 0), (1, 10)], True),  # our log start was moved into it
        (40, 50, [(5, 40)], False),
        (5, 9, [(2, 5)], False),
        (0, 45, [(1, 0), (4, 20)], False),
        (0, 19, [(1, 0), (2, 19), (3, 19)], False),
        (0, 25, [(1, 0), (2, 20), (3, 20)], True),  # epoch 2 has no records
    ],
)
def test_a_copy_counts_where_its_epochs_are_those_of_the_log(
    start: int, end: int, epochs: list[tuple[int, int]], is_counted: bool
) -> None:
    made = segment(1, start, end, epochs)
    assert counts(made, END, HISTORY) is is_counted
    assert not counts(made, END, [])
    assert not counts(made, end, HISTORY)
    assert bool(list(lineage(cache_of(made), END, HISTORY))) is is_counted


def test_an_epoch_that_starts_where_the_next_one_does_has_no_records() -> None:
    assert with_records([(1, 0), (2, 5), (3, 5), (4, 9)]) == [(1, 0), (3, 5), (4, 9)]
    assert with_records([]) == []


def test_the_highest_copied_offset_lies_within_the_logs_own_epochs() -> None:
    assert highest_copied(cache_of(), END, HISTORY) == NOTHING_COPIED
    of_first = cache_of(segment(1, 0, 9, [(1, 0)]))
    assert highest_copied(of_first, END, HISTORY) == CopiedOffset(9, 1)
    beyond = cache_of(segment(1, 0, 30, [(1, 0)]))
    assert highest_copied(beyond, END, HISTORY) == CopiedOffset(19, 1)
    assert highest_copied(cache_of(segment(1, 40, 99, [(4, 40)])), END, HISTORY) == CopiedOffset(59, 4)


@pytest.mark.parametrize(
    ("history", "offset", "until"),
    [
        (HISTORY, 5, 40),
        (HISTORY, 25, 40),
        ([(1, 0), (2, 10)], 5, 10),
        ([(1, 0), (3, 30)], 5, 20),
        ([(1, 0)], 5, 20),
        ([(1, 0), (3, 20), (4, 30)], 5, 30),
        ([(2, 0)], 5, 5),
        ([(1, 0), (2, 10), (3, 20)], 25, 40),
    ],
)
def test_a_copy_is_read_up_to_where_its_history_leaves_the_logs(
    history: list[tuple[int, int]], offset: int, until: int
) -> None:
    assert agrees_until(segment(1, 0, 39, [(1, 0), (3, 20)]), history, offset) == until
