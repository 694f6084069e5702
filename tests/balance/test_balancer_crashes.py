"""The cluster's own balancer on a model of a cluster: it is killed at any write, others interfere, and nothing stays
behind. Planted: a balancer that notes too late, forgets its note too early, or does not give way, is found."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpybroker.client import balancer
from kpybroker.client.balance_execution import ExecutionState, MovesCancelled
from kpybroker.client.balance_throttles import FoundThrottles
from kpybroker.client.balancer import GOALS, MODE_KEY, MOVES_KEY, Balancer, BalancerSettings
from kpybroker.client.client import Spot
from kpybroker.client.cluster_load import MeasuredCluster
from kpybroker.client.config_requests import ConfigChange, ConfigOperation
from kpybroker.client.reassignment_requests import MovingPartition
from kpybroker.machines.balance.goals import BalanceGoals
from kpybroker.machines.balance.model import BalanceModel, BalanceNode, PartitionLoad
from kpybroker.machines.balance.plan_file import WantedPartition

OTHER = Spot("other", 0)
ROUNDS = 30


class Killed(BaseException):
    """The process of the balancer has ended."""


class ModelCluster:
    """Partitions, moves, throttles and configs. ``writes`` is how many writes the balancer lives."""

    def __init__(self, partitions: int, writes: int) -> None:
        self.replicas = {Spot("orders", number): (1,) for number in range(partitions)} | {OTHER: (2,)}
        self.moving: dict[Spot, tuple[int, ...]] = {}
        self.throttled: set[Spot] = set()
        self.configs = {MODE_KEY: "auto"}
        self.writes = writes
        self.looks = 0
        self.other_moves_at = -1
        self.cancelled_at = -1

    def write(self) -> None:
        """The balancer is about to write."""
        if self.writes == 0:
            raise Killed
        self.writes -= 1

    def check(self) -> None:
        """Fail unless everything that the balancer has done is noted."""
        noted = set(balancer._spots_in(self.configs.get(MOVES_KEY, "")))
        assert self.throttled <= noted
        assert set(self.moving) - {OTHER} <= noted

    def look(self) -> None:
        """Time passes: a move is finished, and others begin or cancel one at their moment."""
        self.looks += 1
        if self.looks == self.other_moves_at:
            self.moving[OTHER] = (3,)
        elif self.looks == self.cancelled_at:
            self.moving.clear()
        elif self.moving:
            spot = min(self.moving)
            self.replicas[spot] = self.moving.pop(spot)

    def alter(self, _client: object, _resource: object, changes: Iterable[ConfigChange]) -> None:
        self.write()
        for each in changes:
            if each.operation == ConfigOperation.DELETE:
                self.configs.pop(each.name, None)
            else:
                self.configs[each.name] = each.value or ""
        self.check()

    def describe(self, _client: object, _resource: object, names: Iterable[str]) -> list[Any]:
        return [SimpleNamespace(name=name, value=self.configs[name]) for name in names if name in self.configs]

    def listed(self, _client: object) -> list[MovingPartition]:
        return [
            MovingPartition(spot, (*wanted, *self.replicas[spot]), wanted, self.replicas[spot])
            for spot, wanted in sorted(self.moving.items())
        ]

    def cancel(self, _client: object, spots: Iterable[Spot]) -> int:
        self.write()
        return len([self.moving.pop(each) for each in spots if each in self.moving])

    def end(self, _client: object, wanted: Iterable[WantedPartition]) -> FoundThrottles:
        self.write()
        self.throttled -= {Spot(each.topic, each.partition) for each in wanted}
        return FoundThrottles({}, {})

    def measured(self, *_: object) -> MeasuredCluster:
        model = BalanceModel([BalanceNode(each, disk_bytes=1000, used_bytes=0) for each in (1, 2, 3)])
        for topic in ("orders", "other"):
            index = model.add_topic(topic)
            for spot, replicas in sorted(self.replicas.items()):
                if spot.topic == topic:
                    model.add_partition(index, spot.partition, replicas, load=PartitionLoad(10))
        return MeasuredCluster("c", model, {})

    @property
    def is_clean(self) -> bool:
        return not (self.throttled or self.moving or MOVES_KEY in self.configs)


class ModelExecution:
    """A `BalanceExecution` on the model: it sets throttles, begins all its moves, and waits for them."""

    def __init__(self, cluster: ModelCluster, wanted: list[WantedPartition]) -> None:
        self._cluster = cluster
        self._wanted = {Spot(each.topic, each.partition): each.replicas for each in wanted}
        self._begun = {spot for spot in self._wanted if spot in cluster.moving}
        self.is_closed = False

    def before(self) -> None:
        pass

    def step(self) -> ExecutionState:
        cluster = self._cluster
        left = {spot for spot, replicas in self._wanted.items() if cluster.replicas[spot] != replicas}
        if any(spot in self._begun and spot not in cluster.moving for spot in left):
            raise MovesCancelled("somebody has cancelled the move")
        for spot in sorted(left - self._begun) if not self.is_closed else ():
            cluster.write()
            cluster.throttled.add(spot)
            cluster.check()
            cluster.write()
            assert OTHER not in cluster.moving, "it begins a move beside others"
            cluster.moving[spot] = self._wanted[spot]
            cluster.check()
            self._begun.add(spot)
        return ExecutionState(len(self._wanted) - len(left), len(self._wanted), len(left), 0, 1, is_felt=False)

    @property
    def is_finished(self) -> bool:
        return not self._cluster.moving.keys() & self._wanted.keys()

    def begin_no_more(self) -> None:
        self.is_closed = True

    def elect(self) -> int:
        return 0

    def cancel(self) -> int:
        return self._cluster.cancel(None, list(self._wanted))


@contextmanager
def on(cluster: ModelCluster) -> Iterator[None]:
    """Balancers work on this model."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(balancer.config_requests, "alter", cluster.alter)
        patched.setattr(balancer.config_requests, "describe", cluster.describe)
        patched.setattr(balancer.reassignment_requests, "moving", cluster.listed)
        patched.setattr(balancer.cluster_load, "measure", cluster.measured)
        patched.setattr(balancer.balance_execution, "cancel", cluster.cancel)
        patched.setattr(balancer.balance_execution, "end", cluster.end)
        patched.setattr(balancer, "BalanceExecution", lambda _client, step, *_: ModelExecution(cluster, step))
        patched.setattr(balancer, "time", SimpleNamespace(sleep=lambda _: cluster.look(), time=lambda: 0.0))
        yield


