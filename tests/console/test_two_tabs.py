"""Two tabs of two people that change the same thing: the second one is refused in one line, or counts as the last."""

from collections.abc import Iterator

import pytest
from console_node import ConsoleNode, console_node
from person import Person
from running_search import running_search
from test_transactions_page import open_transaction

from support.browser import Browser
from support.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    with console_node(kpybroker_console_write_enable="true") as made:
        made.create("flights")
        yield made


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory, node: ConsoleNode) -> Iterator[tuple[Person, Person]]:
    with Browser(tmp_path_factory.mktemp("one")) as one, Browser(tmp_path_factory.mktemp("two")) as two:
        yield Person(one, node), Person(two, node)


def test_a_topic_is_created_once_and_the_second_form_is_kept(people: tuple[Person, Person]) -> None:
    first, second = people
    for each in people:
        each.open("/topics")
    assert first.press("/topics", "Create", {"name": "made", "partitions": "2"}) == "/topics/made"
    second.press("/topics", "Create", {"name": "made", "partitions": "3"}, status=409)
    assert "TOPIC_ALREADY_EXISTS" in second.shown
    assert second.browser.run("document.querySelector('[name=partitions]').value") == "3"
    assert first.client.partitions("made") == 2


def test_the_last_value_of_a_config_counts_and_its_page_shows_it(people: tuple[Person, Person]) -> None:
    form, name = "/topics/flights/configs", "cleanup.policy"
    for each in people:
        each.open("/topics/flights")
    for each, value in zip(people, ("compact", "compact,delete"), strict=True):
        each.press(form, "Set", {"value": value}, of_config=name)
    assert people[0].client.config("flights", name) == "compact,delete"
    people[0].press(form, "Remove", of_config=name)
    assert people[1].client.config("flights", name) == "delete"


def test_a_transaction_is_aborted_once(node: ConsoleNode, people: tuple[Person, Person]) -> None:
    producer = open_transaction(node, "payments", "flights")
    for each in people:
        each.open("/transactions?q=payments")
    people[0].press("/transactions/abort", "Abort, and fence the producer")
    eventually(lambda: node.get("/api/transactions").json["pins"] == [], "the transaction has ended")
    people[1].press("/transactions/abort", "Abort, and fence the producer", status=400)
    assert "has no open transaction" in people[1].shown
    del producer


def test_a_search_that_another_tab_has_cancelled_is_shown_as_cancelled(
    node: ConsoleNode, people: tuple[Person, Person]
) -> None:
    with running_search(node, "flights") as see:
        for each in people:
            each.open(see)
        people[0].press(f"{see}/cancel", "Cancel")
        people[1].press(f"{see}/cancel", "Cancel")
        assert "Cancelled" in people[1].shown
