"""The old source becomes the mirror: what only it has is exported before it is cut off, and no record is lost."""

import json
from collections.abc import Iterator

import confluent_kafka
import pytest
from changing_clusters import ChangingClusters, changing_clusters
from two_clusters import batches, client_of

from kpybroker.cli import mirror_adoption
from kpybroker.client import group_requests
from kpybroker.client.client import Spot
from kpybroker.client.diverged_records import OFFSET_HEADER
from kpybroker.machines.metadata.mirror_configs import EXPORTING, PREFIX, STATE
from support.waiting import eventually
from tests.broker.running_node import RunningNode
from tests.mirror.test_mirror_node import create, produce, producer, values


@pytest.fixture
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChangingClusters]:
    with changing_clusters(tmp_path_factory.mktemp("failback")) as made:
        yield made


def read(node: RunningNode, topic: str) -> list[confluent_kafka.Message]:
    """The records of a topic's first partition."""
    settings = {
        "bootstrap.servers": f"127.0.0.1:{node.port}",
        "group.id": "checks",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
    found = []
    while (message := consumer.poll(10)) is not None and not message.error():
        found.append(message)
    consumer.close()
    return found


def diverge(clusters: ChangingClusters) -> None:
    """Let b take over after 10 records, while 5 more are written to a that b never gets."""
    a, b = clusters
    create(a.node, "orders")
    produce(a.node, "orders", 10)
    b.run("create", "dr", "--topics", "orders*")
    clusters.wait_for("orders")
    b.run("failover", "dr", "--now")
    made = producer(a.node)
    for number in range(5):
        made.produce("orders", key=b"k", value=b"only a %d" % number, partition=0, headers={"h": b"v"}, timestamp=1000)
    assert made.flush(30) == 0
    produce(b.node, "orders", 20)


def adopt(clusters: ChangingClusters, *arguments: str, code: int = 0) -> str:
    return clusters.a.run(
        "create", "dr", "--topics", "orders*", "--adopt", "--source", clusters.b.file, *arguments, code=code
    )


def test_records_that_only_the_old_source_has_are_exported_to_a_topic_before_they_are_cut(
    clusters: ChangingClusters,
) -> None:
    diverge(clusters)
    a, b = clusters
    with client_of(a.node) as client:
        group_requests.commit(client, "ahead", {Spot("orders", 0): 14})
    output = adopt(clusters)
    clusters.wait_for("orders")
    assert batches(a.node, "orders", 0) == batches(b.node, "orders", 0)
    (exported,) = json.loads(a.run("status", "--json"))["exported"]
    target = exported["target"]
    assert target.startswith("orders.diverged-2")
    assert target in output
    assert (exported["from"], exported["to"], exported["records"]) == (10, 15, 5)
    copies = read(a.node, target)
    assert [each.value() for each in copies] == [b"only a %d" % number for number in range(5)]
    assert {each.key() for each in copies} == {b"k"}
    assert {each.timestamp()[1] for each in copies} == {1000}
    headers = [dict(each.headers()) for each in copies]
    assert [(each["h"], each[OFFSET_HEADER]) for each in headers] == [
        (b"v", b"%d" % offset) for offset in range(10, 15)
    ]
    with client_of(a.node) as client:
        assert group_requests.committed(client, "ahead")[Spot("orders", 0)].offset == 10
    assert target in a.run("status", "dr", "--source", b.file)


def test_records_are_exported_to_files_byte_for_byte(
    clusters: ChangingClusters, tmp_path_factory: pytest.TempPathFactory
) -> None:
    diverge(clusters)
    a, b = clusters
    before = batches(a.node, "orders", 0)
    directory = tmp_path_factory.mktemp("exports")
    adopt(clusters, "--export-directory", str(directory))
    clusters.wait_for("orders")
    (file,) = directory.glob("orders.diverged-*/orders-0/00000000000000000010.log")
    common = b"".join(batch for batch in before if batch in batches(b.node, "orders", 0))
    assert common + file.read_bytes() == b"".join(before)


@pytest.mark.parametrize("step", ["lacking", "note_export", "cut_groups", "join"])
def test_nothing_is_cut_when_a_step_before_is_interrupted_and_a_repetition_goes_on(
    clusters: ChangingClusters, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    diverge(clusters)
    a, b = clusters
    before = batches(a.node, "orders", 0)
    with monkeypatch.context() as patched:
        patched.setattr(mirror_adoption.adoption_requests, step, interrupt)
        adopt(clusters, code=130)
    eventually(lambda: a.configs("orders").get(STATE) == EXPORTING, "the topic is sealed")
    assert "are exported first" in a.run("status", "--source", b.file, code=4)
    assert "POLICY_VIOLATION" in str(error_of_a_record(a.node))
    assert batches(a.node, "orders", 0) == before
    adopt(clusters)
    clusters.wait_for("orders")
    assert batches(a.node, "orders", 0) == batches(b.node, "orders", 0)
    (exported,) = json.loads(a.run("status", "--json"))["exported"]
    assert len(read(a.node, exported["target"])) == 5


def test_a_repetition_ends_the_state_in_which_the_exported_records_are_cut(
    clusters: ChangingClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverge(clusters)
    a, b = clusters
    with monkeypatch.context() as patched:
        patched.setattr(mirror_adoption.adoption_requests, "have_joined", interrupt)
        adopt(clusters, code=130)
    clusters.wait_for("orders")
    (exported,) = json.loads(a.run("status", "--json", code=4))["exported"]
    adopt(clusters)
    assert json.loads(a.run("status", "--json"))["exported"] == [exported]
    assert batches(a.node, "orders", 0) == batches(b.node, "orders", 0)


def interrupt(*_arguments: object) -> None:
    raise KeyboardInterrupt


def error_of_a_record(node: RunningNode) -> object:
    """The error with which a record is refused."""
    made, errors = producer(node), []
    made.produce("orders", b"x", partition=0, on_delivery=lambda error, _message: errors.append(error))
    made.flush(30)
    return errors[0].name() + errors[0].str()


def test_a_topic_that_another_cluster_made_does_not_become_a_mirror(clusters: ChangingClusters) -> None:
    a, b = clusters
    create(a.node, "orders")
    create(b.node, "orders")
    output = adopt(clusters, code=1)
    assert "another id at the source" in output
    assert not [name for name in a.configs("orders") if name.startswith(PREFIX)]


def test_a_topic_does_not_join_a_source_that_is_a_mirror_itself(clusters: ChangingClusters) -> None:
    a, b = clusters
    create(a.node, "orders")
    b.run("create", "dr", "--topics", "orders*")
    eventually(lambda: b.state("orders") is not None, "the mirror is there")
    assert "is a mirror itself" in adopt(clusters, code=1)


@pytest.mark.slow
def test_the_clusters_change_places_ten_times_with_equal_offsets(clusters: ChangingClusters) -> None:
    create(clusters.a.node, "orders", 2)
    written: list[bytes] = []
    source, mirror = clusters
    mirror.run("create", "dr", "--topics", "orders*")
    epochs = [0]
    for turn in range(10):
        produce(source.node, "orders", 7, enable_idempotence=True)
        written += [b"value %d" % number for number in range(7)]
        with client_of(source.node) as client:
            group_requests.commit(client, "workers", {Spot("orders", 0): 3 + 7 * turn})
        clusters.wait_for("orders")
        mirror.run("failover", "dr", "--wait-lag", "0", "--source", source.file)
        epochs.append(mirror.leader_epoch("orders"))
        output = source.run("create", "dr", "--topics", "orders*", "--adopt", "--source", mirror.file)
        assert "TARGET" not in output, "nothing was exported"
        clusters.wait_for("orders")
        clusters.wait_for("orders", 1)
        assert batches(source.node, "orders", 0) == batches(mirror.node, "orders", 0)
        assert values(source.node, "orders") == written
        with client_of(mirror.node) as client:
            assert group_requests.committed(client, "workers")[Spot("orders", 0)].offset == 3 + 7 * turn
        source, mirror = mirror, source
    assert epochs == sorted(set(epochs)), "each leader epoch is above the one before"
