"""Nodes that speak TLS and SASL among themselves: they replicate, fail over, and log in again while they do."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from running_cluster import COMBINED, RunningCluster, cluster_of

import oauth_nodes
from kpybroker.network.login import Login
from kpybroker.testing.oidc import TOKEN, OidcProvider
from secured import between_nodes

PATIENCE_S = 30
TOKEN_S = 4
SESSION_MS = 1_200
"""So short that nodes log in again about once a second."""

pytestmark = pytest.mark.slow


@pytest.fixture
def logins(monkeypatch: pytest.MonkeyPatch) -> list[Login]:
    """The logins over connections that were in use."""
    found: list[Login] = []
    begin_again = Login.begin_again

    def counted(login: Login, before: Login) -> bytes:
        found.append(login)
        return begin_again(login, before)

    monkeypatch.setattr(Login, "begin_again", counted)
    return found


def create(cluster: RunningCluster, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    topic = NewTopic(name, 1, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])[name].result(PATIENCE_S)
    cluster.wait_for_isr(name, 3)


class Writer:
    """Writes numbered records with acks=all, and remembers which were acknowledged."""

    def __init__(self, cluster: RunningCluster, topic: str) -> None:
        self.topic = topic
        self.acknowledged: list[int] = []
        self.failures: list[Any] = []
        self._next = 0
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
        )

    def write(self, count: int = 100) -> None:
        for number in range(self._next, self._next + count):
            self._producer.produce(self.topic, b"%d" % number, partition=0, on_delivery=self._done_with(number))
        self._next += count
        assert self._producer.flush(PATIENCE_S) == 0
        assert (self.failures, len(self.acknowledged)) == ([], self._next)

    def _done_with(self, number: int) -> Callable[[Any, Any], None]:
        def done(error: Any, _message: Any) -> None:
            (self.acknowledged if error is None else self.failures).append(number if error is None else error)

        return done


@pytest.fixture(params=["SASL_PLAINTEXT", "SASL_SSL", "SSL"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningCluster]:
    settings = {**between_nodes(tmp_path, protocol=request.param), "connections.max.reauth.ms": str(SESSION_MS)}
    if request.param == "SSL":
        settings["ssl.client.auth"] = "required"
    with cluster_of(tmp_path, [COMBINED] * 3, settings) as running:
        yield running
    assert running.failures == []


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    with OidcProvider() as provider:
        provider.lifetime_s = TOKEN_S
        yield provider


def test_nodes_log_in_to_each_other_with_tokens_that_they_renew(
    provider: OidcProvider, tmp_path: Path, logins: list[Login]
) -> None:
    with cluster_of(tmp_path, [COMBINED] * 3, oauth_nodes.between_nodes(provider)) as cluster:
        create(cluster, "t")
        writer = Writer(cluster, "t")
        writer.write()
        provider.rotate_keys()
        provider.fail(times=2)
        asked = provider.requests.count(TOKEN)
        cluster.eventually(lambda: provider.requests.count(TOKEN) > asked + 4, "tokens that were renewed")
        before = len(logins)
        cluster.eventually(lambda: sum(each.is_complete for each in logins) > before + 3, "logins again")
        writer.write()
        cluster.wait_for_isr("t", 3)
    assert cluster.failures == []


def test_records_survive_a_dead_node_while_the_others_log_in_again(
    cluster: RunningCluster, logins: list[Login]
) -> None:
    create(cluster, "t")
    writer = Writer(cluster, "t")
    writer.write()
    cluster.kill(cluster.partition("t").leader)
    writer.write()
    points = cluster.nodes[max(cluster.nodes)].image.brokers[max(cluster.nodes)].listeners
    if points["INTERNAL"].security_protocol != 1:
        before = len(logins)
        cluster.eventually(lambda: sum(each.is_complete for each in logins) > before + 10, "logins again")
    writer.write()
    cluster.start(*(set(cluster.ports) - set(cluster.nodes)))
    cluster.wait_for_isr("t", 3)
    writer.write()
