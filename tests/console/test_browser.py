"""The pages in a real browser, in both themes: what axe-core finds, what they load, and that keys and script work."""

import json
from base64 import b64encode
from collections.abc import Iterator

import pytest
from console_node import console_node
from stage import Stage

from kpybroker.monitoring.console.console import Console
from kpybroker.monitoring.console.page import ConsolePage
from kpybroker.monitoring.console.pages import PAGES
from kpybroker.monitoring.console.rendering import MENU
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
    browser.open(address(stage, page), theme="light", width=1400)
    assert browser.complaints == []
    here = f"http://127.0.0.1:{stage.node.node.http_port}/"
    assert [each for each in browser.requested if not each.startswith((here, "data:"))] == []
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    browser.run(source)
    for width in (1400, 390):
        browser.resize(width, 844)
        assert browser.run("document.documentElement.scrollWidth") <= width
        browser.use_theme("light")
        assert violations(browser, "{}") == []
        browser.use_theme("dark")
        assert violations(browser, "{runOnly: ['color-contrast']}") == []


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


def test_a_chosen_theme_is_there_before_the_first_paint(stage: Stage, browser: Browser) -> None:
    """The script that is deferred is kept away: the theme does not wait for it."""
    browser.open(address(stage, PAGES[0]), theme="light")
    browser.run("localStorage.setItem('kpybroker-theme', 'dark')")
    browser.call("Network.setBlockedURLs", urls=["*/static/console.js"])
    try:
        browser.open(address(stage, PAGES[1]), theme="light")
        assert browser.run("typeof refresh") == "undefined"
        assert browser.run("getComputedStyle(document.body).colorScheme") == "dark"
    finally:
        browser.call("Network.setBlockedURLs", urls=[])
        browser.run("localStorage.clear()")


def press_key(browser: Browser, key: str) -> None:
    for kind in ("keyDown", "keyUp"):
        text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
        browser.call("Input.dispatchKeyEvent", type=kind, key=key, **text)


def test_a_slash_leads_to_the_search_of_everything_but_is_typed_in_a_field(stage: Stage, browser: Browser) -> None:
    focused = "document.activeElement.id"
    browser.open(address(stage, PAGES[1]), theme="light")
    press_key(browser, "/")
    assert browser.run(focused) == "find"
    press_key(browser, "/")
    press_key(browser, "f")
    assert browser.run("document.activeElement.value") == "/f"
    status, where = browser.follow_click("document.querySelector('.find button')")
    assert (status, where.partition("?")[2]) == (200, "q=%2Ff")
    assert browser.run("document.getElementById('find').value") == "/f"


ENTRIES = "JSON.stringify([...document.querySelectorAll('nav li')].map((each) => each.getBoundingClientRect().right))"


def test_the_whole_menu_is_one_line_beside_the_search_from_1100_px_on(
    stage: Stage, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Console, "_menu", MENU)
    for width in (1100, 1180, 1360, 1361, 1400):
        browser.open(address(stage, PAGES[0]), theme="light", width=width)
        browser.run("document.getElementById('find').focus()")
        assert browser.run("document.querySelector('header').offsetHeight") <= 60, width
        assert browser.run("document.documentElement.scrollWidth") <= width
        ends = json.loads(browser.run(ENTRIES))
        assert len(ends) == len(MENU)
        assert max(ends) < browser.run("document.querySelector('.find').getBoundingClientRect().left"), width


def test_the_menu_is_one_line_on_a_phone_and_shows_where_one_is(stage: Stage, browser: Browser) -> None:
    for page in SHOWN:
        browser.open(address(stage, page), theme="light", width=390, height=844)
        assert browser.run("document.querySelector('header').offsetHeight") <= 100, page.path
        place = "document.querySelector('nav [aria-current]')?.getBoundingClientRect()"
        shown = browser.run(f"(() => {{ const box = {place}; return !box || (box.left >= 0 && box.right <= 390); }})()")
        assert shown, page.path


EDGE = """(async (element) => {
  const box = element.getBoundingClientRect();
  const image = new Image();
  image.src = "data:image/png;base64,%s";
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const place = [Math.round(box.right) - 4, Math.round(box.top) + 4, 1, Math.round(box.height) - 8];
  const line = context.getImageData(...place).data;
  return Math.min(...line.filter((_, number) => number %% 4 === 0));
})(document.querySelector('[aria-labelledby=open].scroll'))"""
"""The darkest red of a line near the right edge of a table."""


def test_a_wide_table_shows_that_it_goes_on(stage: Stage, browser: Browser) -> None:
    browser.open(f"http://127.0.0.1:{stage.node.node.http_port}/connections", theme="light", width=390)
    table = "document.querySelector('[aria-labelledby=open].scroll')"
    browser.run(f"{table}.scrollIntoView(); {table}.querySelector('table').style.visibility = 'hidden'")

    def darkest() -> int:
        found: int = browser.run(EDGE % b64encode(browser.picture()).decode())
        return found

    at_first = darkest()
    browser.run(f"{table}.scrollLeft = 10000")
    assert at_first < darkest() - 10, "the shadow is there while columns are behind the edge, and not at the end"


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
