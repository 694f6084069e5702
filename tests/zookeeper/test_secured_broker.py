"""A broker that reaches ZooKeeper through TLS and logs in there, so that its znodes are its own."""

from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from oracle import free_port
from oracle.zookeeper import ZooKeeper
from support.certificates import Authority
from support.waiting import eventually
from support.zookeeper_clusters import KpyOnZooKeeper

pytestmark = pytest.mark.java

SERVER = 'Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_kafka="secret words"; };\n'
CLIENT = """Client {
  org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="secret words";
};
"""
PASSWORD = "changeit"
PATIENCE_S = 60


def until_it_says(broker: KpyOnZooKeeper, text: str) -> str:
    def reported() -> str:
        return broker.output.read_text() if broker.output.exists() else ""

    def is_reported() -> bool:
        assert broker.process is not None
        assert broker.process.poll() is None, reported()
        return text in reported()

    eventually(is_reported, lambda: f"{text!r} in {reported()}")
    return reported()


def test_znodes_are_owned_by_the_login_and_travel_through_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority()
    keys = authority.issue("zookeeper", hosts=["127.0.0.1", "localhost"]).save_pkcs12(tmp_path / "zk.p12", PASSWORD)
    trusted = authority.save(tmp_path / "authority.pem")
    (tmp_path / "server.jaas").write_text(SERVER)
    (tmp_path / "client.jaas").write_text(CLIENT)
    secure_port = free_port()
    properties = {
        "secureClientPort": str(secure_port),
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(keys),
        "ssl.keyStore.password": PASSWORD,
        "ssl.trustStore.location": str(trusted),
        "ssl.clientAuth": "none",
        "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }
    configs = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": str(trusted),
        "zookeeper.set.acl": "true",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "delegation.token.secret.key": "a secret of tokens",
    }
    jaas = f"-Djava.security.auth.login.config={tmp_path / 'server.jaas'}"
    with ZooKeeper(properties, directory=tmp_path / "zookeeper", jvm=[jaas]) as zookeeper:
        broker = KpyOnZooKeeper(4, f"127.0.0.1:{secure_port}/secured", configs, directory=tmp_path / "broker")
        broker.prepare()
        broker.launch()
        assert broker.process is not None
        assert broker.process.wait(PATIENCE_S) == 1, "without a login nobody would own the znodes"
        assert "zookeeper.set.acl is true" in broker.output.read_text()
        broker.process = None
        monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g -Djava.security.auth.login.config={tmp_path / 'client.jaas'}")
        broker.launch()
        reported = until_it_says(broker, "Registered broker 4")
        assert "secret words" not in reported
        tree = KazooClient(f"{zookeeper.bootstrap_servers}/secured")
        tree.start()
        owned = {
            path: sorted((acl.id.scheme, acl.id.id, acl.perms) for acl in tree.get_acls(path)[0])
            for path in ("/brokers/ids/4", "/config/topics", "/kafka-acl/Topic", "/consumers")
        }
        for secret in ("/config/users", "/config/brokers", "/delegation_token/tokens"):
            with pytest.raises(NoAuthError):
                tree.get_acls(secret)
        tree.stop()
        tree.close()
        broker.stop()
    ours, readers, everybody = ("sasl", "kafka", 31), ("world", "anyone", 1), ("world", "anyone", 31)
    assert owned == {
        "/brokers/ids/4": [ours, readers],
        "/config/topics": [ours, readers],
        "/kafka-acl/Topic": [ours, readers],
        "/consumers": [everybody],
    }
