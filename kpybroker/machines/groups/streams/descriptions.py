"""Descriptions of topologies (KIP-1331): when a member is asked for one, whether one is kept, and what is shown.

(Kafka: ``StreamsGroupTopologyDescriptionManager`` with its back-off, and the plug-in behind it, whose place is taken
here.) A description is kept in the record of the topology (`kpybroker.machines.groups.described_topology`). The epochs
in the group's own record speak of the plug-in of an Apache Kafka, and are left as they are: that one still has what it
had, and asks for what it has not.

Invariant: all descriptions of a shard together take no more than `MOST_BYTES`, but for those that were read from a log.
"""

from typing import Final

from kpybroker.machines.groups.counts import NOT_SHOWN, REFUSED, SHOWN, STORED
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.finding import find_group, known_member
from kpybroker.machines.groups.epochs.refused import RequestRefused
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.streams.asking import NO_EPOCH, DescriptionAsking, DescriptionNotes
from kpybroker.machines.groups.streams.events import DescriptionOf, StoreDescription
from kpybroker.machines.groups.streams.records import topology_record
from kpybroker.machines.groups.streams.streams_group import STREAMS, StreamsGroup
from kpybroker.machines.groups.streams.topology import Topology, as_recorded
from kpybroker.machines.groups.timers import GroupTimer
from kpywire import error_codes
from kpywire.messages.streams_group_topology_description_update import StreamsGroupTopologyDescriptionUpdateResponse

MOST_BYTES: Final = 4 << 20
"""The size of all descriptions in one shard."""


def asks_for_description(shard: GroupShard, group: StreamsGroup, topology: Topology, decision: GroupDecision) -> bool:
    """Whether the member that sent a heartbeat is asked for the description of the topology. If it is, the others are
    not for a while."""
    is_kept = group.topology is not None and group.topology.description is not None
    if is_kept or decision.settings.streams_description_max_bytes == 0:
        return False
    asking = shard.notes(DescriptionNotes).asking.get(group.group_id)
    if asking is not None and not asking.may_ask(topology.epoch, decision.now_ms):
        return False
    _wait(shard, group.group_id, topology.epoch, decision)
    return True


def _asking(shard: GroupShard, group_id: str) -> DescriptionAsking:
    known = shard.notes(DescriptionNotes).asking
    found = known.get(group_id)
    if found is None:
        found = known[group_id] = DescriptionAsking(GroupTimer(_wake, shard, group_id))
    return found


def _wait(shard: GroupShard, group_id: str, epoch: int, decision: GroupDecision) -> None:
    """Wait before the next attempt. Members at rest are woken for it."""
    asking = _asking(shard, group_id)
    decision.set_timer(asking.timer, asking.wait(epoch, decision.now_ms, decision.rng))


def _wake(shard: GroupShard, group_id: str, _decision: GroupDecision) -> None:
    shard.rouse(group_id)


def forget_asking(shard: GroupShard, group_id: str) -> None:
    """Forget when the members of a group that ends were asked."""
    asking = shard.notes(DescriptionNotes).asking.pop(group_id, None)
    if asking is not None:
        shard.timers.cancel(asking.timer)


def store_description(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer a `StoreDescription`."""
    message: StoreDescription = request.message
    try:
        group = find_group(shard, message.group_id, StreamsGroup, STREAMS)
        known_member(group.group_id, group.members, message.member_id)
        answer = _store(shard, group, message, decision)
    except RequestRefused as refused:
        answer = update_error(refused.error_code, refused.text)
    decision.reply(request.ticket, answer)


def _store(
    shard: GroupShard, group: StreamsGroup, message: StoreDescription, decision: GroupDecision
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    topology, epoch = group.topology, message.topology_epoch
    current = NO_EPOCH if topology is None else topology.epoch
    if topology is None or epoch != current:
        text = f"Topology epoch {epoch} does not match the group's current topology epoch {current}."
        return update_error(error_codes.INVALID_REQUEST, text)
    if message.fault is not None:
        return update_error(error_codes.INVALID_REQUEST, message.fault)
    most_bytes, description = decision.settings.streams_description_max_bytes, message.description
    if description is None or len(description) > most_bytes:
        _asking(shard, group.group_id).refuse(epoch)
        return _not_kept(
            f"The topology description is larger than the {most_bytes} bytes of "
            "kpybroker.group.streams.topology.description.max.bytes.",
            decision,
        )
    before = len(topology.description or b"")
    if shard.notes(DescriptionNotes).bytes - before + len(description) > MOST_BYTES:
        _wait(shard, group.group_id, epoch, decision)
        return _not_kept("The topology descriptions of other groups leave no memory for this one.", decision)
    decision.counts.count_description(STORED)
    if topology.description != description:
        decision.records.append(topology_record(group.group_id, as_recorded(topology, description)))
    return update_error(error_codes.NONE)


def _not_kept(text: str, decision: GroupDecision) -> StreamsGroupTopologyDescriptionUpdateResponse:
    decision.counts.count_description(REFUSED)
    return update_error(error_codes.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, text)


def refuse_description(request: GroupRequest, _error_code: int, decision: GroupDecision) -> None:
    """Answer a `StoreDescription` whose record does not fit into a batch. The member is asked again later."""
    text = "The topology description does not fit into a record of __consumer_offsets."
    decision.reply(request.ticket, _not_kept(text, decision))


def update_error(error_code: int, text: str | None = None) -> StreamsGroupTopologyDescriptionUpdateResponse:
    """The response with this error, or with NONE."""
    return StreamsGroupTopologyDescriptionUpdateResponse(throttle_time_ms=0, error_code=error_code, error_message=text)


def description_of(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer a `DescriptionOf`."""
    message: DescriptionOf = request.message
    group = shard.find(message.group_id, StreamsGroup)
    topology = None if group is None else group.topology
    kept = None if topology is None else topology.description
    if kept is not None and len(kept) > message.most_bytes:
        kept = b""
    decision.counts.count_description(NOT_SHOWN if kept == b"" else SHOWN)
    decision.reply(request.ticket, kept)
