"""The state of records in flight: available, acquired by a member, or done with (Kafka: ``InFlightState``).

A change by an acknowledgement or a release is *started*, stored, and then completed or rolled back. Meanwhile the
records can be neither acquired nor acknowledged.

A record that becomes a dead letter (KIP-1191) is *archiving* until that is written, and archived then.

Invariant: records that are done with (`TERMINAL`) stay so, unless the change that ended them is rolled back.
"""

from typing import Final, NamedTuple

AVAILABLE: Final = 0
ACQUIRED: Final = 1
ACKNOWLEDGED: Final = 2
ARCHIVING: Final = 3
ARCHIVED: Final = 4
TERMINAL: Final = frozenset((ACKNOWLEDGED, ARCHIVED))
NO_MEMBER: Final = ""


class Limit(NamedTuple):
    """The limit of deliveries, and the state of a record that has reached it."""

    deliveries: int
    state: int
    """ARCHIVED, or ARCHIVING where the group has a dead-letter topic."""


class RecordState:
    """The state that one record or all records of a batch are in."""

    __slots__ = ("before", "delivery_count", "is_archived", "is_expired", "lock_until_ms", "member_id", "state")

    def __init__(self, state: int, delivery_count: int, member_id: str, lock_until_ms: int | None = None) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock_until_ms = lock_until_ms
        """The time when the acquisition ends by itself; None if it does not."""
        self.before: tuple[int, str, Limit] | None = None
        """During a change: the state and member to roll back to, and the delivery limit then."""
        self.is_expired = False
        """Whether the lock ended during a change."""
        self.is_archived = False
        """Whether the record was archived by itself: this is not rolled back."""

    def copy(self) -> "RecordState":
        """An equal state of its own. Only a state without a change is copied."""
        return RecordState(self.state, self.delivery_count, self.member_id, self.lock_until_ms)

    @property
    def is_changing(self) -> bool:
        """Whether a change was started and not ended."""
        return self.before is not None

    @property
    def is_terminal(self) -> bool:
        """Whether the record is done with."""
        return self.state in TERMINAL

    @property
    def is_free(self) -> bool:
        """Whether a member can acquire the record."""
        return self.state == AVAILABLE and self.before is None

    def acquire(self, member_id: str, lock_until_ms: int) -> None:
        """Give a free record to a member."""
        self.state = ACQUIRED
        self.delivery_count += 1
        self.member_id = member_id
        self.lock_until_ms = lock_until_ms

    def leave(self, state: int, limit: Limit) -> None:
        """End an acquisition. A record that was delivered often enough is counted out instead of available again."""
        self.state = limit.state if state == AVAILABLE and self.delivery_count >= limit.deliveries else state
        self.member_id = NO_MEMBER

    def unlock(self) -> None:
        """Forget the end of the acquisition."""
        self.lock_until_ms = None

    def archive(self) -> None:
        """Be done with a record that the log lost, that its readers may not see, or whose dead letter is settled."""
        self.is_archived = True
        self.state = ARCHIVED
        self.member_id = NO_MEMBER
        self.lock_until_ms = None

    def start(self, state: int, limit: Limit) -> None:
        """Start a change that ends the acquisition."""
        self.before = (self.state, self.member_id, limit)
        self.leave(state, limit)

    def complete(self) -> None:
        """The change is stored."""
        self.before = None
        self.lock_until_ms = None
        self.is_expired = False

    def roll_back(self) -> None:
        """The change could not be stored: it did not happen."""
        assert self.before is not None
        state, member_id, limit = self.before
        self.before = None
        if self.is_archived:
            self.lock_until_ms = None
        elif self.is_expired:
            self.lock_until_ms = None
            self.state, self.member_id = state, member_id
            self.leave(AVAILABLE, limit)
        else:
            self.state, self.member_id = state, member_id
        self.is_expired = False
