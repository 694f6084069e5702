"""Latency over quantile, of both sides. Pure."""

from collections.abc import Iterator

from benchmarks.plots import svg

WIDTH, HEIGHT = 960, 300
QUANTILES = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999)
HEADROOM = 1.1


def latency_curves(a: list[list[float]], b: list[list[float]], names: tuple[str, str]) -> str:
    """Both axes logarithmic, the quantile's as its distance from 1; from pairs of microseconds and a count."""
    curves = [[(1 / (1 - quantile), us) for quantile, us in quantile_points(seen)] for seen in (a, b)]
    latencies = [us for curve in curves for _, us in curve]
    frame = svg.Frame(
        WIDTH, HEIGHT, (1.0, 1 / (1 - QUANTILES[-1])), (max(min(latencies), 1.0), max(latencies) * HEADROOM)
    )
    marks = [(1 / (1 - quantile), f"{quantile:.10g}") for quantile in QUANTILES]
    parts = [svg.opened(WIDTH, HEIGHT), *svg.grid_x(frame, marks), *svg.grid_y(frame, lambda us: f"{us:g} µs")]
    for side, curve in enumerate(curves):
        parts += svg.line(frame, curve, side)
    return "\n".join([*parts, *svg.legend(names), "</svg>"])


def quantile_points(histogram: list[list[float]]) -> Iterator[tuple[float, float]]:
    """Pairs of a quantile and its latency up to the 0.9999th, rising in both."""
    total, seen = sum(count for _, count in histogram), 0.0
    for latency, count in sorted(histogram):
        yield min(seen / total, QUANTILES[-1]), latency
        seen += count
