"""ListGroups (KIP-518, KIP-848): all groups of a shard, of whatever kind."""

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import GroupRequest, ListGroups
from kpybroker.machines.groups.shard import GroupShard
from kpywire.messages.list_groups import ListedGroup


def list_groups(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer a `ListGroups`. Groups that are asleep stay so."""
    message: ListGroups = request.message
    states = {state.lower() for state in message.states}
    types = {kind.lower() for kind in message.types}
    listed = []
    for group in shard.groups.values():
        facts = group.membership.facts()
        kind, state, protocol_type = facts.kind, facts.state, facts.protocol_type
        if (not states or (facts.filter_state or state.lower()) in states) and (not types or kind in types):
            listed.append(
                ListedGroup(group_id=group.group_id, protocol_type=protocol_type, group_state=state, group_type=kind)
            )
    decision.reply(request.ticket, listed)
