"""``kpybroker tiers`` as a client of whatever cluster: what is where, and what the store lacks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kpybroker.cli import main
from support.clusters import Cluster
from support.raw_client import connect
from support.raw_requests import create
from support.waiting import eventually
from tiered.filling import ONLY_REMOTE, create_tiered, fill
from tiered.nodes import LOCAL_TIERED_STORAGE, store_of, tiered_cluster

TOPIC = "orders"
BATCHES = 4


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tiers")


@pytest.fixture(scope="module")
def cluster(tiered_target: str, directory: Path) -> Iterator[Cluster]:
    with tiered_cluster(tiered_target, directory) as running:
        with connect(running.bootstrap_servers) as raw:
            create_tiered(raw, TOPIC, 1, **ONLY_REMOTE)
            create(raw, "plain", 1)
            fill(raw, TOPIC, range(BATCHES))
        eventually(lambda: shown(running)[0]["last_tiered"] == 2 * BATCHES - 3, "all closed segments in the store")
        yield running


def invoke(cluster: Cluster, *words: str) -> Result:
    return CliRunner().invoke(main, ["tiers", *words, "-b", cluster.bootstrap_servers])


def shown(cluster: Cluster, *topics: str) -> list[dict[str, Any]]:
    partitions: list[dict[str, Any]] = json.loads(invoke(cluster, "show", *topics, "--json").stdout)["partitions"]
    return partitions


@pytest.fixture
def config(directory: Path) -> str:
    path = directory / "store.properties"
    path.write_text(
        "process.roles=broker,controller\nnode.id=1\nremote.log.storage.system.enable=true\n"
        f"remote.log.storage.manager.class.name={LOCAL_TIERED_STORAGE}\nrsm.config.dir={store_of(directory)}\n"
    )
    return str(path)


def test_offsets_and_segments_of_a_partition_are_shown(cluster: Cluster) -> None:
    eventually(lambda: shown(cluster)[0]["local_start"] == 2 * BATCHES - 2, "the active segment alone on the disk")
    (row,) = shown(cluster, TOPIC)
    assert (row["log_start"], row["pending"], row["end"], row["behind"]) == (0, 2 * BATCHES - 2, 2 * BATCHES, 2)
    assert row["states"]["COPY_SEGMENT_FINISHED"] == BATCHES - 1
    assert row["unfinished"] == 0
    assert row["remote_bytes"] > row["local_bytes"] > 0


def test_a_plain_topic_is_named(cluster: Cluster) -> None:
    assert invoke(cluster, "show", "plain").stderr == "plain is not tiered: remote.storage.enable is false.\n"


def test_the_store_is_in_order_until_an_object_is_gone_or_damaged(
    cluster: Cluster, config: str, directory: Path
) -> None:
    whole = invoke(cluster, "check", config, "--read")
    assert (whole.exit_code, whole.stdout.rstrip().endswith("nothing is wrong.")) == (0, True), whole.output
    first, second, *_ = sorted(store_of(directory).rglob("*.log"))
    first.unlink()
    damaged = bytearray(second.read_bytes())
    damaged[-1] ^= 1
    second.write_bytes(damaged)
    found = invoke(cluster, "check", config, "--read", "--json")
    assert found.exit_code == 4
    kinds = [(each["kind"], each["place"].partition(" (")[0]) for each in json.loads(found.stdout)["findings"]]
    assert ("missing", f"{TOPIC}-0 offsets 0 to 1") in kinds
    assert ("unreadable", f"{TOPIC}-0 offsets 2 to 3") in kinds
    assert len(kinds) == 3
