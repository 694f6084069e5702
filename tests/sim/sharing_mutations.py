"""Bugs to plant in share groups (KIP-932): members, share partitions, and the share coordinator."""

from .kind import SHARING
from .mutation import Mutation

RECORD_STATE = "kpybroker/machines/share/record_state.py"
PARTITION = "kpybroker/machines/share/partition.py"
ACKNOWLEDGING = "kpybroker/machines/share/acknowledging.py"
ABORTED = "kpybroker/machines/share/aborted.py"
LED = "kpybroker/requests/serving/share/led.py"
WAITING = "kpybroker/requests/serving/share/waiting.py"
COORDINATOR = "kpybroker/machines/share_coordinator/requests.py"
WRITER = "kpybroker/requests/serving/share/dead_letter_writer.py"
SHARD = "kpybroker/machines/share_coordinator/shard.py"
BATCHES = "kpybroker/machines/share_coordinator/state_batches.py"
HEARTBEAT = "kpybroker/machines/groups/share/heartbeat.py"
TARGET = "kpybroker/machines/groups/share/target.py"


def _sharing(name: str, path: str, old: str, new: str, nodes: int = 1) -> Mutation:
    return Mutation(name, path, old, new, nodes, world=SHARING)


SHARING_MUTATIONS = [
    # Records and their members
    _sharing(
        "records that a member has are given to another",
        RECORD_STATE,
        "        return self.state == AVAILABLE and self.before is None\n",
        "        return self.state in (AVAILABLE, ACQUIRED) and self.before is None\n",
    ),
    _sharing(
        "accepted records are given again",
        ACKNOWLEDGING,
        "ACCEPT: ACKNOWLEDGED,",
        "ACCEPT: AVAILABLE,",
    ),
    _sharing(
        "rejected records are given again",
        ACKNOWLEDGING,
        "REJECT: ARCHIVED}",
        "REJECT: AVAILABLE}",
    ),
    _sharing(
        "a member may acknowledge what another one has",
        ACKNOWLEDGING,
        "    if state.member_id != member_id:\n",
        "    if not member_id:\n",
    ),
    _sharing(
        "records are delivered once more than the limit allows",
        RECORD_STATE,
        "self.delivery_count >= limit.deliveries else state",
        "self.delivery_count > limit.deliveries else state",
    ),
    _sharing(
        "the limit of deliveries does not matter",
        RECORD_STATE,
        "limit.state if state == AVAILABLE and self.delivery_count >= limit.deliveries else state",
        "state",
    ),
    _sharing(
        "a release of a member frees what others have",
        ACKNOWLEDGING,
        "            if state.member_id == member_id and state.state == ACQUIRED:\n",
        "            if state.state == ACQUIRED:\n",
    ),
    # Locks
    _sharing(
        "locks do not end",
        PARTITION,
        "            if state.lock_until_ms is None or state.lock_until_ms > now_ms:\n",
        "            if state.lock_until_ms is None or state.lock_until_ms > 0:\n",
    ),
    _sharing(
        "locks end too soon",
        PARTITION,
        "        until_ms = now_ms + self.settings.lock_duration_ms\n",
        "        until_ms = now_ms + self.settings.lock_duration_ms // 8\n",
    ),
    _sharing(
        "a renewal does not prolong a lock",
        ACKNOWLEDGING,
        "            state.lock_until_ms = partition.lock(first, last, now_ms)\n",
        "            pass\n",
    ),
    # Offsets
    _sharing(
        "the start offset moves over records that are in flight",
        PARTITION,
        "                if state.is_changing or not state.is_terminal:\n                    return last_done, count\n",
        "                if state.is_changing:\n                    return last_done, count\n",
    ),
    _sharing(
        "gaps between stored records are not read again",
        PARTITION,
        "        if gap_start is not None:\n            self._gap_start, self._gap_end",
        "        if gap_start == -1:\n            self._gap_start, self._gap_end",
    ),
    _sharing(
        "released records are not offered again",
        PARTITION,
        "            if state.state == AVAILABLE:\n                self.finds_next_offset = True\n            elif",
        "            if",
    ),
    _sharing(
        "loaded records that are available are not offered again",
        PARTITION,
        "        self.finds_next_offset = True\n        self.end_offset = batches[-1].last_offset\n",
        "        self.end_offset = batches[-1].last_offset\n",
    ),
    # What is stored
    _sharing(
        "acknowledgements are answered before they are stored",
        LED,
        "        self._write(change.write, answered)\n",
        "        self._write(change.write, answered)\n"
        "        stored(error_codes.NONE, None)\n        stored = _has_no_waiters\n",
        nodes=3,
    ),
    _sharing(
        "numbers of deliveries are not stored",
        LED,
        "                    delivery_count=each.delivery_count,\n",
        "                    delivery_count=1,\n",
    ),
    _sharing(
        "a share partition is loaded without its records",
        LED,
        "                for each in result.state_batches\n",
        "                for each in result.state_batches[:0]\n",
    ),
    _sharing(
        "older states win where two overlap",
        BATCHES,
        "*max(covering)",
        "*min(covering)",
    ),
    _sharing(
        "a snapshot has only the last change",
        COORDINATOR,
        "        batches=combine(current.batches, batches, start_offset),\n",
        "        batches=combine((), batches, start_offset),\n",
    ),
    _sharing(
        "a replayed update replaces the records before it",
        SHARD,
        "                batches=combine(before.batches, batches, start_offset),\n",
        "                batches=combine((), batches, start_offset),\n",
    ),
    _sharing(
        "the log of share states is cut below its newest snapshot",
        SHARD,
        "        lowest = min(offsets, default=0)\n",
        "        lowest = max(offsets, default=0)\n",
    ),
    _sharing(
        "older leaders of share partitions are not fenced",
        COORDINATOR,
        "        _fenced(request.part.leader_epoch, state.newest_leader_epoch, error_codes.FENCED_LEADER_EPOCH)\n"
        "        or _fenced",
        "        _fenced",
        nodes=3,
    ),
    _sharing(
        "a new leader of a share partition is not noted",
        COORDINATOR,
        "    if part.leader_epoch != state.newest_leader_epoch:\n",
        "    if part.leader_epoch < 0:\n",
        nodes=3,
    ),
    _sharing(
        "a state that is there is initialised again",
        HEARTBEAT,
        "    known = merged(states.initialized, states.initializing) if is_fresh else states.initialized\n",
        "    known = states.initializing\n",
    ),
    # Aborted transactions
    _sharing(
        "aborted records are delivered",
        WAITING,
        "            if aborted:\n",
        "            if not aborted:\n",
    ),
    _sharing(
        "records of open transactions are delivered",
        WAITING,
        "        end, first = role.end_for(self._isolation), max(offset, log_start_offset)\n",
        "        end, first = role.end_for(0), max(offset, log_start_offset)\n",
    ),
    _sharing(
        "an abort marker of one producer ends the transactions of all",
        ABORTED,
        "            open_producers.discard(batch.producer_id)\n",
        "            open_producers.clear()\n",
    ),
    # The group
    _sharing(
        "partitions whose states were initialised are not assigned",
        TARGET,
        "    return any(\n        topic_id not in assigned or",
        "    return not any(\n        topic_id not in assigned or",
    ),
    _sharing(
        "a share group does not go on when a member is gone",
        "kpybroker/machines/groups/share/leave.py",
        "epoch_record(group.group_id, group.epoch + 1, metadata_hash)",
        "epoch_record(group.group_id, group.epoch, metadata_hash)",
    ),
    _sharing(
        "sessions of share members do not go on after a load",
        "kpybroker/machines/groups/share/timeouts.py",
        "    for member_id in () if group is None else group.ordered_members():\n",
        "    for member_id in ():\n",
    ),
    # Dead letters
    _sharing(
        "rejected records have no dead letters",
        ACKNOWLEDGING,
        "        return ARCHIVING\n",
        "        return ARCHIVED\n",
    ),
    _sharing(
        "records that are counted out have no dead letters",
        PARTITION,
        "ARCHIVING if self.dead_letters else ARCHIVED",
        "ARCHIVED",
    ),
    _sharing(
        "a takeover forgets dead letters that are not settled",
        PARTITION,
        "                unsettled.append(",
        "                tuple(",
        nodes=3,
    ),
    _sharing(
        "a group is done with a record before its dead letter is settled",
        RECORD_STATE,
        "frozenset((ACKNOWLEDGED, ARCHIVED))",
        "frozenset((ACKNOWLEDGED, ARCHIVING, ARCHIVED))",
        nodes=3,
    ),
    _sharing(
        "dead letters are produced once, whatever the error",
        WRITER,
        "            elif code in MAY_PASS:\n",
        "            elif code < error_codes.UNKNOWN_SERVER_ERROR:\n",
        nodes=3,
    ),
    _sharing(
        "dead letters are confirmed when they were not written",
        WRITER,
        "            if code == error_codes.NONE:\n",
        "            if code <= error_codes.NOT_LEADER_OR_FOLLOWER:\n",
        nodes=3,
    ),
]
