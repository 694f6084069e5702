"""A streams group: its members, their target, its topology and epochs, and what is asked of groups of every kind.

(Kafka: ``StreamsGroup``.) Records change it, except for what a coordinator learns while it leads: the configured
topology, the request to shut the application down, and the epoch of the endpoints. Those are lost with it, as in Kafka.

Invariant: the processes of tasks follow from the members.
"""

from collections.abc import Iterable
from typing import Any, Final

from kpybroker.machines.groups.counts import DELETED
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.epoch_members import ASSIGNING, RECONCILING, STABLE, EpochMembers
from kpybroker.machines.groups.epochs.member import NOTHING
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.facts import MemberFacts, MembershipFacts
from kpybroker.machines.groups.group import EMPTY, Timers
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.settings import GroupSettings
from kpybroker.machines.groups.streams.configured import ConfiguredTopology
from kpybroker.machines.groups.streams.member import StreamsMember
from kpybroker.machines.groups.streams.records import Descriptions, group_tombstones
from kpybroker.machines.groups.streams.tasks import MemberTasks, ReportedOffsets, TargetTasks
from kpybroker.machines.groups.streams.topology import Topology
from kpybroker.machines.groups.timers import GroupTimer
from kpybroker.machines.metadata.topic_view import TopicView
from kpywire.messages.streams_group_heartbeat import EndpointToPartitions

STREAMS: Final = "streams"
NOT_READY: Final = "NotReady"
NOT_READY_FILTER: Final = "not_ready"

NOT_VALIDATED: Final = -1
"""The validated topology epoch of a group whose topics do not fit its topology."""

_Processes = dict[tuple[str, int], str]
_ProcessSets = dict[tuple[str, int], set[str]]


