"""How much two pictures of pages are alike, for machines with different fonts: where there is ink, and the grounds.

Each picture is made small by the browser, and its ink, the distance of a pixel from the ground, is summed up in cells.
Texts of other widths move little ink from one cell to the next; a page that lost its style or a column moves much.
"""

import base64
from typing import NamedTuple

from support.browser import Browser

CELL = 8
"""The pixels of the small picture on each side of a cell."""
WIDTH = 30 * CELL
SHRINK = """
(async () => {
  const image = new Image();
  image.src = "data:image/png;base64,%s";
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = %d;
  canvas.height = Math.round(image.height * canvas.width / image.width);
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
  let text = "";
  for (let at = 0; at < pixels.length; at += 4) {
    text += String.fromCharCode(Math.round((pixels[at] * 3 + pixels[at + 1] * 6 + pixels[at + 2]) / 10));
  }
  return image.width + " " + image.height + " " + btoa(text);
})()
"""


class Sketch(NamedTuple):
    """A picture as a grid of ink."""

    width: int
    height: int
    ground: int
    """The brightness that most pixels of the left edge have."""
    ink: tuple[tuple[float, ...], ...]


class Likeness(NamedTuple):
    """The likeness of two pictures."""

    same_size: bool
    grounds: int
    """The distance of their grounds, of 255."""
    ink: float
    """The correlation of their ink: 1 for the same places, 0 for unrelated ones."""


def sketch(browser: Browser, png: bytes) -> Sketch:
    """A picture, made small by the browser."""
    found: str = browser.run(SHRINK % (base64.b64encode(png).decode(), WIDTH))
    width, height, encoded = found.split()
    pixels = base64.b64decode(encoded)
    rows = [pixels[start : start + WIDTH] for start in range(0, len(pixels), WIDTH)]
    edge = [row[0] for row in rows]  # a page may have more of its cards' ground than of its own
    ground = max(range(256), key=edge.count)
    ink = [
        [
            sum(abs(pixel - ground) for row in rows[top : top + CELL] for pixel in row[left : left + CELL]) / CELL**2
            for left in range(0, WIDTH, CELL)
        ]
        for top in range(0, len(rows) - CELL + 1, CELL)
    ]
    return Sketch(int(width), int(height), ground, _blurred(ink))


def _blurred(ink: list[list[float]]) -> tuple[tuple[float, ...], ...]:
    """Each cell with its neighbours."""

    def around(row: int, column: int) -> float:
        cells = [
            ink[r][c]
            for r in range(max(0, row - 1), min(len(ink), row + 2))
            for c in range(max(0, column - 1), min(len(ink[0]), column + 2))
        ]
        return sum(cells) / len(cells)

    return tuple(tuple(around(row, column) for column in range(len(ink[0]))) for row in range(len(ink)))


def likeness(one: Sketch, other: Sketch) -> Likeness:
    """How much two pictures are alike."""
    same_size = (one.width, one.height) == (other.width, other.height)
    first, second = ([cell for row in each.ink for cell in row] for each in (one, other))
    return Likeness(same_size, abs(one.ground - other.ground), _correlation(first, second) if same_size else 0.0)


def _correlation(first: list[float], second: list[float]) -> float:
    means = sum(first) / len(first), sum(second) / len(second)
    moved = [(a - means[0], b - means[1]) for a, b in zip(first, second, strict=True)]
    spreads = sum(a * a for a, _ in moved) * sum(b * b for _, b in moved)
    return sum(a * b for a, b in moved) / spreads**0.5 if spreads else 0.0
