"""Every page at a browser with a login: of a viewer who may describe one topic and one group, and of one who may do
everything. A page is there or says what is missing, names nothing else, and offers no form that would be refused.
"""

from collections.abc import Iterator

import pytest
from console_node import ConsoleNode
from person import Person
from test_browser import violations
from test_hidden_names import HIDDEN, node, paths

from support.browser import Browser, axe

__all__ = ["node"]
pytestmark = pytest.mark.slow
SHOWN = [path for path in paths() if not path.startswith(("/api/", "/records/raw", "/records/csv"))]
REFUSED = {403, 404, 400}
WIDTHS = (1400, 390)


@pytest.fixture(scope="module", params=["describer", "root"])
def viewer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, node: ConsoleNode
) -> Iterator[Person]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        person = Person(browser, node, login=f"{request.param}:p@")
        person.open("/topics")
        yield person


def status_of(browser: Browser) -> int:
    """The status of the page that is shown."""
    found: int = browser.run("performance.getEntriesByType('navigation')[0].responseStatus")
    return found


@pytest.mark.parametrize("path", SHOWN)
def test_a_page_shows_a_viewer_what_it_may_see_and_offers_what_it_may_do(viewer: Person, path: str) -> None:
    viewer.open(path)
    browser = viewer.browser
    name = browser.run("document.querySelector('.viewer').textContent")
    assert status_of(browser) in {200, *REFUSED}
    assert browser.run("document.querySelectorAll('main h1').length") == 1
    if name == "describer":
        assert viewer.offered == set()
        text = browser.run("document.documentElement.outerHTML")
        assert [each for each in HIDDEN if each in text] == []
    browser.run(axe())
    for width in WIDTHS:
        browser.resize(width, 844)
        assert browser.run("document.documentElement.scrollWidth") <= width
        for theme in ("light", "dark"):
            browser.use_theme(theme)
            assert violations(browser, "{runOnly: ['color-contrast', 'region', 'label', 'link-name']}") == []


def test_a_refused_page_leads_on_to_one_that_is_not(viewer: Person) -> None:
    viewer.open("/topics/nothing")
    status, address = viewer.browser.follow_click("document.querySelector('main a')")
    assert (status, address.rpartition("/")[2]) == (200, "topics")
    viewer.open("/")
    if status_of(viewer.browser) != 200:
        status, _ = viewer.browser.follow_click("document.querySelector('main a')")
        assert status == 200
