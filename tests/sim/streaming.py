"""Members of a streams group (KIP-1071): they bring a topology, and run tasks and standbys.

Subtopology 0 reads the topic of the group and has a state, so each of its tasks has a standby in another process.
Subtopology 1 reads what nobody writes: its tasks are only owned. The broker creates the internal topics of both.

Members may be threads of one process.

A member that is asked for the description of the topology sends it.

Invariants: those of `beating` for active tasks; a process has a task in one role and in one thread only. A description
that was taken is shown once the cluster is at rest.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kpywire import error_codes
from kpywire.messages.streams_group_describe import StreamsGroupDescribeRequest
from kpywire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    Subtopology,
    TopicInfo,
    Topology,
)
from kpywire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)

from .beating import JOINING, LEAVING, REBALANCE_MS, BeatingMember, Life, Owners
from .client import Client
from .grouping import NAME, Group, Place

if TYPE_CHECKING:
    from .world import World

READING, IDLE = "0", "1"
"""The subtopologies."""
ALONE_SHARE = 0.5
TOPOLOGY_EPOCH = 1
NEW_GROUP = 2
"""The epoch of the first member of a group, which has no description yet."""


def tasks_for(places: Iterable[Place]) -> set[Place]:
    """All tasks of a group that reads these partitions of one topic."""
    return {(subtopology, index) for subtopology in (READING, IDLE) for _, index in places}


class Processes:
    """The processes of an application, and which thread of each has a task, in whatever role."""

    def __init__(self, world: "World") -> None:
        self._rng = world.stream("processes")
        self._shared_id = ""
        self.owners = Owners(world)
        self.is_described = False
        """Whether a description of the topology was taken."""
        self.nodes: set[str] = set()
        """The nodes in all descriptions that were sent: one that was not answered may count too."""

    def id_for_a_member(self) -> str:
        """The process of one more member."""
        if not self._shared_id or self._rng.random() < ALONE_SHARE:
            self._shared_id = self._rng.randbytes(8).hex()
        return self._shared_id


class StreamingMember(BeatingMember):
    """One member after the other, on one client, which is a thread of a process."""

    may_be_static = False

    def __init__(self, client: Client, group: Group, owners: Owners, processes: Processes, *, exactly: bool) -> None:
        super().__init__(client, group, owners, exactly=exactly)
        self._process_id = processes.id_for_a_member()
        self._processes = processes
        self._roles = processes.owners
        self._is_asked = False
        self._looks = True
        self._standby: set[Place] = set()

    def _begin(self, member_id: str) -> None:
        self._end_roles()
        super()._begin(member_id)
        self._standby = set()

    def _departure(self) -> StreamsGroupHeartbeatRequest:
        self._end_roles()
        return StreamsGroupHeartbeatRequest(
            group_id=NAME, member_id=self._id, member_epoch=LEAVING, endpoint_information_epoch=0
        )

    def _end_roles(self) -> None:
        life: Life = self._life
        self._roles.end(life)

    async def _heartbeat(self, *, tells_all: bool) -> StreamsGroupHeartbeatRequest:
        joins = self._generation == JOINING
        return StreamsGroupHeartbeatRequest(
            group_id=NAME,
            member_id=self._id,
            member_epoch=self._generation,
            endpoint_information_epoch=0,
            rebalance_timeout_ms=REBALANCE_MS if tells_all else -1,
            topology=self._topology() if joins else None,
            process_id=self._process_id if tells_all else None,
            active_tasks=_listed(self._owned) if tells_all else None,
            standby_tasks=_listed(self._standby) if tells_all else None,
            warmup_tasks=[] if tells_all else None,
        )

    async def _beat(self) -> None:
        joins = self._generation == JOINING
        await super()._beat()
        if joins and self._generation <= NEW_GROUP:
            self._processes.is_described = False
        if self._is_asked:
            self._is_asked = False
            await self._describe_topology()
        elif self._looks and self.group.is_calm and self._processes.is_described:
            await self._look_at_description()

    async def _describe_topology(self) -> None:
        """Describe the topology. Raises as asking does."""
        name = self._id + " describes"
        node = TopologyDescriptionNode(name=name, node_type=1, source_topics=[], stores=[], successors=[])
        whole = TopologyDescription(
            subtopologies=[TopologyDescriptionSubtopology(subtopology_id=READING, nodes=[node])], global_stores=[]
        )
        self._processes.nodes.add(name)
        answer = await self._ask(
            StreamsGroupTopologyDescriptionUpdateRequest(
                group_id=NAME, member_id=self._id, topology_epoch=TOPOLOGY_EPOCH, topology_description=whole
            )
        )
        if answer.error_code == error_codes.NONE:
            self._processes.is_described = True

    async def _look_at_description(self) -> None:
        """Compare the description that is shown with the one that was taken. Raises as asking does."""
        request = StreamsGroupDescribeRequest(
            group_ids=[NAME], include_authorized_operations=False, include_topology_description=True
        )
        (found,) = (await self._ask(request)).groups
        if found.error_code or not self._processes.is_described:
            return
        self._looks = False
        shown = found.topology_description
        names = [] if shown is None else [node.name for each in shown.subtopologies for node in each.nodes]
        if len(names) != 1 or names[0] not in self._processes.nodes:
            status = found.topology_description_status
            self.client.world.violated(f"the topology of {NAME} was described, and {names} is shown: status {status}")

    def _topology(self) -> Topology:
        replicas = self.group.replicas
        between = TopicInfo(name=f"{NAME}-repartition", partitions=0, replication_factor=replicas, topic_configs=[])
        state = TopicInfo(name=f"{NAME}-changelog", partitions=0, replication_factor=replicas, topic_configs=[])
        return Topology(
            epoch=TOPOLOGY_EPOCH,
            subtopologies=[
                Subtopology(
                    subtopology_id=READING,
                    source_topics=sorted({topic for topic, _ in self.group.places}),
                    source_topic_regex=[],
                    state_changelog_topics=[state],
                    repartition_sink_topics=[between.name],
                    repartition_source_topics=[],
                    copartition_groups=[],
                ),
                Subtopology(
                    subtopology_id=IDLE,
                    source_topics=[],
                    source_topic_regex=[],
                    state_changelog_topics=[],
                    repartition_sink_topics=[],
                    repartition_source_topics=[between],
                    copartition_groups=[],
                ),
            ],
        )

    def _given_by(self, answer: Any) -> set[Place] | None:
        self._is_asked = answer.topology_description_required
        if answer.active_tasks is None:
            return None
        given = _tasks(answer.standby_tasks or ())
        for task in sorted(self._standby - given):
            self._roles.give_up(self._in_process(task), self._life)
        for task in sorted(given - self._standby):
            self._roles.take(self._in_process(task), self._life)
        self._is_complete |= given != self._standby
        self._standby = given
        return _tasks(answer.active_tasks)

    def _take(self, each: Place) -> None:
        super()._take(each)
        self._roles.take(self._in_process(each), self._life)

    def _give_up(self, each: Place) -> None:
        super()._give_up(each)
        self._roles.give_up(self._in_process(each), self._life)

    def _in_process(self, task: Place) -> Place:
        subtopology, index = task
        return f"{self._process_id}/{subtopology}", index

    def _input_of(self, each: Place) -> Place | None:
        subtopology, index = each
        return (self.group.places[0][0], index) if subtopology == READING else None


def _listed(tasks: Iterable[Place]) -> list[StreamsGroupHeartbeatRequestTaskIds]:
    found: dict[str, list[int]] = {}
    for subtopology, index in sorted(tasks):
        found.setdefault(subtopology, []).append(index)
    return [StreamsGroupHeartbeatRequestTaskIds(subtopology_id=each, partitions=found[each]) for each in found]


def _tasks(listed: Iterable[Any]) -> set[Place]:
    return {(each.subtopology_id, index) for each in listed for index in each.partitions}
