"""Plots over time as SVG, made here: a browser needs no script for them. Pure.

Lines are stretched with the page, and text is not: it stands beside them at its own size. A script shows the values
under the pointer, which are in the page as words.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final, NamedTuple

from kpybroker.machines.console.wording import NONE, digits, in_words, rate

WIDTH, HEIGHT = 1000, 100
"""The size of the drawing, in its own units."""
MOST_LINES: Final = 4
"""The number of colours in the stylesheet."""
MOST_EDGE: Final = 0.97
"""Times are not written closer to the edges than this."""
_STEPS_S: Final = (60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600)
_MOST_TIMES: Final = 6
_SPANS_S: Final = (
    *(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400),
    *(172_800, 432_000, 864_000),
)
_KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class PlotLine:
    """The values of one thing over time, the oldest first; None where there is none."""

    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over the same time, in the same unit."""

    title: str
    unit: str
    lines: tuple[PlotLine, ...]


@dataclass(frozen=True, slots=True)
class PlotEvent:
    """A change of the cluster, in words."""

    at_ms: int
    words: str


@dataclass(frozen=True, slots=True)
class TimePlots:
    """Plots over one range of time, and the events in it."""

    range: str
    """``10min``, ``1h``, ``6h`` or ``24h``."""
    since_ms: int
    until_ms: int
    every_s: float
    """The time that each value stands for; the first begins at ``since_ms``."""
    plots: tuple[Plot, ...]
    events: tuple[PlotEvent, ...]
    """The latest first."""
    events_left_out: int


class PlotTick(NamedTuple):
    """A text beside an axis, and where it stands: 0 is the left end, 100 the right one."""

    percent: float
    text: str


def last_of(line: PlotLine) -> float | None:
    """The latest value; the one before it while the last interval has none yet."""
    return next((value for value in reversed(line.values[-2:]) if value is not None), None)


def value_words(value: float | None, unit: str) -> str:
    """A value with its unit; a dash where there is none."""
    return NONE if value is None else in_words(value, unit)


def short_words(value: float | None, unit: str) -> str:
    """A value without the name of what is counted, for a narrow column."""
    if value is None:
        return NONE
    if unit in ("B/s", "ms", "s"):
        return in_words(value, unit)
    return f"{rate(value)}/s" if unit.endswith("/s") else digits(value)


def top_of(plot: Plot) -> float:
    """The round number at the upper end of a plot: no value is larger."""
    highest = max((value for line in plot.lines for value in line.values if value is not None), default=0.0)
    if plot.unit == "s":
        return float(next((span for span in _SPANS_S if span >= highest), highest))
    if plot.unit == "B/s":
        highest = max(highest, 100.0)
        factor = _KIB ** int(math.log(highest, _KIB))
        rounded = _round_up(highest / factor)
        return rounded * factor if rounded < _KIB else float(_KIB * factor)
    least = 0.1 if plot.unit == "ms" else 2.0
    return max(_round_up(highest), least) if highest else 2.0


def _round_up(value: float) -> float:
    """The next 1, 2 or 4 with zeros behind it, or before it, so that its half is as short."""
    scale = 10.0 ** math.floor(math.log10(value))
    return next((step * scale for step in (1, 2, 4) if step * scale >= value * (1 - 1e-9)), 10 * scale)


def ticks_up(plot: Plot) -> tuple[str, str, str]:
    """The texts beside a plot, from its upper end to 0."""
    top = top_of(plot)
    return _short(top, plot.unit), _short(top / 2, plot.unit), "0"


def _short(value: float, unit: str) -> str:
    """A round value beside an axis, without the name of what is counted."""
    if unit in ("B/s", "s"):
        return in_words(value, unit)
    number = digits(value) if value >= 1 else f"{value:g}"
    return f"{number} ms" if unit == "ms" else f"{number}/s" if unit.endswith("/s") else number


def ticks_along(times: TimePlots) -> Iterator[PlotTick]:
    """Round times of the clock below a plot, in UTC; at midnight the day."""
    since_s, until_s = times.since_ms / 1000, times.until_ms / 1000
    passed_s = max(until_s - since_s, 1.0)
    step_s = next((step for step in _STEPS_S if passed_s / step <= _MOST_TIMES), _STEPS_S[-1])
    at_s = math.ceil(since_s / step_s) * step_s
    while at_s < until_s:
        share = (at_s - since_s) / passed_s
        if 1 - MOST_EDGE < share < MOST_EDGE:
            yield PlotTick(round(100 * share, 2), clock(at_s * 1000))
        at_s += step_s


def clock(at_ms: float) -> str:
    """Hours and minutes of a time in UTC; at midnight the day."""
    found = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{found:%H:%M}" if found.hour or found.minute else f"{found.day} {found:%b}"


def drawing(times: TimePlots, plot: Plot) -> Iterator[str]:
    """The lines of a plot as an SVG element, in pieces. Its title has the latest and the largest values, for those that
    do not see it."""
    top = top_of(plot)
    yield (
        f'<svg class="drawn" role="img" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none">'
        f"<title>{escape(plot.title)}: {escape(_summary(plot))}</title>"
        + "".join(f'<line class="axis" x1="0" y1="{y}" x2="{WIDTH}" y2="{y}"/>' for y in (0, HEIGHT // 2, HEIGHT))
    )
    for event in times.events:
        yield _mark(times, event)
    for number, line in enumerate(plot.lines[:MOST_LINES]):
        yield f'<g class="series" data-words="{escape("|".join(_all_words(line, plot.unit)), quote=True)}">'
        for points in _stretches(line.values, top):
            yield f'<polyline class="line line-{number}" points="{points}"/>'
        yield "</g>"
    yield f'<line class="cursor" x1="0" y1="0" x2="0" y2="{HEIGHT}"/></svg>'


def _all_words(line: PlotLine, unit: str) -> Iterator[str]:
    return (value_words(value, unit) for value in line.values)


def _summary(plot: Plot) -> str:
    parts = []
    for line in plot.lines:
        known = [value for value in line.values if value is not None]
        if known:
            latest = value_words(last_of(line), plot.unit)
            parts.append(f"{line.name} {latest} now, at most {in_words(max(known), plot.unit)}")
    return "; ".join(parts) or "no values yet"


def _mark(times: TimePlots, event: PlotEvent) -> str:
    """A line where something happened, with its words."""
    x = WIDTH * (event.at_ms - times.since_ms) / max(times.until_ms - times.since_ms, 1)
    words = escape(f"{clock_s(event.at_ms)} {event.words}", quote=True)
    return (
        f'<g class="mark" data-x="{x / WIDTH:.4f}" data-words="{words}"><title>{words}</title>'
        f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{HEIGHT}"/>'
        f'<line class="catch" x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{HEIGHT}"/></g>'
    )


def clock_s(at_ms: float) -> str:
    """Hours, minutes and seconds of a time in UTC."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S}"


def _stretches(values: Sequence[float | None], top: float) -> Iterator[str]:
    """The points of a line, in stretches without gaps. A value alone is a short level line."""
    width = WIDTH / max(len(values), 1)
    points: list[str] = []
    for number, value in enumerate([*values, None]):
        if value is not None:
            points.append(f"{(number + 0.5) * width:.1f},{HEIGHT * (1 - min(value / top, 1.0)):.1f}")
        elif len(points) == 1:
            y = points[0].partition(",")[2]
            yield f"{(number - 0.9) * width:.1f},{y} {(number - 0.1) * width:.1f},{y}"
            points = []
        elif points:
            yield " ".join(points)
            points = []
