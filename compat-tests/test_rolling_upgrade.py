"""A cluster of an earlier version becomes one of this version, node by node, while clients go on (`make upgrade`)."""

import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pytest

from clusters import Cluster
from failover.faults import wait_for_in_sync
from failover.run import TOPIC, read_all
from failover.verdict import judge
from kpybroker import __version__
from kpywire import error_codes
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from oracle import BrokerProcessError
from raw_client import RawClient
from upgrade_load import Load, committed_numbers, create_topics
from upgrading import FIRST, VERSIONS, NoSuchVersion, VersionedNode, finalized, nodes_of, sources_of
from waiting import eventually

pytestmark = pytest.mark.slow
UPGRADE, SAFE_DOWNGRADE = 1, 2
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


def update(node: VersionedNode, how: int = UPGRADE, **levels: int) -> tuple[int, str | None]:
    """UpdateFeatures, with underscores for dots: error code and message."""
    updates = [
        FeatureUpdateKey(feature=name.replace("_", "."), max_version_level=level, upgrade_type=how)
        for name, level in levels.items()
    ]
    with RawClient(node.port) as client:
        answer = client.call(UpdateFeaturesRequest(timeout_ms=30_000, feature_updates=updates), 2)
    return answer.error_code, answer.error_message


def nodes(cluster: Cluster) -> list[VersionedNode]:
    return cast("list[VersionedNode]", list(cluster.nodes.values()))


def restart(cluster: Cluster, restarted: Iterable[VersionedNode], sources: Path | None) -> None:
    """One node after the other: controlled shutdown, and the other version on the same directories."""
    for node in restarted:
        node.stop()
        node.sources = sources
        node.start()
        wait_for_in_sync(cluster, TOPIC, len(cluster.nodes))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cluster_of_an_earlier_version_is_upgraded_and_nobody_notices(
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
            assert update(first, metadata_version=30, transaction_version=2)[0] == error_codes.NONE
            eventually(
                lambda: all(finalized(each.port)["metadata.version"] == 30 for each in nodes(cluster)), "the level"
            )
            restart(cluster, [first], None)
            time.sleep(MOMENT_S)
        finally:
            load.stop()
        assert load.failures == []
        verdict = judge(load.writer.acknowledged, read_all(cluster.access))
        assert verdict.is_clean, verdict
        assert load.reader.gaps() == []
        for partition in range(2):
            assert committed_numbers(cluster.access, partition) == load.transactions.committed


def test_a_level_waits_for_the_last_node_that_does_not_know_it_and_then_keeps_it_out(
    earlier: Path, tmp_path: Path
) -> None:
    """The earlier version knows all levels of this one; its sources are made to know one less."""
    older = tmp_path / "older"
    shutil.copytree(earlier, older)
    levels = older / "kpybroker" / "metadata" / "metadata_version.py"
    text = levels.read_text()
    levels.write_text(text.replace("LATEST = VERSIONS[-1].level", "LATEST = VERSIONS[-2].level"))
    assert levels.read_text() != text
    with Cluster(nodes_of(older, "--release-version", "4.2"), tmp_path / "cluster", size=2) as cluster:
        one, other = nodes(cluster)
        one.stop()
        one.sources = None
        one.start()
        code, message = update(one, metadata_version=30)
        assert code == error_codes.INVALID_UPDATE_VERSION
        assert "2 only supports versions 7-29" in (message or "")
        other.stop()
        other.sources = None
        other.start()
        eventually(lambda: update(one, metadata_version=30)[0] == error_codes.NONE, "the level")
        code, message = update(one, SAFE_DOWNGRADE, metadata_version=29)
        assert code == error_codes.INVALID_UPDATE_VERSION
        assert "Unsupported metadata.version downgrade from 30 to 29." in (message or "")
        eventually(lambda: finalized(other.port).get("metadata.version") == 30, "the level")
        other.stop()
        other.sources = older
        with pytest.raises(BrokerProcessError, match=r"does not have these finalised features: metadata\.version=30"):
            other.start()
