"""What distinguishes one coordinator from another: its topic, its machine, its records, its events."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from kpybroker.journal import Machine


class TimedMachine(Machine, Protocol):
    """A machine that knows when it wants to be woken."""

    def next_deadline_ms(self) -> int | None:
        """When the next `Kind.timers_due` is wanted, on the monotonic clock; None if nothing runs."""


class EncodedRecord(Protocol):
    """A record that a machine decided to write."""

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Key and value as they stand in the log; without a value it takes back what the key said before."""


class Kind(NamedTuple):
    """A coordinator. Its events take wall clock milliseconds."""

    topic: str
    new_machine: Callable[[], TimedMachine]
    decode: Callable[[bytes, bytes | None], Any | None]
    """Key and value of a record of the log -> what the machine applies; None for what it does not know. Malformed."""
    loaded: Callable[[int], Any]
    timers_due: Callable[[int], Any]
    periodic: Callable[[int], Any]
    """What is due every ``period_ms`` on every shard."""
    period_ms: Callable[[], int]
    topics_deleted: Callable[[dict[str, Sequence[int]], int], Any]
    codec: Callable[[], int]
    """The compression of batches that are written."""
    load_bytes: Callable[[], int]
    """How much of a log is read at once."""
