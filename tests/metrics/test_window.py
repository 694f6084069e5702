"""Quantiles out of buckets, and what a minute forgets."""

import math

from hypothesis import given
from hypothesis import strategies as st

from kpybroker.monitoring.metrics.window import (
    QUANTILES,
    SLICES,
    MinuteWindow,
    MinuteWindows,
    quantiles_ms,
    quantiles_of,
)
from kpybroker.runtime.counters import BUCKETS

times_ns = st.lists(st.integers(0, 10**13), min_size=1, max_size=200)


def buckets_of(times: list[int]) -> list[int]:
    buckets = [0] * BUCKETS
    for ns in times:
        buckets[(ns * ns).bit_length()] += 1
    return buckets


@given(times_ns)
def test_a_quantile_is_off_by_half_an_octave_at_most(times: list[int]) -> None:
    ordered = sorted(times)
    for quantile, found_ms in zip(QUANTILES, quantiles_ms(buckets_of(times)), strict=True):
        exact_ns = ordered[max(0, math.ceil(quantile * len(times)) - 1)]
        found_ns = found_ms * 1e6
        assert exact_ns / math.sqrt(2) <= found_ns * (1 + 1e-9) + 1
        assert found_ns <= exact_ns * math.sqrt(2) * (1 + 1e-9) + 1


@given(times_ns)
def test_quantiles_ascend(times: list[int]) -> None:
    found = quantiles_ms(buckets_of(times))
    assert found == sorted(found)


@given(st.integers(1, 10**12), st.integers(1, 1000))
def test_a_duration_of_zero_is_counted(ns: int, zeros: int) -> None:
    found = quantiles_ms(buckets_of([ns]), zeros)
    for quantile, found_ms in zip(QUANTILES, found, strict=True):
        assert (found_ms == 0) == (quantile * (zeros + 1) <= zeros)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=200))
def test_quantiles_of_whole_numbers_are_exact(numbers: list[int]) -> None:
    ordered = sorted(numbers)
    exact = [ordered[max(0, math.ceil(quantile * len(numbers)) - 1)] for quantile in QUANTILES]
    assert quantiles_of([numbers.count(each) for each in range(101)]) == exact


def test_an_empty_window_has_no_quantiles() -> None:
    assert quantiles_ms([0] * BUCKETS) == quantiles_of([0] * 101) == [0.0] * len(QUANTILES)


def test_a_list_that_is_not_there_any_more_is_forgotten() -> None:
    windows = MinuteWindows()
    windows.turn({"a": [5], "b": [5]})
    windows.turn({"b": [6]})
    assert (list(windows.recent("a", [1])), list(windows.recent("b", [7]))) == ([1], [7])


def test_a_window_shows_all_until_it_is_full_and_then_the_last_minute() -> None:
    window = MinuteWindow()
    counts = [0, 0]
    window.turn(counts)
    for _ in range(SLICES):
        counts[1] += 1
        assert list(window.recent(counts)) == counts
        window.turn(counts)
    assert list(window.recent(counts)) == [0, SLICES - 1]
    for _ in range(SLICES):
        window.turn(counts)
    assert list(window.recent(counts)) == [0, 0]


def test_counts_between_two_turns_are_in_the_window_that_begins_there() -> None:
    windows = MinuteWindows()
    counts = [5]
    windows.turn({"a": counts})
    assert list(windows.recent("a", [6])) == [6]
    assert list(windows.recent("unknown", [7])) == [7]
