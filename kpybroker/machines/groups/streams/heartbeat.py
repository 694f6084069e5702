"""StreamsGroupHeartbeat (KIP-1071): a member joins with its topology, stays, gives up tasks, or leaves.

(Kafka: ``GroupMetadataManager.streamsGroupHeartbeat``.) The order of the checks and of the records is Kafka's. What is
wrong with a request alone is refused before it comes here (``GroupCoordinatorService``).
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from kpybroker.machines.groups.beats import Beat
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.finding import ends_classic, fenced, find_group, known_member, static_member
from kpybroker.machines.groups.epochs.member import AWAY_EPOCH, JOINING_EPOCH, SESSION
from kpybroker.machines.groups.epochs.refused import RequestRefused, tell_refusal
from kpybroker.machines.groups.epochs.target import may_assign
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.resting import keep_answer
from kpybroker.machines.groups.settings import GroupSettings
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.stories import JOINED, LEFT
from kpybroker.machines.groups.streams.configured import ConfiguredTopology, InternalTopic, configure
from kpybroker.machines.groups.streams.descriptions import asks_for_description
from kpybroker.machines.groups.streams.endpoints import endpoints_of
from kpybroker.machines.groups.streams.member import StreamsMember, UserEndpoint
from kpybroker.machines.groups.streams.reconcile import next_step
from kpybroker.machines.groups.streams.records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    target_record,
    topology_record,
)
from kpybroker.machines.groups.streams.streams_group import NOT_VALIDATED, STREAMS, StreamsGroup
from kpybroker.machines.groups.streams.target import RACK_TAGS, STANDBY_REPLICAS, assign, target_of
from kpybroker.machines.groups.streams.tasks import (
    MemberTasks,
    ReportedOffsets,
    TargetTasks,
    TaskOffsets,
    are_among,
    tasks_of,
)
from kpybroker.machines.groups.streams.timeouts import delay_target, fence, is_delayed, limit_rebalance, renew_session
from kpybroker.machines.groups.streams.topology import DuplicateSubtopology, Topology, recorded, topology_of
from kpywire import error_codes
from kpywire.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatResponseTaskIds,
)

STALE_TOPOLOGY: Final = 0
SHUTDOWN_APPLICATION: Final = 4
ASSIGNMENT_DELAYED: Final = 5
MISSING_CLIENT_TAGS: Final = 6
"""The statuses of a group that are not about its topics (Kafka: ``StreamsGroupHeartbeatResponse.Status``)."""

DESCRIPTIONS_FROM: Final = 1
"""The first version whose clients can be asked for the description of a topology."""
TAGS_FROM: Final = 1
"""The first version whose clients know the status of missing tags."""
_DELAYED = "Assignment delayed due to the configured {}."
_NONE: Final[Any] = {}


class HeartbeatAnswer(NamedTuple):
    """The response, and the internal topics that the broker is to create."""

    response: StreamsGroupHeartbeatResponse
    missing: Mapping[str, InternalTopic] = _NONE


def streams_group_heartbeat(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer a heartbeat by a `HeartbeatAnswer`."""
    try:
        if request.message.member_epoch < JOINING_EPOCH:
            answer = _leave(shard, request.message, decision)
        else:
            answer = _Heartbeat(shard, request, decision).answer()
    except RequestRefused as refused:
        tell_refusal(shard, request, refused, decision)
        answer = HeartbeatAnswer(heartbeat_error(refused.error_code, refused.text))
    decision.reply(request.ticket, answer)


def refuse_heartbeat(request: GroupRequest, error_code: int, decision: GroupDecision) -> None:
    """Answer a heartbeat with an error."""
    decision.reply(request.ticket, HeartbeatAnswer(heartbeat_error(error_code)))


def heartbeat_error(error_code: int, text: str | None = None) -> StreamsGroupHeartbeatResponse:
    """The response with an error. A defect is not explained, as in Kafka."""
    response = _response("", 0)
    response.error_code = error_code
    response.error_message = None if error_code == error_codes.UNKNOWN_SERVER_ERROR else text
    return response


def _response(member_id: str, member_epoch: int) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        member_id=member_id,
        member_epoch=member_epoch,
        heartbeat_interval_ms=0,
        acceptable_recovery_lag_legacy=0,
        task_offset_interval_ms=0,
        status=[],
        endpoint_information_epoch=0,
    )


# Leaving


