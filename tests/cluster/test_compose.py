"""The compose file of three nodes: what its containers are configured with makes one cluster."""

import re
import socket
from pathlib import Path

from click.testing import CliRunner

from kpybroker.cli.format import command
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.environment import from_environment
from kpybroker.node.local_cluster.child import READY, Child, fate
from oracle import free_port
from support.waiting import eventually

COMPOSE = Path(__file__).parents[2] / "docker" / "compose.cluster.yaml"
PAIR = re.compile(r"^ +([A-Z_]+): (.*)$", re.MULTILINE)
WAIT_S = 60
INSIDE, CONTROLLER, OUTSIDE = "29092", "29093", "9092"


def environments() -> dict[int, dict[str, str]]:
    """The variables of each container."""
    shared, _, services = COMPOSE.read_text().partition("\nservices:\n")
    common = dict(PAIR.findall(shared))
    nodes = re.split(r"^  kafka-(\d):$", services, flags=re.MULTILINE)[1:]
    return {
        int(number): {**common, **dict(PAIR.findall(text))} for number, text in zip(*[iter(nodes)] * 2, strict=True)
    }


def here(number: int, variables: dict[str, str], ports: dict[tuple[int, str], int], data: Path) -> dict[str, str]:
    """The configs of a container, with all of them on this machine."""
    configs = from_environment(variables)
    for name in ("listeners", "advertised.listeners", "controller.quorum.voters"):
        placed = re.sub(
            r"(kafka-(\d)|0\.0\.0\.0):(\d+)",
            lambda match: f"127.0.0.1:{ports[int(match[2] or number), match[3]]}",
            configs[name],
        )
        configs[name] = re.sub(r"localhost:\d+", f"127.0.0.1:{ports[number, OUTSIDE]}", placed)
    return {**configs, "log.dirs": str(data), "kpybroker.http.listener": ""}


def test_each_container_has_a_place_of_its_own() -> None:
    configs = {number: from_environment(each) for number, each in environments().items()}
    assert [configs[number]["node.id"] for number in (1, 2, 3)] == ["1", "2", "3"]
    assert len({each["advertised.listeners"] for each in configs.values()}) == 3
    for number, each in configs.items():
        config = BrokerConfig(each)
        assert config.quorum_voters[number].host == f"kafka-{number}"
        assert [(one.host, one.port) for one in config.advertised_controller_listeners] == [(f"kafka-{number}", 29093)]
        assert config.warnings == []
    ports = re.findall(r'ports: \["(\d+):9092", ', COMPOSE.read_text())
    assert ports == [each["advertised.listeners"].rpartition(":")[2] for each in configs.values()]


def test_the_three_become_one_cluster(tmp_path: Path) -> None:
    ports = {(node, port): free_port() for node in (1, 2, 3) for port in (INSIDE, CONTROLLER, OUTSIDE)}
    reported: list[str] = []
    children = []
    for number, variables in environments().items():
        path = tmp_path / f"{number}.properties"
        configs = here(number, variables, ports, tmp_path / str(number))
        path.write_text("".join(f"{key}={value}\n" for key, value in configs.items()))
        formatted = CliRunner().invoke(command, ["--cluster-id", variables["CLUSTER_ID"], "--config", str(path)])
        assert formatted.exit_code == 0, formatted.output
        children.append(Child(path, reported.append, lambda code: reported.append(fate(code))))
    try:
        for child in children:
            child.start()

        def are_ready() -> bool:
            assert all(child.is_running for child in children), reported
            return sum(READY in line for line in reported) == 3

        eventually(are_ready, lambda: f"three lines {READY!r} in {reported}", WAIT_S)
        for node in (1, 2, 3):
            socket.create_connection(("127.0.0.1", ports[node, OUTSIDE])).close()
    finally:
        for child in children:
            child.end(0.1)
