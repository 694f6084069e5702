"""The facts about a group and its members that lists, metrics and people see, alike for every kind. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

WAITS: Final = "waits for the others"
OWES_JOIN: Final = "has to rejoin"
OWES_SYNC: Final = "has to sync"

_NOTHING: Final[Any] = {}


class MembershipFacts(NamedTuple):
    """A group as a whole."""

    kind: str
    state: str
    """Kafka's name for its state."""
    protocol_type: str = ""
    generation: int | None = None
    """The number of a classic group's last rebalance, or the epoch of a group of another kind; None for a group that
    only keeps offsets."""
    members: int = 0
    protocol_name: str = ""
    filter_state: str = ""
    """The name by which Kafka compares the state with filters, if that is not its own in lower case. A filter with its
    own name finds nothing then."""


class MemberFacts(NamedTuple):
    """A member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    state: str
    """The reason why the group is not settled, if it is this member."""
    partitions: Mapping[bytes, Iterable[int]] = _NOTHING
    """Its partitions by topic id."""
    tasks: tuple[Mapping[str, Iterable[int]], ...] = ()
    """Its tasks, if it is one of Kafka Streams: active ones, standbys and warm-ups, by subtopology."""
    assignment: bytes = b""
    """Its assignment as the leader of a classic group sent it."""
