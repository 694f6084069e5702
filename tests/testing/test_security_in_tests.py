"""Users, certificates, ACLs, quotas and tokens of a broker in a test, and the settings of each client for them."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from kpybroker.cli.connection_settings import ConnectionSettings, NotPossible, login_module
from kpybroker.client.client import Client, ClientSettings
from kpybroker.client.protection import ConnectionProtection
from kpybroker.client.security import security_of
from kpybroker.machines.sasl.jaas import PLAIN_MODULE, parse
from kpybroker.testing import Broker, BrokerFailed, Security, allow, deny

pytest_plugins = ["pytester"]

ALICE = 'won"der\\land='
USERS = {"alice": ALICE, "bob": "builder"}
ACLS = [
    allow("alice", "READ", "WRITE", topic="orders*"),
    allow("alice", "READ", group="readers"),
    allow("CN=carol", "WRITE", topic="orders"),
    deny("alice", "WRITE", topic="orders-closed"),
]
WAYS = [(protocol, kind) for protocol in ("SASL_SSL", "SASL_PLAINTEXT") for kind in ("PLAIN", "SCRAM-SHA-256")]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(security=Security(USERS, acls=ACLS, super_users=["root"])) as broker:
        broker.create_topic("orders")
        broker.create_topic("orders-closed")
        yield broker


def send(settings: ConnectionSettings, topic: str = "orders") -> None:
    """Write a record as kafka-python does."""
    producer = KafkaProducer(**settings.kafka_python(), max_block_ms=10_000)
    try:
        producer.send(topic, b"x").get(10)
    finally:
        producer.close(timeout=5)


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_a_user_logs_in_with_kafka_python(broker: Broker, protocol: str, mechanism: str) -> None:
    settings = broker.access.client("alice", protocol, mechanism)
    before = len(broker.records("orders"))
    send(settings)
    assert len(broker.records("orders")) == before + 1
    consumer = KafkaConsumer(
        "orders",
        **settings.kafka_python(),
        group_id="readers",
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    assert next(consumer).value == b"x"
    consumer.close()


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_a_user_logs_in_with_confluent_kafka(broker: Broker, protocol: str, mechanism: str) -> None:
    delivered: list[object] = []
    producer = Producer(broker.access.client("alice", protocol, mechanism).confluent())
    producer.produce("orders", b"x", on_delivery=lambda error, _message: delivered.append(error))
    assert producer.flush(20) == 0
    assert delivered == [None]


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_a_user_logs_in_with_aiokafka(broker: Broker, protocol: str, mechanism: str) -> None:
    async def write() -> None:
        async with AIOKafkaProducer(**broker.access.client("alice", protocol, mechanism).aiokafka()) as producer:
            await producer.send_and_wait("orders", b"x")

    asyncio.run(write())


def test_a_user_logs_in_with_a_properties_file(broker: Broker) -> None:
    file = broker.access.java_file(broker.access.client("alice"))
    server = broker.access.server("SASL_SSL")
    command = [sys.executable, "-m", "kpybroker", "topics", "list", "-b", server, "--command-config", str(file)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 0, finished.stderr
    assert {"orders", "orders-closed"} < set(finished.stdout.split())
    assert file.stat().st_mode & 0o077 == 0


def test_requests_without_permission_are_refused(broker: Broker) -> None:
    with pytest.raises(KafkaError):
        send(broker.access.client("bob"))
    with pytest.raises(KafkaError):
        send(broker.access.client("alice"), "orders-closed")


def test_a_wrong_password_is_refused(broker: Broker) -> None:
    errors: list[object] = []
    settings = broker.access.client("alice", password="wrong").confluent()
    admin = AdminClient({**settings, "log_level": 0, "error_cb": lambda error: errors.append(error.name())})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)
    admin.poll(0)
    assert "_AUTHENTICATION" in errors


def test_a_certificate_names_its_user_and_may_have_expired(broker: Broker) -> None:
    send(broker.access.certificate("carol"))
    producer = Producer(broker.access.certificate("carol").confluent())
    producer.produce("orders", b"x")
    assert producer.flush(20) == 0
    late = AdminClient({**broker.access.certificate("carol", days=-1).confluent(), "log_level": 0})
    with pytest.raises(KafkaException):
        late.list_topics(timeout=2)


def test_a_token_stands_for_its_owner_where_clients_know_tokens(broker: Broker) -> None:
    token = broker.access.token("alice")
    for refuses in (token.kafka_python, token.aiokafka, token.confluent):
        with pytest.raises(NotPossible, match="delegation token"):
            refuses()
    properties = token.java()
    server = properties.pop("bootstrap.servers")
    with Client(server, settings=ClientSettings(protection=ConnectionProtection(security_of(properties)))) as client:
        assert {topic.name for topic in client.topics()} == {"orders", "orders-closed"}
    assert token.password not in repr(token)


def test_users_permissions_and_quotas_can_be_added_while_it_runs(broker: Broker) -> None:
    access = broker.access
    access.add_user("dora", "explorer")
    access.add_acls(allow("dora", "WRITE", topic="orders"))
    send(access.client("dora"))
    access.set_quotas("dora", producer_byte_rate=1.0)
    producer = Producer({**access.client("dora").confluent(), "statistics.interval.ms": 0})
    producer.produce("orders", b"x" * 1000)
    assert producer.flush(20) == 0
    access.set_quotas("dora", producer_byte_rate=None)


@pytest.mark.parametrize("process", [False, True])
def test_ports_users_and_files_survive_a_restart(process: bool) -> None:
    with Broker(security=Security(["alice"]), process=process) as broker:
        broker.create_topic("orders")
        settings = broker.access.client("alice")
        broker.restart()
        assert broker.access.client("alice") == settings
        send(settings)
        authority = Path(settings.authority)
        assert authority.exists()
    assert not authority.exists()


def test_a_broker_in_the_loop_has_the_same_by_await() -> None:
    async def use() -> None:
        async with Broker(security=Security(["alice"], quotas={"alice": {"producer_byte_rate": 1e6}})) as broker:
            await broker.create_topic("orders")
            await broker.access.add_user("bob", "builder")
            await broker.access.add_acls()
            await broker.access.set_quotas("bob", consumer_byte_rate=1e6)
            assert (await broker.access.token("bob")).by_token
            async with AIOKafkaProducer(**broker.access.client("bob").aiokafka()) as producer:
                await producer.send_and_wait("orders", b"x")

    asyncio.run(use())


def test_without_security_there_is_no_access() -> None:
    with Broker() as broker, pytest.raises(BrokerFailed, match=r"Broker\(security=Security"):
        _ = broker.access


@pytest.mark.parametrize("value", [ALICE, "", "a b;c", "l\nr\r", "'\\\\\""])
def test_a_login_module_is_read_as_it_was_written(value: str) -> None:
    assert parse(login_module(PLAIN_MODULE, {"user_x": value})).options == {"user_x": value}


def test_an_acl_that_is_none_is_refused_with_what_there_is() -> None:
    with pytest.raises(ValueError, match="READ, WRITE"):
        allow("alice", "LOOK", topic="orders")
    with pytest.raises(ValueError, match="one resource"):
        allow("alice", "READ")
    with pytest.raises(ValueError, match="transactional_id"):
        allow("alice", "READ", subject="orders")


def test_the_fixture_has_users_that_a_suite_names(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        import pytest
        from kpybroker.testing import Security

        @pytest.fixture(scope="session")
        def kpybroker_security():
            return Security(users={"ann": "secret"})
    """)
    pytester.makepyfile("""
        from kafka import KafkaProducer

        def test_a_user(kpybroker_secured):
            kpybroker_secured.create_topic("t")
            producer = KafkaProducer(**kpybroker_secured.access.client("ann").kafka_python())
            producer.send("t", b"x").get(10)
            producer.close()
            kpybroker_secured.assert_records("t", [b"x"])
            kpybroker_secured.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER")

        def test_faults_end(kpybroker_secured):
            kpybroker_secured.create_topic("u")
            producer = KafkaProducer(**kpybroker_secured.access.client("ann").kafka_python(), retries=0)
            producer.send("u", b"x").get(10)
            producer.close()
    """)
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)
