"""Groups of the kinds that this broker does not serve, found in a log that Apache Kafka wrote: consumer groups of
KIP-848, share groups (KIP-932) and streams groups (KIP-1071).

They are kept aside: listed, refused to classic members, and deleted, all as Kafka does it. Nobody can send their
heartbeats here, so their members are gone one session after the load; an empty consumer or streams group becomes a
classic one when somebody joins it, again as in Kafka.
"""

from typing import Any

from kpybroker.groups.record import Record
from kpywire.group_records import table

SESSION_TIMEOUT_MS = 45_000
"""Kafka's default for all three kinds."""

CONSUMER, SHARE, STREAMS = "consumer", "share", "streams"

_MEMBERS = {
    table.CONSUMER_GROUP_MEMBER_METADATA,
    table.SHARE_GROUP_MEMBER_METADATA,
    table.STREAMS_GROUP_MEMBER_METADATA,
}
_KINDS = {
    record_type: SHARE if module.startswith("share") else STREAMS if module.startswith("streams") else CONSUMER
    for record_type, module in table.MODULES.items()
    if record_type > table.GROUP_METADATA
}


class ForeignGroup:
    """The records of one such group."""

    __slots__ = ("_keys", "kind", "members")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.members: set[str] = set()
        self._keys: dict[tuple[Any, ...], Any] = {}

    def take(self, key: Any, value: Any | None) -> None:
        """One record of the group."""
        identity = (key.KEY, *(getattr(key, name) for name in key.__slots__))
        if value is None:
            self._keys.pop(identity, None)
        else:
            self._keys[identity] = key
        if key.KEY in _MEMBERS:
            (self.members.discard if value is None else self.members.add)(key.member_id)

    @property
    def keeps_offsets(self) -> bool:
        """Whether its positions are here: those of share groups are elsewhere."""
        return self.kind != SHARE

    @property
    def is_gone(self) -> bool:
        """Whether no record of it is left."""
        return not self._keys

    def tombstones(self) -> list[Record]:
        """What removes the group from the log, what was written last first."""
        return [Record(key) for key in reversed(self._keys.values())]


def kind_of(record_type: int) -> str:
    """Which kind of group a type of record belongs to."""
    return _KINDS[record_type]
