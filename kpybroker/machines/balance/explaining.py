"""A plan explained: the state of each goal before and after it in words, and what it leaves alone."""

from collections.abc import Iterator
from typing import NamedTuple

from kpybroker.machines.balance.arrangement import GoalVector
from kpybroker.machines.balance.goals import Resource
from kpybroker.machines.balance.planner import BalancePlan
from kpybroker.machines.balance.words import size_words

RESOURCES = {
    Resource.DISK: "bytes on disks",
    Resource.IN: "incoming traffic",
    Resource.OUT: "outgoing traffic",
    Resource.LEADERS: "leaders",
    Resource.REPLICAS: "replicas",
}


class ExplainedGoal(NamedTuple):
    """The state of a goal, before a plan and after it."""

    name: str
    before: str
    after: str


def explained(plan: BalancePlan) -> list[ExplainedGoal]:
    """All goals, the most important first."""
    before, after = dict(_states(plan.before)), dict(_states(plan.after))
    return [ExplainedGoal(name, state, after[name]) for name, state in before.items()]


def _states(vector: GoalVector) -> Iterator[tuple[str, str]]:
    yield "replicas on brokers that are gone", str(vector.gone)
    yield "replicas on drained brokers", str(vector.leaving)
    yield "partitions on too few racks", str(vector.narrow)
    yield "bytes above the limits of disks", size_words(round(vector.full_bytes))
    yield "shares that new brokers lack", _percent(vector.missing)
    for resource, name in RESOURCES.items():
        yield f"{name}: the worst broker above its share", _percent(vector.uneven[2 * resource])


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def left_alone(plan: BalancePlan) -> list[str]:
    """The partitions that a plan leaves alone, since they move already or lack a replica in sync."""
    model = plan.arrangement.model
    return [model.name(each) for each in range(len(model)) if model.is_held[each]]
