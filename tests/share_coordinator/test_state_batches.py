"""Merging state batches: each offset keeps its newest state, whatever the order, and the result is sorted."""

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.share_coordinator.state_batches import UNCHANGED, StateBatch, combine

batches = st.lists(
    st.builds(
        lambda first, length, count, state: StateBatch(first, first + length, count, state),
        st.integers(0, 30),
        st.integers(0, 9),
        st.integers(0, 3),
        st.sampled_from((0, 2, 4)),
    ),
    max_size=8,
)


def newest(several: Iterable[StateBatch]) -> dict[int, tuple[int, int]]:
    """The newest state of each offset."""
    found: dict[int, tuple[int, int]] = {}
    for batch in several:
        for offset in range(batch.first_offset, batch.last_offset + 1):
            found[offset] = max(found.get(offset, batch.newness), batch.newness)
    return found


@given(batches, batches, st.integers(-1, 25))
def test_each_offset_has_its_newest_state(before: list[StateBatch], new: list[StateBatch], start_offset: int) -> None:
    combined = combine(before, new, start_offset)
    wanted = {offset: state for offset, state in newest([*before, *new]).items() if offset >= start_offset}
    assert newest(combined) == wanted
    ends = [(batch.first_offset, batch.last_offset) for batch in combined]
    assert all(last < first for (_, last), (first, _) in pairwise(ends))


@given(batches, st.integers(0, 30))
def test_a_range_that_ends_before_it_begins_is_left_out(possible: list[StateBatch], offset: int) -> None:
    impossible = StateBatch(offset, offset - 1, 9, 4)
    assert combine(possible, [impossible], UNCHANGED) == combine(possible, (), UNCHANGED)


def test_neighbours_with_equal_states_become_one() -> None:
    assert combine([StateBatch(0, 4, 1, 2)], [StateBatch(5, 9, 1, 2)], UNCHANGED) == (StateBatch(0, 9, 1, 2),)
