"""Random clusters for the planner: few nodes, any racks, full disks, brokers that are gone, held partitions."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from kpybroker.machines.balance.goals import BalanceGoals, MoveReason
from kpybroker.machines.balance.model import UNKNOWN, BalanceModel, BalanceNode, PartitionLoad

MB = 1000 * 1000
IDLE_NEVER = BalanceGoals(idle_disk=0.0, idle_rate=1.0)
"""Goals for which small loads count too."""


def cluster(
    nodes: Sequence[BalanceNode], partitions: Sequence[Sequence[int]], sizes: Sequence[int] = (), min_in_sync: int = 1
) -> BalanceModel:
    """A cluster with one topic ``t``: the replicas of its partitions, and their sizes."""
    model = BalanceModel(nodes)
    topic = model.add_topic("t", min_in_sync)
    for number, replicas in enumerate(partitions):
        size = sizes[number] if sizes else 0
        model.add_partition(topic, number, replicas, load=PartitionLoad(size))
    return model


def plain(count: int, racks: int = 0) -> list[BalanceNode]:
    """Nodes 1 to ``count``, in turn in this number of racks, with disks of unknown size."""
    return [BalanceNode(each, f"r{each % racks}" if racks else None) for each in range(1, count + 1)]


@st.composite
def clusters(draw: st.DrawFn, *, may_be_gone: bool = True) -> BalanceModel:
    """A cluster in which anything may be wrong."""
    count = draw(st.integers(1, 7))
    rack_count = draw(st.integers(0, 3))
    knows_disks = draw(st.booleans())
    nodes = [_node(draw, each, rack_count, knows_disks=knows_disks) for each in range(count)]
    if not may_be_gone:
        nodes = [each._replace(is_alive=True) for each in nodes]
    model = BalanceModel(nodes)
    held: dict[int, int] = dict.fromkeys(range(count), 0)
    for name in range(draw(st.integers(1, 3))):
        topic = model.add_topic(f"topic-{name}", draw(st.integers(1, 2)))
        factor = draw(st.integers(1, min(3, count)))
        for number in range(draw(st.integers(1, 6))):
            replicas = draw(st.permutations(range(count)))[:factor]
            load = PartitionLoad(
                draw(st.integers(0, 1000)) * MB,
                draw(st.integers(0, 50)) * MB,
                draw(st.integers(0, 50)) * MB,
                is_held=draw(st.integers(0, 9)) == 0,
            )
            for each in replicas:
                held[each] += load.size
            model.add_partition(topic, number, replicas, load=load)
    if knows_disks:  # a disk holds at least its replicas
        model.nodes = [
            each._replace(disk_bytes=each.disk_bytes + held[each.id], used_bytes=each.used_bytes + held[each.id])
            for each in model.nodes
        ]
    return model


def _node(draw: st.DrawFn, number: int, racks: int, *, knows_disks: bool) -> BalanceNode:
    free, others = draw(st.integers(0, 5000)) * MB, draw(st.integers(0, 500)) * MB
    return BalanceNode(
        number,
        f"rack-{draw(st.integers(1, racks))}" if racks else None,
        is_alive=draw(st.integers(0, 7)) > 0,
        is_cordoned=draw(st.integers(0, 7)) == 0,
        disk_bytes=free + others if knows_disks else UNKNOWN,
        used_bytes=others if knows_disks else UNKNOWN,
    )


def goals(model: BalanceModel) -> st.SearchStrategy[BalanceGoals]:
    """Goals for a cluster: some nodes may leave or join."""
    ids = [node.id for node in model.nodes]
    chosen: Any = st.frozensets(st.sampled_from(ids), max_size=2)
    return st.builds(
        BalanceGoals,
        tolerance=st.sampled_from((0.0, 0.05, 0.1, 0.3)),
        disk_limit=st.sampled_from((0.5, 0.85, 1.0)),
        idle_disk=st.sampled_from((0.0, 0.2)),
        idle_rate=st.sampled_from((1.0, 1024.0 * 1024)),
        least_gain=st.just(0.02),
        only=st.just(frozenset(MoveReason)) | st.frozensets(st.sampled_from(MoveReason)),
        leaving=chosen,
        joining=chosen,
    )
