"""A member of a share group (Kafka: ``ShareGroupMember``). Members are never changed, only replaced."""

from typing import Final, NamedTuple

from kpybroker.machines.groups.epochs.member import NOTHING, Target

STABLE: Final = 0
"""The only state of a member, as record 14 contains it (Kafka: ``MemberState``)."""


class ShareMember(NamedTuple):
    """One member: its subscription, and the partitions that it reads."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = 0
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    state: int = STABLE
    assigned: Target = NOTHING

    @property
    def instance_id(self) -> None:
        """None: a share group has no static members."""

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has what the assignor gave to it at this epoch."""
        return self.member_epoch == epoch
