"""Sources without topic ids: Apache Kafka 2.1 and 2.8 with ZooKeeper. Mirrors have their batches, and lose none when a
topic is created again there, which no id shows."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from click.testing import CliRunner
from two_clusters import client_of

from kpybroker.cli import main
from kpybroker.client import group_requests, mirror_requests, offset_requests, topic_requests
from kpybroker.client.client import Client, Spot
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.mirror.ids import is_made_up
from kpybroker.machines.mirror.mirror import Mirror
from kpywire import error_codes
from oracle.jars import KAFKA_OLDEST, KAFKA_WITH_NAMES
from oracle.zookeeper import KafkaOnZooKeeper, ZooKeeper
from support.waiting import eventually
from tests.broker.running_node import RunningNode, start

pytestmark = [pytest.mark.java, pytest.mark.slow]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RELEASES = (KAFKA_OLDEST, KAFKA_WITH_NAMES)


class OldSource(NamedTuple):
    """An old cluster, and a node that mirrors it as ``dr``."""

    brokers: list[KafkaOnZooKeeper]
    mirror: RunningNode
    file: str
    has_ids: bool
    """Whether topics have ids there, though nothing can be fetched by them."""

    @property
    def servers(self) -> str:
        return ",".join(each.bootstrap_servers for each in self.brokers)

    def client(self) -> Client:
        return Client(self.servers)

    def create(self, topic: str, partitions: int = 1, replicas: int = 1, **configs: str) -> None:
        with self.client() as client:
            named = {key.replace("_", "."): value for key, value in configs.items()}

            def is_created() -> bool:
                try:
                    topic_requests.create(client, topic, partitions, replicas, named)
                except KafkaError as error:
                    if error.code != error_codes.TOPIC_ALREADY_EXISTS:
                        raise
                    return False
                return True

            eventually(is_created, "the earlier topic of the name is gone", within_s=60)

    def produce(self, topic: str, count: int, value: bytes = b"value %d", **settings: object) -> None:
        named = {key.replace("_", "."): each for key, each in settings.items()}
        made = confluent_kafka.Producer({"bootstrap.servers": self.servers, **named})
        for number in range(count):
            made.produce(topic, key=b"%d" % (number % 7), value=value % number, partition=0)
        assert made.flush(60) == 0

    def ends(self, topic: str) -> tuple[int, int]:
        """The ends of partition 0 at the source and in the mirror; -1 where there is none."""
        found = []
        for make in (self.client, lambda: client_of(self.mirror)):
            with make() as client:
                known = topic in client.topic_names()
                found.append(client.list_offsets({Spot(topic, 0): -1})[Spot(topic, 0)] if known else -1)
        return found[0], found[1]

    def wait_for(self, topic: str) -> int:
        """Wait until the mirror has all; the end."""

        def end() -> int:
            there, here = self.ends(topic)
            return there if there == here else 0

        return eventually(end, f"all of {topic} is mirrored", within_s=60)

    def proof(self, topic: str, code: int = 0) -> dict[str, Any]:
        """The output of ``kpybroker audit --mirror-of``."""
        words = ["audit", "-b", f"127.0.0.1:{self.mirror.port}", "--topic", topic, "--mirror-of", self.file, "--json"]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == code, done.output
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def status(self, topic: str) -> str:
        words = ["mirror", "status", "--source", self.file, "-b", f"127.0.0.1:{self.mirror.port}", "--json"]
        done = json.loads(CliRunner().invoke(main, words).stdout)
        return next(str(each["reason"]) for each in done["partitions"] if each["topic"] == topic)


@contextmanager
def old_source(directory: Path, release: str, brokers: int) -> Iterator[OldSource]:
    sources = directory / "sources"
    sources.mkdir()
    with ExitStack() as running:
        zookeeper = running.enter_context(ZooKeeper())
        made = [
            running.enter_context(KafkaOnZooKeeper(number, zookeeper.bootstrap_servers, release=release))
            for number in range(1, brokers + 1)
        ]
        servers = ",".join(each.bootstrap_servers for each in made)
        (sources / "dr.properties").write_text(f"bootstrap.servers={servers}\n")
        mirror = start(directory / "mirror", **{"kpybroker.mirror.directory": str(sources)})
        running.callback(mirror.stop)
        with client_of(mirror) as client:
            mirror_requests.set_mirrors(client, [Mirror("dr", ["*"])])
        yield OldSource(made, mirror, str(sources / "dr.properties"), release == KAFKA_WITH_NAMES)


@pytest.fixture(scope="module", params=RELEASES)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldSource]:
    with old_source(tmp_path_factory.mktemp("old"), request.param, 1) as made:
        yield made


def test_a_mirror_of_an_old_source_has_its_batches(source: OldSource) -> None:
    source.create("all", 1, retention_ms="86400000")
    for codec in CODECS:
        source.produce("all", 40, compression_type=codec, enable_idempotence=True)
    writer = confluent_kafka.Producer({"bootstrap.servers": source.servers, "transactional.id": "t"})
    writer.init_transactions(60)
    for number in range(4):
        writer.begin_transaction()
        writer.produce("all", b"of transaction %d" % number, partition=0)
        writer.flush(30)
        writer.commit_transaction(30) if number % 2 else writer.abort_transaction(30)
    end = source.wait_for("all")
    assert end == 40 * len(CODECS) + 8
    proof = source.proof("all")
    assert proof["equal_to_source"]["equal"] == 1, proof["findings"]
    assert is_made_up(source.mirror.node.image.topics["all"].id) is not source.has_ids
    assert source.mirror.node.image.configs_of(2, "all")["retention.ms"] == "86400000"
    with source.client() as client:
        offset_requests.delete_records(client, {Spot("all", 0): 57})
    source.produce("all", 1)
    source.wait_for("all")
    log = source.mirror.node.broker.replicas.find("all", 0).held().log
    eventually(lambda: log.log_start_offset == 57, "the log start follows")
    status = source.status("all")
    assert status.endswith("a failover may tear transactions in it"), "no source before 3.0 lists those that end"


def test_offsets_of_groups_of_an_old_source_are_carried_over(source: OldSource) -> None:
    source.create("groups")
    source.produce("groups", 10)
    source.wait_for("groups")
    with source.client() as client:
        group_requests.commit(client, "workers", {Spot("groups", 0): 7})

    def here() -> int:
        with client_of(source.mirror) as client:
            found = group_requests.committed(client, "workers").get(Spot("groups", 0))
            return -1 if found is None else found.offset

    eventually(lambda: here() == 7, "the offset is carried over")
    with source.client() as client:
        group_requests.delete(client, "workers")
    eventually(lambda: here() == -1, "the group is deleted here, too")


def test_an_old_source_that_was_restarted_is_followed_again(source: OldSource) -> None:
    source.create("restarted")
    source.produce("restarted", 10)
    source.wait_for("restarted")
    source.brokers[0].restart()
    source.produce("restarted", 10)
    assert source.wait_for("restarted") == 20
    assert source.proof("restarted")["equal_to_source"]["equal"] == 1


@pytest.mark.parametrize("records", [3, 10, 25])
def test_a_topic_that_was_created_again_at_an_old_source_stays_as_it_was(source: OldSource, records: int) -> None:
    topic = f"again-{records}"
    source.create(topic)
    source.produce(topic, 10)
    source.wait_for(topic)
    with source.client() as client:
        topic_requests.delete(client, topic)
    source.create(topic)
    source.produce(topic, records, b"of the new topic %d")
    (running,) = source.mirror.node.broker.mirrors or ()
    if source.has_ids:
        assert "created again" in source.status(topic)
    else:
        eventually(lambda: running.figures().failed > 0, "the topic is not fed", within_s=60)
    assert source.ends(topic) == (records, 10)
    if records < 10 and not source.has_ids:
        assert "the source ends before its mirror" in source.status(topic)
    texts = [each["text"] for each in source.proof(topic, code=1)["findings"] if each["claim"] == "mirror"]
    differs = "its id is not that of" if source.has_ids else "differs from its source from offset 0 on"
    assert any(text.startswith(differs) for text in texts), texts
    with client_of(source.mirror) as client:
        topic_requests.delete(client, topic)
    assert source.wait_for(topic) == records
    assert source.proof(topic)["equal_to_source"]["equal"] == 1
    eventually(lambda: running.figures().failed == 0, "all are fed")


def test_a_failover_from_an_old_source(source: OldSource) -> None:
    source.create("over")
    source.produce("over", 10)
    source.wait_for("over")
    words = ["mirror", "failover", "dr", "--wait-lag", "0", "--source", source.file, "--json"]
    done = CliRunner().invoke(main, [*words, "-b", f"127.0.0.1:{source.mirror.port}"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert {each["lost_records"] for each in report["partitions"] if each["topic"] == "over"} == {0}
    made = confluent_kafka.Producer({"bootstrap.servers": f"127.0.0.1:{source.mirror.port}"})
    made.produce("over", b"here", partition=0)
    assert made.flush(30) == 0
    assert source.ends("over") == (10, 11)


def test_an_unclean_election_at_an_old_source_is_followed(tmp_path: Path) -> None:
    with old_source(tmp_path, KAFKA_OLDEST, 2) as source:
        source.create("orders", 1, 2, unclean_leader_election_enable="true")
        source.produce("orders", 10)
        source.wait_for("orders")

        def leader() -> int:
            with source.client() as client:
                return client.topic("orders").partitions[0].leader_id

        first = eventually(leader, "there is a leader")
        ahead, behind = (source.brokers[first - 1], source.brokers[2 - first])
        behind.stop()
        source.produce("orders", 15, b"only on one broker %d")
        source.wait_for("orders")
        ahead.kill()
        behind.start()
        eventually(lambda: leader() == 3 - first, "the other broker leads", within_s=60)
        source.produce("orders", 4, b"of the next leader %d")
        assert eventually(lambda: source.ends("orders") == (14, 14), "the mirror is cut", within_s=60)
        assert source.proof("orders")["equal_to_source"]["equal"] == 1
