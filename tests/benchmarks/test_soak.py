"""The soak: what it calls growth, what it reads of a scrape, and a short soak itself."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import CHECKOUT
from benchmarks.soak import outcome
from benchmarks.soak.sampling import GC_PAUSE, GC_TOTAL, LATE_TOTAL, LOOP_LAG, parse
from benchmarks.soak.trend import BOUNDS, Sample, after_warm_up, growths, slope

SHORT_SOAK_S = 60
HOUR_S = 3600

SCRAPE = """# TYPE kpybroker_gc_pause_seconds gauge
kpybroker_gc_pause_seconds_total 1.5
kpybroker_gc_pause_seconds{quantile="0.50"} 0.001
kpybroker_gc_pause_seconds{quantile="0.999"} 2.5e-02
kpybroker_loop_late_seconds_total 3
kpybroker_loop_lag_seconds{quantile="0.50"} 0.0
kpybroker_loop_lag_seconds{quantile="0.999"} 0.004
"""


def samples(seconds: int, rss_mb_per_hour: float = 0.0, noise_mb: float = 0.0, peaks: int = 0) -> list[Sample]:
    rng = random.Random(3)
    made = [
        Sample(
            at_s=float(at),
            rss_mb=50 + rss_mb_per_hour * at / HOUR_S + rng.uniform(-noise_mb, noise_mb),
            descriptors=100,
            threads=5,
            gc_ms_per_s=0.1,
            gc_worst_ms=10,
            loop_late_ms_per_s=1,
            loop_worst_ms=5,
        )
        for at in range(0, seconds, max(1, seconds // 720))
    ]
    for number in range(peaks):
        at = len(made) - 1 - number
        made[at] = made[at]._replace(rss_mb=500)
    return made


def memory_is_flat(taken: list[Sample]) -> bool:
    """Whether memory counts as flat."""
    (memory,) = [each for each in growths(taken) if each.bound.figure == "rss_mb"]
    return memory.is_flat


def test_noise_and_single_peaks_are_no_growth() -> None:
    assert memory_is_flat(samples(HOUR_S))
    assert memory_is_flat(samples(HOUR_S, noise_mb=10))
    assert memory_is_flat(samples(HOUR_S, peaks=20))
    assert memory_is_flat(samples(60, noise_mb=2))


def test_a_leak_is_found_in_an_hour_and_a_fast_one_in_a_minute() -> None:
    assert not memory_is_flat(samples(HOUR_S, rss_mb_per_hour=25, noise_mb=5))
    assert not memory_is_flat(samples(60, rss_mb_per_hour=1000, noise_mb=1))


def test_every_bound_is_of_a_figure_that_is_sampled_and_shown() -> None:
    assert {bound.figure for bound in BOUNDS} <= set(Sample._fields)
    assert set(outcome.TITLES) == set(Sample._fields) - {"at_s"}


@pytest.mark.parametrize(("seconds", "warm_up_s"), [(HOUR_S, 900), (80, 30), (40, 20)])
def test_the_warm_up_is_a_quarter_of_the_time_but_never_short_and_never_more_than_half(
    seconds: int, warm_up_s: int
) -> None:
    assert after_warm_up([]) == []
    assert after_warm_up(samples(seconds))[0].at_s == pytest.approx(warm_up_s, abs=6)


def test_the_slope_is_that_of_the_line() -> None:
    assert slope([(float(x), 3.0 * x + 7) for x in range(2000)]) == pytest.approx(3)
    assert slope([(1.0, 5.0)]) == 0


def test_too_few_samples_are_no_verdict() -> None:
    with pytest.raises(ValueError):
        growths(samples(3))
    assert outcome.verdict(samples(3), []) == ["2 samples after the warm-up tell nothing"]


def test_the_worst_quantiles_and_the_totals_are_read_of_a_scrape() -> None:
    assert parse(SCRAPE) == {GC_TOTAL: 1.5, GC_PAUSE: 0.025, LATE_TOTAL: 3.0, LOOP_LAG: 0.004}
    with pytest.raises(ValueError, match=GC_TOTAL):
        parse(SCRAPE.replace(GC_TOTAL, "renamed"))


def test_growth_and_errors_of_a_soak_are_reported() -> None:
    lines = outcome.verdict(samples(HOUR_S, rss_mb_per_hour=40), ["a record is missing"])
    assert lines[0] == "a record is missing"
    assert lines[1].startswith("resident memory, MB grew by")
    assert outcome.verdict(samples(HOUR_S), []) == []


def test_table_and_page_show_every_figure() -> None:
    taken = samples(100)
    table = outcome.markdown(taken, growths(taken), {"topics": 5}, "kpybroker 1")
    shown = outcome.page(taken, table)
    assert all(title in table and title in shown for title in outcome.TITLES.values())
    assert shown.count("<polyline") == len(outcome.TITLES)
    assert "Done meanwhile: 5 topics." in table


@pytest.mark.slow
def test_a_minute_of_mixed_load_grows_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.soak", "--seconds", str(SHORT_SOAK_S), "--output", str(tmp_path)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=CHECKOUT)
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-3000:]
