"""Figures: the ratio's direction, medians and spreads, the verdict, numbers as text."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.figures import Comparison, Figure, compare, ratio, shown, spread

RATE = Figure("throughput", "records/s", True)
TIME = Figure("p99", "µs", False)
positive = st.floats(1e-6, 1e9)


def test_a_ratio_above_one_says_b_does_more_work() -> None:
    assert ratio(RATE, 100, 150) == 1.5


def test_a_ratio_above_one_says_b_takes_less_time() -> None:
    assert ratio(TIME, 150, 100) == 1.5


def test_equal_zeros_are_a_draw_and_a_cost_of_nothing_wins() -> None:
    assert ratio(TIME, 0, 0) == 1.0
    assert ratio(TIME, 5, 0) == math.inf
    assert ratio(RATE, 5, 0) == 0.0


@given(positive, positive, st.booleans())
def test_swapping_the_sides_turns_the_ratio_over(a: float, b: float, more_is_better: bool) -> None:
    figure = Figure("any", "", more_is_better)
    assert ratio(figure, a, b) == pytest.approx(1 / ratio(figure, b, a))


def test_ratios_are_taken_round_by_round() -> None:
    comparison = Comparison("row", RATE, (100, 200, 400), (100, 300, 200))
    assert comparison.ratios == spread([1.0, 1.5, 0.5])
    assert comparison.ratios.median == 1.0


def test_a_side_that_missed_a_round_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        _ = Comparison("row", RATE, (1, 2), (1,)).ratios


@pytest.mark.parametrize(("b", "verdict"), [(94, "MISS"), (95, "ok"), (119, "ok"), (120, "aim")])
def test_the_verdict_follows_the_required_ratio_and_the_aim(b: float, verdict: str) -> None:
    assert Comparison("row", RATE, (100,), (b,)).verdict == verdict


def test_compare_makes_one_comparison_of_each_figure() -> None:
    rounds = [{"throughput": 10.0, "p99": 7.0, "unused": 1.0}]
    made = compare("row", [RATE, TIME], rounds, rounds)
    assert [(c.figure, c.a, c.b) for c in made] == [(RATE, (10.0,), (10.0,)), (TIME, (7.0,), (7.0,))]


def test_a_round_without_a_figure_is_refused() -> None:
    with pytest.raises(KeyError):
        compare("row", [RATE], [{}], [{"throughput": 1.0}])


def test_a_spread_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        spread([])


@given(st.lists(positive, min_size=1))
def test_the_median_lies_within_the_spread(values: list[float]) -> None:
    seen = spread(values)
    assert seen.smallest <= seen.median <= seen.largest


@pytest.mark.parametrize(
    ("value", "text"),
    [(1_234_567, "1 234 567"), (1234.5, "1234"), (123.45, "123.5"), (12.345, "12.35"), (0.31, "0.310")],
)
def test_numbers_are_shown_with_three_or_four_digits(value: float, text: str) -> None:
    assert shown(value) == text
