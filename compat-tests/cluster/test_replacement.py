"""Live clusters of Apache Kafka become kpybroker's node by node, and back, under load (long form: `make replace`)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from oracle import ApacheKafka
from replacement.kinds import KINDS, heir_of
from replacement.run import Turn, compared, run
from support.clusters import KpyNode
from support.zookeeper_clusters import KafkaOnZooKeeper, KpyOnZooKeeper


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kind", list(KINDS))
def test_clients_notice_no_more_than_retries_while_nodes_are_replaced(kind: str, target: str, tmp_path: Path) -> None:
    if target != "kpybroker":
        pytest.skip("takes both programs")
    outcome = run(kind, tmp_path)
    assert [turn.program for turn in outcome.turns].count("kpybroker") * 2 == len(outcome.turns) >= 6
    assert outcome.failures == []
    assert outcome.differences == []
    assert outcome.verdict.is_clean, outcome.verdict
    assert min(outcome.verdict.acknowledged, outcome.transactions, outcome.read) > 0


@pytest.mark.parametrize("kind", ["kraft", "zookeeper"])
def test_an_heir_has_the_directory_the_address_and_the_id(kind: str, tmp_path: Path) -> None:
    before = KINDS[kind](tmp_path).nodes[2]
    heir = heir_of(before)
    again = heir_of(heir)
    assert isinstance(heir, KpyNode | KpyOnZooKeeper)
    assert isinstance(again, ApacheKafka)
    assert isinstance(again, KafkaOnZooKeeper) is (kind == "zookeeper")
    for each in (heir, again):
        assert (each.directory, each.port) == (before.directory, before.port)
        for name in ("listeners", "log.dirs", "broker.id" if kind == "zookeeper" else "node.id"):
            assert each.properties[name] == before.properties[name]  # type: ignore[attr-defined]
    assert not [name for name in again.properties if name.startswith("kpybroker.")]


@pytest.mark.parametrize(("after", "count"), [({"a": 1}, 0), ({"a": 2}, 1)])
def test_state_that_changed_is_named(after: Mapping[str, Any], count: int) -> None:
    found = compared({"a": 1}, after, Turn("node-2", "kpybroker", 0.0, 0.0))
    assert [each.partition(":")[0] for each in found] == ["a after node-2 became kpybroker"] * count
