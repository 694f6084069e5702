"""Carrying out a plan on any cluster: moves begin, the throttle follows what clients feel, and nothing is left behind.

The cluster has all state: its reassignments and its throttles. A second execution of the same plan continues a first
one that was killed; `end` removes what either has set. Not here: which moves begin
(`kpybroker.machines.balance.executing`), and the rate (`kpybroker.machines.balance.pace`).
"""

import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kpybroker.client import balance_throttles, cluster_load, election_requests, reassignment_requests
from kpybroker.client.balance_throttles import FoundThrottles, ThrottledMove
from kpybroker.client.client import Client, Spot
from kpybroker.client.connection import Unreachable
from kpybroker.machines.balance.executing import Execution, ExecutionLimits, NextSteps, Place, PresentPartition
from kpybroker.machines.balance.pace import Feeling, MovePace, ThrottleRange
from kpybroker.machines.balance.plan_file import WantedPartition
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.messages.api_versions import ApiVersionsRequest

PROBED: Final = 16
"""The most brokers whose latency is measured."""
SHORT_EVERY_S: Final = 3.0
"""The least interval at which all partitions are read."""
EXPENSIVE: Final = 20.0
"""After something that took long, this many times as long passes before it is repeated."""
ELECTED_AT_ONCE: Final = 1_000
READS: Final = 5
READ_AFTER_S: Final = 0.2
"""A broker that answers hears of a removal a moment after the controller."""

Latency = Callable[[], float | None]
"""The latency that producers have now in milliseconds, None where it is unknown."""


class ExecutionState(NamedTuple):
    """The state of an execution, to be shown."""

    finished: int
    total: int
    under_way: int
    left_bytes: int
    rate: int
    is_felt: bool
    """Whether clients feel the moves, so that none begins."""


class MovesCancelled(Exception):
    """Somebody has cancelled moves of the plan; it is not continued. The message names one."""


