"""Every action of the console, done by a person in a real browser: a Kafka client sees its effect, or that it has none.

`ACTIONS` is the console's own table of what it changes. An action that is not done here fails a test.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaException
from console_node import ConsoleNode, console_node
from degraded import THROTTLED, TOPIC, move, register_absent, throttle
from person import Client, Person
from running_search import running_search
from test_access import ask, secured  # noqa: F401 - the latter is a fixture
from test_transactions_page import open_transaction

from kpybroker.monitoring.console.actions import ACTIONS
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.record import Record
from support.browser import Browser
from support.waiting import eventually

pytestmark = pytest.mark.slow
TRANSACTIONAL_ID, LITERAL, DESCRIBE, ALLOW = 5, 3, 8, 3
MANY = 500
"""More records than one search finds."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    with console_node(kpybroker_console_write_enable="true") as made:
        made.create("flights", 2)
        made.create("crowded")
        made.produce("crowded", [Record(value=b"same", timestamp=1)] * MANY)
        yield made


def creates_a_topic(person: Person) -> None:
    person.open("/topics")
    texts = {"name": "made", "partitions": "2", "replication_factor": "1", "configs": "retention.ms=1000"}
    assert person.press("/topics", "Create", texts) == "/topics/made"
    assert person.client.partitions("made") == 2
    assert person.client.config("made", "retention.ms") == "1000"


def changes_a_config(person: Person) -> None:
    name, form = "cleanup.policy", "/topics/flights/configs"
    usual = person.client.config("flights", name)
    person.open("/topics/flights")
    person.press(form, "Set", {"value": "compact"}, of_config=name)
    assert person.client.config("flights", name) == "compact"
    person.press(form, "Remove", of_config=name)
    assert person.client.config("flights", name) == usual


def produces_records(person: Person) -> None:
    person.open("/records?topic=flights")
    form = "/topics/flights/records"
    person.press(form, "Produce", {"key": "LX2", "value": "by hand", "headers": "gate=7", "partition": "1"})
    person.press(form, "Produce", {"key": "LX2", "partition": "1"}, ticked="null_value")
    found = person.client.records("flights", 2)
    assert [(each.partition(), each.key(), each.value(), each.headers()) for each in found] == [
        (1, b"LX2", b"by hand", [("gate", b"7")]),
        (1, b"LX2", None, None),
    ]


def aborts_a_transaction(person: Person) -> None:
    person.node.create("paid")
    producer = open_transaction(person.node, "payments", "paid")
    person.open("/transactions?q=payments")
    person.press("/transactions/abort", "Abort, and fence the producer")
    with pytest.raises(KafkaException, match="fenced"):
        producer.commit_transaction(30)
    eventually(lambda: person.node.get("/api/transactions").json["pins"] == [], "the transaction has ended")
    assert person.client.records("paid", 0, committed=True) == []


def unregisters_a_broker(person: Person) -> None:
    register_absent(person.node, 7)
    person.open("/")
    person.press("/brokers/unregister", "Unregister", {"typed": "8"}, status=400)
    assert "type 7 to unregister broker 7" in person.shown
    assert person.press("/brokers/unregister", "Unregister", {"typed": "7"}) == "/"
    eventually(lambda: 7 not in person.node.node.image.brokers, "broker 7 is forgotten")


def elects_leaders(person: Person) -> None:
    person.open("/")
    assert person.press("/elections", "Elect") == "/"
    person.press("/elections", "Elect", {"topic": "flights", "partition": "1"}, status=400)
    assert "flights-1: ELECTION_NOT_NEEDED" in person.shown
    person.press("/elections", "Elect", {"kind": "unclean", "typed": "no"}, status=400)
    assert "type unclean to confirm it" in person.shown


def cancels_a_move(person: Person) -> None:
    person.node.create("moved")
    register_absent(person.node, 9)
    move(person.node, "moved", 9)
    person.open("/")
    assert person.press("/moves/cancel", "Cancel the move") == "/"
    eventually(lambda: person.node.node.image.topics["moved"].partitions[0].replicas == (1,), "the move is cancelled")


def removes_a_throttle(person: Person) -> None:
    throttle(person.node, TOPIC, "flights", THROTTLED, "*")
    assert person.client.config("flights", THROTTLED) == "*"
    person.open("/")
    assert person.press("/throttles/remove", "Remove the throttle") == "/"
    assert person.client.config("flights", THROTTLED) == ""


