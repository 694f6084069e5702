"""Numbers, sizes, times and sorted lists as the pages write them."""

import pytest

from kpybroker.machines.console.listing import opposite, sorted_rows
from kpybroker.machines.console.quotas import in_unit
from kpybroker.machines.console.wording import (
    ago,
    counted,
    digits,
    in_bytes,
    in_words,
    milliseconds,
    milliseconds_of,
    percent,
    rate,
    seconds,
    time,
)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (digits(1234567), "1\u202f234\u202f567"),
        (digits(None), "–"),
        (counted(1, "record"), "1 record"),
        (counted(2000, "record"), "2\u202f000 records"),
        (counted(1, "entry", "entries"), "1 entry"),
        (counted(0, "entry", "entries"), "0 entries"),
        (rate(0), "0"),
        (rate(0.25), "0.2"),
        (rate(1234.5), "1\u202f234"),
        (percent(0.0999), "9.99 %"),
        (percent(0.1), "10 %"),
        (percent(1), "100 %"),
        (in_bytes(1023), "1023 B"),
        (in_bytes(1024), "1.0 KiB"),
        (in_bytes(200 * 1024**2), "200 MiB"),
        (in_bytes(5000 * 1024**4), "5\u202f000.0 TiB"),
        (seconds(0.25), "0.2 s"),
        (seconds(119), "119 s"),
        (seconds(120), "2 min"),
        (seconds(48 * 3600), "2 d"),
        (time(0), "1970-01-01 00:00:00.000Z"),
        (time(None), "–"),
        (time(10**18), f"{10**18} ms"),
        (ago(1_000, 181_000), "3 min ago"),
        (ago(6_000, 1_000), "in 5.0 s"),
        (in_words(0.3, "ms"), "0.30 ms"),
        (milliseconds(None), "–"),
        (milliseconds(0), "0 ms"),
        (milliseconds(0.049), "0.05 ms"),
        (milliseconds(6.37), "6.4 ms"),
        (milliseconds(1234), "1\u202f234 ms"),
        (milliseconds(60_000), "60 s"),
        (milliseconds_of(0.31, 16), "0.31 / 16 ms"),
        (milliseconds_of(800, 12_000), "800 ms / 12 s"),
        (percent(0), "0 %"),
        (percent(0.0123), "1.23 %"),
        (percent(0.8), "80 %"),
        (in_unit("producer_byte_rate", 5e8), "477 MiB/s"),
        (in_unit("request_percentage", 80), "80 %"),
        (in_unit("controller_mutation_rate", 0.5), "0.5 changes/s"),
        (in_unit("connection_creation_rate", 20), "20 connections/s"),
        (in_unit("a quota of tomorrow", 7), "7"),
        (in_words(2048, "B/s"), "2.0 KiB/s"),
    ],
)
def test_a_value_is_written_in_one_way(written: str, text: str) -> None:
    assert written == text


def test_rows_without_a_value_come_last_in_both_directions() -> None:
    rows = [("a", 3), ("b", None), ("c", 1)]
    keys = {"lag": lambda row: row[1], "name": lambda row: row[0]}
    assert [name for name, _ in sorted_rows(rows, keys, "lag")] == ["c", "a", "b"]
    assert [name for name, _ in sorted_rows(rows, keys, "-lag")] == ["a", "c", "b"]
    assert [name for name, _ in sorted_rows(rows, keys, "-name")] == ["c", "b", "a"]
    assert sorted_rows(rows, keys, "unknown") == rows


def test_a_second_click_on_a_heading_turns_the_list_around() -> None:
    assert [opposite("", "lag", is_number=True), opposite("-lag", "lag"), opposite("lag", "lag")] == [
        "-lag",
        "lag",
        "-lag",
    ]
    assert opposite("-lag", "name") == "name"
