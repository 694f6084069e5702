"""The differences between coordinators: machine, records and events."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from kpybroker.hosts.coordinators.tickets import CoordinatorTicket
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.journal import Machine, OutgoingRequest


class TimedMachine(Machine, Protocol):
    """A machine with deadlines."""

    def next_deadline_ms(self) -> int | None:
        """The time when the next `CoordinatorKind.timers_due` is wanted, on the monotonic clock; None if no timer
        runs."""


class EncodedRecord(Protocol):
    """A record that a machine decided to write."""

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Key and value as the log holds them; without a value it is a tombstone."""


class Shard(Protocol):
    """The shard that sends something: `hosted_shard.HostedShard`."""

    replica: Replica
    epoch: int
    is_over: bool

    @property
    def leads(self) -> bool:
        """Whether this node still leads the partition in the shard's term."""

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether enough replicas are in sync for a write."""

    def submit(
        self,
        event: Any,
        ticket: CoordinatorTicket | None,
        key: str | None,
        *,
        writes: bool = True,
        timeout_ms: int | None = None,
    ) -> None:
        """Feed an event."""


def _sends_nothing(_shard: Shard, send: OutgoingRequest) -> None:
    raise TypeError(f"This coordinator has nobody to send to: {send}")


class CoordinatorKind(NamedTuple):
    """A kind of coordinator. Its events take wall clock milliseconds; those that all kinds get are in
    `kpybroker.machines.coordination.events`."""

    new_machine: Callable[[], TimedMachine]
    decode: Callable[[bytes, bytes | None], Any | None]
    """Key and value of a record of the log -> the record that the machine applies; None for an unknown type. Raises
    Malformed."""
    timers_due: Callable[[int], Any]
    periodic: Callable[[int], Any]
    """The event of the periodic work of every shard."""
    codec: Callable[[], int]
    """The compression of the batches it writes."""
    load_bytes: Callable[[], int]
    """How much of a log is read at once."""
    send: Callable[[Shard, OutgoingRequest], None] = _sends_nothing
    """Takes the machine's sends once they are committed. It is called in the middle of an input, so it only queues
    them."""
    follows_new_topics: bool = False
    """Whether its machines look at topics and partitions that exist. All look at those that are deleted."""
