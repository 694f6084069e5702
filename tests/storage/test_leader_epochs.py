"""Epochs: where they began, and the answer to a follower or consumer of an older one (KIP-101, KIP-279, KIP-320)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpystorage.leader_epochs import LeaderEpochs

OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["assign", "end", "start"]), st.integers(0, 9), st.integers(0, 40)), max_size=25
)


def test_an_epoch_ends_where_the_next_one_begins() -> None:
    epochs = LeaderEpochs([(1, 10), (3, 20), (4, 35)])
    assert epochs.end_offset_for(4, 50) == (4, 50)
    assert epochs.end_offset_for(3, 50) == (3, 35)
    assert epochs.end_offset_for(2, 50) == (1, 20)
    assert epochs.end_offset_for(1, 50) == (1, 20)
    assert epochs.end_offset_for(0, 50) == (0, 10)
    assert epochs.end_offset_for(5, 50) == (-1, -1)
    assert epochs.end_offset_for(-1, 50) == (-1, -1)
    assert LeaderEpochs().end_offset_for(0, 50) == (-1, -1)


def test_an_offset_belongs_to_the_last_epoch_that_began_before_it() -> None:
    epochs = LeaderEpochs([(1, 10), (3, 20)])
    assert [epochs.epoch_for(offset) for offset in (9, 10, 19, 20, 100)] == [-1, 1, 1, 3, 3]
    assert epochs.earliest == (1, 10)
    assert LeaderEpochs().earliest is None


def test_a_new_epoch_removes_what_contradicts_it() -> None:
    epochs = LeaderEpochs([(1, 10), (3, 20), (4, 35)])
    assert not epochs.assign(4, 40)
    assert not epochs.dirty
    assert epochs.assign(5, 15)
    assert epochs.dirty
    assert epochs.entries() == [(1, 10), (5, 15)]
    assert epochs.assign(5, 10)
    assert epochs.entries() == [(5, 10)]
    for epoch, offset in ((-1, 0), (0, -1)):
        with pytest.raises(ValueError):
            epochs.assign(epoch, offset)


def test_truncation_at_either_end() -> None:
    epochs = LeaderEpochs([(1, 10), (3, 20), (4, 35)])
    epochs.truncate_from_end(36)
    epochs.truncate_from_start(10)
    assert not epochs.dirty
    epochs.truncate_from_start(25)
    assert epochs.entries() == [(3, 25), (4, 35)]
    epochs.truncate_from_end(35)
    assert epochs.entries() == [(3, 25)]
    assert epochs.latest == 3
    epochs.clear()
    assert epochs.latest == -1
    assert epochs.entries() == []


@given(OPERATIONS)
def test_epochs_and_offsets_ascend_whatever_happens(operations: list[tuple[str, int, int]]) -> None:
    epochs = LeaderEpochs()
    for operation, epoch, offset in operations:
        if operation == "assign":
            epochs.assign(epoch, offset)
            assert epochs.latest == epoch
        elif operation == "end":
            epochs.truncate_from_end(offset)
            assert all(start < offset for _, start in epochs.entries())
        else:
            epochs.truncate_from_start(offset)
        entries = epochs.entries()
        assert entries == sorted(entries)
        assert len({epoch for epoch, _ in entries}) == len({start for _, start in entries}) == len(entries)
        assert epochs.latest == (entries[-1][0] if entries else -1)
