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

from kpybroker.config.own_configs import BALANCER_MODE, BALANCER_MOVES
from kpybroker.machines.metadata.image import BROKER_RESOURCE
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
    name, form = "retention.ms", "/topics/flights/configs"
    usual = person.client.config("flights", name)
    person.open("/topics/flights")
    person.press(form, "Set", {"name": name, "value": "7 days 1"}, status=400)
    assert "7 days 1" in person.typed, "what was typed stays"
    person.press(form, "Set", {"name": name, "value": "3 days"})
    assert person.client.config("flights", name) == "259200000"
    person.press(form, "Change", {"value": "no limit"}, of_config=name)
    assert person.client.config("flights", name) == "-1"
    person.press(form, "Remove", of_config=name)
    assert person.client.config("flights", name) == usual


def changes_a_config_of_a_node(person: Person) -> None:
    name = "log.retention.ms"
    person.open("/configs")
    person.press("/configs", "Set", {"name": name, "value": "a week"}, status=400)
    assert "a week" in person.typed, "what was typed stays"
    person.press("/configs", "Set", {"name": name, "value": "1 week"}, ticked="everywhere")
    assert person.client.node_config(name) == "604800000"
    person.press("/configs", "Change", {"value": "7 x"}, of_config=name, status=400)
    assert "7 x" in person.typed
    person.press("/configs", "Change", {"value": "no limit"}, of_config=name)
    assert person.client.node_config(name) == "-1"
    assert "the default of all brokers" in person.shown
    person.press("/configs", "Remove", of_config=name)
    assert person.client.node_config(name) == "None"
    person.press("/configs", "Set", {"name": name, "value": "2 days"})
    assert person.client.node_config(name) == "172800000"
    person.press("/configs", "Remove", of_config=name)


def adds_partitions(person: Person) -> None:
    person.node.create("small")
    person.open("/topics/small")
    form = "/topics/small/partitions"
    assert person.press(form, "Add partitions", {"count": "3"}) == "/topics/small"
    assert person.client.partitions("small") == 3


def deletes_records(person: Person) -> None:
    person.node.create("old", 2)
    for partition in (0, 1):
        person.node.produce("old", [Record(value=b"v%d" % n, timestamp=1) for n in range(5)], partition)
    form = "/topics/old/records/delete"
    person.open("/topics/old")
    person.press(form, "Delete records", {"before": "4"}, status=400)
    assert "choose the partition" in person.shown
    person.press(form, "Delete records", {"partition": "1", "before": "9"}, status=400)
    assert "OFFSET_OUT_OF_RANGE" in person.shown
    person.press(form, "Delete records", {"partition": "1", "before": "4"})
    left = {(each.partition(), each.offset()) for each in person.client.records("old", 6)}
    assert left == {*((0, offset) for offset in range(5)), (1, 4)}
    person.press(form, "Delete records", {"before": "all"})
    assert person.client.records("old", 0) == []


def deletes_a_topic(person: Person) -> None:
    person.node.create("unwanted")
    form = "/topics/unwanted/delete"
    person.open("/topics/unwanted")
    person.press(form, "Delete the topic", {"confirm": "unwante"}, status=400)
    assert "unwante" in person.typed
    assert person.client.partitions("unwanted") == 1
    assert person.press(form, "Delete the topic", {"confirm": "unwanted"}) == "/topics"
    assert person.client.partitions("unwanted") == 0
    assert "unwanted" not in person.shown


