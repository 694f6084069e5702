"""The stories of a large cluster in their short form: all brokers learn what happened, and it is written once."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NODES, PARTITIONS, REPLICAS = 12, 600, 1_800


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    written = tmp_path_factory.mktemp("scale") / "figures.json"
    size = ["--nodes", str(NODES), "--partitions", str(PARTITIONS), "--per-topic", "6", "--restarts", "2"]
    asked = [sys.executable, "-m", "tests.scale", *size, "--write", str(written)]
    subprocess.run(asked, cwd=ROOT, check=True, capture_output=True)
    found: dict[str, Any] = json.loads(written.read_text())
    return found


def test_brokers_register_at_once_with_two_records_each(figures: dict[str, Any]) -> None:
    assert figures["all brokers register at once"]["records"] == 2 * NODES


def test_a_lost_broker_leaves_every_in_sync_set_once(figures: dict[str, Any]) -> None:
    lost, back = figures["one broker lost"], figures["one broker back"]
    replicas = REPLICAS // NODES
    assert 0.7 * replicas < lost["records"] < 1.3 * replicas + 20, "one for each replica, and those of an idle log"
    assert lost["leaderless"] == 0
    assert abs(back["records"] - lost["records"]) < 25, "each replica is taken back once"


def test_a_lost_rack_leaves_no_partition_without_a_leader(figures: dict[str, Any]) -> None:
    lost = figures["a rack lost"]
    assert lost["leaderless"] == 0
    assert lost["records"] >= REPLICAS // 3


def test_an_idle_cluster_writes_only_that_it_is_idle(figures: dict[str, Any]) -> None:
    idle = figures["idle for 10 s"]
    assert idle["records"] <= 20
    assert idle["requests"] <= NODES * (5 + 1 + 2 * 20 + 2), "a heartbeat in 2 s, and a fetch for each record or wait"


def test_a_controller_that_stood_still_fences_no_broker(figures: dict[str, Any]) -> None:
    assert figures["10 s of standstill"]["records"] <= 45, "those of an idle log"


def test_a_controller_starts_cold_with_all_partitions(figures: dict[str, Any]) -> None:
    cold = figures["a controller starts cold"]
    assert not cold["failures"]
    assert cold["partitions"] == PARTITIONS


def test_a_follower_takes_over_without_records_of_partitions(figures: dict[str, Any]) -> None:
    assert figures["a controller fails over"]["records"] <= 5
