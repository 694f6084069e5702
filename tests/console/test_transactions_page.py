"""Open transactions on the console: what they hold back, and how one is aborted."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from console_node import ConsoleNode, console_node

from support.waiting import eventually


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    with console_node(kpybroker_console_write_enable="true") as made:
        yield made


def open_transaction(node: ConsoleNode, name: str, topic: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{node.node.ports['PLAINTEXT']}",
            "transactional.id": name,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(topic, b"v")
    producer.flush(30)
    return producer


def row(node: ConsoleNode, name: str) -> Any:
    found = node.get("/api/transactions", q=name).json["transactions"]
    return next((each for each in found if each["transactional_id"] == name), None)


def test_an_open_transaction_is_shown_with_what_it_holds_back_and_can_be_aborted(
    node: ConsoleNode, caplog: pytest.LogCaptureFixture
) -> None:
    node.create("paid")
    node.commit("readers", "paid", 0)
    producer = open_transaction(node, "payments", "paid")
    found = row(node, "payments")
    assert (found["state"], found["partitions"]) == ("Ongoing", ["paid-0"])
    assert found["open_s"] >= 0
    (pin,) = node.get("/api/transactions").json["pins"]
    assert (pin["topic"], pin["transactional_id"], pin["first_offset"], pin["end_offset"]) == ("paid", "payments", 0, 3)
    group = node.get("/api/group", id="readers").json
    assert group["positions"][0]["stable_offset"] == 0
    assert node.get("/api/records", topic="paid", committed=1).json["records"] == []
    assert len(node.get("/api/records", topic="paid").json["records"]) == 3

    with caplog.at_level("INFO", "kpybroker.console"):
        assert node.post("/transactions/abort", transactional_id="payments").status == 200
    assert "User:ANONYMOUS at 127.0.0.1 aborted the transaction of 'payments'" in caplog.text
    eventually(lambda: node.get("/api/transactions").json["pins"] == [], "nothing is held back")
    assert row(node, "payments")["open_s"] is None
    with pytest.raises(KafkaException, match="fenced"):
        producer.commit_transaction(30)
    shown = node.get("/api/records", topic="paid", start="oldest").json["records"]
    assert [each["control"] for each in shown] == [None, None, None, "abort"]


def test_an_id_that_cannot_be_is_refused_by_kafka(node: ConsoleNode) -> None:
    assert node.post("/transactions/abort").status == 400
    assert node.post("/transactions/abort", transactional_id="").status == 400
    unknown = node.post("/transactions/abort", transactional_id="nobody's")
    assert (unknown.status, "TRANSACTIONAL_ID_NOT_FOUND" in unknown.json["error"]) == (404, True)
    assert row(node, "nobody's") is None, "nothing was made"
    ended = node.post("/transactions/abort", transactional_id="payments")
    assert (ended.status, "has no open transaction" in ended.json["error"]) == (400, True)
