"""The deliveries of records to the members of a share group, and the rules for them.

Brokers are watched from inside: which records they acquire for whom, and how often. Members say what became of them.

Rules: no record is delivered more often than the limit. Two members do not end the same record, and nobody gets it from
the leader that stored its end. An acknowledgement counts only for the last delivery of a leader, and for a later one
than those that were given back. A member can acknowledge what it has until its lock ends, also one that it renewed, and
never what another one has. A fetch begins at or before the first record that is available.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from exactly_once.history import Seen
from kpybroker.machines.share import acknowledging
from kpybroker.machines.share.acknowledging import ACCEPT, GAP, REJECT, RELEASE, RENEW
from kpybroker.requests.serving.share.led import LedSharePartition
from kpybroker.requests.serving.share.waiting import ShareRead

if TYPE_CHECKING:
    from .machine import Machine
    from .world import World

LOCK_MS = 1_000
SURE_LOCK_MS = LOCK_MS * 0.9
"""A lock does not end so soon, on whatever clock."""
ENDS = frozenset((GAP, ACCEPT, REJECT))
"""The acknowledgements after which nobody gets a record any more."""

Spot = tuple[str, int, int]
"""Topic, partition, offset."""


class Delivery(NamedTuple):
    """A record that a member has."""

    value: str | None
    """None for a gap: a marker, or an offset without a record."""
    count: int
    led: LedSharePartition | None
    """The share partition that gave it; None if the leader may have loaded another one meanwhile."""
    until_ms: float
    """The member has it at least until then."""
    is_renewed: bool = False
    """Whether the member has renewed its lock."""


class Deliveries:
    """All deliveries of one group."""

    def __init__(self, world: "World", machines: "list[Machine]", group_id: str) -> None:
        self.world = world
        self.limit = 5
        """The most deliveries of a record."""
        self.values: dict[Spot, str] = {}
        """The records that some member saw."""
        self.done = 0
        self._group_id = group_id
        self._machines = {machine.node_id: machine for machine in machines}
        self._names: dict[bytes, str] = {}
        self._counts: dict[LedSharePartition, dict[int, int]] = {}
        """By share partition as one leader loaded it, and offset: the last delivery."""
        self._most: dict[Spot, int] = {}
        """The highest number of a delivery, over all leaders."""
        self._given_back: dict[Spot, int] = {}
        """The highest number of a delivery that its member gave back."""
        self._ended: dict[Spot, LedSharePartition | None] = {}
        """The records whose end is stored, and by whom, as far as that is known."""
        self._attempts: dict[Spot, int] = {}
        """How often a member tried to end a record, and it is not known that this had no effect."""
        self.rejected: set[Spot] = set()
        """The records whose end is a rejection, or a release after the last delivery."""
        self.perhaps_rejected: set[Spot] = set()
        """The records that a member tried to reject."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch as long as this lasts."""
        acquire, can_acquire = ShareRead._acquire_one, ShareRead._can_acquire
        acknowledge = acknowledging.acknowledge

        def acquired(read: Any, found: Any, most: int) -> Any:
            given, part = acquire(read, found, most)
            self._acquired(found.led, given)
            return given, part

        def looked(read: Any, led: LedSharePartition) -> bool:
            found = can_acquire(read, led)
            self._looked(led)
            return found

        def acknowledged(partition: Any, member_id: str, batches: Any, now_ms: int) -> Any:
            change = acknowledge(partition, member_id, batches, now_ms)
            for stored, state, _ in change.started if change is not None else ():
                if state.before is not None and state.before[1] != member_id:
                    at = f"{stored.first_offset} to {stored.last_offset}"
                    self.world.violated(f"{member_id} acknowledges {at}, which {state.before[1]} has")
            return change

        acknowledging.acknowledge = acknowledged
        ShareRead._acquire_one = acquired  # type: ignore[method-assign, assignment]
        ShareRead._can_acquire = looked  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            acknowledging.acknowledge = acknowledge
            ShareRead._acquire_one = acquire  # type: ignore[method-assign]
            ShareRead._can_acquire = can_acquire  # type: ignore[method-assign]

    def _acquired(self, led: LedSharePartition, given: Iterable[Any]) -> None:
        counts = self._counts.setdefault(led, {})
        topic = led.replica.topic.name
        for first, last, count in given:
            for offset in range(first, last + 1):
                spot = (topic, led.key.partition, offset)
                if count > self.limit:
                    self.world.violated(f"{spot} is delivered for the {count}th time, and {self.limit} is the limit")
                if self._ended.get(spot) is led:
                    self.world.violated(f"{spot} is delivered by the leader that stored its end")
                counts[offset] = count
                self._most[spot] = max(self._most.get(spot, 0), count)

    def _looked(self, led: LedSharePartition) -> None:
        """A fetch is about to read a share partition."""
        partition = led.partition
        available = (first for batch in partition for first, _, state in batch.all_ranges if state.is_free)
        first, begin = next(available, None), partition.next_fetch_offset()
        if first is not None and first < begin:
            self.world.violated(f"{first} of {led.key} is available, and the next fetch begins at {begin}")

    def led(self, node_id: int, topic_id: bytes, partition: int) -> LedSharePartition | None:
        """The share partition of a node, as it is loaded there now."""
        node = self._machines[node_id].node
        leader = getattr(node.broker, "share_leader", None) if node is not None else None
        found: LedSharePartition | None = leader.find(self._group_id, (topic_id, partition)) if leader else None
        return found

    def is_given_again(self, spot: Spot, delivery: Delivery) -> bool:
        """Whether the share partition has given a record to somebody after this delivery, and it has not ended."""
        last = self._counts[delivery.led].get(spot[2], 0) if delivery.led is not None else 0
        return last > delivery.count and spot not in self._ended

    # What members say

    def seen(self, spot: Spot, value: str) -> None:
        """A member has got a record."""
        if self.values.setdefault(spot, value) != value:
            self.world.violated(f"{spot} is {value}, and was {self.values[spot]}")

    def sent(self, spot: Spot, kind: int) -> None:
        """A member is about to acknowledge a record."""
        if kind in ENDS:
            self._attempts[spot] = self._attempts.get(spot, 0) + 1
        if kind == REJECT:
            self.perhaps_rejected.add(spot)

    def undone(self, spot: Spot, kind: int) -> None:
        """An acknowledgement had no effect."""
        if kind in ENDS:
            self._attempts[spot] -= 1

    def refused(self, had: Iterable[tuple[Spot, Delivery]], led: LedSharePartition | None) -> None:
        """A member does not have one of these records any more, of one partition."""
        now_ms = self.world.now_ms
        if led is not None and all(each.led is led and now_ms < each.until_ms for _, each in had):
            spots = [(spot, delivery.count) for spot, delivery in had]
            self.world.violated(f"one of {spots} (with deliveries) cannot be acknowledged by the member that has them")

    def stored(self, spot: Spot, kind: int, delivery: Delivery, led: LedSharePartition | None) -> None:
        """An acknowledgement is stored. Others may have got a record since that was not ended."""
        is_end = kind in ENDS or delivery.count >= self.limit
        if kind == RELEASE and not is_end:
            self._given_back[spot] = max(self._given_back.get(spot, 0), delivery.count)
        if not is_end or kind == RENEW:
            return
        is_known = spot in self._ended or self._attempts.get(spot, 0) > 1 or self._most.get(spot, 0) >= self.limit
        if self.world.now_ms >= delivery.until_ms and is_known:
            return  # too late, and without effect: records below the start offset are skipped, as in Kafka
        by = led if delivery.led is led else None
        last = self._counts[by].get(spot[2], 0) if by is not None else delivery.count
        if last != delivery.count:
            self.world.violated(f"delivery {delivery.count} of {spot} is acknowledged after delivery {last}")
        if spot in self._ended:
            self.world.violated(f"{spot} is ended twice")
        if delivery.count <= self._given_back.get(spot, 0):
            self.world.violated(f"delivery {self._given_back[spot]} of {spot} was given back before {delivery.count}")
        self._ended[spot] = by
        if kind in (REJECT, RELEASE):
            self.rejected.add(spot)
        self.done += 1

    def is_counted_out(self, spot: Spot) -> bool:
        """Whether nobody ended a record or tried to, and it was delivered as often as it may."""
        return spot not in self._ended and not self._attempts.get(spot) and self.may_be_counted_out(spot)

    def may_be_counted_out(self, spot: Spot) -> bool:
        """Whether a record was delivered as often as it may."""
        return self._most.get(spot, 0) >= self.limit

    # The end

    def verdict(self, log: list[Seen], *, committed_only: bool) -> str:
        """The fault, once the group is done with everything. ``log``: the committed records of the topic."""
        there = {(*seen.partition, seen.offset): seen.value for seen in log}
        for spot, value in there.items():
            most = self._most.get(spot, 0)
            if spot not in self._ended and not self._attempts.get(spot) and most < self.limit:
                return f"{spot} is forgotten: nobody ended it, and it was delivered {most} of {self.limit} times"
            if self.values.get(spot, value) != value:
                return f"{spot} is {value}, and a member got {self.values[spot]}"
        if committed_only:
            for spot, value in self.values.items():
                if spot not in there:
                    return f"{spot} was delivered and is not committed: {value}"
        return ""
