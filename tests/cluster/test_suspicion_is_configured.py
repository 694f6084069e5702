"""``kpybroker.suspicion.enable`` decides whether brokers report silence and controllers act on it."""

from pathlib import Path

import pytest
from running_cluster import COMBINED, RunningCluster, cluster_of

from support.waiting import eventually

pytestmark = pytest.mark.slow


def watches(cluster: RunningCluster) -> list[bool]:
    """Whether the active controllers watch for suspects, or will when there are several brokers."""
    hosts = [node.quorum for node in cluster.nodes.values()]
    reigns = [host._reign for host in hosts if host is not None and host._reign is not None]
    return [reign._suspects is not None or reign._watch in reign._timers for reign in reigns]


def test_brokers_take_part_and_the_controller_watches_by_default(tmp_path: Path) -> None:
    with cluster_of(tmp_path, [COMBINED] * 2) as cluster:
        image = cluster.nodes[1].image
        eventually(lambda: len(image.brokers) == 2, "both brokers are registered", 30)
        assert all(broker.reports_silence for broker in image.brokers.values())
        eventually(lambda: watches(cluster) == [True], "the controller watches", 30)


def test_neither_happens_where_it_is_switched_off(tmp_path: Path) -> None:
    with cluster_of(tmp_path, [COMBINED] * 2, {"kpybroker.suspicion.enable": "false"}) as cluster:
        image = cluster.nodes[1].image
        eventually(lambda: len(image.brokers) == 2, "both brokers are registered", 30)
        assert not any(broker.reports_silence for broker in image.brokers.values())
        eventually(lambda: len(watches(cluster)) == 1, "a controller is active", 30)
        assert watches(cluster) == [False]
