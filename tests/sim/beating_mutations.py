"""Bugs to plant in groups of the consumer protocol (KIP-848)."""

from .mutation import Mutation

RECONCILE = "kpybroker/groups/consumer/reconcile.py"
GROUP = "kpybroker/groups/consumer/consumer_group.py"
HEARTBEAT = "kpybroker/groups/consumer/heartbeat.py"
LEAVE = "kpybroker/groups/consumer/leave.py"
TIMEOUTS = "kpybroker/groups/consumer/timeouts.py"
REPLAY = "kpybroker/groups/consumer/replay.py"
RECORDS = "kpybroker/groups/consumer/records.py"
TARGET = "kpybroker/groups/consumer/target.py"


def _beating(name: str, path: str, old: str, new: str, nodes: int = 1) -> Mutation:
    return Mutation(name, path, old, new, nodes, is_beating=True)


BEATING_MUTATIONS = [
    # Who may have a partition
    _beating(
        "a partition is given although another member has it",
        RECONCILE,
        "        if index not in self.group.partition_epochs.get(topic_id, NOTHING):\n",
        "        if index >= 0:\n",
    ),
    _beating(
        "nobody waits until a member has given up its partitions",
        RECONCILE,
        "        if revoked and owns_any(self.owned, revoked):\n",
        "        if revoked and self.target_epoch < 0:\n",
    ),
    _beating(
        "partitions that a member has to give up are free",
        GROUP,
        "        self._count(member, 1)\n        for partitions in (member.assigned, member.pending_revocation):\n",
        "        self._count(member, 1)\n        for partitions in (member.assigned,):\n",
    ),
    _beating(
        "partitions that a member has to give up are not in the log",
        RECORDS,
        "        partitions_pending_revocation=_with_epochs(member.pending_revocation),\n",
        "        partitions_pending_revocation=[],\n",
    ),
    _beating(
        "a member that waits for partitions does not get them",
        RECONCILE,
        "        if member.state == UNRELEASED:\n            return self._compute(member.member_epoch)\n",
        "        if member.state == UNRELEASED:\n            return member\n",
    ),
    _beating(
        "what a member gives up stays taken",
        GROUP,
        "                    if epochs.get(index) == member.member_epoch:\n",
        "                    if epochs.get(index) == -member.member_epoch:\n",
    ),
    _beating(
        "a member hears of what it has only when it joins",
        HEARTBEAT,
        "or is_full or member.assigned != updated.assigned\n",
        "or is_full\n",
    ),
    # Members that are gone
    _beating(
        "a heartbeat does not renew the session",
        HEARTBEAT,
        "    renew_session(shard, group.group_id, member_id, decision, settings.consumer_session_timeout_ms)\n",
        "    if message.member_epoch == 0:\n        renew_session(shard, group.group_id, member_id, decision, "
        "settings.consumer_session_timeout_ms)\n",
    ),
    _beating(
        "sessions do not begin with a new coordinator",
        TIMEOUTS,
        "            renew_session(shard, group_id, member.member_id, decision, timeout_ms)\n",
        "            pass\n",
    ),
    _beating(
        "a group stays at its epoch when a member leaves",
        LEAVE,
        "epoch_record(group_id, group.epoch + 1, decision",
        "epoch_record(group_id, group.epoch, decision",
    ),
    _beating(
        "commits of members that are gone count",
        GROUP,
        "        member = self.members.get(message.member_id)\n        if member is None:\n"
        "            return error_codes.UNKNOWN_MEMBER_ID\n"
        "        if member.classic is None and request.api_version < _EPOCHS_FROM:\n",
        "        member = self.members.get(message.member_id)\n        if member is None:\n"
        "            return error_codes.NONE\n"
        "        if member.classic is None and request.api_version < _EPOCHS_FROM:\n",
    ),
    # The log
    _beating(
        "the target of a member that is gone keeps its partitions",
        GROUP,
        "                if owners.get(index) == member_id:\n                    del owners[index]\n",
        "                if owners.get(index) == member_id and target is not None:\n"
        "                    del owners[index]\n",
    ),
    _beating(
        "a new coordinator takes members for stable",
        REPLAY,
        "            state=value.state,\n",
        "            state=0,\n",
    ),
    _beating(
        "a static member that comes back has no partitions, and nobody else gets them",
        HEARTBEAT,
        "group.target.get(replaced.member_id, NOTHING)))\n    records.append(current_record(group_id, member))\n",
        "NOTHING))\n    records.append(current_record(group_id, member))\n",
    ),
]
