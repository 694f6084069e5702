"""A share group of three nodes that die one by one: leaders, share coordinators and group coordinators move."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer, ShareConsumer

from clusters import PROGRAMS, Cluster
from kpybroker.client.client import Client, raise_for
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from raw_requests import GROUP, SET, incremental_alteration
from waiting import eventually

PATIENCE_S = 90.0
RECORDS = 60
pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if target not in PROGRAMS:
        pytest.skip("kills nodes, so it needs a cluster of its own")
    with Cluster(PROGRAMS[target], tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def prepare(cluster: Cluster) -> None:
    topic = CreatableTopic(name="t", num_partitions=3, replication_factor=3, assignments=[], configs=[])
    with Client(cluster.bootstrap_servers) as client:
        (result,) = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics
        raise_for(result.error_code, "t", result.error_message)
        altered = incremental_alteration((GROUP, "g", [("share.auto.offset.reset", SET, "earliest")]))
        (answer,) = client.call(altered).responses
        raise_for(answer.error_code, "g", answer.error_message)


def test_every_record_is_accepted_while_nodes_are_killed(cluster: Cluster) -> None:
    prepare(cluster)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 0})
    accepted: set[str] = set()
    consumer = ShareConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
    consumer.subscribe(["t"])
    try:
        for round_, node_id in enumerate(list(cluster.nodes)):
            wanted = {f"{round_}-{number}" for number in range(RECORDS)}
            for value in wanted:
                producer.produce("t", value)
            assert producer.flush(PATIENCE_S) == 0
            accept(consumer, accepted, len(accepted) + RECORDS // 3)
            cluster.nodes[node_id].kill()
            accept(consumer, accepted, (round_ + 1) * RECORDS)
            assert wanted <= accepted
            cluster.start()
    finally:
        consumer.close()


def accept(consumer: ShareConsumer, accepted: set[str], count: int) -> None:
    """Read and accept until this number of records is accepted."""

    def are_enough() -> bool:
        got = [message for message in consumer.poll(1.0) if message.error() is None]
        stored = {each.partition for each, error in consumer.commit_sync(20).items() if error is None}
        accepted.update(message.value().decode() for message in got if message.partition() in stored)
        return len(accepted) >= count

    eventually(
        are_enough, lambda: f"{count} accepted records, and {len(accepted)} are", PATIENCE_S, despite=(KafkaException,)
    )
