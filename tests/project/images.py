"""The file system that the container image adds to one, and its scripts as they are, without a Docker engine."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from sources import ROOT

from oracle import free_port
from oracle.process import die_with_parent

READY = "Kafka Server started"
DOCKER = ROOT / "docker"
PLACES = {"kafka": "etc/kafka/docker", "confluent": "etc/confluent/docker", "bin": "opt/kafka/bin"}
"""The places where the image has the folders of docker/."""


def free_address() -> str:
    return f"127.0.0.1:{free_port()}"


def laid_out(root: Path) -> Path:
    """The root of a file system with what the image adds to one."""
    for folder, place in PLACES.items():
        shutil.copytree(DOCKER / folder, root / place)
    binaries = root / PLACES["bin"]
    for name in tools():
        (binaries / name).symlink_to("kafka_tool.py")
    for path in [*binaries.glob("kafka-*"), *binaries.glob("zookeeper-*")]:
        path.with_name(f"{path.name}.sh").symlink_to(path.name)
    return root


def tools() -> list[str]:
    """The names under which the image has `kafka_tool.py`, without those that end in .sh."""
    text = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")
    kafkas, others = re.findall(r"for tool in ([a-z -]+); do\s+ln -s kafka_tool.py", text)
    return [*(f"kafka-{name}" for name in kafkas.split()), *others.split()]


@contextmanager
def started(image: Path, command: Sequence[str], ready: str = READY, **variables: str) -> Iterator[list[str]]:
    """A command in the image, until it says that the broker is there; the lines that were said so far."""
    binaries = [str(image / PLACES["bin"]), str(Path(sys.executable).parent), os.environ["PATH"]]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    environment = {
        **inherited,
        "PATH": os.pathsep.join(binaries),
        "KPYBROKER_HTTP": "off",
        "KPYBROKER_PROPERTIES": str(image / "etc/kafka/kafka.properties"),
        "KPYBROKER_GIVEN_PROPERTIES": str(image / "mnt/shared/config/server.properties"),
        "KAFKA_LOG_DIRS": str(image / "data"),
        **variables,
    }
    process = subprocess.Popen(
        command,
        cwd=image,
        env={name: value for name, value in environment.items() if value},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )
    try:
        assert process.stdout is not None
        reported: list[str] = []
        while not reported or ready not in reported[-1]:
            reported.append(process.stdout.readline())
            assert reported[-1], f"the broker ended:\n{''.join(reported)}"
        yield reported
    finally:
        # The whole session, as when a container ends: scripts leave things in the background.
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=20)


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
