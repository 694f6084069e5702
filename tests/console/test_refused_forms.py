"""A form that is refused: the page says why, and keeps what was typed."""

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from console_node import FORM, ConsoleNode, Reply, console_node

from kpybroker.monitoring.console.actions import ACTIONS
from kpybroker.monitoring.console.pages import PAGES


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    with console_node(kpybroker_console_write_enable="true") as made:
        made.create("flights", 2)
        yield made


def sent(node: ConsoleNode, path: str, **values: str) -> Reply:
    token = node.get("/topics").text.partition('name="token" value="')[2].partition('"')[0]
    return node.request("POST", path, FORM, urlencode({"token": token, **values}))


def test_a_refused_topic_keeps_its_form(node: ConsoleNode) -> None:
    answer = sent(node, "/topics", name="a b", partitions="7", configs="retention.ms=1\nx<y=2")
    assert answer.status == 400
    assert 'role="alert" id="refused"' in answer.text
    assert "INVALID_TOPIC_EXCEPTION" in answer.text
    assert 'name="name" required maxlength="249" autocomplete="off" value="a b"' in answer.text
    assert 'value="7"' in answer.text
    assert "retention.ms=1\nx&lt;y=2</textarea>" in answer.text
    assert "data-every" not in answer.text, "a page that fetches itself again would lose what was typed"


def test_of_many_forms_only_the_refused_one_keeps_what_was_typed(node: ConsoleNode) -> None:
    answer = sent(node, "/topics/flights/configs", name="retention.ms", value="a week")
    assert answer.status == 400
    assert answer.text.count('value="a week"') == 1


def test_a_refused_search_and_a_refused_record_stay_open(node: ConsoleNode) -> None:
    search = sent(node, "/searches", topic="flights", text="(", kind="regex", where="key", ignore_case="1")
    assert search.status == 400
    assert '<details class="filter" open>' in search.text
    chosen = ('<option value="regex" selected>', '<option value="key" selected>')
    for part in ('value="("', *chosen, 'name="ignore_case" value="1" checked'):
        assert part in search.text, part
    record = sent(node, "/topics/flights/records", topic="flights", key="k", value="v<", headers="none")
    assert record.status == 400
    assert "<h1>Produce to" in record.text
    assert "\nv&lt;</textarea>" in record.text
    assert "\nnone</textarea>" in record.text


def test_a_refused_filter_keeps_its_form_and_names_the_reason(node: ConsoleNode) -> None:
    answer = node.get("/records", topic="flights", json="$.from = 1", key="<k", start="offset", offset="7")
    assert answer.status == 400
    assert "JSON path: ==, !=, &lt;, &lt;=, &gt;, &gt;=, contains or and is expected, not &#39;= 1&#39;" in answer.text
    for part in ('value="$.from = 1"', 'value="&lt;k"', 'value="7"', '<option value="offset" selected>'):
        assert part in answer.text, part
    api = node.get("/api/records", topic="flights", json="$.from = 1")
    assert (api.status, list(api.json)) == (400, ["error"])


def test_a_topic_that_is_not_there_can_be_typed_again(node: ConsoleNode) -> None:
    answer = node.get("/records", topic="flihgts")
    assert (answer.status, 'value="flihgts"' in answer.text) == (404, True)
    assert '<option value="flights">' in answer.text


def test_a_refused_deletion_of_a_group_keeps_what_was_typed(node: ConsoleNode) -> None:
    node.commit("kept", "flights", 0)
    answer = sent(node, "/group/delete", id="kept", typed="kep<t")
    assert answer.status == 400
    assert "nothing is deleted: type the id of the group, kept, to confirm" in answer.text
    assert 'value="kep&lt;t"' in answer.text


def test_a_refused_reset_shows_the_preview_again(node: ConsoleNode) -> None:
    node.commit("kept", "flights", 0)
    answer = sent(node, "/group/reset", id="kept", plan="flights,9,0", to="offset", value="0", topic="flights")
    assert answer.status == 404
    assert "flights-9 to 0: UNKNOWN_TOPIC_OR_PARTITION" in answer.text
    assert '<option value="offset" selected>' in answer.text
    assert "Set 2 positions" in answer.text


def test_every_form_of_a_page_names_the_page_that_shows_a_refusal() -> None:
    paths = {page.path for page in PAGES}
    without = {action.path for action in ACTIONS if not action.shown_on}
    assert without == {"/searches/{search}/more", "/searches/{search}/cancel"}, "they have no field"
    assert {action.shown_on for action in ACTIONS if action.shown_on} <= paths


@pytest.mark.parametrize("path", ["/configs", "/topics/flights/configs"])
def test_a_name_that_no_request_can_hold_is_refused_in_one_line(node: ConsoleNode, path: str) -> None:
    answer = sent(node, path, name="x" * 200_000, value="1")
    assert answer.status == 400
    assert "a string of 200000 bytes is too long" in answer.text
