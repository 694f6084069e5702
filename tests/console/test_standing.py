"""The list of groups: which are in trouble, in how many words, when one has caught up, and in which order they come."""

from typing import Any

import pytest

from kpybroker.machines.console.groups import GroupRow
from kpybroker.machines.console.listing import sorted_rows
from kpybroker.machines.console.standing import (
    BEHIND,
    FINE,
    GROUP_KEYS,
    LAGGING,
    STUCK,
    in_short,
    standing_of,
    trend_of,
    worst_first,
)
from kpybroker.machines.console.stuck import ReadingPace, not_stuck, stuck_by

SLOW, FAST, EVEN, STILL, SILENT, STEPS = (
    ReadingPace(80, 120, 30),
    ReadingPace(120, 80, 30),
    ReadingPace(9.5, 9.5, 30),
    ReadingPace(0, 5, 30),
    ReadingPace(0, 0, 30),
    ReadingPace(4.6, 5.0, 30),
)


def row(name: str, **changes: Any) -> GroupRow:
    usual: dict[str, Any] = {
        "type": "classic",
        "state": "Stable",
        "standing": FINE,
        "verdict": "",
        "lag": 0,
        "unknown": 0,
        "lag_s": None,
        "untimed": 0,
        "trend": "",
        "catches_up_s": None,
        "topics": ("t",),
        "topics_left_out": 0,
        "members": 1,
        "node": 1,
        "is_here": True,
    }
    return GroupRow(name, **{**usual, **changes})


@pytest.mark.parametrize(
    ("pace", "lag", "line", "catches_up_s"),
    [
        (None, 9, "", None),
        (SLOW, 4_000, "reads 80/s, 120/s arrive: never", None),
        (STEPS, 23, "reads 4.6/s, 5.0/s arrive: keeps up", 0.0),
        (EVEN, 96, "reads 9.5/s, 9.5/s arrive: never", None),
        (STILL, 9, "reads 0/s, 5.0/s arrive: never", None),
        (SILENT, 9, "reads nothing", None),
        (FAST, 4_000, "reads 120/s, 80/s arrive: caught up in 100 s", 100.0),
        (FAST, 80, "reads 120/s, 80/s arrive: keeps up", 2.0),
        (EVEN, 95, "reads 9.5/s, 9.5/s arrive: keeps up", 0.0),
        (FAST, 0, "reads 120/s, 80/s arrive", 0.0),
        (SILENT, 0, "", 0.0),
        (SLOW, None, "reads 80/s, 120/s arrive", None),
    ],
)
def test_a_trend_has_both_rates_and_says_when_everything_is_read(
    pace: ReadingPace | None, lag: int | None, line: str, catches_up_s: float | None
) -> None:
    assert trend_of(pace, lag) == (line, catches_up_s)


@pytest.mark.parametrize(
    ("verdict", "pace", "lag", "unknown", "standing"),
    [
        (stuck_by("x"), SLOW, 9, 0, STUCK),
        (not_stuck("x"), SLOW, 4_000, 0, BEHIND),
        (not_stuck("x"), STILL, 9, 0, BEHIND),
        (not_stuck("x"), STEPS, 23, 0, FINE),
        (not_stuck("x"), SLOW, 0, 0, FINE),
        (not_stuck("x"), None, 9, 0, LAGGING),
        (not_stuck("x"), FAST, 900, 0, LAGGING),
        (not_stuck("x"), FAST, 9, 0, FINE),
        (not_stuck("x"), FAST, 9, 1, LAGGING),
        (not_stuck("x"), SILENT, 9, 0, LAGGING),
        (not_stuck("x"), None, None, 2, LAGGING),
        (not_stuck("x"), None, None, 0, FINE),
    ],
)
def test_a_group_is_stuck_or_falls_behind_or_has_lag_or_is_fine(
    verdict: Any, pace: ReadingPace | None, lag: int | None, unknown: int, standing: str
) -> None:
    assert standing_of(verdict, pace, lag, unknown) == standing


@pytest.mark.parametrize(
    ("line", "short"),
    [
        ("9 records are left. Whether it catches up shows later.", "9 records are left."),
        ("It rebalances: nobody gets records until a rejoins.", "It rebalances: nobody gets records until a rejoins."),
        ("3 members were lost at 5 of t-0: " + "its consumers fail on it, " * 5, "3 members were lost at 5 of t-0."),
        ("", ""),
    ],
)
def test_a_verdict_in_short_is_its_first_sentence_and_a_long_one_ends_at_its_colon(line: str, short: str) -> None:
    assert in_short(not_stuck(line), None, 9) == short
    assert in_short(stuck_by(line), SLOW, 9) == short, "a group that is stuck says why"


@pytest.mark.parametrize(
    ("pace", "short"),
    [
        (SLOW, "It never catches up."),
        (STILL, "It commits nothing."),
        (SILENT, "Its lag stays."),
        (ReadingPace(400, 400, 30), "It keeps up."),
        (EVEN, "Its lag stays."),
        (FAST, "It catches up in 100 s."),
    ],
)
def test_a_group_that_reads_says_in_short_whether_it_catches_up(pace: ReadingPace, short: str) -> None:
    assert in_short(not_stuck("It commits 80 records/s."), pace, 4_000) == short


def test_groups_in_trouble_come_first_and_of_these_the_largest_lag() -> None:
    rows = [
        row("fine"),
        row("lags", standing=LAGGING, lag=9_000),
        row("unknown", standing=LAGGING, lag=None, unknown=2),
        row("slow", standing=BEHIND, lag=10),
        row("stuck", standing=STUCK, lag=1),
        row("very-stuck", standing=STUCK, lag=5),
    ]
    assert [each.id for each in sorted(rows, key=worst_first)] == [
        "very-stuck",
        "stuck",
        "slow",
        "lags",
        "unknown",
        "fine",
    ]


def test_a_list_sorts_by_every_column_with_unknown_values_last() -> None:
    never = row("never", lag=5, lag_s=9.0, trend="reads 1/s, 2/s arrive: never", topics=("b",), members=None, node=2)
    soon = row("soon", lag=7, lag_s=1.0, trend="reads", catches_up_s=3.0, topics=(), type="share", state="Empty")
    unknown = row("unknown", lag=None, standing=STUCK, topics=("a",), members=5, node=3)
    rows = [never, soon, unknown]
    first = {
        sort: [each.id for each in sorted_rows(rows, GROUP_KEYS, sort)]
        for column in GROUP_KEYS
        for sort in (column, f"-{column}")
    }
    assert first["lag"] == ["never", "soon", "unknown"]
    assert first["-lag"] == ["soon", "never", "unknown"]
    assert first["time"] == ["soon", "never", "unknown"]
    assert first["-trend"] == ["never", "soon", "unknown"]
    assert first["topics"] == ["unknown", "never", "soon"]
    assert first["-members"] == ["unknown", "soon", "never"]
    assert first["verdict"][0] == "unknown"
    assert first["-group"] == ["unknown", "soon", "never"]
    assert first["-node"] == ["unknown", "never", "soon"]
    assert first["type"][2] == "soon"
    assert first["state"][0] == "soon"
