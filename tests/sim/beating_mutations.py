"""Bugs to plant in groups of the consumer protocol (KIP-848)."""

from .kind import BEATING
from .mutation import Mutation

RECONCILE = "kpybroker/machines/groups/consumer/reconcile.py"
GROUP = "kpybroker/machines/groups/consumer/consumer_group.py"
EPOCHS = "kpybroker/machines/groups/epochs/epoch_members.py"
RECORDS = "kpybroker/machines/groups/consumer/records.py"
REPLAY = "kpybroker/machines/groups/consumer/replay.py"
MEMBER = "kpybroker/machines/groups/consumer/member.py"
TIMEOUTS = "kpybroker/machines/groups/consumer/timeouts.py"
LEAVE = "kpybroker/machines/groups/consumer/leave.py"


def _beating(name: str, path: str, old: str, new: str, nodes: int = 1) -> Mutation:
    return Mutation(name, path, old, new, nodes, world=BEATING)


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
        "partitions that a member has to give up are not read from the log",
        REPLAY,
        "            pending_revocation=_with_epochs(value.partitions_pending_revocation, value.member_epoch),\n",
        "            pending_revocation=NOTHING,\n",
    ),
    _beating(
        "a member that says nothing has given up its partitions",
        MEMBER,
        "    if owned is None:\n        return True\n",
        "    if owned is None:\n        return False\n",
    ),
    # Members that are gone
    _beating(
        "sessions of members do not go on after a load",
        TIMEOUTS,
        "            renew_session(shard, group_id, member.member_id, decision, timeout_ms)\n            if member",
        "            if member",
    ),
    _beating(
        "a group does not go on when a member is gone",
        LEAVE,
        "epoch_record(group_id, group.epoch + 1, decision.topics.group_hash(topics))",
        "epoch_record(group_id, group.epoch, decision.topics.group_hash(topics))",
    ),
    # Members that wait, and commits
    _beating(
        "a member does not wait for what others have not released",
        RECONCILE,
        "        state = UNRELEASED if waits else STABLE\n",
        "        state = STABLE\n",
    ),
    _beating(
        "a transaction may commit for a member of any epoch",
        EPOCHS,
        "        return self._check_epoch(member, generation_id, message.topics, decision)\n\n    def _check_epoch",
        "        return error_codes.NONE\n\n    def _check_epoch",
    ),
]
