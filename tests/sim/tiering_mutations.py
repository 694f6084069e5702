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
        "        if error is None or isinstance(error, StoreFailed):\n            self._figures.copied_bytes",
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
    # The disk
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
    # Reads
    _tiering(
        "readers of committed records get no aborted transactions from the store",
        SEGMENT_READS,
        '    index = storage.index(segment, IndexType.TRANSACTION) or b""\n',
        '    index = b""\n',
    ),
    _tiering(
        "aborted transactions are searched in one segment alone",
        READS,
        "            self._look_for_aborted(key, read, segment.next_offset)\n",
        "            self._done(key, read, None)\n",
    ),
    _tiering(
        "a read leaves out the batch in whose end it begins",
        SEGMENT_READS,
        "        if found[1].last_offset >= offset:\n",
        "        if found[1].last_offset > offset:\n",
    ),
    # Logs that begin in the middle
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
        "        if found.size > 0:\n            return\n",
        "        if found.size >= 0:\n            return\n",
    ),
    _tiering(
        "a leader without records begins where the last segment does",
        EMPTY_LEADER,
        "        end = segment.next_offset\n",
        "        end = segment.start_offset\n",
    ),
]
