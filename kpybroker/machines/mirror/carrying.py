"""ACLs and quotas that are carried over from a source, and deleted when they are deleted there. Pure.

The ones that were carried over are noted, each by a digest, in a config for all brokers: before they are created, so
that another broker can go on after a crash. What exists here without a note is this cluster's own, and stays.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from hashlib import sha256
from typing import Final, Generic, NamedTuple, TypeVar

from kpybroker.machines.mirror.mirror import Mirror

TOPIC: Final = 2
GROUP: Final = 3
TRANSACTIONAL_ID: Final = 5
LITERAL: Final = 3
PREFIXED: Final = 4
ANY_NAME: Final = "*"
IP: Final = "ip"
MOST_CARRIED: Final = 5_000
"""The largest number of notes."""
DIGITS: Final = 16

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class CarryingPlan(NamedTuple, Generic[K, V]):
    """The changes by which what was carried over becomes what the source has."""

    notes: frozenset[str]
    """The notes that are needed before anything is created."""
    put: dict[K, V]
    """The ones that are created here, or get another value."""
    delete: list[K]
    left_out: int
    """The number of those that are not carried over, since there are too many."""


class CarriedAcl(NamedTuple):
    """An ACL, in Kafka's codes."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def plain(self) -> tuple[int | str, ...]:
        """The same without enumerations, which some records have and which read differently as text."""
        return tuple(int(each) if isinstance(each, int) else each for each in self)


def is_of_mirror(mirror: Mirror, acl: CarriedAcl) -> bool:
    """Whether an ACL of the source is carried over: one for topics if the mirror takes all that it is for, and those
    for groups and transactional ids. Those for the cluster itself and for users are each cluster's own."""
    if acl.resource_type in (GROUP, TRANSACTIONAL_ID):
        return True
    if acl.resource_type != TOPIC:
        return False
    if acl.pattern_type == PREFIXED:
        return mirror.takes_all(acl.resource_name)
    return mirror.takes_all("") if acl.resource_name == ANY_NAME else mirror.takes(acl.resource_name)


def note(mirror: str, key: Hashable) -> str:
    """The note of something that a mirror carries over."""
    return f"{mirror}:{_digest(key)}"


def _digest(key: Hashable) -> str:
    plain = key.plain() if isinstance(key, CarriedAcl) else key
    return sha256(repr(plain).encode()).hexdigest()[:DIGITS]


def plan(
    mirror: str, there: Mapping[K, V], here: Mapping[K, V], notes: Collection[str], others: Iterable[Hashable] = ()
) -> CarryingPlan[K, V]:
    """The next changes. ``notes`` are those of all mirrors; ``others`` are keys that this mirror carries over and that
    are planned elsewhere. Notes of what is neither here nor there any more are dropped."""
    of_others = {each.partition(":")[2] for each in notes if each.partition(":")[0] != mirror}
    own = {each for each in notes if each.partition(":")[0] == mirror}
    wanted = {key: note(mirror, key) for key in there}
    put = {key: value for key, value in there.items() if key not in here or (wanted[key] in own and here[key] != value)}
    room = MOST_CARRIED - len(notes)
    fresh = [key for key in put if wanted[key] not in own]
    left_out = fresh[max(room, 0) :]
    for key in left_out:
        del put[key]
    gone = [key for key in here if key not in there and note(mirror, key) in own]
    delete = [key for key in gone if _digest(key) not in of_others]
    live = {wanted[key] for key in there} | {note(mirror, key) for key in (*delete, *others)}
    kept = (own & live) | {wanted[key] for key in put}
    foreign = {each for each in notes if each.partition(":")[0] != mirror}
    return CarryingPlan(frozenset(kept | foreign), put, delete, len(left_out))
