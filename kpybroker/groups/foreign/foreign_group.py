"""Groups of the kinds that this broker does not serve, found in a log that Apache Kafka wrote: share groups (KIP-932)
and streams groups (KIP-1071).

They are kept apart: listed, refused to classic members, and deleted, all as in Kafka. Their members cannot send
heartbeats to this broker, so they expire one session after the load. An empty streams group becomes a classic one when
a classic member joins it, again as in Kafka.
"""

from typing import Any

from kpybroker.groups.decision import Decision
from kpybroker.groups.events import GroupRequest
from kpybroker.groups.group import EMPTY, SINCE_COMMIT, Group, Membership
from kpybroker.groups.record import Record
from kpywire import error_codes
from kpywire.group_records import table

SESSION_TIMEOUT_MS = 45_000
"""Kafka's default for both kinds."""

SHARE, STREAMS = "share", "streams"
STABLE = "Stable"

_MEMBERS = {
    table.SHARE_GROUP_MEMBER_METADATA,
    table.STREAMS_GROUP_MEMBER_METADATA,
}
_KINDS = {
    record_type: SHARE if module.startswith("share") else STREAMS
    for record_type, module in table.MODULES.items()
    if module.startswith(("share", "streams"))
}


class ForeignGroup(Membership):
    """The records of one such group."""

    __slots__ = ("_keys", "kind", "members")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.members: set[str] = set()
        self._keys: dict[tuple[Any, ...], Any] = {}

    def take(self, key: Any, value: Any | None) -> None:
        """Apply one record of the group."""
        identity = (key.KEY, *(getattr(key, name) for name in key.__slots__))
        if value is None:
            self._keys.pop(identity, None)
        else:
            self._keys[identity] = key
        if key.KEY in _MEMBERS:
            (self.members.discard if value is None else self.members.add)(key.member_id)

    @property
    def keeps_offsets(self) -> bool:
        """Whether its offsets are in this log: those of share groups are elsewhere."""
        return self.kind != SHARE

    @property
    def is_gone(self) -> bool:
        """Whether no record of it is left."""
        return not self._keys

    def is_abandoned(self, decision: Decision) -> bool:
        """Whether it has no members left: their sessions ended after the load."""
        return not self.members or decision.now_ms >= decision.loaded_ms + SESSION_TIMEOUT_MS

    # What is asked of groups of every kind

    @property
    def is_recorded(self) -> bool:
        return True

    def summary(self, decision: Decision) -> tuple[str, str, str]:
        return self.kind, EMPTY if self.is_abandoned(decision) else STABLE, self.kind

    def check_commit(self, _group: Group, _request: GroupRequest, generation_id: int, decision: Decision) -> int:
        """Check a commit. A streams group without members accepts a manual commit; a share group keeps no
        offsets."""
        if not self.keeps_offsets:
            return error_codes.GROUP_ID_NOT_FOUND
        is_manual = generation_id < 0 and self.is_abandoned(decision)
        return error_codes.NONE if is_manual else error_codes.UNKNOWN_MEMBER_ID

    def check_transactional_commit(
        self, group: Group, request: GroupRequest, generation_id: int, decision: Decision
    ) -> int:
        return self.check_commit(group, request, generation_id, decision)

    def check_fetch(self, message: Any) -> int:
        """Check the member epoch, which members of such groups send (KIP-848). None of them is current here."""
        if not self.keeps_offsets or (message.member_id is None and message.member_epoch < 0):
            return error_codes.NONE
        return error_codes.UNKNOWN_MEMBER_ID

    def check_deletion(self, _group: Group, decision: Decision) -> int:
        return error_codes.NONE if self.is_abandoned(decision) else error_codes.NON_EMPTY_GROUP

    def check_offset_deletion(self, group: Group, decision: Decision) -> int:
        return self.check_deletion(group, decision)

    def offsets_expire_since(self, _group: Group, decision: Decision) -> int | None:
        return SINCE_COMMIT if self.keeps_offsets and self.is_abandoned(decision) else None

    def gives_way(self, decision: Decision) -> bool:
        return self.kind == STREAMS and self.is_abandoned(decision)

    def tombstones(self, _group_id: str) -> list[Record]:
        """The tombstones of its records, in reverse order."""
        return [Record(key) for key in reversed(self._keys.values())]


def kind_of(record_type: int) -> str:
    """The kind of group that a record type belongs to."""
    return _KINDS[record_type]
