"""A page that fetches itself again leaves alone what somebody reads: order, place, what is opened and what is typed."""

from collections.abc import Iterator

import pytest
from console_node import console_node
from stage import Stage

from kpywire.messages.metadata import MetadataRequest
from support.browser import Browser

pytestmark = pytest.mark.slow
OPENED = "document.querySelector('details.record[open]')"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with console_node(kpybroker_console_write_enable="true") as node:
        made = Stage(node)
        yield made
        made.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


def show(browser: Browser, stage: Stage, path: str, width: int = 1280, height: int = 900) -> None:
    """Open a page, and leave its refreshing to the test."""
    browser.open(f"http://127.0.0.1:{stage.node.node.http_port}{path}", theme="light", width=width, height=height)
    browser.run("main.dataset.every = ''; arm = () => {}; true")


def refresh(browser: Browser) -> bool:
    """Fetch the page again. Return whether its content was replaced."""
    browser.run("main.firstElementChild.dataset.old = '1'; refresh()")
    return not browser.run("main.firstElementChild.dataset.old")


def test_a_table_keeps_its_order_and_its_place(stage: Stage, browser: Browser) -> None:
    show(browser, stage, "/connections?sort=-idle", width=390)
    browser.run("document.querySelector('.scroll[aria-labelledby=open]').scrollLeft = 150")
    browser.run("document.querySelector('.scroll').remove()")  # another table is there again after the refresh
    assert refresh(browser)
    assert browser.run("document.querySelector('.scroll[aria-labelledby=open]').scrollLeft") == 150
    assert browser.run("document.querySelector('[aria-sort=descending]').textContent").strip() == "Idle"


def test_an_opened_request_stays_opened_at_its_place_while_others_come(stage: Stage, browser: Browser) -> None:
    path = f"/connections/{stage.values['connection']}"
    show(browser, stage, path, height=400)
    stage.connected.call(MetadataRequest(topics=None), 12)
    assert refresh(browser)
    browser.click("document.querySelector('details.record summary')")
    browser.run("document.querySelector('details[open] pre[aria-label=Answer]').scrollTop = 20")
    before = browser.run(f"{OPENED}.getBoundingClientRect().top")
    for _ in range(20):
        stage.connected.call(MetadataRequest(topics=None), 12)
    assert refresh(browser)
    assert browser.run("document.querySelectorAll('details.record').length") == 21
    assert browser.run("document.querySelectorAll('details.record[open]').length") == 1
    assert abs(browser.run(f"{OPENED}.getBoundingClientRect().top") - before) <= 1
    assert browser.run(f"{OPENED}.querySelector('pre[aria-label=Answer]').scrollTop") == 20


def test_what_is_opened_is_not_taken_away_when_it_is_gone(stage: Stage, browser: Browser) -> None:
    path = f"/connections/{stage.values['connection']}"
    show(browser, stage, path)
    stage.connected.call(MetadataRequest(topics=[]), 12)
    assert refresh(browser)
    browser.click("document.querySelector('details.record summary')")
    browser.run(f"{OPENED}.id = 'a request that the node forgets'")
    assert not refresh(browser)
    browser.click(f"{OPENED}.querySelector('summary')")
    assert refresh(browser)


def test_what_is_typed_is_not_taken_away(stage: Stage, browser: Browser) -> None:
    show(browser, stage, "/connections")
    field = "document.querySelector('main input[name=q]')"
    browser.fill(field, "rdkaf")
    browser.run("document.activeElement.blur()")
    assert not refresh(browser)
    assert browser.run(f"{field}.value") == "rdkaf"
    browser.fill(field, "")
    browser.run("document.activeElement.blur()")
    assert refresh(browser)


@pytest.mark.parametrize("path", ["/configs", "/connections/{connection}"])
def test_what_can_be_opened_shows_its_triangle(stage: Stage, browser: Browser, path: str) -> None:
    show(browser, stage, path.format_map(stage.values))
    stage.connected.call(MetadataRequest(topics=[]), 12)
    assert refresh(browser)
    assert browser.run("getComputedStyle(document.querySelector('main summary')).display") == "list-item"
