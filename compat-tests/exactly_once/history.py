"""The history that clients saw: the values they sent in transactions, the outcomes, and everything that was read.

Every value is sent once, so that it names its record. Times are of one monotonic clock of the machine that all clients
run on; what is between the beginning and the end of a call happened at some moment in between.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

Partition = tuple[str, int]
"""Topic and partition."""
Group = str


class Outcome(Enum):
    """The outcome of a transaction as its client knows it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """The client was killed, or the end was not answered."""


class Send(NamedTuple):
    """A value that was sent. ``offset``: where it went, if the client knows."""

    partition: Partition
    value: str
    offset: int | None = None


class Seen(NamedTuple):
    """A value that was read."""

    partition: Partition
    offset: int
    value: str


class Position(NamedTuple):
    """How far a group has come: ``offset`` is the next one to be read."""

    group: Group
    partition: Partition
    offset: int


class Transaction(NamedTuple):
    """One transaction as its client saw it. ``process`` names the producer, whose sends have an order."""

    process: str
    began_s: float
    ending_s: float
    """The time when the end was asked for; if it never came to that, when the client ended."""
    ended_s: float
    """The time when the end was answered, or given up."""
    outcome: Outcome
    sends: Sequence[Send] = ()
    """In the order of sending."""
    inputs: Sequence[Seen] = ()
    """The records that were read and worked on in it."""
    positions: Sequence[Position] = ()
    """The positions that it commits."""


class Poll(NamedTuple):
    """The result of one call of a consumer that reads committed. ``session`` changes with every assignment and seek."""

    session: str
    ended_s: float
    seen: Sequence[Seen]


class Committed(NamedTuple):
    """The answer to the question how far a group has come."""

    began_s: float
    ended_s: float
    position: Position


class History(NamedTuple):
    """All of a run. ``log``: every partition read to its end, read committed, after everything had ended."""

    transactions: Sequence[Transaction] = ()
    polls: Sequence[Poll] = ()
    committed: Sequence[Committed] = ()
    log: Sequence[Seen] = ()
    worked_on: Sequence[str] = ()
    """Topics of which every record was to be the input of a transaction."""
