"""Plots as SVG, made here: a browser needs no script for them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from kpybroker.machines.console.wording import in_words, seconds

WIDTH, HEIGHT = 480, 120
LEFT, RIGHT, TOP, BOTTOM = 8, 8, 10, 18
MOST_LINES: Final = 4
"""The number of colours in the stylesheet."""


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
    every_s: float
    """The time between two values."""
    lines: tuple[PlotLine, ...]


def last_of(line: PlotLine) -> float | None:
    """The latest value."""
    return line.values[-1] if line.values else None


def svg_of(plot: Plot) -> str:
    """The plot as an SVG element. Its text says the latest values, for those who cannot see it."""
    top = max((value for line in plot.lines for value in line.values if value is not None), default=0.0)
    scale = top or 1.0
    count = max((len(line.values) for line in plot.lines), default=0)
    words = "; ".join(
        f"{line.name} {in_words(found, plot.unit)}" for line in plot.lines if (found := last_of(line)) is not None
    )
    label = escape(f"{plot.title}: {words or 'no values yet'}", quote=True)
    parts = [
        f'<svg class="plot" role="img" viewBox="0 0 {WIDTH} {HEIGHT}" aria-label="{label}">',
        f'<line class="axis" x1="{LEFT}" y1="{HEIGHT - BOTTOM}" x2="{WIDTH - RIGHT}" y2="{HEIGHT - BOTTOM}"/>',
        f'<text class="tick" x="{LEFT}" y="{HEIGHT - 4}">{_ago(count, plot.every_s)}</text>',
        f'<text class="tick" x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">now</text>',
        f'<text class="tick" x="{WIDTH - RIGHT}" y="{TOP}" text-anchor="end">{escape(in_words(top, plot.unit))}</text>',
    ]
    for number, line in enumerate(plot.lines[:MOST_LINES]):
        stretches = _stretches(line.values, count, scale)
        parts += [f'<polyline class="line line-{number}" points="{points}"/>' for points in stretches]
    return "".join([*parts, "</svg>"])


def _ago(count: int, every_s: float) -> str:
    return f"{seconds(count * every_s)} ago"


def _stretches(values: Sequence[float | None], count: int, scale: float) -> list[str]:
    """The points of a line, in stretches without gaps."""
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    stretches: list[list[str]] = [[]]
    first = count - len(values)
    for number, value in enumerate(values, first):
        if value is None:
            stretches.append([])
            continue
        x = LEFT + width * (number / (count - 1) if count > 1 else 1.0)
        y = TOP + height * (1 - min(value / scale, 1.0))
        stretches[-1].append(f"{x:.1f},{y:.1f}")
    return [" ".join(points) for points in stretches if points]
