"""The outcome of a soak as a table, as JSON with every sample, and as a page with a curve for each figure."""

import json
from collections.abc import Mapping, Sequence
from html import escape

from benchmarks.figures import shown
from benchmarks.machine import machine, machine_text
from benchmarks.plots import svg
from benchmarks.soak.trend import Growth, Sample, growths

TITLES = {
    "rss_mb": "resident memory, MB",
    "descriptors": "descriptors",
    "threads": "threads",
    "gc_ms_per_s": "garbage collection, ms per s",
    "gc_worst_ms": "worst pause of the collector in the last minute (p99.9), ms",
    "loop_late_ms_per_s": "lateness of the event loop, ms per s",
    "loop_worst_ms": "worst lateness of the event loop in the last minute (p99.9), ms",
}
PAPER_WIDTH, PLOT_WIDTH, PLOT_HEIGHT, LEFT = 980, 900, 160, 70
COLOUR = "#1f6f8b"


def markdown(samples: Sequence[Sample], grown: Sequence[Growth], counted: Mapping[str, int], version: str) -> str:
    """The table of all figures, what was done meanwhile, and on what machine."""
    judged = {each.bound.figure: each for each in grown}
    lines = [
        "| figure | first | median | last | largest | growth | allowed | |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for figure, title in TITLES.items():
        values = sorted(float(getattr(sample, figure)) for sample in samples)
        first, last = getattr(samples[0], figure), getattr(samples[-1], figure)
        cells = [title, *map(shown, (first, values[len(values) // 2], last, values[-1]))]
        each = judged.get(figure)
        cells += (
            ["", "", ""] if each is None else [shown(each.grown), shown(each.allowed), "" if each.is_flat else "GROWS"]
        )
        lines.append(f"| {' | '.join(cells)} |")
    minutes = (samples[-1].at_s - samples[0].at_s) / 60
    done = ", ".join(f"{times} {what}" for what, times in sorted(counted.items()))
    explained = (
        f"{minutes:.1f} minutes, {len(samples)} samples. Growth is the median slope after the warm-up, times the "
        "time behind it."
    )
    return "\n".join([*lines, "", explained, "", f"Done meanwhile: {done}.", "", f"{version}. {machine_text()}"]) + "\n"


def as_json(samples: Sequence[Sample], counted: Mapping[str, int], troubles: Sequence[str]) -> str:
    """Every sample, for other programs."""
    rows = [sample._asdict() for sample in samples]
    return json.dumps(
        {"machine": machine(), "done": dict(counted), "troubles": list(troubles), "samples": rows}, indent=1
    )


def page(samples: Sequence[Sample], table: str) -> str:
    """A complete document with one curve for each figure."""
    parts = [f"<!doctype html><meta charset=utf-8><title>Soak</title><style>{svg.STYLE}</style><h1>Soak</h1>"]
    for figure, title in TITLES.items():
        parts.append(f"<h2>{escape(title)}</h2>")
        parts.append(curve([(sample.at_s, float(getattr(sample, figure))) for sample in samples]))
    parts.append(f"<h2>All figures</h2><pre>{escape(table)}</pre>")
    return "\n".join(parts)


def curve(points: Sequence[tuple[float, float]]) -> str:
    """Values over seconds, from 0 up."""
    end_s, largest = max(points[-1][0], 1e-9), max(max(value for _, value in points), 1e-9)
    lines = [svg.opened(PAPER_WIDTH, PLOT_HEIGHT + 30)]
    for share in (0.0, 0.5, 1.0):
        y = PLOT_HEIGHT - share * (PLOT_HEIGHT - 20)
        lines.append(f'<line x1="{LEFT}" x2="{LEFT + PLOT_WIDTH}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{shown(share * largest)}</text>')
    placed = " ".join(
        f"{LEFT + at_s / end_s * PLOT_WIDTH:.1f},{PLOT_HEIGHT - value / largest * (PLOT_HEIGHT - 20):.1f}"
        for at_s, value in points
    )
    lines.append(f'<polyline points="{placed}" fill="none" stroke="{COLOUR}" stroke-width="1.5"/>')
    lines.append(f'<text x="{LEFT + PLOT_WIDTH}" y="{PLOT_HEIGHT + 20}" text-anchor="end">{end_s / 60:.1f} min</text>')
    return "\n".join([*lines, "</svg>"])


def verdict(samples: Sequence[Sample], troubles: Sequence[str]) -> list[str]:
    """One line for each thing that is not as it should be; none when all is well."""
    try:
        grown = growths(samples)
    except ValueError as error:
        return [*troubles, str(error)]
    return [*troubles] + [
        f"{each.bound.title} grew by {shown(each.grown)}, allowed are {shown(each.allowed)}"
        for each in grown
        if not each.is_flat
    ]
