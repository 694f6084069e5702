"""The outcome of a run as one HTML page: the ratios as bars, the latency distributions as curves, in plain SVG."""

from collections.abc import Iterator, Sequence
from html import escape
from math import log10

from benchmarks.figures import REQUIRED_RATIO, WANTED_RATIO, Comparison, shown, spread
from benchmarks.match import Result

COLOURS = ("#b5651d", "#1f6f8b")
GOOD, FAIR, BAD = "#2e7d32", "#7a9a2e", "#c0392b"
WIDTH, ROW_HEIGHT, LABEL_WIDTH = 960, 20, 430
WIDEST_RATIO = 4.0
PLOT_HEIGHT, LEFT, BOTTOM = 260, 60, 36
QUANTILES = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999]

STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#222}"
    "svg text{font:12px system-ui,sans-serif;fill:#333}h2{margin-top:2em}pre{white-space:pre-wrap}"
)


def page(results: Sequence[Result], names: tuple[str, str], table: str) -> str:
    """A complete document; ``table`` is the Markdown report, shown as it is at the end."""
    title = f"{names[1]} beside {names[0]}"
    parts = [f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style>"]
    parts.append(f"<h1>{escape(title)}</h1><p>Ratio of each figure: above 1 means {escape(names[1])} is better.</p>")
    parts.append(ratio_bars([c for result in results for c in result.comparisons()]))
    for result in results:
        if result.histogram_a and result.histogram_b:
            parts.append(f"<h2>Latency: {escape(result.title)}</h2>")
            parts.append(latency_curves(result.histogram_a, result.histogram_b, names))
    parts.append(f"<h2>All figures</h2><pre>{escape(table)}</pre>")
    return "\n".join(parts)


def ratio_bars(comparisons: Sequence[Comparison]) -> str:
    height = ROW_HEIGHT * len(comparisons) + 30
    scale = (WIDTH - LABEL_WIDTH - 120) / WIDEST_RATIO
    lines = [svg_open(height)]
    for mark in (REQUIRED_RATIO, WANTED_RATIO):
        x = LABEL_WIDTH + mark * scale
        lines.append(f'<path d="M{x:.0f} 0V{height - 24}" stroke="#999" stroke-dasharray="3 3"/>')
        lines.append(f'<text x="{x:.0f}" y="{height - 8}" text-anchor="middle">{mark}</text>')
    for i, comparison in enumerate(comparisons):
        ratios, y = comparison.ratios, i * ROW_HEIGHT
        width = min(ratios.median, WIDEST_RATIO) * scale
        colour = {"aim": GOOD, "ok": FAIR, "MISS": BAD}[comparison.verdict]
        label = escape(f"{comparison.row}: {comparison.figure.name}")
        values = f"{ratios.median:.2f}  ({shown(spread(comparison.a).median)} / {shown(spread(comparison.b).median)})"
        lines.append(f'<text x="{LABEL_WIDTH - 8}" y="{y + 14}" text-anchor="end">{label}</text>')
        lines.append(f'<rect x="{LABEL_WIDTH}" y="{y + 3}" width="{width:.0f}" height="14" fill="{colour}"/>')
        lines.append(f'<text x="{LABEL_WIDTH + width + 6:.0f}" y="{y + 14}">{values}</text>')
    return "\n".join([*lines, "</svg>"])


def latency_curves(a: list[list[float]], b: list[list[float]], names: tuple[str, str]) -> str:
    """Latency (log) over quantile (log of its distance from 1) of both sides."""
    curves = [list(quantile_points(histogram)) for histogram in (a, b)]
    seen = [latency for curve in curves for _, latency in curve]
    low, high = log10(max(min(seen), 1)), log10(max(seen)) + 0.05
    lines = [svg_open(PLOT_HEIGHT + BOTTOM)]

    def place(quantile: float, latency: float) -> tuple[float, float]:
        x = LEFT + -log10(1 - quantile) / 4 * (WIDTH - LEFT - 20)
        return x, PLOT_HEIGHT - (log10(max(latency, 1)) - low) / max(high - low, 0.1) * (PLOT_HEIGHT - 20)

    for quantile in QUANTILES:
        x, _ = place(quantile, 10**low)
        lines.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="10" y2="{PLOT_HEIGHT}" stroke="#ddd"/>')
        lines.append(f'<text x="{x:.0f}" y="{PLOT_HEIGHT + 16}" text-anchor="middle">{quantile:.10g}</text>')
    for mark in gridlines(low, high):
        _, y = place(0, mark)
        lines.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{mark:g} µs</text>')
    for i, (curve, colour, name) in enumerate(zip(curves, COLOURS, names, strict=True)):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in curve))
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines.append(f'<text x="{LEFT + 12}" y="{24 + 16 * i}" style="fill:{colour}">{escape(name)}</text>')
    return "\n".join([*lines, "</svg>"])


def quantile_points(histogram: list[list[float]]) -> Iterator[tuple[float, float]]:
    """Pairs of a quantile and its latency up to the 0.9999th, rising in both."""
    total, seen = sum(count for _, count in histogram), 0.0
    for latency, count in sorted(histogram):
        yield min(seen / total, QUANTILES[-1]), latency
        seen += count


def gridlines(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each power of ten between two powers."""
    marks = [step * 10.0**power for power in range(int(low), int(high) + 1) for step in (1, 2, 5)]
    return [mark for mark in marks if low <= log10(mark) <= high]


def svg_open(height: int) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" width="100%" role="img">'
