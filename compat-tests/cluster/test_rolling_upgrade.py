"""A cluster of an earlier version becomes one of this version, node by node, while clients go on (`make upgrade`)."""

import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pytest

from failover.faults import wait_for_in_sync
from failover.run import TOPIC
from kpybroker import __version__
from kpybroker.machines.metadata.metadata_version import LATEST
from kpywire import error_codes
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from oracle import BrokerProcessError
from support.clusters import Cluster, KpyNode
from support.raw_client import RawClient
from support.upgrade_load import Load, assert_nothing_lost, create_topics
from support.upgrading import (
    FIRST,
    OF_KAFKA_4_3,
    VERSIONS,
    NoSuchVersion,
    VersionedNode,
    finalized,
    nodes_of,
    sources_of,
)
from support.waiting import eventually

pytestmark = pytest.mark.slow
UPGRADE = 1
MOMENT_S = 0.5


@pytest.fixture
def version() -> str:
    """The version that a cluster begins with."""
    return FIRST


@pytest.fixture
def earlier(target: str, version: str, tmp_path: Path) -> Path:
    """The sources of that version."""
    if target != "kpybroker":
        pytest.skip("upgrades kpybroker")
    try:
        return sources_of(version, tmp_path / "earlier")
    except NoSuchVersion as reason:
        pytest.skip(str(reason))


def update(node: VersionedNode, **levels: int) -> tuple[int, str | None]:
    """UpdateFeatures, with underscores for dots: error code and message."""
    updates = [
        FeatureUpdateKey(feature=name.replace("_", "."), max_version_level=level, upgrade_type=UPGRADE)
        for name, level in levels.items()
    ]
    with RawClient(node.port) as client:
        answer = client.call(UpdateFeaturesRequest(timeout_ms=30_000, feature_updates=updates), 2)
    return answer.error_code, answer.error_message


def change(node: VersionedNode, how: str, level: int) -> "subprocess.CompletedProcess[str]":
    """Raise or lower ``metadata.version`` by the command of this version."""
    words = ("cluster", how, "--feature", f"metadata.version={level}", "--bootstrap-server", node.bootstrap_servers)
    return subprocess.run([str(KpyNode.path), *words], capture_output=True, text=True, check=False)


def move_to(node: VersionedNode, sources: Path | None) -> None:
    """Let another version have the directories of a node; None is the checkout's."""
    node.stop()
    node.sources = sources
    node.start()


def levels(cluster: Cluster) -> set[int]:
    """The levels of ``metadata.version`` that the nodes tell."""
    return {finalized(each.port)["metadata.version"] for each in nodes(cluster)}


def nodes(cluster: Cluster) -> list[VersionedNode]:
    return cast("list[VersionedNode]", list(cluster.nodes.values()))


def restart(cluster: Cluster, restarted: Iterable[VersionedNode], sources: Path | None) -> None:
    """One node after the other: controlled shutdown, and the other version on the same directories."""
    for node in restarted:
        move_to(node, sources)
        wait_for_in_sync(cluster, TOPIC, len(cluster.nodes))


@pytest.mark.parametrize("version", VERSIONS)
def test_clients_notice_nothing_of_a_rolling_upgrade_from_an_earlier_version(
    earlier: Path, version: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with Cluster(nodes_of(earlier, "--release-version", "3.9"), tmp_path) as cluster:
        first = nodes(cluster)[0]
        assert first.version.startswith(version.partition("-")[0])
        create_topics(cluster)
        load = Load(cluster.access)
        load.start()
        try:
            eventually(lambda: load.is_under_way, "all clients to have begun")
            for _ in range(request.config.getoption("--upgrades") - 1):
                restart(cluster, nodes(cluster), None)
                restart(cluster, nodes(cluster), earlier)
            restart(cluster, nodes(cluster), None)
            assert first.version == __version__
            assert finalized(first.port)["metadata.version"] == 21
            assert update(first, metadata_version=LATEST, transaction_version=2)[0] == error_codes.NONE
            eventually(lambda: levels(cluster) == {LATEST}, "the level")
            restart(cluster, [first], None)
            time.sleep(MOMENT_S)
        finally:
            load.stop()
        assert_nothing_lost(load, cluster.access)


@pytest.mark.parametrize("version", [OF_KAFKA_4_3])
def test_a_level_waits_for_the_last_node_that_does_not_know_it_and_then_keeps_it_out(
    earlier: Path, tmp_path: Path
) -> None:
    """Levels are raised and lowered by the command. 31 may be lowered to 30: no record changes between them."""
    with Cluster(nodes_of(earlier, "--release-version", "4.3"), tmp_path / "cluster", size=2) as cluster:
        one, other = nodes(cluster)
        assert levels(cluster) == {30}
        move_to(one, None)
        for level in (31, 33):
            refused = change(one, "upgrade", level)
            assert refused.returncode != 0
            assert "2 only supports versions 7-30" in refused.stderr
        move_to(other, None)
        eventually(lambda: change(one, "upgrade", 31).returncode == 0, "the level")
        eventually(lambda: levels(cluster) == {31}, "the level")
        assert change(one, "downgrade", 30).returncode == 0
        eventually(lambda: levels(cluster) == {30}, "the level")
        move_to(other, earlier)
        move_to(other, None)
        eventually(lambda: change(one, "upgrade", 33).returncode == 0, "the level")
        for level in (32, 30):
            refused = change(one, "downgrade", level)
            assert refused.returncode != 0
            assert f"Unsupported metadata.version downgrade from 33 to {level}." in refused.stderr
        eventually(lambda: levels(cluster) == {33}, "the level")
        with pytest.raises(BrokerProcessError, match=r"does not have these finalised features: metadata\.version=33"):
            move_to(other, earlier)