class BalanceExecution:
    """One execution of a plan."""

    def __init__(
        self,
        client: Client,
        wanted: Iterable[WantedPartition],
        limits: ExecutionLimits,
        rates: ThrottleRange,
        free_bytes: dict[int, int],
        latency: Latency | None = None,
    ) -> None:
        self.client = client
        self.wanted = list(wanted)
        self.machine = Execution(self.wanted, limits, free_bytes)
        self.pace = MovePace(rates)
        self._latency = latency or self._answer_ms
        self._present: dict[Place, PresentPartition] = {}
        self._sizes: dict[Spot, int] = {}
        self._throttled: dict[Place, ThrottledMove] = {}
        self._rated: set[int] = set()
        self._alive: set[int] = set()
        self._left_bytes = 0
        self._all_at = 0.0
        self._short: int | None = None
        self._short_at = 0.0
        self.is_closed = False
        """Whether no further move begins; those that are under way are finished."""

    # One step

    def before(self) -> None:
        """Measure what clients feel before anything moves. Raises KafkaError, Unreachable."""
        self._read()
        self.pace.before(Feeling(self._latency(), self._count_short()))

    def step(self) -> ExecutionState:
        """Do what is to be done now. Raises KafkaError, Unreachable, MovesCancelled."""
        self._read()
        feeling = Feeling(self._latency(), self._count_short(), self._left_bytes)
        rate = self.pace.look(feeling, time.monotonic() * 1000)
        may_begin = not (self.pace.is_felt or self.is_closed)
        steps = self.machine.next_steps(self._present, may_begin=may_begin)
        self._forget_throttles(steps)
        if steps.cancelled:
            names = ", ".join(f"{each.topic}-{each.partition}" for each in steps.cancelled[:3])
            raise MovesCancelled(f"somebody has cancelled the move of {names}")
        for place in self.machine.begun:  # also those that an execution has begun which was killed
            moved = self._present.get(place)
            if moved is not None and moved.adding:
                self._rated |= {*moved.replicas}
        if rate is not None and self._rated:
            balance_throttles.set_rate(self.client, sorted(self._rated & self._alive), rate)
        self._begin(steps.begin)
        total = len(self.wanted)
        left = steps.waiting + steps.under_way
        return ExecutionState(
            total - left, total, steps.under_way, self._left_bytes, int(self.pace.rate), self.pace.is_felt
        )

    @property
    def is_finished(self) -> bool:
        """Whether all partitions are where they are wanted."""
        return not (self.machine.begun if self.is_closed else self.machine.places)

    def begin_no_more(self) -> None:
        """Begin no further move: the execution is finished when those that are under way are."""
        self.is_closed = True

    def _begin(self, wanted: list[WantedPartition]) -> None:
        if not wanted:
            return
        throttled = {}
        for each in wanted:
            present = self._present[each.topic, each.partition]
            coming = tuple(node for node in each.replicas if node not in present.replicas)
            if coming:
                throttled[each.topic, each.partition] = ThrottledMove(
                    each.topic, each.partition, present.replicas, coming
                )
        if throttled:
            nodes = {node for each in throttled.values() for node in (*each.sending, *each.coming)} & self._alive
            balance_throttles.set_rate(self.client, sorted(nodes - self._rated), int(self.pace.rate))
            self._rated |= nodes
            self._throttled |= throttled
            self._left_bytes += sum(
                self._present[place].size_bytes * len(each.coming) for place, each in throttled.items()
            )
            balance_throttles.set_entries(self.client, throttled.values())
        assignment: dict[str, dict[int, tuple[int, ...]]] = {}
        for each in wanted:
            assignment.setdefault(each.topic, {})[each.partition] = each.replicas
        reassignment_requests.reassign(self.client, assignment)
        self.machine.began(wanted)

    def _forget_throttles(self, steps: NextSteps) -> None:
        gone = [self._throttled.pop(place) for each in steps.finished if (place := each[:2]) in self._throttled]
        balance_throttles.remove_entries(self.client, gone)

    # Reading

    def _read(self) -> None:
        """Read the partitions that move, and often enough all of the plan."""
        self._alive = {node.node_id for node in self.client.nodes()}
        moving = {each.spot: each for each in reassignment_requests.moving(self.client)}
        places, now = set(self.machine.places), time.monotonic()
        reads_all = now >= self._all_at
        read = places if reads_all else self.machine.begun
        names = sorted({topic for topic, _ in read} | {spot.topic for spot in moving})
        present = {} if reads_all else {place: each for place, each in self._present.items() if place[0] not in names}
        for topic in self.client.topics(names) if names else []:
            for each in topic.partitions if not topic.error_code else ():
                spot = Spot(topic.name or "", each.partition_index)
                place, move = (spot.topic, spot.partition), moving.get(spot)
                if move is not None:
                    present[place] = PresentPartition(
                        tuple(move.replicas), each.leader_id, 0, tuple(move.adding), tuple(move.removing)
                    )
                elif place in places:
                    present[place] = PresentPartition(tuple(each.replica_nodes), each.leader_id)
        if reads_all:
            self._all_at = now + EXPENSIVE * (time.monotonic() - now)
        self._measure(present)
        self._present = {
            place: each._replace(size_bytes=self._sizes.get(Spot(*place), 0)) for place, each in present.items()
        }

    def _measure(self, present: dict[Place, PresentPartition]) -> None:
        """Read the sizes of partitions that are new here, and the bytes that new replicas lack."""
        alive = self._alive
        by_leader: dict[int, set[Spot]] = {}
        by_target: dict[int, set[Spot]] = {}
        for place, each in present.items():
            spot = Spot(*place)
            if each.leader in alive and (spot not in self._sizes or each.is_moving):
                by_leader.setdefault(each.leader, set()).add(spot)
            for node in each.adding:
                if node in alive:
                    by_target.setdefault(node, set()).add(spot)
        for leader, spots in by_leader.items():
            self._sizes |= cluster_load.disks_of(self.client, leader, spots).sizes
        left = 0
        for node, spots in by_target.items():
            copied = cluster_load.disks_of(self.client, node, spots).sizes
            left += sum(max(0, self._sizes.get(spot, 0) - copied.get(spot, 0)) for spot in spots)
        self._left_bytes = left

    def _answer_ms(self) -> float | None:
        """The longest time that a broker of the moves takes to answer a small request, behind those that wait there."""
        longest = None
        nodes = sorted({node for each in self._present.values() for node in (each.leader, *each.adding)} - {-1})
        for node in nodes[:PROBED]:
            request = ApiVersionsRequest(client_software_name="kpybroker", client_software_version="0")
            began = time.monotonic()
            try:
                self.client.call_node(node, request)
            except (KafkaError, Unreachable):
                continue
            elapsed_ms = (time.monotonic() - began) * 1000
            longest = elapsed_ms if longest is None else max(longest, elapsed_ms)
        return longest

    def _count_short(self) -> int | None:
        """The partitions that lack a replica in sync and do not move. They are read seldom where they are many."""
        now = time.monotonic()
        if now >= self._short_at:
            moving = {Spot(*place) for place, each in self._present.items() if each.is_moving} | {
                Spot(*place) for place in self.machine.begun
            }
            self._short = sum(
                len(each.isr_nodes) < len(each.replica_nodes)
                and Spot(topic.name or "", each.partition_index) not in moving
                for topic in self.client.topics()
                for each in topic.partitions
            )
            spent_s = time.monotonic() - now
            self._short_at = now + max(SHORT_EVERY_S, EXPENSIVE * spent_s)
        return self._short

    # The end

    def elect(self) -> int:
        """Elect the preferred leaders of the plan's partitions. Return how many lead now that did not. Raises
        KafkaError."""
        names = sorted({each.topic for each in self.wanted})
        wanted = {Spot(each.topic, each.partition): each.replicas[0] for each in self.wanted}
        others = [
            spot
            for topic in (self.client.topics(names) if names else [])
            for each in topic.partitions
            if (spot := Spot(topic.name or "", each.partition_index)) in wanted and each.leader_id != wanted[spot]
        ]
        elected = 0
        for start in range(0, len(others), ELECTED_AT_ONCE):
            chunk = others[start : start + ELECTED_AT_ONCE]
            found = election_requests.elect(self.client, election_requests.TYPES["preferred"], chunk)
            elected += sum(not each.error_code for each in found)
        return elected

    def cancel(self) -> int:
        """Cancel the moves of this plan that are under way. Return how many. Raises KafkaError."""
        wanted = {(each.topic, each.partition): each.replicas for each in self.wanted}
        ours = []
        for each in reassignment_requests.moving(self.client):
            staying = tuple(node for node in each.replicas if node not in each.removing)
            if wanted.get((each.spot.topic, each.spot.partition)) == staying:
                ours.append(each.spot)
        return cancel(self.client, ours)


