"""Tasks of a streams application: a subtopology and a partition of its input, and in which role a member runs them.

(Kafka: ``TasksTuple``, ``TasksTupleWithEpochs``.) Nobody changes these objects.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

Tasks = Mapping[str, frozenset[int]]
"""The partitions of each subtopology. A subtopology without partitions is left out."""

ActiveTasks = Mapping[str, Mapping[int, int]]
"""By subtopology and partition: the epoch at which the member got the active task (KIP-1251)."""

NO_TASKS: Final[Any] = {}


class TargetTasks(NamedTuple):
    """The tasks that the assignor gave to a member, or that a member says it has."""

    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    def has_any(self, tasks: "MemberTasks") -> bool:
        """Whether one of these tasks is here in the same role."""
        return any(
            partition in partitions
            for mine, others in zip(self, tasks, strict=True)
            for subtopology, partitions in mine.items()
            for partition in others.get(subtopology, ())
        )


class MemberTasks(NamedTuple):
    """The tasks that a member has, or has to give up."""

    active: ActiveTasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not (self.active or self.standby or self.warmup)


def tasks_of(listed: Iterable[Any]) -> Tasks:
    """Tasks as messages and records list them. The last entry of a subtopology counts."""
    return {each.subtopology_id: frozenset(each.partitions) for each in listed}


def are_among(listed: Iterable[Any] | None, tasks: Mapping[str, Any]) -> bool:
    """Whether a member sent a list of tasks, all of which are among these."""
    if listed is None:
        return False
    return all(
        each.subtopology_id in tasks and all(partition in tasks[each.subtopology_id] for partition in each.partitions)
        for each in listed
    )


TaskOffsets = Mapping[str, Mapping[int, int]]
"""Offsets of the changelogs of tasks: by subtopology and partition, summed over its topics."""


class ReportedOffsets(NamedTuple):
    """The offsets of the states that a member has on its disk, and the ends of their changelogs."""

    offsets: TaskOffsets = NO_TASKS
    end_offsets: TaskOffsets = NO_TASKS
