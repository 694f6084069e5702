"""The pictures of ``docs/console.md`` show the pages as they are: each is taken again in both themes and compared.

Fonts and contents differ from those of the machine where they were taken, so the comparison asks for the same size, the
same grounds, and ink in the same places.
"""

import threading
from collections.abc import Iterator

import pytest
from likeness import Likeness, likeness, sketch
from pictures import (
    FIGURES,
    HEIGHTS,
    PICTURED,
    WIDTH,
    addresses,
    name_of,
    open_all,
    pictured,
    traffic,
)
from stage import Stage

from kpybroker.monitoring.console.pages import PAGES
from support.browser import Browser
from support.waiting import eventually

pytestmark = pytest.mark.slow
NAMES = [*(name_of(page) for page in PICTURED), "refused"]
THEMES = ("light", "dark")
LEAST_INK = 0.7
"""The least correlation of ink. Other fonts and contents give more, a page without its style sheet gives less."""
MOST_GROUNDS = 4


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with pictured() as made:
        node = made.node
        stop = threading.Event()
        thread = threading.Thread(target=traffic, args=(made, stop))
        thread.start()
        eventually(lambda: node.get("/api/group", id="joined").json["read_per_s"] is not None, "two samples")
        stop.set()
        thread.join()
        yield made


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


def taken(browser: Browser, stage: Stage, name: str, theme: str, change: str = "") -> Likeness:
    """The likeness of a page, after a change by a script, and its picture."""
    path, height = addresses(stage)[name]
    browser.open(f"http://127.0.0.1:{stage.node.node.http_port}{path}", theme=theme, width=WIDTH, height=height)
    open_all(browser)
    if change:
        browser.run(change)
    expected = (FIGURES / f"{name}-{theme}.png").read_bytes()
    return likeness(sketch(browser, browser.picture()), sketch(browser, expected))


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", NAMES)
def test_a_page_looks_as_in_its_picture(stage: Stage, browser: Browser, name: str, theme: str) -> None:
    found = taken(browser, stage, name, theme)
    print(f"{name}, {theme}: {found}")
    assert found.same_size, "make pictures"
    assert found.grounds <= MOST_GROUNDS, f"another ground: {found}"
    assert found.ink >= LEAST_INK, f"something is elsewhere: {found}; if that is meant: make pictures"


UNSTYLED = "document.querySelector('link[rel=stylesheet]').remove()"
OTHER_THEME = "document.documentElement.dataset.theme = 'dark'"
"""Two changes that must not pass: a page without its style, and one in the other theme."""


@pytest.mark.parametrize("name", ["cluster", "records"])
def test_a_broken_page_is_found_out(stage: Stage, browser: Browser, name: str) -> None:
    assert taken(browser, stage, name, "light", UNSTYLED).ink < LEAST_INK
    assert taken(browser, stage, name, "light", OTHER_THEME).grounds > MOST_GROUNDS


def test_every_page_has_its_pictures_and_every_picture_its_page() -> None:
    assert {each.name for each in FIGURES.glob("*.png")} == {
        f"{name}-{theme}.png" for name in NAMES for theme in THEMES
    }
    shown = (FIGURES.parents[1] / "console.md").read_text()
    assert [name for name in NAMES for theme in THEMES if f"figures/console/{name}-{theme}.png" not in shown] == []
    assert set(HEIGHTS) <= {page.path for page in PAGES}
