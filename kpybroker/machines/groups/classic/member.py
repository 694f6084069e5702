"""A member of a classic group (Kafka: ``ClassicGroupMember``): its identity, its protocols, and the requests it waits
for."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kpybroker.machines.groups.timers import GroupTimer


class ParkedRequest(NamedTuple):
    """A request that is answered when the rest of the group has joined or synced."""

    ticket: Any
    api_version: int


Protocols = Sequence[tuple[str, bytes]]
"""Names of protocols with the member's metadata for each, the preferred first."""


class ClassicGroupMember:
    """One member. A static one (KIP-345) has a ``group_instance_id`` and keeps its place over a restart."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
    )

    def __init__(  # noqa: PLR0913
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        session: GroupTimer,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.session = session
        self.assignment = assignment
        self.awaiting_join: ParkedRequest | None = None
        self.awaiting_sync: ParkedRequest | None = None
        self.is_new = False

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's metadata for this protocol; empty if it does not speak it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    @property
    def is_alive(self) -> bool:
        """Whether it counts as alive without heartbeats, because it waits for others. Not so before its first
        generation."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)