def _leave(shard: GroupShard, message: Any, decision: GroupDecision) -> HeartbeatAnswer:
    group = find_group(shard, message.group_id, StreamsGroup, STREAMS)
    if message.shutdown_application:
        group.ask_for_shutdown(message.member_id)
        shard.rouse(message.group_id)
    if message.instance_id is None:
        member = known_member(group.group_id, group.members, message.member_id)
    else:
        member = static_member(group.static_members, group.members, message.member_id, message.instance_id)
        if message.member_epoch == AWAY_EPOCH:
            decision.tell(message.group_id, LEFT, member, "for a while")
            decision.records.append(current_record(message.group_id, _away(member)))
            return HeartbeatAnswer(_response(message.member_id, AWAY_EPOCH))
    detail = "it asked for the end of the application" if message.shutdown_application else ""
    decision.tell(message.group_id, LEFT, member, detail)
    fence(shard, group, member.member_id, decision)
    return HeartbeatAnswer(_response(message.member_id, message.member_epoch))


def _away(member: StreamsMember) -> StreamsMember:
    """A static member that left for a while: it keeps its tasks, and gives none up."""
    active = {name: dict.fromkeys(partitions, 0) for name, partitions in member.assigned.active.items()}
    assigned = MemberTasks(active, member.assigned.standby, member.assigned.warmup)
    return member._replace(member_epoch=AWAY_EPOCH, assigned=assigned, pending_revocation=MemberTasks())


# Joining and staying


