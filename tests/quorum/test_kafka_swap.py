"""One metadata directory, two programs: Kafka starts on ours and answers alike, ours goes on where Kafka stopped."""

import re
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from controller_requests import REQUESTS
from host_world import HostWorld

from kpybroker.machines.metadata.image import TOPIC_RESOURCE
from kpystorage.real_disk import RealDisk
from kpywire.codec import decode, encode
from kpywire.messages.metadata import MetadataRequest
from oracle.broker import ApacheKafka
from support.raw_client import RawClient

pytestmark = [pytest.mark.java, pytest.mark.slow]

RANDOM_ID = re.compile(r"topic_id=b(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')")
GROUPS_OF_RESULTS = ("topics", "responses", "results")


class Swapped(NamedTuple):
    """The result of the exchange."""

    ours_before: dict[str, bytes]
    seen_by_kafka: dict[str, bytes]
    kafkas_answers: list[str]
    path: Path
    kafkas_topics: dict[str, bytes]


def comparable(response: Any) -> str:
    """A response without random ids, its parts in an order of their own: Kafka's come out of hash tables."""
    for name in GROUPS_OF_RESULTS:
        parts = getattr(response, name, None)
        if parts:
            parts.sort(key=repr)
    return RANDOM_ID.sub("topic_id=..", repr(response))


def topics_of(client: RawClient) -> dict[str, bytes]:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    return {topic.name: topic.topic_id for topic in client.call(request, 13).topics if topic.name}


@pytest.fixture(scope="module")
def swapped(tmp_path_factory: pytest.TempPathFactory) -> Swapped:
    home = tmp_path_factory.mktemp("swap")
    kafka = ApacheKafka(directory=home)
    listeners = {
        "listeners": kafka.properties["listeners"],
        "controller.quorum.bootstrap.servers": "",
    }
    path = str(kafka.data)
    ours = HostWorld(RealDisk(), path=path, overrides=listeners).start().with_broker()
    ours.create("ours", configs={"retention.ms": "123456789"})
    before = {name: topic.id for name, topic in ours.image.topics.items()}
    ours.stop()
    with kafka, RawClient(kafka.port) as client:
        seen = topics_of(client)
        answers = [comparable(client.call(request, version)) for request, version in REQUESTS]
        kafkas = topics_of(client)
        for _ in range(100):
            if "c1" not in kafkas:
                break
            time.sleep(0.05)  # Kafka answers a deletion before its broker has applied it
            kafkas = topics_of(client)
    return Swapped(before, seen, answers, kafka.data, kafkas)


def test_kafka_starts_on_our_directory_and_knows_our_topics(swapped: Swapped) -> None:
    assert swapped.ours_before
    assert swapped.seen_by_kafka == swapped.ours_before


def test_both_answer_the_same_requests_the_same(swapped: Swapped) -> None:
    world = HostWorld().start().with_broker()
    different = []
    for (request, version), theirs in zip(REQUESTS, swapped.kafkas_answers, strict=True):
        answers: list[Any] = []
        world.host.send(request, answers.append, api_version=version)
        world.scheduler.run()
        (answer,) = answers
        ours = comparable(decode(type(answer), version, encode(answer, version)))
        if ours != theirs:
            different.append((request, ours, theirs))
    assert not different


def test_ours_goes_on_where_kafka_stopped(swapped: Swapped) -> None:
    world = HostWorld(RealDisk(), path=str(swapped.path))
    assert {name: topic.id for name, topic in world.image.topics.items()} == swapped.kafkas_topics
    assert world.image.configs_of(TOPIC_RESOURCE, "ours") == {"retention.ms": "123456789"}
    assert world.image.finalized_features == {
        "metadata.version": 33,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert world.host.kraft_version == 1
    world.start().with_broker()
    world.create("after-kafka")
    assert "after-kafka" in world.image.topics
    world.stop()
