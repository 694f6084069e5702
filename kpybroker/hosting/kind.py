"""What distinguishes one coordinator from another: its topic, its machine, its records, its events."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kpybroker.journal import Machine, Send

if TYPE_CHECKING:
    from kpybroker.hosting.shard import Shard


class TimedMachine(Machine, Protocol):
    """A machine that knows when it wants to be woken."""

    def next_deadline_ms(self) -> int | None:
        """When the next `Kind.timers_due` is wanted, on the monotonic clock; None if nothing runs."""


class EncodedRecord(Protocol):
    """A record that a machine decided to write."""

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Key and value as they stand in the log; without a value it takes back what the key said before."""


def _sends_nothing(_shard: "Shard", send: Send) -> None:
    raise TypeError(f"This coordinator has nobody to send to: {send}")


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
    send: "Callable[[Shard, Send], None]" = _sends_nothing
    """Takes what a machine sends once it is committed; called in the middle of an input, so it only notes it."""