class _Heartbeat:
    """One heartbeat of a member that joins or stays."""

    __slots__ = (
        "decision",
        "group",
        "group_id",
        "is_known",
        "message",
        "records",
        "replaced",
        "request",
        "shard",
        "statuses",
    )

    def __init__(self, shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
        self.shard = shard
        self.request = request
        self.message = request.message
        self.decision = decision
        self.records: list[GroupRecord] = []
        self.statuses: list[Status] = []
        self.replaced: StreamsMember | None = None
        """The static member whose place the sender takes."""
        self.group_id: str = request.message.group_id
        self.is_known = self.group_id in shard.groups
        self.group = self._enter()

    def answer(self) -> HeartbeatAnswer:
        """Decide on the heartbeat. Raises Refused."""
        group, message = self.group, self.message
        joins = message.member_epoch == JOINING_EPOCH
        member = self._member()
        updated = _updated(member, self.request)
        if updated != member:
            self.records.append(member_record(self.group_id, updated))
        topology = self._topology()
        self._note_stale(updated)
        is_other = updated != member if message.instance_id is None else _counts(updated) != _counts(member)
        configured, epoch, configs = self._advance(topology, bumps=is_other)
        if not group.members:
            delay_target(self.shard, self.group_id, self.decision)
        if updated.member_id not in group.members:
            self.decision.tell(self.group_id, JOINED, updated)
        target_epoch, target = self._target(updated, epoch, configured, configs)
        updated = self._reconcile(updated, target_epoch, target)
        renew_session(self.shard, self.group_id, updated.member_id, self.decision)
        if message.shutdown_application:
            group.ask_for_shutdown(updated.member_id)
            self.shard.rouse(self.group_id)
        response = _response(updated.member_id, updated.member_epoch)
        settings = self.decision.settings_of(self.group_id)
        response.heartbeat_interval_ms = settings.streams_heartbeat_interval_ms
        response.task_offset_interval_ms = settings.streams_task_offset_interval_ms
        response.acceptable_recovery_lag = settings.streams_acceptable_recovery_lag
        has_other_tasks = member.assigned != updated.assigned
        if joins or has_other_tasks:
            response.active_tasks = _listed(updated.assigned.active)
            response.standby_tasks = _listed(updated.assigned.standby)
            response.warmup_tasks = _listed(updated.assigned.warmup)
        self._note_endpoint(member, updated, joins=joins, has_other_tasks=has_other_tasks)
        if group.endpoint_epoch != message.endpoint_information_epoch:
            response.partitions_by_user_endpoint = endpoints_of(group, updated, self.replaced, self.decision.topics)
        if self.is_known:
            response.endpoint_information_epoch = group.endpoint_epoch
        if configured.problem is not None:
            self._note(configured.problem.status, configured.problem.text)
        if group.shutdown_member_id is not None:
            text = (
                f"Streams group member {group.shutdown_member_id} encountered a fatal error and requested a shutdown "
                "for the entire application."
            )
            self._note(SHUTDOWN_APPLICATION, text)
        self._note_missing_tags(updated, configs)
        response.status = self.statuses
        response.topology_description_required = self._asks_for_description(topology)
        self.decision.records += self.records
        is_asked = response.topology_description_required
        if not (joins or is_asked or self.statuses or configured.missing) and self._only_beats():
            session = (SESSION, self.group_id, updated.member_id)
            beat = Beat(session, settings.streams_session_timeout_ms, settings.streams_heartbeat_interval_ms)
            keep_answer(self.shard, message, response, beat, self.decision)
        return HeartbeatAnswer(response, configured.missing)

    def _note_endpoint(
        self, member: StreamsMember, updated: StreamsMember, *, joins: bool, has_other_tasks: bool
    ) -> None:
        """Note that the partitions of an endpoint are others now, so that all members hear of them."""
        group, has_moved = self.group, member.user_endpoint != updated.user_endpoint
        if joins or has_other_tasks or has_moved or self.replaced is not None:
            group.endpoint_cache.pop(updated.member_id, None)
        if self.replaced is not None:
            group.endpoint_cache.pop(self.replaced.member_id, None)
        if has_moved or (has_other_tasks and updated.user_endpoint is not None):
            group.endpoint_epoch += 1
            self.shard.rouse(self.group_id)

    def _note_missing_tags(self, member: StreamsMember, configs: Mapping[str, str]) -> None:
        """Tell a client which tags it lacks that standby tasks are to be spread over."""
        if self.request.api_version < TAGS_FROM:
            return
        wanted = configs.get(RACK_TAGS, "")
        missing = [each for each in wanted.split(",") if each not in member.client_tags] if wanted else []
        if missing:
            self._note(
                MISSING_CLIENT_TAGS,
                f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. "
                "Configure them via 'client.tag.<tagKey>' in your Streams config.",
            )

    def _asks_for_description(self, topology: Topology) -> bool:
        """Whether the client is asked to describe its topology. One with an older topology cannot."""
        if self.request.api_version < DESCRIPTIONS_FROM or any(
            each.status_code == STALE_TOPOLOGY for each in self.statuses
        ):
            return False
        return asks_for_description(self.shard, self.group, topology, self.decision)

    def _only_beats(self) -> bool:
        """Whether the heartbeat says only that its member is alive, and asks for nothing."""
        message = self.message
        sent_parts = (
            message.topology,
            message.active_tasks,
            message.standby_tasks,
            message.warmup_tasks,
            message.user_endpoint,
            message.client_tags,
            message.task_offsets,
            message.task_end_offsets,
        )
        knows_endpoints = self.group.endpoint_epoch == message.endpoint_information_epoch
        return knows_endpoints and not message.shutdown_application and all(each is None for each in sent_parts)

    def _note(self, code: int, text: str) -> None:
        self.statuses.append(Status(status_code=code, status_detail=text))

    def _enter(self) -> StreamsGroup:
        """The group that a member is in or joins. An empty group of the classic protocol is replaced."""
        group_id, decision = self.group_id, self.decision
        group = self.shard.groups.get(group_id)
        joins = self.message.member_epoch == JOINING_EPOCH
        if group is None:
            if not joins:
                raise RequestRefused(error_codes.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
            return StreamsGroup(group_id)
        membership = group.membership
        if isinstance(membership, StreamsGroup):
            most = decision.settings.streams_max_size
            comes_back = self.message.member_id in membership.members
            comes_back = comes_back or self.message.instance_id in membership.static_members
            if joins and len(membership.members) >= most and not comes_back:
                text = f"The streams group has reached its maximum capacity of {most} members."
                raise RequestRefused(error_codes.GROUP_MAX_SIZE_REACHED, text)
            return membership
        if joins and ends_classic(group, self.records, decision):
            return StreamsGroup(group_id)
        return find_group(self.shard, group_id, StreamsGroup, STREAMS)

    def _member(self) -> StreamsMember:
        group, message = self.group, self.message
        joins = message.member_epoch == JOINING_EPOCH
        if joins and message.instance_id in group.static_members:
            return self._take_over(group.members[group.static_members[message.instance_id]])
        if joins:
            return group.members.get(message.member_id) or StreamsMember(message.member_id)
        if message.instance_id is None:
            member = known_member(group.group_id, group.members, message.member_id)
        else:
            member = static_member(group.static_members, group.members, message.member_id, message.instance_id)
        _check_epoch(member, message)
        return member

    def _take_over(self, away: StreamsMember) -> StreamsMember:
        """The sender, in the place of the static member of its instance id. Raises Refused if that one is alive."""
        member_id, instance_id = self.message.member_id, self.message.instance_id
        if away.member_epoch != AWAY_EPOCH:
            text = (
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
                f"id is owned by {away.member_id} member."
            )
            raise RequestRefused(error_codes.UNRELEASED_INSTANCE_ID, text)
        member = away._replace(member_id=member_id, member_epoch=0, previous_member_epoch=0)
        target = self.group.target.get(away.member_id, TargetTasks())
        self.records += member_tombstones(self.group_id, away.member_id)
        self.records.append(member_record(self.group_id, member))
        self.records.append(target_record(self.group_id, member_id, target))
        self.records.append(current_record(self.group_id, member))
        if away.member_id != member_id:
            self.replaced = away
        return member

    def _topology(self) -> Topology:
        """The topology of the group. The first member that joins brings it."""
        group, sent = self.group, self.message.topology
        if sent is None:
            if group.topology is None:
                raise RequestRefused(
                    error_codes.UNKNOWN_SERVER_ERROR, "The group has no topology, and the request neither."
                )
            return group.topology
        value = recorded(sent)
        try:
            topology = topology_of(value)
        except DuplicateSubtopology as duplicate:
            text = f"Two subtopologies have the id {duplicate}."
            raise RequestRefused(error_codes.UNKNOWN_SERVER_ERROR, text) from None
        if sent.epoch < 0:
            raise RequestRefused(error_codes.UNKNOWN_SERVER_ERROR, "Topology epoch must be non-negative.")
        if group.topology is None:
            self.records.append(topology_record(self.group_id, value))
            return topology
        if group.topology.epoch <= sent.epoch and not group.topology.is_same(topology):
            raise RequestRefused(error_codes.INVALID_REQUEST, "Topology updates are not supported yet.")
        return group.topology

    def _note_stale(self, member: StreamsMember) -> None:
        topology = self.group.topology
        if topology is not None and member.topology_epoch < topology.epoch:
            text = (
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                f"{topology.epoch}."
            )
            self._note(STALE_TOPOLOGY, text)

    def _advance(self, topology: Topology, *, bumps: bool) -> tuple[ConfiguredTopology, int, dict[str, str]]:
        """Move the group to its next epoch if members, topics or configs changed. Raises Refused."""
        group, topics = self.group, self.decision.topics
        configured, metadata_hash = group.configured, group.metadata_hash
        if configured is None or group.may_be_outdated(topology, topics):
            metadata_hash = topics.group_hash(topology.required_topics)
        if metadata_hash != group.metadata_hash:
            bumps = True
            configured = None
        else:
            group.note_checked(topics, group.epoch)
        if configured is None:
            configured = configure(topology, topics)
            group.set_configured(configured)
        validated = NOT_VALIDATED
        if configured.is_ready:
            validated = topology.epoch
            for listed in (self.message.active_tasks, self.message.standby_tasks, self.message.warmup_tasks):
                _check_tasks(configured, listed)
        self._take_offsets()
        configs = _assignment_configs(self.decision.settings_of(self.group_id))
        if not (bumps or validated != group.validated_topology_epoch or configs != group.assignment_configs):
            return configured, group.epoch, configs
        epoch = group.epoch + 1
        descriptions = group.descriptions
        self.records.append(epoch_record(self.group_id, epoch, metadata_hash, validated, configs, descriptions))
        self.decision.counts.count_rebalance(STREAMS)
        group.note_checked(topics, epoch)
        return configured, epoch, configs

    def _take_offsets(self) -> None:
        """Note the offsets that the member reports. Raises Refused."""
        message = self.message
        if message.task_offsets is None and message.task_end_offsets is None:
            return
        known = self.group.offsets_of(message.member_id)
        offsets, ends = message.task_offsets, message.task_end_offsets
        self.group.task_offsets[message.member_id] = ReportedOffsets(
            known.offsets if offsets is None else _by_task(offsets),
            known.end_offsets if ends is None else _by_task(ends),
        )

    def _target(
        self, updated: StreamsMember, epoch: int, configured: ConfiguredTopology, configs: dict[str, str]
    ) -> tuple[int, TargetTasks]:
        """The target of the member, and its epoch. Raises Refused."""
        group = self.group
        if is_delayed(self.shard, self.group_id):
            self._note(ASSIGNMENT_DELAYED, _DELAYED.format("initial rebalance delay"))
            return group.assignment_epoch, TargetTasks()
        target = target_of(group, updated.member_id, updated, self.replaced)
        last = group.assignment_epoch, TargetTasks() if target is None else target
        if group.assignment_epoch >= epoch:
            return last
        interval_ms = self.decision.settings_of(self.group_id).streams_assignment_interval_ms
        if not may_assign(group, epoch, interval_ms, self.decision):
            self._note(ASSIGNMENT_DELAYED, _DELAYED.format("assignment interval"))
            return last
        assigned = assign(group, epoch, updated, configured, configs, self.records, self.decision, self.replaced)
        return epoch, assigned.get(updated.member_id, TargetTasks())

    def _reconcile(self, member: StreamsMember, epoch: int, target: TargetTasks) -> StreamsMember:
        """Move the member one step towards its target."""
        if member.is_reconciled_to(epoch):
            return member
        message = self.message
        owned = None
        if None not in (message.active_tasks, message.standby_tasks, message.warmup_tasks):
            owned = TargetTasks(*map(tasks_of, (message.active_tasks, message.standby_tasks, message.warmup_tasks)))
        moved = next_step(self.group, member, epoch, target, owned)
        if moved != member:
            self.records.append(current_record(self.group_id, moved))
            limit_rebalance(self.shard, self.group_id, moved, self.decision)
        return moved


def _check_epoch(member: StreamsMember, message: Any) -> None:
    """Check the epoch of a member. An answer may have been lost: then the previous epoch will do."""
    epoch = message.member_epoch
    if epoch == member.member_epoch:
        return
    assigned = member.assigned
    if (
        epoch == member.previous_member_epoch
        and epoch < member.member_epoch
        and are_among(message.active_tasks, assigned.active)
        and are_among(message.standby_tasks, assigned.standby)
        and are_among(message.warmup_tasks, assigned.warmup)
    ):
        return
    raise fenced(STREAMS, epoch, member.member_epoch)


def _assignment_configs(settings: GroupSettings) -> dict[str, str]:
    """The configs that an assignment is made with, as records have them."""
    configs = {STANDBY_REPLICAS: str(settings.streams_num_standby_replicas)}
    if settings.streams_rack_aware_assignment_tags:
        configs[RACK_TAGS] = ",".join(settings.streams_rack_aware_assignment_tags)
    return configs


def _by_task(listed: Collection[Any]) -> TaskOffsets:
    """Reported offsets by task. Raises Refused."""
    found: dict[str, dict[int, int]] = {}
    for each in listed:
        partitions = found.setdefault(each.subtopology_id, {})
        if each.partition in partitions:
            text = (
                f"Task offsets contain a duplicate entry for subtopology {each.subtopology_id} and partition "
                f"{each.partition}."
            )
            raise RequestRefused(error_codes.INVALID_REQUEST, text)
        partitions[each.partition] = each.offset
    return found


def _counts(member: StreamsMember) -> tuple[Any, ...]:
    """The properties of a static member whose change needs another assignment."""
    return member.topology_epoch, member.rack_id, member.client_tags, member.process_id


def _updated(member: StreamsMember, request: GroupRequest) -> StreamsMember:
    """The member with what the request changes. A field that is null stays as it is, but for the endpoint of a member
    that joins."""
    message = request.message
    changes: dict[str, Any] = {"client_id": request.client_id, "client_host": request.client_host}
    if message.instance_id is not None:
        changes["instance_id"] = message.instance_id
    if message.rack_id is not None:
        changes["rack_id"] = message.rack_id
    if message.rebalance_timeout_ms != -1:
        changes["rebalance_timeout_ms"] = message.rebalance_timeout_ms
    if message.topology is not None:
        changes["topology_epoch"] = message.topology.epoch
    if message.process_id is not None:
        changes["process_id"] = message.process_id
    if message.member_epoch == JOINING_EPOCH:
        changes["user_endpoint"] = None
    if message.user_endpoint is not None:
        changes["user_endpoint"] = UserEndpoint(message.user_endpoint.host, message.user_endpoint.port)
    if message.client_tags is not None:
        changes["client_tags"] = {each.key: each.value for each in message.client_tags}
    return member._replace(**changes)


def _check_tasks(configured: ConfiguredTopology, listed: Collection[Any] | None) -> None:
    """Check that tasks of a request exist. Raises Refused."""
    subtopologies = configured.subtopologies or {}
    for each in listed or ():
        known = subtopologies.get(each.subtopology_id)
        if known is None:
            text = f"Subtopology {each.subtopology_id} does not exist in the topology."
            raise RequestRefused(error_codes.INVALID_REQUEST, text)
        for partition in each.partitions:
            if not 0 <= partition < known.tasks:
                text = (
                    f"Task {partition} for subtopology {each.subtopology_id} is invalid. "
                    f"Number of tasks for this subtopology: {known.tasks}"
                )
                raise RequestRefused(error_codes.INVALID_REQUEST, text)


def _listed(tasks: Mapping[str, Collection[int]]) -> list[StreamsGroupHeartbeatResponseTaskIds]:
    return [
        StreamsGroupHeartbeatResponseTaskIds(subtopology_id=each, partitions=sorted(partitions))
        for each, partitions in tasks.items()
    ]
