"""Clients of three nodes that die one by one: groups go on, transactions stay exact, what was acknowledged stays."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata
from kafka import TopicPartition as Spot

from kpybroker.client.client import Client, raise_for
from kpywire import error_codes
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.clusters import PROGRAMS, Cluster
from support.waiting import eventually

PATIENCE_S = 60.0
TRANSACTION = 1
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared_cluster(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if target not in PROGRAMS:
        pytest.skip("kills nodes, so it needs a cluster of its own")
    with Cluster(PROGRAMS[target], tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    """All nodes run."""
    shared_cluster.start()
    return shared_cluster


def create(cluster: Cluster, name: str, partitions: int) -> str:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=3, assignments=[], configs=[])
    with Client(cluster.bootstrap_servers) as client:
        (result,) = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics
        raise_for(result.error_code, name, result.error_message)
    for partition in range(partitions):
        leader(cluster, name, partition)
    return name


def leader(cluster: Cluster, topic: str, partition: int = 0) -> int:
    """The leader of a partition, of those nodes that run."""

    def found_one() -> list[int]:
        with Client(running(cluster)) as client:
            wanted = [MetadataRequestTopic(name=topic)]
            (found,) = client.call(MetadataRequest(topics=wanted, allow_auto_topic_creation=False)).topics
        alive = [node_id for node_id, node in cluster.nodes.items() if node.process is not None]
        leaders = [each.leader_id for each in found.partitions if each.partition_index == partition]
        return [each for each in leaders if each in alive]

    return eventually(found_one, f"a leader of {topic}-{partition}")[0]


def running(cluster: Cluster) -> str:
    return ",".join(node.bootstrap_servers for node in cluster.nodes.values() if node.process is not None)


def coordinator(cluster: Cluster, key: str, key_type: int = 0) -> int:
    def found() -> Coordinator | None:
        with Client(running(cluster)) as client:
            (answer,) = client.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])).coordinators
        return answer if answer.error_code == error_codes.NONE else None

    return eventually(found, f"the coordinator of {key}").node_id


def read_all(cluster: Cluster, topic: str, partitions: int) -> list[list[bytes]]:
    """The committed values of every partition."""
    found: list[list[bytes]] = []
    for partition in range(partitions):
        consumer = Consumer(
            {
                "bootstrap.servers": running(cluster),
                "group.id": "reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(topic, partition, 0)])
        values: list[bytes] = []
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is not None and error.code() == -191:  # the end of the partition
                break
            if error is None:
                values.append(message.value() or b"")
        consumer.close()
        found.append(values)
    return found


def test_records_acknowledged_to_aiokafka_survive_the_leader(cluster: Cluster) -> None:
    create(cluster, "aio", 1)

    async def produce() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, acks="all", enable_idempotence=True
        ) as producer:
            for number in range(60):
                if number == 20:
                    cluster.nodes[leader(cluster, "aio")].kill()
                await asyncio.wait_for(producer.send_and_wait("aio", b"%d" % number), PATIENCE_S)

    asyncio.run(produce())
    assert read_all(cluster, "aio", 1) == [[b"%d" % number for number in range(60)]]


def test_a_group_of_kafka_python_goes_on_when_its_coordinator_dies(cluster: Cluster) -> None:
    create(cluster, "tasks", 3)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all", retries=1000)
    consumer = KafkaConsumer(
        "tasks",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="workers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=10_000,
    )
    done: list[bytes] = []

    def work_until(count: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while len(done) < count and time.monotonic() < deadline:
            for spot, records in consumer.poll(timeout_ms=500).items():
                done.extend(record.value for record in records)
                end = records[-1].offset + 1
                committed = False
                while not committed and time.monotonic() < deadline:
                    try:
                        consumer.commit({Spot(spot.topic, spot.partition): OffsetAndMetadata(end, "", -1)})
                        committed = True
                    except Exception:
                        time.sleep(0.1)
        assert len(done) == count

    try:
        for number in range(30):
            producer.send("tasks", b"%d" % number, partition=number % 3).get(PATIENCE_S)
        work_until(30)
        cluster.nodes[coordinator(cluster, "workers")].kill()
        for number in range(30, 60):
            producer.send("tasks", b"%d" % number, partition=number % 3).get(PATIENCE_S)
        work_until(60)
        assert sorted(done, key=int) == [b"%d" % number for number in range(60)]
        consumer.close()
        second = KafkaConsumer(bootstrap_servers=running(cluster), group_id="workers", enable_auto_commit=False)
        assert [second.committed(Spot("tasks", index)) for index in range(3)] == [20, 20, 20]
        second.close()
    finally:
        producer.close(timeout=5)


def test_transactions_of_confluent_stay_exact_when_their_coordinator_dies(cluster: Cluster) -> None:
    create(cluster, "orders", 2)
    create(cluster, "invoices", 3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(40):
        producer.produce("orders", b"%d" % number, partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    transactional = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "billing-1"})
    transactional.init_transactions(PATIENCE_S)
    done = 0
    deadline = time.monotonic() + 2 * PATIENCE_S
    while done < 40 and time.monotonic() < deadline:
        messages = [message for message in consumer.consume(5, 1.0) if message.error() is None]
        if not messages:
            continue
        if done >= 15 and all(node.process is not None for node in cluster.nodes.values()):
            cluster.nodes[coordinator(cluster, "billing-1", TRANSACTION)].kill()
        transactional.begin_transaction()
        try:
            for message in messages:
                value = message.value() or b""
                transactional.produce("invoices", value, partition=int(value) % 3)
            positions = consumer.position(consumer.assignment())
            transactional.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), PATIENCE_S)
            transactional.commit_transaction(PATIENCE_S)
            done += len(messages)
        except KafkaException as problem:
            if not problem.args[0].txn_requires_abort():
                raise
            transactional.abort_transaction(PATIENCE_S)
            for position in consumer.committed(consumer.assignment(), PATIENCE_S):
                consumer.seek(TopicPartition(position.topic, position.partition, max(position.offset, 0)))
    consumer.close()
    written = sorted(int(value) for values in read_all(cluster, "invoices", 3) for value in values)
    assert written == list(range(40))
    assert any(node.process is None for node in cluster.nodes.values())
