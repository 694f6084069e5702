"""A mirror whose source is Apache Kafka: every batch is equal, and Apache Kafka goes on with the directory."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kpywire.batch import LENGTH_END, parse_header
from oracle import ApacheKafka, BrokerProcess
from support.targets import KpyBroker
from support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "500",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
}
SETTLED_S = 2.0


def batches(broker: BrokerProcess, topic: str) -> list[bytes]:
    """The batches in the files of a topic's only partition, byte for byte."""
    found: list[bytes] = []
    for path in sorted((broker.directory / "data" / f"{topic}-0").glob("*.log")):
        data, position = path.read_bytes(), 0
        while position + LENGTH_END < len(data) and any(data[position : position + LENGTH_END]):
            end = position + parse_header(data, position).batch_length + LENGTH_END
            found.append(data[position:end])
            position = end
    return found


def producer(broker: BrokerProcess, **settings: object) -> confluent_kafka.Producer:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, **named})


def write(broker: BrokerProcess, topic: str, count: int, **settings: object) -> None:
    made = producer(broker, **settings)
    for number in range(count):
        made.produce(topic, key=b"%d" % (number % 10), value=b"value %d" % number, partition=0)
    assert made.flush(30) == 0


def create(broker: BrokerProcess, name: str, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1, config=configs)])[name].result(30)


def settled(look: Callable[[], list[bytes]], most: int) -> None:
    """Wait until a source's cleaner has left fewer batches than ``most``, and leaves no fewer any more."""

    def is_settled() -> bool:
        before = look()
        time.sleep(SETTLED_S)
        return len(before) < most and look() == before

    eventually(is_settled, "the cleaner is done")


def kpybroker(broker: BrokerProcess, *arguments: str) -> str:
    command = [str(KpyBroker.path), "mirror", *arguments, "--bootstrap-server", broker.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_everything(source: BrokerProcess) -> list[str]:
    """Topics with every codec, with transactions, and with what a cleaner has left. Return their names."""
    names = [f"codec-{codec}" for codec in CODECS]
    for codec, name in zip(CODECS, names, strict=True):
        create(source, name)
        write(source, name, 100, compression_type=codec, enable_idempotence=True)
    create(source, "transactions")
    writer = producer(source, transactional_id="writer")
    writer.init_transactions(30)
    for number in range(6):
        writer.begin_transaction()
        writer.produce("transactions", b"%d" % number, partition=0)
        writer.flush(30)
        writer.commit_transaction(30) if number % 2 else writer.abort_transaction(30)
    create(source, "compacted", **COMPACTED)
    for _ in range(4):
        for _ in range(5):
            write(source, "compacted", 10)
        time.sleep(0.7)
    write(source, "compacted", 1)
    settled(lambda: batches(source, "compacted"), 21)
    return [*names, "transactions", "compacted"]


def test_a_mirror_of_apache_kafka_has_its_batches_and_moves_to_apache_kafka(tmp_path: Path) -> None:
    after = ApacheKafka({"log.dirs": str(tmp_path / "mirror" / "data")}, directory=tmp_path / "after")
    shared = {key: value for key, value in after.properties.items() if key != "controller.quorum.bootstrap.servers"}
    sources = tmp_path / "sources"
    sources.mkdir()
    ours = KpyBroker({**shared, "kpybroker.mirror.directory": str(sources)}, directory=tmp_path / "mirror")
    ours.port = after.port
    with ApacheKafka({"log.cleaner.backoff.ms": "100"}, directory=tmp_path / "source") as source:
        (sources / "dr.properties").write_text(f"bootstrap.servers={source.bootstrap_servers}\n")
        names = write_everything(source)
        with ours:
            kpybroker(ours, "create", "dr", "--topics", "*")
            for name in names:
                eventually(lambda name=name: batches(ours, name) == batches(source, name), f"{name} is equal")
            options = "--wait-lag", "0", "--source", str(sources / "dr.properties")
            assert "writable" in kpybroker(ours, "failover", "dr", *options)
            write(ours, "transactions", 1)
    with after:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": after.bootstrap_servers, "group.id": "reader", "enable.partition.eof": True}
        )
        consumer.assign([confluent_kafka.TopicPartition("transactions", 0, 0)])
        found = []
        while (message := consumer.poll(30)) is not None and not message.error():
            found.append(message.value())
        consumer.close()
        assert found == [b"1", b"3", b"5", b"value 0"]
        write(after, "transactions", 1)
