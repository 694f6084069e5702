"""Figures over what rows differ in: the size of records, partitions, connections, members. Pure."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from benchmarks.figures import Figure, spread
from benchmarks.match import Result
from benchmarks.plots import svg

WIDTH, HEIGHT = 460, 240
FEWEST_POINTS = 2
HEADROOM = 1.3


class Curve(NamedTuple):
    """The medians of one figure on both sides; points rise in x."""

    axis: str
    name: str
    figure: Figure
    a: list[svg.Position]
    b: list[svg.Position]


def curves(results: Sequence[Result]) -> list[Curve]:
    """All that have two points at least, in the order of their first rows."""
    found: dict[tuple[str, str], Curve] = {}
    for result in results:
        for point in result.points:
            comparison = result.comparison(point.figure)
            if comparison is None:
                continue
            curve = found.setdefault(
                (point.axis, point.curve), Curve(point.axis, point.curve, comparison.figure, [], [])
            )
            curve.a.append((point.x, spread(comparison.a).median))
            curve.b.append((point.x, spread(comparison.b).median))
    return [
        curve._replace(a=sorted(curve.a), b=sorted(curve.b))
        for curve in found.values()
        if len(curve.a) >= FEWEST_POINTS
    ]


def drawn(curve: Curve, names: tuple[str, str]) -> str:
    """A small plot, both axes logarithmic, with a title above."""
    xs = [x for x, _ in curve.a]
    ys = [y for _, y in curve.a + curve.b if y > 0] or [1.0]
    frame = svg.Frame(WIDTH, HEIGHT, (min(xs) / HEADROOM, max(xs) * HEADROOM), (min(ys) / HEADROOM, max(ys) * 2))
    parts = [svg.opened(WIDTH, HEIGHT), *svg.grid_x(frame, [(x, svg.short(x)) for x in xs])]
    parts += svg.grid_y(frame, svg.short)
    for side, points in enumerate((curve.a, curve.b)):
        parts += svg.line(frame, points, side, dots=True)
    title = f"<figcaption>{escape(curve.name)}: {escape(curve.figure.name)}, {escape(curve.figure.unit)}</figcaption>"
    return "\n".join(["<figure>", title, *parts, *svg.legend(names), "</svg>", "</figure>"])
