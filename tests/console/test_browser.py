"""The pages in a real browser, in both themes: what axe-core finds, what they load, and that keys and script work."""

import json
from collections.abc import Iterator

import pytest
from console_node import console_node
from stage import Stage

from kpybroker.monitoring.console.page import ConsolePage
from kpybroker.monitoring.console.pages import PAGES
from support.browser import Browser, axe

pytestmark = pytest.mark.slow
SHOWN = [page for page in PAGES if page.template]


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


def address(stage: Stage, page: ConsolePage) -> str:
    return f"http://127.0.0.1:{stage.node.node.http_port}{stage.address(page, page.path)}"


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.path)
def test_a_page_is_accessible_in_both_themes_fits_a_phone_and_asks_no_other_host(
    stage: Stage, browser: Browser, page: ConsolePage
) -> None:
    source = axe()
    browser.open(address(stage, page), theme="light")
    assert browser.complaints == []
    here = f"http://127.0.0.1:{stage.node.node.http_port}/"
    assert [each for each in browser.requested if not each.startswith((here, "data:"))] == []
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    browser.run(source)
    assert violations(browser, "{}") == []
    browser.use_theme("dark")
    assert violations(browser, "{runOnly: ['color-contrast']}") == []
    browser.resize(390, 800)
    assert browser.run("document.documentElement.scrollWidth") <= 390


def violations(browser: Browser, options: str) -> list[tuple[str, list[str]]]:
    """The rules that a page breaks, each with some of the elements."""
    found = json.loads(browser.run(f"axe.run({options}).then((result) => JSON.stringify(result.violations))"))
    return [(each["id"], [node["html"][:200] for node in each["nodes"][:3]]) for each in found]


def test_the_themes_differ_and_the_switch_is_kept(stage: Stage, browser: Browser) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    browser.open(address(stage, PAGES[0]), theme="light")
    light = browser.run(ground)
    browser.open(address(stage, PAGES[0]), theme="dark")
    assert browser.run(ground) != light
    browser.run("document.getElementById('theme').click()")
    assert browser.run(ground) == light
    browser.open(address(stage, PAGES[1]), theme="dark")
    assert browser.run(ground) == light
    browser.run("localStorage.clear()")


def test_the_first_key_leads_to_the_content(stage: Stage, browser: Browser) -> None:
    browser.open(address(stage, PAGES[0]), theme="light")
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
    assert browser.run("document.activeElement.className") == "skip"
    assert browser.run("document.activeElement.getAttribute('href')") == "#main"


def test_a_page_shows_what_is_new_by_itself(stage: Stage, browser: Browser) -> None:
    browser.open(address(stage, PAGES[0]), theme="light")
    browser.run("document.getElementById('main').dataset.seen = '1'; refresh()")
    browser.run("new Promise((done) => setTimeout(done, 300))")
    assert browser.run("document.getElementById('main').dataset.seen") == "1", "the page was not loaded again"
    assert browser.run("document.querySelectorAll('h1').length") == 1
