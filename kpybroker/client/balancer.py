"""A balancer that runs for good: it measures, plans and, in the mode ``auto``, carries out plans step by step.

It has no state of its own but the standing that it shows. Before it moves anything it notes the partitions in the
cluster's config ``kpybroker.balancer.moves``, and when no throttle is left it removes the note. So the next balancer
finishes what one that died has begun, and can tell it from the moves of others. In other modes than ``auto`` it cancels
that. Not here: who runs it (`kpybroker.hosts.balancer`).

Invariant: while a throttle of the balancer may be set, its partitions are noted.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from kpybroker.client import balance_execution, cluster_load, config_requests, reassignment_requests
from kpybroker.client.balance_execution import BalanceExecution, MovesCancelled
from kpybroker.client.client import Client, Spot
from kpybroker.client.config_requests import ConfigChange, ConfigOperation, ConfigResource, ConfigResourceType
from kpybroker.client.connection import Unreachable
from kpybroker.machines.balance.executing import ExecutionLimits
from kpybroker.machines.balance.goals import BalanceGoals, MoveReason
from kpybroker.machines.balance.pace import MIB, ThrottleRange
from kpybroker.machines.balance.plan_file import WantedPartition
from kpybroker.machines.balance.planner import plan
from kpybroker.machines.balance.standing import ADVISE, AUTO, OFF, Advice, BalancerStanding, advice_of
from kpybroker.machines.balance.words import size_words
from kpybroker.machines.errors import KafkaError

MODE_KEY: Final = "kpybroker.balancer.mode"
MOVES_KEY: Final = "kpybroker.balancer.moves"
EVERY_BROKER: Final = ConfigResource(ConfigResourceType.BROKER, "")
GOALS: Final = frozenset(MoveReason) - {MoveReason.GONE}
"""Replicas of brokers that are gone stay theirs, since most come back."""
STEP_MOVES: Final = 20
"""The moves of a step. After it the cluster is measured again, since a plan grows old."""
LOOK_S: Final = 1.0
LOOKS_BEFORE: Final = 3
BETWEEN_LOOKS_S: Final = 0.1


class BalancerSettings(NamedTuple):
    """The configs of a balancer."""

    mode: str
    interval_s: float
    goals: BalanceGoals
    most_rate: int
    """The highest throttle of moves in bytes a second and broker."""
    sample_s: float = 5.0


class Balancer:
    """The balancer of a cluster."""

    def __init__(self, client: Client, settings: BalancerSettings, show: Callable[[BalancerStanding], object]) -> None:
        """``show`` is called with each new standing."""
        self._client = client
        self._settings = settings
        self._show = show
        self._advice: Advice | None = None
        self._is_stopped = False
        self._own: set[Spot] = set()
        """The partitions of the present step."""

    def run(self) -> None:
        """Balance the cluster until the process ends."""
        while True:
            try:
                moved = self.round()
            except (KafkaError, Unreachable) as error:
                moved = False
                self._say(f"The cluster cannot be balanced now: {error}")
            if not moved:
                time.sleep(self._settings.interval_s)

    def round(self) -> bool:
        """Finish what was begun, measure, plan, and carry out a step where that is wanted. Return whether it did.
        Raises KafkaError, Unreachable."""
        client, mode = self._client, self._settings.mode
        self._finish()
        if mode == OFF:
            return False
        if self._others():
            self._say("It waits: others move partitions.")
            return False
        self._say("It measures the load.")
        measured = cluster_load.measure(client, self._settings.sample_s)
        found = plan(measured.model, self._settings.goals)
        self._advice = advice_of(found, int(time.time() * 1000))
        if not found.moves:
            self._say("Nothing has to move.")
            return False
        if mode != AUTO or self._is_stopped:
            self._say("It moves nothing by itself." if mode == ADVISE else "It was stopped: its moves were cancelled.")
            return False
        free = {
            node.id: int(self._settings.goals.disk_limit * node.disk_bytes) - node.used_bytes
            for node in measured.model.nodes
            if node.disk_bytes > 0
        }
        step = [WantedPartition(each.topic, each.partition, each.after) for each in found.moves[:STEP_MOVES]]
        self._note(step)
        self._carry_out(step, free)
        return True

    # Moving

    def _finish(self) -> None:
        """End what a balancer has begun: in the mode ``auto`` its moves are finished, otherwise they are cancelled."""
        noted = self._noted()
        if not noted:
            return
        moving = [each for each in reassignment_requests.moving(self._client) if each.spot in noted]
        step = [
            WantedPartition(*each.spot, tuple(node for node in each.replicas if node not in each.removing))
            for each in moving
        ]
        if self._settings.mode != AUTO:
            balance_execution.cancel(self._client, [each.spot for each in moving])
            step = []
        self._carry_out(step, {}, noted)

    def _carry_out(self, step: list[WantedPartition], free: dict[int, int], noted: Iterable[Spot] = ()) -> None:
        """Carry out a step, and remove its throttles and the note of it. When others begin to move partitions, none is
        begun any more, and those that move are finished."""
        self._own = {Spot(each.topic, each.partition) for each in step}
        rate = self._settings.most_rate
        rates = ThrottleRange(min(20 * MIB, rate), min(MIB, rate), rate)
        execution = BalanceExecution(self._client, step, ExecutionLimits(), rates, free)
        try:
            if step:
                self._move(execution)
                self._client.retrying(execution.elect)
        except MovesCancelled:
            self._stop(execution)
        places = [*step, *(WantedPartition(*each, ()) for each in noted)]
        left = self._client.retrying(lambda: balance_execution.end(self._client, places))
        if left.is_empty and not self._others():
            self._note([])
        self._own = set()

    def _move(self, execution: BalanceExecution) -> None:
        for _ in range(LOOKS_BEFORE):
            self._client.retrying(execution.before)
            time.sleep(BETWEEN_LOOKS_S)
        while True:
            if not execution.is_closed and self._others():
                execution.begin_no_more()
            state = self._client.retrying(execution.step)
            left = state.total - state.finished
            line = f"It moves partitions: {left} are left in this step, {size_words(state.left_bytes)} to copy."
            self._show(self._standing(line, left, state.left_bytes, state.rate))
            if execution.is_finished:
                return
            time.sleep(LOOK_S)

    def _stop(self, execution: BalanceExecution) -> None:
        """Stop, since somebody has cancelled moves: that is a wish to move nothing."""
        self._is_stopped = True
        self._client.retrying(execution.cancel)
        change = ConfigChange(ConfigOperation.SET, MODE_KEY, ADVISE)
        config_requests.alter(self._client, EVERY_BROKER, [change])

    def _others(self) -> bool:
        """Whether partitions move that no balancer has noted."""
        moving = {each.spot for each in reassignment_requests.moving(self._client)} - self._own
        return bool(moving and moving - self._noted())

    # The note

    def _noted(self) -> set[Spot]:
        found = config_requests.describe(self._client, EVERY_BROKER, [MOVES_KEY])
        return set(_spots_in(next((each.value or "" for each in found if each.name == MOVES_KEY), "")))

    def _note(self, step: Iterable[WantedPartition]) -> None:
        text = ",".join(f"{each.topic}:{each.partition}" for each in step)
        config_requests.alter(self._client, EVERY_BROKER, [config_requests.set_or_deleted(MOVES_KEY, text or None)])

    # Showing

    def _say(self, line: str) -> None:
        self._show(self._standing(line))

    def _standing(self, line: str, left: int = 0, left_bytes: int = 0, rate: int = 0) -> BalancerStanding:
        return BalancerStanding(self._settings.mode, line, self._advice, left, left_bytes, rate)


def _spots_in(text: str) -> Iterator[Spot]:
    for each in text.split(","):
        topic, _, number = each.strip().rpartition(":")
        if topic and number.isdecimal():
            yield Spot(topic, int(number))
