"""A dashboard as a picture: each panel of the file at its place, drawn from Prometheus' answers. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from math import floor, isfinite, log, log10
from typing import NamedTuple

from panels import Dashboard, Panel

from benchmarks.plots.beside import DARK, FONT, LIGHT, Paper, text

PAPERS = {"light": LIGHT, "dark": DARK}
COLUMN, LINE, GAP, HEADER, FOOTER = 50, 24, 8, 58, 30
LEFT, TOP, BOTTOM = 52, 30, 46
"""The room inside a plot for its scale, its title, and its times with the legend."""
COLOURS = ("#3d9a50", "#d69e16", "#4f83e0", "#e0752d", "#d6453d", "#8f6ed5", "#159a9c", "#c2589b")
LETTER = 6.6
"""The width of a letter of the legend, with other fonts, too."""
LONGEST = 40
"""The letters of a name that the legend shows."""
UNITS = {"cps": "/s", "reqps": " req/s", "Bps": "B/s", "bytes": "B", "percentunit": " %", "s": "s", "ms": "ms"}
STEPS = (1.0, 2.0, 5.0, 10.0)


class Window(NamedTuple):
    """The time that plots show, in s, and what is chosen above them."""

    first: float
    last: float
    step: float
    """The time between two points. A longer one is a gap."""
    chosen: str


class Series(NamedTuple):
    """A line and its name in the legend."""

    name: str
    points: Sequence[tuple[float, float]]
    """Pairs of time in s and value."""


def place_of(panel: Panel) -> tuple[int, int]:
    """The left upper corner of a panel."""
    return GAP + panel.place[0] * COLUMN, HEADER + panel.place[1] * LINE


def drawn(dashboard: Dashboard, answers: Mapping[Panel, Sequence[Series]], window: Window, paper: Paper) -> str:
    """A complete SVG file."""
    height = HEADER + max(each.place[1] + each.place[3] for each in dashboard.panels) * LINE + FOOTER
    width = 24 * COLUMN + GAP
    print_ = "Drawn from the dashboard file and the answers of Prometheus, not by Grafana: make pictures"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-family="{FONT}">',
        f"<title>{escape(dashboard.title)}</title>",
        f'<rect width="{width}" height="{height}" rx="6" fill="{paper.paper}"/>',
        text(GAP, 24, dashboard.title, paper.ink, size=16, bold=True),
        text(GAP, 44, window.chosen, paper.faint),
        text(GAP, height - 10, print_, paper.faint, size=11),
    ]
    for panel in dashboard.panels:
        x, y = place_of(panel)
        size = panel.place[2] * COLUMN - GAP, panel.place[3] * LINE - GAP
        parts.append(f'<g transform="translate({x} {y})">')
        parts += KINDS[panel.kind](panel, answers.get(panel, ()), size, window, paper)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _row(panel: Panel, _series: object, _size: object, _window: object, paper: Paper) -> Iterator[str]:
    yield text(0, LINE - GAP, panel.title, paper.ink, size=13, bold=True)


def _frame(panel: Panel, size: tuple[int, int], paper: Paper) -> Iterator[str]:
    yield f'<rect width="{size[0]}" height="{size[1]}" rx="3" fill="none" stroke="{paper.grid}"/>'
    yield text(10, 19, panel.title, paper.ink, bold=True, size=min(12, int(1.6 * size[0] / len(panel.title))))


def _stat(
    panel: Panel, series: Sequence[Series], size: tuple[int, int], _window: object, paper: Paper
) -> Iterator[str]:
    yield from _frame(panel, size, paper)
    room = size[0] / max(1, len(series))
    values = [in_unit(each.points[-1][1], panel.unit) for each in series]
    for number, (each, value) in enumerate(zip(series, values, strict=True)):
        x = room * (number + 0.5)
        letters = min(26, int(1.4 * room / len(value)))
        yield text(x, size[1] / 2 + 16, value, paper.better, size=letters, anchor="middle")
        if len(series) > 1:
            yield text(x, size[1] - 8, each.name, paper.faint, size=10, anchor="middle")


def _plot(panel: Panel, series: Sequence[Series], size: tuple[int, int], window: Window, paper: Paper) -> Iterator[str]:
    yield from _frame(panel, size, paper)
    right, bottom = size[0] - 12, size[1] - BOTTOM
    top, step = scale(max((value for each in series for _, value in each.points), default=0.0), panel.unit)

    def across(when: float) -> float:
        return LEFT + (when - window.first) / (window.last - window.first) * (right - LEFT)

    def at(point: tuple[float, float]) -> str:
        return f"{across(point[0]):.1f},{bottom - point[1] / top * (bottom - TOP):.1f}"

    for number in range(round(top / step) + 1):
        y = bottom - number * step / top * (bottom - TOP)
        yield f'<path d="M{LEFT} {y:.1f}H{right}" stroke="{paper.grid}" stroke-width=".6"/>'
        yield text(LEFT - 5, y + 4, in_unit(number * step, panel.unit), paper.faint, size=10, anchor="end")
    for share in (0.0, 0.5, 1.0):
        when = window.first + share * (window.last - window.first)
        x, anchor = across(when), ("start", "middle", "end")[round(share * 2)]
        yield text(x, bottom + 15, f"{datetime.fromtimestamp(when, UTC):%H:%M:%S}", paper.faint, size=10, anchor=anchor)
    for number, each in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        for stretch in stretches(each.points, window.step):
            points = " ".join(map(at, stretch))
            yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.4"/>'
    yield from _legend([each.name for each in series], size, paper)


KINDS: Mapping[str, Callable[..., Iterator[str]]] = {"row": _row, "stat": _stat, "timeseries": _plot}


def stretches(points: Sequence[tuple[float, float]], step: float) -> list[list[tuple[float, float]]]:
    """The points without gaps between them."""
    found: list[list[tuple[float, float]]] = []
    for point in points:
        if not found or point[0] - found[-1][-1][0] > 1.5 * step:
            found.append([])
        found[-1].append(point)
    return found


def _legend(names: Sequence[str], size: tuple[int, int], paper: Paper) -> Iterator[str]:
    """The names that one line holds, and the number of the others."""
    x, y = 10.0, size[1] - 10
    for number, name in enumerate(names):
        short = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
        room = 22 + LETTER * len(short)
        if x + room > size[0] - (0 if number == len(names) - 1 else 75):
            yield text(x, y, f"and {len(names) - number} more", paper.faint, size=11)
            return
        yield f'<path d="M{x:g} {y - 4}h10" stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="3"/>'
        yield text(x + 14, y, short, paper.ink, size=11)
        x += room


def scale(largest: float, unit: str) -> tuple[float, float]:
    """The top of a scale and its step: round numbers, of bytes round in their power of 1024."""
    if not isfinite(largest) or largest <= 0:
        return 1.0, 1.0
    power = 1024.0 ** max(0, floor(log(largest, 1024))) if unit == "bytes" else 1.0
    least = largest / power / 4
    tens = 10.0 ** floor(log10(least))
    step = next(each * tens for each in STEPS if each * tens >= least) * power
    count = -(-largest // step)
    return count * step, step


def in_unit(value: float, unit: str) -> str:
    """A value as a person reads it."""
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit in ("s", "ms"):
        seconds = value if unit == "s" else value / 1000
        for size, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
            if seconds >= size:
                return f"{seconds / size:.3g} {name}"
        return "0 s"
    base = 1024.0 if unit == "bytes" else 1000.0
    letter = ""
    for each in ("k", "M", "G", "T"):
        if abs(value) < base:
            break
        value, letter = value / base, each
    binary = "i" if unit == "bytes" and letter else ""
    letters = f"{letter.upper() if binary else letter}{binary}{UNITS.get(unit, '').strip()}"
    return f"{value:.4g} {letters}".strip()
