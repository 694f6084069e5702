"""The standing of a cluster's own balancer: what it does now and why, as it is shown. Not here: the balancer
(`kpybroker.hosts.balancer`)."""

from dataclasses import dataclass
from typing import Final

from kpybroker.machines.balance.goals import Resource
from kpybroker.machines.balance.planner import BalancePlan

OFF, ADVISE, AUTO = "off", "advise", "auto"
MODES: Final = (OFF, ADVISE, AUTO)
SHOWN_MOVES: Final = 1_000


@dataclass(frozen=True, slots=True)
class BalancedNode:
    """A broker before and after a plan."""

    id: int
    rack: str | None
    disk_bytes: int
    disk_bytes_after: int
    bytes_in: int
    bytes_in_after: int
    bytes_out: int
    bytes_out_after: int
    leaders: int
    leaders_after: int
    replicas: int
    replicas_after: int


@dataclass(frozen=True, slots=True)
class AdvisedMove:
    """A move of a plan, with its reason in words."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    before: tuple[int, ...]
    copied_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Advice:
    """A plan: the brokers, its first moves, and the partitions that no placement helps."""

    made_ms: int
    nodes: tuple[BalancedNode, ...]
    moves: tuple[AdvisedMove, ...]
    moves_left_out: int
    copied_bytes: int
    hot: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BalancerStanding:
    """The standing of the balancer."""

    mode: str = OFF
    line: str = ""
    """A sentence about its present work."""
    advice: Advice | None = None
    """The last plan; None before the first one."""
    left: int = 0
    """The partitions of the present step that are not yet where they are wanted."""
    left_bytes: int = 0
    """The bytes that are left to copy in the present step."""
    rate: int = 0
    """The throttle of its moves in bytes a second; 0 while nothing moves."""


def advice_of(plan: BalancePlan, made_ms: int) -> Advice:
    """The advice that a plan gives."""
    moves = tuple(
        AdvisedMove(each.topic, each.partition, each.after, each.before, each.copied_bytes, each.text)
        for each in plan.moves[:SHOWN_MOVES]
    )
    nodes = []
    for node, load in zip(plan.arrangement.model.nodes, plan.nodes, strict=True):
        pairs = [round(each[resource]) for resource in Resource for each in (load.before, load.after)]
        nodes.append(BalancedNode(node.id, node.rack, *pairs))
    left_out = len(plan.moves) - len(moves)
    hot = tuple(each.name for each in plan.hot)
    return Advice(made_ms, tuple(nodes), moves, left_out, plan.moved_bytes, hot)
