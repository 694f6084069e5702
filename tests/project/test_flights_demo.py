"""The demo does what it shows: its sums are right, it notices when they are not, and it ends accordingly."""

import io
import subprocess
import sys

import pytest
from rich.console import Console
from sources import ROOT

from kpybroker.pipeline.demo.dataset import DAY_MS, Flight, Sums, by_day, flights
from kpybroker.pipeline.demo.story import verdict

NEW_YEAR_MS = 1_356_998_400_000


def flight(time_ms: int, dep_delay: int | None, origin: str = "JFK") -> Flight:
    return Flight(time_ms, "UA", 1545, origin, "IAH", dep_delay, 1400)


def test_days_begin_at_midnight_utc_and_a_cancelled_flight_counts_with_its_distance() -> None:
    last_hour = NEW_YEAR_MS + DAY_MS - 3_600_000
    sums = by_day(
        [flight(NEW_YEAR_MS, 5), flight(last_hour, None), flight(last_hour, -2), flight(last_hour + DAY_MS, 1)]
    )
    assert sums == {
        (NEW_YEAR_MS, "JFK"): Sums(flights=3, cancelled=1, delay=3, distance=4200),
        (NEW_YEAR_MS + DAY_MS, "JFK"): Sums(flights=1, cancelled=0, delay=1, distance=1400),
    }


@pytest.mark.parametrize(
    "found",
    [{}, {(NEW_YEAR_MS, "JFK"): Sums(1, 0, 4, 1400)}, {(NEW_YEAR_MS, "JFK"): Sums(1, 0, 5, 1400), (0, "LGA"): Sums()}],
    ids=["missing", "different", "too-many"],
)
def test_a_window_that_differs_from_the_csv_is_an_error(found: dict[tuple[int, str], Sums]) -> None:
    expected = by_day([flight(NEW_YEAR_MS, 5)])
    reported = io.StringIO()
    assert verdict(expected, expected, Console(file=reported))
    assert not verdict(found, expected, Console(file=reported))
    assert "1 of 1 windows differ" in reported.getvalue()


def test_the_data_set_is_the_whole_year() -> None:
    year = list(flights())
    assert len(year) == 336_776
    assert {each.origin for each in year} == {"EWR", "JFK", "LGA"}


@pytest.mark.slow
@pytest.mark.spark
def test_the_demo_runs_on_a_broker_of_its_own_and_its_sums_agree() -> None:
    command = [sys.executable, "-m", "kpybroker", "demo", "--limit", "20000"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "windows of 20,000 flights are exactly those of the CSV" in finished.stdout
