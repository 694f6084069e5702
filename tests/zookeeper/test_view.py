"""The contradictions that ``kpybroker zookeeper`` finds in a tree, and the file with the login to ZooKeeper."""

import json

import pytest

from kpybroker.hosts.zookeeper.view import disagreements
from kpybroker.machines.zookeeper.client.jaas_file import BrokenJaasFile, DigestLogin, JaasSection, login_of, place_of
from kpybroker.machines.zookeeper.client.operations import Stat
from kpybroker.machines.zookeeper.snapshot import HIDDEN, ReadZnode, TreeSnapshot
from kpybroker.machines.zookeeper.tree import paths
from kpywire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

BROKER = {
    "version": 5,
    "endpoints": ["PLAINTEXT://h:9092"],
    "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
    "host": "h",
    "port": 9092,
    "features": {},
}
STATE = {"version": 1, "leader": 1, "leader_epoch": 3, "isr": [1, 2], "controller_epoch": 1}
TOPIC = {
    "version": 3,
    "partitions": {"0": [1, 2]},
    "adding_replicas": {},
    "removing_replicas": {},
    "topic_id": "3QA09yuDSFq85UORUVTWnQ",
}
WHOLE = {
    "/brokers/ids": None,
    "/brokers/ids/1": BROKER,
    "/brokers/ids/2": {**BROKER, "endpoints": ["PLAINTEXT://h:9093"]},
    "/brokers/topics/t": TOPIC,
    "/brokers/topics/t/partitions/0/state": STATE,
    "/config/topics/t": {"version": 1, "config": {}},
    "/controller": {"version": 2, "brokerid": 1, "timestamp": "1", "kraftControllerEpoch": -1},
    "/controller_epoch": 1,
}


def tree_of(**changed: object) -> TreeSnapshot:
    contents = {**WHOLE, **{path.replace("__", "/"): content for path, content in changed.items()}}
    nodes = {
        path: ReadZnode(content if isinstance(content, bytes | None) else json.dumps(content).encode(), Stat(*[0] * 11))
        for path, content in contents.items()
        if content != "missing"
    }
    return TreeSnapshot(nodes)


def test_a_tree_in_which_everything_fits_has_no_disagreement() -> None:
    assert disagreements.in_the_tree(tree_of()) == []


@pytest.mark.parametrize(
    ("path", "content", "expected"),
    [
        ("/controller", "missing", "has no controller"),
        ("/brokers/ids/1", "missing", "names broker 1, which is not registered"),
        ("/brokers/ids/1", "missing", "t-0 is led by broker 1, which is not registered"),
        ("/brokers/topics/t/partitions/0/state", {**STATE, "controller_epoch": 9}, "KAFKA-20488"),
        ("/brokers/topics/t/partitions/0/state", {**STATE, "leader": -1, "isr": [2]}, "t-0 has no leader"),
        ("/brokers/topics/t/partitions/0/state", {**STATE, "isr": [2]}, "which is not in its ISR [2]"),
        ("/brokers/topics/t/partitions/0/state", {**STATE, "isr": [1, 7]}, "[7] in its ISR"),
        ("/brokers/topics/t/partitions/0/state", {**STATE, "isr": [1]}, "the replicas on [2] are not in sync"),
        ("/brokers/topics/t/partitions/0/state", "missing", "t-0 has no state"),
        ("/brokers/topics/t/partitions/0/state", b"{", "cannot be understood"),
        ("/brokers/topics/t", {**TOPIC, "adding_replicas": {"0": [2]}}, "t-0 is being reassigned"),
        ("/config/topics/t", "missing", "no znode for its configs"),
        ("/admin/delete_topics/t", None, "t is to be deleted"),
        ("/brokers/ids", "missing", "Is the chroot right?"),
    ],
)
def test_disagreements_with_zookeeper_are_found(path: str, content: object, expected: str) -> None:
    found = disagreements.in_the_tree(tree_of(**{path: content}))
    assert any(expected in each for each in found), found


def answer(controller_id: int = 1, leader: int = 1, epoch: int = 3, name: str = "t") -> MetadataResponse:
    partition = MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1, 2],
        isr_nodes=[1, 2],
        offline_replicas=[],
    )
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[MetadataResponseBroker(node_id=each, host="h", port=9092, rack=None) for each in (1, 2)],
        cluster_id="c",
        controller_id=controller_id,
        topics=[MetadataResponseTopic(error_code=0, name=name, partitions=[partition])],
    )


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (answer(controller_id=2), "takes broker 2 for the controller"),
        (answer(leader=2), "says that broker 2 leads t-0"),
        (answer(epoch=2), "in epoch 2; ZooKeeper has broker 1 in epoch 3"),
        (answer(name="other"), "does not know the topic t"),
        (answer(name="other"), "knows the topic other"),
    ],
)
def test_a_broker_that_says_something_else_is_found(reported: MetadataResponse, expected: str) -> None:
    assert disagreements.with_a_broker(tree_of(), 2, answer()) == []
    found = disagreements.with_a_broker(tree_of(), 2, reported)
    assert any(expected in each for each in found), found


def test_secrets_are_not_shown() -> None:
    node = ReadZnode(b'{"config":{"SCRAM-SHA-256":"salt"}}', Stat(*[0] * 11))
    assert [node.shown(f"{path}/x") for path in paths.SENSITIVE] == [HIDDEN] * 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Client { D required username="u" password="p\\"q"; };', DigestLogin("u", 'p"q')),
        (
            'Server { D required a="b"; }; // c\n Client { D required username=u password=p; X optional k="v"; };',
            DigestLogin("u", "p"),
        ),
        ('Server { D required username="u"; };', None),
        ("", None),
    ],
)
def test_the_section_of_a_jaas_file(text: str, expected: DigestLogin | None) -> None:
    found = login_of(text.replace("D ", "org.apache.zookeeper.server.auth.DigestLoginModule "), "Client")
    assert found == expected
    assert found is None or found.password not in repr(found)


@pytest.mark.parametrize(
    "text", ["Client", "Client {", "Client { Krb5 required; };", 'Client { a "', "Client { };", "Client { a b c d; };"]
)
def test_a_jaas_file_that_is_none_is_one_clear_line(text: str) -> None:
    with pytest.raises(BrokenJaasFile):
        login_of(text, "Client")


def test_a_login_module_that_is_not_for_zookeeper_is_named_though_it_has_a_user_and_a_password() -> None:
    text = 'Client { org.example.Login required username="u" password="hush"; };'
    with pytest.raises(BrokenJaasFile, match=r"'org\.example\.Login' is not available for ZooKeeper") as caught:
        login_of(text, "Client")
    assert "hush" not in str(caught.value)


def test_the_place_of_a_login_is_in_the_options_of_the_jvm() -> None:
    assert place_of("-Xmx1G -Djava.security.auth.login.config=/a -Dzookeeper.sasl.clientconfig=Zk") == JaasSection(
        "/a", "Zk"
    )
    assert place_of("-Djava.security.auth.login.config=/a") == JaasSection("/a", "Client")
    assert place_of("-Djava.security.auth.login.config=/a -Dzookeeper.sasl.client=false") is None
    assert place_of("") is None
