"""A member of a consumer group (Kafka: ``ConsumerGroupMember``). Members are never changed, only replaced."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kpybroker.machines.groups.epochs.member import AWAY_EPOCH, NOTHING

STABLE: Final = 0
UNREVOKED: Final = 1
UNRELEASED: Final = 2
UNKNOWN: Final = 127
"""The states of a member, as record 8 contains them (Kafka: ``MemberState``)."""

Partitions = Mapping[bytes, Mapping[int, int]]
"""By topic id and partition: the epoch at which the member got the partition (KIP-1251)."""


class ClassicMember(NamedTuple):
    """The classic half of a member that speaks the classic protocol in a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Names and metadata, the preferred first."""


class ConsumerMember(NamedTuple):
    """One member: its subscription, and its way to the target assignment."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    """A regular expression over topic names; empty if there is none."""
    server_assignor: str | None = None
    state: int = STABLE
    assigned: Partitions = NOTHING
    """The partitions that the member may use now."""
    pending_revocation: Partitions = NOTHING
    """The partitions that the member has to give up before it gets others."""
    classic: ClassicMember | None = None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has what the assignor gave to it at this epoch."""
        return self.state == STABLE and self.member_epoch == epoch

    def rests_at(self, epoch: int) -> bool:
        """Whether nothing is expected of the member at this epoch: it has its target, or it is away."""
        return self.state == STABLE and self.member_epoch in (epoch, AWAY_EPOCH)

    def epoch_of(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch at which the member got a partition that it has, or has to give up."""
        for partitions in (self.assigned, self.pending_revocation):
            epoch = partitions.get(topic_id, NOTHING).get(partition)
            if epoch is not None:
                return int(epoch)
        return None

    def moved_to(self, epoch: int, **changes: Any) -> "ConsumerMember":
        """The member at an epoch. Its present epoch becomes the previous one."""
        return self._replace(member_epoch=epoch, previous_member_epoch=self.member_epoch, **changes)


def owns_any(owned: Iterable[Any] | None, partitions: Partitions) -> bool:
    """Whether a member may still use some of these partitions, by the list that it sent. Without a list it may."""
    if owned is None:
        return True
    return any(index in partitions.get(topic.topic_id, NOTHING) for topic in owned for index in topic.partitions)


def is_subset(owned: Iterable[Any] | None, partitions: Partitions) -> bool:
    """Whether a member sent a list of partitions, all of which are among these."""
    if owned is None:
        return False
    return all(
        topic.topic_id in partitions and all(index in partitions[topic.topic_id] for index in topic.partitions)
        for topic in owned
    )
