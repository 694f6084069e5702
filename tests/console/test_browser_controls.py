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
    ("/find", "q"): Used("/groups", {"q": "fli"}, "", "flights", "pending"),
    ("/topics", "q"): Used("/topics", {"q": "fli"}, "", "flights", "pending"),
    ("/topics", "internal"): Used("/topics", {}, "internal", "__consumer_offsets"),
    ("/records", "partition"): Used("/records?topic=flights", {"partition": "1"}, "", "2 records", "LX0"),
    ("/records", "start"): Used(FLIGHTS, {"start": "oldest", "most": "1"}, "", "LX0", "LX1"),
    ("/records", "most"): Used(FLIGHTS, {"most": "1"}, "", "LX3", "LX2"),
    ("/records", "offset"): Used(FLIGHTS, {"start": "offset", "offset": "2"}, "", "2 records", "LX1"),
    ("/records", "time"): Used(FLIGHTS, {"start": "time", "time": THIRD}, "", "2 records", "LX1"),
    ("/records", "form"): Used(FLIGHTS, {"form": "hex"}, "", "62 79 20 61 69 72"),
    ("/records", "topic"): Used("/records", {"topic": "pending"}, "", "Records of pending"),
    ("/records", "text"): Used(FLIGHTS, {"text": "LX2"}, "", "1 of 4 records", "LX3"),
    ("/records", "kind"): Used(FLIGHTS, {"text": "LX[12]", "kind": "regex"}, "", "2 of 4 records", "LX3"),
    ("/records", "where"): Used(FLIGHTS, {"text": "LX2", "where": "value"}, "", "0 of 4 records", "LX3"),
    ("/records", "ignore_case"): Used(FLIGHTS, {"text": "lx2"}, "ignore_case", "1 of 4 records", "LX3"),
    ("/records", "key"): Used(FLIGHTS, {"key": "LX2"}, "", "1 of 4 records", "LX3"),
    ("/records", "header"): Used(FLIGHTS, {"header": "gate=7"}, "", "1 of 4 records", "LX3"),
    ("/records", "json"): Used("/records?topic=flights", {"json": "$.seats > 9"}, "", "1 of 6 records", "LX3"),
    ("/records", "since"): Used(FLIGHTS, {"since": THIRD}, "", "2 of 2 records", "LX1"),
    ("/records", "until"): Used(FLIGHTS, {"until": THIRD}, "", "2 of 4 records", "LX2"),
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

FILTER = ("text", "kind", "where", "ignore_case", "key", "header", "json", "since", "until")

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
        flights[1] = flights[1]._replace(headers=(("gate", b"7"),))
        made.produce("flights", flights)
        others = [Record(value=value, timestamp=FIRST_MS) for value in (b"w", b'{"seats": 10}')]
        made.produce("flights", others, partition=1)
        for group in ("readers", "others"):
            made.commit(group, "flights", 1)
        producers = [open_transaction(made, name, "pending") for name in ("payments", "refunds")]
        yield made
        del producers


def test_every_control_is_used_here(browser: Browser, node: ConsoleNode) -> None:
    person = Person(browser, node)
    found = set()
    for page in ("/topics", "/records", FLIGHTS, "/groups", RESET, "/connections", "/configs", "/transactions"):
        person.open(page)
        found |= {(path, name) for path, name in browser.run(FOUND)}
    assert found == set(CONTROLS)


@pytest.mark.parametrize(("path", "name"), CONTROLS)
def test_a_control_changes_the_content_of_the_page(browser: Browser, node: ConsoleNode, path: str, name: str) -> None:
    used = CONTROLS[path, name]
    person = Person(browser, node)
    person.open(used.page)
    button = {"/records": "Show", "/group/reset": "Preview"}.get(path, "Find")
    if name in FILTER:
        button = "Filter"
        browser.click("document.querySelector('details.filter > summary')")
    person.press(path, button, used.texts, ticked=used.ticked, method="get")
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


@pytest.mark.parametrize("link", ["a[download]", "a[href*=csv]", "a[aria-label='Download the value of 0:3']"])
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
    if "csv" in link:
        assert data.count(b"by air") == 4
    else:
        assert data == b"by air" if "value" in link else len(json.loads(data)["records"]) == 4


def test_only_the_field_that_counts_can_be_filled(browser: Browser, node: ConsoleNode) -> None:
    person = Person(browser, node)
    form = "document.getElementById('look').elements"
    disabled = f"['offset', 'time'].filter((name) => {form}.namedItem(name).disabled)"
    for start, others in (("offset", ["time"]), ("time", ["offset"]), ("oldest", ["offset", "time"])):
        person.open(FLIGHTS)
        assert browser.run(disabled) == ["offset", "time"]
        browser.fill(f"{form}.namedItem('start')", start)
        assert browser.run(disabled) == others


def test_fifty_records_take_less_than_3000_pixels(browser: Browser, node: ConsoleNode) -> None:
    node.create("fifty")
    made = [Record(key=b"k" * 300, value=b'{"a": "%s"}' % (b"v" * 900), timestamp=FIRST_MS) for _ in range(50)]
    node.produce("fifty", made)
    person = Person(browser, node)
    browser.open(person.address("/records?topic=fifty"), theme="light", width=1400)
    assert browser.run("document.querySelectorAll('table.records tbody tr').length") == 50
    assert browser.run("document.documentElement.scrollHeight") < 3000


def test_a_row_opens_by_key_to_everything_of_its_record(browser: Browser, node: ConsoleNode) -> None:
    person = Person(browser, node)
    person.open(f"{FLIGHTS}&key=LX1")
    assert "gate" not in person.shown.partition("Value")[2]
    browser.run("document.querySelector('details.opened > summary').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.call(
            "Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r"
        )
    assert "gate" in person.shown.partition("Value")[2]


def test_a_live_page_with_a_filter_is_shown_again(browser: Browser, node: ConsoleNode) -> None:
    node.create("live-filtered")
    person = Person(browser, node)
    person.open("/records?topic=live-filtered&live=1&key=wanted")
    browser.run("document.activeElement.blur()")
    for key in (b"wanted-1", b"other-1"):
        node.produce("live-filtered", [Record(key=key, value=b"v", timestamp=FIRST_MS)])
    eventually(lambda: "wanted-1" in person.shown, "the new record is shown")
    assert "other-1" not in person.shown
