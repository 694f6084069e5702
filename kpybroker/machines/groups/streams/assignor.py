"""The ``sticky`` task assignor: members keep their tasks, loads are even, standby tasks are in other processes.

(Kafka: ``StickyTaskAssignor``.) It walks over members and processes in the orders of Java's tables, so its answers are
those of Kafka. Kafka 4.4 makes no warm-up tasks.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from kpybroker.machines.groups.epochs.java_order import in_computed_order, in_hash_order, string_hash, string_key
from kpybroker.machines.groups.streams.java_queue import JavaQueue
from kpybroker.machines.groups.streams.tasks import NO_TASKS, TargetTasks, TaskOffsets

Task = tuple[str, int]
"""Subtopology and partition."""


class TaskAssignorFailed(Exception):
    """The assignor finds no assignment."""


class AssignmentMemberSpec(NamedTuple):
    """A member as the assignor sees it."""

    process_id: str
    tasks: TargetTasks
    """The tasks that it has."""
    offsets: TaskOffsets = NO_TASKS
    """The offsets that it reported: of tasks whose state it has on its disk."""


class SubtopologySpec(NamedTuple):
    """A subtopology as the assignor sees it."""

    tasks: int
    is_stateful: bool


class _Member(NamedTuple):
    process: "_Process"
    member_id: str


class _Process:
    """The members of one process, and the tasks that they get."""

    __slots__ = ("_by_load", "_count", "active", "load", "member_counts", "standby", "tasks")

    def __init__(self) -> None:
        self.tasks: set[Task] = set()
        self.member_counts: dict[str, int] = {}
        self.active: dict[str, list[Task]] = {}
        self.standby: dict[str, list[Task]] = {}
        self._count = 0
        self.load = 0.0
        """Tasks by member."""
        self._by_load: JavaQueue[str] | None = None

    def add(self, member_id: str, task: Task, *, is_active: bool) -> int:
        """Give a task to a member; its number of tasks."""
        self._by_load = None
        return self._add(member_id, task, is_active=is_active)

    def add_to_least_loaded(self, task: Task, *, is_active: bool) -> int:
        """Give a task to the member with the fewest; its number of tasks."""
        if len(self.member_counts) == 1:
            return self._add(next(iter(self.member_counts)), task, is_active=is_active)
        if self._by_load is None:
            self._by_load = JavaQueue(self.member_counts.__getitem__)
            for member_id in in_hash_order(list(self.member_counts), string_hash):
                self._by_load.add(member_id)
        least = self._by_load.poll()
        assert least is not None
        count = self._add(least, task, is_active=is_active)
        self._by_load.add(least)
        return count

    def _add(self, member_id: str, task: Task, *, is_active: bool) -> int:
        self.tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, []).append(task)
        count = self.member_counts[member_id] = self.member_counts[member_id] + 1
        self._count += 1
        self.load = self._count / len(self.member_counts)
        return count


class _Quota:
    """The number of tasks that one member may get. It is computed again when a member has its share."""

    __slots__ = ("_members", "_tasks", "each")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.each = _share(tasks, members)

    def has_room(self, member: _Member) -> bool:
        """Whether a member may get one more task."""
        return member.process.member_counts[member.member_id] < self.each

    def note(self, count: int) -> None:
        """A member has this number of tasks now."""
        if count == self.each:
            self._members -= 1
            self._tasks -= count
            self.each = _share(self._tasks, self._members)


def _share(tasks: int, members: int) -> int:
    return -(-tasks // members) if members else 0


def assign_tasks(
    members: Mapping[str, AssignmentMemberSpec], topology: Mapping[str, SubtopologySpec], standby_replicas: int
) -> dict[str, TargetTasks]:
    """The tasks of each member. ``members`` are in the order of Kafka's table, subtopologies by id.

    Raises AssignorFailed.
    """
    assignment = _Assignment(members, topology, standby_replicas)
    assignment.assign_active([(name, index) for name, each in topology.items() for index in range(each.tasks)])
    if standby_replicas > 0:
        stateful = [(name, each.tasks) for name, each in topology.items() if each.is_stateful]
        assignment.assign_standby([(name, index) for name, tasks in stateful for index in range(tasks)])
    return assignment.result(members)


class _Assignment:
    """An assignment that is being made."""

    __slots__ = (
        "_process_ids",
        "active_quota",
        "before_active",
        "before_standby",
        "processes",
        "replicas",
        "total_quota",
    )

    def __init__(
        self,
        members: Mapping[str, AssignmentMemberSpec],
        topology: Mapping[str, SubtopologySpec],
        standby_replicas: int,
    ) -> None:
        self.replicas = standby_replicas
        active = sum(each.tasks for each in topology.values())
        standby = sum(each.tasks * standby_replicas for each in topology.values() if each.is_stateful)
        self.active_quota = _Quota(active, len(members))
        self.total_quota = _Quota(active + standby, len(members))
        self.before_active: dict[Task, _Member] = {}
        candidates: dict[Task, list[tuple[bool, int, _Member]]] = {}
        self.processes: dict[str, _Process] = {}
        self._process_ids = [spec.process_id for spec in members.values()]
        for member_id, spec in members.items():
            process = self.processes.setdefault(spec.process_id, _Process())
            process.member_counts[member_id] = 0
            member = _Member(process, member_id)
            for task in _tasks(spec.tasks.active):
                self.before_active[task] = member
            for candidate in _candidates(spec):
                task, is_other, behind = candidate
                candidates.setdefault(task, []).append((is_other, behind, member))
        self.before_standby: dict[Task, list[_Member]] = {
            task: [member for _, _, member in sorted(each, key=itemgetter(0, 1))] for task, each in candidates.items()
        }
        """The members that had the task as a standby, then those with its state; the ones with the most first."""

    def assign_active(self, tasks: list[Task]) -> None:
        """Give each task to its owner or to one of its standbys, as far as that is even, or to the least loaded."""
        left = []
        for task in sorted(tasks, key=_by_partition):
            owner = self.before_active.get(task)
            if owner is not None and self.active_quota.has_room(owner):
                self._give(owner, task)
            else:
                left.append(task)
        remaining = []
        for task in left:
            standby = _least_loaded(self.before_standby.get(task, ()))
            if standby is not None and self.active_quota.has_room(standby):
                self._give(standby, task)
            else:
                remaining.append(task)
        queue = self._by_load()
        for task in sorted(remaining, key=_by_subtopology):
            process = queue.poll()
            if process is None:
                raise TaskAssignorFailed(f"No process available to assign active task {task[0]}_{task[1]}.")
            count = process.add_to_least_loaded(task, is_active=True)
            self.active_quota.note(count)
            self.total_quota.note(count)
            queue.add(process)

    def assign_standby(self, tasks: list[Task]) -> None:
        """Give standbys of each task to the members that had it, as far as that is even, or to the least loaded
        process without it."""
        missing = []
        for task in sorted(tasks, key=_by_partition, reverse=True):
            for replica in range(self.replicas):
                member = self._standby_before(task)
                if member is None:
                    missing.append((task, self.replicas - replica))
                    break
                self.total_quota.note(member.process.add(member.member_id, task, is_active=False))
        queue = self._by_load()
        for task, replicas in sorted(missing, key=lambda each: _by_subtopology(each[0]), reverse=True):
            for _ in range(replicas):
                if not self._give_standby(queue, task):
                    break

    def _standby_before(self, task: Task) -> _Member | None:
        """A member that had the task, and may have it as a standby."""
        owner = self.before_active.get(task)
        if owner is not None and task not in owner.process.tasks and self.total_quota.has_room(owner):
            return owner
        standby = _least_loaded(self.before_standby.get(task, ()), task)
        return standby if standby is not None and self.total_quota.has_room(standby) else None

    def _give_standby(self, queue: JavaQueue[_Process], task: Task) -> bool:
        """Give a standby to the least loaded process without the task; whether there is one."""
        skipped = []
        found = False
        while not found:
            process = queue.poll()
            if process is None:
                break
            skipped.append(process)
            if task not in process.tasks:
                self.total_quota.note(process.add_to_least_loaded(task, is_active=False))
                found = True
        for process in reversed(skipped):
            queue.add(process)
        return found

    def _give(self, member: _Member, task: Task) -> None:
        count = member.process.add(member.member_id, task, is_active=True)
        self.active_quota.note(count)
        self.total_quota.note(count)

    def _by_load(self) -> JavaQueue[_Process]:
        queue = JavaQueue[_Process](lambda process: process.load)
        capacity = 1 << max(len(self._process_ids) - 1, 0).bit_length()
        for process_id in in_computed_order(self._process_ids, string_hash, capacity=capacity):
            queue.add(self.processes[process_id])
        return queue

    def result(self, members: Iterable[str]) -> dict[str, TargetTasks]:
        """The tasks of each member."""
        active: dict[str, list[Task]] = {}
        standby: dict[str, list[Task]] = {}
        for process in self.processes.values():
            active.update(process.active)
            standby.update(process.standby)
        return {
            member_id: TargetTasks(_compact(active.get(member_id, ())), _compact(standby.get(member_id, ())))
            for member_id in members
        }


def _candidates(spec: AssignmentMemberSpec) -> Iterable[tuple[Task, bool, int]]:
    """The tasks whose state a member has, with their rank: whether it is no standby of it, and its negated offset."""
    for task in _tasks(spec.tasks.standby):
        yield task, False, -spec.offsets.get(task[0], {}).get(task[1], 0)
    for name, offsets in spec.offsets.items():
        for index, offset in offsets.items():
            if index not in spec.tasks.standby.get(name, ()):
                yield (name, index), True, -offset


def _least_loaded(members: Sequence[_Member], task: Task | None = None) -> _Member | None:
    """The first member, or a later one with less load of both process and member; with a task, in a process that does
    not have it."""
    best, load, count = None, 0.0, 0
    for member in members:
        process = member.process
        if task is not None and task in process.tasks:
            continue
        own = process.member_counts[member.member_id]
        if best is None or (process.load < load and own < count):
            best, load, count = member, process.load, own
    return best


def _tasks(tasks: Mapping[str, Iterable[int]]) -> Iterable[Task]:
    return ((name, index) for name, indexes in tasks.items() for index in indexes)


def _compact(tasks: Iterable[Task]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for name, index in tasks:
        found.setdefault(name, set()).add(index)
    return {name: frozenset(indexes) for name, indexes in found.items()}


def _by_partition(task: Task) -> tuple[int, bytes]:
    return task[1], string_key(task[0])


def _by_subtopology(task: Task) -> tuple[bytes, int]:
    return string_key(task[0]), task[1]
