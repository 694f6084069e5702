"""The page: what was checked, and two plots, in one HTML file that loads nothing."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

from kpybroker.pipeline.demo.dataset import DAY_MS, Daily

WIDTH, HEIGHT, LEFT, BOTTOM = 860, 220, 50, 24
COLOURS = ("#1f77b4", "#d95f02", "#2a9d5b")
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 900px; margin: 2em auto; color: #222 }
table { border-collapse: collapse } td, th { padding: .2em .8em; border-bottom: 1px solid #ddd; text-align: left }
.good { color: #2a7d4b } .bad { color: #b00020; font-weight: bold } svg text { font-size: 11px; fill: #555 }
"""


class Verdict(NamedTuple):
    """One comparison, and whether it holds."""

    what: str
    holds: bool
    detail: str


class Batch(NamedTuple):
    """A micro-batch: its rows, and when it ended, in seconds since the first flight was sent."""

    at_s: float
    rows: int


def page(verdicts: Sequence[Verdict], daily: Daily, batches: Sequence[Batch], lines: Sequence[str]) -> str:
    """The whole page."""
    rows = "".join(
        f"<tr><td class={'good' if each.holds else 'bad'}>{'holds' if each.holds else 'DIFFERS'}</td>"
        f"<td>{escape(each.what)}</td><td>{escape(each.detail)}</td></tr>"
        for each in verdicts
    )
    reported = "\n".join(escape(line) for line in lines)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>The flights, live</title><style>{STYLE}</style>'
        f"<h1>The flights, live</h1><table>{rows}</table>"
        f"<h2>Mean delay of a flight by day, minutes (DuckDB on the Delta table)</h2>{_delays(daily)}"
        f"<h2>Flights summed up, over seconds</h2>{_progress(batches)}"
        f"<h2>Tables and topics</h2><pre>{reported}</pre></html>\n"
    )


def _delays(daily: Daily) -> str:
    origins = sorted({origin for _, origin in daily})
    curves = []
    for origin in origins:
        points = [
            (day / DAY_MS, sums.delay / max(1, sums.flights - sums.cancelled))
            for (day, airport), sums in sorted(daily.items())
            if airport == origin
        ]
        curves.append((origin, points))
    return _plot(curves, lambda day: datetime.fromtimestamp(day * DAY_MS / 1000, UTC).strftime("%d %b"))


def _progress(batches: Sequence[Batch]) -> str:
    points, total = [(0.0, 0.0)], 0
    for batch in batches:
        total += batch.rows
        points.append((batch.at_s, float(total)))
    return _plot([("flights", points)], lambda second: f"{second:.0f} s")


def _plot(curves: Sequence[tuple[str, list[tuple[float, float]]]], name_of: Callable[[float], str]) -> str:
    every = [point for _, points in curves for point in points] or [(0.0, 0.0)]
    x0, x1 = min(x for x, _ in every), max(x for x, _ in every)
    y0, y1 = min(0.0, *(y for _, y in every)), max(1.0, *(y for _, y in every))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x0) / ((x1 - x0) or 1) * (WIDTH - LEFT - 10)
        return LEFT + across, HEIGHT - BOTTOM - (y - y0) / (y1 - y0) * (HEIGHT - BOTTOM - 16)

    parts = []
    for number, (colour, (name, points)) in enumerate(zip(COLOURS, curves, strict=False)):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.3" points="{path}"/>')
        parts.append(f'<text x="{LEFT + 70 * number}" y="11" style="fill:{colour}">{escape(name)}</text>')
    for share in (0, 0.5, 1):
        value = y0 + share * (y1 - y0)
        parts.append(f'<text x="4" y="{place(x0, value)[1] + 4:.1f}">{value:,.0f}</text>')
        at = x0 + share * (x1 - x0)
        anchor = ("start", "middle", "end")[int(share * 2)]
        parts.append(f'<text x="{place(at, y0)[0]:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{name_of(at)}</text>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">{"".join(parts)}</svg>'
