"""Bugs to plant in tiered storage: copies, deletions, reads, logs that begin in the middle, the metadata of the store.

What cannot show is not planted: copies of records that were lost in an unclean election (topics with several replicas
have none, since only what is committed is copied), and a FINISHED behind a DELETE (writers refuse it, too).
"""

from .kind import TIERING
from .mutation import Mutation

COPYING = "kpybroker/machines/remote_log/copying.py"
DELETING = "kpybroker/machines/remote_log/deleting.py"
EXPIRY = "kpybroker/machines/remote_log/expiry.py"
FOLLOWER = "kpybroker/machines/remote_log/follower.py"
CACHE = "kpybroker/machines/remote_log/cache.py"
EMPTY_LEADER = "kpybroker/machines/remote_log/empty_leader.py"
LED_TIER = "kpybroker/hosts/remote_log/led_tier.py"
LOCAL_VIEW = "kpybroker/hosts/remote_log/local_view.py"
READS = "kpybroker/hosts/remote_log/reads.py"
SEGMENT_READS = "kpybroker/hosts/remote_log/segment_reads.py"
EMPTY_LEADERS = "kpybroker/hosts/remote_log/empty_leaders.py"
SWEEP = "kpybroker/machines/remote_log/sweep.py"
LINEAGE = "kpybroker/machines/remote_log/lineage.py"
TIME_SEARCH = "kpybroker/hosts/remote_log/time_search.py"
SWEEPING = "kpybroker/hosts/remote_log/sweeping.py"


def _tiering(name: str, path: str, old: str, new: str) -> Mutation:
    return Mutation(name, path, old, new, world=TIERING)


