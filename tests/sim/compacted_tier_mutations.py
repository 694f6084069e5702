"""Bugs to plant in compacted tiered topics: the cleaner of a disk, the copies, the passes over the store."""

from .mutation import Mutation

COMPACTING = "kpybroker/machines/remote_log/compacting.py"
STORED_CLEANING = "kpybroker/hosts/remote_log/stored_cleaning.py"
LOCAL_VIEW = "kpybroker/hosts/remote_log/local_view.py"
DISK_PASS = "kpybroker/hosts/replicas/compaction_pass.py"
COMPACTION = "compaction"


def _compaction(name: str, path: str, old: str, new: str) -> Mutation:
    return Mutation(name, path, old, new, world=COMPACTION)


COMPACTED_TIER_MUTATIONS = [
    _compaction(
        "the cleaner of a disk drops tombstones that the store still needs",
        DISK_PASS,
        "    return 0 if config.is_tiered else UNBOUNDED\n",
        "    return UNBOUNDED\n",
    ),
    _compaction(
        "a pass in the store drops tombstones that it reads for the first time",
        STORED_CLEANING,
        "        dirt.first_dirty_offset,\n    )\n",
        "        dirt.end_offset,\n    )\n",
    ),
    _compaction(
        "all below the end of the last pass counts as clean",
        COMPACTING,
        "            clean_until = min(clean_until, max(each.compacted_until, each.start))\n",
        "            clean_until = max([part.compacted_until for part in parts])\n",
    ),
    _compaction(
        "a new segment claims keys that the map had no room for",
        STORED_CLEANING,
        "        return self._result(parts, cleaned, cleaning.end_offset)\n",
        "        return self._result(parts, cleaned, parts[-1].next_offset + 1_000)\n",
    ),
    _compaction(
        "old segments go before the new one can be read",
        COMPACTING,
        "        return [AppendTogether((new, *old))]\n",
        "        return [AppendTogether((*old, new))]\n",
    ),
    _compaction(
        "copies do not wait for the cleaner",
        LOCAL_VIEW,
        "    if not log.config.cleanup_compact:\n",
        "    if log.config.cleanup_compact:\n",
    ),
    _compaction(
        "a pass reads a copy that overlaps another as a whole",
        STORED_CLEANING,
        "        if part.start > segment.start_offset:\n",
        "        if part.start < segment.start_offset:\n",
    ),
    _compaction(
        "a new segment has the epochs of its first part alone",
        COMPACTING,
        "    for part in parts:\n        for epoch, start in part.segment.leader_epochs:\n",
        "    for part in parts[:1]:\n        for epoch, start in part.segment.leader_epochs:\n",
    ),
    _compaction(
        "copies that lost their place to a new segment stay",
        COMPACTING,
        "        if _is_part_of(new, each):\n",
        "        if not new.leader_epochs:\n",
    ),
    _compaction(
        "a new segment has the bytes of another layout than it says",
        COMPACTING,
        "            group.next_offset - 1,\n            self._settings.broker_id,\n",
        "            group.next_offset - 2,\n            self._settings.broker_id,\n",
    ),
]
