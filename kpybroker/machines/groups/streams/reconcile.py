"""The next step of a member on its way to its target (Kafka: ``CurrentAssignmentBuilder``).

A member first gives up the tasks that are no longer in its target. Then it gets the others, as far as they are free:
an active task is free when no process has it, and no process runs a task in two roles. A task of which the member only
changes the role stays with it all the time.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, NamedTuple

from kpybroker.machines.groups.epochs.refused import RequestRefused
from kpybroker.machines.groups.streams.member import STABLE, UNKNOWN, UNRELEASED, UNREVOKED, StreamsMember
from kpybroker.machines.groups.streams.streams_group import StreamsGroup
from kpybroker.machines.groups.streams.tasks import ActiveTasks, MemberTasks, TargetTasks, Tasks
from kpywire import error_codes

_Task = tuple[str, int]
"""Subtopology and partition."""


def next_step(
    group: StreamsGroup, member: StreamsMember, epoch: int, target: TargetTasks, owned: TargetTasks | None
) -> StreamsMember:
    """The member after one step towards its target, which is that of this epoch. ``owned`` is what it says it has.

    Raises Refused.
    """
    step = _Step(group, member, epoch, target, owned)
    if member.state == STABLE:
        return member if member.member_epoch == epoch else step.compute(member.member_epoch)
    if member.state == UNREVOKED:
        if owned is None or owned.has_any(member.pending_revocation):
            return member
        return step.compute(member.member_epoch + 1)
    if member.state == UNRELEASED:
        return step.compute(member.member_epoch)
    if member.state == UNKNOWN:
        if owned is None or any(owned):
            text = "The streams group member is in a unknown state."
            text += " The member must abandon all its tasks and rejoin."
            raise RequestRefused(error_codes.FENCED_MEMBER_EPOCH, text)
        return step.compute(epoch)
    return member


class _Step:
    __slots__ = ("epoch", "group", "member", "owned", "target")

    def __init__(
        self, group: StreamsGroup, member: StreamsMember, epoch: int, target: TargetTasks, owned: TargetTasks | None
    ) -> None:
        self.group = group
        self.member = member
        self.epoch = epoch
        self.target = target
        self.owned = owned

    def compute(self, member_epoch: int) -> StreamsMember:
        """Keep what is in the target, give up the rest, and get what is free."""
        assigned, target = self.member.assigned, self.target
        active = _divided(assigned.active, target.active, self.epoch, self._is_active_taken)
        standby = _divided(_marked(assigned.standby), target.standby, 0, self._is_standby_taken)
        warmup = _divided(_marked(assigned.warmup), target.warmup, 0, self._is_warmup_taken)
        for task in _tasks(assigned.active):
            if standby.grants(task):
                standby.grant(task)  # what it ran, it may keep as a standby at once
        for held, old, new in ((assigned.standby, standby, warmup), (assigned.warmup, warmup, standby)):
            for task in _tasks(held):
                if new.grants(task):
                    new.grant(task)
                    _drop(old.revoked, task)
        self._promote(active, standby, warmup)
        kept = MemberTasks(active.kept, _unmarked(standby.kept), _unmarked(warmup.kept))
        revoked = MemberTasks(active.revoked, _unmarked(standby.revoked), _unmarked(warmup.revoked))
        if not revoked.is_empty and (self.owned is None or self.owned.has_any(revoked)):
            return self.member.moved_to(member_epoch, state=UNREVOKED, assigned=kept, pending_revocation=revoked)
        free = MemberTasks(active.free, _unmarked(standby.free), _unmarked(warmup.free))
        waits = active.waits or standby.waits or warmup.waits
        return self.member.moved_to(
            self.epoch,
            state=UNRELEASED if waits else STABLE,
            assigned=MemberTasks(*(_merged(each, more) for each, more in zip(kept, free, strict=True))),
            pending_revocation=MemberTasks(),
        )

    def _promote(self, active: "_Division", standby: "_Division", warmup: "_Division") -> None:
        """A standby or warm-up task that the member is to run is not given up: it stays what it is until then."""
        roles = ((self.member.assigned.standby, standby), (self.member.assigned.warmup, warmup))
        promoted = [
            (task, role)
            for held, role in roles
            for task in _tasks(held)
            if task[1] in self.target.active.get(task[0], ())
        ]
        for task, role in promoted:
            _drop(role.revoked, task)
        revoked = MemberTasks(active.revoked, _unmarked(standby.revoked), _unmarked(warmup.revoked))
        has_to_revoke = not revoked.is_empty and (self.owned is None or self.owned.has_any(revoked))
        for task, role in promoted:
            if has_to_revoke or not active.grants(task):
                role.kept.setdefault(task[0], {})[task[1]] = 0

    def _is_active_taken(self, task: _Task) -> bool:
        """Whether a process has the active task, or another member of this process has it in another role."""
        return task in self.group.active_processes or self._others_stand_by(task) or self._others_warm_up(task)

    def _is_standby_taken(self, task: _Task) -> bool:
        """Whether this process has the task in some role, other than as the member's own active or warm-up task."""
        group, process_id = self.group, self.member.process_id
        is_run = group.active_processes.get(task) == process_id and not _has(self.member.assigned.active, task)
        return is_run or process_id in group.standby_processes.get(task, ()) or self._others_warm_up(task)

    def _is_warmup_taken(self, task: _Task) -> bool:
        """Whether this process has the task in some role, other than as the member's own standby task."""
        group, process_id = self.group, self.member.process_id
        return (
            group.active_processes.get(task) == process_id
            or self._others_stand_by(task)
            or process_id in group.warmup_processes.get(task, ())
        )

    def _others_stand_by(self, task: _Task) -> bool:
        """Whether another member of this process has the task as a standby."""
        has = self.member.process_id in self.group.standby_processes.get(task, ())
        return has and not _has(self.member.assigned.standby, task)

    def _others_warm_up(self, task: _Task) -> bool:
        """Whether another member of this process has the task as a warm-up task."""
        has = self.member.process_id in self.group.warmup_processes.get(task, ())
        return has and not _has(self.member.assigned.warmup, task)