TIERING_MUTATIONS = [
    # Copies
    _tiering(
        "objects are written before their segment is announced",
        COPYING,
        "        return [AppendRecord(segment)]\n",
        "        self._try.stage = CopyStage.COPYING\n"
        "        return [AppendRecord(segment), CopyObjects(segment, self._try.deadline_ms)]\n",
    ),
    _tiering(
        "a copy counts as readable as soon as it has begun",
        CACHE,
        "            of_epoch.unreferenced.add(name)\n        if before is None:\n",
        "            of_epoch.finish(segment.epoch_start(epoch), segment.epoch_end(epoch) - 1, name)\n"
        "        if before is None:\n",
    ),
    _tiering(
        "a copy that failed is reported as finished",
        LED_TIER,
        "        if error is None:\n            self._figures.copied_bytes",
        "        if error is None or not was_stopped:\n            self._figures.copied_bytes",
    ),
    _tiering(
        "records are copied that are not stable",
        LOCAL_VIEW,
        "        last_stable_offset=role.last_stable_offset().offset,\n",
        "        last_stable_offset=log.end.offset,\n",
    ),
    _tiering(
        "a copy has no transaction index",
        LOCAL_VIEW,
        "            transaction_index=None if self.transaction_index is None else self.transaction_index.read(),\n",
        "            transaction_index=None,\n",
    ),
    _tiering(
        "a copy says that it has no aborted transactions",
        LED_TIER,
        "        return not has_aborted_transactions(leader.log, following[0].base_offset)\n",
        "        return True\n",
    ),
    _tiering(
        "a copy that nobody finishes stays for ever",
        EXPIRY,
        "if now_ms - since_ms >= self._wait_ms)",
        "if now_ms < since_ms)",
    ),
    _tiering(
        "what is copied is reported before the copy is finished",
        COPYING,
        "        now.stage = CopyStage.FINISHING\n",
        "        now.stage = CopyStage.FINISHING\n"
        "        self.copied = CopiedOffset(now.segment.end_offset, now.segment.leader_epochs[-1][0])\n",
    ),
    _tiering(
        "a copy names epochs from where they began in the log",
        COPYING,
        "    cut = [(epoch, max(start, base_offset), end)",
        "    cut = [(epoch, start, end)",
    ),
    _tiering(
        "a copy has the epochs that came after it",
        LOCAL_VIEW,
        "    epochs.truncate_from_end(next_offset)\n",
        "",
    ),
    # The disk
    _tiering(
        "a disk believes the highest copied offset",
        EXPIRY,
        "    return min(log.high_watermark, copied_until(segments, log.epochs, max(first, log.log_start_offset)))\n",
        "    copied = max([segments.highest_offset(epoch) for epoch, _ in log.epochs], default=first - 1)\n"
        "    return min(log.high_watermark, copied + 1)\n",
    ),
    _tiering(
        "a disk loses what is committed, copied or not",
        EXPIRY,
        "    return min(log.high_watermark, copied_until(segments, log.epochs, max(first, log.log_start_offset)))\n",
        "    return log.high_watermark + 0 * first\n",
    ),
    # Deletions
    _tiering(
        "segments are deleted before the log start has moved",
        DELETING,
        "        else:\n            asked += expiry.expired\n",
        "        asked += expiry.expired\n",
    ),
    _tiering(
        "objects are deleted before their deletion is announced",
        DELETING,
        "                if each.segment.state is DELETING\n",
        "                if each.segment.state is not None\n",
    ),
    _tiering(
        "a topic without retention loses records",
        EXPIRY,
        "size_bytes - settings.retention_bytes if settings.retention_bytes >= 0 else 0\n",
        "size_bytes - settings.retention_bytes if settings.retention_bytes >= 0 else size_bytes\n",
    ),
    _tiering(
        "the deletion of a partition ends before that of its segments",
        DELETING,
        "        if state is RemotePartitionDeleteState.DELETE_PARTITION_STARTED and len(self._segments):\n",
        "        if state is RemotePartitionDeleteState.DELETE_PARTITION_STARTED and not self._segments:\n",
    ),
    _tiering(
        "objects of no segment stay",
        SWEEPING,
        "        if orphans and self._pulse.beats:\n",
        "        if orphans and not self._pulse.beats:\n",
    ),
    _tiering(
        "a deletion that failed is not tried again",
        DELETING,
        "        found.is_under_way = False\n",
        "        found.is_under_way = True\n",
    ),
    _tiering(
        "retention counts what is below the log start",
        EXPIRY,
        "        if each.end_offset >= log.log_start_offset and not is_counted:\n",
        "        if not is_counted:\n",
    ),
    _tiering(
        "retention deletes a segment that is larger than the excess",
        EXPIRY,
        "            is_too_much = excess > 0 and segment.size_bytes <= excess\n",
        "            is_too_much = excess > 0\n",
    ),
    _tiering(
        "segments below the log start stay",
        EXPIRY,
        "        if _is_below_start(segment, log.log_start_offset, epochs):\n",
        "        if _is_below_start(segment, 0, epochs):\n",
    ),
    _tiering(
        "a topic that is no longer tiered leaves its segments in the store",
        EXPIRY,
        "    return RemoteExpiry(start, tuple(listed), (), 0)\n",
        "    return RemoteExpiry(start, tuple(listed[:1]) if start else (), (), 0)\n",
    ),
    _tiering(
        "objects of no segment are deleted at once",
        SWEEP,
        "                is_old = now_ms - since_ms >= self._wait_ms\n",
        "                is_old = now_ms >= since_ms\n",
    ),
    _tiering(
        "objects of another cluster are deleted",
        SWEEPING,
        "        is_known = topic_id in self._topics or ",
        "        is_known = bool(topic_id) or ",
    ),
    # Taking over
    _tiering(
        "a new leader does not copy what a former one left out",
        LED_TIER,
        "            self._copies.copied = yield from lineage.copied_without_gap(segments, *of_log)\n",
        "            self._copies.copied = lineage.highest_copied(segments, *of_log[:2])\n",
    ),
    _tiering(
        "a new leader's log begins with records that a former one deleted",
        LED_TIER,
        "            if start > log_now.log_start_offset:\n",
        "            if start > log_now.end_offset:\n",
    ),
    # Reads
    _tiering(
        "records of a leader that lost them are served",
        LINEAGE,
        "        if our_next != their_next or until == segment.next_offset:\n            return until\n",
        "        if our_next != their_next or until == segment.next_offset:\n            return segment.next_offset\n",
    ),
    _tiering(
        "copies within one that is deleted are not read in its place",
        CACHE,
        "            self.deletions += 1\n            self._read_again(row)\n",
        "            self.deletions += 1\n",
    ),
    _tiering(
        "aborted transactions whose marker is on the disk are not named",
        READS,
        "        if log.is_open:\n            for each in log.aborted",
        "        if not log.is_open:\n            for each in log.aborted",
    ),
    _tiering(
        "a read begins behind the place that the index names",
        SEGMENT_READS,
        "    position = _OFFSET_ENTRY.unpack_from(index, 8 * (at - 1))[1] if at else 0\n    file",
        "    position = _OFFSET_ENTRY.unpack_from(index, 8 * min(at, count - 1))[1] if count else 0\n    file",
    ),
    _tiering(
        "a search by time leaves out the segment whose newest record has it",
        TIME_SEARCH,
        "            elif copy is not None and copy.segment.max_timestamp_ms >= search.timestamp:\n",
        "            elif copy is not None and copy.segment.max_timestamp_ms > search.timestamp:\n",
    ),
    _tiering(
        "readers of committed records get no aborted transactions from the store",
        SEGMENT_READS,
        '    index = storage.index(segment, IndexType.TRANSACTION) or b""\n',
        '    index = b""\n',
    ),
    _tiering(
        "aborted transactions are searched in one segment alone",
        READS,
        "            self._look_for_aborted(key, read, following)\n",
        "            self._done(key, read, None)\n",
    ),
    _tiering(
        "a read leaves out the batch in whose end it begins",
        SEGMENT_READS,
        "        if header.last_offset >= offset:\n",
        "        if header.last_offset > offset:\n",
    ),
    # Logs that begin in the middle
    _tiering(
        "a follower takes the end of a copy that its leader has lost",
        FOLLOWER,
        "        if epoch != segment.leader_epochs[-1][0] or end_offset < segment.next_offset:\n",
        "        if epoch < 0:\n",
    ),
    _tiering(
        "a follower asks for the epoch behind the one that ends there",
        FOLLOWER,
        "        return AskEpochEnd(epoch - 1)\n",
        "        return AskEpochEnd(epoch)\n",
    ),
    _tiering(
        "a leader without records begins behind the oldest epoch",
        EMPTY_LEADER,
        "        newest = epochs[-1]\n",
        "        newest = epochs[0]\n",
    ),
    _tiering(
        "a follower that begins in the middle knows one leader epoch",
        FOLLOWER,
        "            return StartAt(segment.next_offset, self._log_start, epochs, producer_snapshot)\n",
        "            return StartAt(segment.next_offset, self._log_start, epochs[-1:], producer_snapshot)\n",
    ),
    _tiering(
        "a follower that begins in the middle knows no producers",
        FOLLOWER,
        "            return StartAt(segment.next_offset, self._log_start, epochs, producer_snapshot)\n",
        "            return StartAt(segment.next_offset, self._log_start, epochs, None)\n",
    ),
    _tiering(
        "a follower that begins in the middle forgets what is in the store",
        FOLLOWER,
        "            return StartAt(segment.next_offset, self._log_start, epochs, producer_snapshot)\n",
        "            return StartAt(segment.next_offset, segment.next_offset, epochs, producer_snapshot)\n",
    ),
    _tiering(
        "a leader without records serves at once",
        EMPTY_LEADERS,
        "        if segments is not None and isinstance(of.machine.found(segments), StayEmpty):\n            return\n",
        "        if segments is not None and of.machine.found(segments) is not None:\n            return\n",
    ),
    _tiering(
        "a leader without records begins where the last segment does",
        EMPTY_LEADER,
        "        end = segment.next_offset\n",
        "        end = segment.start_offset\n",
    ),
]
