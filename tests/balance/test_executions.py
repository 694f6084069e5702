"""Executions of plans on a simulated cluster: bounded, continued after a crash, stopped by a cancellation."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kpybroker.machines.balance.executing import (
    LOOKS,
    Execution,
    ExecutionLimits,
    Place,
    PresentPartition,
)
from kpybroker.machines.balance.plan_file import WantedPartition


class SimulatedCluster:
    """Partitions of a topic; moves that begin are finished by `finish`."""

    def __init__(self, partitions: list[tuple[tuple[int, ...], int]]) -> None:
        self.present: dict[Place, PresentPartition] = {
            ("t", number): PresentPartition(replicas, replicas[0], size)
            for number, (replicas, size) in enumerate(partitions)
        }

    def begin(self, wanted: list[WantedPartition], execution: Execution | None = None) -> None:
        if execution is not None:
            execution.began(wanted)
        for each in wanted:
            now = self.present[each.topic, each.partition]
            adding = tuple(node for node in each.replicas if node not in now.replicas)
            removing = tuple(node for node in now.replicas if node not in each.replicas)
            replicas = (*each.replicas, *removing)
            self.present[each.topic, each.partition] = now._replace(
                replicas=replicas, adding=adding, removing=removing if adding else ()
            )
            if not adding:
                self.finish(("t", each.partition))

    def finish(self, place: Place) -> None:
        now = self.present[place]
        self.present[place] = now._replace(replicas=now.staying, leader=now.staying[0], adding=(), removing=())

    def cancel(self, place: Place) -> None:
        now = self.present[place]
        before = tuple(each for each in now.replicas if each not in now.adding)
        self.present[place] = now._replace(replicas=before, adding=(), removing=())

    @property
    def moving(self) -> list[Place]:
        return [place for place, each in self.present.items() if each.is_moving]

    def usage(self, node: int) -> tuple[int, int]:
        """The bytes of moves that a node takes part in, and their number."""
        sizes = [
            each.size_bytes for each in self.present.values() if each.is_moving and node in (each.leader, *each.adding)
        ]
        return sum(sizes), len(sizes)


def wanted(*moves: tuple[int, tuple[int, ...]]) -> list[WantedPartition]:
    return [WantedPartition("t", partition, replicas) for partition, replicas in moves]


def test_moves_begin_up_to_the_limits_of_each_node() -> None:
    cluster = SimulatedCluster([((1, 2), 100)] * 4)
    execution = Execution(wanted(*((each, (3, 2)) for each in range(4))), ExecutionLimits(250, 5))
    steps = execution.next_steps(cluster.present)
    assert [each.partition for each in steps.begin] == [0, 1]
    assert (steps.under_way, steps.waiting) == (2, 2)
    cluster.begin(steps.begin, execution)
    assert execution.next_steps(cluster.present).begin == []
    cluster.finish(("t", 0))
    steps = execution.next_steps(cluster.present)
    assert [each.partition for each in steps.finished] == [0]
    assert [each.partition for each in steps.begin] == [2]


def test_a_move_larger_than_the_limit_goes_alone() -> None:
    cluster = SimulatedCluster([((1,), 1000), ((1,), 10)])
    execution = Execution(wanted((0, (2,)), (1, (2,))), ExecutionLimits(100, 5))
    assert [each.partition for each in execution.next_steps(cluster.present).begin] == [0]


def test_leaders_move_when_all_copies_are_finished() -> None:
    cluster = SimulatedCluster([((1, 2), 10), ((1, 2), 10)])
    execution = Execution(wanted((0, (2, 1)), (1, (1, 3))), ExecutionLimits())
    steps = execution.next_steps(cluster.present)
    assert [each.partition for each in steps.begin] == [1]
    cluster.begin(steps.begin, execution)
    assert execution.next_steps(cluster.present).begin == []
    cluster.finish(("t", 1))
    assert [each.partition for each in execution.next_steps(cluster.present).begin] == [0]


def test_nothing_begins_while_clients_feel_it() -> None:
    cluster = SimulatedCluster([((1,), 10)])
    assert Execution(wanted((0, (2,))), ExecutionLimits()).next_steps(cluster.present, may_begin=False).begin == []


def test_a_move_waits_until_the_disk_has_room() -> None:
    cluster = SimulatedCluster([((1,), 60), ((2,), 60)])
    execution = Execution(wanted((0, (2,)), (1, (1,))), ExecutionLimits(), {1: 100, 2: 50})
    steps = execution.next_steps(cluster.present)
    assert [each.partition for each in steps.begin] == [1]
    cluster.begin(steps.begin, execution)
    cluster.finish(("t", 1))
    assert [each.partition for each in execution.next_steps(cluster.present).begin] == [0]


def test_a_partition_that_others_move_is_left_alone_until_it_is_finished() -> None:
    cluster = SimulatedCluster([((1,), 10)])
    cluster.begin(wanted((0, (5,))))
    execution = Execution(wanted((0, (2,))), ExecutionLimits())
    assert execution.next_steps(cluster.present).begin == []
    assert not execution.begun
    cluster.finish(("t", 0))
    assert execution.next_steps(cluster.present).begin != []


def test_a_move_that_somebody_cancelled_is_reported_and_not_begun_again() -> None:
    cluster = SimulatedCluster([((1,), 10), ((1,), 10)])
    execution = Execution(wanted((0, (2,)), (1, (3,))), ExecutionLimits(in_flight_moves=1))
    cluster.begin(execution.next_steps(cluster.present).begin, execution)
    cluster.cancel(("t", 0))
    looks = [execution.next_steps(cluster.present) for _ in range(LOOKS)]
    assert not any(each.begin for each in looks)
    assert [bool(each.cancelled) for each in looks] == [False] * (LOOKS - 1) + [True]
    steps = execution.next_steps(cluster.present)
    assert steps.cancelled
    assert steps.begin == []


def test_a_topic_that_was_deleted_ends_its_moves() -> None:
    execution = Execution(wanted((0, (2,))), ExecutionLimits())
    assert [each.partition for each in execution.next_steps({}).finished] == [0]
    assert not execution.places


@settings(deadline=None)
@given(st.data())
def test_every_plan_is_carried_out_within_the_limits_however_often_it_is_killed(data: st.DataObject) -> None:
    nodes = st.permutations(range(6)).map(lambda each: tuple(each[:2]))
    cluster = SimulatedCluster(data.draw(st.lists(st.tuples(nodes, st.integers(0, 100)), min_size=1, max_size=12)))
    plan = wanted(*((number, data.draw(nodes)) for number in range(len(cluster.present))))
    limits = ExecutionLimits(data.draw(st.integers(1, 200)), data.draw(st.integers(1, 3)))
    execution = Execution(plan, limits)
    for _ in range(200):
        steps = execution.next_steps(cluster.present)
        assert not steps.cancelled
        cluster.begin(steps.begin, execution)
        for node in range(6):
            used, moves = cluster.usage(node)
            assert moves <= limits.in_flight_moves
            assert used <= limits.in_flight_bytes or moves <= 1
        if not execution.places:
            break
        if cluster.moving:
            cluster.finish(data.draw(st.sampled_from(cluster.moving)))
        if data.draw(st.integers(0, 4)) == 0:
            execution = Execution(plan, limits)
    assert [each.replicas for each in cluster.present.values()] == [each.replicas for each in plan]


def test_moves_that_the_controller_refused_are_begun_again() -> None:
    cluster = SimulatedCluster([((1,), 60), ((1,), 60)])
    execution = Execution(wanted((0, (2,)), (1, (2,))), ExecutionLimits(), {2: 120})
    for _ in range(LOOKS + 1):
        assert [each.partition for each in execution.next_steps(cluster.present).begin] == [0, 1]
