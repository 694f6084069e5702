"""The ratio of every figure as a bar, with the requirement and the aim as lines. Pure."""

from collections.abc import Sequence
from html import escape

from benchmarks.figures import REQUIRED_RATIO, WANTED_RATIO, Comparison, shown, spread
from benchmarks.plots import svg

COLOURS = {"aim": "#2e7d32", "ok": "#7a9a2e", "MISS": "#c0392b"}
WIDTH, ROW_HEIGHT, LABEL_WIDTH, VALUES_WIDTH = 960, 20, 430, 120
WIDEST_RATIO = 4.0


def ratio_bars(comparisons: Sequence[Comparison]) -> str:
    height = ROW_HEIGHT * len(comparisons) + 30
    scale = (WIDTH - LABEL_WIDTH - VALUES_WIDTH) / WIDEST_RATIO
    lines = [svg.opened(WIDTH, height)]
    for mark in (REQUIRED_RATIO, WANTED_RATIO):
        x = LABEL_WIDTH + mark * scale
        lines.append(f'<path d="M{x:.0f} 0V{height - 24}" stroke="#999" stroke-dasharray="3 3"/>')
        lines.append(f'<text x="{x:.0f}" y="{height - 8}" text-anchor="middle">{mark}</text>')
    for i, comparison in enumerate(comparisons):
        ratios, y = comparison.ratios, i * ROW_HEIGHT
        width = min(ratios.median, WIDEST_RATIO) * scale
        label = escape(f"{comparison.row}: {comparison.figure.name}")
        values = f"{ratios.median:.2f}  ({shown(spread(comparison.a).median)} / {shown(spread(comparison.b).median)})"
        lines.append(f'<text x="{LABEL_WIDTH - 8}" y="{y + 14}" text-anchor="end">{label}</text>')
        colour = COLOURS[comparison.verdict]
        lines.append(f'<rect x="{LABEL_WIDTH}" y="{y + 3}" width="{width:.0f}" height="14" fill="{colour}"/>')
        lines.append(f'<text x="{LABEL_WIDTH + width + 6:.0f}" y="{y + 14}">{values}</text>')
    return "\n".join([*lines, "</svg>"])
