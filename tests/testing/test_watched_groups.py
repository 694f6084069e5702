"""Consumer groups as a test waits for them, looks at them and lets time pass for them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer
from kafka import KafkaConsumer

from kpybroker.client.connection import BrokerConnection
from kpybroker.testing import Broker, assert_committed, wait_for_group_stable
from kpywire import error_codes
from kpywire.messages.find_coordinator import FindCoordinatorRequest

TOPIC = "orders"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic(TOPIC, partitions=4)
        yield broker


@contextmanager
def consuming(broker: Broker, *client_ids: str, **options: Any) -> Iterator[None]:
    """Consumers in threads, in group "g"; they commit what they have read before they go."""
    over = threading.Event()

    def consume(client_id: str) -> None:
        consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=broker.bootstrap_servers,
            client_id=client_id,
            group_id="g",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=50,
            auto_commit_interval_ms=50,
            **options,
        )
        while not over.is_set():
            # It asks for metadata every 100 ms; a poll that ends just then can lose the answer to its SyncGroup.
            consumer.poll(370)
        consumer.close()

    threads = [threading.Thread(target=consume, args=(client_id,)) for client_id in client_ids]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(30)


def test_members_assignments_commits_and_lag_are_seen(broker: Broker) -> None:
    broker.produce(TOPIC, *[(f"key {number}", "v") for number in range(20)])
    assert broker.group("g").state == "Dead"
    with consuming(broker, "one", "two"):
        group = wait_for_group_stable(broker, "g", members=2, topics=[TOPIC])
        assert set(group.owners.values()) == {"one", "two"}
        assert set(group.owners) == {(TOPIC, partition) for partition in range(4)}
        assert group.protocol
        ends = {(TOPIC, index): len(broker.records(TOPIC, partition=index)) for index in range(4)}
        committed = assert_committed(broker, "g", ends)
    assert sum(committed.values()) == 20
    assert broker.group("g").state == "Empty"
    assert set(broker.lag("g").values()) == {0}
    broker.produce(TOPIC, "more", partition=3)
    assert broker.lag("g")[TOPIC, 3] == 1
    with pytest.raises(AssertionError, match=r"- orders-3: 99\n\+ orders-3: \d"):
        assert_committed(broker, "g", {**ends, (TOPIC, 3): 99}, timeout_s=0.0)


def test_groups_of_the_consumer_protocol_are_waited_for_alike(broker: Broker) -> None:
    broker.produce(TOPIC, "a", "b", partition=0)
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "client.id": "one"}
    consumer = Consumer({**config, "group.protocol": "consumer", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([TOPIC])
        consumer.poll(0.1)
        group = broker.wait_for_group_stable("g", members=1, topics=[TOPIC])
        assert (group.type, group.protocol, group.epoch) == ("consumer", "uniform", 2)
        assert [(member.client_id, member.epoch, len(member.partitions)) for member in group.members] == [("one", 2, 4)]
        read = 0
        while read < 2:
            read += len(consumer.consume(2, 1.0))
        consumer.commit(asynchronous=False)
        assert broker.committed("g")[TOPIC, 0] == 2
    finally:
        consumer.close()
    assert (broker.group("g").state, broker.lag("g")[TOPIC, 0]) == ("Empty", 0)


def test_a_group_that_does_not_become_stable_is_shown(broker: Broker) -> None:
    with pytest.raises(AssertionError, match=r"not Stable with 1 members; nobody reads orders-0(.|\n)*group g: Dead"):
        broker.wait_for_group_stable("g", members=1, topics=[TOPIC], timeout_s=0.05)


def test_members_whose_session_is_over_are_gone_without_waiting(broker: Broker) -> None:
    with consuming(broker, "one"):
        before = broker.wait_for_group_stable("g", members=1, topics=[TOPIC]).members[0].id
        broker.clock.advance(minutes=30)
        after = broker.wait_for_group_stable("g", members=1, topics=[TOPIC]).members[0].id
        assert after != before, "it lost its place and joined again"


def test_a_snapshot_keeps_what_a_group_has_committed(broker: Broker) -> None:
    broker.produce(TOPIC, "a", "b", partition=0)
    kept = {(TOPIC, 0): 2, (TOPIC, 1): 0, (TOPIC, 2): 0, (TOPIC, 3): 0}
    with consuming(broker, "one"):
        broker.assert_committed("g", kept)
    snapshot = broker.snapshot()
    broker.produce(TOPIC, "c", partition=0)
    with consuming(broker, "one"):
        broker.assert_committed("g", {**kept, (TOPIC, 0): 3})
    broker.restore(snapshot)
    broker.assert_committed("g", kept)


def test_a_fault_of_a_group_is_met_by_its_members(broker: Broker) -> None:
    fault = broker.faults.fail("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS", times=2)
    with consuming(broker, "one", retry_backoff_ms=10):
        broker.wait_for_group_stable("g", members=1, topics=[TOPIC])
    assert fault.hits == 2


def test_offsets_of_a_group_that_is_gone_expire_without_waiting(broker: Broker) -> None:
    broker.produce(TOPIC, "a", partition=0)
    with consuming(broker, "one"):
        broker.wait_for_group_stable("g", members=1, topics=[TOPIC])
    assert broker.committed("g")
    broker.clock.advance(days=6)
    assert broker.committed("g")
    broker.clock.advance(days=2)
    assert broker.committed("g") == {}
    assert broker.group("g").state == "Dead"


def test_the_first_question_for_a_coordinator_is_answered_with_one(broker: Broker) -> None:
    client = BrokerConnection(broker.host, broker.port, 20.0)
    for group in ("g", "h"):
        answer = client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]))
        (found,) = answer.coordinators
        assert (found.error_code, found.port) == (error_codes.NONE, broker.port)
    client.close()


def test_a_question_about_groups_is_answered_even_if_groups_cannot_be_stored() -> None:
    with Broker({"offsets.topic.replication.factor": 3}) as broker:
        client = BrokerConnection(broker.host, broker.port, 20.0)
        answer = client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        client.close()
        assert answer.coordinators[0].error_code == error_codes.COORDINATOR_NOT_AVAILABLE


def test_no_commit_is_expected_as_none(broker: Broker) -> None:
    broker.assert_committed("nobody", {(TOPIC, 0): None}, timeout_s=0.0)
    with consuming(broker, "one"):
        broker.assert_committed("g", {(TOPIC, index): 0 for index in range(4)})
    with pytest.raises(AssertionError, match=r"expected:\n\+ \w+-0: 0\n  \w+-1: 0"):
        broker.assert_committed("g", {(TOPIC, 0): None, **{(TOPIC, index): 0 for index in range(1, 4)}}, timeout_s=0.0)
