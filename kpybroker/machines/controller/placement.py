"""The placement of new replicas: striped over racks and brokers (Kafka's ``StripedReplicaPlacer``).

Guarantees, in this order: the preferred leader is on a broker that is not fenced; a partition's replicas are on
different brokers; they spread over as many racks as there are; leaders and replicas spread evenly. The placer starts at
random places, so two topics with one partition each do not both land on the first broker.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from kpybroker.machines.errors import KafkaError
from kpywire import error_codes


class UsableBroker(NamedTuple):
    """A broker that may get replicas."""

    id: int
    rack: str | None
    fenced: bool


class _BrokerRing:
    """The brokers of one rack and one kind; each round starts one broker further on."""

    def __init__(self) -> None:
        self.brokers: list[int] = []
        self._start = 0
        self._taken = 0
        self._round = 0

    def start_anywhere(self, rng: Random) -> None:
        self.brokers.sort()
        if self.brokers:
            self._start = rng.randrange(len(self.brokers))

    def next(self, round_number: int) -> int | None:
        if not self.brokers:
            return None
        if self._round != round_number:
            self._round = round_number
            self._taken = 0
            self._start = (self._start + 1) % len(self.brokers)
        if self._taken >= len(self.brokers):
            return None
        broker = self.brokers[(self._taken + self._start) % len(self.brokers)]
        self._taken += 1
        return broker


class _Rack:
    def __init__(self) -> None:
        self.unfenced = _BrokerRing()
        self.fenced = _BrokerRing()

    def next(self, round_number: int) -> int | None:
        broker = self.unfenced.next(round_number)
        return self.fenced.next(round_number) if broker is None else broker


class _Racks:
    def __init__(self, brokers: Sequence[UsableBroker], rng: Random) -> None:
        self._rng = rng
        self._racks: dict[str | None, _Rack] = {}
        for broker in brokers:
            rack = self._racks.setdefault(broker.rack, _Rack())
            (rack.fenced if broker.fenced else rack.unfenced).brokers.append(broker.id)
        self._order = [
            self._racks[name] for name in sorted(self._racks, key=lambda name: (name is not None, name or ""))
        ]
        for rack in self._order:
            rack.unfenced.start_anywhere(rng)
            rack.fenced.start_anywhere(rng)
        self._unfenced = sum(not broker.fenced for broker in brokers)
        self._start = rng.randrange(len(self._order))
        self._round = 0

    def place(self, replication_factor: int) -> list[int]:
        """Place the replicas of one partition, the preferred leader first."""
        if self._round == self._unfenced and self._unfenced > 1:
            self._shuffle()
            self._round = 0
        self._start %= len(self._order)
        leader, leader_rack = self._first_unfenced()
        replicas = [leader]
        rack = self._start
        while len(replicas) < replication_factor:
            if rack == leader_rack:
                leader_rack = -1  # the leader's rack has had its turn in this first pass
            else:
                broker = self._order[rack].next(self._round)
                if broker is not None:
                    replicas.append(broker)
            rack = (rack + 1) % len(self._order)
        self._round += 1
        self._start += 1
        return replicas

    def _first_unfenced(self) -> tuple[int, int]:
        rack = self._start
        while True:
            broker = self._order[rack].unfenced.next(self._round)
            if broker is not None:
                return broker, rack
            rack = (rack + 1) % len(self._order)

    def _shuffle(self) -> None:
        self._rng.shuffle(self._order)
        for rack in self._order:
            self._rng.shuffle(rack.unfenced.brokers)
            self._rng.shuffle(rack.fenced.brokers)


def place(
    brokers: Sequence[UsableBroker], partitions: int, replication_factor: int, rng: Random
) -> Iterator[list[int]]:
    """Place the replicas of each new partition. Raises INVALID_REPLICATION_FACTOR if they cannot be placed."""
    if replication_factor <= 0:
        _refuse(f"Invalid replication factor {replication_factor}: the replication factor must be positive.")
    if all(broker.fenced for broker in brokers):
        _refuse("All brokers are currently fenced, or have all their log directories cordoned.")
    if replication_factor > len(brokers):
        _refuse(
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered or some brokers have all their log directories cordoned."
        )
    racks = _Racks(brokers, rng)
    return (racks.place(replication_factor) for _ in range(partitions))


def _refuse(message: str) -> None:
    raise KafkaError(error_codes.INVALID_REPLICATION_FACTOR, message)
