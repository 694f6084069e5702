"""The container image: its start script as it is, and the whole image where there is a Docker engine."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from images import DOCKER, PLACES, READY, echoed, free_address, laid_out, started, tools
from kafka import KafkaConsumer
from sources import ROOT
from testcontainers.community.kafka import KafkaContainer
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.waiting_utils import wait_for_logs

from kpybroker.cli.kafka_tools.__main__ import TOOLS
from oracle import free_port
from support.fake_engine import fake_engine


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return laid_out(tmp_path / "image")


RUN = "etc/kafka/docker/run"


def test_variables_of_kafkas_images_configure_the_broker(image: Path) -> None:
    inside, outside = free_address(), free_address()
    listeners = f"PLAINTEXT://{inside},PLAINTEXT_HOST://{outside}"
    with started(
        image,
        [RUN],
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
    assert (image / "data" / "meta.properties").exists()


def test_arguments_go_to_the_start_command(image: Path) -> None:
    address = free_address()
    listener = f"PLAINTEXT://{address}"
    command = [RUN, "--override", "num.partitions=2"]
    with started(image, command, KAFKA_LISTENERS=listener, KAFKA_NUM_PARTITIONS="3"):
        assert echoed(address) == b"world"
        consumer = KafkaConsumer(bootstrap_servers=address)
        assert consumer.partitions_for_topic("hello") == {0, 1}
        consumer.close()


def console_of(image: Path, *, says: str = "", **variables: str) -> tuple[str, int, list[str]]:
    """The address of the console of a container that starts, the status of its page for the printed login, and the
    lines that print one."""
    port, listener = free_port(), f"PLAINTEXT://{free_address()}"
    address = f"http://127.0.0.1:{port}/"
    with started(image, [RUN], KPYBROKER_HTTP=f"0.0.0.0:{port}", KAFKA_LISTENERS=listener, **variables) as printed:
        lines = [line for line in printed if "password" in line]
        login = says or (lines[0].partition("password ")[2].split()[0] if lines else "none")
        basic = b64encode(f"admin:{login}".encode()).decode()
        try:
            with urlopen(Request(address, headers={"Authorization": f"Basic {basic}"}), timeout=30) as answer:
                return login, answer.status, lines
        except HTTPError as error:
            return login, error.code, lines


def test_the_console_opens_with_a_password_that_a_container_prints_once(image: Path) -> None:
    login, status, lines = console_of(image)
    users = image / "etc/kafka/console.users"
    assert (status, len(lines)) == (200, 1)
    assert lines[0].startswith("console: http://localhost:")
    assert f"with user admin, password {login} (printed this once; it is in {users})" in lines[0]
    assert users.read_text() == f"admin={login}\n"
    assert users.stat().st_mode & 0o777 == 0o600
    assert console_of(image, says=login)[1:] == (200, []), "another start of the container keeps it"
    assert console_of(image, says="guess")[1:] == (401, [])


@pytest.mark.parametrize(
    "configured",
    [
        {"KAFKA_KPYBROKER_HTTP_USERS": "scram"},
        {
            "KAFKA_AUTHORIZER_CLASS_NAME": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "KAFKA_SUPER_USERS": "User:ANONYMOUS",
        },
    ],
    ids=["users", "an authorizer"],
)
def test_a_container_makes_no_user_where_logins_are_configured(image: Path, configured: dict[str, str]) -> None:
    _, status, lines = console_of(image, **configured)
    assert status in (401, 403)
    assert lines == []
    assert not (image / "etc/kafka/console.users").exists()


def test_arguments_of_confluents_image_are_variables(image: Path) -> None:
    address = free_address()
    command = ["etc/confluent/docker/run", "KAFKA_NUM_PARTITIONS=3", f"KAFKA_LISTENERS=PLAINTEXT://{address}"]
    with started(image, [*command, "--override", "num.partitions=2"], KAFKA_NUM_PARTITIONS="4"):
        assert echoed(address) == b"world"
    lines = (image / "etc/kafka/kafka.properties").read_text().splitlines()
    assert {"num.partitions=3", f"listeners=PLAINTEXT://{address}"} <= set(lines)


def test_defaults_of_the_image_do_not_override_a_mounted_file(image: Path) -> None:
    address = free_address()
    file = image / "mnt/shared/config/server.properties"
    file.parent.mkdir(parents=True)
    file.write_text(f"listeners = PLAINTEXT://{address}\nlog.dirs: {image / 'mine'}\nnum.partitions=2\n")
    with started(image, [RUN], KAFKA_LOG_DIRS="", KAFKA_NUM_PARTITIONS="3"):
        assert echoed(address) == b"world"
        consumer = KafkaConsumer(bootstrap_servers=address)
        assert consumer.partitions_for_topic("hello") == {0, 1, 2}
        consumer.close()
    assert (image / "mine" / "meta.properties").exists()


# What testcontainers' modules set, and what their scripts do in a container (java 1.21, go 0.39, node 11).

OF_ALL = {
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
}
KRAFT = {
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
}
FORMAT = "kafka-storage format --ignore-formatted -c /etc/kafka/kafka.properties"
EMBEDDED_ZOOKEEPER = """
echo 'clientPort={zookeeper}' > zookeeper.properties
echo 'dataDir=/var/lib/zookeeper/data' >> zookeeper.properties
zookeeper-server-start zookeeper.properties &
"""
GO = """#!/bin/bash
source /etc/confluent/docker/bash-config
export KAFKA_ADVERTISED_LISTENERS="{advertised}${{EXTRA_ADVERTISED_LISTENERS:+,${{EXTRA_ADVERTISED_LISTENERS}}}}"
sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure
echo '{format} -t "$(kafka-storage random-uuid)"' >> /etc/confluent/docker/configure
echo '' > /etc/confluent/docker/ensure
/etc/confluent/docker/configure
/etc/confluent/docker/launch
"""
RUNS = """#!/bin/bash
export KAFKA_ADVERTISED_LISTENERS={advertised}
echo '' > /etc/confluent/docker/ensure
{run}
"""
ZOOKEEPER_READY = r"\[KafkaServer id=\d+\] started"
KRAFT_READY = "Transitioning from RECOVERY to RUNNING"


class Module(NamedTuple):
    """How one of testcontainers' modules boots Kafka: shell, script, whether as KRaft, and the line it waits for."""

    shell: str
    script: str
    kraft: bool
    ready: str


