"""Groups of the kind that this broker does not serve, found in a log that Apache Kafka wrote: share groups (KIP-932).

They are kept apart: listed, refused to classic members, and deleted, all as in Kafka. Their members cannot send
heartbeats to this broker, so they expire one session after the load.
"""

from typing import Any

from kpybroker.groups.decision import Decision
from kpybroker.groups.events import GroupRequest
from kpybroker.groups.group import EMPTY, Group, Membership
from kpybroker.groups.record import Record
from kpywire import error_codes
from kpywire.group_records import table

SESSION_TIMEOUT_MS = 45_000
"""Kafka's default."""

SHARE = "share"
STABLE = "Stable"


class ForeignGroup(Membership):
    """The records of one such group."""

    __slots__ = ("_keys", "members")

    def __init__(self) -> None:
        self.members: set[str] = set()
        self._keys: dict[tuple[Any, ...], Any] = {}

    def take(self, key: Any, value: Any | None) -> None:
        """Apply one record of the group."""
        identity = (key.KEY, *(getattr(key, name) for name in key.__slots__))
        if value is None:
            self._keys.pop(identity, None)
        else:
            self._keys[identity] = key
        if key.KEY == table.SHARE_GROUP_MEMBER_METADATA:
            (self.members.discard if value is None else self.members.add)(key.member_id)

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
        return SHARE, EMPTY if self.is_abandoned(decision) else STABLE, SHARE

    def check_commit(self, _group: Group, _request: GroupRequest, _generation_id: int, _decision: Decision) -> int:
        """Refuse a commit: a share group keeps no offsets."""
        return error_codes.GROUP_ID_NOT_FOUND

    def check_transactional_commit(
        self, _group: Group, _request: GroupRequest, _generation_id: int, _decision: Decision
    ) -> int:
        return error_codes.GROUP_ID_NOT_FOUND

    def check_deletion(self, _group: Group, decision: Decision) -> int:
        return error_codes.NONE if self.is_abandoned(decision) else error_codes.NON_EMPTY_GROUP

    def check_offset_deletion(self, group: Group, decision: Decision) -> int:
        return self.check_deletion(group, decision)

    def offsets_expire_since(self, _group: Group, _decision: Decision) -> int | None:
        return None

    def gives_way(self, _decision: Decision) -> bool:
        return False

    def tombstones(self, _group_id: str) -> list[Record]:
        """The tombstones of its records, in reverse order."""
        return [Record(key) for key in reversed(self._keys.values())]
