"""DeleteGroups (KIP-229): a group without members is deleted with all its offsets."""

from kpybroker.machines.groups.counts import DELETED
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import DeleteGroup, GroupRequest
from kpybroker.machines.groups.offsets.committed import commit_tombstone
from kpybroker.machines.groups.offsets.offset_deletion import positions
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.share.offsets import states_to_delete
from kpybroker.machines.groups.share.share_group import ShareGroup
from kpybroker.machines.groups.streams.streams_group import StreamsGroup
from kpywire import error_codes
from kpywire.messages.delete_groups import DeletableGroupResult


def delete_group(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer a `DeleteGroup`: an empty group is deleted with all its offsets, in one batch."""
    message: DeleteGroup = request.message
    error = error_codes.GROUP_ID_NOT_FOUND
    group = shard.groups.get(message.group_id)
    if group is not None and isinstance(group.membership, ShareGroup) and not message.states_deleted:
        states = states_to_delete(shard, group.membership, request, decision)
        if states is not None:
            decision.reply(request.ticket, states)
            return
    if group is not None:
        error = group.membership.check_deletion(group, decision)
        if not error:
            decision.records += [commit_tombstone(group.group_id, *each) for each in positions(group)]
            decision.records += group.membership.tombstones(group.group_id)
            if isinstance(group.membership, StreamsGroup) and group.membership.description_bytes:
                decision.counts.count_description(DELETED)
    refuse_deletion(request, error, decision)


def refuse_deletion(request: GroupRequest, error_code: int, decision: GroupDecision) -> None:
    """Answer a `DeleteGroup` with this error code, or with NONE."""
    result = DeletableGroupResult(group_id=request.message.group_id, error_code=error_code)
    decision.reply(request.ticket, result)
