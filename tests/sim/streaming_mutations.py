"""Bugs to plant in streams groups (KIP-1071)."""

from .kind import STREAMING
from .mutation import Mutation

RECONCILE = "kpybroker/machines/groups/streams/reconcile.py"
GROUP = "kpybroker/machines/groups/streams/streams_group.py"
EPOCHS = "kpybroker/machines/groups/epochs/epoch_members.py"
RECORDS = "kpybroker/machines/groups/streams/records.py"
REPLAY = "kpybroker/machines/groups/streams/replay.py"
HEARTBEAT = "kpybroker/machines/groups/streams/heartbeat.py"
TIMEOUTS = "kpybroker/machines/groups/streams/timeouts.py"
DESCRIPTIONS = "kpybroker/machines/groups/streams/descriptions.py"
TOPOLOGY = "kpybroker/machines/groups/streams/topology.py"
ASSIGNOR = "kpybroker/machines/groups/streams/assignor.py"
HANDLER = "kpybroker/requests/handlers/streams_group_heartbeat.py"


def _streaming(name: str, path: str, old: str, new: str, nodes: int = 1) -> Mutation:
    return Mutation(name, path, old, new, nodes, world=STREAMING)


STREAMING_MUTATIONS = [
    # Who may have a task
    _streaming(
        "an active task is given although a process has it",
        RECONCILE,
        "        return task in self.group.active_processes or self._others_stand_by(task)",
        "        return self._others_stand_by(task)",
    ),
    _streaming(
        "nobody waits until a member has given up its tasks",
        RECONCILE,
        "        if not revoked.is_empty and (self.owned is None or self.owned.has_any(revoked)):\n",
        "        if not revoked.is_empty and self.epoch < 0:\n",
    ),
    _streaming(
        "a member that says nothing has given up its tasks",
        RECONCILE,
        "        if owned is None or owned.has_any(member.pending_revocation):\n",
        "        if owned is not None and owned.has_any(member.pending_revocation):\n",
    ),
    _streaming(
        "tasks that a member has to give up are free",
        GROUP,
        "            self._release(old)\n        for tasks in (member.assigned, member.pending_revocation):\n",
        "            self._release(old)\n        for tasks in (member.assigned,):\n",
    ),
    _streaming(
        "tasks that a member has to give up are not in the log",
        RECORDS,
        "        active_tasks_pending_revocation=_with_epochs(pending.active),\n",
        "        active_tasks_pending_revocation=[],\n",
    ),
    _streaming(
        "tasks that a member has to give up are not read from the log",
        REPLAY,
        "                _with_epochs(value.active_tasks_pending_revocation, value.member_epoch),\n",
        "                {},\n",
    ),
    _streaming(
        "a process may have a task as a standby and active",
        RECONCILE,
        "        return is_run or process_id in group.standby_processes",
        "        return process_id in group.standby_processes",
    ),
    _streaming(
        "a standby is given to the process that has the task",
        ASSIGNOR,
        "            if task not in process.tasks:\n",
        "            if task is not None:\n",
    ),
    # The description of the topology
    _streaming(
        "a description of a topology is not in the log",
        DESCRIPTIONS,
        "as_recorded(topology, description)",
        "as_recorded(topology, b'')",
    ),
    _streaming(
        "a description of a topology is not read from the log",
        TOPOLOGY,
        "    return Topology(value.epoch, subtopologies, readers, topics, value.description)\n",
        "    return Topology(value.epoch, subtopologies, readers, topics, None)\n",
    ),
    # Members that are gone
    _streaming(
        "sessions of streams members do not go on after a load",
        TIMEOUTS,
        "            renew_session(shard, group_id, member_id, decision)\n            limit_rebalance",
        "            limit_rebalance",
    ),
    _streaming(
        "a streams group does not go on when a member is gone",
        TIMEOUTS,
        "            group.epoch + 1,\n",
        "            group.epoch,\n",
    ),
    # Members that wait, and commits
    _streaming(
        "a streams member does not wait for tasks that others have",
        RECONCILE,
        "            state=UNRELEASED if waits else STABLE,\n",
        "            state=STABLE,\n",
    ),
    _streaming(
        "a streams member hears of tasks only when it joins",
        HEARTBEAT,
        "        if joins or has_other_tasks:\n            response.active_tasks",
        "        if joins:\n            response.active_tasks",
    ),
    _streaming(
        "internal topics are not created",
        HANDLER,
        "        if given.missing:\n",
        "        if not given:\n",
    ),
    _streaming(
        "a transaction may commit for a streams member of any epoch",
        EPOCHS,
        "        return self._check_epoch(member, generation_id, message.topics, decision)\n\n    def _check_epoch",
        "        return error_codes.NONE\n\n    def _check_epoch",
    ),
    _streaming(
        "a transaction may commit for a streams member that is gone",
        EPOCHS,
        "            return error_codes.UNKNOWN_MEMBER_ID\n        return self._check_epoch",
        "            return error_codes.NONE\n        return self._check_epoch",
    ),
]
