"""The migration to KRaft (KIP-866) of a secured cluster, and the way back: users, ACLs, quotas, delegation tokens and
encrypted passwords are there in every phase, what is set in one phase counts in the next, and clients that log in and
need ACLs write and read meanwhile. Brokers and controllers of both programs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient

from support.access import logged_in
from support.migration_clusters import Controller, KafkaController, Load
from support.secured_migration import MECHANISM, PLAIN_CONFIG, SecuredCluster
from support.zookeeper_clients import create, create_soon, is_in_sync, soon
from support.zookeeper_clusters import BrokerOf, KafkaOnZooKeeper, KpyOnZooKeeper

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]

TOPIC, GROUP, CLUSTER = 2, 3, 4
READ, WRITE, CREATE = 3, 4, 5
UNKNOWN_USER = ("eve", "password of eve")
"""A user that may do nothing."""
LOADER, LOAD = "loader", "load"
"""The user of the clients that write and read meanwhile, and their topic."""


class Programs(NamedTuple):
    """The programs of a cluster. Broker 1 is the one that the test asks."""

    brokers: dict[int, BrokerOf]
    controller: type[Controller]

    @property
    def tells_of_tokens(self) -> bool:
        """Apache Kafka's controllers write tokens into ZooKeeper without a notice to its brokers."""
        return self.controller is Controller


KPY, KAFKA = KpyOnZooKeeper, KafkaOnZooKeeper
MIXES: dict[str, Programs] = {
    "kpybroker": Programs({1: KPY, 2: KPY}, Controller),
    "Apache Kafka's controller": Programs({1: KPY, 2: KPY}, KafkaController),
    "Apache Kafka's brokers": Programs({1: KAFKA, 2: KAFKA}, Controller),
    "brokers of both": Programs({1: KAFKA, 2: KPY}, Controller),
}


class Known:
    """Everything that was set so far."""

    def __init__(self, cluster: SecuredCluster) -> None:
        self.cluster = cluster
        self.applies_at_once = isinstance(cluster.brokers[1], KpyOnZooKeeper)
        """Apache Kafka's brokers apply another ``sasl.jaas.config`` only when they start, in ZooKeeper mode."""
        self.users: dict[str, str] = {}
        self.tokens: list[tuple[str, str]] = []
        self.acls: set[tuple[int, str, str, int]] = set()
        self.quotas: dict[str, dict[str, float]] = {}
        self.plain_user = ""
        self.unnoticed: list[tuple[str, str]] = []
        """Tokens of which brokers in ZooKeeper mode get no notice."""

    def add(self, name: str) -> None:
        """Set one more of everything. The user may read a topic, and owns a token."""
        cluster, password = self.cluster, f"password of {name}"
        soon(lambda: cluster.add_user(name, password))
        self.users[name] = password
        self.allow(name, CLUSTER, "kafka-cluster", CREATE)
        self.allow(name, TOPIC, f"topic-of-{name}", READ)
        cluster.set_quota({"user": name, "client-id": "c 1"}, producer_byte_rate=1_000_000.0, request_percentage=87.5)
        self.quotas[f"client-id=c 1,user={name}"] = {"producer_byte_rate": 1_000_000.0, "request_percentage": 87.5}
        soon(lambda: cluster.knows_user(1, name, password))
        self.tokens.append(soon(lambda: cluster.new_token(name, password)))
        soon(lambda: cluster.set_plain_user(1, f"plain{name}"))
        self.plain_user = f"plain{name}"

    def allow(self, name: str, kind: int, resource: str, operation: int) -> None:
        soon(lambda: self.cluster.allow(name, kind, resource, operation))
        self.acls.add((kind, resource, f"User:{name}", operation))

    def check(self, *, is_started: bool = False) -> None:
        """All brokers have all of it. ``is_started``: broker 1 was started in ZooKeeper mode after all was set."""
        for each in self.cluster.brokers:
            with suppress(AssertionError):
                soon(lambda each=each: not self._missing(each))
            assert not self._missing(each)
        cluster = self.cluster
        if not (self.applies_at_once or is_started):
            return
        soon(lambda: cluster.knows_plain_user(1, self.plain_user))
        assert cluster.knows_plain_user(2, "erin")  # of its file; only broker 1 has another config
        assert not cluster.knows_plain_user(1, "erin")

    def _missing(self, broker_id: int) -> list[object]:
        """The settings that a broker does not have."""
        cluster = self.cluster
        users = {name: cluster.knows_user(broker_id, name, password) for name, password in self.users.items()}
        tokens = {
            token[0]: cluster.knows_user(broker_id, *token, by_token=True)
            for token in self.tokens
            if token not in self.unnoticed
        }
        missing: list[object] = [name for name, is_known in {**users, **tokens}.items() if not is_known]
        topics = {name: f"topic-of-{name}" for name, is_known in users.items() if is_known}
        refused = [t for name, t in topics.items() if not cluster.lets_read(broker_id, name, self.users[name], t)]
        open_to_all = [t for t in topics.values() if cluster.lets_read(broker_id, *UNKNOWN_USER, t)]
        quotas = without_order(cluster.quotas(broker_id))
        acls = cluster.acls(broker_id)
        return [
            *missing,
            *refused,
            *open_to_all,
            *([] if quotas == without_order(self.quotas) else [quotas]),
            *([] if acls == self.acls else [acls]),
        ]


