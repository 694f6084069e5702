"""Bugs to plant in groups of the consumer protocol (KIP-848)."""

from .mutation import Mutation

RECONCILE = "kpybroker/groups/consumer/reconcile.py"
GROUP = "kpybroker/groups/consumer/consumer_group.py"
RECORDS = "kpybroker/groups/consumer/records.py"


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
]
