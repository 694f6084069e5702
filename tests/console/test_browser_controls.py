"""Every control of the forms that only show, used by a person in a real browser; and the links that load files."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import NamedTuple

import pytest
from console_node import ConsoleNode, console_node
from person import Person
from test_transactions_page import open_transaction

from kpywire.record import Record
from support.browser import Browser
from support.waiting import eventually

pytestmark = pytest.mark.slow
HOUR_MS = 3_600_000
FIRST_MS = (int(time() * 1000) // HOUR_MS - 10) * HOUR_MS
"""The time of the first flight. One flight an hour follows."""
THIRD = datetime.fromtimestamp(FIRST_MS / 1000 + 2 * 3600, UTC).strftime("%Y-%m-%dT%H:%M")


class Used(NamedTuple):
    """A control as a person uses it: the page, the texts that are typed, a box that is ticked, and what follows."""

    page: str
    texts: dict[str, str]
    ticked: str
    shown: str
    hidden: str = "no such text"


FLIGHTS = "/records?topic=flights&partition=0"
RESET = "/group/reset?id=readers"
CONTROLS = {
    ("/topics", "q"): Used("/topics", {"q": "fli"}, "", "flights", "pending"),
    ("/topics", "internal"): Used("/topics", {}, "internal", "__consumer_offsets"),
    ("/records", "partition"): Used("/records?topic=flights", {"partition": "1"}, "", "2 records", "LX0"),
    ("/records", "start"): Used(FLIGHTS, {"start": "oldest", "most": "1"}, "", "LX0", "LX1"),
    ("/records", "most"): Used(FLIGHTS, {"most": "1"}, "", "LX3", "LX2"),
    ("/records", "offset"): Used(FLIGHTS, {"start": "offset", "offset": "2"}, "", "2 records", "LX1"),
    ("/records", "time"): Used(FLIGHTS, {"start": "time", "time": THIRD}, "", "2 records", "LX1"),
    ("/records", "form"): Used(FLIGHTS, {"form": "hex"}, "", "Value hex", "Value text"),
    ("/records", "committed"): Used("/records?topic=pending", {}, "committed", "0 records"),
    ("/records", "live"): Used(FLIGHTS, {}, "live", "shown again every two seconds"),
    ("/groups", "q"): Used("/groups", {"q": "read"}, "", "readers", "others"),
    ("/group/reset", "to"): Used(RESET, {"to": "the end"}, "", "flights-0\t1\t4\t3"),
    ("/group/reset", "value"): Used(RESET, {"to": "an off", "value": "2"}, "", "flights-0\t1\t2\t1"),
    ("/group/reset", "topic"): Used(RESET, {"topic": "flights"}, "", "flights-1\t–\t0"),
    ("/group/reset", "partition"): Used(
        RESET, {"topic": "flights", "partition": "1"}, "", "flights-1\t–\t0", "flights-0"
    ),
    ("/connections", "q"): Used("/connections", {"q": "no such client"}, "", "0 connections"),
    ("/configs", "q"): Used("/configs", {"q": "http.listener"}, "", "kpybroker.http.listener", "log.dirs"),
    ("/configs", "all"): Used("/configs", {}, "all", "log.cleaner.threads"),
    ("/transactions", "q"): Used("/transactions", {"q": "pay"}, "", "payments\tOngoing", "refunds\tOngoing"),
}
"""The controls by the address of their form and their name."""

FOUND = """[...document.forms].filter((form) => form.method === "get").flatMap((form) => [...form.elements]
  .filter((each) => each.name && each.type !== "hidden").map((each) => [new URL(form.action).pathname, each.name]))"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    with console_node() as made:
        made.create("flights", 2)
        made.create("pending")
        times = [FIRST_MS + number * HOUR_MS for number in range(4)]
        flights = [Record(key=b"LX%d" % number, value=b"by air", timestamp=at_ms) for number, at_ms in enumerate(times)]
        made.produce("flights", flights)
        made.produce("flights", [Record(value=b"w", timestamp=FIRST_MS)] * 2, partition=1)
        for group in ("readers", "others"):
            made.commit(group, "flights", 1)
        producers = [open_transaction(made, name, "pending") for name in ("payments", "refunds")]
        yield made
        del producers


def test_every_control_is_used_here(browser: Browser, node: ConsoleNode) -> None:
    person = Person(browser, node)
    found = set()
    for page in ("/topics", FLIGHTS, "/groups", RESET, "/connections", "/configs", "/transactions"):
        person.open(page)
        found |= {(path, name) for path, name in browser.run(FOUND)}
    assert found == set(CONTROLS)


@pytest.mark.parametrize(("path", "name"), CONTROLS)
def test_a_control_changes_the_content_of_the_page(browser: Browser, node: ConsoleNode, path: str, name: str) -> None:
    used = CONTROLS[path, name]
    person = Person(browser, node)
    person.open(used.page)
    person.press(
        path,
        {"/records": "Show", "/group/reset": "Preview"}.get(path, "Find"),
        used.texts,
        ticked=used.ticked,
        method="get",
    )
    assert used.shown in person.shown
    assert used.hidden not in person.shown


def test_a_live_page_shows_a_new_record_by_itself(browser: Browser, node: ConsoleNode) -> None:
    node.create("live")
    person = Person(browser, node)
    person.open("/records?topic=live")
    person.press("/records", "Show", ticked="live", method="get")
    browser.run("document.activeElement.blur()")
    node.produce("live", [Record(key=b"fresh", value=b"v", timestamp=FIRST_MS)])
    eventually(lambda: "fresh" in person.shown, "the new record is shown")


def test_the_link_to_later_records_goes_on_where_the_page_ends(browser: Browser, node: ConsoleNode) -> None:
    person = Person(browser, node)
    person.open(f"{FLIGHTS}&start=oldest&most=2")
    assert ("LX1" in person.shown, "LX2" in person.shown) == (True, False)
    status, _ = browser.follow_click("document.querySelector('a[rel=next]')")
    assert (status, "LX1" in person.shown, "LX2" in person.shown) == (200, False, True)


@pytest.mark.parametrize("link", ["a[download]", "a[aria-label='Download the value of 0:3']"])
def test_a_link_loads_a_file(browser: Browser, node: ConsoleNode, link: str, tmp_path: Path) -> None:
    person = Person(browser, node)
    browser.call("Browser.setDownloadBehavior", session=None, behavior="allow", downloadPath=str(tmp_path))
    person.open(FLIGHTS)
    element = f"document.querySelector({json.dumps(link)})"
    browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
    browser.click(element)

    def loaded() -> list[bytes]:
        return [each.read_bytes() for each in tmp_path.iterdir() if not each.name.endswith(".crdownload")]

    eventually(lambda: any(loaded()), "the file is there")
    (data,) = loaded()
    assert data == b"by air" if "value" in link else len(json.loads(data)["records"]) == 4