def without_order(quotas: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """The types of an entity come in any order."""
    return {",".join(sorted(entity.split(","))): values for entity, values in quotas.items()}


@contextmanager
def loaded_cluster(mix: Programs, directory: Path) -> Iterator[tuple[SecuredCluster, Known, AdminClient, Load]]:
    """A cluster in ZooKeeper mode with users and what they may do, one of whom writes and reads until the end."""
    with SecuredCluster(directory, mix.brokers, mix.controller) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        create(admin, LOAD, 4, replicas=2)
        known = Known(cluster)
        soon(lambda: cluster.add_user(*UNKNOWN_USER))
        known.add(LOADER)
        for operation in (READ, WRITE):
            known.allow(LOADER, TOPIC, LOAD, operation)
        for group in Load.GROUPS:
            known.allow(LOADER, GROUP, group, READ)
        known.add("alice")
        known.check()
        access = logged_in(cluster.secured_servers, LOADER, known.users[LOADER], mechanism=MECHANISM)
        with Load(access, LOAD, 4) as load:
            soon(lambda: len(load.seen) > 100)
            yield cluster, known, admin, load
        assert load.judge() > 1_000


def migrate_metadata(cluster: SecuredCluster, admin: AdminClient) -> None:
    """The first two steps: a KRaft controller rules brokers that are in ZooKeeper mode, and keeps ZooKeeper up."""
    cluster.start_controllers()
    for broker_id in cluster.brokers:
        cluster.enable(broker_id)
        soon(lambda: is_in_sync(admin, LOAD))
    cluster.wait_for("dual_write")


@pytest.mark.parametrize("mix", MIXES)
def test_a_secured_cluster_migrates_with_all_that_secures_it(mix: str, tmp_path: Path) -> None:
    with loaded_cluster(MIXES[mix], tmp_path) as (cluster, known, admin, load):
        migrate_metadata(cluster, admin)
        known.check(is_started=True)
        known.add("bob")
        if not MIXES[mix].tells_of_tokens:
            known.unnoticed = known.tokens[-1:]
        known.check()
        known.unnoticed = []
        soon(lambda: znodes_have(cluster, known))
        before = len(load.seen)
        for broker_id in cluster.brokers:
            cluster.to_kraft(broker_id)
            soon(lambda: is_in_sync(admin, LOAD))
        soon(lambda: len(load.seen) > before + 100)
        known.check()
        known.add("carol")
        soon(lambda: znodes_have(cluster, known))
        cluster.finalise()
        known.check()
        known.add("dave")
        known.check()


@pytest.mark.parametrize("mix", MIXES)
def test_the_way_back_keeps_all_that_secures_a_cluster(mix: str, tmp_path: Path) -> None:
    with loaded_cluster(MIXES[mix], tmp_path) as (cluster, known, admin, load):
        migrate_metadata(cluster, admin)
        known.add("bob")
        cluster.to_kraft(2)
        soon(lambda: is_in_sync(admin, LOAD))
        known.add("carol")
        soon(lambda: znodes_have(cluster, known))
        cluster.to_zookeeper(2)
        soon(lambda: is_in_sync(admin, LOAD))
        assert cluster.leave_controllers() in cluster.brokers
        create_soon(admin, "back")
        for broker_id in cluster.brokers:
            cluster.to_zookeeper(broker_id, takes_part=False)
            soon(lambda: is_in_sync(admin, LOAD))
        before = len(load.seen)
        soon(lambda: len(load.seen) > before + 100)
        known.check(is_started=True)
        known.add("dave")
        known.check()
        assert cluster.status()["phase"] == "in_zookeeper"


def znodes_have(cluster: SecuredCluster, known: Known) -> bool:
    """Whether ZooKeeper has all of it too, and no readable password."""
    tree = cluster.tree()
    try:
        users = set(known.users) <= set(tree.get_children("/config/users"))
        tokens = {each for each, _ in known.tokens} == set(tree.get_children("/delegation_token/tokens"))
        acls = json.loads(tree.get("/kafka-acl/Cluster/kafka-cluster")[0])["acls"]
        text = json.loads(tree.get("/config/brokers/1")[0])["config"][PLAIN_CONFIG]
    finally:
        tree.stop()
        tree.close()
    assert known.plain_user not in text
    assert "encryptedPassword:" in text
    return users and tokens and {each["principal"] for each in acls} == {f"User:{each}" for each in known.users}
