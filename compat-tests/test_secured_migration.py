"""The migration to KRaft (KIP-866) of a secured cluster: users, ACLs, quotas, delegation tokens and encrypted passwords
are there in every phase, and what is set in one phase counts in the next."""

import json
from contextlib import suppress
from pathlib import Path

import pytest

from migration_clusters import Controller, KafkaController
from secured_migration import PLAIN_CONFIG, SecuredCluster
from zookeeper_clients import until
from zookeeper_clusters import KpyOnZooKeeper

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]

CLUSTER, CREATE, TOPIC, READ = 4, 5, 2, 3
NOBODY = ("eve", "password of eve")
"""A user that may do nothing."""
CONTROLLERS: dict[str, type[Controller]] = {"kpybroker": Controller, "Apache Kafka": KafkaController}
"""Brokers are kpybroker's: Kafka's apply another ``sasl.jaas.config`` only when they start."""


class Known:
    """Everything that was set so far."""

    def __init__(self, cluster: SecuredCluster) -> None:
        self.cluster = cluster
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
        until(lambda: cluster.add_user(name, password))
        self.users[name] = password
        until(lambda: cluster.allow(name, CLUSTER, "kafka-cluster", CREATE))
        until(lambda: cluster.allow(name, TOPIC, f"topic-of-{name}", READ))
        self.acls.add((CLUSTER, "kafka-cluster", f"User:{name}", CREATE))
        self.acls.add((TOPIC, f"topic-of-{name}", f"User:{name}", READ))
        cluster.set_quota({"user": name, "client-id": "c 1"}, producer_byte_rate=1_000_000.0, request_percentage=87.5)
        self.quotas[f"client-id=c 1,user={name}"] = {"producer_byte_rate": 1_000_000.0, "request_percentage": 87.5}
        until(lambda: cluster.knows_user(1, name, password))
        self.tokens.append(until(lambda: cluster.new_token(name, password)))
        until(lambda: cluster.set_plain_user(1, f"plain{name}"))
        self.plain_user = f"plain{name}"

    def check(self) -> None:
        """All brokers have all of it."""
        for each in self.cluster.brokers:
            with suppress(AssertionError):
                until(lambda each=each: not self._missing(each))
            assert not self._missing(each)
        cluster = self.cluster
        until(lambda: cluster.knows_plain_user(1, self.plain_user))
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
        open_to_all = [t for t in topics.values() if cluster.lets_read(broker_id, *NOBODY, t)]
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


@pytest.mark.parametrize("program", CONTROLLERS)
def test_a_secured_cluster_migrates_with_all_that_secures_it(program: str, tmp_path: Path) -> None:
    controller_of = CONTROLLERS[program]
    with SecuredCluster(tmp_path, {1: KpyOnZooKeeper, 2: KpyOnZooKeeper}, controller_of) as cluster:
        known = Known(cluster)
        name, password = NOBODY
        until(lambda: cluster.add_user(name, password))
        known.add("alice")
        known.check()
        cluster.start_controllers()
        for broker_id in cluster.brokers:
            cluster.enable(broker_id)
        cluster.wait_for("dual_write")
        known.check()
        known.add("bob")
        if controller_of is KafkaController:  # it writes tokens into ZooKeeper without a notice
            known.unnoticed = known.tokens[-1:]
        known.check()
        known.unnoticed = []
        until(lambda: znodes_have(cluster, known))
        for broker_id in cluster.brokers:
            cluster.to_kraft(broker_id)
        known.check()
        known.add("carol")
        until(lambda: znodes_have(cluster, known))
        cluster.finalise()
        known.check()
        known.add("dave")
        known.check()


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