def moving_spots(client: Client) -> list[Spot]:
    """All partitions that move. Raises KafkaError."""
    return [each.spot for each in reassignment_requests.moving(client)]


def cancel(client: Client, spots: Iterable[Spot]) -> int:
    """Cancel the moves of partitions; one that has just been finished stays finished. Return how many. Raises
    KafkaError."""
    topics: dict[str, dict[int, None]] = {}
    for spot in spots:
        topics.setdefault(spot.topic, {})[spot.partition] = None
    try:
        if topics:
            reassignment_requests.reassign(client, topics)
    except KafkaError as error:
        if error.code not in (error_codes.NO_REASSIGNMENT_IN_PROGRESS, error_codes.UNKNOWN_TOPIC_OR_PARTITION):
            raise
    return sum(map(len, topics.values()))


def end(client: Client, wanted: Iterable[WantedPartition] | None = None) -> FoundThrottles:
    """Remove the throttles of single brokers and replicas, of all or of a plan's partitions; return those that a read
    still finds. Raises KafkaError, Unreachable.

    While partitions move that are not in the plan, rates of brokers stay: they may be theirs."""
    places = None if wanted is None else {(each.topic, each.partition) for each in wanted}
    others = [] if places is None else [each for each in moving_spots(client) if tuple(each) not in places]
    found = balance_throttles.found(client).only(places, rates=not others)
    for _ in range(READS):
        if found.is_empty:
            break
        balance_throttles.remove(client, found)
        time.sleep(READ_AFTER_S)
        found = balance_throttles.found(client).only(places, rates=not others)
    return found