def changes_the_level_of_a_feature(person: Person) -> None:
    name = "eligible.leader.replicas.version"  # the first of the page
    features = person.node.node.image.features
    person.open("/quorum")
    person.press("/features", "Set the level", {"level": "0"}, status=400)
    assert "without setting the upgrade type" in person.shown
    assert features[name] == 1
    assert person.press("/features", "Set the level", {"level": "0"}, ticked="lower") == "/quorum"
    eventually(lambda: name not in features, "the level is lower")
    assert person.press("/features", "Set the level", {"level": "1"}) == "/quorum"
    eventually(lambda: features.get(name) == 1, "the level is as before")


def searches(person: Person) -> None:
    person.node.create("searched")
    headers = (("source", b"Gate 7"),)
    person.node.produce("searched", [Record(value=b"v", timestamp=1), Record(value=b"w", timestamp=1, headers=headers)])
    person.open("/records?topic=searched")
    texts = {"text": "gate [0-9]", "kind": "regex", "where": "header", "partition": "0"}
    see = person.press("/searches", "Search", texts, ticked="ignore_case")
    eventually(lambda: person.node.get(f"/api{see}").json["state"] == "done", "the search ends")
    assert [each["offset"] for each in person.node.get(f"/api{see}").json["records"]] == [1]


def searches_on(person: Person) -> None:
    see = full(person)
    person.open(see)
    behind = person.press(f"{see}/more", "Search on")
    assert behind != see
    eventually(lambda: person.node.get(f"/api{behind}").json["records"], "the search goes on")
    first, second = (person.node.get(f"/api{each}").json["records"] for each in (see, behind))
    assert min(each["offset"] for each in second) > max(each["offset"] for each in first)


def cancels_a_search(person: Person) -> None:
    with running_search(person.node, "crowded") as see:
        person.open(see)
        assert person.press(f"{see}/cancel", "Cancel") == see
        assert person.node.get(f"/api{see}").json["state"] == "cancelled"


def full(person: Person) -> str:
    """The address of a search that has found enough."""
    see: str = person.node.post("/searches", topic="crowded", text="same").json["see"]
    eventually(lambda: person.node.get(f"/api{see}").json["may_go_on"], "the search has found enough")
    return see


DEEDS: dict[str, Callable[[Person], None]] = {
    "/topics": creates_a_topic,
    "/topics/{topic}/configs": changes_a_config,
    "/topics/{topic}/records": produces_records,
    "/transactions/abort": aborts_a_transaction,
    "/brokers/unregister": unregisters_a_broker,
    "/elections": elects_leaders,
    "/moves/cancel": cancels_a_move,
    "/throttles/remove": removes_a_throttle,
    "/features": changes_the_level_of_a_feature,
    "/searches": searches,
    "/searches/{search}/more": searches_on,
    "/searches/{search}/cancel": cancels_a_search,
}


def test_every_action_of_the_console_is_done_in_a_browser() -> None:
    assert set(DEEDS) == {action.path for action in ACTIONS}
    assert set(FORGED) == set(DEEDS)


@pytest.mark.parametrize("path", DEEDS)
def test_an_action_in_a_browser_has_its_effect_for_clients(browser: Browser, node: ConsoleNode, path: str) -> None:
    DEEDS[path](Person(browser, node))


# Viewers who may not


class Forged(NamedTuple):
    """The form of an action whose button a viewer does not get: its address, its fields, and the answer."""

    address: str
    fields: dict[str, str]
    status: int