def produces_records(person: Person) -> None:
    form, page = "/topics/flights/records", "/records/produce?topic=flights"
    person.open(page)
    person.press(form, "Produce", {"key": "LX2", "value": "by hand", "headers": "gate=7", "partition": "1"})
    person.open(page)
    person.press(form, "Produce", {"key": "LX2", "partition": "1"}, ticked="null_value")
    person.open(page)
    person.press(form, "Produce", {"value": "00 ff", "value_as": "hex", "partition": "1"})
    person.open("/records?topic=flights&partition=1")
    person.browser.click("document.querySelector('details.opened > summary')")
    again = (
        "[...document.querySelectorAll('details.opened[open] a')].find((each) => each.textContent.includes('again'))"
    )
    person.browser.follow_click(again)
    person.press(form, "Produce")
    found = person.client.records("flights", 4)
    assert [(each.partition(), each.key(), each.value(), each.headers()) for each in found] == [
        (1, b"LX2", b"by hand", [("gate", b"7")]),
        (1, b"LX2", None, None),
        (1, None, b"\x00\xff", None),
        (1, None, b"\x00\xff", None),
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


def sets_the_mode_of_the_balancer(person: Person) -> None:
    def mode() -> str:
        return str(person.node.node.image.configs_of(BROKER_RESOURCE, "").get(BALANCER_MODE))

    person.open("/balance")
    assert person.press("/balance", "Set the mode", {"mode": "advise"}) == "/balance"
    eventually(lambda: mode() == "advise", "the mode is set")
    assert person.press("/balance", "Set the mode", {"mode": "off"}) == "/balance"
    eventually(lambda: mode() == "off", "the mode is off")


def stops_the_balancer(person: Person) -> None:
    def configs() -> dict[str, str]:
        return dict(person.node.node.image.configs_of(BROKER_RESOURCE, ""))

    person.node.create("wandering")
    register_absent(person.node, 9)
    move(person.node, "wandering", 9)
    noted = person.node.post("/configs", name=BALANCER_MOVES, value="wandering:0", everywhere=True)
    assert noted.status == 200, "as if the balancer had begun the move"
    person.open("/balance")
    person.press("/balance", "Set the mode", {"mode": "auto"})
    eventually(lambda: configs().get(BALANCER_MODE) == "auto", "the mode is set")
    for width in (1400, 390):
        person.browser.resize(width, 844)
        assert person.browser.run("document.documentElement.scrollWidth") <= width
        assert {"Stop, and cancel its moves", "Set the mode"} <= buttons(person)
    assert person.press("/balance/stop", "Stop, and cancel its moves") == "/balance"
    eventually(lambda: configs().get(BALANCER_MODE) == "advise", "the mode is advise")
    image = person.node.node.image
    eventually(lambda: image.topics["wandering"].partitions[0].replicas == (1,), "its move is cancelled", 60)
    eventually(lambda: not configs().get(BALANCER_MOVES), "the note of its moves is gone", 60)
    assert "Stop, and cancel its moves" not in buttons(person)
    assert person.press("/balance", "Set the mode", {"mode": "off"}) == "/balance"


def buttons(person: Person) -> set[str]:
    found: list[str] = person.browser.run(
        "[...document.querySelectorAll('main button')].map((each) => each.textContent)"
    )
    return set(found)


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
    person.browser.click("document.querySelector('details.filter > summary')")
    texts = {"text": "gate [0-9]", "kind": "regex", "where": "header", "header": "source", "partition": "0"}
    person.press("/records", "Filter", texts, ticked="ignore_case", method="get")
    see = person.press("/searches", "Search all records")
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


def sets_positions(person: Person) -> None:
    person.node.produce("flights", [Record(value=b"v", timestamp=1)] * 5)
    person.node.commit("resetting", "flights", 4)
    person.open("/group?id=resetting")
    status, _ = person.browser.follow_click("document.querySelector('#change ~ p a')")
    assert status == 200
    texts = {"to": "some", "value": "-3", "topic": "flights", "partition": "0"}
    assert person.press("/group/reset", "Preview", texts, method="get") == "/group/reset"
    assert "flights-0\t4\t1\t-3" in person.shown
    assert person.client.position("resetting", "flights") == 4, "a preview changes nothing"
    assert person.press("/group/reset", "Set 1 position") == "/group"
    assert person.client.position("resetting", "flights") == 1


def removes_members(person: Person) -> None:
    with person.node.client as member:
        person.node.join(member, "leaving")
        person.open("/group?id=leaving")
        assert person.press("/group/members/remove", "Remove") == "/group"
    assert person.client.groups()["leaving"] == "EMPTY"


def deletes_positions(person: Person) -> None:
    person.node.commit("moving", "flights", 1)
    person.open("/group?id=moving")
    person.press("/group/positions/delete", "Delete these positions")
    assert person.client.position("moving", "flights") is None


def deletes_a_group(person: Person) -> None:
    person.node.commit("ending", "flights", 1)
    person.open("/group?id=ending")
    person.press("/group/delete", "Delete the group", {"typed": "end"}, status=400)
    assert "type the id of the group" in person.shown
    assert "ending" in person.client.groups()
    assert person.press("/group/delete", "Delete the group", {"typed": "ending"}) == "/groups"
    assert "ending" not in person.client.groups()


def full(person: Person) -> str:
    """The address of a search that has found enough."""
    see: str = person.node.post("/searches", topic="crowded", text="same").json["see"]
    eventually(lambda: person.node.get(f"/api{see}").json["may_go_on"], "the search has found enough")
    return see


DEEDS: dict[str, Callable[[Person], None]] = {
    "/topics": creates_a_topic,
    "/topics/{topic}/configs": changes_a_config,
    "/configs": changes_a_config_of_a_node,
    "/topics/{topic}/partitions": adds_partitions,
    "/topics/{topic}/records/delete": deletes_records,
    "/topics/{topic}/delete": deletes_a_topic,
    "/topics/{topic}/records": produces_records,
    "/transactions/abort": aborts_a_transaction,
    "/group/reset": sets_positions,
    "/group/members/remove": removes_members,
    "/group/positions/delete": deletes_positions,
    "/group/delete": deletes_a_group,
    "/balance": sets_the_mode_of_the_balancer,
    "/balance/stop": stops_the_balancer,
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
    "/configs": Forged("/configs", {"name": "log.retention.ms", "value": "1"}, 403),
    "/topics/{topic}/partitions": Forged("/topics/open/partitions", {"count": "9"}, 403),
    "/topics/{topic}/records/delete": Forged("/topics/open/records/delete", {"before": "all"}, 403),
    "/topics/{topic}/delete": Forged("/topics/open/delete", {"confirm": "open"}, 403),
    "/topics/{topic}/records": Forged("/topics/open/records", {"value": "forged"}, 403),
    "/transactions/abort": Forged("/transactions/abort", {"transactional_id": "payments"}, 403),
    "/group/reset": Forged("/group/reset", {"id": "of-closed", "plan": "closed,0,0"}, 403),
    "/group/members/remove": Forged("/group/members/remove", {"id": "of-closed"}, 403),
    "/group/positions/delete": Forged("/group/positions/delete", {"id": "of-open", "topic": "open"}, 403),
    "/group/delete": Forged("/group/delete", {"id": "of-open", "typed": "of-open"}, 403),
    "/balance": Forged("/balance", {"mode": "auto"}, 403),
    "/balance/stop": Forged("/balance/stop", {}, 403),
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
        client.partitions("open"),
        client.config("open", "cleanup.policy"),
        client.node_config("log.retention.ms"),
        [each.value() for each in client.records("open", 1)],
        client.position("of-open", "open"),
        client.position("of-closed", "closed"),
    )


def test_a_viewer_gets_no_buttons_for_forbidden_actions(browser: Browser, secured: ConsoleNode) -> None:  # noqa: F811
    person = Person(browser, secured, login="ann:a@")
    before = unchanged(person.client)
    search = ask(secured, "root", "/api/searches", "POST", '{"topic": "open", "text": "v"}').json["see"]
    search = search.rpartition("/")[2]
    for page in (
        "/topics",
        "/topics/open",
        "/records?topic=open&key=v",
        "/records/produce?topic=open",
        "/transactions",
        "/group?id=of-open",
    ):
        person.open(page)
        assert person.offered <= {"/searches"}, page
    for forged in FORGED.values():
        address = forged.address.replace("{search}", search)
        status, shown = forge(person, forged._replace(address=address), "/records?topic=open&key=v")
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
    assert "payments" in person.shown
    assert person.offered == set()
    status, shown = forge(person, FORGED["/transactions/abort"], "/records?topic=open&key=v")
    assert (status, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in shown) == (403, True)
    producer.commit_transaction(30)
    assert len(person.client.records("open", 4, committed=True)) == 4


def test_a_console_that_only_reads_offers_searches_and_refuses_the_rest(browser: Browser) -> None:
    with console_node() as node:
        node.create("open")
        node.produce("open", [Record(value=b"v", timestamp=1)])
        person = Person(browser, node)
        before = unchanged(person.client)
        for page in (
            "/topics",
            "/topics/open",
            "/records?topic=open&key=v",
            "/records/produce?topic=open",
            "/transactions",
        ):
            person.open(page)
            assert person.offered <= {"/searches"}, page
        for action in ACTIONS:
            if action.is_change:
                status, shown = forge(person, FORGED[action.path], "/records?topic=open&key=v")
                assert (status, "kpybroker.console.write.enable" in shown) == (403, True), action
        assert unchanged(person.client) == before
