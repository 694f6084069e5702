"""Plans as documents: what is written is read again, and a document that is no plan is refused in one line."""

import json
from typing import Any

import pytest
from hypothesis import given
from random_clusters import IDLE_NEVER, MB, cluster, clusters, plain

from kpybroker.machines.balance.model import BalanceModel
from kpybroker.machines.balance.plan_file import NotAPlan, document, wanted_in
from kpybroker.machines.balance.planner import plan


@given(clusters())
def test_a_plan_that_was_written_is_read_in_its_order(model: BalanceModel) -> None:
    found = plan(model)
    read = wanted_in(json.loads(json.dumps(document(found, "id"))))
    assert [(*each,) for each in read] == [(each.topic, each.partition, each.after) for each in found.moves]


def test_a_document_has_kafka_s_keys_and_the_reasons() -> None:
    written = document(plan(cluster(plain(2), [[1], [1]], [5 * MB, 5 * MB]), IDLE_NEVER), "the-id")
    assert written["version"] == 1
    (entry,) = written["partitions"]
    assert entry["topic"] == "t"
    assert entry["replicas"] == [2]
    assert (entry["before"], entry["bytes"]) == ([1], 5 * MB)
    assert entry["reason"].startswith(f"t-{entry['partition']}: broker 1 → 2, 5 MB: ")
    assert written["kpybroker"] == {"cluster": "the-id", "bytes": 5 * MB, "deferred": [], "hot": []}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([], "it is not {"),
        ({"partitions": {}}, "it is not {"),
        ({"partitions": ["t-0"]}, "entry 1 is not an object"),
        ({"partitions": [{"partition": 0, "replicas": [1]}]}, "entry 1 has no topic"),
        ({"partitions": [{"topic": "t", "partition": -1, "replicas": [1]}]}, "entry 1 of topic t has no partition"),
        ({"partitions": [{"topic": "t", "partition": True, "replicas": [1]}]}, "entry 1 of topic t has no partition"),
        ({"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}, "the replicas of t-0 are not a list of ids"),
        ({"partitions": [{"topic": "t", "partition": 0, "replicas": ["1"]}]}, "the replicas of t-0 are not a list"),
        ({"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}, "name a broker twice"),
        ({"partitions": [{"topic": "t", "partition": 0, "replicas": [1]}] * 2}, "t-0 stands in it twice"),
    ],
)
def test_a_document_that_is_no_plan_is_refused(found: Any, why: str) -> None:
    with pytest.raises(NotAPlan) as refused:
        wanted_in(found)
    assert why in str(refused.value)
