"""Many names are sorted in steps."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.runtime.calls import steps


def sorted_in_steps(names: Iterable[str]) -> tuple[list[str], int]:
    """The names, and the number of steps."""
    work = steps.in_order(names)
    count = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, count
        count += 1


@given(st.lists(st.text(max_size=4), max_size=60))
def test_the_order_is_that_of_sorted(names: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "RUN_ELEMENTS", 7)
        assert sorted_in_steps(names)[0] == sorted(names)


def test_many_names_take_many_steps() -> None:
    names = [str(number) for number in range(20 * steps.RUN_ELEMENTS)]
    found, count = sorted_in_steps(names)
    assert found == sorted(names)
    assert count >= 20 + len(names) // steps.STEP_ELEMENTS