RUN_APACHE = RUNS.replace("{run}", "/etc/kafka/docker/run")
RUN_CONFLUENT = RUNS.replace("{run}", "/etc/confluent/docker/run")


@pytest.mark.parametrize(
    "module",
    [
        pytest.param(Module("bash", RUN_APACHE, True, KRAFT_READY), id="java-apache"),
        pytest.param(Module("bash", RUN_CONFLUENT, True, KRAFT_READY), id="java-confluent"),
        pytest.param(Module("bash", EMBEDDED_ZOOKEEPER + RUN_CONFLUENT, False, ZOOKEEPER_READY), id="node"),
        pytest.param(Module("bash", GO, True, KRAFT_READY), id="go"),
    ],
)
def test_testcontainers_boots_the_image(image: Path, module: Module) -> None:
    outside, inside, controller, zookeeper = (free_address() for _ in range(4))
    variables = {
        **OF_ALL,
        "KAFKA_BROKER_ID": "1",
        "KAFKA_LISTENERS": f"PLAINTEXT://{outside},BROKER://{inside}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    if module.kraft:
        variables |= {**KRAFT, "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@{controller}"}
        variables["KAFKA_LISTENERS"] += f",CONTROLLER://{controller}"
        variables["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"] += ",CONTROLLER:PLAINTEXT"
    else:
        variables["KAFKA_ZOOKEEPER_CONNECT"] = zookeeper
    script = module.script.format(
        advertised=f"PLAINTEXT://{outside},BROKER://{inside}", format=FORMAT, zookeeper=zookeeper.rpartition(":")[2]
    )
    starter = image / "testcontainers_start.sh"
    starter.write_text(script.replace("/etc/", f"{image}/etc/"))
    with started(image, [module.shell, str(starter)], **variables) as reported:
        assert len([line for line in reported if re.search(module.ready, line)]) == 1
        assert echoed(outside) == b"world"
        if not module.kraft:
            with socket.create_connection(("127.0.0.1", int(zookeeper.rpartition(":")[2])), 10) as asked:
                asked.sendall(b"ruok")
                assert asked.recv(4) == b"imok"


class WithoutEngine(KafkaContainer):
    """Testcontainers' module for Python, whose script is kept instead of copied into a container."""

    script = ""
    exposed = 0

    def get_container_host_ip(self) -> str:
        return "127.0.0.1"

    def get_exposed_port(self, port: int) -> int:  # noqa: ARG002
        return self.exposed

    def create_file(self, content: bytes, path: str) -> None:
        assert path == self.TC_START_SCRIPT
        self.script = content.decode()


@pytest.mark.parametrize("kraft", [False, True], ids=["default", "kraft"])
def test_testcontainers_of_python_boots_the_image_with_its_own_script(
    image: Path, monkeypatch: pytest.MonkeyPatch, kraft: bool
) -> None:
    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)
    with fake_engine() as engine:
        monkeypatch.setenv("DOCKER_HOST", engine.url)
        module = WithoutEngine()
    if kraft:
        module.with_kraft()
    places = {port: free_address() for port in ("2181", "9092", "9093", "9094")}
    module.exposed = int(places["9093"].rpartition(":")[2])
    module.configure()
    module.tc_start()

    def here(text: str) -> str:
        """On this machine every port of the container is another one."""
        text = text.replace("$(hostname -i)", "127.0.0.1").replace("/etc/", f"{image}/etc/")
        for port, address in places.items():
            text = re.sub(rf"(?<=[:=]){port}\b", address.rpartition(":")[2], text)
        return text.replace("0.0.0.0", "127.0.0.1")

    starter = image / "tc-start.sh"
    starter.write_text(here(module.script))
    variables = {name: here(str(value)) for name, value in module.env.items()}
    with started(image, ["sh", str(starter)], **variables) as reported:
        assert len([line for line in reported if module.wait_for.search(line)]) == 1
        assert echoed(places["9093"]) == b"world"


