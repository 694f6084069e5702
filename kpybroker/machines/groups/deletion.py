"""DeleteGroups (KIP-229): a group without members is deleted with all its offsets."""

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import DeleteGroup, GroupRequest
from kpybroker.machines.groups.offsets.committed import commit_tombstone
from kpybroker.machines.groups.offsets.offset_deletion import positions
from kpybroker.machines.groups.shard import GroupShard
from kpywire import error_codes
from kpywire.messages.delete_groups import DeletableGroupResult


def delete_group(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer a `DeleteGroup`: an empty group is deleted with all its offsets, in one batch."""
    message: DeleteGroup = request.message
    error = error_codes.GROUP_ID_NOT_FOUND
    group = shard.groups.get(message.group_id)
    if group is not None:
        more = group.membership.begin_deletion(request, decision)
        if more is not None:
            decision.reply(request.ticket, more)
            return
        error = group.membership.check_deletion(group, decision)
        if not error:
            decision.records += [commit_tombstone(group.group_id, *each) for each in positions(group)]
            decision.records += group.membership.tombstones(group.group_id)
    refuse_deletion(request, error, decision)


def refuse_deletion(request: GroupRequest, error_code: int, decision: GroupDecision) -> None:
    """Answer a `DeleteGroup` with this error code, or with NONE."""
    result = DeletableGroupResult(group_id=request.message.group_id, error_code=error_code)
    decision.reply(request.ticket, result)