class StreamsGroup(EpochMembers):
    """The state of one group."""

    __slots__ = (
        "_checked",
        "active_processes",
        "assignment_configs",
        "configured",
        "descriptions",
        "endpoint_cache",
        "endpoint_epoch",
        "shutdown_member_id",
        "standby_processes",
        "static_members",
        "task_offsets",
        "topology",
        "validated_topology_epoch",
        "warmup_processes",
    )

    members: dict[str, StreamsMember]
    target: dict[str, TargetTasks]

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.validated_topology_epoch = 0
        self.assignment_configs: dict[str, str] = {}
        """The configs of the last epoch."""
        self.descriptions = Descriptions()
        self.static_members: dict[str, str] = {}
        self.task_offsets: dict[str, ReportedOffsets] = {}
        """The offsets that members reported last. They are in no record, as in Kafka."""
        self.topology: Topology | None = None
        self.active_processes: _Processes = {}
        """The process that has each active task, or has to give it up."""
        self.standby_processes: _ProcessSets = {}
        self.warmup_processes: _ProcessSets = {}
        self.configured: ConfiguredTopology | None = None
        self._checked: tuple[int, int] | None = None
        """A version of the topics, and the epoch of the group with their hash."""
        self.shutdown_member_id: str | None = None
        """The first member that asked for the end of the application."""
        self.endpoint_epoch = 0
        """It moves when a member with an endpoint gets other tasks."""
        self.endpoint_cache: dict[str, EndpointToPartitions] = {}

    @property
    def state(self) -> str:
        """The state that ListGroups and StreamsGroupDescribe show."""
        if not self.members:
            return EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return NOT_READY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return STABLE
        return RECONCILING

    def offsets_of(self, member_id: str) -> ReportedOffsets:
        """The offsets that a member reported last."""
        return self.task_offsets.get(member_id) or ReportedOffsets()

    def ask_for_shutdown(self, member_id: str) -> None:
        """Note the first member that asks for the end of the application. It holds while the group has members."""
        if self.shutdown_member_id is None:
            self.shutdown_member_id = member_id

    def may_be_outdated(self, topology: Topology, topics: TopicView) -> bool:
        """Whether a topic of the topology may have changed since the last epoch, or that epoch was never written."""
        if self._checked is None:
            return True
        version, epoch = self._checked
        return self.epoch < epoch or topics.has_changed(topology.required_topics, version)

    def note_checked(self, topics: TopicView, epoch: int) -> None:
        """Note that the group has the hash of these topics from this epoch on."""
        self._checked = topics.version, epoch

    @property
    def description_bytes(self) -> int:
        """The size of the description of its topology."""
        return 0 if self.topology is None or self.topology.description is None else len(self.topology.description)

    def set_configured(self, configured: ConfiguredTopology) -> None:
        """Note the topology as the topics allow it."""
        self.configured = configured
        self.endpoint_cache.clear()

    # How records change it

    def put(self, member: StreamsMember) -> None:
        """Add or replace a member."""
        old = self.replace(member)
        if old is not None:
            self._release(old)
        for tasks in (member.assigned, member.pending_revocation):
            for task in _tasks(tasks.active):
                self.active_processes[task] = member.process_id
            for held, processes in ((tasks.standby, self.standby_processes), (tasks.warmup, self.warmup_processes)):
                for task in _tasks(held):
                    processes.setdefault(task, set()).add(member.process_id)
        if old is not None:
            self._forget_instance(old)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.endpoint_cache.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Remove a member, if it is there."""
        old = self.members.pop(member_id, None)
        if old is None:
            return
        self._release(old)
        self._forget_instance(old)
        self.task_offsets.pop(member_id, None)
        self.endpoint_cache.pop(member_id, None)
        if not self.members:
            self.shutdown_member_id = None

    def _forget_instance(self, member: StreamsMember) -> None:
        """Forget the instance id of a member, unless another member has it since."""
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _release(self, member: StreamsMember) -> None:
        """Forget the tasks of a member, except those that another process has got since."""
        for tasks in (member.assigned, member.pending_revocation):
            self._release_active(tasks, member.process_id)
            for held, processes in ((tasks.standby, self.standby_processes), (tasks.warmup, self.warmup_processes)):
                for task in _tasks(held):
                    known = processes.get(task)
                    if known is not None:
                        known.discard(member.process_id)
                        if not known:
                            del processes[task]

    def _release_active(self, tasks: MemberTasks, process_id: str) -> None:
        for task in _tasks(tasks.active):
            if self.active_processes.get(task) == process_id:
                del self.active_processes[task]

    # What is asked of groups of every kind

    def facts(self) -> MembershipFacts:
        state = self.state
        return self.facts_in(state, STREAMS)._replace(filter_state=NOT_READY_FILTER if state == NOT_READY else "")

    def facts_of(self, member: StreamsMember) -> MemberFacts:
        facts = super().facts_of(member)
        return facts._replace(partitions=NOTHING, tasks=tuple(member.assigned))

    def sessions(self, timers: Timers, settings: GroupSettings) -> dict[str, tuple[GroupTimer, int]]:
        return self.sessions_of(timers, settings.streams_session_timeout_ms)

    def begin_deletion(self, _request: GroupRequest, decision: GroupDecision) -> None:
        """Count the description that ends with an empty group."""
        if not self.members and self.description_bytes:
            decision.counts.count_description(DELETED)

    def granted_epoch(self, member: StreamsMember, topic: str, partition: int, _decision: GroupDecision) -> int | None:
        subtopology = None if self.topology is None else self.topology.subtopology_of.get(topic)
        return None if subtopology is None else member.epoch_of(subtopology, partition)

    def is_subscribed(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in self.topology.subtopology_of

    def tombstones(self, group_id: str) -> list[GroupRecord]:
        return group_tombstones(group_id, self.ordered_members())


def _tasks(tasks: Any) -> Iterable[tuple[str, int]]:
    return ((subtopology, partition) for subtopology, partitions in tasks.items() for partition in partitions)
