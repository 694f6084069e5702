"""How groups compare in the list: which is in trouble, in how few words, and when one has caught up. Pure."""

from math import inf
from typing import Any, Final, NamedTuple

from kpybroker.machines.console.groups import GroupRow
from kpybroker.machines.console.listing import Keys
from kpybroker.machines.console.stuck import GroupVerdict, ReadingPace
from kpybroker.machines.console.wording import rate, seconds

STUCK, BEHIND, LAGGING, FINE = "stuck", "falls behind", "has lag", "fine"
ORDER: Final = {STUCK: 0, BEHIND: 1, LAGGING: 2, FINE: 3}
LONG_CHARS: Final = 110
"""The length from which on a sentence of the list ends at its colon."""


class Trend(NamedTuple):
    """The two rates in words, and the time until everything is read, None where that is never or not known."""

    line: str
    catches_up_s: float | None


NO_TREND: Final = Trend("", None)


def keeps_up(pace: ReadingPace | None, lag: int | None) -> bool:
    """Whether a group is known to have few of the newest records left."""
    return pace is not None and lag is not None and pace.keeps_up(lag)


def falls_behind(pace: ReadingPace | None, lag: int | None) -> bool:
    """Whether a group has records left and reads slower than they are written."""
    return pace is not None and pace.falls_behind and bool(lag) and not keeps_up(pace, lag)


def standing_of(verdict: GroupVerdict, pace: ReadingPace | None, lag: int | None, unknown: int) -> str:
    """The standing of a group in one word or two."""
    if verdict.is_stuck:
        return STUCK
    if keeps_up(pace, lag):
        return LAGGING if unknown else FINE
    if falls_behind(pace, lag):
        return BEHIND
    return LAGGING if lag or unknown else FINE


def in_short(verdict: GroupVerdict, pace: ReadingPace | None, lag: int | None) -> str:
    """A verdict in one sentence: of a long one the part before its colon. The rates are in a column of their own."""
    if not verdict.is_stuck and lag and pace is not None:
        if keeps_up(pace, lag):
            return "It keeps up."
        if pace.falls_behind:
            return "It never catches up." if pace.read_per_s else "It commits nothing."
        outlook = pace.outlook(lag)
        return f"{outlook[0].upper()}{outlook[1:]}."
    first = verdict.line.partition(". ")[0].removesuffix(".")
    if len(first) > LONG_CHARS:
        first = first.partition(": ")[0]
    return f"{first}." if first else ""


def trend_of(pace: ReadingPace | None, lag: int | None) -> Trend:
    """The trend of a group with this lag."""
    if pace is None:
        return NO_TREND
    rates = f"reads {rate(pace.read_per_s)}/s, {rate(pace.written_per_s)}/s arrive"
    if not lag:
        moves = pace.read_per_s > 0 or pace.written_per_s > 0
        return Trend(rates if moves else "", 0.0 if lag == 0 else None)
    left_s = pace.left_s(lag)
    if keeps_up(pace, lag):
        return Trend(f"{rates}: keeps up", left_s or 0.0)
    if left_s is not None:
        return Trend(f"{rates}: caught up in {seconds(left_s)}", left_s)
    return Trend(f"{rates}: never" if pace.read_per_s or pace.written_per_s else "reads nothing", None)


def worst_first(row: GroupRow) -> Any:
    """The key of the usual order: those in trouble first, of these the largest lag."""
    return ORDER[row.standing], -(row.lag or 0), -row.unknown, row.id


def _until(row: GroupRow) -> float | None:
    return inf if row.trend and row.catches_up_s is None else row.catches_up_s


GROUP_KEYS: Final[Keys[GroupRow]] = {
    "group": lambda row: row.id,
    "verdict": lambda row: ORDER[row.standing],
    "lag": lambda row: row.lag,
    "time": lambda row: row.lag_s,
    "trend": _until,
    "topics": lambda row: row.topics or None,
    "type": lambda row: row.type,
    "state": lambda row: row.state,
    "members": lambda row: row.members,
    "node": lambda row: row.node,
}
