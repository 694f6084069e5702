"""The findings of an audit: each is one thing that is not as it should be, with its place. Pure."""

from collections.abc import Callable
from typing import Final, NamedTuple

DAMAGE: Final = "damage"
"""Data is lost, changed or contradictory."""
NOTE: Final = "note"
"""Harmless, or it cannot be decided; worth knowing."""

BYTES: Final = "bytes"
OFFSETS: Final = "offsets"
REPLICAS: Final = "replicas"
SEQUENCES: Final = "sequences"
TRANSACTIONS: Final = "transactions"
INDEXES: Final = "indexes"
EPOCHS: Final = "epochs"
KEYS: Final = "keys"
GROUPS: Final = "groups"
TABLES: Final = "tables"
MIRROR: Final = "mirror"
SINCE: Final = "since"
CLAIMS: Final = (
    BYTES,
    OFFSETS,
    REPLICAS,
    SEQUENCES,
    TRANSACTIONS,
    INDEXES,
    EPOCHS,
    KEYS,
    GROUPS,
    TABLES,
    MIRROR,
    SINCE,
)
"""The claims of an audit about a log; each finding contradicts one of them."""

NOWHERE: Final = -1


class BytePlace(NamedTuple):
    """A byte in a file of a replica. ``path`` is empty where the replica was read over the network."""

    path: str = ""
    byte: int = NOWHERE


class AuditFinding(NamedTuple):
    """One finding. ``offset``, ``byte`` and ``partition`` are -1 where there is none."""

    level: str
    claim: str
    topic: str
    partition: int
    replica: str
    path: str
    byte: int
    offset: int
    text: str

    @property
    def line(self) -> str:
        """The finding as one line for people, without its level."""
        spot = f"{self.topic}-{self.partition}: " if self.partition >= 0 else f"{self.topic}: " if self.topic else ""
        where = self.path if self.byte < 0 else f"{self.path}, byte {self.byte}"
        owner = f"{self.replica}: " if self.replica else ""
        return f"{self.claim}: {spot}{owner}{self.text}{f' ({where})' if where else ''}"


Report = Callable[[AuditFinding], object]
"""Takes findings as they are made."""
