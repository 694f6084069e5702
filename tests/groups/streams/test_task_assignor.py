"""The sticky task assignor: every task has one owner, loads are even, and what can stay stays; as Apache Kafka's."""

from collections.abc import Iterator, Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.groups.epochs.java_order import in_hash_order, string_hash
from kpybroker.machines.groups.streams.assignor import (
    AssignmentMemberSpec,
    SubtopologySpec,
    TaskAssignorFailed,
    assign_tasks,
)
from kpybroker.machines.groups.streams.java_queue import JavaQueue
from kpybroker.machines.groups.streams.tasks import TargetTasks, Tasks
from oracle.asked import AskedOracle

CASES = 600
Topology = dict[str, SubtopologySpec]
Assigned = Mapping[str, TargetTasks]
topologies = st.dictionaries(
    st.sampled_from("0123"), st.builds(SubtopologySpec, st.integers(1, 9), st.booleans()), min_size=1
)
processes = st.lists(st.sampled_from("pqrs"), min_size=1, max_size=8)


def specs(processes_of: Mapping[str, str], before: Assigned) -> dict[str, AssignmentMemberSpec]:
    """Members in the order of Kafka's table."""
    return {
        each: AssignmentMemberSpec(processes_of[each], before.get(each, TargetTasks()))
        for each in in_hash_order(list(processes_of), string_hash)
    }


def tasks_of(tasks: Tasks) -> set[tuple[str, int]]:
    return {(name, index) for name, indexes in tasks.items() for index in indexes}


def check_valid(topology: Topology, processes_of: Mapping[str, str], assigned: Assigned, replicas: int) -> None:
    active = [task for each in assigned.values() for task in tasks_of(each.active)]
    assert sorted(active) == sorted((name, index) for name, each in topology.items() for index in range(each.tasks))
    counts = [len(tasks_of(assigned[each].active)) for each in processes_of]
    if replicas == 0:
        assert max(counts) <= -(-len(active) // len(counts))
    in_process: set[tuple[str, tuple[str, int]]] = set()
    for member_id, each in assigned.items():
        for tasks in each:
            for task in tasks_of(tasks):
                assert (processes_of[member_id], task) not in in_process, "a process has a task once"
                in_process.add((processes_of[member_id], task))
    standby = [task for each in assigned.values() for task in tasks_of(each.standby)]
    stateful = {name for name, each in topology.items() if each.is_stateful}
    assert {name for name, _ in standby} <= stateful
    most = min(replicas, len(set(processes_of.values())) - 1)
    assert all(standby.count(task) <= most for task in standby)


@given(topologies, processes, st.integers(0, 2))
def test_every_task_has_one_owner_and_standbys_are_in_other_processes(
    topology: Topology, of: list[str], replicas: int
) -> None:
    processes_of = {f"m{number}": process for number, process in enumerate(of)}
    topology = dict(sorted(topology.items()))
    check_valid(topology, processes_of, assign_tasks(specs(processes_of, {}), topology, replicas), replicas)


@given(topologies, processes)
def test_tasks_move_only_for_a_reason(topology: Topology, of: list[str]) -> None:
    processes_of = {f"m{number}": process for number, process in enumerate(of)}
    before = assign_tasks(specs(processes_of, {}), topology, 0)
    assert assign_tasks(specs(processes_of, before), topology, 0) == before
    for gone in processes_of:
        left = {each: process for each, process in processes_of.items() if each != gone}
        if left:
            after = assign_tasks(specs(left, before), topology, 0)
            check_valid(dict(sorted(topology.items())), left, after, 0)
            for each in left:
                assert tasks_of(before[each].active) <= tasks_of(after[each].active)


@given(topologies, processes)
def test_a_standby_becomes_the_owner_of_a_task_whose_process_is_gone(topology: Topology, of: list[str]) -> None:
    processes_of = {f"m{number}": process for number, process in enumerate(of)}
    topology = {name: SubtopologySpec(each.tasks, True) for name, each in topology.items()}
    before = assign_tasks(specs(processes_of, {}), topology, 1)
    left = {each: process for each, process in processes_of.items() if process != of[0]}
    if not left:
        return
    after = assign_tasks(specs(left, before), topology, 1)
    check_valid(topology, left, after, 1)
    if len(left) == 1:
        (only,) = left
        assert tasks_of(before[only].standby) <= tasks_of(after[only].active)


def test_without_members_nothing_can_be_assigned() -> None:
    with pytest.raises(TaskAssignorFailed, match=r"No process available to assign active task 0_0\."):
        assign_tasks({}, {"0": SubtopologySpec(1, False)}, 0)


@given(st.lists(st.integers(0, 5)))
def test_the_queue_yields_the_least_first(numbers: list[int]) -> None:
    queue = JavaQueue[tuple[int, int]](lambda element: element[0])
    for place, number in enumerate(numbers):
        queue.add((number, place))
    yielded = [queue.poll() for _ in numbers]
    assert [each and each[0] for each in yielded] == sorted(numbers)
    assert queue.poll() is None


# Beside Apache Kafka


@pytest.fixture(scope="module")
def oracle() -> Iterator[AskedOracle]:
    started = AskedOracle("TaskAssignorOracle.java", "TaskAssignorOracle")
    yield started
    started.close()


def written(tasks: Tasks) -> str:
    return ";".join(f"{name}:{','.join(map(str, sorted(tasks[name])))}" for name in sorted(tasks)) or "-"


@pytest.mark.java
def test_the_assignments_are_those_of_apache_kafka(oracle: AskedOracle) -> None:
    """Each case follows from the one before: members come and go, topologies grow, standbys are wanted or not."""
    rng = Random(1)
    processes_of: dict[str, str] = {}
    before: Assigned = {}
    topology: Topology = {}
    for case in range(CASES):
        if case % 12 == 0:
            before, processes_of = {}, {}
            names = rng.sample([str(number) for number in range(12)], rng.randrange(1, 5))
            topology = {name: SubtopologySpec(rng.randrange(1, 12), rng.random() < 0.6) for name in sorted(names)}
        for _ in range(rng.randrange(1, 5)):
            processes_of[f"member-{rng.randrange(40)}"] = f"process-{rng.randrange(1, 7)}"
        for each in rng.sample(sorted(processes_of), rng.randrange(len(processes_of))):
            if rng.random() < 0.3:
                del processes_of[each]
        replicas = rng.choice((0, 0, 1, 2, 3))
        members = [
            f"{each} {process} {written(target.active)} {written(target.standby)}"
            for each, process in processes_of.items()
            for target in (before.get(each, TargetTasks()),)
        ]
        shape = ";".join(f"{name} {each.tasks} {int(each.is_stateful)}" for name, each in topology.items())
        theirs = oracle.ask_for_line(replicas, shape, *members)
        before = assign_tasks(specs(processes_of, before), topology, replicas)
        ours = [f"{each} {written(before[each].active)} {written(before[each].standby)}" for each in sorted(before)]
        assert ours == theirs.split("\t"), (case, replicas, shape, members)
