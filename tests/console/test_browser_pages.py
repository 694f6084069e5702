"""Pages in a real browser: they say when the node is gone, and long names leave every column in sight."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer
from console_node import ConsoleNode, console_node
from stage import Stage
from test_group_progress import first
from test_transactions_page import open_transaction

from kpybroker.monitoring.console.pages import PAGES
from kpywire.messages.delete_groups import DeleteGroupsRequest
from kpywire.messages.metadata import MetadataRequest
from kpywire.record import Record
from oracle.process import free_port
from oracle.started import started
from support.browser import Browser
from support.raw_client import RawClient
from support.waiting import eventually

AWAY = "(document.querySelector('.away') || {textContent: ''}).textContent"
REFRESHED = "refresh().then(() => %s)" % AWAY  # noqa: UP031 - the script is full of braces
WIDE = """[...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth + 1)
  .map((each) => (each.getAttribute('aria-labelledby') || '') + each.innerText.slice(0, 200))"""
LONG = "a-long-name." + "x" * 237
WIDE_LETTERS = "\u202e" + "界" * 80
"""Wide letters in the other direction; names of topics cannot have them."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


def address(node: ConsoleNode, path: str) -> str:
    return f"http://127.0.0.1:{node.node.http_port}{path}"


def test_a_page_says_that_its_node_does_not_answer_any_more(browser: Browser) -> None:
    with console_node() as node:
        browser.open(address(node, "/"), theme="light")
        assert browser.run(REFRESHED) == ""
    line = browser.run(REFRESHED)
    assert line.startswith("The node does not answer. This page is as it was at 2")
    assert browser.run("getComputedStyle(document.querySelector('.away')).display") != "none"
    assert browser.run(REFRESHED) == line


def test_a_page_says_by_itself_that_its_node_was_killed(browser: Browser, tmp_path: Path) -> None:
    http = f"127.0.0.1:{free_port()}"
    words = ["start", "--data", str(tmp_path), "--port", str(free_port()), "--http", http]
    with started([sys.executable, "-m", "kpybroker", *words], ending=signal.SIGKILL):
        browser.open(f"http://{http}/", theme="light")
        assert browser.run(AWAY) == ""
    eventually(lambda: "The node does not answer." in browser.run(AWAY), "the page says so", 30)


@pytest.mark.parametrize("path", ["/", "/security"], ids=["fetches itself", "does not"])
def test_a_page_notices_within_its_patience_that_its_node_is_gone_and_that_it_is_back(
    browser: Browser, path: str
) -> None:
    with console_node() as node:
        port = node.node.http_port
        browser.open(address(node, path), theme="light")
        assert browser.run("LIVE_EVERY_MS + LIVE_PATIENCE_MS") < 5000
        assert browser.run(AWAY) == ""
    eventually(lambda: browser.run(AWAY).startswith("The node does not answer."), "the page says so by itself")
    assert "It is asked again every two seconds." in browser.run(AWAY)
    with console_node(kpybroker_http_listener=f"127.0.0.1:{port}"):
        eventually(lambda: browser.run(AWAY) == "", "the page knows that it is back")


def test_a_page_keeps_what_is_typed_into_it(browser: Browser) -> None:
    with console_node(kpybroker_console_write_enable="true") as node:
        browser.open(address(node, "/"), theme="light")
        field = "document.querySelector('form[action=\"/elections\"]').elements.namedItem('topic')"
        browser.run(f"{field}.value = 'flights'")
        assert browser.run(f"refresh().then(() => {field}.value)") == "flights"
        browser.run(f"{field}.value = ''")
        assert browser.run(f"{field}.form.dataset.old = 1; refresh().then(() => {field}.form.dataset.old)") is None


def test_a_page_says_that_its_group_is_gone_and_stops_when_it_is_back(browser: Browser) -> None:
    with console_node() as node:
        node.create("flights")
        node.commit("readers", "flights", 5)
        browser.open(address(node, "/group?id=readers"), theme="light")
        with node.client as client:
            (deleted,) = client.call(DeleteGroupsRequest(groups_names=["readers"]), 2).results
            assert deleted.error_code == 0
        assert browser.run(REFRESHED).startswith("The node answers 404: group 'readers'")
        node.commit("readers", "flights", 5)
        assert browser.run(REFRESHED) == ""


@pytest.fixture(scope="module")
def crowded() -> Iterator[Stage]:
    """A node where every name is as long as may be."""
    with console_node(kpybroker_console_write_enable="true") as node:
        stage = Stage(node)
        node.create(LONG)
        node.produce(
            LONG, [Record(value=b"v" * 3000, key=b"k" * 3000, timestamp=1, headers=(("h" * 900, b"v" * 900),))]
        )
        node.commit(LONG, LONG, 0)
        assert node.post(f"/topics/{LONG}/configs", name="retention.ms", value="123456789").status == 200
        client = Consumer(
            {
                "bootstrap.servers": f"127.0.0.1:{node.node.ports['PLAINTEXT']}",
                "group.id": "g" * 249,
                "client.id": "c" * 249,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        client.subscribe([LONG])
        first(client)
        producer = open_transaction(node, "t" * 249, LONG)
        other = open_transaction(node, WIDE_LETTERS, LONG)
        node.commit(WIDE_LETTERS, LONG, 0)
        named = RawClient(node.node.ports["PLAINTEXT"], client_id=WIDE_LETTERS)
        named.call(MetadataRequest(topics=[]), 12)
        eventually(lambda: node.get("/api/transactions").json["pins"], "an open transaction")
        yield stage
        client.close()
        named.sock.close()
        del producer, other
        stage.close()


@pytest.mark.parametrize("width", [1400, 390])
def test_long_names_leave_every_column_in_sight(crowded: Stage, browser: Browser, width: int) -> None:
    pages = [crowded.address(page, page.path) for page in PAGES if page.template]
    pages += [f"/topics/{LONG}", f"/topics/{LONG}/0", f"/topics/{LONG}/0/0", f"/records?topic={LONG}", "/records"]
    pages += ["/group?id=" + "g" * 249, "/group?id=" + LONG, "/find?q=" + "x" * 200, "/find?q=" + quote("界" * 70)]
    pages += ["/group?id=" + quote(WIDE_LETTERS), "/topics/" + "x" * 249]
    for path in pages:
        browser.open(address(crowded.node, path), theme="light", width=width)
        assert browser.run("document.documentElement.scrollWidth") <= width, path
        if width > 1000:
            assert browser.run(WIDE) == [], path
