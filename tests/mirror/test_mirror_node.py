"""Mirrors between two nodes, as clients see them: the same batches at the same offsets."""

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from two_clusters import TwoClusters, batches, client_of, two_clusters

from kpybroker.client import topic_requests

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoClusters]:
    with two_clusters(Path(tmp_path_factory.mktemp("mirror"))) as made:
        yield made


def produce(port: int, topic: str, count: int, **settings: object) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": f"127.0.0.1:{port}", **{k.replace("_", "."): v for k, v in settings.items()}}
    )
    for number in range(count):
        producer.produce(topic, key=b"%d" % (number % 7), value=b"value %d" % number, partition=0)
    assert producer.flush(30) == 0


def test_a_mirror_has_the_batches_of_its_source(clusters: TwoClusters) -> None:
    with client_of(clusters.source) as client:
        topic_requests.create(client, "orders", 2, 1, {"retention.ms": "86400000"})
    for codec in CODECS:
        produce(clusters.source.port, "orders", 50, compression_type=codec, enable_idempotence=True)
    clusters.create_mirror("dr:ord*")
    clusters.wait_for("orders")
    produce(clusters.source.port, "orders", 20)
    clusters.wait_for("orders")
    clusters.wait_for("orders", 1)
    assert batches(clusters.mirror, "orders", 0) == batches(clusters.source, "orders", 0)
