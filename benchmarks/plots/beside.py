"""Ratios as bars from a line at 1 on a logarithmic axis: a picture that stands alone, for light or dark paper. Pure."""

from collections.abc import Iterator, Sequence
from html import escape
from math import log2
from typing import Final, NamedTuple

WIDTH: Final = 860
LABELS_WIDTH, RATIO_WIDTH, VALUES_WIDTH, MARGIN = 262, 50, 172, 16
HEADER, FOOTER, ROW, GROUP = 50, 62, 18, 26
BAR = 11
ENDS: Final = (0.5, 32.0)
"""The ends of the axis; a bar that would be longer has an arrow at its end."""
FONT = "-apple-system,BlinkMacSystemFont,'Segoe UI','Noto Sans',Helvetica,Arial,sans-serif"


class Paper(NamedTuple):
    """The colours of one theme."""

    paper: str
    ink: str
    faint: str
    grid: str
    better: str
    worse: str


LIGHT: Final = Paper("#ffffff", "#1f2328", "#59636e", "#d1d9e0", "#1a7f64", "#c4432b")
DARK: Final = Paper("#0d1117", "#f0f6fc", "#9198a1", "#3d444d", "#3fb68b", "#f0795b")


class Bar(NamedTuple):
    """The ratio of one figure with its smallest and largest, and what is written beside it."""

    label: str
    ratio: float
    smallest: float
    largest: float
    values: str


class Picture(NamedTuple):
    """Groups of bars with their headings, a title and lines of small print."""

    title: str
    subtitle: str
    groups: Sequence[tuple[str, Sequence[Bar]]]
    small_print: Sequence[str]


def drawn(picture: Picture, paper: Paper) -> str:
    """A complete SVG file."""
    bars = sum(len(bars) for _, bars in picture.groups)
    bottom = HEADER + GROUP * len(picture.groups) + ROW * bars + 6
    height = bottom + FOOTER
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}" font-size="12">',
        f"<title>{escape(picture.title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="{paper.paper}"/>',
        text(MARGIN, 24, picture.title, paper.ink, size=15, bold=True),
        text(MARGIN, 43, picture.subtitle, paper.faint),
        *axis(bottom, paper),
    ]
    y = HEADER
    for heading, group in picture.groups:
        parts.append(text(MARGIN, y + 18, heading, paper.ink, bold=True))
        y += GROUP
        for bar in group:
            parts += row(bar, y, paper)
            y += ROW
    for i, line in enumerate(picture.small_print):
        parts.append(text(MARGIN, bottom + 38 + 15 * i, line, paper.faint, size=11))
    return "\n".join([*parts, "</svg>"]) + "\n"


def place(ratio: float) -> float:
    """The place of a ratio on the paper, from left to right; beyond an end of the axis it is that end."""
    low, high = (log2(end) for end in ENDS)
    at = min(max(log2(max(ratio, ENDS[0])), low), high)
    return round(LABELS_WIDTH + (at - low) / (high - low) * (WIDTH - LABELS_WIDTH - RATIO_WIDTH - VALUES_WIDTH), 1)


def axis(bottom: int, paper: Paper) -> Iterator[str]:
    mark = ENDS[0]
    while mark <= ENDS[1]:
        x, one = place(mark), mark == 1
        colour, width = (paper.ink, 1.5) if one else (paper.grid, 1)
        yield f'<path d="M{x} {HEADER + 4}V{bottom}" stroke="{colour}" stroke-width="{width}"/>'
        yield text(x, bottom + 15, "equal" if one else f"{mark:g}×", paper.ink if one else paper.faint, anchor="middle")
        mark *= 2


def row(bar: Bar, y: int, paper: Paper) -> Iterator[str]:
    """The label, the bar from the line at 1, the range of its rounds as a thin line, and the values."""
    one, end = place(1), place(bar.ratio)
    colour = paper.better if bar.ratio >= 1 else paper.worse
    middle, left, width = y + ROW / 2, min(one, end), max(abs(end - one), 1)
    yield text(LABELS_WIDTH - 10, middle + 4, bar.label, paper.ink, anchor="end")
    yield f'<rect x="{left:g}" y="{middle - BAR / 2}" width="{width:g}" height="{BAR}" rx="2" fill="{colour}"/>'
    if not ENDS[0] <= bar.ratio <= ENDS[1]:
        tip = 7 if bar.ratio > 1 else -7
        yield f'<path d="M{end} {middle - BAR / 2}l{tip} {BAR / 2}l{-tip} {BAR / 2}z" fill="{colour}"/>'
    low, high = place(bar.smallest), place(bar.largest)
    whisker = f"M{low} {middle}H{high}M{low} {middle - 3}v6M{high} {middle - 3}v6"
    yield f'<path d="{whisker}" stroke="{paper.ink}" opacity=".55"/>'
    x = WIDTH - VALUES_WIDTH
    yield text(x, middle + 4, f"{bar.ratio:.{1 if bar.ratio >= 9.95 else 2}f}", colour, bold=True, anchor="end")
    yield text(x + 10, middle + 4, bar.values, paper.faint, size=11)


def text(
    x: float, y: float, words: str, colour: str, *, size: int = 12, bold: bool = False, anchor: str = "start"
) -> str:
    style = f'fill="{colour}" font-size="{size}" text-anchor="{anchor}"' + (' font-weight="600"' if bold else "")
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(words)}</text>'
