"""A node with 5 000 partitions and 500 groups in a browser: every page is bounded, fits, and finds one among them."""

from collections.abc import Iterator
from time import perf_counter

import pytest
from console_node import ConsoleNode, console_node
from stage import Stage

from kpybroker.machines.console.listing import PER_PAGE
from kpybroker.monitoring.console.pages import PAGES
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from support.browser import Browser
from support.waiting import eventually

pytestmark = pytest.mark.slow
PARTITIONS, GROUPS = 5_000, 500
MOST_ROWS = 4 * PER_PAGE
"""The rows of all tables of a page."""


@pytest.fixture(scope="module")
def crowd() -> Iterator[Stage]:
    with console_node(kpybroker_console_write_enable="true", max_request_partition_size_limit="5000") as node:
        made = Stage(node)
        node.create("crowd", PARTITIONS)
        join(node)
        yield made
        made.close()


def join(node: ConsoleNode) -> None:
    """Let all groups commit."""
    spot = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name="crowd", partitions=[spot])]
    with node.client as client:
        client.call(FindCoordinatorRequest(key="group-0", key_type=0), 3)
        for number in range(GROUPS):
            request = OffsetCommitRequest(group_id=f"group-{number}", topics=topics)
            eventually(
                lambda request=request: client.call(request, 2).topics[0].partitions[0].error_code == 0, "a commit"
            )


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


ADDRESSES = [page.path for page in PAGES if page.template]
CROWDED = ["/topics/crowd", "/topics/crowd?page=50", "/records?topic=crowd", "/groups?page=3", "/group?id=group-7"]


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