class _Division(NamedTuple):
    """Tasks of one role: to keep, to give up, to get, and whether some are still taken."""

    kept: dict[str, dict[int, int]]
    revoked: dict[str, dict[int, int]]
    free: dict[str, dict[int, int]]
    waits: bool

    def grants(self, task: _Task) -> bool:
        """Whether the task is one to get."""
        return _has(self.free, task)

    def grant(self, task: _Task) -> None:
        """Count a task to get as one that the member has."""
        self.kept.setdefault(task[0], {})[task[1]] = self.free[task[0]][task[1]]
        _drop(self.free, task)


def _divided(
    assigned: ActiveTasks, target: Tasks, epoch: int, is_taken: Callable[[tuple[str, int]], bool]
) -> _Division:
    """Compare the tasks that a member has with those that it is to have."""
    kept: dict[str, dict[int, int]] = {}
    revoked: dict[str, dict[int, int]] = {}
    free: dict[str, dict[int, int]] = {}
    waits = False
    for subtopology in dict.fromkeys((*target, *assigned)):
        wanted, held = target.get(subtopology, frozenset()), assigned.get(subtopology, {})
        for partition, since in held.items():
            (kept if partition in wanted else revoked).setdefault(subtopology, {})[partition] = since
        for partition in wanted:
            if partition in held:
                continue
            if is_taken((subtopology, partition)):
                waits = True
            else:
                free.setdefault(subtopology, {})[partition] = epoch
    return _Division(kept, revoked, free, waits)


def _tasks(tasks: Mapping[str, Iterable[int]]) -> Iterable[_Task]:
    return [(subtopology, partition) for subtopology, partitions in tasks.items() for partition in partitions]


def _has(tasks: Mapping[str, Container[int]], task: _Task) -> bool:
    return task[1] in tasks.get(task[0], ())


def _drop(tasks: dict[str, dict[int, int]], task: _Task) -> None:
    """Remove a task, if it is there."""
    partitions = tasks.get(task[0])
    if partitions is not None and task[1] in partitions:
        del partitions[task[1]]
        if not partitions:
            del tasks[task[0]]


def _marked(tasks: Tasks) -> ActiveTasks:
    return {subtopology: dict.fromkeys(partitions, 0) for subtopology, partitions in tasks.items()}


def _unmarked(tasks: ActiveTasks) -> Tasks:
    return {subtopology: frozenset(partitions) for subtopology, partitions in tasks.items()}


def _merged(tasks: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(tasks)
    for subtopology, partitions in more.items():
        if subtopology not in merged:
            merged[subtopology] = partitions
        elif isinstance(partitions, frozenset):
            merged[subtopology] = merged[subtopology] | partitions
        else:
            merged[subtopology] = {**merged[subtopology], **partitions}
    return merged
