"""The targets themselves: a container is described as Docker wants it, and no row of the known differences is new."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from testcontainers.core.config import testcontainers_config

from oracle import container, free_port
from oracle.container import ContainedKafka
from oracle.jars import KAFKA_VERSION
from support.fake_engine import FakeEngine, fake_engine

HERE = Path(__file__).resolve().parents[1]
KNOWN_DIFFERENCES = HERE / "KNOWN_DIFFERENCES.md"
ALLOWED = HERE / "expected" / "known_differences.txt"


def rows(text: str) -> list[str]:
    """The subject of each row of the tables."""
    cells = (line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|"))
    return [cell for cell in cells if cell != "request" and set(cell) != {"-"}]


def test_the_known_differences_only_become_fewer() -> None:
    """A row that ``expected/known_differences.txt`` lacks is a mistake to mend; one that has gone goes there too."""
    assert sorted(rows(KNOWN_DIFFERENCES.read_text())) == ALLOWED.read_text().splitlines()


def test_a_port_is_given_to_one_server_alone() -> None:
    """Several are chosen before the first of their servers listens."""
    assert free_port(random.Random(1)) != free_port(random.Random(1))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEngine]:
    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)
    with fake_engine() as started:
        monkeypatch.setenv("DOCKER_HOST", started.url)
        yield started


def test_a_container_has_the_jars_configuration_at_the_same_ports_and_paths(engine: FakeEngine, tmp_path: Path) -> None:
    assert container.why_not() is None
    kafka = ContainedKafka({"num.partitions": "3"}, directory=tmp_path)
    kafka.prepare()
    kafka.launch()
    properties = dict(line.split("=", 1) for line in kafka.properties_file.read_text().splitlines())
    assert properties["num.partitions"] == "3"
    assert properties["listeners"] == f"PLAINTEXT://0.0.0.0:{kafka.port},CONTROLLER://0.0.0.0:{kafka.controller_port}"
    assert properties["advertised.listeners"].startswith(f"PLAINTEXT://{kafka.bootstrap_servers},")
    created = engine.created
    assert created["Image"] == f"apache/kafka:{KAFKA_VERSION}"
    assert created["HostConfig"]["Binds"] == [f"{tmp_path}:{tmp_path}:rw"]
    bound = {inside: host[0]["HostPort"] for inside, host in created["HostConfig"]["PortBindings"].items()}
    assert bound == {f"{port}/tcp": str(port) for port in (kafka.port, kafka.controller_port)}
    *_, script = created["Entrypoint"]
    assert re.findall(r"[\w-]+\.sh", script) == ["kafka-storage.sh", "kafka-server-start.sh"]
    assert script.count(str(kafka.properties_file)) == 2


def test_a_container_is_paused_stopped_and_killed_as_a_process_is(engine: FakeEngine, tmp_path: Path) -> None:
    kafka = ContainedKafka(directory=tmp_path)
    kafka.prepare()
    kafka.launch()
    assert kafka.pid == 4711
    kafka.pause()
    kafka.resume()
    kafka.stop()
    assert engine.calls == ["start", "pause", "unpause", "kill signal=SIGTERM", "remove"]
    assert kafka.tail().endswith("| started")
    kafka.launch()
    kafka.kill()
    assert engine.calls[5:] == ["start", "kill signal=SIGKILL", "remove"]


def test_a_missing_container_engine_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    missing = container.why_not()
    assert missing is not None
    assert missing.startswith("no Docker engine answers: ")
    assert "\n" not in missing
