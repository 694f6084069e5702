"""Two clusters in ZooKeeper with logins, ACLs, tokens and encrypted passwords, side by side in one ZooKeeper.

Each has one controller: Apache Kafka in ``/kafka``, kpybroker in ``/kpybroker``. A second broker of kpybroker is in
Apache Kafka's cluster.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient

from kpybroker.machines.sasl import scram
from kpybroker.machines.sasl.scram_client import ScramClient
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from kpywire.messages.sasl_handshake import SaslHandshakeRequest
from oracle import BrokerProcess, free_port
from oracle.zookeeper import ZooKeeper
from support import permitted
from support.raw_client import RawClient
from support.zookeeper_clusters import SHARED, KafkaOnZooKeeper, KpyOnZooKeeper

SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN_USERS: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required {};".format(
    " ".join(f'user_{name}="{permitted.PASSWORD}"' for name in ("admin", "erin", "frank"))
)
SECURED: Final = {
    **SHARED,
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "delegation.token.secret.key": "a secret of tokens",
    "password.encoder.secret": "a secret of passwords",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_USERS,
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
}


class World(NamedTuple):
    """``kafka`` and ``ours`` are the controllers of clusters of their own; ``guest`` is ours in Kafka's cluster."""

    kafka: BrokerProcess
    ours: BrokerProcess
    guest: BrokerProcess
    secured: Mapping[str, int]
    """The port of each broker's listener with SASL."""
    kafkas_tree: KazooClient
    our_tree: KazooClient


@contextmanager
def secured_world(directory: Path) -> Iterator[World]:
    """The brokers, started."""
    with ZooKeeper(directory=directory / "zookeeper") as zookeeper:
        address, ports = zookeeper.bootstrap_servers, {name: free_port() for name in ("kafka", "ours", "guest")}

        def broker(name: str, kind: Any, broker_id: int, chroot: str) -> BrokerProcess:
            port = free_port()
            listeners = f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{ports[name]}"
            configs = {**SECURED, "listeners": listeners, "advertised.listeners": listeners}
            made: BrokerProcess = kind(broker_id, f"{address}{chroot}", configs, directory=directory / name, port=port)
            return made

        with (
            broker("kafka", KafkaOnZooKeeper, 1, "/kafka") as kafka,
            broker("ours", KpyOnZooKeeper, 1, "/kpybroker") as ours,
            broker("guest", KpyOnZooKeeper, 2, "/kafka") as guest,
        ):
            trees = [KazooClient(f"{address}{chroot}") for chroot in ("/kafka", "/kpybroker")]
            for each in trees:
                each.start()
            yield World(kafka, ours, guest, ports, *trees)
            for each in trees:
                each.stop()
                each.close()


def shown(message: Any) -> Any:
    """A response as it can be compared: lists without their order, and no times."""
    if isinstance(message, list):
        return sorted((shown(each) for each in message), key=repr)
    fields = getattr(type(message), "FIELDS", None)
    if fields is None:
        return message
    return {name: shown(getattr(message, name, None)) for name in fields if name != "throttle_time_ms"}


def port_of(broker: BrokerProcess) -> int:
    return int(broker.bootstrap_servers.rpartition(":")[2])


def logged_in(raw: RawClient, mechanism: str, name: str, password: str, *, by_token: bool = False) -> bool:
    """Log in by SCRAM; whether the broker takes it."""
    client = ScramClient(scram.MECHANISMS[mechanism], name, password, "nonce", by_token=by_token)
    raw.call(SaslHandshakeRequest(mechanism=mechanism), 1)
    message: bytes | None = client.first()
    while message is not None:
        answer = raw.call(SaslAuthenticateRequest(auth_bytes=message), 2)
        if answer.error_code:
            return False
        message = client.respond(answer.auth_bytes)
    return True
