"""The key metrics of a node whose contents are known. A wrong value is found: each is altered once."""

import re

from compared import PLANTED
from known_node import Known, known

__all__ = ["known"]

METRICS = {
    'kafka_consumergroup_lag{consumergroup="readers",topic="flights",partition="0"}': 15,
    'kafka_consumergroup_current_offset{consumergroup="readers",topic="flights",partition="0"}': 5,
    'kafka_consumergroup_members{consumergroup="joined"}': 1,
    'kafka_consumergroup_members{consumergroup="readers"}': 0,
    'kafka_topic_partitions{topic="flights"}': 2,
    'kafka_topic_partition_current_offset{topic="flights",partition="0"}': 20,
    'kafka_topic_partition_oldest_offset{topic="flights",partition="0"}': 0,
    'kafka_topic_partition_leader{topic="flights",partition="0"}': 1,
    'kafka_topic_partition_in_sync_replica{topic="flights",partition="0"}': 1,
    'kafka_topic_partition_under_replicated_partition{topic="flights",partition="0"}': 0,
    "kafka_brokers": 1,
}


def sample_of(page: str, name: str) -> float:
    """The value of a series on the page of metrics; labels may come in any order."""
    wanted = name.partition("{")[0], set(re.findall(r'\w+="[^"]*"', name))
    for line in page.splitlines():
        series, _, value = line.rpartition(" ")
        if (series.partition("{")[0], set(re.findall(r'\w+="[^"]*"', series))) == wanted:
            return float(value)
    raise AssertionError(f"there is no {name}")


def wrong_metrics(page: str) -> list[str]:
    return [name for name, value in METRICS.items() if sample_of(page, name) != value]


def test_key_metrics_are_true_and_a_wrong_one_is_found(known: Known) -> None:
    page = known.node.get("/metrics").text
    assert wrong_metrics(page) == []
    for name in METRICS:
        lines = [
            f"{line.rpartition(' ')[0]} {PLANTED}" if line.startswith(name.partition("{")[0] + "{") else line
            for line in page.splitlines()
        ]
        if "{" not in name:
            lines = [f"{name} {PLANTED}" if line.startswith(f"{name} ") else line for line in page.splitlines()]
        assert name in wrong_metrics("\n".join(lines))
