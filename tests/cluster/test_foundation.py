"""The directory of a cluster on one machine: founded once, found again, never formatted over."""

import re
from pathlib import Path

import pytest

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.quorum.formatter import format_directories
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.endpoints import Address
from kpybroker.node.local_cluster import foundation
from kpybroker.node.local_cluster.foundation import FoundationRefused, found
from kpybroker.node.local_cluster.layout import PlannedNode

PORTS = range(9092, 9099)
CONTROLLER_PORTS = (10092, 10093, 10094)


def lay(directory: Path, count: int, **given: str) -> list[PlannedNode]:
    return found(directory, "127.0.0.1", PORTS[:count], CONTROLLER_PORTS, given, "here")


def meta(node: PlannedNode) -> dict[str, str]:
    pairs = re.findall(r"^(\w.*?)=(.*)$", (node.data / "meta.properties").read_text(), re.MULTILINE)
    return dict(pairs)


@pytest.mark.parametrize(("count", "controllers"), [(1, 1), (2, 1), (3, 3), (5, 3)])
def test_the_first_three_nodes_are_controllers_too_or_the_first_alone(
    tmp_path: Path, count: int, controllers: int
) -> None:
    nodes = lay(tmp_path, count)
    configs = [BrokerConfig.load(node.properties) for node in nodes]
    assert [config.is_controller for config in configs] == [True] * controllers + [False] * (count - controllers)
    assert [config.node_id for config in configs] == list(range(1, count + 1))
    assert {tuple(config.quorum_bootstrap_servers) for config in configs} == {
        tuple(Address("127.0.0.1", port) for port in CONTROLLER_PORTS[:controllers])
    }
    assert len({meta(node)["cluster.id"] for node in nodes}) == 1
    assert len({meta(node)["directory.id"] for node in nodes}) == count
    snapshots = [node.id for node in nodes if list(node.data.glob("__cluster_metadata-0/*.checkpoint"))]
    assert snapshots == list(range(1, controllers + 1))


def test_everything_is_for_this_user_alone(tmp_path: Path) -> None:
    """Configs that are given may be passwords. A directory that was there is closed."""
    (tmp_path / "node-1").mkdir(mode=0o755)
    lay(tmp_path, 2, **{"ssl.key.password": "secret"})
    below = [path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_dir()]
    assert set(below) == {0o700}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()} == {0o600}


def test_small_clusters_have_as_many_replicas_as_they_can(tmp_path: Path) -> None:
    for count, replicas, in_sync in ((1, 1, 1), (2, 2, 2), (3, 3, 2), (4, 3, 2)):
        config = BrokerConfig.load(lay(tmp_path / str(count), count)[0].properties)
        assert config.default_replication_factor == config["offsets.topic.replication.factor"] == replicas
        assert config["transaction.state.log.replication.factor"] == replicas
        assert config["min.insync.replicas"] == config["transaction.state.log.min.isr"] == in_sync
        assert config.rack == "here"


def test_given_configs_override_all_but_addresses_and_directories(tmp_path: Path) -> None:
    given = {"min.insync.replicas": "1", "num.partitions": "7", "listeners": "PLAINTEXT://:1", "broker.rack": "r"}
    config = BrokerConfig.load(lay(tmp_path, 3, **given)[1].properties)
    assert (config["min.insync.replicas"], config.num_partitions, config.rack) == (1, 7, "r")
    assert [listener.port for listener in config.listeners] == [9093, 10093]


def test_a_cluster_is_found_again_with_its_controllers_wherever_its_brokers_listen(tmp_path: Path) -> None:
    first = [meta(node) for node in lay(tmp_path, 3)]
    again = found(tmp_path, "127.0.0.1", (19092, 19093, 19094), (1, 2, 3), {}, "here")
    assert [meta(node) for node in again] == first
    assert [node.controller for node in again] == [Address("127.0.0.1", port) for port in CONTROLLER_PORTS]
    assert [node.clients.port for node in again] == [19092, 19093, 19094]


def test_nodes_that_come_later_are_brokers_of_the_same_cluster(tmp_path: Path) -> None:
    (one,) = lay(tmp_path, 1)
    cluster_id = meta(one)["cluster.id"]
    nodes = lay(tmp_path, 4)
    assert [node.controller is not None for node in nodes] == [True, False, False, False]
    assert {meta(node)["cluster.id"] for node in nodes} == {cluster_id}


def test_fewer_nodes_than_there_are_would_be_a_cluster_that_lost_some(tmp_path: Path) -> None:
    lay(tmp_path, 5)
    with pytest.raises(FoundationRefused, match="has a cluster of 5 nodes: start it with --brokers 5"):
        lay(tmp_path, 3)


def test_a_controller_that_lost_its_disk_is_not_formatted(tmp_path: Path) -> None:
    node = lay(tmp_path, 3)[1]
    for path in sorted(node.data.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    with pytest.raises(FoundationRefused, match="kpybroker format --no-initial-controllers --cluster-id"):
        lay(tmp_path, 3)
    assert list(node.data.iterdir()) == []


def test_an_interrupted_foundation_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = format_directories
    left = iter((written, written))

    def fails_at_the_third(*arguments: object, **options: object) -> list[str]:
        try:
            return next(left)(*arguments, **options)  # type: ignore[arg-type]
        except StopIteration:
            raise OSError("no space left") from None

    monkeypatch.setattr(foundation, "format_directories", fails_at_the_third)
    with pytest.raises(FoundationRefused, match="cannot be used: no space left"):
        lay(tmp_path, 3)
    monkeypatch.undo()
    assert len({meta(node)["cluster.id"] for node in lay(tmp_path, 3)}) == 1


@pytest.mark.parametrize("left", ["node-2/data/orders-0/00000000000000000000.log", "meta.properties"])
def test_a_directory_with_something_else_in_it_is_left_alone(tmp_path: Path, left: str) -> None:
    lay(tmp_path, 3)
    (tmp_path / "cluster.properties").unlink()
    path = tmp_path / left
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("precious")
    before = (tmp_path / "node-1/data/meta.properties").read_text()
    with pytest.raises(FoundationRefused, match="Name an empty directory"):
        lay(tmp_path, 3)
    assert path.read_text() == "precious"
    assert (tmp_path / "node-1/data/meta.properties").read_text() == before


def test_a_config_that_cannot_be_is_refused_before_anything_is_formatted(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"log\.segment\.bytes"):
        lay(tmp_path, 3, **{"log.segment.bytes": "1"})
    assert list(tmp_path.rglob("meta.properties")) == []


def test_a_foundation_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster.properties").write_text("controllers=1@a:1\n")
    with pytest.raises(FoundationRefused, match=r"does not say 'cluster\.id'"):
        lay(tmp_path, 1)
