"""Figures of two sides and their ratio: median, spread, and whether the requirement is met. Pure.

A ratio above 1 always says that side B is better than side A, whether the figure counts work done or time taken. Ratios
are taken pairwise, round by round, since the two sides of one round saw the same machine.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

REQUIRED_RATIO: Final = 0.95
WANTED_RATIO: Final = 1.2


class Figure(NamedTuple):
    """A figure to measure: ``name`` is unique within its row; ``unit`` is what its number counts."""

    name: str
    unit: str
    more_is_better: bool


class Spread(NamedTuple):
    median: float
    smallest: float
    largest: float


def spread(values: Sequence[float]) -> Spread:
    """Raises ValueError when there is no value."""
    if not values:
        raise ValueError("a spread of no values")
    return Spread(median(values), min(values), max(values))


def ratio(figure: Figure, a: float, b: float) -> float:
    """How much better ``b`` is than ``a``; infinite when the worse of the two is nothing at all, 1 when both are."""
    better, worse = (b, a) if figure.more_is_better else (a, b)
    if better == worse:
        return 1.0
    return better / worse if worse else float("inf")


class Comparison(NamedTuple):
    """One figure of one row: the values of each round on both sides, in order."""

    row: str
    figure: Figure
    a: tuple[float, ...]
    b: tuple[float, ...]

    @property
    def ratios(self) -> Spread:
        """Raises ValueError when the sides have not played the same number of rounds."""
        return spread([ratio(self.figure, a, b) for a, b in zip(self.a, self.b, strict=True)])

    @property
    def verdict(self) -> str:
        """``aim``, ``ok`` or ``MISS``, by the median of the ratios."""
        reached = self.ratios.median
        return "aim" if reached >= WANTED_RATIO else "ok" if reached >= REQUIRED_RATIO else "MISS"


def compare(
    row: str, figures: Sequence[Figure], a: Sequence[Mapping[str, float]], b: Sequence[Mapping[str, float]]
) -> list[Comparison]:
    """The rounds of a row as one comparison per figure. Raises KeyError when a round lacks a figure."""
    return [
        Comparison(row, figure, tuple(r[figure.name] for r in a), tuple(r[figure.name] for r in b))
        for figure in figures
    ]


def shown(value: float) -> str:
    """A number with three or four significant digits, thousands grouped."""
    size = abs(value)
    if size >= 10_000:
        return f"{value:,.0f}".replace(",", " ")
    decimals = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3
    return f"{value:.{decimals}f}"