def new_balancer(cluster: ModelCluster) -> Balancer:
    """A balancer, as a new controller begins one."""
    goals = BalanceGoals(idle_disk=0.0, only=GOALS)
    client: Any = SimpleNamespace(retrying=lambda attempt: attempt())
    return Balancer(client, BalancerSettings(cluster.configs[MODE_KEY], 1.0, goals, 1, 0.0), lambda _: None)


def balanced(partitions: int, writes: int, other_moves_at: int, cancelled_at: int, mode_after: str) -> ModelCluster:
    """A cluster whose balancer is killed at a write, and followed by others in a mode until there is nothing to do."""
    cluster = ModelCluster(partitions, writes)
    cluster.other_moves_at, cluster.cancelled_at = other_moves_at, cancelled_at
    with on(cluster):
        try:
            first = new_balancer(cluster)
            for _ in range(ROUNDS):
                first.round()
                cluster.look()
        except Killed:
            cluster.check()
        cluster.writes = -1
        if cluster.configs[MODE_KEY] == "auto":
            cluster.configs[MODE_KEY] = mode_after
        for _ in range(ROUNDS):
            new_balancer(cluster).round()
            cluster.look()
    return cluster


EVENTS = (st.integers(1, 8), st.integers(0, 30), st.integers(0, 20), st.integers(0, 20))


@settings(deadline=None)
@given(*EVENTS, st.sampled_from(["off", "advise", "auto"]))
def test_a_balancer_that_is_killed_anywhere_leaves_nothing_behind(
    partitions: int, writes: int, other_moves_at: int, cancelled_at: int, mode_after: str
) -> None:
    cluster = balanced(partitions, writes, other_moves_at, cancelled_at, mode_after)
    assert cluster.is_clean
    if cluster.configs[MODE_KEY] == "auto":
        placed = [replicas for spot, replicas in cluster.replicas.items() if spot.topic == "orders"]
        assert max(placed.count((node,)) for node in (1, 2, 3)) <= partitions // 3 + 1


def _notes_nothing(made: Any, _step: object) -> None:
    del made


def _finishes_nothing(made: Any) -> None:
    del made


def _sees_no_others(made: Any) -> bool:
    del made
    return False


@pytest.mark.parametrize(
    ("method", "bug"),
    [("_note", _notes_nothing), ("_finish", _finishes_nothing), ("_others", _sees_no_others)],
    ids=["it notes nothing", "it does not end what was begun", "it does not see others"],
)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, method: str, bug: Callable[..., Any]) -> None:
    monkeypatch.setattr(Balancer, method, bug)
    with pytest.raises(AssertionError):
        _play_all()


def _play_all() -> None:
    for writes in range(20):
        for other_moves_at in range(6):
            assert balanced(6, writes, other_moves_at, 0, "auto").is_clean
