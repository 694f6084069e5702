"""Eligible leader replicas (KIP-966) on real processes: followers die one after the other, then who leads, and no
client heard of a write that was lost. One more node is the quorum, so that it outlives them."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kpywire import error_codes
from oracle import BrokerProcess
from support.clusters import PROGRAMS, Cluster, Place
from support.java_tools import JavaTools
from support.raw_client import RawClient
from support.raw_requests import batch_of, now_ms, produce
from support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow]
PATIENCE_S = 60.0
TOPIC = "kept"
RECORDS = 200
PLACE = re.compile(r"Leader: (\S+)\tReplicas: \S+\tIsr: (\S*)\tElr: (\S*)\tLastKnownElr: (\S*)")
NO_LEADER = "none"


@pytest.fixture
def cluster(target: str, tmp_path: Path) -> Iterator[Cluster]:
    if target not in PROGRAMS:
        pytest.skip("kills nodes, so it needs a cluster of its own")

    def node_of(place: Place, properties: Mapping[str, str], directory: Path) -> BrokerProcess:
        voter, _, _ = properties["controller.quorum.voters"].partition(",")
        own = {**properties, "controller.quorum.voters": voter}
        if place.node_id != 1:
            own |= {"process.roles": "broker", "listeners": properties["listeners"].partition(",")[0]}
        return PROGRAMS[target](place, own, directory)

    quick = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
    with Cluster(node_of, tmp_path, 4, quick) as cluster:
        yield cluster


class Seen:
    """The description of the partition by kafka-topics."""

    def __init__(self, cluster: Cluster, java_tools: JavaTools) -> None:
        self.server = ("--bootstrap-server", cluster.nodes[1].bootstrap_servers)
        self.java_tools = java_tools

    def topics(self, *words: str) -> str:
        finished = self.java_tools.run("kafka-topics", *self.server, *words)
        assert finished.exit_code == 0, finished.text
        return finished.out

    def becomes(self, leader: str, isr: str, elr: str, last_known: str = "") -> None:
        """Leader, in sync, eligible, last known; in any order."""
        wanted = (leader, *(set(each.split(",")) for each in (isr, elr, last_known)))
        found: list[object] = []

        def is_so() -> bool:
            match = PLACE.search(self.topics("--describe", "--topic", TOPIC))
            assert match
            found[:] = [(match[1], *(set(each.split(",")) for each in match.groups()[1:]))]
            return found[0] == wanted

        try:
            eventually(is_so, f"{wanted}", within_s=PATIENCE_S)
        except AssertionError:
            raise AssertionError(f"{found}, not {wanted}") from None


def write(cluster: Cluster, begin: int) -> None:
    """Each of the numbers is acknowledged by all in sync."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    refused: list[object] = []

    def done(error: object, _message: object) -> None:
        if error is not None:
            refused.append(error)

    for number in range(begin, begin + RECORDS):
        producer.produce(TOPIC, b"%d" % number, on_delivery=done)
    assert producer.flush(PATIENCE_S) == 0
    assert not refused


def is_refused(cluster: Cluster, node_id: int) -> bool:
    with RawClient(cluster.nodes[node_id].port) as leader:
        answer = produce(leader, TOPIC, batch_of(now_ms()))
    return answer.error_code == error_codes.NOT_ENOUGH_REPLICAS


def read(cluster: Cluster, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "judge", "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[int] = []
    try:
        while len(found) < count:
            messages = consumer.consume(count, PATIENCE_S)
            assert messages
            found += [int(message.value() or b"") for message in messages if message.error() is None]
    finally:
        consumer.close()
    return found


def test_an_eligible_replica_leads_again_or_else_the_last_known_leader(cluster: Cluster, java_tools: JavaTools) -> None:
    seen = Seen(cluster, java_tools)
    seen.topics("--create", "--topic", TOPIC, "--replica-assignment", "2:3:4", "--config", "min.insync.replicas=2")
    seen.becomes("2", "2,3,4", "")
    write(cluster, 0)
    cluster.nodes[4].kill()
    seen.becomes("2", "2,3", "")
    write(cluster, RECORDS)
    cluster.nodes[3].stop()
    seen.becomes("2", "2", "3")
    assert is_refused(cluster, 2)
    cluster.nodes[2].kill()
    seen.becomes(NO_LEADER, "", "2,3", "2")
    cluster.nodes[4].start()  # which lacks what was written since
    cluster.nodes[3].start()  # which was stopped, and has all
    seen.becomes("3", "3,4", "")
    cluster.nodes[2].start()
    seen.becomes("3", "2,3,4", "")
    write(cluster, 2 * RECORDS)

    cluster.nodes[4].kill()
    seen.becomes("3", "2,3", "")
    cluster.nodes[2].kill()
    seen.becomes("3", "3", "2")
    assert is_refused(cluster, 3)
    cluster.nodes[3].kill()
    seen.becomes(NO_LEADER, "", "2,3", "3")
    cluster.nodes[2].start()
    seen.becomes(NO_LEADER, "", "3", "3")
    cluster.nodes[3].start()
    cluster.nodes[4].start()
    seen.becomes("3", "2,3,4", "")
    write(cluster, 3 * RECORDS)
    assert read(cluster, 4 * RECORDS) == list(range(4 * RECORDS))