FORGED = {
    "/topics": Forged("/topics", {"name": "forged"}, 403),
    "/topics/{topic}/configs": Forged("/topics/open/configs", {"name": "cleanup.policy", "value": "compact"}, 403),
    "/topics/{topic}/records": Forged("/topics/open/records", {"value": "forged"}, 403),
    "/transactions/abort": Forged("/transactions/abort", {"transactional_id": "payments"}, 403),
    "/brokers/unregister": Forged("/brokers/unregister", {"broker": "1", "typed": "1"}, 403),
    "/elections": Forged("/elections", {"kind": "preferred"}, 403),
    "/moves/cancel": Forged("/moves/cancel", {"topic": "open", "partition": "0"}, 403),
    "/throttles/remove": Forged(
        "/throttles/remove", {"kind": "topic", "name": "open", "config": "leader.replication.throttled.replicas"}, 403
    ),
    "/features": Forged("/features", {"feature": "share.version", "level": "0", "lower": "1"}, 403),
    "/searches": Forged("/searches", {"topic": "closed", "text": "v"}, 404),
    "/searches/{search}/more": Forged("/searches/{search}/more", {}, 404),
    "/searches/{search}/cancel": Forged("/searches/{search}/cancel", {}, 404),
}
"""The actions of a viewer who may only read one topic. ``{search}`` is a search of somebody else."""


def forge(person: Person, forged: Forged, page: str) -> tuple[int, str]:
    """Send a form from a page of the console, with the token of that page, as a viewer could who edits the page."""
    person.open(page)
    fields = {**forged.fields, "token": person.browser.run("document.querySelector('[name=token]').value")}
    script = f"""(() => {{
      const form = document.body.appendChild(document.createElement("form"));
      form.method = "post";
      form.action = {json.dumps(forged.address)};
      for (const [name, value] of Object.entries({json.dumps(fields)})) {{
        const field = form.appendChild(document.createElement("input"));
        [field.type, field.name, field.value] = ["hidden", name, value];
      }}
      form.appendChild(document.createElement("button")).click();
      return true;
    }})()"""
    status, _ = person.browser.follow(script)
    return status, person.shown


def unchanged(client: Client) -> Any:
    """Everything that the actions would change."""
    return (
        client.partitions("forged"),
        client.config("open", "cleanup.policy"),
        [each.value() for each in client.records("open", 1)],
    )


def test_a_viewer_gets_no_buttons_for_forbidden_actions(browser: Browser, secured: ConsoleNode) -> None:  # noqa: F811
    person = Person(browser, secured, login="ann:a@")
    before = unchanged(person.client)
    search = ask(secured, "root", "/api/searches", "POST", '{"topic": "open", "text": "v"}').json["see"]
    search = search.rpartition("/")[2]
    for page in ("/topics", "/topics/open", "/records?topic=open", "/transactions"):
        person.open(page)
        assert person.offered <= {"/searches"}, page
    for forged in FORGED.values():
        address = forged.address.replace("{search}", search)
        status, shown = forge(person, forged._replace(address=address), "/records?topic=open")
        assert status == forged.status, (address, status, shown)
    assert unchanged(person.client) == before
    assert ask(secured, "root", f"/api/searches/{search}").json["state"] != "cancelled"


def test_a_viewer_with_describe_alone_cannot_abort_a_transaction(browser: Browser, secured: ConsoleNode) -> None:  # noqa: F811
    see = AclCreation(
        resource_type=TRANSACTIONAL_ID,
        resource_name="payments",
        resource_pattern_type=LITERAL,
        principal="User:ann",
        host="*",
        operation=DESCRIBE,
        permission_type=ALLOW,
    )
    with secured.client as client:
        client.call(CreateAclsRequest(creations=[see]), 3)
    producer = open_transaction(secured, "payments", "open")
    person = Person(browser, secured, login="ann:a@")
    eventually(lambda: "payments" in ask(secured, "ann", "/api/transactions").text, "ann sees the transaction")
    person.open("/transactions")
    person.press("/transactions/abort", "Abort, and fence the producer", status=403)
    assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in person.shown
    producer.commit_transaction(30)
    assert len(person.client.records("open", 4, committed=True)) == 4


def test_a_console_that_only_reads_offers_searches_and_refuses_the_rest(browser: Browser) -> None:
    with console_node() as node:
        node.create("open")
        node.produce("open", [Record(value=b"v", timestamp=1)])
        person = Person(browser, node)
        before = unchanged(person.client)
        for page in ("/topics", "/topics/open", "/records?topic=open", "/transactions"):
            person.open(page)
            assert person.offered <= {"/searches"}, page
        for action in ACTIONS:
            if action.is_change:
                status, shown = forge(person, FORGED[action.path], "/records?topic=open")
                assert (status, "kpybroker.console.write.enable" in shown) == (403, True), action
        assert unchanged(person.client) == before