def test_a_formatted_container_starts_again(image: Path) -> None:
    address, controller = free_address(), free_address()
    variables = {
        **KRAFT,
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@{controller}",
        "KAFKA_LISTENERS": f"PLAINTEXT://{address},CONTROLLER://{controller}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    with started(image, [RUN], **variables):
        assert echoed(address) == b"world"
    with started(image, [RUN], **variables):
        consumer = KafkaConsumer(bootstrap_servers=address)
        assert "hello" in consumer.topics()
        consumer.close()
    assert "cluster.id=4L6g3nShT-eMCtK--X86sw" in (image / "data" / "meta.properties").read_text()


def test_kafkas_tools_are_there_by_their_names(image: Path) -> None:
    assert set(tools()) == set(TOOLS)
    address = free_address()
    path = os.pathsep.join([str(image / PLACES["bin"]), str(Path(sys.executable).parent), os.environ["PATH"]])

    def run(command: str, text: str = "") -> str:
        words = shlex.split(command.replace("AT", f"--bootstrap-server {address}"))
        done = subprocess.run(
            words, env={**os.environ, "PATH": path}, input=text, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with started(image, [RUN], KAFKA_LISTENERS=f"PLAINTEXT://{address}"):
        run(f"cub kafka-ready 1 20 -b {address}")
        run("kafka-topics.sh AT --create --topic orders --partitions 1 --if-not-exists")
        run(
            "kafka-console-producer AT --topic orders --property parse.key=true --property key.separator=:",
            "a:1\na:2\n",
        )
        reading = "kafka-console-consumer.sh AT --topic orders --from-beginning --max-messages 2"
        assert run(f"{reading} --property print.key=true --property key.separator=:") == "a:1\na:2\n"
        assert run("kafka-run-class kafka.tools.GetOffsetShell AT --topic orders --time -1") == "orders:0:2\n"
    assert re.fullmatch(r"[\w-]{22}\n", run("kafka-storage.sh random-uuid"))
    started_by_its_file = ["kafka-server-start.sh", str(image / "etc/kafka/kafka.properties")]
    with started(image, [*started_by_its_file, "--override", "num.partitions=2"]):
        assert run("kafka-topics AT --list") == "orders\n"


def test_the_image_is_made_of_files_that_are_there() -> None:
    text = (ROOT / "docker" / "Dockerfile").read_text()
    copied = [words.split()[:-1] for words in re.findall(r"^COPY (?:--\S+ )*(.+)$", text, re.MULTILINE)]
    assert copied
    assert not [name for names in copied for name in names if not (ROOT / name).exists()]
    sourced = DOCKER / "confluent" / "bash-config"
    scripts = {path for folder in PLACES for path in (DOCKER / folder).iterdir()}
    assert {path for path in scripts if not os.access(path, os.X_OK)} == {sourced}


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
