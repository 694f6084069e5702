"""Avro records with a schema registry: confluent-kafka's serializers, Apicurio Registry, and the broker beneath both.

The registry keeps its schemas in topics of the broker under test, so it is one of the clients that are tried.
"""

import json
import struct
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from registry import Registry

PATIENCE_S = 60.0
FIELDS = ({"name": "number", "type": "long"}, {"name": "customer", "type": "string"})
COMMENT = {"name": "comment", "type": "string", "default": "none"}
INCOMPATIBLE = 409

Order = dict[str, Any]


def schema(*fields: Mapping[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)})


def orders(first: int, last: int, **more: Any) -> list[Order]:
    return [{"number": number, "customer": f"Zoë {number % 7}", **more} for number in range(first, last)]


@pytest.fixture
def schemas(registry: Registry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


class Writer:
    """A producer of orders in Avro, which registers its schema with its first one."""

    def __init__(self, bootstrap_servers: str, schemas: SchemaRegistryClient, written_in: str, **native: str) -> None:
        settings = {"bootstrap.servers": bootstrap_servers, "linger.ms": "5"}
        self.producer = Producer(settings | {key.replace("_", "."): value for key, value in native.items()})
        self._key = AvroSerializer(schemas, '"long"')
        self._value = AvroSerializer(schemas, written_in)

    def write(self, topic: str, records: list[Order]) -> None:
        """Send them and wait until the broker has acknowledged every one."""
        failed: list[object] = []
        for order in records:
            self.producer.produce(
                topic,
                key=self._key(order["number"], SerializationContext(topic, MessageField.KEY)),
                value=self._value(order, SerializationContext(topic, MessageField.VALUE)),
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
            self.producer.poll(0)
        assert self.producer.flush(PATIENCE_S) == 0
        assert failed == []


def messages(bootstrap_servers: str, group: str, topic: str, count: int) -> list[Message]:
    """The first committed records that a new group is given."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    found: list[Message] = []
    try:
        while len(found) < count:
            more = consumer.consume(count - len(found), PATIENCE_S)
            assert more, f"{len(found)} of {count} records came"
            assert [message.error() for message in more if message.error()] == []
            found += more
    finally:
        consumer.close()
    return found


def values(found: list[Message], reader: AvroDeserializer) -> list[Order]:
    """The orders in the messages, by their numbers."""
    context = [SerializationContext(str(message.topic()), MessageField.VALUE) for message in found]
    read: list[Any] = [reader(message.value(), each) for message, each in zip(found, context, strict=True)]
    return sorted(read, key=itemgetter("number"))


def schema_id(message: Message) -> int:
    magic, found = struct.unpack_from(">bI", message.value() or b"")
    assert magic == 0
    return int(found)


def test_records_come_back_as_the_objects_that_they_were(
    bootstrap_servers: str, schemas: SchemaRegistryClient, new_topic: Callable[[int], str], name: str
) -> None:
    topic, sent = new_topic(3), orders(0, 1_000)
    Writer(bootstrap_servers, schemas, schema(*FIELDS)).write(topic, sent)
    found = messages(bootstrap_servers, name, topic, len(sent))
    assert values(found, AvroDeserializer(schemas)) == sent
    keys: Any = AvroDeserializer(schemas)
    context = SerializationContext(topic, MessageField.KEY)
    assert sorted(keys(message.key(), context) for message in found) == list(range(1_000))
    assert {message.partition() for message in found} == {0, 1, 2}
    assert {f"{topic}-key", f"{topic}-value"} <= set(schemas.get_subjects())
    assert {schema_id(message) for message in found} == {schemas.get_latest_version(f"{topic}-value").schema_id}


def test_records_of_an_older_and_a_newer_schema_are_read_by_either(
    bootstrap_servers: str, schemas: SchemaRegistryClient, new_topic: Callable[[int], str], name: str
) -> None:
    topic, older, newer = new_topic(1), schema(*FIELDS), schema(*FIELDS, COMMENT)
    Writer(bootstrap_servers, schemas, older).write(topic, orders(0, 10))
    Writer(bootstrap_servers, schemas, newer).write(topic, orders(10, 20, comment="urgent"))
    found = messages(bootstrap_servers, name, topic, 20)
    assert len({schema_id(message) for message in found}) == 2
    assert values(found, AvroDeserializer(schemas, older)) == orders(0, 20)
    expected = orders(0, 10, comment="none") + orders(10, 20, comment="urgent")
    assert values(found, AvroDeserializer(schemas, newer)) == expected


def test_a_schema_that_would_break_readers_is_refused_and_nothing_is_sent(
    bootstrap_servers: str, schemas: SchemaRegistryClient, new_topic: Callable[[int], str], name: str
) -> None:
    topic = new_topic(1)
    writer = Writer(bootstrap_servers, schemas, schema(*FIELDS))
    writer.write(topic, orders(0, 5))
    schemas.set_compatibility(f"{topic}-value", "BACKWARD")
    changed = Writer(bootstrap_servers, schemas, schema(*FIELDS, {"name": "cents", "type": "long"}))
    with pytest.raises((SchemaRegistryError, SerializationError)) as refusal:
        changed.write(topic, orders(5, 6, cents=1))
    reason = refusal.value if isinstance(refusal.value, SchemaRegistryError) else refusal.value.__cause__
    assert isinstance(reason, SchemaRegistryError)
    assert reason.http_status_code == INCOMPATIBLE
    writer.write(topic, orders(6, 10))
    assert values(messages(bootstrap_servers, name, topic, 9), AvroDeserializer(schemas)) == orders(0, 5) + orders(
        6, 10
    )


def test_records_of_an_aborted_transaction_are_not_read(
    bootstrap_servers: str, schemas: SchemaRegistryClient, new_topic: Callable[[int], str], name: str
) -> None:
    topic = new_topic(1)
    writer = Writer(bootstrap_servers, schemas, schema(*FIELDS), transactional_id=name)
    writer.producer.init_transactions(PATIENCE_S)
    writer.producer.begin_transaction()
    writer.write(topic, orders(0, 10))
    writer.producer.abort_transaction(PATIENCE_S)
    writer.producer.begin_transaction()
    writer.write(topic, orders(10, 20))
    writer.producer.commit_transaction(PATIENCE_S)
    assert values(messages(bootstrap_servers, name, topic, 10), AvroDeserializer(schemas)) == orders(10, 20)


def test_a_registry_that_is_started_again_finds_its_schemas_in_the_brokers_log(
    bootstrap_servers: str, registry: Registry, new_topic: Callable[[int], str], name: str
) -> None:
    topic, before = new_topic(1), SchemaRegistryClient({"url": registry.url})
    Writer(bootstrap_servers, before, schema(*FIELDS)).write(topic, orders(0, 10))
    subjects, registered = before.get_subjects(), before.get_latest_version(f"{topic}-value")
    registry.stop()
    registry.start()
    after = SchemaRegistryClient({"url": registry.url})
    assert after.get_subjects() == subjects
    assert after.get_latest_version(f"{topic}-value").schema_id == registered.schema_id
    assert values(messages(bootstrap_servers, name, topic, 10), AvroDeserializer(after)) == orders(0, 10)
