"""``kpybroker metadata``: the tree of kafka-metadata-shell, from snapshots and the log behind them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from host_world import HostWorld

from kpybroker.cli import main
from kpybroker.hosts.quorum.snapshotting import SnapshotPolicy
from kpystorage.real_disk import RealDisk
from oracle import java
from oracle.jars import KAFKA_BEFORE

PORTS = {"listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"}


def answered(*words: object, code: int = 0, stdin: str = "") -> str:
    result = CliRunner().invoke(main, ["metadata", *map(str, words)], input=stdin)
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> HostWorld:
    """A node with a snapshot in the middle of its metadata log, and topics on both sides of it."""
    path = str(tmp_path_factory.mktemp("node") / "data")
    policy = SnapshotPolicy(max_new_record_bytes=1_500, delay_ms=0)
    world = HostWorld(RealDisk(), path=path, overrides=PORTS, policy=policy, release="4.3").start().with_broker()
    world.create("orders", configs={"retention.ms": "1234"})
    for number in range(12):
        world.create(f"topic-{number}")
    world.stop()
    return world


@pytest.fixture
def log(node: HostWorld) -> Path:
    return Path(node.path) / "__cluster_metadata-0"


def test_snapshot_and_log_together_are_the_present_image(node: HostWorld, log: Path) -> None:
    assert list(log.glob("*-*.checkpoint"))
    names = answered("-d", node.path, "ls", "/image/topics/byName").split()
    assert sorted(names) == sorted(node.image.topics)
    assert answered("-d", log, "cat", "/image/configs/TOPIC:orders/retention.ms") == "1234\n"
    partition = json.loads(answered("-d", node.path, "cat", "image/topics/byName/orders/0"))
    assert (partition["replicas"], partition["leader"]) == ([1], 1)


def test_one_snapshot_is_read_alone(node: HostWorld, log: Path) -> None:
    first = min(each for each in log.glob("*.checkpoint") if not each.name.startswith("0" * 20))
    names = answered("-s", first, "ls", "/image/topics/byName").split()
    assert "orders" in names
    assert set(names) < set(node.image.topics)


def paths_of_kafkas_shell(snapshot: Path) -> list[str]:
    """Kafka's shell may answer before it has read the snapshot, with an empty image; then it is asked again."""
    for _ in range(10):
        finished = java(
            "org.apache.kafka.shell.MetadataShell", "--snapshot", str(snapshot), "find", "/", release=KAFKA_BEFORE
        )
        assert finished.returncode == 0, finished.stderr
        paths = finished.stdout.split()
        if "/image/topics/byName/orders" in paths:
            break
    return paths


@pytest.mark.java
def test_every_path_is_one_of_kafkas_metadata_shell(log: Path) -> None:
    last = max(log.glob("*.checkpoint"))
    assert answered("-s", last, "find").split() == paths_of_kafkas_shell(last)


def test_the_tree_can_be_drawn_searched_and_had_as_json(node: HostWorld) -> None:
    assert "byName:\n  orders:\n    0:\n      {" in answered("-d", node.path, "tree", "/image/topics")
    assert answered("-d", node.path, "find", "--name", "*.ms") == "/image/configs/TOPIC:orders/retention.ms\n"
    found = json.loads(answered("-d", node.path, "tree", "--json", "/image/configs"))
    assert found["/image/configs"]["TOPIC:orders"] == {"retention.ms": "1234"}


def test_the_shell_goes_around(node: HostWorld) -> None:
    reported = answered(
        "-d", node.path, stdin="cd image/configs\npwd\nls\ncd ..\npwd\nls configs/TOPIC:orders\nexit\nls\n"
    )
    assert reported.split() == ["/image/configs", "BROKER", "TOPIC:orders", "/image", "retention.ms"]


def test_the_shell_survives_what_it_does_not_understand(node: HostWorld) -> None:
    reported = answered("-d", node.path, stdin="nonsense\ncat /nope\ncd /image/provenance\n'\ncat /image\npwd\n")
    assert "nonsense is not a command" in reported
    assert "/nope: No such file or directory." in reported
    assert "/image/provenance: Not a directory" in reported
    assert "/image: Is a directory" in reported
    assert reported.endswith("/\n")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("cat", "/nope"), "Error: cat: /nope: No such file or directory.\n"),
        (("cat", "/image"), "Error: cat: /image: Is a directory\n"),
        (("ls", "/image/topics/byName/orders/0/x"), "No such file or directory.\n"),
    ],
)
def test_a_path_that_leads_nowhere_is_one_line(node: HostWorld, words: tuple[str, str], line: str) -> None:
    reported = answered("-d", node.path, *words, code=1)
    assert reported.endswith(line)
    assert reported.count("\n") == 1


def test_a_file_without_metadata_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "garbage.checkpoint").write_bytes(b"\0" * 100)
    for words in (["-d", tmp_path], ["-d", tmp_path / "nowhere"], ["-s", tmp_path / "missing.log"]):
        assert answered(*words, "ls", code=1).count("\n") == 1
    answered("-d", tmp_path, "-s", tmp_path, "ls", code=2)
