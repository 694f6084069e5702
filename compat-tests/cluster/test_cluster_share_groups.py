"""A share group of three nodes that die one by one: leaders, share coordinators and group coordinators move."""

import contextlib
from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer, ShareConsumer

from kpybroker.client import dead_letters
from kpybroker.client.client import Client, Spot, raise_for
from kpybroker.client.connection import Unreachable
from kpybroker.client.share_member import ACKNOWLEDGEMENTS, ShareGroupReader
from kpybroker.machines.errors import KafkaError
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from support.clusters import PROGRAMS, Cluster
from support.raw_requests import GROUP, SET, incremental_alteration
from support.waiting import eventually

PATIENCE_S = 90.0
RECORDS = 60
DEAD = "dlq.g"
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


def test_every_rejected_record_has_a_dead_letter_while_nodes_are_killed(cluster: Cluster) -> None:
    prepare(cluster)
    configs = {"errors.deadletterqueue.group.enable": "true", "min.insync.replicas": "2"}
    with Client(cluster.bootstrap_servers) as client:
        topic = CreatableTopic(
            name=DEAD,
            num_partitions=2,
            replication_factor=3,
            assignments=[],
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
        (result,) = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics
        raise_for(result.error_code, DEAD, result.error_message)
        wanted = [
            ("errors.deadletterqueue.topic.name", SET, DEAD),
            ("errors.deadletterqueue.copy.record.enable", SET, "true"),
        ]
        (answer,) = client.call(incremental_alteration((GROUP, "g", wanted))).responses
        raise_for(answer.error_code, "g", answer.error_message)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 0})
    values: set[str] = set()
    seen: set[tuple[Spot, int]] = set()
    with Client(cluster.bootstrap_servers) as client:
        member = ShareGroupReader(client, "g", ["t"], ACKNOWLEDGEMENTS["reject"], PATIENCE_S)
        for round_, node_id in enumerate(list(cluster.nodes)):
            new = {f"{round_}-{number}" for number in range(RECORDS)}
            for value in new:
                producer.produce("t", value)
            assert producer.flush(PATIENCE_S) == 0
            reject(member, seen, len(values) + RECORDS // 3)
            cluster.nodes[node_id].kill()
            values |= new
            reject(member, seen, len(values))
            cluster.start()

        def have_all() -> Counter[str] | None:
            reject(member, seen, 0)
            found = dead_values(client)
            return found if found.keys() == values else None

        found = eventually(have_all, "a dead letter of every record", PATIENCE_S)
        print(f"dead letters: {found.total()} of {len(values)} records")
        with contextlib.suppress(KafkaError, Unreachable):
            member.leave()


def reject(member: ShareGroupReader, seen: set[tuple[Spot, int]], count: int) -> None:
    """Reject what comes, for a round at least, until this number of records is rejected by this member."""

    def are_enough() -> bool:
        member.keep_up()
        for found in member.poll(10):
            member.finish(found.spot, found.record.offset + 1)
            seen.add((found.spot, found.record.offset))
        return len(seen) >= count

    eventually(
        are_enough,
        lambda: f"{count} rejected records, and {len(seen)} are",
        PATIENCE_S,
        despite=(KafkaError, Unreachable),
    )


def dead_values(client: Client) -> Counter[str]:
    """The values of the records that have dead letters, with the number of these."""
    with contextlib.suppress(KafkaError, Unreachable):
        return Counter((each.record.value or b"").decode() for each in dead_letters.letters(client, DEAD, "g"))
    return Counter()


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
