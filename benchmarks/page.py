"""The outcome as one HTML page that needs nothing else: ratios, curves over size and scale, latency distributions."""

from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.kept import Kept
from benchmarks.match import Result
from benchmarks.plots import svg
from benchmarks.plots.bars import ratio_bars
from benchmarks.plots.curves import curves, drawn
from benchmarks.plots.latency import latency_curves
from benchmarks.report import markdown
from benchmarks.rows.row import BY_CONNECTIONS, BY_MEMBERS, BY_PARTITIONS, BY_SIZE

HEADINGS = {
    BY_SIZE: "Throughput by message size",
    BY_PARTITIONS: "Scaling by partitions",
    BY_CONNECTIONS: "Scaling by connections",
    BY_MEMBERS: "Scaling by members of a group",
}


def page(rows: Sequence[Kept]) -> str:
    """A complete document of the rows that are kept; one at least."""
    names = rows[0].circumstances.names
    results = [kept.result for kept in rows]
    title = f"{names[1]} beside {names[0]}"
    parts = [
        f'<!doctype html><html lang="en"><meta charset=utf-8><title>{escape(title)}</title><style>{svg.STYLE}</style>'
    ]
    parts.append(f"<h1>{escape(title)}</h1><p>Ratio of each figure: above 1 means {escape(names[1])} is better.</p>")
    parts.append(ratio_bars([comparison for result in results for comparison in result.comparisons()]))
    parts += [*scaling(results, names), *latencies(results, names)]
    parts.append(f"<h2>All figures</h2><pre>{escape(markdown(rows))}</pre></html>")
    return "\n".join(parts)


def scaling(results: Sequence[Result], names: tuple[str, str]) -> Iterator[str]:
    """One section for each axis on which there is a curve."""
    found = curves(results)
    for axis, heading in HEADINGS.items():
        on_it = [drawn(curve, names) for curve in found if curve.axis == axis]
        if on_it:
            yield f'<h2>{heading}</h2><div class="curves">'
            yield from on_it
            yield "</div>"


def latencies(results: Sequence[Result], names: tuple[str, str]) -> Iterator[str]:
    """One plot for each row that has seen every latency."""
    for result in results:
        if result.histogram_a and result.histogram_b and not result.failure:
            yield f"<h2>Latency: {escape(result.title)}</h2>"
            yield latency_curves(result.histogram_a, result.histogram_b, names)
