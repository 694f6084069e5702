"""The page of a cluster that is not well: every column and value of it is compared with what was done to the node.

A wrong one is found: each is altered once.
"""

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from compared import Within, altered, wrong
from console_node import FORM, ConsoleNode, console_node
from degraded import RATE, THROTTLED, be_away, degrade, register_absent
from shown_tables import Shown, tables_of
from stage import flight
from test_pages_are_true import NUMBER, PLANTED, SIZE, check

AWAY_S = Within(300, 900)


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    with console_node(kpybroker_console_write_enable="true") as made:
        made.create("moving")
        made.produce("moving", [flight(number) for number in range(20)])
        degrade(made, "moving")
        yield made


def test_every_column_is_true_and_a_wrong_one_is_found(node: ConsoleNode) -> None:
    away = re.compile(r"fenced, away for 5 min ?Start it again; if it will not come back, unregister it.*Unregister")
    never = re.compile("fenced ?It has registered and serves nobody yet: wait, or read its log..*Unregister")
    address = "PLAINTEXT://127.0.0.1:9"
    here = f"PLAINTEXT://127.0.0.1:{node.node.ports['PLAINTEXT']}"
    absent = ("unknown while it is away", "broker", address, "–")
    own = ("1 this node leads the quorum", "alive", "this page", "broker, controller", here, "–", NUMBER, NUMBER)
    throttled = "Remove the throttle"
    expected = [
        [own, ("7", away, *absent, "0", "0"), ("8", never, *absent, "0", "1")],
        [("moving-0", "1", "8", "1", "unknown", "–", "–", "Cancel the move")],
        [("all brokers", RATE, "200 KiB/s", throttled), ("topic moving", THROTTLED, "*", throttled)],
        [("1", "/data", "working", NUMBER, SIZE, SIZE, "1.0 TiB")],
    ]
    tables = tables_of(node.get("/").text)
    assert len(tables) == len(expected)
    for table, rows in zip(tables, expected, strict=True):
        check(table, rows, exactly=True)
        for number in range(len(table.headings)):
            planted = [[*row[:number], PLANTED, *row[number + 1 :]] for row in table.rows]
            with pytest.raises(AssertionError):
                check(Shown(table.headings, planted), rows, exactly=True)


def test_every_value_is_true_and_a_wrong_one_is_found(node: ConsoleNode) -> None:
    found = node.get("/api/cluster").json
    seven = {
        "id": 7,
        "roles": ["broker"],
        "state": "fenced",
        "away_s": AWAY_S,
        "is_away_longer": False,
        "advice": "Start it again; if it will not come back, unregister it: it has no replicas.",
        "addresses": ["PLAINTEXT://127.0.0.1:9"],
        "rack": None,
        "leaders": 0,
        "replicas": 0,
        "leads_quorum": False,
        "is_here": False,
        "console": None,
        "console_note": "unknown while it is away",
    }
    move = {
        "topic": "moving",
        "partition": 0,
        "leader": 1,
        "adding": [8],
        "removing": [1],
        "total_bytes": Within(500, 50_000),
        "left_bytes": None,
        "left_s": None,
    }
    throttles = [
        {"kind": "broker", "name": "", "config": RATE, "value": "204800"},
        {"kind": "topic", "name": "moving", "config": THROTTLED, "value": "*"},
    ]
    expected = {"node": seven, "moves": [move], "throttles": throttles, "moves_left_out": 0}
    shown = {"node": found["nodes"][1], **{name: found[name] for name in ("moves", "throttles", "moves_left_out")}}
    assert wrong(shown, expected) == ""
    assert [path for path, made in altered(shown) if not wrong(made, expected)] == []
    assert found["health"] == {"state": "warning", "line": "brokers 7 and 8 do not answer the controller"}


def test_a_broker_that_has_come_back_is_not_unregistered_by_an_old_page(node: ConsoleNode) -> None:
    token = node.get("/").text.partition('name="token" value="')[2].partition('"')[0]
    values = {"token": token, "broker": "1", "typed": "1"}
    answer = node.request("POST", "/brokers/unregister", FORM, urlencode(values))
    assert (answer.status, "broker 1 is alive: only one that is away is unregistered here" in answer.text) == (
        400,
        True,
    )


def test_a_longer_absence_is_called_that(node: ConsoleNode) -> None:
    be_away(node, 7, 300, is_older=True)
    assert "fenced, away for more than 5 min" in node.get("/").text
    be_away(node, 7, 300)


@pytest.mark.parametrize(
    ("path", "values", "line"),
    [
        ("/brokers/unregister", {"broker": "7", "typed": "8"}, "type 7 to unregister broker 7"),
        ("/brokers/unregister", {"broker": "9", "typed": "9"}, "BROKER_ID_NOT_REGISTERED"),
        ("/elections", {"kind": "unclean"}, "type unclean to confirm it"),
        ("/elections", {"topic": "moving"}, "fill in both or none"),
        ("/elections", {"topic": "moving", "partition": "0"}, "PREFERRED_LEADER_NOT_AVAILABLE"),
        ("/elections", {"topic": "nowhere", "partition": "0"}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("/elections", {"kind": "random"}, "kind is none of preferred, unclean"),
        ("/moves/cancel", {"topic": "moving", "partition": "5"}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("/throttles/remove", {"kind": "topic", "name": "moving", "config": "retention.ms"}, "no throttle"),
        ("/features", {"feature": "share.version", "level": "1"}, "INVALID_UPDATE_VERSION"),
        ("/features", {"feature": "share.version", "level": "2"}, "is at level 2 already"),
        ("/features", {"feature": "metadata.version", "level": "7", "lower": "1"}, "INVALID_UPDATE_VERSION"),
    ],
)
def test_a_change_that_is_refused_is_shown_on_its_page_in_kafkas_words(
    node: ConsoleNode, path: str, values: dict[str, str], line: str
) -> None:
    token = node.get("/").text.partition('name="token" value="')[2].partition('"')[0]
    answer = node.request("POST", path, FORM, urlencode({"token": token, **values}))
    assert answer.status in (400, 404), answer.text
    shown = re.search(r'role="alert" id="refused">([^<]*)', answer.text)
    assert shown is not None
    assert line in shown[1]
    for name in ("typed", "topic", "partition", "level"):
        if name in values and path in ("/brokers/unregister", "/elections", "/features"):
            assert values[name] == "9" or f'value="{values[name]}"' in answer.text, "what was typed stays"


def test_a_broker_with_replicas_is_advised_to_lose_them_first(node: ConsoleNode) -> None:
    be_away(node, 8, 30)
    advice = {each["id"]: each["advice"] for each in node.get("/api/cluster").json["nodes"]}
    assert advice[8] == (
        "Start it again; if it will not come back, move its 1 replica to other brokers and unregister it."
    )


def test_a_node_that_supports_less_is_named_as_the_limit() -> None:
    with console_node() as made:
        register_absent(made, 7)
        rows = {each["name"]: each for each in made.get("/api/quorum").json["features"]}
        assert {each["limit"] for each in rows.values()} == {""}
        assert not made.get("/api/quorum").json["may_change"], "this console only reads"
        assert '<form method="post"' not in made.get("/quorum").text + made.get("/").text
