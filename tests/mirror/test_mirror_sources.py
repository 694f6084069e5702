"""Sources that a mirror reaches by a login, and sources that go away and come back."""

from pathlib import Path

from two_clusters import batches, client_of, two_clusters

from kpybroker.client import topic_requests
from oracle import free_port
from support.waiting import eventually
from tests.broker.running_node import start
from tests.mirror.test_mirror_node import create, produce

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def test_a_mirror_logs_in_at_its_source(tmp_path: Path) -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{JAAS} user_mirror="secret";',
    }
    with two_clusters(tmp_path, settings) as clusters:
        properties = {
            "bootstrap.servers": f"127.0.0.1:{clusters.source.node.ports['SASL_PLAINTEXT']}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{JAAS} username="mirror" password="wrong";',
        }
        file = Path(clusters.source_file)
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        create(clusters.source, "orders")
        produce(clusters.source, "orders", 10)
        clusters.create_mirror("dr:*")
        (running,) = eventually(lambda: list(clusters.mirror.node.broker.mirrors or ()), "the mirror runs")
        eventually(lambda: not running.figures().is_reached and running.problem, "the login is refused")
        assert "secret" not in running.problem
        file.write_text(file.read_text().replace("wrong", "secret"))
        clusters.wait_for("orders")
        assert batches(clusters.mirror, "orders", 0) == batches(clusters.source, "orders", 0)
        size = sum(map(len, batches(clusters.source, "orders", 0)))
        eventually(lambda: running.figures() == (True, 1, 0, 0, size), "the figures are those of one partition")


def test_a_source_that_comes_back_is_followed_again(tmp_path: Path) -> None:
    with two_clusters(tmp_path, {"listeners": f"PLAINTEXT://127.0.0.1:{free_port()}"}) as clusters:
        with client_of(clusters.source) as client:
            topic_requests.create(client, "orders", 1, 1, {})
        produce(clusters.source, "orders", 10)
        clusters.create_mirror("dr:*")
        clusters.wait_for("orders")
        port = clusters.source.port
        clusters.source.call_async(clusters.source.node.stop)
        again = start(tmp_path / "source", listeners=f"PLAINTEXT://127.0.0.1:{port}")
        try:
            produce(again, "orders", 10)
            clusters._replace(source=again).wait_for("orders")
            assert batches(clusters.mirror, "orders", 0) == batches(again, "orders", 0)
        finally:
            again.stop()


def test_a_mirror_may_be_the_source_of_another_one(tmp_path: Path) -> None:
    sources = tmp_path / "further"
    sources.mkdir()
    with two_clusters(tmp_path) as clusters:
        create(clusters.source, "orders")
        produce(clusters.source, "orders", 10, enable_idempotence=True)
        clusters.create_mirror("dr:*")
        (sources / "dr.properties").write_text(f"bootstrap.servers=127.0.0.1:{clusters.mirror.port}\n")
        last = start(tmp_path / "last", **{"kpybroker.mirror.directory": str(sources)})
        try:
            chain = clusters._replace(mirror=last)
            chain.create_mirror("dr:*")
            chain.wait_for("orders")
            produce(clusters.source, "orders", 10)
            chain.wait_for("orders")
            assert batches(last, "orders", 0) == batches(clusters.source, "orders", 0)
            epochs = [
                node.node.image.topics["orders"].partitions[0].leader_epoch
                for node in (clusters.source, clusters.mirror, last)
            ]
            assert epochs == sorted(set(epochs)), "each has later leader epochs than its source"
        finally:
            last.stop()
