"""A node with 5 000 partitions and 500 groups in a browser: every page is bounded, fits, and finds one among them."""

from collections.abc import Iterator
from time import perf_counter

import pytest
from crowded_node import crowd as crowded
from stage import Stage

from kpybroker.machines.console.listing import PER_PAGE
from kpybroker.monitoring.console.pages import PAGES
from support.browser import Browser

pytestmark = pytest.mark.slow
MOST_ROWS = 4 * PER_PAGE
"""The rows of all tables of a page."""


@pytest.fixture(scope="module")
def crowd() -> Iterator[Stage]:
    with crowded() as made:
        yield made


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


ADDRESSES = [page.path for page in PAGES if page.template]
CROWDED = ["/topics/crowd", "/topics/crowd?page=25", "/records?topic=crowd", "/groups?page=3", "/group?id=group-7"]


@pytest.mark.parametrize("path", [*ADDRESSES, *CROWDED, "/find?q=group-49", "/find?q=o"])
def test_a_page_of_a_crowded_node_is_bounded_and_fits(crowd: Stage, browser: Browser, path: str) -> None:
    pages = {page.path: page for page in PAGES}
    address = crowd.address(pages[path], path) if path in pages else path
    began = perf_counter()
    assert crowd.node.get(address).status == 200
    print(f"{path}: {(perf_counter() - began) * 1000:.0f} ms")
    for width in (1400, 390):
        browser.open(f"http://127.0.0.1:{crowd.node.node.http_port}{address}", theme="light", width=width)
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.run("document.querySelectorAll('tbody tr').length") <= MOST_ROWS


def test_one_of_many_is_found_by_a_search(crowd: Stage, browser: Browser) -> None:
    browser.open(f"http://127.0.0.1:{crowd.node.node.http_port}/", theme="light")
    browser.fill("document.getElementById('find')", "group-499")
    browser.follow_click("document.querySelector('.find button')")
    status, address = browser.follow_click("document.querySelector('main a')")
    assert (status, address.rpartition("/")[2]) == (200, "group?id=group-499")
