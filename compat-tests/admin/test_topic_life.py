"""Topics that clients bring to life by using them, and topics that vanish while they are used."""

from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from conftest import NewTopic, StartBroker
from support.clients import CLIENTS, Client, Record, Refused, Sending
from support.topics import delete_topics
from support.waiting import eventually

UNKNOWN_TOPIC_OR_PARTITION = 3
NO_CODE = -1


def test_producing_to_an_unknown_topic_creates_it(client: Client, unused_topic: Callable[[], str]) -> None:
    name = unused_topic()
    assert client.produce(name, [Record(b"first", partition=None)])[0].offset == 0
    assert [record.value for record in client.read(name)] == [b"first"]


def test_created_topics_have_the_brokers_default_partitions(start_broker: StartBroker, client: Client) -> None:
    broker = start_broker(num_partitions="3")
    here = CLIENTS[client.name](broker.bootstrap_servers)
    here.produce("made-by-producing", [Record(b"v", partition=2)])
    assert here.end_offsets("made-by-producing", 3) == [0, 0, 1]


def test_no_topic_is_created_if_auto_creation_is_off(start_broker: StartBroker, client: Client) -> None:
    broker = start_broker(auto_create_topics_enable="false")
    here = CLIENTS[client.name](broker.bootstrap_servers)
    impatient = {
        "kafka-python": {"max_block_ms": 2_000},
        "confluent-kafka": {"topic.metadata.propagation.max.ms": 100, "message.timeout.ms": 4_000},
    }
    sending = Sending(delivery_timeout_ms=4_000, native=impatient[client.name])
    with pytest.raises(Refused) as refusal:
        here.produce("never", [Record(b"v")], sending)
    assert refusal.value.code == {"kafka-python": NO_CODE, "confluent-kafka": UNKNOWN_TOPIC_OR_PARTITION}[client.name]
    assert "never" not in AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=30).topics


def test_a_topic_deleted_and_created_again_starts_empty(
    client: Client, new_topic: NewTopic, admin: AdminClient
) -> None:
    topic = new_topic()
    client.produce(topic, [Record(b"old")] * 5)
    delete_topics(admin, [topic])
    eventually(lambda: topic not in admin.list_topics(timeout=30).topics, "the topic to be gone")
    assert client.produce(topic, [Record(b"new", partition=None)])[0].offset == 0
    assert [record.value for record in client.read(topic)] == [b"new"]


def test_records_and_topics_survive_a_clean_restart(start_broker: StartBroker, client: Client) -> None:
    broker = start_broker()
    here = CLIENTS[client.name](broker.bootstrap_servers)
    here.produce("kept", [Record(str(number).encode()) for number in range(100)], Sending(idempotent=True))
    broker.restart()
    assert here.produce("kept", [Record(b"after")], Sending(idempotent=True))[0].offset == 100
    assert [record.value for record in here.read("kept")] == [
        *(str(number).encode() for number in range(100)),
        b"after",
    ]
