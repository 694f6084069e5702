"""Lists: their pages, and the column by which a viewer sorts them. Pure."""

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any, Final, TypeVar

Row = TypeVar("Row")
Keys = Mapping[str, Callable[[Row], Any]]
"""The value that each column sorts by. Rows without one (None) come last in both directions."""
PER_PAGE: Final = 100
DESCENDING: Final = "-"


def pages_of(total: int, page: int) -> tuple[int, int]:
    """The number of a page that exists, counted from 1, and the number of pages."""
    pages = max(1, -(-total // PER_PAGE))
    return min(max(page, 1), pages), pages


def sorted_rows(rows: Iterable[Row], keys: Keys[Row], sort: str) -> list[Row]:
    """The rows by a column: ``lag`` from the least, ``-lag`` from the most. Rows keep their order where nothing or an
    unknown column is asked for, and among equals."""
    listed = list(rows)
    key = keys.get(sort.removeprefix(DESCENDING))
    if key is None:
        return listed
    valued = [(key(row), row) for row in listed]
    known = [pair for pair in valued if pair[0] is not None]
    known.sort(key=itemgetter(0), reverse=sort.startswith(DESCENDING))
    return [row for _, row in known] + [row for value, row in valued if value is None]


def opposite(sort: str, column: str, *, is_number: bool = False) -> str:
    """The order that a click on the heading of a column asks for: its other direction; of another column the most of
    numbers and the first of names."""
    if sort == column:
        return DESCENDING + column
    if sort == DESCENDING + column:
        return column
    return DESCENDING + column if is_number else column
