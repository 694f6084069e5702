"""The rings of samples: what they keep, what a coarse sample says, and how much memory a day takes."""

import gc
import tracemalloc
from array import array

from day import START_MS, samples
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.monitoring.history.samples import (
    COARSE_MS,
    COARSE_SAMPLES,
    FINE_MS,
    FINE_SAMPLES,
    MOST_GROUPS,
    PRODUCE_P99,
    REQUESTS,
    KeptSample,
    Rings,
    put,
)

MOST_BYTES = 4 << 20
DAY_MS = 86_400_000


def rings_of(found: list[KeptSample]) -> Rings:
    rings = Rings()
    for each in found:
        rings.add(each)
    return rings


def test_a_coarse_sample_has_the_means_of_rates_and_the_worst_of_times() -> None:
    rings = rings_of(list(samples(7)))
    (first,) = rings.coarse
    assert first.at_ms == START_MS + COARSE_MS
    assert first.value(REQUESTS) == sum(range(1, 7)) / 6
    assert first.value(PRODUCE_P99) == 6
    assert first.lag_of("group-2") == (6.0, 2.0)
    assert first.lag_of("group-9") is None


def test_a_minute_that_was_missed_is_a_gap_and_not_a_value() -> None:
    rings = rings_of([*samples(3), *samples(12, since_ms=START_MS + 10 * COARSE_MS)])
    assert [(each.at_ms - START_MS) // COARSE_MS for each in rings.coarse] == [1, 11]


def test_a_day_with_most_groups_takes_a_few_megabytes() -> None:
    (first,) = samples(1, groups=MOST_GROUPS)
    gc.collect()
    tracemalloc.start()
    try:
        rings = Rings()
        for ring, every_ms in ((rings.fine, FINE_MS), (rings.coarse, COARSE_MS)):
            for number in range(2 * DAY_MS // every_ms):
                values, lags = array("f", first.values), array("f", first.lags)
                put(ring, KeptSample(START_MS + number * every_ms, values, first.groups, lags))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(rings.fine), len(rings.coarse)) == (FINE_SAMPLES, COARSE_SAMPLES)
    assert taken < MOST_BYTES, f"{taken / 2**20:.1f} MiB"


def test_a_wide_range_ends_with_the_samples_of_the_minute_that_is_not_over() -> None:
    rings = rings_of(list(samples(3 * 6 + 4)))
    wide = list(rings.since(START_MS, COARSE_MS))
    assert [(each.at_ms - START_MS) // FINE_MS for each in wide] == [6, 12, 18, 19, 20, 21, 22]
    assert [(each.at_ms - START_MS) // FINE_MS for each in rings.since(START_MS + 200_000, FINE_MS)] == [21, 22]


@given(st.lists(st.integers(0, 2_000), min_size=1, max_size=60))
def test_times_grow_in_both_rings_whatever_the_clock_does(times: list[int]) -> None:
    rings = Rings()
    for number in times:
        (sample,) = samples(1, since_ms=START_MS + number * FINE_MS)
        rings.add(sample)
    for ring in (rings.fine, rings.coarse):
        found = [each.at_ms for each in ring]
        assert found == sorted(set(found))
    assert rings.fine[-1].at_ms == START_MS + (times[-1] + 1) * FINE_MS
