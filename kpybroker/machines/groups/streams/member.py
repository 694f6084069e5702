"""A member of a streams group (Kafka: ``StreamsGroupMember``). Members are never changed, only replaced."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kpybroker.machines.groups.streams.tasks import MemberTasks

STABLE: Final = 1
UNREVOKED: Final = 2
UNRELEASED: Final = 3
UNKNOWN: Final = 127
"""The states of a member, as record 22 contains them (Kafka: ``MemberState``)."""

NO_TAGS: Final[Any] = {}


class UserEndpoint(NamedTuple):
    """The address at which an application answers interactive queries."""

    host: str
    port: int


class StreamsMember(NamedTuple):
    """One member: its process, its view of the topology, and its way to the target assignment."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    """The instance of the application. It may have several members."""
    user_endpoint: UserEndpoint | None = None
    client_tags: Mapping[str, str] = NO_TAGS
    assigned: MemberTasks = MemberTasks()
    """The tasks that the member may run now."""
    pending_revocation: MemberTasks = MemberTasks()
    """The tasks that the member has to give up before it gets others."""

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has what the assignor gave to it at this epoch."""
        return self.state == STABLE and self.member_epoch == epoch

    def epoch_of(self, subtopology: str, partition: int) -> int | None:
        """The epoch at which the member got an active task that it has, or has to give up."""
        for tasks in (self.assigned, self.pending_revocation):
            epoch = tasks.active.get(subtopology, {}).get(partition)
            if epoch is not None:
                return int(epoch)
        return None

    def moved_to(self, epoch: int, **changes: Any) -> "StreamsMember":
        """The member at an epoch. Its present epoch becomes the previous one."""
        return self._replace(member_epoch=epoch, previous_member_epoch=self.member_epoch, **changes)
