"""The container image: its start script as it is, and the whole image where there is a Docker engine."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from sources import ROOT
from testcontainers.core.container import DockerContainer
from testcontainers.core.waiting_utils import wait_for_logs

READY = "Kafka Server started"
SCRIPT = ROOT / "docker" / "run"


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"127.0.0.1:{probe.getsockname()[1]}"


@contextmanager
def started(directory: Path, *arguments: str, **variables: str) -> Iterator[None]:
    """The start script in an environment of its own, until the broker says that it is there."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    environment = {**inherited, "PATH": path, "KPYBROKER_HTTP": "off", "KAFKA_LOG_DIRS": str(directory / "data")}
    process = subprocess.Popen(
        ["sh", str(SCRIPT), *arguments],
        env={name: value for name, value in {**environment, **variables}.items() if value},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = ""
        while READY not in said:
            line = process.stdout.readline()
            assert line, f"the broker ended:\n{said}"
            said += line
        yield
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


def echoed(address: str) -> bytes:
    """A record through a topic that is made by using it."""
    producer = KafkaProducer(bootstrap_servers=address)
    placed = producer.send("hello", b"world").get(30)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=address, consumer_timeout_ms=20_000)
    consumer.assign([TopicPartition("hello", placed.partition)])
    consumer.seek_to_beginning()
    value: bytes = next(consumer).value
    consumer.close()
    return value


def test_variables_of_kafkas_images_configure_the_broker(tmp_path: Path) -> None:
    inside, outside = free_address(), free_address()
    listeners = f"PLAINTEXT://{inside},PLAINTEXT_HOST://{outside}"
    with started(
        tmp_path,
        KAFKA_LISTENERS=listeners,
        KAFKA_ADVERTISED_LISTENERS=listeners,
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
        KAFKA_INTER_BROKER_LISTENER_NAME="PLAINTEXT",
        KAFKA_NUM_PARTITIONS="3",
        KAFKA_HEAP_OPTS="-Xmx1G",
    ):
        assert echoed(outside) == b"world"
        consumer = KafkaConsumer(bootstrap_servers=inside)
        assert consumer.partitions_for_topic("hello") == {0, 1, 2}
        consumer.close()
    assert (tmp_path / "data" / "meta.properties").exists()


def test_arguments_go_to_the_start_command(tmp_path: Path) -> None:
    address = free_address()
    listener = f"PLAINTEXT://{address}"
    with started(tmp_path, "--override", "num.partitions=2", KAFKA_LISTENERS=listener, KAFKA_NUM_PARTITIONS="3"):
        assert echoed(address) == b"world"
        consumer = KafkaConsumer(bootstrap_servers=address)
        assert consumer.partitions_for_topic("hello") == {0, 1}
        consumer.close()


def test_what_a_mounted_file_says_is_not_overridden_by_the_images_own_defaults(tmp_path: Path) -> None:
    address = free_address()
    file = tmp_path / "server.properties"
    file.write_text(f"listeners = PLAINTEXT://{address}\nlog.dirs: {tmp_path / 'mine'}\nnum.partitions=2\n")
    with started(tmp_path, KPYBROKER_PROPERTIES=str(file), KAFKA_LOG_DIRS="", KAFKA_NUM_PARTITIONS="3"):
        assert echoed(address) == b"world"
        consumer = KafkaConsumer(bootstrap_servers=address)
        assert consumer.partitions_for_topic("hello") == {0, 1, 2}
        consumer.close()
    assert (tmp_path / "mine" / "meta.properties").exists()


def test_the_image_is_made_of_files_that_are_there() -> None:
    text = (ROOT / "docker" / "Dockerfile").read_text()
    copied = [words.split()[:-1] for words in re.findall(r"^COPY (?:--\S+ )*(.+)$", text, re.MULTILINE)]
    assert copied
    assert not [name for names in copied for name in names if not (ROOT / name).exists()]
    assert os.access(SCRIPT, os.X_OK)


def docker_engine() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not docker_engine(), reason="needs a Docker engine")
def test_the_image_serves_clients_outside_its_container() -> None:
    subprocess.run(["docker", "build", "-f", "docker/Dockerfile", "-t", "kpybroker:test", "."], cwd=ROOT, check=True)
    address = free_address()
    container = (
        DockerContainer("kpybroker:test")
        .with_bind_ports(9092, int(address.rpartition(":")[2]))
        .with_env("KAFKA_LISTENERS", "PLAINTEXT://0.0.0.0:9092")
        .with_env("KAFKA_ADVERTISED_LISTENERS", f"PLAINTEXT://{address}")
    )
    with container:
        wait_for_logs(container, READY, timeout=60)
        assert echoed(address) == b"world"
