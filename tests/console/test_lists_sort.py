"""Every list sorts by each of its columns: a click on a heading, and another one for the other direction."""

import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser

import pytest
from console_node import console_node
from made_values import WORDS, rendered
from pictures import furnish
from shown_tables import tables_of
from stage import Stage
from test_transactions_page import open_transaction

from kpybroker.machines.console.configs import TYPES
from kpybroker.monitoring.console.page import ConsolePage
from kpybroker.monitoring.console.pages import PAGES

SHOWN = [page for page in PAGES if page.template]
UNSORTED = {
    ("/connections", "For", "Share", "Of the time"): "a bar chart in words, the largest first",
    ("/topics/{topic}/{partition}/{segment}", "Byte"): "batches in the order of the file, read from a byte on",
    ("/topics/{topic}/{partition}/{segment}", "Offset"): "an index in the order of its file",
    ("/topics/{topic}/{partition}/{segment}", "Timestamp"): "an index in the order of its file",
    ("/balance", "Broker"): "the few brokers of a cluster",
    ("/balance", "Partition"): "the moves of a plan in their order",
    ("/mirrors", "Mirror"): "the few mirrors of a cluster",
    ("/mirrors", "Partition"): "the worst first",
    ("/mirrors", "Group"): "names",
    ("/quorum", "Node"): "the few nodes of a quorum",
    ("/quorum", "Feature"): "a handful of features",
    ("/", "Node"): "the few nodes of a cluster",
    ("/", "Path"): "the few log directories of a node",
    ("/", "Partition"): "the worst first",
    ("/transactions", "Change"): "a column of buttons",
    ("/", "Of", "Config", "Value", "Change"): "the few throttles of a cluster",
    ("/history", "From, UTC"): "times, the latest first",
    ("/records", "Partition"): "records in the order of their offsets",
    ("/searches/{search}", "Partition"): "records in the order in which they are found",
    ("/topics/{topic}", "Retention deletes next"): "a sentence",
    ("/topics/{topic}", "Config"): "those that are set, then the others",
    ("/group", "Remove"): "a column of buttons",
    ("/group", "Node"): "the nodes of a topology in their order",
}
"""The tables, by their page and their first headings, and columns that do not sort, and why."""


class Headings(HTMLParser):
    """The headings of each table: their texts, and whether a link sorts by them."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[tuple[str, bool]]] = []
        self._is_heading = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "th" and ("scope", "col") in attrs:
            self._is_heading = True
            self.tables[-1].append(("", False))
        elif tag == "a" and self._is_heading and ("class", "sort") in attrs:
            self.tables[-1][-1] = ("", True)

    def handle_endtag(self, tag: str) -> None:
        if tag == "th":
            self._is_heading = False

    def handle_data(self, data: str) -> None:
        if self._is_heading:
            text, is_sorted = self.tables[-1][-1]
            self.tables[-1][-1] = ((text + data).strip(), is_sorted)


def unsorted_of(page: ConsolePage) -> Iterator[tuple[str, ...]]:
    """The page and headings of each table, or the page and the heading, that does not sort."""
    for word in WORDS:
        parser = Headings()
        parser.feed(rendered(page, 2, word))
        for table in parser.tables:
            names = tuple(name for name, is_sorted in table if not is_sorted)
            if names and len(names) == len(table):
                yield page.path, *names
            else:
                yield from ((page.path, name) for name in names)


def is_excepted(found: tuple[str, ...]) -> bool:
    return any(found[: len(each)] == each for each in UNSORTED)


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.path)
def test_every_heading_of_a_list_sorts_it_or_is_a_named_exception(page: ConsolePage) -> None:
    assert [found for found in unsorted_of(page) if not is_excepted(found)] == []


def test_a_table_without_sorting_is_found() -> None:
    parser = Headings()
    parser.feed(
        '<table><tr><th scope="col">Name</th><th scope="col"><a class="sort" href="?">Size</a></th></tr></table>'
    )
    assert parser.tables == [[("Name", False), ("Size", True)]]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with console_node(kpybroker_console_write_enable="true") as node:
        made = Stage(node)
        furnish(made)
        producers = [open_transaction(node, name, topic) for name, topic in (("a", "weather"), ("b", "bookings"))]
        yield made
        made.close()
        del producers


LINK = re.compile(r'<a class="sort" href="([^"]*)">')
TRAFFIC = re.compile("sort=-?(rate|in|out|used)&")
"""The rates of topics and clients, which change with each look."""


KIND = re.compile(
    "^(?:What it is ?)?(" + "|".join(filter(None, TYPES)) + ").*|else .*| Change .*|^[0-9.]+ (?:s|min)(?: ago)?$"
)
"""The parts of cells that do not sort: documentation behind a type, a default, and times that pass."""


def columns(page: str, sort: str) -> list[list[str]]:
    """The texts of each column that is sorted by now, without unknown ones and without the defaults of configs."""
    found = []
    sorted_one = re.search(r'aria-sort="\w+"><a class="sort"[^>]*>([^<]*)</a>', page)
    assert sorted_one is not None, sort
    for table in tables_of(page):
        names = [name.removesuffix("p50 / p99") for name in table.headings]
        if sorted_one[1] in names:
            place = names.index(sorted_one[1])
            found.append(
                [known for row in table.rows if (known := KIND.sub(r"\1", row[place])) not in ("–", "unknown")]
            )
    return found


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.path)
def test_both_directions_of_a_heading_are_opposite(stage: Stage, page: ConsolePage) -> None:
    if page.path == "/connections":
        return  # its times and requests change with each look
    links = {unescape(each) for each in LINK.findall(stage.node.get(stage.address(page, page.path)).text)}
    links = {link for link in links if not TRAFFIC.search(link)}
    for link in sorted(links):
        first = stage.node.get(link)
        assert first.status == 200, link
        sort = re.search(r"sort=(-?)([\w.]+)", link)
        assert sort is not None
        other = stage.node.get(link.replace(sort[0], f"sort={'' if sort[1] else '-'}{sort[2]}"))
        pairs = zip(columns(first.text, link), columns(other.text, link), strict=True)
        assert any(one == two[::-1] for one, two in pairs), (link, columns(first.text, link), columns(other.text, link))
        assert first.text.count("aria-sort") == 1


def test_connections_sort_by_client_id(stage: Stage) -> None:
    def clients(sort: str) -> list[list[str]]:
        return [each["client_ids"] for each in stage.node.get("/api/connections", sort=sort).json["connections"]]

    assert clients("client") == sorted(clients("client"))
    assert clients("-client") == sorted(clients("client"), reverse=True)
    assert clients("client") != clients("-client")
