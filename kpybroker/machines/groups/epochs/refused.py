"""A request that a consumer group refuses, with Kafka's error and words."""

from typing import TYPE_CHECKING

from kpybroker.machines.groups.epochs.epoch_members import EpochMembers
from kpybroker.machines.groups.stories import FENCED
from kpywire import error_codes

if TYPE_CHECKING:
    from kpybroker.machines.groups.decision import GroupDecision
    from kpybroker.machines.groups.events import GroupRequest
    from kpybroker.machines.groups.shard import GroupShard


class RequestRefused(Exception):
    """The request changes nothing."""

    def __init__(self, error_code: int, text: str) -> None:
        super().__init__(text)
        self.error_code = error_code
        self.text = text


def tell_refusal(
    shard: "GroupShard", request: "GroupRequest", refused: RequestRefused, decision: "GroupDecision"
) -> None:
    """Note in the story of a group of any newer kind that a member is fenced: it has to join again."""
    if refused.error_code != error_codes.FENCED_MEMBER_EPOCH:
        return
    group_id, member_id = request.message.group_id, request.message.member_id
    group = shard.find(group_id, EpochMembers)
    if group is not None and member_id in group.members:
        decision.tell(group_id, FENCED, group.members[member_id], f"epoch {request.message.member_epoch}")
