"""Nodes that speak TLS and SASL among themselves: they replicate, fail over, and log in again while they do."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic
from running_cluster import COMBINED, RunningCluster, cluster_of

from kpybroker.hosts.network.login import OutgoingLogin
from kpybroker.testing.oidc import TOKEN, OidcProvider
from oracle.process import HOST
from support import oauth_nodes
from support.kdc import MISSING, WHY_MISSING, Kdc, with_keytab
from support.secured import NODE, PASSWORD, between_nodes

PATIENCE_S = 30
TOKEN_S = 4
SESSION_MS = 1_200
"""So short that nodes log in again about once a second."""

pytestmark = pytest.mark.slow


@pytest.fixture
def logins(monkeypatch: pytest.MonkeyPatch) -> list[OutgoingLogin]:
    """The logins over connections that were in use."""
    found: list[OutgoingLogin] = []
    begin_again = OutgoingLogin.begin_again

    def counted(login: OutgoingLogin, before: OutgoingLogin) -> bytes:
        found.append(login)
        return begin_again(login, before)

    monkeypatch.setattr(OutgoingLogin, "begin_again", counted)
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


def logs_are_equal(cluster: RunningCluster, topic: str) -> bool:
    """Whether all replicas end at the same offset, and all of it is committed."""
    replicas = [node.broker.replicas.find(topic, 0) for node in cluster.nodes.values() if node.broker is not None]
    return len({replica.log.next_offset for replica in replicas}) == 1


@pytest.fixture
def kerberos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The properties by which nodes log in to each other by Kerberos."""
    pytest.importorskip("gssapi", reason="gssapi is not installed: pip install 'kpybroker[kerberos]'")
    if MISSING:
        pytest.skip(WHY_MISSING)
    with Kdc(tmp_path) as kdc:
        for name, value in kdc.environment.items():
            monkeypatch.setenv(name, value)
        principal = f"kafka/{HOST}"
        jaas = with_keytab(principal, kdc.add(principal))
        found = between_nodes(tmp_path, "GSSAPI", "SASL_PLAINTEXT")
        yield {name: jaas if name.endswith(".jaas.config") else value for name, value in found.items()}


@pytest.fixture(params=["SASL_PLAINTEXT", "SASL_SSL", "SSL", "GSSAPI"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningCluster]:
    if request.param == "GSSAPI":
        settings = {**request.getfixturevalue("kerberos"), "sasl.kerberos.service.name": "kafka"}
    else:
        settings = between_nodes(tmp_path, protocol=request.param)
    settings["connections.max.reauth.ms"] = str(SESSION_MS)
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
    provider: OidcProvider, tmp_path: Path, logins: list[OutgoingLogin]
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
    cluster: RunningCluster, logins: list[OutgoingLogin]
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


def users_of_nodes(cluster: RunningCluster) -> set[str]:
    """The users of all connections of all nodes."""
    servers = [node.server for node in cluster.nodes.values() if node.server is not None]
    return {each.client.principal.name for server in servers for each in server.connections}


def test_nodes_log_in_by_altered_jaas_configs_from_their_next_connections_on(tmp_path: Path) -> None:
    settings = between_nodes(tmp_path, protocol="SASL_PLAINTEXT")
    key = "listener.name.internal.plain.sasl.jaas.config"
    settings[key] = settings[key].rstrip(";") + ' user_second="other";'
    altered = settings[key].replace('username="node"', 'username="second"')
    altered = altered.replace(f' password="{PASSWORD}"', ' password="other"')
    with cluster_of(tmp_path, [COMBINED] * 3, settings) as cluster:
        create(cluster, "t")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        for node_id in cluster.nodes:
            entry = ConfigEntry(key, altered, incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ConfigResource.Type.BROKER, str(node_id), incremental_configs=[entry])
            admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
        assert "second" not in users_of_nodes(cluster)
        leader = cluster.partition("t").leader
        cluster.kill(leader)
        cluster.start(leader)
        cluster.wait_for_isr("t", 3)
        cluster.eventually(lambda: "second" in users_of_nodes(cluster), "a login by an altered config")
        assert cluster.failures == []


SCRAM_USER = f"SCRAM-SHA-256=[name={NODE},password={PASSWORD}]"


def test_brokers_log_in_by_scram_from_the_first_start_on(tmp_path: Path) -> None:
    settings = between_nodes(tmp_path, "SCRAM-SHA-256", "SASL_PLAINTEXT", listeners=["INTERNAL"])
    settings["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
    with cluster_of(tmp_path, [COMBINED] * 3, settings, [SCRAM_USER]) as cluster:
        create(cluster, "t")
        cluster.eventually(lambda: NODE in users_of_nodes(cluster), "a login")
        assert cluster.failures == []


def test_voters_that_start_at_once_cannot_log_in_by_scram_even_with_users_of_format(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = between_nodes(tmp_path, "SCRAM-SHA-256", "SASL_PLAINTEXT")
    cluster = RunningCluster(tmp_path, [COMBINED] * 3, settings, [SCRAM_USER])
    try:
        assert [line for line in cluster.config(1).warnings if "sasl.mechanism.controller.protocol" in line]
        starts = [asyncio.run_coroutine_threadsafe(cluster._start(node_id), cluster.loop) for node_id in (1, 2, 3)]

        def failed() -> set[str]:
            lines = [record.getMessage() for record in caplog.records]
            return {line.split()[5] for line in lines if "listener CONTROLLER" in line and "SASL_AUTHENTI" in line}

        cluster.eventually(lambda: len(failed()) == 3, "failed logins at all voters")
        assert {node.quorum and node.quorum.controller_id for node in cluster.nodes.values()} == {-1}
        assert not any(start.done() for start in starts)
        for start in starts:
            start.cancel()
    finally:
        cluster.close()
