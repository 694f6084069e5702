"""The tables in a page of the console, as texts."""

from html.parser import HTMLParser
from typing import NamedTuple


class Shown(NamedTuple):
    """A table: its headings, and the texts of its cells."""

    headings: list[str]
    rows: list[list[str]]


class Tables(HTMLParser):
    """Reads tables, without what is folded away."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Shown] = []
        self._row: list[str] | None = None
        self._is_cell = False
        self._is_head = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag == "table":
            self.found.append(Shown([], []))
        elif tag == "thead":
            self._is_head = True
        elif tag == "tr":
            self._row = []
        elif tag in ("th", "td") and self._row is not None:
            self._row.append("")
            self._is_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "thead":
            self._is_head = False
        elif tag in ("th", "td"):
            self._is_cell = False
        elif tag == "tr" and self._row is not None and self.found:
            cells = [" ".join(each.split()) for each in self._row]
            if self._is_head:
                self.found[-1].headings.extend(cells)
            else:
                self.found[-1].rows.append(cells)
            self._row = None

    def handle_data(self, data: str) -> None:
        if self._is_cell and self._row:
            self._row[-1] += data


def tables_of(page: str) -> list[Shown]:
    """The tables of a page, in their order."""
    parser = Tables()
    parser.feed(page)
    parser.close()
    return parser.found
