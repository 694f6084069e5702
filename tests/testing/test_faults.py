"""Faults on purpose: what a client sees, what the broker did, and whom a fault leaves alone."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from kpybroker.client.connection import BrokerConnection, Unreachable
from kpybroker.testing import Broker
from kpywire import error_codes
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch
from kpywire.uuid import ZERO_UUID

OTHERS_CLIENT_ID = "kpybroker"
BY_NAME = 12
"""The last version of Produce and Fetch that names topics."""


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with Broker() as broker:
        for topic in ("a", "b"):
            broker.create_topic(topic)
        yield broker


@pytest.fixture
def broker(shared: Broker) -> Iterator[Broker]:
    yield shared
    shared.faults.clear()


@pytest.fixture
def client(broker: Broker) -> Iterator[BrokerConnection]:
    """A client that is not the one of this package."""
    connection = BrokerConnection(broker.host, broker.port, 20.0)
    yield connection
    connection.close()


def produce(client: BrokerConnection, *topics: str) -> dict[str, int]:
    """The error code of each topic."""
    part = PartitionProduceData(index=0, records=build_batch([Record(timestamp=1, value=b"v")]))
    wanted = [TopicProduceData(name=topic, topic_id=ZERO_UUID, partition_data=[part]) for topic in topics]
    answer = client.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=wanted), newest=BY_NAME)
    return {topic.name: topic.partition_responses[0].error_code for topic in answer.responses}


def list_offsets(client: BrokerConnection, *topics: str) -> dict[str, int]:
    wanted = [
        ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        for topic in topics
    ]
    answer = client.call(ListOffsetsRequest(replica_id=-1, topics=wanted))
    return {topic.name: topic.partitions[0].error_code for topic in answer.topics}


def metadata(client: BrokerConnection, *topics: str) -> dict[str, int]:
    answer = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic) for topic in topics]))
    return {topic.name: topic.error_code for topic in answer.topics}


def count(broker: Broker, topic: str) -> int:
    return len(broker.records(topic))


ASKING = pytest.mark.parametrize(
    ("api", "ask"), [("Produce", produce), ("ListOffsets", list_offsets), ("Metadata", metadata)]
)


@ASKING
def test_an_error_comes_as_often_as_it_was_asked_for(
    broker: Broker, client: BrokerConnection, api: str, ask: Any
) -> None:
    fault = broker.faults.fail(api, "NOT_LEADER_OR_FOLLOWER", times=2)
    answers = [ask(client, "a")["a"] for _ in range(3)]
    assert answers == [error_codes.NOT_LEADER_OR_FOLLOWER] * 2 + [error_codes.NONE]
    assert fault.hits == 2


@ASKING
def test_an_error_of_one_topic_leaves_the_others_alone(
    broker: Broker, client: BrokerConnection, api: str, ask: Any
) -> None:
    broker.faults.fail(api, "KAFKA_STORAGE_ERROR", topic="a")
    assert ask(client, "a", "b") == {"a": error_codes.KAFKA_STORAGE_ERROR, "b": error_codes.NONE}
    assert ask(client, "b") == {"b": error_codes.NONE}


def test_a_request_that_fails_has_no_effect(broker: Broker, client: BrokerConnection) -> None:
    before = count(broker, "a"), count(broker, "b")
    broker.faults.fail("Produce", "NOT_ENOUGH_REPLICAS", topic="a", times=1)
    produce(client, "a", "b")
    assert (count(broker, "a"), count(broker, "b")) == (before[0], before[1] + 1)


def test_a_fault_can_let_some_pass_and_end_with_a_block(broker: Broker, client: BrokerConnection) -> None:
    with broker.faults.fail("Produce", error_codes.UNKNOWN_SERVER_ERROR, skip=1) as fault:
        assert [produce(client, "a")["a"] for _ in range(3)] == [0, -1, -1]
        assert fault.hits == 2
    assert produce(client, "a") == {"a": 0}


def test_a_fault_of_one_client_leaves_the_others_alone(broker: Broker, client: BrokerConnection) -> None:
    broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", client_id="somebody else")
    assert produce(client, "a") == {"a": 0}
    broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", client_id=OTHERS_CLIENT_ID)
    assert produce(client, "a") == {"a": error_codes.NOT_LEADER_OR_FOLLOWER}


def test_requests_of_the_test_itself_meet_no_faults(broker: Broker) -> None:
    for api in ("Produce", "Fetch", "Metadata", "ListOffsets", "CreateTopics"):
        broker.faults.fail(api, "UNKNOWN_SERVER_ERROR")
    broker.produce("made-beside-faults", "a")
    assert count(broker, "made-beside-faults") == 1


def fetch(client: BrokerConnection, session_id: int = 0, epoch: int = 0, topics: tuple[str, ...] = ("a", "b")) -> Any:
    wanted = [
        FetchTopic(topic=topic, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)])
        for topic in topics
    ]
    request = FetchRequest(
        max_wait_ms=60_000, min_bytes=1, max_bytes=10_000, session_id=session_id, session_epoch=epoch, topics=wanted
    )
    return client.call(request, newest=BY_NAME)


def errors_in(answer: Any) -> dict[str, int]:
    return {topic.topic: topic.partitions[0].error_code for topic in answer.responses}


def test_a_fetch_in_a_session_that_does_not_name_the_topic_fails_for_it(
    broker: Broker, client: BrokerConnection
) -> None:
    produce(client, "b")
    with broker.faults.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="a"):
        first = fetch(client)
        assert errors_in(first) == {"a": error_codes.NOT_LEADER_OR_FOLLOWER, "b": 0}
        following = fetch(client, first.session_id, 1, ())
        assert errors_in(following)["a"] == error_codes.NOT_LEADER_OR_FOLLOWER
        assert (following.error_code, following.session_id) == (0, first.session_id)
    assert not any(errors_in(fetch(client, first.session_id, 2, ())).values())


def test_a_consumer_survives_a_fault_of_its_topic(broker: Broker) -> None:
    broker.produce("consumed", "one")
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        consumer_timeout_ms=20_000,
        retry_backoff_ms=10,
        metadata_max_age_ms=500,
    )
    consumer.assign([TopicPartition("consumed", 0)])
    consumer.seek_to_beginning()
    fault = broker.faults.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="consumed", times=2)
    assert next(consumer).value == b"one"
    assert fault.hits == 2
    consumer.close()


def test_an_answer_is_delayed_by_the_clock_that_the_test_moves(broker: Broker, client: BrokerConnection) -> None:
    fault = broker.faults.delay("Produce", seconds=3600, times=1)
    before = count(broker, "a")
    answered: list[dict[str, int]] = []
    asking = threading.Thread(target=lambda: answered.append(produce(client, "a")))
    asking.start()
    while not fault.hits:
        asking.join(0.005)
    assert count(broker, "a") == before + 1, "what was asked is done at once"
    assert not answered
    broker.clock.advance(minutes=59)
    assert not answered
    broker.clock.advance(minutes=1)
    asking.join(10)
    assert answered == [{"a": 0}]


def test_a_connection_is_lost_before_or_after_the_request_had_its_effect(broker: Broker) -> None:
    for served in (False, True):
        before = count(broker, "a")
        broker.faults.disconnect("Produce", served=served, times=1)
        with pytest.raises(Unreachable, match="lost the connection"):
            produce(BrokerConnection(broker.host, broker.port, 20.0), "a")
        assert count(broker, "a") == before + served


def test_a_dropped_answer_leaves_the_client_waiting(broker: Broker) -> None:
    before = count(broker, "a")
    broker.faults.drop_answer("Produce", times=1)
    client = BrokerConnection(broker.host, broker.port, 0.2)
    with pytest.raises(Unreachable, match="no answer in time"):
        produce(client, "a")
    client.close()
    assert count(broker, "a") == before + 1


def test_an_idempotent_producer_whose_acknowledgement_is_lost_writes_once(broker: Broker) -> None:
    broker.create_topic("once")
    fault = broker.faults.disconnect("Produce", served=True, topic="once", times=1)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "retry.backoff.ms": 1}
    )
    producer.produce("once", b"only")
    assert producer.flush(20) == 0
    assert fault.hits == 1
    broker.assert_records("once", ["only"])


def test_a_client_without_retries_reports_the_error(broker: Broker) -> None:
    broker.faults.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", topic="a")
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    with pytest.raises(Exception, match="TopicAuthorizationFailed"):
        producer.send("a", b"refused").get(30)
    producer.close()


def test_a_mistake_in_a_fault_is_reported_with_a_suggestion(broker: Broker) -> None:
    with pytest.raises(ValueError, match="no API 'Produse'; did you mean Produce"):
        broker.faults.fail("Produse", "NOT_LEADER_OR_FOLLOWER")
    with pytest.raises(ValueError, match="no error 'NOT_LEADER'; did you mean NOT_LEADER_OR_FOLLOWER"):
        broker.faults.fail("Produce", "NOT_LEADER")
    with pytest.raises(ValueError, match="at least once"):
        broker.faults.drop_answer("Produce", times=0)


def test_faults_work_in_a_loop_and_in_a_child_process() -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            await broker.create_topic("a")
            async with await broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1) as fault:
                client = await asyncio.to_thread(BrokerConnection, broker.host, broker.port, 20.0)
                assert await asyncio.to_thread(produce, client, "a") == {"a": error_codes.NOT_LEADER_OR_FOLLOWER}
                assert await fault.hits() == 1
                client.close()

    asyncio.run(scenario())
    with Broker(process=True) as broker:
        broker.create_topic("a")
        fault = broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1)
        client = BrokerConnection(broker.host, broker.port, 20.0)
        assert [produce(client, "a")["a"], produce(client, "a")["a"]] == [error_codes.NOT_LEADER_OR_FOLLOWER, 0]
        assert fault.hits == 1
        fault.remove()
        client.close()


def test_without_faults_nothing_stands_before_a_handler() -> None:
    from kpybroker.requests.dispatching.dispatcher import Dispatcher
    from kpybroker.requests.handlers import load, served_versions
    from kpybroker.requests.handlers import metadata as metadata_handler
    from kpybroker.runtime.calls.steps import at_once

    served = at_once(Dispatcher(None, load, served_versions())._find(3, 12))
    assert served is not None
    assert served.work is metadata_handler.handle


def test_a_fault_of_every_api_is_met_by_whatever_is_asked(broker: Broker, client: BrokerConnection) -> None:
    fault = broker.faults.fail("*", "CLUSTER_AUTHORIZATION_FAILED", client_id=OTHERS_CLIENT_ID)
    for ask in (produce, list_offsets, metadata):
        assert ask(client, "a") == {"a": error_codes.CLUSTER_AUTHORIZATION_FAILED}
    assert fault.hits == 3
    broker.faults.clear()
    broker.faults.fail("*", "CLUSTER_AUTHORIZATION_FAILED", topic="b")
    assert metadata(client, "a") == {"a": 0}
