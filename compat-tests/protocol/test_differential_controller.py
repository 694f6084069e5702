"""The APIs that only a controller's listener serves, asked of Apache Kafka and of kpybroker: each at every version."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from differential.comparison import differences
from differential.controller_paths import PATHS, Facts
from differential.normalisation import View, normalised
from kpybroker.requests.handlers import controller_versions, served_versions
from kpywire import api
from kpywire.messages.describe_cluster import DescribeClusterRequest
from oracle import ApacheKafka, BrokerProcess, free_port
from oracle.broker import CLUSTER_ID
from oracle.process import HOST
from support.admin_requests import quorum_of
from support.quorum_requests import METADATA
from support.raw_client import RawClient, api_key_of
from support.raw_requests import creation, topic_named
from support.targets import KpyBroker

OWN = frozenset({"broker_epoch", "leader_epoch", "producer_id_start", "port"})
"""The fields whose values each controller makes up. An epoch that is none shows all the same."""
CONTROLLERS = 2


class KpyController(KpyBroker):
    """A node that is broker and controller, formatted as the oracle is."""

    def __init__(self, directory: Path) -> None:
        super().__init__({"broker.session.timeout.ms": "60000"}, directory=directory)
        self.controller_port = free_port()
        listeners = f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{self.controller_port}"
        self.properties |= {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"{HOST}:{self.controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners": listeners,
            "advertised.listeners": listeners,
        }

    def prepare(self) -> None:
        super().prepare()
        file = self.directory / "server.properties"
        command = [str(self.path), "format", "--standalone", "--cluster-id", CLUSTER_ID, "--config", str(file)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Pair:
    """Both controllers, and what each says of itself."""

    def __init__(self, ports: tuple[int, int]) -> None:
        self.ports = ports
        self.facts = tuple(map(facts_of, ports))


def facts_of(port: int) -> Facts:
    with RawClient(port) as controller:
        cluster = controller.call(DescribeClusterRequest(endpoint_type=CONTROLLERS), 1)
        quorum = controller.call(quorum_of((METADATA, [0])), 2)
        (made,) = controller.call(creation(topic_named("known")), 7).topics
        return Facts(cluster.cluster_id, quorum.topics[0].partitions[0].leader_epoch, made.topic_id)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, target: str) -> Iterator[Pair]:
    if target != "kpybroker":
        pytest.skip("compares kpybroker with Apache Kafka")
    directory = tmp_path_factory.mktemp("controllers")
    theirs = ApacheKafka({"broker.session.timeout.ms": "60000"}, directory=directory / "apache-kafka")
    ours = KpyController(directory / "kpybroker")
    with ExitStack() as brokers:
        started: list[BrokerProcess] = [brokers.enter_context(each) for each in (theirs, ours)]
        assert len(started) == 2
        yield Pair((theirs.controller_port, ours.controller_port))


def played(port: int, facts: Facts, key: int, version: int) -> Iterator[tuple[Any, Any]]:
    """Each request of an API's paths, and what came of it; registrations that only prepare are of their own version."""
    with RawClient(port) as controller:
        asking = PATHS[key](facts, version)
        request = next(asking, None)
        while request is not None:
            of = api_key_of(request)
            at = version if of == key else api.API_KEYS[of].max_version
            answer = controller.call(request, at)
            assert of == key or not answer.error_code, f"{request}: {answer}"
            tree = normalised(answer, View(of, at, "~", 0, port, {facts.topic_id: "<known>"}))
            yield request, without_own(tree)
            try:
                request = asking.send(answer)
            except StopIteration:
                return


def without_own(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {
            name: "<own>" if name in OWN and isinstance(value, int) and value >= 0 else without_own(value)
            for name, value in tree.items()
        }
    if isinstance(tree, list):
        return [without_own(each) for each in tree]
    return tree


@pytest.mark.java
@pytest.mark.parametrize("key", PATHS, ids=lambda key: api.API_KEYS[key].name)
def test_a_controller_answers_as_kafkas_at_every_version(pair: Pair, key: int) -> None:
    first, last = controller_versions()[key]
    for version in range(first, last + 1):
        sides = [played(port, facts, key, version) for port, facts in zip(pair.ports, pair.facts, strict=True)]
        for (request, kafka), (_, ours) in zip(*sides, strict=True):
            found = [str(each) for each in differences(kafka, ours)]
            assert not found, f"v{version} {request}: {found}"


def test_every_api_of_a_controller_has_paths() -> None:
    assert {*controller_versions()} - {*served_versions()} == {*PATHS}
