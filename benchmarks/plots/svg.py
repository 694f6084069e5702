"""A frame with two logarithmic or linear axes, and lines in it: what all plots but the bars are made of. Pure."""

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import log10
from typing import NamedTuple

COLOURS = ("#b5651d", "#1f6f8b")
"""The colours of side A and of side B, in every plot."""
STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#222}"
    "svg text{font:12px system-ui,sans-serif;fill:#333}h2{margin-top:2em}pre{white-space:pre-wrap}"
    ".curves{display:grid;grid-template-columns:1fr 1fr;gap:1em}figure{margin:0}figcaption{font-weight:600}"
)
"""The style of the pages that have plots."""
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 12, 30
LEGEND_LINE = 16
DOT = 3

Position = tuple[float, float]


class Frame(NamedTuple):
    """The positions of values on the paper: both axes logarithmic, each over [low, high]."""

    width: int
    height: int
    x: tuple[float, float]
    y: tuple[float, float]

    def place(self, x: float, y: float) -> Position:
        """The position of a pair of values, in units of the paper; values beyond an axis lie on its end."""
        across = self.width - LEFT - RIGHT
        down = self.height - TOP - BOTTOM
        return LEFT + part(self.x, x) * across, self.height - BOTTOM - part(self.y, y) * down


def part(axis: tuple[float, float], value: float) -> float:
    """How far along a logarithmic axis, from 0 to 1."""
    low, high = (log10(max(end, 1e-9)) for end in axis)
    at = log10(max(value, 1e-9))
    return min(max((at - low) / max(high - low, 1e-9), 0.0), 1.0)


def opened(width: int, height: int) -> str:
    return f'<svg viewBox="0 0 {width} {height}" width="100%" style="max-width:{width}px" role="img">'


def grid_x(frame: Frame, marks: Sequence[tuple[float, str]]) -> Iterator[str]:
    """Vertical lines with their text below; several may be left without text."""
    for value, text in marks:
        x, _ = frame.place(value, frame.y[0])
        yield f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{TOP}" y2="{frame.height - BOTTOM}" stroke="#ddd"/>'
        yield f'<text x="{x:.0f}" y="{frame.height - BOTTOM + 16}" text-anchor="middle">{escape(text)}</text>'


def grid_y(frame: Frame, text_of: Callable[[float], str]) -> Iterator[str]:
    """Horizontal lines at round values, with their text at the left."""
    for value in round_values(*frame.y):
        _, y = frame.place(frame.x[0], value)
        yield f'<line x1="{LEFT}" x2="{frame.width - RIGHT}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{escape(text_of(value))}</text>'


def line(frame: Frame, points: Sequence[Position], side: int, *, dots: bool = False) -> Iterator[str]:
    """The line of side 0 or 1."""
    placed = [frame.place(*point) for point in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
    yield f'<polyline points="{path}" fill="none" stroke="{COLOURS[side]}" stroke-width="2"/>'
    if dots:
        for x, y in placed:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{DOT}" fill="{COLOURS[side]}"/>'


def legend(names: tuple[str, str]) -> Iterator[str]:
    for side, name in enumerate(names):
        y = TOP + 14 + LEGEND_LINE * side
        yield f'<text x="{LEFT + 12}" y="{y}" style="fill:{COLOURS[side]}">{escape(name)}</text>'


def round_values(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each power of ten that lie between two positive values; 1 alone where these are very far apart."""
    first, last = int(log10(low)) - 1, int(log10(high)) + 1
    steps = (1, 2, 5) if last - first <= 6 else (1,)
    marks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return [mark for mark in marks if low <= mark <= high]


def short(value: float) -> str:
    """20000 as 20 k."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
