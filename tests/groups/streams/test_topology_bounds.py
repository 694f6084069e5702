"""Topologies that would keep the coordinator busy are refused; the largest ones that are served take little time."""

from collections.abc import Sequence
from functools import partial

import pytest
from counted import calls
from topologies import subtopology, topic

from kpybroker.machines.groups.epochs.refused import RequestRefused
from kpybroker.machines.groups.streams.configured import MOST_SUBTOPOLOGIES, MOST_TASKS, ConfiguredTopology, configure
from kpybroker.machines.groups.streams.topology import recorded, topology_of
from kpybroker.machines.metadata.topic import Partition, Topic
from kpybroker.machines.metadata.topic_view import TopicView
from kpywire import error_codes
from kpywire.messages.streams_group_heartbeat import Subtopology, Topology


def configured(subtopologies: Sequence[Subtopology], partitions: int = 1) -> ConfiguredTopology:
    source = Topic("t", bytes(16))
    source.partitions = {index: Partition((0,), (0,), 0) for index in range(partitions)}
    view = TopicView({"t": source}, {source.id: source}, {}, 1, 1, {}, {})
    return configure(topology_of(recorded(Topology(epoch=0, subtopologies=list(subtopologies)))), view)


def chain(length: int) -> list[Subtopology]:
    """Each writes what the one before reads, so that one number of partitions follows in each pass."""
    last = subtopology(str(length), ("t",), sinks=(f"r{length}",))
    return [
        *(
            subtopology(str(number), repartition=(topic(f"r{number + 1}"),), sinks=(f"r{number}",))
            for number in range(length)
        ),
        last,
    ]


@pytest.mark.parametrize(
    ("shape", "partitions", "reason"),
    [
        (chain(MOST_SUBTOPOLOGIES), 1, "The topology has 1001 subtopologies; at most 1000 are served."),
        ([subtopology(str(number), ("t",)) for number in range(51)], 1_000, "51000 tasks; at most 50000 are served."),
    ],
)
def test_a_topology_that_is_too_large_is_invalid(shape: list[Subtopology], partitions: int, reason: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        configured(shape, partitions)
    assert refused.value.error_code == error_codes.STREAMS_INVALID_TOPOLOGY
    assert refused.value.text.endswith(reason)


def test_the_largest_topologies_are_served_and_a_long_chain_costs_as_much_for_each_link() -> None:
    calls_each = []
    for length in (99, MOST_SUBTOPOLOGIES - 1):
        topology = chain(length)
        assert len(configured(topology).missing) == length
        calls_each.append(calls(partial(configured, topology)) / length)
    assert calls_each[1] <= 2 * calls_each[0]
    tasks = configured([subtopology(str(number), ("t",)) for number in range(50)], MOST_TASKS // 50).subtopologies
    assert tasks is not None
    assert sum(each.tasks for each in tasks.values()) == MOST_TASKS
